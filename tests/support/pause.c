#include "pause.h"

#include "wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ROUNDS = 5, KEPT = 256 };

static struct {
    pthread_once_t once;
    atomic_llong slept_at_ms; /* the beginning of the present sleep */
    pthread_mutex_t mu;       /* guards: */
    struct {
        int64_t ended_at_ms, ms;
    } kept[KEPT]; /*   the last pauses of more than a few ms, in a ring */
    unsigned n;
} pauses = { .once = PTHREAD_ONCE_INIT, .mu = PTHREAD_MUTEX_INITIALIZER };

static void *watch_pauses(void *arg)
{
    (void)arg;
    for (;;) {
        int64_t began = test_now_ms();
        atomic_store(&pauses.slept_at_ms, began);
        test_sleep_ms(1);
        int64_t ended = test_now_ms(), late = ended - began - 1;
        if (late <= 3)
            continue;
        pthread_mutex_lock(&pauses.mu);
        pauses.kept[pauses.n % KEPT].ended_at_ms = ended;
        pauses.kept[pauses.n++ % KEPT].ms = late;
        pthread_mutex_unlock(&pauses.mu);
    }
    return NULL;
}

static void start_watching(void)
{
    pthread_t thread;
    atomic_store(&pauses.slept_at_ms, test_now_ms());
    if (pthread_create(&thread, NULL, watch_pauses, NULL) != 0 || pthread_detach(thread) != 0)
        test_give_up("no thread that watches for pauses");
}

void pause_watch(void)
{
    pthread_once(&pauses.once, start_watching);
}

int64_t pause_longest_ms(int64_t since_ms)
{
    int64_t longest = test_now_ms() - atomic_load(&pauses.slept_at_ms) - 1;
    pthread_mutex_lock(&pauses.mu);
    for (unsigned i = 0; i < KEPT && i < pauses.n; i++)
        if (pauses.kept[i].ended_at_ms > since_ms && pauses.kept[i].ms > longest)
            longest = pauses.kept[i].ms;
    pthread_mutex_unlock(&pauses.mu);
    return longest;
}

const char *pause_repeat(int64_t margin_ms, const char *(*round)(void))
{
    const char *what = NULL;
    pause_watch();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t began = test_now_ms(), longest;
        what = round();
        if (!what || (longest = pause_longest_ms(began)) <= margin_ms)
            break;
        fprintf(stderr, "the machine stood still for %d ms, more than the margin of %d ms: again (%s)\n", (int)longest,
                (int)margin_ms, what);
    }
    return what;
}
