/* hlk_semaphore: never more permits than there are, in the queue's order, each taken and given back once. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 15000, MANY = 64, ROUNDS = 12, LIMIT = 5, CUTS = 12, BETWEEN_CUTS = 7 };

static const char queue[] = "hasplock_queue:{t}", channel[] = "redisson_sc:{t}";
static hlk_client *client, *other;
static hlk_semaphore *permits, *theirs;

static void up(unsigned flags)
{
    fixture_begin(flags);
    client = fixture_open(NULL);
    other = fixture_open(NULL);
    permits = hlk_semaphore_create(client, "t");
    theirs = hlk_semaphore_create(other, "t");
    cr_assert(permits && theirs, "%s", hlk_last_error());
}

static void start(void)
{
    up(0);
}

static void start_proxied(void)
{
    up(STAGE_PROXY);
    server_allow(fixture.server, SERVER_VOID);
}

/* What is left is the semaphore itself. */
static void stop(void)
{
    hlk_semaphore_destroy(permits);
    hlk_semaphore_destroy(theirs);
    raw(fixture.redis, "DEL t");
    fixture_end();
}

TestSuite(semaphore, .init = start, .fini = stop, .timeout = 60);
TestSuite(semaphore_wire, .init = start_proxied, .fini = stop, .timeout = 60);

static int64_t there(void)
{
    return raw_int(fixture.redis, "GET t");
}

static void set(int64_t n)
{
    cr_assert_eq(hlk_semaphore_try_set(permits, n, 0), HLK_OK, "%s", hlk_last_error());
}

static int64_t tickets(void)
{
    return raw_int(fixture.redis, "ZCOUNT %s 1 (1e15", queue);
}

/* --- a thread that acquires */

struct taker {
    hlk_semaphore *semaphore;
    int64_t n, wait_ms;
    hlk_cancel *cancel;
    enum hlk_status status;
    char error[256];
    int64_t answered_ms;
    atomic_bool answered;
    pthread_t thread;
};

static void *takes(void *arg)
{
    struct taker *taker = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = taker->wait_ms;
    opts.cancel = taker->cancel;
    taker->status = hlk_semaphore_acquire_with(taker->semaphore, taker->n, &opts);
    taker->answered_ms = test_now_ms();
    if (taker->status != HLK_OK)
        snprintf(taker->error, sizeof taker->error, "%s", hlk_last_error());
    atomic_store(&taker->answered, true);
    return NULL;
}

static void start_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n)
{
    taker->semaphore = semaphore;
    taker->n = n;
    if (taker->wait_ms == 0)
        taker->wait_ms = PATIENCE_MS;
    cr_assert_eq(pthread_create(&taker->thread, NULL, takes, taker), 0);
}

/* It has a ticket, behind those that were there before. */
static void queue_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n)
{
    int64_t before = tickets();
    start_taker(taker, semaphore, n);
    WAIT_FOR(tickets() == before + 1);
}

static enum hlk_status end_taker(struct taker *taker)
{
    pthread_join(taker->thread, NULL);
    return taker->status;
}

static void got(struct taker *taker)
{
    cr_assert_eq(end_taker(taker), HLK_OK, "%s: %s", hlk_status_name(taker->status), taker->error);
}

/* --- taking and giving back */

Test(semaphore, is_taken_from_and_given_back)
{
    set(3);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(there(), 1);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(there(), 3);
    int64_t free;
    cr_assert_eq(hlk_semaphore_available(theirs, &free), HLK_OK);
    cr_assert_eq(free, 3);
    cr_assert_str_eq(hlk_semaphore_name(permits), "t");
}

Test(semaphore, gives_all_or_none)
{
    set(2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 3, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "too few permits"), "%s", hlk_last_error());
    cr_assert_eq(there(), 2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 3, 100), HLK_TIMEOUT);
    cr_assert_eq(there(), 2);
    WAIT_FOR(tickets() == 0);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(there(), 0);
}

Test(semaphore, may_be_released_by_another_thread_and_process)
{
    set(1);
    struct taker taker = { 0 };
    start_taker(&taker, permits, 1);
    got(&taker);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(there(), 1);
}

Test(semaphore, is_taken_from_several_times_by_a_thread)
{
    set(3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_semaphore_release(permits, 3), HLK_OK);
    cr_assert_eq(there(), 3);
}

Test(semaphore, that_does_not_exist_is_waited_for)
{
    struct taker taker = { 0 };
    queue_taker(&taker, permits, 2);
    cr_assert_eq(hlk_semaphore_try_set(theirs, 2, 0), HLK_OK);
    got(&taker);
    cr_assert_eq(there(), 0);
}

