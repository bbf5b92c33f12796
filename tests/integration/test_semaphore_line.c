/* hlk_semaphore: permits that calls of one process pass on among themselves. The turn of 5 ms is in
 * tests/unit/test_pass_permits.c; here is a server, and threads that are in each other's way. */
/* Shows: P49 */
#include "semaphore_fixture.h"
#include "support/limit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 6, PAIRS = 400 };

TestSuite(semaphore_line, .init = semaphore_start, .fini = semaphore_stop, .timeout = 60);

static atomic_int pairs;
static atomic_bool over;

static void leave(hlk_semaphore *semaphore, int n)
{
    limit_leave(n);
    cr_assert_eq(hlk_semaphore_release(semaphore, n), HLK_OK, "%s", hlk_last_error());
    atomic_fetch_add(&pairs, 1);
}

/* Each of PAIRS, or until it is over. */
static void *works(void *semaphore)
{
    for (int i = 0; i < PAIRS && !atomic_load(&over); i++) {
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        limit_enter(1);
        leave(semaphore, 1);
    }
    return NULL;
}

static void *works_on(void *semaphore)
{
    while (!atomic_load(&over))
        works(semaphore);
    return NULL;
}

static void all_are_back(int64_t limit)
{
    cr_assert_leq(limit_most(), limit);
    WAIT_FOR(semaphore_free() == limit);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT %s 1 (2e15", SEMAPHORE_QUEUE) == 0);
    hlk_semaphore_destroy(permits);
    hlk_semaphore_destroy(theirs);
    permits = theirs = NULL;
    WAIT_FOR(raw_int(fixture.redis, "EXISTS %s", SEMAPHORE_QUEUE) == 0);
}

Test(semaphore_line, passes_permits_on_without_a_command)
{
    pthread_t threads[THREADS];
    semaphore_set(2);
    limit_start_threads(threads, THREADS, works_on, permits);
    WAIT_FOR(fixture_counters(client).passed > THREADS * PAIRS);
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.acquired, (uint64_t)pairs);
    cr_assert_eq(counters.released, (uint64_t)pairs);
    limit_no_command_for_passes(&counters);
    all_are_back(2);
}

Test(semaphore_line, passes_none_on_without_local_passes)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.local_passes = -1;
    pthread_t threads[THREADS];
    semaphore_set(2);
    hlk_semaphore_destroy(permits);
    hlk_client *sends_all = fixture_open(&opts);
    permits = hlk_semaphore_create(sends_all, "t");
    limit_start_threads(threads, THREADS, works, permits);
    limit_end_threads(threads, THREADS);
    cr_assert_eq(fixture_counters(sends_all).passed, 0u);
    all_are_back(2);
}

/* Those elsewhere have their turn, also one that needs all of them. */
Test(semaphore_line, keeps_permits_from_nobody)
{
    pthread_t threads[THREADS];
    semaphore_set(3);
    limit_start_threads(threads, THREADS, works_on, permits);
    for (int i = 0; i < 5; i++) {
        int64_t n = i % 2 ? 1 : 3;
        WAIT_FOR(fixture_counters(client).waiting > 0);
        cr_assert_eq(hlk_semaphore_acquire(theirs, n, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        limit_enter((int)n);
        leave(theirs, (int)n);
    }
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    all_are_back(3);
}

/* --- waits that end in the moment in which they are passed permits */

static void *works_impatiently(void *semaphore)
{
    unsigned drawn = (unsigned)(uintptr_t)&drawn;
    while (!atomic_load(&over)) {
        enum hlk_status status = hlk_semaphore_acquire(semaphore, 1, limit_brief_wait_ms(&drawn));
        if (status == HLK_OK) {
            limit_enter(1);
            limit_hold(&drawn);
            leave(semaphore, 1);
        } else {
            cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_last_error());
        }
    }
    return NULL;
}

Test(semaphore_line, loses_none_to_a_wait_whose_time_is_over)
{
    pthread_t threads[THREADS];
    semaphore_set(1);
    limit_start_threads(threads, THREADS, works_impatiently, permits);
    WAIT_FOR(fixture_counters(client).timeouts >= 100 && fixture_counters(client).passed >= 100);
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    all_are_back(1);
}

static void *is_cancelled(void *arg)
{
    struct taker *taker = arg;
    for (;;) { /* no other cancellation point */
        taker->status = hlk_semaphore_acquire(taker->semaphore, 1, RECONNECT_MS);
        if (taker->status != HLK_OK || hlk_semaphore_release(taker->semaphore, 1) != HLK_OK)
            return NULL;
        atomic_fetch_add(&pairs, 1);
    }
}

Test(semaphore_line, loses_none_to_a_thread_that_is_cancelled)
{
    struct taker takers[THREADS];
    void *result;
    memset(takers, 0, sizeof takers);
    semaphore_set(1);
    /* a slow machine passes little on: a turn ends after 5 ms */
    for (int round = 0; round < 40 || fixture_counters(client).passed == 0; round++) {
        for (int i = 0; i < THREADS; i++) {
            takers[i].semaphore = permits;
            cr_assert_eq(pthread_create(&takers[i].thread, NULL, is_cancelled, &takers[i]), 0);
        }
        int before = atomic_load(&pairs);
        WAIT_FOR(atomic_load(&pairs) >= before + 20);
        for (int i = 0; i < THREADS; i++)
            pthread_cancel(takers[i].thread);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(takers[i].thread, &result);
            cr_assert(result == PTHREAD_CANCELED, "%s", hlk_status_name(takers[i].status));
        }
        WAIT_FOR(semaphore_free() == 1);
    }
    all_are_back(1);
}

/* It waits alone, so that its ticket is ended, too. */
Test(semaphore_line, loses_none_to_a_thread_cancelled_when_it_has_them)
{
    int cancelled = 0;
    semaphore_set(1);
    for (int round = 0; round < 200 || fixture_counters(client).passed == 0 || cancelled == 0; round++) {
        struct taker taker = { 0 };
        void *result;
        cr_assert_eq(hlk_semaphore_acquire(permits, 1, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        queue_taker(&taker, permits, 1);
        cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK, "%s", hlk_last_error());
        pthread_cancel(taker.thread);
        pthread_join(taker.thread, &result);
        if (taker.answered)
            cr_assert_eq(hlk_semaphore_release(permits, 1), HLK_OK, "%s", hlk_last_error());
        cancelled += !taker.answered;
        WAIT_FOR(semaphore_free() == 1);
    }
    all_are_back(1);
}
