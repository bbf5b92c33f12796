/* The server's clock, which its ttls follow, is set or runs fast while a lock is held and waited for. By
 * docs/safety.md, a step forward ends the lease early, and two may hold until the next renewal. A step back makes it
 * longer in Redis and not for its holder. A clock that is fast within the drift changes nothing.
 *
 * asks (c): Redis' ttl follows the wall clock: a step may give two owners. */
/* Shows: P7 (a fast clock) */
#include "fixture.h"
#include "step_clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WATCHDOG_MS = 6000, RENEWAL_MS = WATCHDOG_MS / 3, FIXED_MS = 3000, MINUTE_MS = 60000 };

static struct step_clock *servers;

static void step_ms(int64_t ms)
{
    atomic_fetch_add(&servers->ahead_ns, ms * 1000000);
}

static void run_faster(int64_t ppm)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&servers->since_ns, now.tv_sec * (int64_t)1000000000 + now.tv_nsec);
    atomic_store(&servers->faster_ppm, ppm);
}

static void start(void)
{
    char path[] = "/tmp/hlk-test-clock-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, sizeof *servers) != 0)
        test_give_up("%s: %s", path, strerror(errno));
    servers = mmap(NULL, sizeof *servers, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (servers == MAP_FAILED)
        test_give_up("mmap: %s", strerror(errno));
    close(fd);
    setenv(STEP_CLOCK_FILE, path, 1);
    setenv("LD_PRELOAD", HLK_STEP_CLOCK_PATH, 1);
    fault_up(STAGE_PROXY);
    unsetenv("LD_PRELOAD");
    unlink(path);
}

TestSuite(clock_step, .init = start, .fini = fixture_end, .timeout = 60);

static hlk_client *open_with_watchdog(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    return fixture_open(&opts);
}

/* Held, and just renewed: the next renewal is due in a third of the lease. */
static hlk_lock *held_and_renewed(hlk_client *client)
{
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(fixture_counters(client).renewals == 1);
    return lock;
}

static void wait_for_renewals(hlk_client *client, uint64_t n)
{
    uint64_t before = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= before + n);
}

/* --- the tool */

Test(clock_step, is_the_servers_and_not_ours)
{
    static const char asked[] = "return tonumber(redis.call('time')[1])";
    int64_t before = raw_int(fixture.redis, "EVAL %s 0", asked), ours = (int64_t)time(NULL);
    step_ms(60 * MINUTE_MS);
    cr_assert_geq(raw_int(fixture.redis, "EVAL %s 0", asked), before + 3600);
    cr_assert_lt((int64_t)time(NULL), ours + 1800);
    step_ms(-120 * MINUTE_MS);
    cr_assert_lt(raw_int(fixture.redis, "EVAL %s 0", asked), before - 1800);
}

/* --- forward */

/* Shows: S13 */
Test(clock_step, forward_lets_two_hold_until_the_next_renewal)
{
    hlk_client *client = open_with_watchdog();
    hlk_lock *lock = held_and_renewed(client);
    step_ms(MINUTE_MS);
    int64_t stepped_at = test_now_ms();
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    cr_assert_gt(hlk_lock_left_ms(lock), 0, "two hold it, and the first cannot know");
    int64_t until = hlk_lock_held_until(lock);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(lost.reported_at_ms - stepped_at, RENEWAL_MS + 1000);
    cr_assert_lt(lost.reported_at_ms, until, "by the renewal, not by the deadline");
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert(is_held("t", hold_of(theirs)), "the one who lost it touches nothing");
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
}

