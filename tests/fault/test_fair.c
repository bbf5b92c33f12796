/* The fair lock under the faults of test_replies.c and test_late.c: each request of each scenario is cut off, its reply
 * is swallowed, or it is delivered late, when another client or the client itself holds the lock again. No hold and no
 * ticket is left. */
#include "base/mem.h"
#include "scenario.h"

static void start(void)
{
    fault_up(STAGE_PROXY);
    server_allow(fixture.server, "hasplock_fair:*");
}

TestSuite(fair_replies, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(fair_memory, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(fair_late, .init = start, .fini = fixture_end, .timeout = 120);

enum { RENEWED_LEASE_MS = 2400, NESTED_LEASE_MS = 6000 };

/* --- a reply is lost */

static bool struck_at(struct scenario *s, scenario_play *play, enum proxy_fault fault, int k)
{
    scenario_begin(s, BLOCKING, k);
    proxy_arm(fixture.proxy, fault, PROXY_ALL, (uint64_t)k);
    play(s);
    bool struck = proxy_struck(fixture.proxy);
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    scenario_is_over(s);
    if (struck)
        scenario_later_hold_is_safe(s, NULL);
    scenario_end(s);
    return struck;
}

static void lost_for_every_k(scenario_play *play, enum proxy_fault fault, int64_t lease_ms, int least)
{
    struct scenario s = { .fair = true, .lease_ms = lease_ms };
    int k = 1;
    while (k < PLAYS_MOST_K && struck_at(&s, play, fault, k))
        k++;
    cr_assert_gt(k, least, "only %d requests were struck", k - 1);
    cr_assert_lt(k, PLAYS_MOST_K);
}

#define EVERY_SCENE(fault)                                                                                             \
    Test(fair_replies, of_a_try_##fault)                                                                               \
    {                                                                                                                  \
        lost_for_every_k(play_try, PROXY_##fault, 0, 2);                                                               \
    }                                                                                                                  \
    Test(fair_replies, of_a_wait_##fault)                                                                              \
    {                                                                                                                  \
        lost_for_every_k(play_wait, PROXY_##fault, 0, 5);                                                              \
    }                                                                                                                  \
    Test(fair_replies, of_a_wait_that_times_out_##fault)                                                               \
    {                                                                                                                  \
        lost_for_every_k(play_timeout, PROXY_##fault, 0, 3);                                                           \
    }                                                                                                                  \
    Test(fair_replies, of_a_renewed_hold_##fault)                                                                      \
    {                                                                                                                  \
        lost_for_every_k(play_renewed, PROXY_##fault, RENEWED_LEASE_MS, 3);                                            \
    }                                                                                                                  \
    Test(fair_replies, of_nested_holds_##fault)                                                                        \
    {                                                                                                                  \
        lost_for_every_k(play_nested, PROXY_##fault, 0, 5);                                                            \
    }

EVERY_SCENE(CUT_BEFORE)
EVERY_SCENE(CUT_AFTER)
EVERY_SCENE(SWALLOW)

/* --- a request is late */

enum moment { AFTER_RELEASE, THEIRS, OURS };

static bool alone;

static void deliver(struct scenario *s)
{
    (void)s;
    proxy_deliver(fixture.proxy, alone);
}

static void deliver_at(struct scenario *s, enum moment moment)
{
    if (moment == AFTER_RELEASE)
        deliver(s);
    scenario_is_over(s);
    if (moment != OURS) {
        scenario_later_hold_is_safe(s, moment == THEIRS ? deliver : NULL);
        return;
    }
    scenario_assert(s, scenario_got(s, scenario_acquire(s, 5000, 0)));
    deliver(s);
    scenario_assert(s, hlk_lock_left_ms(s->lock) > 0);
    scenario_agrees(s, 1);
    scenario_assert(s, scenario_release(s) == HLK_OK);
    scenario_is_over(s);
}

static bool late_at(struct scenario *s, scenario_play *play, enum moment moment, int k)
{
    scenario_begin(s, BLOCKING, k);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_ALL, (uint64_t)k);
    play(s);
    bool struck = proxy_struck(fixture.proxy);
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    if (struck)
        deliver_at(s, moment);
    scenario_end(s);
    return struck;
}

static void late_for_every_k(scenario_play *play, enum moment moment, bool one, int least)
{
    struct scenario s = { .fair = true,
                          .late = true,
                          .lease_ms = play == play_renewed  ? RENEWED_LEASE_MS
                                      : play == play_nested ? NESTED_LEASE_MS
                                                            : LEASE_MS };
    int k = 1;
    alone = one;
    while (k < PLAYS_MOST_K && late_at(&s, play, moment, k))
        k++;
    cr_assert_gt(k, least, "only %d requests were late", k - 1);
    cr_assert_lt(k, PLAYS_MOST_K);
}

#define EVERY_LATE_SCENE(title, moment, one)                                                                           \
    Test(fair_late, a_try_##title)                                                                                     \
    {                                                                                                                  \
        late_for_every_k(play_try, moment, one, 2);                                                                    \
    }                                                                                                                  \
    Test(fair_late, a_wait_##title)                                                                                    \
    {                                                                                                                  \
        late_for_every_k(play_wait, moment, one, 5);                                                                   \
    }                                                                                                                  \
    Test(fair_late, nested_holds_##title)                                                                              \
    {                                                                                                                  \
        late_for_every_k(play_nested, moment, one, 5);                                                                 \
    }

EVERY_LATE_SCENE(revives_nothing, AFTER_RELEASE, false)
EVERY_LATE_SCENE(revives_nothing_alone, AFTER_RELEASE, true)
EVERY_LATE_SCENE(touches_nobody_else, THEIRS, false)
EVERY_LATE_SCENE(touches_nobody_else_alone, THEIRS, true)
EVERY_LATE_SCENE(spares_its_clients_next_hold, OURS, false)
EVERY_LATE_SCENE(spares_its_clients_next_hold_alone, OURS, true)

/* --- no memory: the n-th allocation fails. Also for calls of a thread, which need an entry */

static enum hlk_status refused_at(long n, hlk_lock *lock, int64_t wait_ms, bool acquire)
{
    hlk_mem_fail_once(n);
    enum hlk_status status = acquire ? hlk_lock_acquire(lock, wait_ms) : hlk_lock_release(lock);
    hlk_mem_fail_after(-1);
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_NOMEM, HLK_TIMEOUT), "n = %ld: %s", n, hlk_last_error());
    return status;
}

Test(fair_memory, that_is_short_leaves_nothing_held_or_queued)
{
    enum { STEPS = 40 };
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    int refused = 0;
    for (long n = 1; n < STEPS; n++) {
        enum hlk_status status = refused_at(n, lock, HLK_NOWAIT, true);
        cr_assert_eq(hlk_lock_holds(lock), status == HLK_OK);
        refused += status == HLK_E_NOMEM;
        if (status != HLK_OK)
            cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "n = %ld: %s", n, hlk_last_error());
        status = refused_at(n, lock, 0, false);
        cr_assert_eq(hlk_lock_holds(lock), status != HLK_OK, "refused, and held as before");
        refused += status == HLK_E_NOMEM;
        if (status != HLK_OK)
            cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert(is_free("t"));
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        refused += refused_at(n, lock, 20, true) == HLK_E_NOMEM;
        raw(fixture.redis, "DEL t");
        WAIT_FOR(raw_int(fixture.redis, "EXISTS redisson_lock_queue:{t}") == 0);
    }
    cr_assert_geq(refused, 6, "only %d were refused", refused);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* A wait that ends removes its ticket from the queue, also when every allocation fails. */
Test(fair_memory, that_is_short_when_a_wait_ends_leaves_no_ticket)
{
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    lock_opts.kind = HLK_LOCK_FAIR;
    hlk_client *client = fixture_open(NULL);
    opts.cancel = hlk_cancel_create(client);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    hlk_lock *lock = fixture_lock(client, "t", &lock_opts);
    struct actor *actor = actor_start(lock, &opts);
    WAIT_FOR(raw_int(fixture.redis, "LLEN redisson_lock_queue:{t}") == 1);
    WAIT_FOR(fixture_counters(client).commands == 3); /* the last one is sent when it listens to the foreign holder */
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "answered behind it: %s", hlk_last_error());
    hlk_mem_fail_after(1);
    hlk_cancel_trigger(opts.cancel);
    enum hlk_status status = actor_status(actor);
    hlk_mem_fail_after(-1);
    cr_assert_eq(status, HLK_INTERRUPTED, "%s", actor_error(actor));
    WAIT_FOR(raw_int(fixture.redis, "EXISTS redisson_lock_queue:{t}") == 0);
    cr_assert_eq(actor_end(actor), HLK_INTERRUPTED);
    hlk_cancel_destroy(opts.cancel);
    raw(fixture.redis, "DEL t");
}
