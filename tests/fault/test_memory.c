/* No memory at step n, for every n of opening, acquiring, waiting, releasing, completing, losing and closing: the n-th
 * allocation alone fails, or all from the n-th on. The answer is HLK_E_NOMEM or success; nothing crashes or leaks (the
 * asan stage runs this too), nothing stays held, and afterwards everything works.
 *
 * asks A2 redisson 2714: nothing that ends half-way leaves a renewed lock. A4 redis-py PR 4258: a failed release leaves
 * the lock releasable. */
#include "base/mem.h"
#include "trouble.h"

#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    trouble_up(0);
}

TestSuite(memory, .init = start, .fini = stage_down, .timeout = 120);

enum { STEPS_MOST = 150, PROBES = STEPS_MOST + 50, FIXED_MS = 1000 };

struct task {
    hlk_client *client;
    hlk_owner *owner;
    hlk_lock *lock, *owned;
    struct actor *actor;
    atomic_int done, done_status;
    bool later; /* all later allocations fail too */
};

struct kind {
    void (*before)(struct task *t);                        /* with memory */
    enum hlk_status (*act)(struct task *t);                /* without */
    void (*after)(struct task *t, enum hlk_status status); /* with memory again */
    long least;                                            /* allocations that it makes for certain */
};

/* Whether the failure has struck: if not, it strikes one of ours. */
static bool struck(bool later)
{
    for (int i = 0; i < PROBES; i++) {
        void *mem = hlk_mem_zalloc(1);
        hlk_mem_free(mem);
        if (!mem)
            return later && i == 0;
    }
    return !later;
}

static hlk_client *open_short(unsigned flags)
{
    struct hlk_client_opts opts = trouble_opts();
    opts.flags = flags;
    return stage_open(&opts);
}

/* The stage keeps its locks to the end, and they their clients: here each step frees what it made. */
static hlk_lock *make_lock(hlk_client *client, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static void assert_works(struct task *t)
{
    hlk_client *client = t->client ? t->client : open_short(0);
    hlk_lock *lock = make_lock(client, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    stage_close(client);
    hlk_lock_destroy(lock);
    hlk_lock_destroy(t->lock);
    hlk_lock_destroy(t->owned);
    hlk_owner_destroy(t->owner);
}

/* False: the failure came too late to strike. */
static bool step(const struct kind *kind, bool later, long n)
{
    struct task t = { .later = later };
    if (kind->before)
        kind->before(&t);
    if (later)
        hlk_mem_fail_after(n);
    else
        hlk_mem_fail_once(n);
    enum hlk_status status = kind->act(&t);
    bool hit = struck(later);
    hlk_mem_fail_after(-1);
    cr_assert(hit || status == HLK_OK, "n = %ld, with memory: %s", n, hlk_last_error());
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_NOMEM) || (later && UNKNOWN(status)), "n = %ld: %s: %s", n,
              hlk_status_name(status), hlk_last_error());
    if (kind->after)
        kind->after(&t, status);
    WITHIN(FREE_MS, is_free("t"));
    assert_works(&t);
    return hit;
}

static void for_every_step(const struct kind *kind)
{
    (void)step(kind, false, STEPS_MOST - 1); /* what is made once for all is there now */
    int descriptors = open_descriptors();
    for (int later = 0; later < 2; later++) {
        long n = 1;
        while (n < STEPS_MOST && step(kind, later, n))
            n++;
        cr_assert_gt(n, kind->least, "only %ld allocations", n - 1);
        cr_assert_lt(n, STEPS_MOST);
        cr_assert_eq(open_descriptors(), descriptors, "%d now, %d before", open_descriptors(), descriptors);
        cr_log_info("%ld allocations", n - 1);
    }
}

/* --- opening */

static enum hlk_status open_once(struct task *t, unsigned flags)
{
    struct hlk_client_opts opts = trouble_opts();
    opts.flags = flags;
    opts.patience_ms = 500;
    enum hlk_status status = hlk_client_open(&t->client, stage.url, &opts);
    cr_assert_eq(t->client == NULL, status != HLK_OK);
    if (status == HLK_E_CONNECT) /* no attempt had memory until patience was over */
        cr_assert_not_null(strstr(hlk_last_error(), "no memory"), "%s", hlk_last_error());
    return status;
}

