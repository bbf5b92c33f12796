/* hlk_semaphore: never more permits than there are, in the queue's order. test_semaphore_wire.c has many threads and
 * faults. */
/* Shows: P49 */
#include "semaphore_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(semaphore, .init = semaphore_start, .fini = semaphore_stop, .timeout = 60);

/* --- taking and giving back */

Test(semaphore, is_taken_from_and_given_back)
{
    semaphore_set(3);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 1);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 3);
    int64_t free;
    cr_assert_eq(hlk_semaphore_available(theirs, &free), HLK_OK);
    cr_assert_eq(free, 3);
    cr_assert_str_eq(hlk_semaphore_name(permits), "t");
}

/* As permits with leases say it. */
Test(semaphore, that_was_never_set_says_so)
{
    static const char never_set[] = "there are no permits: their number was never set";
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), never_set), "%s", hlk_last_error());
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, 100), HLK_TIMEOUT);
    cr_assert(strstr(hlk_last_error(), never_set), "%s", hlk_last_error());
    semaphore_set(0);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "too few permits"), "%s", hlk_last_error());
}

Test(semaphore, gives_all_or_none)
{
    semaphore_set(2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 3, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "too few permits"), "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 3, 100), HLK_TIMEOUT);
    cr_assert_eq(semaphore_free(), 2);
    WAIT_FOR(semaphore_tickets() == 0);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, may_be_released_by_another_thread_and_process)
{
    semaphore_set(1);
    struct taker taker = { 0 };
    start_taker(&taker, permits, 1);
    got(&taker);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(semaphore_free(), 1);
}

Test(semaphore, is_taken_from_several_times_by_a_thread)
{
    semaphore_set(3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_semaphore_release(permits, 3), HLK_OK);
    cr_assert_eq(semaphore_free(), 3);
}

Test(semaphore, that_does_not_exist_is_waited_for)
{
    struct taker taker = { 0 };
    queue_taker(&taker, permits, 2);
    cr_assert_eq(hlk_semaphore_try_set(theirs, 2, 0), HLK_OK);
    got(&taker);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, leaves_nothing_but_its_number)
{
    semaphore_set(1);
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
        cr_assert_leq(raw_int(fixture.redis, "ZCARD %s", SEMAPHORE_QUEUE), 2); /* notes of the last two calls */
    }
    hlk_semaphore_destroy(permits);
    permits = NULL;
    WAIT_FOR(raw_int(fixture.redis, "EXISTS %s", SEMAPHORE_QUEUE) == 0);
}

Test(semaphore, costs_two_commands_where_nobody_waits)
{
    semaphore_set(1);
    raw(fixture.redis, "CONFIG RESETSTAT");
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    }
    const char *stats = raw(fixture.redis, "INFO commandstats");
    cr_assert(strstr(stats, "cmdstat_evalsha:calls=20,"), "%s", stats);
}

/* --- waiting */

Test(semaphore, gives_to_waiters_in_their_order)
{
    struct taker takers[6];
    memset(takers, 0, sizeof takers);
    hlk_client *third = fixture_open(NULL); /* no call of it waits, so it passes nothing on */
    hlk_semaphore *gives = hlk_semaphore_create(third, "t");
    semaphore_set(0);
    for (int i = 0; i < 6; i++)
        queue_taker(&takers[i], i % 2 ? permits : theirs, 1);
    for (int i = 0; i < 6; i++) {
        WAIT_FOR(semaphore_tickets() == (i < 5 ? 2 : 1)); /* one of each client that waits */
        cr_assert_eq(hlk_semaphore_release(gives, 1), HLK_OK);
        got(&takers[i]);
        for (int k = i + 1; k < 6; k++)
            cr_assert(!takers[k].answered, "%d before %d", k, i);
    }
    hlk_semaphore_destroy(gives);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, wakes_as_many_waiters_as_it_has_permits)
{
    struct taker takers[4];
    memset(takers, 0, sizeof takers);
    semaphore_set(0);
    for (int i = 0; i < 4; i++)
        queue_taker(&takers[i], i % 2 ? permits : theirs, 1 + i % 2);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_semaphore_release(permits, 6), HLK_OK);
    for (int i = 0; i < 4; i++)
        got(&takers[i]);
    cr_assert_lt(running_ms(began), 900); /* by messages, not by polls */
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, does_not_let_a_small_waiter_overtake_a_large_one)
{
    struct taker large = { 0 }, small = { 0 };
    semaphore_set(1);
    queue_taker(&large, permits, 3);
    queue_taker(&small, theirs, 1);
    cr_assert_eq(hlk_semaphore_acquire(theirs, 1, HLK_NOWAIT), HLK_BUSY); /* a try neither */
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    test_sleep_ms(1500); /* a poll of each comes to nothing */
    cr_assert(!large.answered && !small.answered);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    got(&large);
    cr_assert(!small.answered);
    cr_assert_eq(hlk_semaphore_release(theirs, 3), HLK_OK);
    got(&small);
    cr_assert_eq(semaphore_free(), 2);
}

