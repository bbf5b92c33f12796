/* The leases of permits: each is renewed, and the permit comes back when it is over. And what broken connections do. */
/* Shows: P50 */
#include "permits_fixture.h"
#include "support/limit.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

enum { MANY = 32, ROUNDS = 10, LIMIT = 3, CUTS = 12 };

TestSuite(permits_lease, .init = permits_start, .fini = permits_stop, .timeout = 60);
TestSuite(permits_wire, .init = permits_start_proxied, .fini = permits_stop, .timeout = 60);

/* Until its lease is over, by the server. */
static int64_t lease_left_ms(const char *id)
{
    const char *now = raw(fixture.redis, "EVAL %s 0", "return redis.call('time')[1]");
    return raw_int(fixture.redis, "ZSCORE %s %s", PERMITS_LEASES, id) - strtoll(now + 1, NULL, 10) * 1000;
}

Test(permits_lease, are_renewed_until_they_are_released)
{
    permits_set(1);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    int64_t first = raw_int(fixture.redis, "ZSCORE %s %s", PERMITS_LEASES, permit_id(permit));
    WAIT_FOR(raw_int(fixture.redis, "ZSCORE %s %s", PERMITS_LEASES, permit_id(permit)) > first);
    cr_assert_leq(lease_left_ms(permit_id(permit)), PERMITS_WATCHDOG_MS + 1000);
    cr_assert_gt(hlk_lock_left_ms(permit), 0);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 1);
}

