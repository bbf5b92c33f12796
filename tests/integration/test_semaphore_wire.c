/* hlk_semaphore: each permit is taken and given back once, with many threads, broken connections and lost answers. */
/* Shows: P49 */
#include "semaphore_fixture.h"
#include "support/limit.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MANY = 64, ROUNDS = 12, LIMIT = 5, CUTS = 12 };

TestSuite(semaphore_many, .init = semaphore_start, .fini = semaphore_stop, .timeout = 60);
TestSuite(semaphore_wire, .init = semaphore_start_proxied, .fini = semaphore_stop, .timeout = 60);

/* --- many threads */

static void *works(void *arg)
{
    struct taker *taker = arg;
    for (int i = 0; limit_goes_on(i, ROUNDS); i++) {
        cr_assert_eq(hlk_semaphore_acquire(taker->semaphore, taker->n, RECONNECT_MS * 3), HLK_OK, "%s",
                     hlk_last_error());
        limit_enter((int)taker->n);
        limit_leave((int)taker->n);
        enum hlk_status status = hlk_semaphore_release(taker->semaphore, taker->n);
        bool goes_on = fixture.proxy && (status == HLK_E_UNSURE || status == HLK_E_CONNECT); /* and happens once */
        cr_assert(status == HLK_OK || goes_on, "%s", hlk_last_error());
    }
    return NULL;
}

static void many_work(void)
{
    struct taker takers[MANY];
    memset(takers, 0, sizeof takers);
    hlk_client *third = fixture_open(NULL);
    hlk_semaphore *handles[] = { permits, theirs, hlk_semaphore_create(third, "t") };
    for (int i = 0; i < MANY; i++) {
        takers[i].semaphore = handles[i % 3];
        takers[i].n = 1 + (i % 7 == 0) * 2 + (i % 13 == 0) * 2; /* 1, 3 or 5 */
        cr_assert_eq(pthread_create(&takers[i].thread, NULL, works, &takers[i]), 0);
    }
    for (int i = 0; i < MANY; i++)
        pthread_join(takers[i].thread, NULL);
    cr_assert_leq(limit_most(), LIMIT);
    cr_assert_geq(limit_most(), 2);
    hlk_semaphore_destroy(handles[2]);
    WAIT_FOR(semaphore_free() == LIMIT);
    WAIT_FOR(semaphore_tickets() == 0);
}

Test(semaphore_many, is_never_taken_by_more_than_its_limit)
{
    semaphore_set(LIMIT);
    many_work();
}

/* --- faults */

Test(semaphore_wire, never_exceeds_its_limit_while_connections_break)
{
    semaphore_set(LIMIT);
    limit_start_cuts(CUTS);
    many_work();
    limit_end_cuts();
}

/* Each way to lose an answer, at each command of the two. */
Test(semaphore_wire, is_taken_and_returned_once_if_answers_are_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_BEFORE, PROXY_CUT_AFTER, PROXY_SWALLOW };
    semaphore_set(3);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_semaphore_acquire(permits, 2, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(semaphore_free(), 1, "fault %zu: %lld", i, (long long)semaphore_free());
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        enum hlk_status status = hlk_semaphore_release(permits, 2);
        cr_assert(status == HLK_OK || (status == HLK_E_UNSURE && faults[i] == PROXY_SWALLOW), "%s", hlk_last_error());
        WAIT_FOR(semaphore_free() == 3);
        test_sleep_ms(300); /* no second attempt adds more */
        cr_assert_eq(semaphore_free(), 3, "fault %zu: %lld", i, (long long)semaphore_free());
    }
}

/* The first attempt runs when the second one was answered, and the permits were given back. */
Test(semaphore_wire, is_not_taken_by_an_attempt_that_comes_late)
{
    semaphore_set(1);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    struct taker taker = { 0 };
    start_taker(&taker, permits, 1);
    proxy_wait_struck(fixture.proxy);
    got(&taker); /* by a second connection */
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    proxy_deliver(fixture.proxy, true);
    cr_assert_eq(semaphore_free(), 1);
}

Test(semaphore_wire, that_is_given_up_unanswered_comes_back)
{
    semaphore_set(2);
    proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    enum hlk_status status = hlk_semaphore_acquire(permits, 2, 300);
    cr_assert_eq(status, HLK_TIMEOUT, "%s: %s", hlk_status_name(status), hlk_last_error());
    WAIT_FOR(semaphore_free() == 2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, RECONNECT_MS), HLK_OK, "%s",
                 hlk_last_error()); /* a new connection */
}

/* Its attempt is on the way until the end has run. */
Test(semaphore_wire, that_is_given_up_on_the_way_does_not_come_later)
{
    semaphore_set(2);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, 300), HLK_TIMEOUT);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT %s 2e15 (3e15", SEMAPHORE_QUEUE) == 1); /* its tombstone */
    proxy_deliver(fixture.proxy, true);
    cr_assert_eq(semaphore_free(), 2);
}

Test(semaphore_wire, is_given_back_when_the_server_is_back)
{
    semaphore_set(1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    proxy_freeze(fixture.proxy, true);
    enum hlk_status status = hlk_semaphore_release(permits, 1);
    cr_assert_eq(status, HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "happens once"), "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 0);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR(semaphore_free() == 1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore_wire, waits_on_though_its_messages_are_lost)
{
    struct taker taker = { 0 };
    semaphore_set(0);
    queue_taker(&taker, permits, 1);
    proxy_drop_messages(fixture.proxy, true);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    got(&taker);
    proxy_drop_messages(fixture.proxy, false);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore_wire, says_that_it_is_unsure_of_a_change)
{
    int64_t drained;
    semaphore_set(4);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_add(permits, 3), HLK_E_UNSURE);
    cr_assert_eq(semaphore_free(), 7);                                /* once */
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK); /* a connection is there again */
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_E_UNSURE);
    cr_assert_eq(semaphore_free(), 0);
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK, "%s", hlk_last_error());
}

/* --- the yield window --- */

/* One of Redisson's clients listens, and takes what is left to it. */
Test(semaphore_wire, leaves_a_permit_to_redisson_until_the_window_ends)
{
    struct hlk_client_opts opts = fixture_opts();
    struct taker taker = { 0 };
    opts.yield_every = 1;
    opts.yield_ms = 1000;
    hlk_client *yielding = fixture_open(&opts);
    hlk_semaphore *generous = hlk_semaphore_create(yielding, "t");
    redisContext *java = raw_open(fixture.server);
    semaphore_set(1);
    raw(java, "SUBSCRIBE %s", SEMAPHORE_CHANNEL);
    cr_assert_eq(hlk_semaphore_acquire(generous, 1, HLK_NOWAIT), HLK_OK);
    queue_taker(&taker, permits, 1);
    /* It is noted as listening, and does: else nobody knows that the other subscriber is no client of ours. */
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT %s 5e15 6e15", SEMAPHORE_QUEUE) == 1);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", SEMAPHORE_CHANNEL), ":2]"));
    int64_t released_ms = test_now_ms();
    cr_assert_eq(hlk_semaphore_release(generous, 1), HLK_OK);
    cr_assert_not_null(raw_next(java));
    int64_t free = semaphore_free();
    cr_assert(free == 1 || test_now_ms() - released_ms >= opts.yield_ms, "%lld", (long long)free);
    got(&taker);
    cr_assert_geq(taker.answered_ms - released_ms, 990);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    redisFree(java);
    hlk_semaphore_destroy(generous);
}
