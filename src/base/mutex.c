/* mutex.c - see mutex.h. Each thread keeps what it holds in its own array, so the checks share no data between
 * threads. */
#include "base/mutex.h"

#include "base/debug.h"

void hlk_mutex_init(struct hlk_mutex *m, enum hlk_rank rank)
{
    HLK_DEBUG_ASSERT(rank >= HLK_RANK_CLIENT && rank <= HLK_RANK_LEAF);
    pthread_mutex_init(&m->mu, NULL);
#ifdef HLK_DEBUG
    m->rank = rank;
#else
    (void)rank;
#endif
}

void hlk_mutex_fini(struct hlk_mutex *m)
{
    pthread_mutex_destroy(&m->mu);
}

#ifdef HLK_DEBUG
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranks rise strictly, so a thread holds at most one mutex of each rank. */
static _Thread_local struct {
    const struct hlk_mutex *mutex[HLK_RANK_LEAF];
    size_t count;
} mine;

static const char *const names[] = {
    [HLK_RANK_CLIENT] = "client",     [HLK_RANK_TABLE] = "entry table", [HLK_RANK_ENTRY] = "entry",
    [HLK_RANK_WAITS] = "waits",       [HLK_RANK_CANCEL] = "cancel",     [HLK_RANK_CHANNELS] = "channels",
    [HLK_RANK_RELEASES] = "releases", [HLK_RANK_PIPELINE] = "pipeline", [HLK_RANK_WATCHDOG] = "watchdog",
    [HLK_RANK_EVENTS] = "events",     [HLK_RANK_ROUND] = "round",       [HLK_RANK_POST] = "post",
    [HLK_RANK_LEAF] = "leaf",
};

_Noreturn static void broken(const char *what, const struct hlk_mutex *m)
{
    fprintf(stderr, "hasplock: mutex \"%s\" (rank %d) %s; this thread holds", names[m->rank], (int)m->rank, what);
    for (size_t i = 0; i < mine.count; i++)
        fprintf(stderr, " \"%s\" (%d)", names[mine.mutex[i]->rank], (int)mine.mutex[i]->rank);
    fputs(mine.count ? "\n" : " nothing\n", stderr);
    abort();
}

/* Its index in `mine`, or mine.count. */
static size_t mutex_place(const struct hlk_mutex *m)
{
    size_t i = 0;
    while (i < mine.count && mine.mutex[i] != m)
        i++;
    return i;
}

void hlk_mutex_lock(struct hlk_mutex *m)
{
    if (mine.count && mine.mutex[mine.count - 1]->rank >= m->rank)
        broken("taken out of order", m);
    pthread_mutex_lock(&m->mu);
    mine.mutex[mine.count++] = m;
}

void hlk_mutex_unlock(struct hlk_mutex *m)
{
    size_t at = mutex_place(m);
    if (at == mine.count)
        broken("unlocked by a thread that does not hold it", m);
    mine.count--;
    memmove(&mine.mutex[at], &mine.mutex[at + 1], (mine.count - at) * sizeof mine.mutex[0]);
    pthread_mutex_unlock(&m->mu);
}

void hlk_mutex_assert_held(const struct hlk_mutex *m)
{
    if (mutex_place(m) == mine.count)
        broken("should be held here", m);
}

void hlk_mutex_assert_none(void)
{
    if (mine.count)
        broken("held before I/O or user code", mine.mutex[mine.count - 1]);
}
#endif