/* Nobody calls: the first waiter of the queue asks when the lease ends. Redisson's comes back by the next call only. */
Test(permits_lease, come_back_by_themselves_when_their_lease_is_over)
{
    permits_set(1);
    hlk_lock *brief = permit_with(other, NULL, 300);
    cr_assert_eq(hlk_lock_acquire(brief, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = permit_waiter(permit);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(hlk_lock_left_ms(brief), 0);
    cr_assert_eq(hlk_lock_release(brief), HLK_LOST);
    cr_assert_eq(permits_used(), 1); /* the waiter's */
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
}

/* Nobody is left who would give it back. */
Test(permits_lease, of_the_dead_go_to_the_first_waiter_after_the_lease)
{
    permits_set(0);
    raw(fixture.redis, "EVAL %s 1 %s",
        "local now = redis.call('time') "
        "return redis.call('zadd', KEYS[1], now[1] * 1000 + now[2] / 1000 + 300, 'dead')",
        PERMITS_LEASES);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(permit, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert_lt(running_ms(began), 900); /* and not by the poll of each second */
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
}

/* One waiter asks, and finds three that are over. Those behind it ask nothing: they are sent theirs. */
Test(permits_lease, of_several_dead_processes_go_to_as_many_waiters)
{
    redisContext *silent = raw_open(fixture.server);
    raw(silent, "SUBSCRIBE hasplock_inbox:hlk-silent");
    permits_set(0);
    struct actor *waiter = permit_waiter(permit);
    raw(fixture.redis, "ZADD %s 900000000000000 %s 900000000000001 %s", PERMITS_QUEUE, "hlk-silent:1 60000 0 0 1",
        "hlk-silent:2 60000 0 0 1");
    raw(fixture.redis, "EVAL %s 1 %s",
        "local now = redis.call('time') local ends = now[1] * 1000 + now[2] / 1000 + 100 "
        "return redis.call('zadd', KEYS[1], ends, 'dead-1', ends, 'dead-2', ends, 'dead-3')",
        PERMITS_LEASES);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert(strstr(raw_next(silent), "egrant 1 60000"));
    cr_assert(strstr(raw_next(silent), "egrant 2 60000"));
    cr_assert_eq(permits_used(), 3);
    cr_assert_eq(permits_tickets(), 0);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    raw(fixture.redis, "ZREM %s %s %s", PERMITS_LEASES, "hlk-silent:1", "hlk-silent:2");
    cr_assert_eq(permits_unused(), 1);
    redisFree(silent);
}

Test(permits_lease, of_a_dead_process_are_counted_as_free)
{
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    permits_set(2);
    raw(fixture.redis, "ZADD %s 1 dead-1 1 dead-2", PERMITS_LEASES); /* their leases ended in 1970 */
    raw(fixture.redis, "SET t 0");
    cr_assert_eq(hlk_permits_query(permits, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(state.free, 2);
    cr_assert_eq(state.held, 0);
    cr_assert_eq(permits_unused(), 2);
}

Test(permits_lease, tell_their_holder_that_one_is_lost)
{
    permits_set(2);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(their_permit, HLK_NOWAIT), HLK_OK);
    int fd = hlk_lock_lost_fd(permit);
    raw(fixture.redis, "ZREM %s %s", PERMITS_LEASES, permit_id(permit));
    raw(fixture.redis, "INCR t");
    struct fixture_event event = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(event.kind, HLK_EVENT_LOST);
    WAIT_FOR(poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 0) == 1);
    cr_assert_eq(hlk_lock_left_ms(permit), 0);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(permit), HLK_LOST);
    cr_assert_gt(hlk_lock_left_ms(their_permit), 0);
    cr_assert_eq(hlk_lock_release(their_permit), HLK_OK);
    cr_assert_eq(permits_unused(), 2);
}

Test(permits_lease, are_extended_and_never_shortened)
{
    permits_set(1);
    hlk_lock *fixed = permit_with(client, NULL, 10000);
    cr_assert_eq(hlk_lock_acquire(fixed, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_extend(fixed, 60000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(lease_left_ms(permit_id(fixed)), 50000);
    cr_assert_eq(hlk_lock_extend(fixed, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(lease_left_ms(permit_id(fixed)), 50000);
    raw(fixture.redis, "ZREM %s %s", PERMITS_LEASES, permit_id(fixed));
    cr_assert_eq(hlk_lock_extend(fixed, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_release(fixed), HLK_LOST);
    raw(fixture.redis, "INCR t");
}

Test(permits_lease, are_renewed_and_released_on_a_full_server)
{
    permits_set(1);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    int64_t first = raw_int(fixture.redis, "ZSCORE %s %s", PERMITS_LEASES, permit_id(permit));
    WAIT_FOR(raw_int(fixture.redis, "ZSCORE %s %s", PERMITS_LEASES, permit_id(permit)) > first);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_E_SERVER); /* a new one needs memory */
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    cr_assert_eq(permits_unused(), 1);
}

Test(permits_lease, end_with_their_number)
{
    permits_set(1);
    raw(fixture.redis, "PEXPIRE t 60000");
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, PERMITS_LEASES), 30000);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
}

/* --- many */

static void *works(void *lock)
{
    for (int i = 0; limit_goes_on(i, ROUNDS); i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        limit_enter(1);
        WAIT_FOR(limit_most() > 1); /* the first one waits for company */
        limit_leave(1);
        enum hlk_status status = hlk_lock_release(lock);
        bool goes_on = fixture.proxy && (status == HLK_E_UNSURE || status == HLK_E_CONNECT);
        cr_assert(status == HLK_OK || goes_on, "%s", hlk_last_error());
    }
    return NULL;
}

static void many_work(void)
{
    pthread_t threads[MANY];
    permits_set(LIMIT);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, works, i % 2 ? permit : their_permit), 0);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    cr_assert_leq(limit_most(), LIMIT);
    WAIT_FOR(permits_unused() == LIMIT);
    WAIT_FOR(permits_tickets() == 0);
    cr_assert_eq(permits_used(), 0);
}

Test(permits_lease, are_never_held_by_more_than_there_are)
{
    many_work();
}

Test(permits_wire, are_never_exceeded_while_connections_break)
{
    limit_start_cuts(CUTS);
    many_work();
    limit_end_cuts();
}

/* Each way to lose an answer, at each command of the two. */
Test(permits_wire, are_taken_and_returned_once_if_answers_are_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_AFTER, PROXY_CUT_BEFORE, PROXY_SWALLOW, PROXY_CUT_AFTER };
    permits_set(2);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (i == 3) /* a tombstone: the scripts go the long way */
            raw(fixture.redis, "ZADD %s 2e15 hlk-ended:1", PERMITS_QUEUE);
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_lock_acquire(permit, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(permits_unused(), 1, "fault %zu: %lld", i, (long long)permits_unused());
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        enum hlk_status status = hlk_lock_release(permit);
        cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
        WAIT_FOR(permits_unused() == 2);
        cr_assert_eq(permits_used(), 0);
        if (status != HLK_OK)
            (void)hlk_lock_release(permit); /* its outcome */
    }
}

/* Its attempt is on the way until its end has run. */
Test(permits_wire, that_are_given_up_on_the_way_are_not_taken_later)
{
    permits_set(1);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_lock_acquire(permit, 300), HLK_TIMEOUT);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT %s 2e15 (3e15", PERMITS_QUEUE) == 1); /* its tombstone */
    cr_assert_eq(hlk_lock_acquire(their_permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(their_permit), HLK_OK, "%s", hlk_last_error());
    proxy_deliver(fixture.proxy, true);
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(permits_used(), 0);
}