static enum hlk_status act_open(struct task *t)
{
    return open_once(t, 0);
}

static enum hlk_status act_open_dispatch(struct task *t)
{
    return open_once(t, HLK_OPEN_DISPATCH);
}

static void after_open(struct task *t, enum hlk_status status)
{
    (void)status;
    hlk_client_close(t->client);
    t->client = NULL;
}

Test(memory, that_is_short_while_opening)
{
    for_every_step(&(struct kind){ NULL, act_open, after_open, 8 });
}

Test(memory, that_is_short_while_opening_for_dispatch)
{
    for_every_step(&(struct kind){ NULL, act_open_dispatch, after_open, 8 });
}

/* --- handles */

static void before_any(struct task *t)
{
    t->client = open_short(0);
    t->lock = make_lock(t->client, NULL);
    t->owner = hlk_owner_create(t->client, "memory");
    t->owned = make_lock(t->client, t->owner);
}

static enum hlk_status act_handles(struct task *t)
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
    for_every_step(&(struct kind){ before_any, act_handles, NULL, 3 });
}

/* --- acquiring: in a thread that is new to the library */

static enum hlk_status act_try(struct task *t)
{
    t->actor = actor_start_wait(t->owned, HLK_NOWAIT);
    return actor_status(t->actor);
}

/* What the caller was told is so; then it is given back. */
static void after_acquire(struct task *t, enum hlk_status status)
{
    if (t->actor)
        actor_leave(t->actor);
    cr_assert_eq(hlk_lock_holds(t->owned), status == HLK_OK);
    if (status == HLK_OK) {
        cr_assert_null(disagreement(t->owned, "t", 1));
        cr_assert_eq(hlk_lock_release(t->owned), HLK_OK, "%s", hlk_last_error());
    }
}

Test(memory, that_is_short_in_a_try)
{
    for_every_step(&(struct kind){ before_any, act_try, after_acquire, 2 });
}

static void before_wait(struct task *t)
{
    before_any(t);
    WAIT_FOR(raw_listeners(stage.redis, "t") == 0); /* the step before has gone */
    raw(stage.redis, "HSET t foreign:1 1");
    raw(stage.redis, "PEXPIRE t 60000");
}

static void free_it(void)
{
    raw(stage.redis, "DEL t");
    raw(stage.redis, "PUBLISH redisson_lock__channel:{t} 0");
}

/* One failure may cost the subscription, never the wake-up; while nothing can be subscribed, a wait ends by its
 * deadline. */
