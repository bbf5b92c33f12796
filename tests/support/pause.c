#include "pause.h"

#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAP_MS = 4, PAUSE_MS = 4, ROUNDS = 5, KEPT = 4096 }; /* a busy machine has a hundred pauses a second */

struct pause {
    int64_t from_ms, to_ms;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_t watcher;
static pid_t watched; /* the process of that thread */
static atomic_bool stopped;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int64_t awake_by_ms;     /* under mu: the present sleep should be over then */
static struct pause kept[KEPT]; /* under mu: the last ones, a ring */
static unsigned n;

/* A sleep is measured from the moment at which the one before was found to be over, so no pause falls between two. */
static void *watch_pauses(void *arg)
{
    (void)arg;
    while (!atomic_load(&stopped)) {
        test_sleep_ms(NAP_MS);
        pthread_mutex_lock(&mu);
        int64_t now = test_now_ms();
        if (now - awake_by_ms >= PAUSE_MS)
            kept[n++ % KEPT] = (struct pause){ awake_by_ms, now };
        awake_by_ms = now + NAP_MS + 1;
        pthread_mutex_unlock(&mu);
    }
    return NULL;
}

/* ThreadSanitizer lets a process that exits beside other threads sleep for a second. */
static void stop_watching(void)
{
    if (getpid() != watched) /* a forked child has no such thread */
        return;
    atomic_store(&stopped, true);
    pthread_join(watcher, NULL);
}

static void start_watching(void)
{
    sigset_t all, old;
    awake_by_ms = test_now_ms() + NAP_MS + 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the test's threads */
    if (pthread_create(&watcher, NULL, watch_pauses, NULL) != 0 || atexit(stop_watching) != 0)
        test_give_up("no thread that watches for pauses");
    watched = getpid();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void pause_watch(void)
{
    pthread_once(&once, start_watching);
}

/* How much of a pause lies between the two moments. */
static int64_t overlap(struct pause pause, int64_t from_ms, int64_t to_ms)
{
    int64_t from = pause.from_ms > from_ms ? pause.from_ms : from_ms, to = pause.to_ms < to_ms ? pause.to_ms : to_ms;
    return to > from ? to - from : 0;
}

static void measure(int64_t from_ms, int64_t to_ms, int64_t *sum, int64_t *longest)
{
    *sum = *longest = 0;
    if (getpid() != watched) /* nobody watches, or it is a forked child, where mu may be locked for ever */
        return;
    pthread_mutex_lock(&mu);
    *sum = *longest = overlap((struct pause){ awake_by_ms, test_now_ms() }, from_ms, to_ms);
    for (unsigned i = 0; i < KEPT && i < n; i++) {
        int64_t ms = overlap(kept[i], from_ms, to_ms);
        *sum += ms;
        *longest = ms > *longest ? ms : *longest;
    }
    pthread_mutex_unlock(&mu);
}

int64_t running_between_ms(int64_t from_ms, int64_t to_ms)
{
    int64_t paused, longest;
    measure(from_ms, to_ms, &paused, &longest);
    return to_ms - from_ms - paused;
}

int64_t running_ms(int64_t since_ms)
{
    return running_between_ms(since_ms, test_now_ms());
}

int64_t pause_longest_ms(int64_t since_ms)
{
    int64_t paused, longest;
    measure(since_ms, test_now_ms(), &paused, &longest);
    return longest;
}

const char *pause_repeat(int64_t margin_ms, const char *(*round)(void))
{
    pause_watch();
    for (int i = 1;; i++) {
        int64_t began = test_now_ms();
        const char *what = round();
        int64_t longest = pause_longest_ms(began);
        if (!what || longest <= margin_ms || i == ROUNDS)
            return what;
        fprintf(stderr, "round %d: %s. The machine stood still for %d ms, more than %d: again\n", i, what, (int)longest,
                (int)margin_ms);
    }
}
