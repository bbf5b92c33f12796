/* HLK_LOCK_PERMIT: permits that holders of one process pass on among themselves. Who has which hold, and for how long:
 * tests/unit/test_pass_holds.c. Here is a server, and threads that are in each other's way. */
/* Shows: P50 */
#include "permits_fixture.h"
#include "support/limit.h"

#include <criterion/criterion.h>
#include <stdatomic.h>

enum { THREADS = 6, PAIRS = 300, LIMIT = 2, RECONNECT_MS = 20000 };

TestSuite(permits_line, .init = permits_start, .fini = permits_stop, .timeout = 60);

static atomic_bool over;

static void holds(void)
{
    limit_enter(1);
    limit_leave(1);
}

static void *works(void *lock)
{
    for (int i = 0; i < PAIRS && !atomic_load(&over); i++) {
        cr_assert_eq(hlk_lock_acquire(lock, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        holds();
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    return NULL;
}

static void *works_on(void *lock)
{
    while (!atomic_load(&over))
        works(lock);
    return NULL;
}

static void all_are_back(int64_t limit)
{
    cr_assert_leq(limit_most(), limit);
    WAIT_FOR(permits_unused() == limit);
    cr_assert_eq(permits_used(), 0);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS %s", PERMITS_QUEUE) == 0);
}

Test(permits_line, passes_permits_on_without_a_command)
{
    pthread_t threads[THREADS];
    permits_set(LIMIT);
    limit_start_threads(threads, THREADS, works_on, permit);
    WAIT_FOR(fixture_counters(client).passed > THREADS * PAIRS);
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.acquired, (uint64_t)limit_entered());
    cr_assert_eq(counters.held, 0u);
    limit_no_command_for_passes(&counters);
    all_are_back(LIMIT);
}

Test(permits_line, gives_each_thread_of_each_process_its_turn)
{
    pthread_t ours[THREADS], others[THREADS];
    permits_set(LIMIT);
    limit_start_threads(ours, THREADS, works, permit);
    limit_start_threads(others, THREADS, works, their_permit);
    limit_end_threads(ours, THREADS);
    limit_end_threads(others, THREADS);
    cr_assert_eq(limit_entered(), 2 * THREADS * PAIRS);
    cr_assert_gt(fixture_counters(client).passed, 0u);
    cr_assert_gt(fixture_counters(other).passed, 0u);
    all_are_back(LIMIT);
}

Test(permits_line, keeps_permits_from_nobody_elsewhere)
{
    pthread_t threads[THREADS];
    permits_set(LIMIT);
    limit_start_threads(threads, THREADS, works_on, permit);
    for (int i = 0; i < 5; i++) {
        WAIT_FOR(fixture_counters(client).waiting > 0);
        cr_assert_eq(hlk_lock_acquire(their_permit, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(their_permit), HLK_OK, "%s", hlk_last_error());
    }
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    all_are_back(LIMIT);
}

/* --- what is not passed on */

/* And each waiter asks: nothing is gained by a wait in line. */
Test(permits_line, passes_none_on_without_local_passes)
{
    struct hlk_client_opts opts = fixture_opts();
    pthread_t threads[THREADS];
    opts.local_passes = -1;
    hlk_client *sends_all = fixture_open(&opts);
    permits_set(1);
    limit_start_threads(threads, THREADS, works_on, permit_with(sends_all, NULL, 0));
    WAIT_FOR(limit_entered() > PAIRS);
    WAIT_FOR(permits_tickets() >= THREADS / 2);
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    cr_assert_eq(fixture_counters(sends_all).passed, 0u);
    all_are_back(1);
}

Test(permits_line, passes_none_on_whose_lease_is_fixed)
{
    pthread_t threads[THREADS];
    permits_set(LIMIT);
    limit_start_threads(threads, THREADS, works, permit_with(client, NULL, 10000));
    limit_end_threads(threads, THREADS);
    cr_assert_eq(fixture_counters(client).passed, 0u);
    all_are_back(LIMIT);
}

/* A hold id that a thread has is nobody else's later: it gives back what it has, and not what another one has. */
static void asks_for_its_id(hlk_lock *lock)
{
    char id[192];
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK, "%s", hlk_last_error());
}

static void queries(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
}

static void (*shows)(hlk_lock *lock);

static void *looks_at_it(void *lock)
{
    for (int i = 0; i < PAIRS; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        shows(lock);
        holds();
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    return NULL;
}

Test(permits_line, passes_none_on_whose_id_was_told)
{
    pthread_t threads[THREADS];
    permits_set(LIMIT);
    for (int i = 0; i < 2; i++) {
        shows = i ? queries : asks_for_its_id;
        limit_start_threads(threads, THREADS, looks_at_it, permit);
        limit_end_threads(threads, THREADS);
        cr_assert_eq(fixture_counters(client).passed, 0u, "%d", i);
    }
    all_are_back(LIMIT);
}

/* --- waits that end in the moment in which they are passed a permit */

static void *works_impatiently(void *lock)
{
    unsigned drawn = (unsigned)(uintptr_t)&drawn;
    while (!atomic_load(&over)) {
        enum hlk_status status = hlk_lock_acquire(lock, limit_brief_wait_ms(&drawn));
        if (status == HLK_OK) {
            holds();
            limit_hold(&drawn);
            cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        } else {
            cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_last_error());
        }
    }
    return NULL;
}

Test(permits_line, loses_none_to_a_wait_whose_time_is_over)
{
    pthread_t threads[THREADS];
    permits_set(1);
    limit_start_threads(threads, THREADS, works_impatiently, permit);
    WAIT_FOR(fixture_counters(client).timeouts >= 100 && fixture_counters(client).passed >= 100);
    atomic_store(&over, true);
    limit_end_threads(threads, THREADS);
    all_are_back(1);
}

static atomic_int pairs;

static void *is_cancelled(void *lock)
{
    for (;;) /* no other cancellation point */
        if (hlk_lock_acquire(lock, RECONNECT_MS) != HLK_OK || hlk_lock_release(lock) != HLK_OK)
            return NULL;
        else
            atomic_fetch_add(&pairs, 1);
}

Test(permits_line, loses_none_to_a_thread_that_is_cancelled)
{
    pthread_t threads[THREADS];
    void *result;
    permits_set(1);
    /* a slow machine passes little on: a turn ends after 5 ms */
    for (int round = 0; round < 40 || fixture_counters(client).passed == 0; round++) {
        limit_start_threads(threads, THREADS, is_cancelled, permit);
        int before = atomic_load(&pairs);
        WAIT_FOR(atomic_load(&pairs) >= before + 20);
        for (int i = 0; i < THREADS; i++)
            pthread_cancel(threads[i]);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], &result);
            cr_assert(result == PTHREAD_CANCELED);
        }
        WAIT_FOR(permits_unused() == 1);
    }
    all_are_back(1);
}

static void *works_until_closed(void *lock)
{
    enum hlk_status status;
    do {
        status = hlk_lock_acquire(lock, RECONNECT_MS);
        if (status != HLK_OK)
            break;
        status = hlk_lock_release(lock);
    } while (status == HLK_OK);
    cr_assert(status == HLK_E_CLOSED || status == HLK_NOT_HOLDER, "%s", hlk_last_error());
    return NULL;
}

Test(permits_line, loses_none_to_a_client_that_is_closed)
{
    pthread_t threads[THREADS];
    permits_set(LIMIT);
    for (int round = 0; round < 10; round++) {
        hlk_client *brief = fixture_open(NULL);
        limit_start_threads(threads, THREADS, works_until_closed, permit_with(brief, NULL, 0));
        WAIT_FOR(fixture_counters(brief).passed >= 20);
        fixture_close(brief);
        limit_end_threads(threads, THREADS);
        WAIT_FOR(permits_unused() == LIMIT);
    }
    all_are_back(LIMIT);
}
