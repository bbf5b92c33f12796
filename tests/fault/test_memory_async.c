/* No memory at step n of background work: completions, renewals, losses, closing (memory.h). */
#include "memory.h"

static void start(void)
{
    fault_up(0);
}

TestSuite(memory, .init = start, .fini = fixture_end, .timeout = 120);

/* --- completions */

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct memory_task *t = ctx;
    atomic_store(&t->done_status, status);
    atomic_fetch_add(&t->done, 1);
}

static enum hlk_status outcome(struct memory_task *t, enum hlk_status accepted)
{
    if (accepted != HLK_OK)
        return accepted;
    WAIT_FOR(atomic_load(&t->done) > 0);
    atomic_store(&t->done, 0);
    return (enum hlk_status)atomic_load(&t->done_status);
}

static enum hlk_status acquire_async(struct memory_task *t, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_lock_acquire_async(t->owned, &opts, on_done, t);
}

static enum hlk_status act_try_async(struct memory_task *t)
{
    return outcome(t, acquire_async(t, HLK_NOWAIT));
}

static enum hlk_status act_wait_async(struct memory_task *t)
{
    enum hlk_status status = acquire_async(t, t->later ? 400 : 10000);
    if (status == HLK_OK)
        WAIT_FOR(atomic_load(&t->done) || raw_listeners(fixture.redis, "t") == 1);
    memory_free_it();
    status = outcome(t, status);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

static enum hlk_status act_release_async(struct memory_task *t)
{
    enum hlk_status status = outcome(t, hlk_lock_release_async(t->owned, on_done, t));
    return t->later && status == HLK_LOST ? HLK_OK : status; /* no memory to send it until the lease was over */
}

Test(memory, that_is_short_in_an_async_try)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_any, act_try_async, memory_after_acquire, 2 });
}

Test(memory, that_is_short_in_an_async_wait)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_wait, act_wait_async, memory_after_acquire, 4 });
}

Test(memory, that_is_short_in_an_async_release)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_release_async, memory_after_release, 1 });
}

/* --- several at once */

static hlk_lock *second, *both;

static void make_both(struct memory_task *t)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = t->owner;
    second = hlk_lock_create(t->client, "t-second", &opts);
    hlk_lock *members[] = { t->owned, second };
    both = hlk_lock_create_multilock(members, 2, NULL);
    cr_assert_not_null(both, "%s", hlk_last_error());
}

static void before_both(struct memory_task *t)
{
    memory_before_any(t);
    make_both(t);
}

static void before_both_held(struct memory_task *t)
{
    before_both(t);
    cr_assert_eq(hlk_lock_acquire(both, 5000), HLK_OK, "%s", hlk_last_error());
}

static enum hlk_status act_both_async(struct memory_task *t)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = 5000;
    return outcome(t, hlk_lock_acquire_async(both, &opts, on_done, t));
}

static enum hlk_status act_release_both_async(struct memory_task *t)
{
    enum hlk_status status = outcome(t, hlk_lock_release_async(both, on_done, t));
    return t->later && status == HLK_LOST ? HLK_OK : status;
}

/* What is held still is released with memory. A release without memory may also have left one of them held. */
static void end_both(struct memory_task *t, enum hlk_status status)
{
    if (status == HLK_OK)
        cr_assert_eq(hlk_lock_holds(t->owned), hlk_lock_holds(second));
    for (int i = 0; i < 2; i++) {
        hlk_lock *member = i ? second : t->owned;
        if (hlk_lock_holds(member) > 0)
            WAIT_FOR((status = hlk_lock_release(member), !UNKNOWN(status)));
    }
    WITHIN(FREE_MS, is_free("t-second"));
    hlk_lock_destroy(both);
    hlk_lock_destroy(second);
}

/* Nothing is held if it was not acquired. */
static void after_both(struct memory_task *t, enum hlk_status status)
{
    cr_assert_eq(hlk_lock_holds(t->owned), status == HLK_OK);
    cr_assert_eq(hlk_lock_holds(second), status == HLK_OK);
    end_both(t, status);
}

Test(memory, that_is_short_in_an_async_acquire_of_several)
{
    memory_for_every_step(&(struct memory_kind){ before_both, act_both_async, after_both, 5 });
}

Test(memory, that_is_short_in_an_async_release_of_several)
{
    memory_for_every_step(&(struct memory_kind){ before_both_held, act_release_both_async, end_both, 3 });
}

/* --- renewing, losing */

/* A renewal without memory is repeated: one failure costs no hold. */
static enum hlk_status act_renew(struct memory_task *t)
{
    uint64_t renewals = fixture_counters(t->client).renewals;
    if (t->later)
        test_sleep_ms(LEASE_MS / 2); /* the renewal in between has no memory */
    else
        WAIT_FOR(fixture_counters(t->client).renewals > renewals || hlk_lock_left_ms(t->owned) == 0);
    return hlk_lock_left_ms(t->owned) > 0 ? HLK_OK : HLK_E_NOMEM;
}

static void after_renew(struct memory_task *t, enum hlk_status status)
{
    cr_assert_eq(hlk_lock_release(t->owned), status == HLK_OK ? HLK_OK : HLK_LOST, "%s", hlk_last_error());
}

Test(memory, that_is_short_while_renewing)
{
    memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_renew, after_renew, 1 });
}

/* A loss without memory is still a loss: for every command, for the descriptor, for the release. */
static enum hlk_status act_lose(struct memory_task *t)
{
    WAIT_FOR(hlk_lock_left_ms(t->owned) == 0);
    WAIT_FOR(fixture_counters(t->client).lost == 1 || fixture_counters(t->client).held == 0);
    return HLK_OK;
}

static void before_loss(struct memory_task *t)
{
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    memory_before_any(t);
    fixed.lease_ms = 150;
    cr_assert_eq(hlk_lock_acquire_with(t->owned, &fixed), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_lock_lost_fd(t->owned), 0);
}

static void after_loss(struct memory_task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(hlk_lock_acquire(t->owned, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(t->owned), HLK_LOST);
    cr_assert_eq(hlk_lock_release(t->owned), HLK_NOT_HOLDER);
}

Test(memory, that_is_short_while_losing)
{
    memory_for_every_step(&(struct memory_kind){ before_loss, act_lose, after_loss, 1 });
}

/* --- closing, with a hold, a waiting thread and a pending completion */

static void before_close(struct memory_task *t)
{
    memory_before_hold(t);
    t->actor = actor_start(t->lock, NULL);
    WAIT_FOR_WAITERS(t->client, 1);
    hlk_owner *other = hlk_owner_create(t->client, "pending");
    hlk_lock *pending = memory_make_lock(t->client, other);
    cr_assert_eq(hlk_lock_acquire_async(pending, NULL, on_done, t), HLK_OK);
    hlk_lock_destroy(pending); /* a pending call keeps references to what it needs */
    hlk_owner_destroy(other);
    WAIT_FOR_WAITERS(t->client, 2);
}

static enum hlk_status act_close(struct memory_task *t)
{
    fixture_close(t->client);
    t->client = NULL;
    return HLK_OK;
}

/* What could not be released expires. */
static void after_close(struct memory_task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(actor_status(t->actor), HLK_E_CLOSED);
    actor_leave(t->actor);
    cr_assert_eq(atomic_load(&t->done), 1);
    cr_assert_eq(atomic_load(&t->done_status), HLK_E_CLOSED);
}

Test(memory, that_is_short_while_closing)
{
    memory_for_every_step(&(struct memory_kind){ before_close, act_close, after_close, 2 });
}
