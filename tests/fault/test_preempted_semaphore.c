/* A wait for a semaphore whose time is over is stopped before it leaves the line; another call passes it permits. */
#include "halt.h"

#include "lease/entry.h"
#include "lease/local_queue.h"

#include <pthread.h>
#include <sched.h>

enum { BEFORE_LEAVE = 1, WAIT = 2 /* ms */, SOON = 5000 };

WRAPPED(bool, hlk_entry_leave, (struct hlk_entry * e, struct hlk_local_waiter *waiter, bool in_flight))
{
    if (waiter->permits)
        halt(BEFORE_LEAVE);
    return __real_hlk_entry_leave(e, waiter, in_flight);
}

static void start(void)
{
    fault_up(0);
}

TestSuite(preempted_semaphore, .init = start, .fini = fixture_end, .timeout = 60);

static void *waits(void *semaphore)
{
    static enum hlk_status status;
    status = hlk_semaphore_acquire(semaphore, 1, WAIT);
    return &status;
}

/* It waits alone, so its ticket has to be ended, too: else the line stands for ever. A release is passed on only for
 * 5 ms, so that on a busy machine some of the rounds pass nothing. */
Test(preempted_semaphore, leaving_gives_back_what_comes_and_ends_its_ticket)
{
    hlk_client *client = fixture_open(NULL);
    hlk_semaphore *semaphore = hlk_semaphore_create(client, "t");
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 1, 0), HLK_OK, "%s", hlk_last_error());
    for (int64_t give_up = test_now_ms() + WAIT_MS; fixture_counters(client).passed == 0;) {
        pthread_t thread;
        void *status;
        cr_assert_lt(test_now_ms(), give_up);
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, SOON), HLK_OK, "%s", hlk_last_error());
        atomic_store(&standing, 0);
        atomic_store(&going, 0);
        arm(BEFORE_LEAVE);
        cr_assert_eq(pthread_create(&thread, NULL, waits, semaphore), 0);
        while (!atomic_load(&standing))
            sched_yield();
        cr_assert_eq(hlk_semaphore_release(semaphore, 1), HLK_OK, "%s", hlk_last_error());
        go_on();
        pthread_join(thread, &status);
        cr_assert_eq(*(enum hlk_status *)status, HLK_TIMEOUT);
        WAIT_FOR(raw_int(fixture.redis, "GET t") == 1);
    }
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, SOON), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_semaphore_release(semaphore, 1), HLK_OK, "%s", hlk_last_error());
    hlk_semaphore_destroy(semaphore);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}") == 0);
    raw(fixture.redis, "DEL t");
}