static enum hlk_status act_wait(struct task *t)
{
    t->actor = actor_start_wait(t->owned, t->later ? 400 : 10000);
    WAIT_FOR(actor_answered(t->actor) || raw_listeners(stage.redis, "t") == 1);
    free_it();
    enum hlk_status status = actor_status(t->actor);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

Test(memory, that_is_short_in_a_wait)
{
    for_every_step(&(struct kind){ before_wait, act_wait, after_acquire, 4 });
}

/* Freed before the subscription is there: nobody tells it, it has to ask again by itself. */
static enum hlk_status act_deaf_wait(struct task *t)
{
    t->actor = actor_start_wait(t->owned, t->later ? 400 : 10000);
    WAIT_FOR(actor_answered(t->actor) || stage_counters(t->client).waiting == 1);
    free_it();
    enum hlk_status status = actor_status(t->actor);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

Test(memory, that_is_short_in_a_wait_for_a_lock_that_is_free_by_now)
{
    for_every_step(&(struct kind){ before_wait, act_deaf_wait, after_acquire, 4 });
}

static enum hlk_status act_cancelled_wait(struct task *t)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_cancel *cancel = hlk_cancel_create(t->client);
    if (!cancel)
        return hlk_last_status();
    opts.cancel = cancel;
    t->actor = actor_start(t->owned, &opts);
    WAIT_FOR(actor_answered(t->actor) || stage_counters(t->client).waiting == 1);
    hlk_cancel_trigger(cancel);
    enum hlk_status status = actor_status(t->actor);
    actor_leave(t->actor);
    t->actor = NULL;
    hlk_cancel_destroy(cancel);
    return status == HLK_INTERRUPTED ? HLK_OK : status;
}

static void after_cancelled(struct task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(hlk_lock_holds(t->owned), 0);
    free_it();
}

Test(memory, that_is_short_in_a_cancelled_wait)
{
    for_every_step(&(struct kind){ before_wait, act_cancelled_wait, after_cancelled, 3 });
}

/* --- holding: nested holds, questions */

static void before_hold(struct task *t)
{
    before_any(t);
    cr_assert_eq(hlk_lock_acquire(t->owned, 5000), HLK_OK, "%s", hlk_last_error());
}

static enum hlk_status act_questions(struct task *t)
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

static void after_questions(struct task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_geq(hlk_lock_holds(t->owned), 1);
    while (hlk_lock_holds(t->owned))
        cr_assert_eq(hlk_lock_release(t->owned), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(t->owned), HLK_NOT_HOLDER);
}

Test(memory, that_is_short_while_holding)
{
    for_every_step(&(struct kind){ before_hold, act_questions, after_questions, 4 });
}

static enum hlk_status act_break(struct task *t)
{
    return hlk_lock_break(t->owned);
}

/* Broken or not: what the holder is told by its release is so. */
static void after_break(struct task *t, enum hlk_status status)
{
    enum hlk_status released = hlk_lock_release(t->owned);
    cr_assert_eq(released, status == HLK_OK ? HLK_LOST : HLK_OK, "%s", hlk_status_name(released));
}

Test(memory, that_is_short_while_breaking)
{
    for_every_step(&(struct kind){ before_hold, act_break, after_break, 1 });
}

/* --- releasing */

static enum hlk_status act_release(struct task *t)
{
    return hlk_lock_release(t->owned);
}

/* asks A4 redis-py PR 4258: without memory nothing was sent, it is still held and can be released; or it is let go of
 * and sent when there is memory again, and then asking again tells how that ended (if there was memory to remember
 * that). */
static void after_release(struct task *t, enum hlk_status status)
{
    cr_assert_eq(hlk_lock_holds(t->owned), status == HLK_E_NOMEM);
    if (status == HLK_E_NOMEM) {
        cr_assert_gt(hlk_lock_left_ms(t->owned), 0);
        cr_assert_null(disagreement(t->owned, "t", 1));
    }
    if (status != HLK_OK) {
        WAIT_FOR((status = hlk_lock_release(t->owned), !UNKNOWN(status)));
        cr_assert(status == HLK_OK || (t->later && status == HLK_NOT_HOLDER), "%s", hlk_last_error());
    }
}

Test(memory, that_is_short_while_releasing)
{
    for_every_step(&(struct kind){ before_hold, act_release, after_release, 2 });
}

/* --- completions */

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct task *t = ctx;
    atomic_store(&t->done_status, status);
    atomic_fetch_add(&t->done, 1);
}

static enum hlk_status outcome(struct task *t, enum hlk_status accepted)
{
    if (accepted != HLK_OK)
        return accepted;
    WAIT_FOR(atomic_load(&t->done) > 0);
    atomic_store(&t->done, 0);
    return (enum hlk_status)atomic_load(&t->done_status);
}

static enum hlk_status acquire_async(struct task *t, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_lock_acquire_async(t->owned, &opts, on_done, t);
}

static enum hlk_status act_try_async(struct task *t)
{
    return outcome(t, acquire_async(t, HLK_NOWAIT));
}

static enum hlk_status act_wait_async(struct task *t)
{
    enum hlk_status status = acquire_async(t, t->later ? 400 : 10000);
    if (status == HLK_OK)
        WAIT_FOR(atomic_load(&t->done) || raw_listeners(stage.redis, "t") == 1);
    free_it();
    status = outcome(t, status);
    return status == HLK_TIMEOUT && t->later ? HLK_E_NOMEM : status;
}

