/* Threads that put each other to sleep and wake each other many times: no wake-up is lost, and none is left behind. */
#include "base/park.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

TestSuite(park_storm, .timeout = 20);

/* Beside busy processes a hand-over waits for the processor, not for a wake-up: 5,000 rounds took 0.1 s alone and 7 s
 * beside three. So a storm ends at its time, too, and only one that hangs reaches the time limit of the suite. */
enum { ROUNDS = 5000, STORM_MS = 3000 };

static struct hlk_park park, there, back;
static bool by_poll;
static atomic_bool storm_over;

static unsigned await(struct hlk_park *mine, int round, int fd)
{
    bool eintr = false;
    while (!hlk_park_until(mine, HLK_WAKE_QUEUE, round % 3 ? INT64_MAX : hlk_clock_ms(), fd, by_poll ? &eintr : NULL))
        sched_yield();
    return hlk_park_take(mine, HLK_WAKE_QUEUE);
}

static void *answer(void *arg)
{
    bool last = false;
    for (int i = 1; !last; i++) {
        (void)await(&there, i, *(int *)arg);
        last = atomic_load(&storm_over);
        hlk_park_wake(&back, HLK_WAKE_QUEUE);
    }
    return NULL;
}

/* One lost wake-up would leave both asleep for ever, and one that is made twice leaves a token. Every third sleep has a
 * deadline in the past, so that deadlines and wake-ups coincide. */
static void ping_pong(bool polls)
{
    pthread_t thread;
    int fds[2] = { eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK) }, left[2];
    by_poll = polls;
    hlk_park_init(&there);
    hlk_park_init(&back);
    cr_assert_eq(pthread_create(&thread, NULL, answer, &fds[0]), 0);
    int64_t over_ms = hlk_clock_ms() + STORM_MS;
    for (int i = 0; !atomic_load(&storm_over); i++) {
        atomic_store(&storm_over, i + 1 >= ROUNDS || hlk_clock_ms() >= over_ms);
        hlk_park_wake(&there, HLK_WAKE_QUEUE);
        cr_assert_eq(await(&back, i, fds[1]), HLK_WAKE_QUEUE);
    }
    pthread_join(thread, NULL);
    sem_getvalue(&there.sem, &left[0]);
    sem_getvalue(&back.sem, &left[1]);
    cr_assert_eq(left[0], 0);
    cr_assert_eq(left[1], 0);
    close(fds[0]);
    close(fds[1]);
}

Test(park_storm, a_storm_loses_no_wake_up)
{
    ping_pong(false);
}

Test(park_storm, a_storm_in_poll_loses_no_wake_up)
{
    ping_pong(true);
}

static atomic_int left_to_wake;
static int64_t wakers_end_ms;

static void *wake_often(void *arg)
{
    unsigned bit = *(unsigned *)arg;
    while (atomic_fetch_sub(&left_to_wake, 1) > 0 && hlk_clock_ms() < wakers_end_ms) {
        hlk_park_wake(&park, bit);
        sched_yield();
    }
    hlk_park_wake(&park, HLK_WAKE_CLOSED);
    return NULL;
}

Test(park_storm, many_wakers_leave_no_token)
{
    static unsigned bits[] = { HLK_WAKE_QUEUE, HLK_WAKE_MESSAGE, HLK_WAKE_REPLY };
    pthread_t threads[3];
    hlk_park_init(&park);
    atomic_store(&left_to_wake, 6000);
    wakers_end_ms = hlk_clock_ms() + STORM_MS;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, wake_often, &bits[i]);
    unsigned got = 0;
    while (!(got & HLK_WAKE_CLOSED)) {
        cr_assert(hlk_park_until(&park, HLK_WAKE_ALL, INT64_MAX, -1, NULL));
        got = hlk_park_take(&park, HLK_WAKE_ALL);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    int left = -1;
    cr_assert_eq(sem_getvalue(&park.sem, &left), 0);
    cr_assert_eq(left, 0);
    cr_assert_not(atomic_load(&park.bits) & HLK_PARK_ASLEEP);
}
