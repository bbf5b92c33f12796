/* Leases: renewed by the watchdog, fixed, extended, capped, orphaned, and while a callback runs. */
#include "lease_fixture.h"

#include <string.h>

static void start(void)
{
    lease_up(0);
}

TestSuite(lease, .init = start, .fini = fixture_end, .timeout = 120);

/* --- renewed */

Test(lease, of_the_watchdog_is_kept_for_as_long_as_it_is_held)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    char first[192];
    snprintf(first, sizeof first, "%s", hold_id(lock));
    int64_t end = test_now_ms() + 3 * WATCHDOG_MS;
    while (test_now_ms() < end) {
        cr_assert_str_eq(raw_holder(fixture.redis, "t"), first);
        cr_assert_gt(hlk_lock_left_ms(lock), 0);
        test_sleep_ms(10);
    }
    cr_assert_geq(fixture_counters(client).renewals, 6u);
    cr_assert_eq(fixture_events(0, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lease, of_many_locks_are_kept_by_few_commands)
{
    enum { LOCKS = 300 };
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = held(client, name);
    }
    struct hlk_counters before = fixture_counters(client);
    WAIT_FOR(fixture_counters(client).renewals >= before.renewals + 3 * LOCKS);
    struct hlk_counters after = fixture_counters(client);
    cr_assert_leq((after.commands - before.commands) * 5, after.renewals - before.renewals,
                  "%d commands for %d renewals", (int)(after.commands - before.commands),
                  (int)(after.renewals - before.renewals));
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* asks A2 redisson 7272: one hold is renewed once in a third of its lease, however often the lock was acquired
 * before */
Test(lease, is_renewed_no_faster_after_many_short_holds)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    uint64_t before = fixture_counters(client).renewals;
    test_sleep_ms(2 * WATCHDOG_MS);
    cr_assert_leq(fixture_counters(client).renewals - before, 8u, "6 are due");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lease, goes_on_after_a_renewal_refused_with_an_error)
{
    const char *who = fixture.server->acl ? "locks" : "default";
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    uint64_t renewals = fixture_counters(client).renewals;
    raw(fixture.redis, "ACL SETUSER %s -evalsha -eval", who);
    WAIT_FOR(fixture_logged("NOPERM"));
    raw(fixture.redis, "ACL SETUSER %s +evalsha +eval", who);
    WAIT_FOR(fixture_counters(client).renewals > renewals);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    assert_still_works(client, lock);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

Test(lease, goes_on_after_a_loss)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    raw(fixture.redis, "DEL t");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    assert_still_works(client, lock);
}

/* --- fixed */

Test(lease, that_is_fixed_is_not_renewed_and_ends_by_itself)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = held_for(client, "t", 6000); /* its margin of 600 ms is enough even on a slow machine */
    int64_t until = hlk_lock_held_until(lock);
    struct actor *next = actor_start(fixture_lock(other, "t", NULL), NULL);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_leq(lost.held_until_at_ms, until);
    cr_assert_leq(lost.reported_at_ms, actor_answered_at_ms(next), "told after somebody else could have it");
    cr_assert_eq(fixture_counters(client).renewals, 0u);
    assert_lost(lock);
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(lease, that_is_extended_lasts_longer)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held_for(client, "t", 3000);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_extend(lock, 3000), HLK_OK);
        test_sleep_ms(100);
    }
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    test_sleep_ms(1200); /* longer than the first lease */
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A1 etcd 11456: reentry never shortens */
Test(lease, is_never_shortened_by_reentry)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held_for(client, "t", 60000);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    int64_t until = hlk_lock_held_until(lock);
    opts.lease_ms = 200;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    opts.lease_ms = 120000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_gt(hlk_lock_held_until(lock), until);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 90000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- callbacks */

static void on_event_that_calls(const struct hlk_event *event, void *ctx)
{
    hlk_client *client = *(hlk_client **)ctx;
    hlk_lock *lock = hlk_lock_create(client, "t-from-the-handler", NULL);
    if (hlk_lock_acquire(lock, 5000) == HLK_OK)
        hlk_lock_release(lock);
    hlk_lock_destroy(lock);
    fixture_on_event(event, NULL);
}

/* A callback may call everything but close, and delays no renewal. */
Test(lease, events_may_call_the_library)
{
    static hlk_client *client;
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    opts.on_event = on_event_that_calls;
    opts.event_ctx = &client;
    client = fixture_open(&opts);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2");
    raw(fixture.redis, "DEL t1");
    fixture_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
}

static void on_event_that_is_slow(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    test_sleep_ms(2 * WATCHDOG_MS);
    fixture_on_event(event, NULL);
}

Test(lease, is_renewed_while_a_handler_blocks)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    opts.on_event = on_event_that_is_slow;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2");
    raw(fixture.redis, "DEL t1");
    fixture_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
}

/* --- caps */

/* asks A2 RedLock.net 68, A9 DistributedLock 169, (c) Redis docs: renewals have a cap */
Test(lease, with_max_hold_ends_at_its_cap)
{
    hlk_client *client = open_with_watchdog(4000), *other = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 6000;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    int64_t acquired = hlk_now_ms();
    struct actor *next = actor_start(fixture_lock(other, "t", NULL), NULL);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_not_null(strstr(lost.why, "max_hold"), "%s", lost.why);
    cr_assert_leq(lost.held_until_at_ms, acquired + 6000, "the last renewal ends with the cap");
    cr_assert_geq(fixture_counters(client).renewals, 1u);
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_leq(lost.reported_at_ms, actor_answered_at_ms(next));
    assert_lost(lock);
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(lease, with_a_shorter_max_hold_is_over_by_then)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 400;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_leq(hlk_lock_held_until(lock), hlk_now_ms() + 400);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

Test(lease, with_max_hold_released_in_time_is_just_released)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 60000;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(fixture_events(0, NULL), 0u);
}

/* --- orphaned */

/* design 2: a thread ends while it holds: renewal stops, ORPHANED is reported, the lease runs out */
/* Shows: S21 */
Test(lease, of_a_thread_that_ended_is_orphaned_and_runs_out)
{
    hlk_client *client = open_with_watchdog(900), *other = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct actor *actor = actor_start(lock, NULL);
    cr_assert_eq(actor_status(actor), HLK_OK);
    actor_leave(actor);
    struct fixture_event orphaned = fixture_wait_event(HLK_EVENT_ORPHANED, "t");
    cr_assert_str_not_empty(orphaned.holder);
    cr_assert_eq(fixture_counters(client).orphaned, 1u);
    hlk_lock *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER, "this thread never held it");
    cr_assert_eq(fixture_counters(client).held, 0u);
}

/* A thread id may be used again. The hold of an ended thread belongs to no thread. */
Test(lease, of_a_thread_that_ended_is_not_the_next_threads)
{
    hlk_client *client = open_with_watchdog(30000);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct actor *actor = actor_start(lock, NULL);
    cr_assert_eq(actor_status(actor), HLK_OK);
    actor_leave(actor);
    for (int i = 0; i < 20; i++) {
        struct actor *next = actor_start_wait(lock, HLK_NOWAIT);
        cr_assert_eq(actor_status(next), HLK_BUSY);
        actor_end(next);
    }
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
}