/* A grant says how long its ticket was queued, by that clock. A value above the client's own count is not used. */
/* Shows: S13 */
Test(clock_step, forward_makes_no_grant_longer)
{
    hlk_client *client = open_with_watchdog(), *other = bystander();
    hlk_lock *lock =
        fixture_lock(client, "t", &(struct hlk_lock_opts){ sizeof(struct hlk_lock_opts), .lease_ms = 600000 });
    hlk_owner *owner = hlk_owner_create(other, "o");
    hlk_lock *theirs = fixture_owned(other, "t", owner);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    int64_t asked_at = test_now_ms();
    struct actor *waiter = actor_start(theirs, NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    int64_t in_queue_at = test_now_ms();
    step_ms(MINUTE_MS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    int64_t until = hlk_lock_held_until(theirs);
    cr_assert_leq(until, test_now_ms() + raw_pttl(fixture.redis, "t"));
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert(until > asked_at && until < in_queue_at + 5000, "it counts from the question");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    hlk_owner_destroy(owner);
}

/* Waiters get no message: they send when the ttl of the last reply is over by their own clock. */
Test(clock_step, forward_lets_a_waiter_in_after_the_holder_was_told)
{
    hlk_client *client = open_with_watchdog(), *other = bystander();
    hlk_lock *lock = held_and_renewed(client);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR_WAITERS(other, 1);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    step_ms(MINUTE_MS);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_leq(lost.reported_at_ms, actor_answered_at_ms(waiter));
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 1u);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(clock_step, forward_by_less_than_what_is_left_costs_nothing)
{
    hlk_client *client = open_with_watchdog();
    hlk_lock *lock = held_and_renewed(client);
    step_ms(RENEWAL_MS);
    wait_for_renewals(client, 1);
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(fixture_events(0, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- backward */

Test(clock_step, backward_costs_a_renewed_hold_nothing)
{
    hlk_client *client = open_with_watchdog(), *other = bystander();
    hlk_lock *lock = held_and_renewed(client);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR_WAITERS(other, 1);
    step_ms(-MINUTE_MS);
    int64_t until = hlk_lock_held_until(lock);
    wait_for_renewals(client, 2);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), MINUTE_MS - WATCHDOG_MS,
                 "it lasts longer in Redis, and nothing shortens it");
    cr_assert_gt(hlk_lock_held_until(lock), until);
    cr_assert_leq(hlk_lock_left_ms(lock), WATCHDOG_MS, "and no longer for its holder than it says");
    cr_assert_eq(fixture_events(0, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), MINUTE_MS / 2, "the next lease is as long as any");
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Shows: S13 */
Test(clock_step, backward_makes_no_grant_longer_and_keeps_the_order)
{
    hlk_client *client = open_with_watchdog(), *others[2] = { bystander(), bystander() };
    hlk_lock *lock = held_and_renewed(client), *theirs[2];
    hlk_owner *owners[2];
    struct actor *waiters[2];
    for (int i = 0; i < 2; i++) {
        owners[i] = hlk_owner_create(others[i], "o");
        theirs[i] = fixture_owned(others[i], "t", owners[i]);
        waiters[i] = actor_start(theirs[i], NULL);
        WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == i + 1);
        step_ms(-MINUTE_MS); /* by that clock the second one comes a minute before the first */
    }
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(actor_status(waiters[i]), HLK_OK, "%s", actor_error(waiters[i]));
        cr_assert_leq(hlk_lock_held_until(theirs[i]), test_now_ms() + raw_pttl(fixture.redis, "t"));
        cr_assert_eq(fixture_counters(others[i]).woken_by_ttl, 0u);
        cr_assert_eq(i == 0 && actor_answered(waiters[1]), 0, "in the order in which they came");
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
        hlk_owner_destroy(owners[i]);
    }
}

/* A hold of FIXED_MS through the proxy, which is frozen: its release cannot be sent. */
static hlk_lock *held_and_cut_off(void)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = FIXED_MS;
    struct hlk_client_opts client_opts = fault_opts();
    hlk_lock *lock = fixture_lock(fixture_open(&client_opts), "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    proxy_freeze(fixture.proxy, true);
    return lock;
}

static void is_told_when_it_is_back(hlk_lock *lock)
{
    fixture_wait_event(HLK_EVENT_LOST, "t");
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* Shows: S13 */
Test(clock_step, backward_makes_a_lease_longer_in_redis_alone)
{
    hlk_lock *lock = held_and_cut_off();
    hlk_lock *theirs = fixture_lock(bystander(), "t", NULL);
    int64_t until = hlk_lock_held_until(lock);
    step_ms(-MINUTE_MS);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(lost.held_until_at_ms, until);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_BUSY);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), MINUTE_MS / 2);
    step_ms(MINUTE_MS);
    WAIT_FOR(hlk_lock_acquire(theirs, HLK_NOWAIT) == HLK_OK);
    is_told_when_it_is_back(lock);
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
}

/* --- fast */

/* The drift allows for 2 %, in addition to the margin of a tenth of the lease. So the margin remains. */
/* Shows: S13 */
Test(clock_step, that_is_2_percent_fast_leaves_the_whole_notice)
{
    run_faster(20000);
    hlk_lock *lock = held_and_cut_off();
    hlk_lock *theirs = fixture_lock(bystander(), "t", NULL);
    int64_t until = hlk_lock_held_until(lock);
    WAIT_FOR(hlk_lock_acquire(theirs, HLK_NOWAIT) == HLK_OK);
    cr_assert_geq(hlk_now_ms() - until, FIXED_MS / 10);
    is_told_when_it_is_back(lock);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S13 */
Test(clock_step, that_is_twice_as_fast_gives_a_held_lock_away)
{
    run_faster(1000000);
    hlk_lock *lock = held_and_cut_off();
    hlk_lock *theirs = fixture_lock(bystander(), "t", NULL);
    WAIT_FOR(hlk_lock_acquire(theirs, HLK_NOWAIT) == HLK_OK);
    cr_assert_gt(hlk_lock_left_ms(lock), 0, "beyond the drift nothing is promised");
    is_told_when_it_is_back(lock);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
}

/* A renewal comes each third of the lease. */
Test(clock_step, that_is_twice_as_fast_costs_a_renewed_hold_nothing)
{
    run_faster(1000000);
    hlk_client *client = open_with_watchdog();
    hlk_lock *lock = held_and_renewed(client);
    wait_for_renewals(client, 2);
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(fixture_events(0, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}
