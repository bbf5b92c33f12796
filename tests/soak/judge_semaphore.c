/* judge_semaphore.c - no more permits of a generation are out than there are, from the answer to each acquire until its
 * release is called. Those of a process that was killed are out for good. */
#include "judge.h"
#include "semaphores.h"

#include "support/raw.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>

enum { BEFORE = 40, OUT_MAX = 256 }; /* acquires that are out at a moment */

static int in_order(const void *left, const void *right)
{
    const struct soak_hold *a = *(const struct soak_hold *const *)left, *b = *(const struct soak_hold *const *)right;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

static int64_t end_of(const struct soak *soak, const struct soak_hold *hold)
{
    int64_t end = hold->end ? hold->end : INT64_MAX, closed = soak->semaphore_closed[hold->token];
    return closed && closed < end ? closed : end;
}

static void judge_out(struct soak *soak, const struct soak_hold *const *all, size_t n)
{
    const struct soak_hold *out[OUT_MAX];
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        const struct soak_hold *one = all[i];
        size_t left = 0;
        int64_t permits = one->permits;
        for (size_t j = 0; j < n_out; j++)
            if (out[j]->token == one->token && end_of(soak, out[j]) > one->from) {
                permits += out[j]->permits;
                out[left++] = out[j];
            }
        n_out = left;
        if (end_of(soak, one) <= one->from)
            continue;
        if (n_out < OUT_MAX)
            out[n_out++] = one;
        if (permits <= soak_locks[TURN_SEMAPHORE].at_most)
            continue;
        soak_wrong(soak, "%d permits of %d of a semaphore are out at %.3f ms, generation %d", (int)permits,
                   soak_locks[TURN_SEMAPHORE].at_most, (double)(one->from - soak_zero) / 1e6, (int)one->token);
        for (size_t j = 0; j < n_out; j++)
            soak_show_hold(out[j]);
        fprintf(stderr, "soak: those before it:\n");
        for (size_t j = i > BEFORE ? i - BEFORE : 0; j < i; j++)
            soak_show_hold(all[j]);
    }
}

void judge_semaphore(struct soak *soak, struct judge_sums *sums)
{
    size_t claimed = atomic_load(&soak->claimed), n = 0;
    claimed = claimed < HOLDS ? claimed : HOLDS;
    const struct soak_hold **all = calloc(claimed + 1, sizeof *all);
    if (!all)
        test_give_up("no memory");
    for (size_t i = 0; i < claimed; i++)
        if (soak->holds[i].ready && soak->holds[i].lock == TURN_SEMAPHORE)
            all[n++] = &soak->holds[i];
    qsort(all, n, sizeof *all, in_order);
    for (size_t i = 0; i < n; i++)
        sums->holds[TURN_SEMAPHORE] += end_of(soak, all[i]) > all[i]->from;
    judge_out(soak, all, n);
    free(all);
}

/* The last generation, when nobody is there any more: permits may be missing, and are never too many. Without faults
 * none is missing but those that nobody gave back. */
void judge_semaphore_left(struct soak *soak, struct redisContext *redis)
{
    char name[SEMAPHORE_NAME];
    int last = atomic_load(&soak->semaphore), all = soak_locks[TURN_SEMAPHORE].at_most;
    semaphore_name(name, soak, last);
    if (!soak->semaphore_closed[last]) {
        int64_t free = raw_int(redis, "GET %s", name);
        if (free > all || (soak->quiet && free < all - (int64_t)soak->semaphore_kept))
            soak_wrong(soak, "%d free permits of %d of a semaphore; %d were not given back", (int)free, all,
                       (int)soak->semaphore_kept);
    }
    for (int i = 0; i <= last + 1 && i < GENERATIONS; i++) {
        semaphore_name(name, soak, i);
        raw(redis, "DEL %s", name);
    }
    raw(redis, "DEL t-latch-%llu", (unsigned long long)soak->round);
}
