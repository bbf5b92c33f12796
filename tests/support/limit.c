#include "support/limit.h"

#include "support/fixture.h"
#include "support/wait.h"

#include <stdatomic.h>
#include <time.h>

enum { BETWEEN_CUTS = 7 };

static atomic_int inside, most, entered, cuts_left;
static pthread_t cutter;

bool limit_goes_on(int round, int rounds)
{
    return round < rounds || atomic_load(&cuts_left) > 0;
}

void limit_enter(int n)
{
    atomic_fetch_add(&entered, 1);
    int now = atomic_fetch_add(&inside, n) + n, seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
}

void limit_leave(int n)
{
    atomic_fetch_sub(&inside, n);
}

int limit_most(void)
{
    return atomic_load(&most);
}

int limit_entered(void)
{
    return atomic_load(&entered);
}

static unsigned draw(unsigned *drawn)
{
    *drawn = *drawn * 1103515245u + 12345u;
    return *drawn >> 16;
}

int64_t limit_brief_wait_ms(unsigned *drawn)
{
    return (int64_t)1 << draw(drawn) % 7;
}

void limit_hold(unsigned *drawn)
{
    static const struct timespec held = { 0, 4000000 };
    if (draw(drawn) % 32 == 0)
        (void)nanosleep(&held, NULL);
}

void limit_no_command_for_passes(const struct hlk_counters *counters)
{
    uint64_t not_passed = counters->acquired - counters->passed;
    if (counters->commands > 4 * not_passed + 100)
        test_give_up("%llu commands for %llu acquires, of which %llu were passed on",
                     (unsigned long long)counters->commands, (unsigned long long)counters->acquired,
                     (unsigned long long)counters->passed);
}

void limit_start_threads(pthread_t *threads, int count, void *(*run)(void *), void *arg)
{
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, arg) != 0)
            test_give_up("no thread");
}

void limit_end_threads(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void *cut(void *unused)
{
    (void)unused;
    while (atomic_load(&cuts_left) > 0) {
        int before = atomic_load(&entered);
        WAIT_FOR(atomic_load(&entered) >= before + BETWEEN_CUTS);
        proxy_cut_all(fixture.proxy);
        atomic_fetch_sub(&cuts_left, 1);
    }
    return NULL;
}

void limit_start_cuts(int times)
{
    atomic_store(&cuts_left, times);
    if (pthread_create(&cutter, NULL, cut, NULL) != 0)
        test_give_up("no thread");
}

void limit_end_cuts(void)
{
    pthread_join(cutter, NULL);
}
