/* No memory at step n of a blocking call: opening, handles, acquiring, holding, releasing (memory.h). The asan stage
 * runs this too, to find leaks.
 *
 * asks A2 redisson 2714: nothing that ends half-way leaves a renewed lock. A4 redis-py PR 4258: a failed release leaves
 * the lock releasable. */
#include "memory.h"

#include <string.h>

static void start(void)
{
    fault_up(0);
}

TestSuite(memory, .init = start, .fini = fixture_end, .timeout = 120);

enum { FIXED_MS = 1000 };

/* --- opening */

static enum hlk_status open_once(struct memory_task *t, unsigned flags)
{
    struct hlk_client_opts opts = fault_opts();
    opts.flags = flags;
    opts.reconnect_timeout_ms = 500;
    enum hlk_status status = hlk_client_open(&t->client, fixture.url, &opts);
    cr_assert_eq(t->client == NULL, status != HLK_OK);
    if (status == HLK_E_CONNECT) /* no attempt had memory within the reconnect timeout */
        cr_assert_not_null(strstr(hlk_last_error(), "no memory"), "%s", hlk_last_error());
    return status;
}

static enum hlk_status act_open(struct memory_task *t)
{
    return open_once(t, 0);
}

static enum hlk_status act_open_dispatch(struct memory_task *t)
{
    return open_once(t, HLK_OPEN_DISPATCH);
}

static void after_open(struct memory_task *t, enum hlk_status status)
{
    (void)status;
    hlk_client_close(t->client);
    t->client = NULL;
}

Test(memory, that_is_short_while_opening)
{
    memory_for_every_step(&(struct memory_kind){ NULL, act_open, after_open, 8 });
}

Test(memory, that_is_short_while_opening_for_dispatch)
{
    memory_for_every_step(&(struct memory_kind){ NULL, act_open_dispatch, after_open, 8 });
}

/* --- handles */

static enum hlk_status act_handles(struct memory_task *t)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    enum hlk_status worst = HLK_OK;
    hlk_owner *owner = hlk_owner_create(t->client, "another");
    worst = owner ? worst : hlk_last_status();
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(t->client, "t-another", &opts);
    worst = lock ? worst : hlk_last_status();
    hlk_cancel *cancel = hlk_cancel_create(t->client);
    worst = cancel ? worst : hlk_last_status();
    if (lock && hlk_lock_lost_fd(lock) < 0)
        worst = hlk_last_status();
    hlk_cancel_destroy(cancel);
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    return worst;
}

Test(memory, that_is_short_while_making_handles)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_any, act_handles, NULL, 3 });
}

/* --- acquiring: in a thread without a thread context */

static enum hlk_status act_try(struct memory_task *t)
{
    t->actor = actor_start_wait(t->owned, HLK_NOWAIT);
    return actor_status(t->actor);
}

Test(memory, that_is_short_in_a_try)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_any, act_try, memory_after_acquire, 2 });
}

/* --- several at once */

static hlk_lock *second, *both;

static void before_both(struct memory_task *t)
{
    memory_before_any(t);
    second = hlk_lock_create(t->client, "t-second", NULL);
    hlk_lock *members[] = { t->owned, second };
    both = hlk_lock_create_multilock(members, 2, NULL);
    cr_assert_not_null(both, "%s", hlk_last_error());
}

static enum hlk_status act_both(struct memory_task *t)
{
    t->actor = actor_start_wait(both, 5000);
    return actor_status(t->actor);
}

/* Without memory for its release a member is not renewed any more, and its lease runs out. */
static void after_both(struct memory_task *t, enum hlk_status status)
{
    if (status == HLK_OK)
        cr_assert_eq(raw_int(fixture.redis, "EXISTS t t-second"), 2);
    if (status == HLK_OK)
        cr_assert_eq(actor_end(t->actor), HLK_OK);
    else
        actor_leave(t->actor);
    cr_assert_eq(hlk_lock_holds(t->owned), 0);
    WITHIN(FREE_MS, is_free("t-second"));
    hlk_lock_destroy(both);
    hlk_lock_destroy(second);
}

Test(memory, that_is_short_in_an_acquire_of_several)
{
    memory_for_every_step(&(struct memory_kind){ before_both, act_both, after_both, 6 });
}