Test(semaphore, lets_others_by_who_do_not_take_from_the_first)
{
    struct taker first = { 0 };
    semaphore_set(0);
    queue_taker(&first, permits, 1);
    raw(fixture.redis, "SET t 3"); /* nobody was told */
    cr_assert_eq(hlk_semaphore_acquire(theirs, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    got(&first);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, goes_to_the_next_when_the_first_gives_up)
{
    struct taker large = { .wait_ms = 400 }, small = { 0 };
    semaphore_set(1);
    queue_taker(&large, permits, 2);
    queue_taker(&small, theirs, 1);
    cr_assert_eq(end_taker(&large), HLK_TIMEOUT);
    got(&small);
    cr_assert_lt(running_between_ms(large.answered_ms, small.answered_ms), 400); /* called, and not by its poll */
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, is_given_up_by_pthread_cancel)
{
    struct taker taker = { 0 };
    void *result;
    semaphore_set(0);
    queue_taker(&taker, permits, 1);
    pthread_cancel(taker.thread);
    pthread_join(taker.thread, &result);
    cr_assert_eq(result, PTHREAD_CANCELED);
    WAIT_FOR(semaphore_tickets() == 0);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    cr_assert_eq(semaphore_free(), 1);
}

/* A message that is lost for whatever reason. */
Test(semaphore, is_asked_for_again_without_a_message)
{
    struct taker taker = { 0 };
    semaphore_set(0);
    queue_taker(&taker, permits, 1);
    raw(fixture.redis, "INCRBY t 1");
    got(&taker);
    cr_assert_eq(semaphore_free(), 0);
}

/* A ticket whose client is gone, and one whose client is there and does not come. */
Test(semaphore, passes_by_waiters_that_are_gone)
{
    struct taker taker = { 0 };
    semaphore_set(0);
    raw(fixture.redis, "ZADD %s 1 %s", SEMAPHORE_QUEUE, "hlk-gone:1 1000 1 0 1");
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    got(&taker);
    cr_assert_eq(semaphore_tickets(), 0);
}

Test(semaphore, passes_by_a_called_waiter_that_does_not_come)
{
    struct taker taker = { 0 };
    redisContext *silent = raw_open(fixture.server);
    raw(silent, "SUBSCRIBE hasplock_inbox:hlk-silent");
    semaphore_set(0);
    raw(fixture.redis, "ZADD %s 1 %s", SEMAPHORE_QUEUE, "hlk-silent:1 1000 1 0 1");
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    cr_assert(strstr(raw_next(silent), "popen 1 0 0 t"));
    int64_t called_ms = test_now_ms();
    got(&taker);
    cr_assert_geq(taker.answered_ms - called_ms, 1000);
    cr_assert_lt(running_between_ms(called_ms, taker.answered_ms), 5000);
    cr_assert_eq(semaphore_free(), 0);
    redisFree(silent);
}

/* --- beside Redisson */

Test(semaphore, tells_redissons_waiters)
{
    redisContext *waiter = raw_open(fixture.server);
    raw(waiter, "SUBSCRIBE %s", SEMAPHORE_CHANNEL);
    semaphore_set(2);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"2\"]");
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"1\"]");
    cr_assert_eq(hlk_semaphore_add(permits, 4), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"5\"]");
    redisFree(waiter);
}

/* Redisson's handler fails on a negative number (its weakness: no waiter of that process is woken any more). */
Test(semaphore, tells_redissons_waiters_no_negative_number)
{
    redisContext *waiter = raw_open(fixture.server);
    raw(waiter, "SUBSCRIBE %s", SEMAPHORE_CHANNEL);
    semaphore_set(0);
    cr_assert_eq(hlk_semaphore_add(permits, -5), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 4), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"1\"]");
    redisFree(waiter);
}

Test(semaphore, is_woken_by_a_release_of_redissons)
{
    struct taker taker = { 0 };
    semaphore_set(0);
    queue_taker(&taker, permits, 1);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", SEMAPHORE_CHANNEL), ":1"));
    int64_t began = test_now_ms();
    raw(fixture.redis, "MULTI");
    raw(fixture.redis, "INCRBY t 1");
    raw(fixture.redis, "PUBLISH %s 1", SEMAPHORE_CHANNEL);
    raw(fixture.redis, "EXEC");
    got(&taker);
    cr_assert_lt(running_between_ms(began, taker.answered_ms), 600);
}

/* --- the number */

Test(semaphore, is_made_once)
{
    cr_assert_eq(hlk_semaphore_try_set(permits, 4, 0), HLK_OK);
    cr_assert_eq(hlk_semaphore_try_set(theirs, 9, 0), HLK_BUSY);
    cr_assert_eq(semaphore_free(), 4);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_semaphore_try_set(permits, 4, 60000), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_semaphore_add(permits, 1), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -1);
}

