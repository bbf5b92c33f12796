#include "base/park.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mutex.h"
#include "base/nocancel.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define AWAITED 0x80000000u /* bit of `paying`: the sleeper waits for the count 0, and then for `paid` */

void hlk_park_init(struct hlk_park *park)
{
    atomic_init(&park->bits, 0);
    atomic_init(&park->poll_fd, -1);
    atomic_init(&park->paying, 0);
    sem_init(&park->sem, 0, 0);
    sem_init(&park->paid, 0, 0);
}

static void write_token(int fd)
{
    HLK_DEBUG_ASSERT(fd >= 0);
    uint64_t one = 1;
    int old = hlk_nocancel_begin();
    ssize_t ignored = write(fd, &one, sizeof one); /* if the eventfd is full, its reader wakes all the same */
    (void)ignored;
    hlk_nocancel_end(old);
}

static void pays_no_more(struct hlk_park *park)
{
    HLK_DEBUG_ASSERT(atomic_load(&park->paying) & ~AWAITED);
    unsigned old = atomic_load(&park->paying), next;
    do
        next = old == (AWAITED | 1) ? 0 : old - 1;
    while (!atomic_compare_exchange_weak(&park->paying, &old, next));
    if (old == (AWAITED | 1))
        sem_post(&park->paid);
}

static void take_token(sem_t *sem)
{
    int old = hlk_nocancel_begin();
    while (sem_wait(sem) != 0)
        ;
    hlk_nocancel_end(old);
}

/* Sleeps, and does not spin: a waker of lower priority has to get the CPU. */
static void await_payers(struct hlk_park *park)
{
    unsigned old = atomic_load(&park->paying);
    while (old) {
        if (!atomic_compare_exchange_weak(&park->paying, &old, old | AWAITED))
            continue;
        take_token(&park->paid);
        old = atomic_load(&park->paying);
    }
}

void hlk_park_wake_signalled(struct hlk_park *park)
{
    if (!park)
        return;
    if (atomic_load(&park->poll_fd) == -1) {
        sem_post(&park->sem);
        return;
    }
    atomic_fetch_add(&park->paying, 1);
    int fd = atomic_load(&park->poll_fd); /* `paying` keeps it open from here on */
    if (fd >= 0)
        write_token(fd);
    else if (fd == -1)
        sem_post(&park->sem);
    pays_no_more(park);
}

struct hlk_park *hlk_park_signal(struct hlk_park *park, unsigned bit)
{
    HLK_DEBUG_ASSERT(bit && !(bit & HLK_PARK_ASLEEP));
    unsigned old = atomic_load(&park->bits);
    while (!atomic_compare_exchange_weak(&park->bits, &old, (old | bit) & ~HLK_PARK_ASLEEP))
        ;
    return old & HLK_PARK_ASLEEP ? park : NULL;
}

bool hlk_park_begin(struct hlk_park *park, unsigned mask)
{
    HLK_DEBUG_ASSERT(!(mask & HLK_PARK_ASLEEP));
    unsigned old = atomic_load(&park->bits);
    do {
        if (old & mask)
            return false;
    } while (!atomic_compare_exchange_weak(&park->bits, &old, old | HLK_PARK_ASLEEP));
    return true;
}

bool hlk_park_end(struct hlk_park *park)
{
    return atomic_fetch_and(&park->bits, ~HLK_PARK_ASLEEP) & HLK_PARK_ASLEEP;
}

void hlk_park_end_poll(struct hlk_park *park)
{
    (void)hlk_park_end(park);
    atomic_store(&park->poll_fd, HLK_PARK_NOWHERE);
    await_payers(park);
}

static int sem_sleep(sem_t *sem, int64_t at_ms)
{
    if (at_ms == INT64_MAX)
        return sem_wait(sem);
    struct timespec at = hlk_clock_monotonic_at(at_ms);
    return sem_clockwait(sem, CLOCK_MONOTONIC, &at);
}

/* Leaves the semaphore as it was before this sleep. The waker that cleared ASLEEP has posted, or will at once. */
static void sem_leave(void *arg)
{
    struct hlk_park *park = arg;
    if (!hlk_park_end(park))
        take_token(&park->sem);
}

static void sem_round(struct hlk_park *park, int64_t at_ms)
{
    bool taken = false;
    pthread_cleanup_push(sem_leave, park);
    taken = sem_sleep(&park->sem, at_ms) == 0;
    pthread_cleanup_pop(0);
    if (!taken)
        sem_leave(park);
}

static void poll_leave(void *park)
{
    hlk_park_end_poll(park);
}

static bool poll_round(struct hlk_park *park, int64_t at_ms)
{
    int fd = atomic_load(&park->poll_fd);
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    int n = 0;
    pthread_cleanup_push(poll_leave, park);
    n = poll(&pfd, 1, hlk_clock_poll_ms(at_ms));
    pthread_cleanup_pop(0);
    bool interrupted = n < 0 && errno == EINTR;
    (void)hlk_park_end(park);
    uint64_t drained;
    if (n > 0 && read(fd, &drained, sizeof drained) < 0)
        return interrupted; /* another thread has read the token already */
    return interrupted;
}

bool hlk_park_until(struct hlk_park *park, unsigned mask, int64_t at_ms, int event_fd, bool *eintr)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!eintr || event_fd >= 0);
    atomic_store(&park->poll_fd, eintr ? event_fd : -1);
    while (hlk_park_begin(park, mask)) {
        if (eintr) {
            if (poll_round(park, at_ms)) {
                *eintr = true;
                break;
            }
        } else {
            sem_round(park, at_ms);
        }
        if (at_ms != INT64_MAX && hlk_clock_ms() >= at_ms)
            break;
    }
    if (eintr)
        hlk_park_end_poll(park);
    return hlk_park_peek(park, mask) != 0;
}