Test(semaphore, leaves_nothing_but_its_number)
{
    set(1);
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
        cr_assert_leq(raw_int(fixture.redis, "ZCARD %s", queue), 2); /* notes of the last two calls */
    }
    hlk_semaphore_destroy(permits);
    permits = NULL;
    WAIT_FOR(raw_int(fixture.redis, "EXISTS %s", queue) == 0);
}

Test(semaphore, costs_two_commands_where_nobody_waits)
{
    set(1);
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
    set(0);
    for (int i = 0; i < 6; i++)
        queue_taker(&takers[i], i % 2 ? permits : theirs, 1);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
        got(&takers[i]);
        for (int k = i + 1; k < 6; k++)
            cr_assert(!takers[k].answered, "%d before %d", k, i);
    }
    cr_assert_eq(there(), 0);
}

Test(semaphore, wakes_as_many_waiters_as_it_has_permits)
{
    struct taker takers[4];
    memset(takers, 0, sizeof takers);
    set(0);
    for (int i = 0; i < 4; i++)
        queue_taker(&takers[i], i % 2 ? permits : theirs, 1 + i % 2);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_semaphore_release(permits, 6), HLK_OK);
    for (int i = 0; i < 4; i++)
        got(&takers[i]);
    cr_assert_lt(running_ms(began), 900); /* by messages, not by polls */
    cr_assert_eq(there(), 0);
}

Test(semaphore, does_not_let_a_small_waiter_overtake_a_large_one)
{
    struct taker large = { 0 }, small = { 0 };
    set(1);
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
    cr_assert_eq(there(), 2);
}