Test(semaphore, may_become_negative_and_recovers)
{
    struct taker taker = { 0 };
    int64_t free;
    semaphore_set(1);
    cr_assert_eq(hlk_semaphore_add(permits, -3), HLK_OK);
    cr_assert_eq(hlk_semaphore_available(permits, &free), HLK_OK);
    cr_assert_eq(free, -2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 2), HLK_OK);
    cr_assert(!taker.answered);
    cr_assert_eq(hlk_semaphore_add(theirs, 1), HLK_OK);
    got(&taker);
    cr_assert_eq(semaphore_free(), 0);
}

Test(semaphore, is_drained_but_not_out_of_debt)
{
    int64_t drained = -1;
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK);
    cr_assert_eq(drained, 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    semaphore_set(7);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK);
    cr_assert_eq(drained, 7);
    cr_assert_eq(semaphore_free(), 0);
    cr_assert_eq(hlk_semaphore_add(permits, -2), HLK_OK);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK); /* Redisson's sets it to 0: two permits too many */
    cr_assert_eq(drained, 0);
    cr_assert_eq(semaphore_free(), -2);
}

Test(semaphore, is_made_by_a_release_unless_that_is_unwanted)
{
    cr_assert_eq(hlk_semaphore_release_if_exists(permits, 1), HLK_NOT_HOLDER);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK);
    cr_assert_eq(hlk_semaphore_release_if_exists(permits, 1), HLK_OK);
    cr_assert_eq(semaphore_free(), 3);
}

/* Waiters wait on, until somebody makes it again. */
Test(semaphore, is_deleted_whatever_it_has)
{
    struct taker taker = { .wait_ms = HLK_FOREVER };
    cr_assert_eq(hlk_semaphore_delete(permits), HLK_NOT_HOLDER);
    semaphore_set(2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK);
    queue_taker(&taker, theirs, 1);
    cr_assert_eq(hlk_semaphore_delete(permits), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    cr_assert_eq(hlk_semaphore_release_if_exists(permits, 2), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_semaphore_try_set(theirs, 1, 0), HLK_OK);
    got(&taker);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "HSET t a 1");
    cr_assert_eq(hlk_semaphore_delete(permits), HLK_E_SERVER);
    cr_assert_eq(raw_int(fixture.redis, "DEL t"), 1);
}

Test(semaphore, never_has_more_than_redisson_can_read)
{
    semaphore_set(HLK_PERMITS_MAX);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), "2147483648 permits"), "%s", hlk_last_error());
    cr_assert_eq(hlk_semaphore_add(permits, 1), HLK_E_SERVER);
    cr_assert_eq(semaphore_free(), HLK_PERMITS_MAX);
}

Test(semaphore, refuses_what_is_no_semaphore)
{
    static const char *const makers[] = { "HSET t a 1", "SET t text", "SET t 1.5", "LPUSH t a" };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        raw(fixture.redis, makers[i]);
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_E_SERVER, "%s", makers[i]);
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, 500), HLK_E_SERVER);
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_E_SERVER);
        cr_assert_eq(hlk_semaphore_drain(permits, NULL), HLK_E_SERVER);
        raw(fixture.redis, "DEL t");
    }
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", SEMAPHORE_QUEUE), 0);
}

Test(semaphore, is_released_on_a_full_server)
{
    semaphore_set(1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    cr_assert_eq(semaphore_free(), 1);
}

Test(semaphore, refuses_bad_input)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    char long_name[600];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    semaphore_set(1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 0, HLK_NOWAIT), HLK_E_INVALID); /* Redisson's permits(0) hangs */
    cr_assert_eq(hlk_semaphore_acquire(permits, -1, HLK_NOWAIT), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_acquire(permits, HLK_PERMITS_MAX + INT64_C(1), HLK_NOWAIT), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_release(permits, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_add(permits, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_try_set(permits, -1, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_try_set(permits, 1, -1), HLK_E_INVALID);
    opts.lease_ms = 1000;
    cr_assert_eq(hlk_semaphore_acquire_with(permits, 1, &opts), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_acquire(NULL, 1, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_release(NULL, 1), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_drain(NULL, NULL), HLK_E_INVALID);
    cr_assert_null(hlk_semaphore_create(client, NULL));
    cr_assert_null(hlk_semaphore_create(client, ""));
    cr_assert_null(hlk_semaphore_create(client, long_name));
    cr_assert_null(hlk_semaphore_create(NULL, "t"));
    cr_assert_null(hlk_semaphore_name(NULL));
    hlk_semaphore_destroy(NULL);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = 23; /* what is no lock has no number for users */
    cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
    cr_assert_eq(semaphore_free(), 1);
}
