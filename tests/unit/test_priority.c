/* One CPU, and a thread of real-time priority that waits for a thread of normal priority. It must sleep, or the other
 * one never runs. The test measures the waiter's CPU time. Skipped if this user may not set priorities. */
#include "pipeline_fixture.h"

#include "net/pipeline_link.h"
#include "support/wait.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>

enum { WORK_MS = 20, SPENT_MS = 100 }; /* a waiter that does not sleep uses 950 ms, the limit for such threads */

TestSuite(priority, .init = calls_begin, .fini = calls_end, .timeout = 30);

static int64_t spent_ms(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000 + spent.tv_nsec / 1000000;
}

/* The work that a low-priority thread still has to do inside. */
static atomic_bool halts, stands, goes;
static void works_on(void)
{
    if (!atomic_exchange(&halts, false))
        return;
    atomic_store(&stands, true);
    WAIT_FOR(atomic_load(&goes));
    for (int64_t until = spent_ms() + WORK_MS; spent_ms() < until;)
        ;
}

ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    works_on();
    return __real_send(fd, bytes, len, flags);
}

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    works_on();
    return __real_write(fd, bytes, len);
}

static bool set_priority(int policy, int priority)
{
    struct sched_param param = { .sched_priority = priority };
    return sched_setscheduler(0, policy, &param) == 0;
}

/* `low` runs in a thread of its own until it is inside. Then `high` must wait for it. */
static void expect_little_spent(void *(*low)(void *), void *arg, void (*high)(void))
{
    pthread_t thread;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0 || !set_priority(SCHED_FIFO, 10)) {
        fputs("skipped: no real-time priority here\n", stderr);
        return;
    }
    (void)set_priority(SCHED_OTHER, 0);
    atomic_store(&halts, true);
    pthread_create(&thread, NULL, low, arg);
    WAIT_FOR(atomic_load(&stands));
    cr_assert(set_priority(SCHED_FIFO, 10));
    atomic_store(&goes, true);
    int64_t before = spent_ms();
    high();
    int64_t spent = spent_ms() - before;
    (void)set_priority(SCHED_OTHER, 0);
    pthread_join(thread, NULL);
    cr_assert_lt(spent, SPENT_MS, "%lld ms", (long long)spent);
}

static void *sends(void *arg)
{
    struct caller *c = arg;
    call(c, "A");
    return NULL;
}

static void close_pipeline(void)
{
    hlk_pipeline_close(peer.pipeline);
}

Test(priority, close_lets_a_sender_run)
{
    static struct caller sender;
    peer_up(&peer);
    expect_little_spent(sends, &sender, close_pipeline);
}

static int kick_fd;

static void *pays(void *woken)
{
    hlk_park_wake_signalled(woken);
    return NULL;
}

static void poll_once(void)
{
    hlk_thread_poll(hlk_thread_get(), -1, 0, kick_fd, HLK_WAKE_LEAD, INT64_MAX);
}

Test(priority, a_leader_that_wakes_up_lets_who_pays_for_it_run)
{
    struct hlk_thread *self = hlk_thread_get();
    kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&self->park.poll_fd, kick_fd);
    cr_assert(hlk_park_begin(&self->park, HLK_WAKE_LEAD));
    cr_assert_not_null(hlk_park_signal(&self->park, HLK_WAKE_LEAD));
    expect_little_spent(pays, &self->park, poll_once);
    close(kick_fd);
}