Test(semaphore, lets_others_by_who_do_not_take_from_the_first)
{
    struct taker first = { 0 };
    set(0);
    queue_taker(&first, permits, 1);
    raw(fixture.redis, "SET t 3"); /* nobody was told */
    cr_assert_eq(hlk_semaphore_acquire(theirs, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    got(&first);
    cr_assert_eq(there(), 0);
}

Test(semaphore, goes_to_the_next_when_the_first_gives_up)
{
    struct taker large = { .wait_ms = 400 }, small = { 0 };
    set(1);
    queue_taker(&large, permits, 2);
    queue_taker(&small, theirs, 1);
    cr_assert_eq(end_taker(&large), HLK_TIMEOUT);
    got(&small);
    cr_assert_lt(running_between_ms(large.answered_ms, small.answered_ms), 400); /* called, and not by its poll */
    cr_assert_eq(there(), 0);
}

Test(semaphore, is_given_up_by_a_cancel)
{
    struct taker taker = { .cancel = hlk_cancel_create(client) };
    set(0);
    queue_taker(&taker, permits, 1);
    hlk_cancel_trigger(taker.cancel);
    cr_assert_eq(end_taker(&taker), HLK_INTERRUPTED);
    WAIT_FOR(tickets() == 0);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    cr_assert_eq(there(), 1);
    hlk_cancel_destroy(taker.cancel);
}

Test(semaphore, is_given_up_by_pthread_cancel)
{
    struct taker taker = { 0 };
    void *result;
    set(0);
    queue_taker(&taker, permits, 1);
    pthread_cancel(taker.thread);
    pthread_join(taker.thread, &result);
    cr_assert_eq(result, PTHREAD_CANCELED);
    WAIT_FOR(tickets() == 0);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    cr_assert_eq(there(), 1);
}

Test(semaphore, is_given_up_when_the_client_is_closed)
{
    struct taker taker = { 0 };
    set(0);
    hlk_client *closing = fixture_open(NULL);
    hlk_semaphore *semaphore = hlk_semaphore_create(closing, "t");
    queue_taker(&taker, semaphore, 1);
    fixture_close(closing);
    cr_assert_eq(end_taker(&taker), HLK_E_CLOSED);
    hlk_semaphore_destroy(semaphore);
    WAIT_FOR(tickets() == 0);
}

/* A message that is lost for whatever reason. */
Test(semaphore, is_asked_for_again_without_a_message)
{
    struct taker taker = { 0 };
    set(0);
    queue_taker(&taker, permits, 1);
    raw(fixture.redis, "INCRBY t 1");
    got(&taker);
    cr_assert_eq(there(), 0);
}

/* A ticket whose client is gone, and one whose client is there and does not come. */
Test(semaphore, passes_by_waiters_that_are_gone)
{
    struct taker taker = { 0 };
    set(0);
    raw(fixture.redis, "ZADD %s 1 %s", queue, "hlk-gone:1 1000 1 0 1");
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    got(&taker);
    cr_assert_eq(tickets(), 0);
}

Test(semaphore, passes_by_a_waiter_that_is_called_and_does_not_come)
{
    struct taker taker = { 0 };
    redisContext *silent = raw_open(fixture.server);
    raw(silent, "SUBSCRIBE hasplock_inbox:hlk-silent");
    set(0);
    raw(fixture.redis, "ZADD %s 1 %s", queue, "hlk-silent:1 1000 1 0 1");
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    cr_assert(strstr(raw_next(silent), "popen 1 0 0 t"));
    int64_t called_ms = test_now_ms();
    got(&taker);
    cr_assert_geq(taker.answered_ms - called_ms, 1000);
    cr_assert_lt(running_between_ms(called_ms, taker.answered_ms), 5000);
    cr_assert_eq(there(), 0);
    redisFree(silent);
}

/* --- beside Redisson */

Test(semaphore, tells_redissons_waiters)
{
    redisContext *waiter = raw_open(fixture.server);
    raw(waiter, "SUBSCRIBE %s", channel);
    set(2);
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
    raw(waiter, "SUBSCRIBE %s", channel);
    set(0);
    cr_assert_eq(hlk_semaphore_add(permits, -5), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 4), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"1\"]");
    redisFree(waiter);
}

Test(semaphore, is_woken_by_a_release_of_redissons)
{
    struct taker taker = { 0 };
    set(0);
    queue_taker(&taker, permits, 1);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", channel), ":1"));
    int64_t began = test_now_ms();
    raw(fixture.redis, "MULTI");
    raw(fixture.redis, "INCRBY t 1");
    raw(fixture.redis, "PUBLISH %s 1", channel);
    raw(fixture.redis, "EXEC");
    got(&taker);
    cr_assert_lt(running_between_ms(began, taker.answered_ms), 600);
}

/* --- the number */

Test(semaphore, is_made_once)
{
    cr_assert_eq(hlk_semaphore_try_set(permits, 4, 0), HLK_OK);
    cr_assert_eq(hlk_semaphore_try_set(theirs, 9, 0), HLK_BUSY);
    cr_assert_eq(there(), 4);
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
    set(1);
    cr_assert_eq(hlk_semaphore_add(permits, -3), HLK_OK);
    cr_assert_eq(hlk_semaphore_available(permits, &free), HLK_OK);
    cr_assert_eq(free, -2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_BUSY);
    queue_taker(&taker, permits, 1);
    cr_assert_eq(hlk_semaphore_release(theirs, 2), HLK_OK);
    cr_assert(!taker.answered);
    cr_assert_eq(hlk_semaphore_add(theirs, 1), HLK_OK);
    got(&taker);
    cr_assert_eq(there(), 0);
}

Test(semaphore, is_drained_but_not_out_of_debt)
{
    int64_t drained = -1;
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK);
    cr_assert_eq(drained, 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    set(7);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK);
    cr_assert_eq(drained, 7);
    cr_assert_eq(there(), 0);
    cr_assert_eq(hlk_semaphore_add(permits, -2), HLK_OK);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_OK); /* Redisson's sets it to 0: two permits too many */
    cr_assert_eq(drained, 0);
    cr_assert_eq(there(), -2);
}

Test(semaphore, is_made_by_a_release_unless_that_is_unwanted)
{
    cr_assert_eq(hlk_semaphore_release_if_exists(permits, 1), HLK_NOT_HOLDER);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK);
    cr_assert_eq(hlk_semaphore_release_if_exists(permits, 1), HLK_OK);
    cr_assert_eq(there(), 3);
}

Test(semaphore, never_has_more_than_redisson_can_read)
{
    set(HLK_PERMITS_MAX);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), "2147483648 permits"), "%s", hlk_last_error());
    cr_assert_eq(hlk_semaphore_add(permits, 1), HLK_E_SERVER);
    cr_assert_eq(there(), HLK_PERMITS_MAX);
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
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", queue), 0);
}

Test(semaphore, is_released_on_a_full_server)
{
    set(1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    cr_assert_eq(there(), 1);
}

Test(semaphore, refuses_bad_input)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    char long_name[600];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    set(1);
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
    cr_assert_eq(there(), 1);
}

/* --- many */

static atomic_int inside, most, taken, cuts_left;