static enum hlk_status act_release_async(struct task *t)
{
    enum hlk_status status = outcome(t, hlk_lock_release_async(t->owned, on_done, t));
    return t->later && status == HLK_LOST ? HLK_OK : status; /* no memory to send it until the lease was over */
}

Test(memory, that_is_short_in_an_async_try)
{
    for_every_step(&(struct kind){ before_any, act_try_async, after_acquire, 2 });
}

Test(memory, that_is_short_in_an_async_wait)
{
    for_every_step(&(struct kind){ before_wait, act_wait_async, after_acquire, 4 });
}

Test(memory, that_is_short_in_an_async_release)
{
    for_every_step(&(struct kind){ before_hold, act_release_async, after_release, 1 });
}

/* --- renewing, losing */

/* A renewal without memory is asked for again: one failure costs no hold. */
static enum hlk_status act_renew(struct task *t)
{
    uint64_t renewals = stage_counters(t->client).renewals;
    if (t->later)
        test_sleep_ms(LEASE_MS / 2); /* the one that is due in between has no memory */
    else
        WAIT_FOR(stage_counters(t->client).renewals > renewals || hlk_lock_left_ms(t->owned) == 0);
    return hlk_lock_left_ms(t->owned) > 0 ? HLK_OK : HLK_E_NOMEM;
}

static void after_renew(struct task *t, enum hlk_status status)
{
    cr_assert_eq(hlk_lock_release(t->owned), status == HLK_OK ? HLK_OK : HLK_LOST, "%s", hlk_last_error());
}

Test(memory, that_is_short_while_renewing)
{
    for_every_step(&(struct kind){ before_hold, act_renew, after_renew, 1 });
}

/* A loss without memory is still a loss: for every question, for the descriptor, for the release. */
static enum hlk_status act_lose(struct task *t)
{
    WAIT_FOR(hlk_lock_left_ms(t->owned) == 0);
    WAIT_FOR(stage_counters(t->client).lost == 1 || stage_counters(t->client).held == 0);
    return HLK_OK;
}

static void before_loss(struct task *t)
{
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    before_any(t);
    fixed.lease_ms = 150;
    cr_assert_eq(hlk_lock_acquire_with(t->owned, &fixed), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_lock_lost_fd(t->owned), 0);
}

static void after_loss(struct task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(hlk_lock_acquire(t->owned, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(t->owned), HLK_LOST);
    cr_assert_eq(hlk_lock_release(t->owned), HLK_NOT_HOLDER);
}

Test(memory, that_is_short_while_losing)
{
    for_every_step(&(struct kind){ before_loss, act_lose, after_loss, 1 });
}

/* --- closing, with a hold, a waiting thread and a pending completion */

static void before_close(struct task *t)
{
    before_hold(t);
    t->actor = actor_start(t->lock, NULL);
    WAIT_FOR_WAITERS(t->client, 1);
    hlk_owner *other = hlk_owner_create(t->client, "pending");
    hlk_lock *pending = make_lock(t->client, other);
    cr_assert_eq(hlk_lock_acquire_async(pending, NULL, on_done, t), HLK_OK);
    hlk_lock_destroy(pending); /* a pending call keeps what it needs */
    hlk_owner_destroy(other);
    WAIT_FOR_WAITERS(t->client, 2);
}

static enum hlk_status act_close(struct task *t)
{
    stage_close(t->client);
    t->client = NULL;
    return HLK_OK;
}

/* What could not be given back runs out by itself. */
static void after_close(struct task *t, enum hlk_status status)
{
    (void)status;
    cr_assert_eq(actor_status(t->actor), HLK_E_CLOSED);
    actor_leave(t->actor);
    cr_assert_eq(atomic_load(&t->done), 1);
    cr_assert_eq(atomic_load(&t->done_status), HLK_E_CLOSED);
}

Test(memory, that_is_short_while_closing)
{
    for_every_step(&(struct kind){ before_close, act_close, after_close, 2 });
}