static enum hlk_status act_multilock(struct memory_task *t)
{
    hlk_lock *members[] = { t->lock };
    hlk_lock *multilock = hlk_lock_create_multilock(members, 1, NULL);
    enum hlk_status status = multilock ? HLK_OK : hlk_last_status();
    hlk_lock_destroy(multilock);
    return status;
}

Test(memory, that_is_short_while_making_a_multilock)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_any, act_multilock, NULL, 3 });
}

/* One failure may cost the subscription, never the wake-up. As long as nothing can be subscribed, a wait ends by its
 * deadline. */
static enum hlk_status act_wait(struct memory_task *t)
{
    t->actor = actor_start_wait(t->owned, t->later ? 400 : 10000);
    WAIT_FOR(actor_answered(t->actor) || raw_listeners(fixture.redis, "t") == 1);
    memory_free_it();
    enum hlk_status status = actor_status(t->actor);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

Test(memory, that_is_short_in_a_wait)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_wait, act_wait, memory_after_acquire, 4 });
}

/* Released before the subscription is confirmed: no message comes, it has to send again by itself. */
static enum hlk_status act_wait_without_message(struct memory_task *t)
{
    t->actor = actor_start_wait(t->owned, t->later ? 400 : 10000);
    WAIT_FOR(actor_answered(t->actor) || fixture_counters(t->client).waiting == 1);
    memory_free_it();
    enum hlk_status status = actor_status(t->actor);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

Test(memory, that_is_short_in_a_wait_for_a_lock_since_freed)
{
    memory_for_every_step(
        &(struct memory_kind){ memory_before_wait, act_wait_without_message, memory_after_acquire, 4 });
}

static enum hlk_status act_cancelled_wait(struct memory_task *t)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_cancel *cancel = hlk_cancel_create(t->client);
    if (!cancel)
        return hlk_last_status();
    opts.cancel = cancel;
    t->actor = actor_start(t->owned, &opts);
    WAIT_FOR(actor_answered(t->actor) || fixture_counters(t->client).waiting == 1);
    hlk_cancel_trigger(cancel);
    enum hlk_status status = actor_status(t->actor);
    actor_leave(t->actor);
    t->actor = NULL;
    hlk_cancel_destroy(cancel);
    return status == HLK_INTERRUPTED ? HLK_OK : status;
}

static void after_cancelled(struct memory_task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(hlk_lock_holds(t->owned), 0);
    memory_free_it();
}

Test(memory, that_is_short_in_a_cancelled_wait)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_wait, act_cancelled_wait, after_cancelled, 3 });
}

/* --- holding: nested holds, commands */

static enum hlk_status act_questions(struct memory_task *t)
{
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    fixed.lease_ms = FIXED_MS;
    enum hlk_status status = hlk_lock_extend(t->owned, FIXED_MS);
    if (status == HLK_OK)
        status = hlk_lock_query(t->owned, &state);
    if (status == HLK_OK && (status = hlk_lock_acquire_with(t->owned, &fixed)) == HLK_OK)
        status = hlk_lock_release(t->owned);
    cr_assert(hlk_lock_holds(t->owned) == 1 || status != HLK_OK);
    return status;
}

static void after_questions(struct memory_task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_geq(hlk_lock_holds(t->owned), 1);
    while (hlk_lock_holds(t->owned))
        cr_assert_eq(hlk_lock_release(t->owned), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(t->owned), HLK_NOT_HOLDER);
}

Test(memory, that_is_short_while_holding)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_questions, after_questions, 4 });
}

static enum hlk_status act_break(struct memory_task *t)
{
    return hlk_lock_break(t->owned);
}

/* Broken or not: the status of the holder's release is true. */
static void after_break(struct memory_task *t, enum hlk_status status)
{
    enum hlk_status released = hlk_lock_release(t->owned);
    cr_assert_eq(released, status == HLK_OK ? HLK_LOST : HLK_OK, "%s", hlk_status_name(released));
}

Test(memory, that_is_short_while_breaking)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_break, after_break, 1 });
}

/* --- releasing */

static enum hlk_status act_release(struct memory_task *t)
{
    return hlk_lock_release(t->owned);
}

Test(memory, that_is_short_while_releasing)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_release, memory_after_release, 2 });
}