static void *works(void *arg)
{
    struct taker *taker = arg;
    for (int i = 0; i < ROUNDS || atomic_load(&cuts_left) > 0; i++) {
        cr_assert_eq(hlk_semaphore_acquire(taker->semaphore, taker->n, PATIENCE_MS * 3), HLK_OK, "%s",
                     hlk_last_error());
        atomic_fetch_add(&taken, 1);
        int now = atomic_fetch_add(&inside, (int)taker->n) + (int)taker->n, seen = atomic_load(&most);
        while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
            ;
        atomic_fetch_sub(&inside, (int)taker->n);
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
    cr_assert_leq(most, LIMIT);
    cr_assert_geq(most, 2);
    hlk_semaphore_destroy(handles[2]);
    WAIT_FOR(there() == LIMIT);
    WAIT_FOR(tickets() == 0);
}

Test(semaphore, is_never_taken_by_more_than_its_limit)
{
    set(LIMIT);
    many_work();
}

/* --- faults */

/* In the middle of the work, which went on since the last cut. */
static void *cuts(void *unused)
{
    (void)unused;
    while (atomic_load(&cuts_left) > 0) {
        int before = atomic_load(&taken);
        WAIT_FOR(atomic_load(&taken) >= before + BETWEEN_CUTS);
        proxy_cut_all(fixture.proxy);
        atomic_fetch_sub(&cuts_left, 1);
    }
    return NULL;
}

Test(semaphore_wire, is_never_taken_by_more_than_its_limit_while_connections_break)
{
    pthread_t cutter;
    set(LIMIT);
    atomic_store(&cuts_left, CUTS);
    cr_assert_eq(pthread_create(&cutter, NULL, cuts, NULL), 0);
    many_work();
    pthread_join(cutter, NULL);
}

/* Each way to lose an answer, at each command of the two. */
Test(semaphore_wire, is_taken_once_and_given_back_once_whatever_answer_is_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_BEFORE, PROXY_CUT_AFTER, PROXY_SWALLOW };
    set(3);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_semaphore_acquire(permits, 2, PATIENCE_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(there(), 1, "fault %zu: %lld", i, (long long)there());
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        enum hlk_status status = hlk_semaphore_release(permits, 2);
        cr_assert(status == HLK_OK || (status == HLK_E_UNSURE && faults[i] == PROXY_SWALLOW), "%s", hlk_last_error());
        WAIT_FOR(there() == 3);
        test_sleep_ms(300); /* no second attempt adds more */
        cr_assert_eq(there(), 3, "fault %zu: %lld", i, (long long)there());
    }
}

/* The first attempt runs when the second one was answered, and the permits were given back. */
Test(semaphore_wire, is_not_taken_by_an_attempt_that_comes_late)
{
    set(1);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    struct taker taker = { 0 };
    start_taker(&taker, permits, 1);
    proxy_wait_struck(fixture.proxy);
    got(&taker); /* by a second connection */
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK);
    proxy_deliver(fixture.proxy, true);
    cr_assert_eq(there(), 1);
}

Test(semaphore_wire, that_is_given_up_unanswered_comes_back)
{
    set(2);
    proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    enum hlk_status status = hlk_semaphore_acquire(permits, 2, 300);
    cr_assert_eq(status, HLK_TIMEOUT, "%s: %s", hlk_status_name(status), hlk_last_error());
    WAIT_FOR(there() == 2);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
}

/* Its attempt is on the way until the end has run. */
Test(semaphore_wire, that_is_given_up_on_the_way_does_not_come_later)
{
    set(2);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, 300), HLK_TIMEOUT);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT %s 2e15 (3e15", queue) == 1); /* its tombstone */
    proxy_deliver(fixture.proxy, true);
    cr_assert_eq(there(), 2);
}

Test(semaphore_wire, is_given_back_when_the_server_is_back)
{
    set(1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, HLK_NOWAIT), HLK_OK);
    proxy_freeze(fixture.proxy, true);
    enum hlk_status status = hlk_semaphore_release(permits, 1);
    cr_assert_eq(status, HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "happens once"), "%s", hlk_last_error());
    cr_assert_eq(there(), 0);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR(there() == 1);
    cr_assert_eq(hlk_semaphore_acquire(permits, 1, PATIENCE_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(there(), 0);
}

Test(semaphore_wire, waits_on_though_its_messages_are_lost)
{
    struct taker taker = { 0 };
    set(0);
    queue_taker(&taker, permits, 1);
    proxy_drop_messages(fixture.proxy, true);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    got(&taker);
    proxy_drop_messages(fixture.proxy, false);
    cr_assert_eq(there(), 0);
}

Test(semaphore_wire, says_that_it_is_unsure_of_a_change)
{
    int64_t drained;
    set(4);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_add(permits, 3), HLK_E_UNSURE);
    cr_assert_eq(there(), 7);                                         /* once */
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK); /* a connection is there again */
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_drain(permits, &drained), HLK_E_UNSURE);
    cr_assert_eq(there(), 0);
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_semaphore_available(permits, &drained), HLK_OK, "%s", hlk_last_error());
}
