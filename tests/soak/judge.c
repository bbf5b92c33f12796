#include "judge.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>

enum { NEAR = 1000 }; /* holds between two by one hold id, at most */

struct judged {
    const struct soak_hold *hold;
    int64_t end; /* of what counts */
    bool excused;
};

static int64_t reported_end(const struct soak_hold *hold)
{
    int64_t end = hold->until, released = hold->end, lost = hold->lost;
    if (released && released < end)
        end = released;
    if (lost && lost < end)
        end = lost;
    return end;
}

static int in_order(const void *left, const void *right)
{
    const struct judged *a = left, *b = right;
    if (a->hold->lock != b->hold->lock)
        return a->hold->lock < b->hold->lock ? -1 : 1;
    return a->hold->from < b->hold->from ? -1 : a->hold->from > b->hold->from;
}

/* When what it holds was asked for: one that was passed on within a process was so by the first who held by its h. */
static int64_t first_asked(const struct soak_hold *holds, size_t at)
{
    int64_t asked = holds[at].asked;
    for (size_t i = at; i-- > 0 && at - i < NEAR;)
        if (holds[i].ready && holds[i].h == holds[at].h && holds[i].pid == holds[at].pid &&
            holds[i].lock == holds[at].lock && holds[i].asked < asked)
            asked = holds[i].asked;
    return asked;
}

static struct judged judge_one(const struct soak_hold *holds, size_t at, const struct soak_deed *deeds, size_t n)
{
    const struct soak_hold *hold = &holds[at];
    int64_t asked = first_asked(holds, at);
    struct judged judged = { hold, reported_end(hold), false };
    for (size_t i = 0; i < n; i++) {
        if ((deeds[i].lock != hold->lock && deeds[i].lock != ALL_LOCKS) || deeds[i].end < asked ||
            deeds[i].begin > judged.end)
            continue;
        judged.excused = true;
        judged.end = deeds[i].begin;
    }
    return judged;
}

static void show_around(const struct judged *all, size_t n, size_t at)
{
    size_t first = at > 12 ? at - 12 : 0, last = at + 6 < n ? at + 6 : n - 1;
    for (size_t i = first; i <= last; i++)
        if (all[i].hold->lock == all[at].hold->lock)
            soak_show_hold(all[i].hold);
}

static void judge_overlap(struct soak *soak, const struct judged *all, size_t n)
{
    const struct judged *longest = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct judged *one = &all[i];
        if (one->end <= one->hold->from)
            continue;
        if (longest && longest->hold->lock == one->hold->lock && one->hold->from < longest->end) {
            soak_wrong(soak, "two valid holds of %s at %.3f ms, for %.3f ms", soak_lock_name(one->hold->lock),
                       (double)(one->hold->from - soak_zero) / 1e6,
                       (double)((one->end < longest->end ? one->end : longest->end) - one->hold->from) / 1e6);
            soak_show_hold(longest->hold);
            soak_show_hold(one->hold);
            show_around(all, n, i);
        }
        if (!longest || longest->hold->lock != one->hold->lock || one->end > longest->end)
            longest = one;
    }
}

/* Has the server lost its data between two moments? */
static bool wiped(const struct soak_deed *deeds, size_t n, int64_t from, int64_t until)
{
    for (size_t i = 0; i < n; i++)
        if (deeds[i].lock == ALL_LOCKS && deeds[i].begin <= until && deeds[i].end >= from)
            return true;
    return false;
}

static void judge_tokens(struct soak *soak, const struct judged *all, size_t n, const struct soak_deed *deeds,
                         size_t n_deeds, int64_t last[LOCKS])
{
    int64_t last_at[LOCKS] = { 0 };
    for (size_t i = 0; i < n; i++) {
        const struct soak_hold *hold = all[i].hold;
        if (hold->token <= 0 || all[i].end <= hold->from)
            continue;
        if (wiped(deeds, n_deeds, last_at[hold->lock], hold->from))
            last[hold->lock] = 0;
        last_at[hold->lock] = hold->from;
        if (hold->token <= last[hold->lock]) {
            soak_wrong(soak, "token %lld of %s after %lld, at %.3f ms", (long long)hold->token,
                       soak_lock_name(hold->lock), (long long)last[hold->lock], (double)(hold->from - soak_zero) / 1e6);
            show_around(all, n, i);
        }
        last[hold->lock] = hold->token > last[hold->lock] ? hold->token : last[hold->lock];
    }
    for (int lock = 0; lock < LOCKS; lock++) /* lost after the last one: the next round begins anew */
        if (wiped(deeds, n_deeds, last_at[lock], INT64_MAX))
            last[lock] = 0;
}

static void judge_losses(struct soak *soak, const struct judged *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct soak_hold *hold = all[i].hold;
        bool ended = hold->end && hold->end <= hold->lost; /* by a close */
        if (all[i].excused || !hold->lost || ended || hold->lost + 1000000 >= hold->until)
            continue;
        soak_wrong(soak, "lost %.3f ms before it was over, and nobody had taken it, at %.3f ms",
                   (double)(hold->until - hold->lost) / 1e6, (double)(hold->lost - soak_zero) / 1e6);
        show_around(all, n, i);
    }
}

/* Those who held before a deed and after it. */
static void judge_reports(struct soak *soak, const struct judged *all, size_t n, const struct soak_deed *deeds,
                          size_t n_deeds)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_deeds && all[i].excused; j++) {
            const struct soak_hold *hold = all[i].hold;
            bool taken = (deeds[j].lock == hold->lock || deeds[j].lock == ALL_LOCKS) && hold->from < deeds[j].begin &&
                         (!hold->end || hold->end > deeds[j].end);
            if (!taken || hold->until <= deeds[j].end + LONGEST_LEASE_MS * INT64_C(1000000))
                continue;
            soak_wrong(soak, "renewed after it was taken at %.3f ms", (double)(deeds[j].begin - soak_zero) / 1e6);
            soak_show_hold(hold);
        }
}

bool judge_history(struct soak *soak, const struct soak_deed *deeds, size_t n_deeds, struct judge_sums *sums)
{
    size_t claimed = atomic_load(&soak->claimed), n = 0;
    int before = soak->wrongs;
    if (claimed > HOLDS)
        soak_wrong(soak, "%zu holds in a round, room for %d", claimed, HOLDS);
    claimed = claimed < HOLDS ? claimed : HOLDS;
    struct judged *all = calloc(claimed + 1, sizeof *all);
    if (!all)
        test_give_up("no memory");
    for (size_t i = 0; i < claimed; i++)
        if (soak->holds[i].ready) /* not so when its writer was killed while it wrote */
            all[n++] = judge_one(soak->holds, i, deeds, n_deeds);
    qsort(all, n, sizeof *all, in_order);
    const char *long_ms = getenv("SOAK_LONG_MS"); /* for hunting: shows waits and holds that took longer */
    for (size_t i = 0; long_ms && i < n; i++)
        if (all[i].hold->from - all[i].hold->asked > strtoll(long_ms, NULL, 10) * 1000000 ||
            all[i].hold->end - all[i].hold->from > strtoll(long_ms, NULL, 10) * 1000000)
            soak_show_hold(all[i].hold);
    for (size_t i = 0; i < n; i++)
        sums->holds[all[i].hold->lock] += all[i].end > all[i].hold->from;
    judge_overlap(soak, all, n);
    judge_tokens(soak, all, n, deeds, n_deeds, sums->tokens);
    judge_losses(soak, all, n);
    judge_reports(soak, all, n, deeds, n_deeds);
    free(all);
    return soak->wrongs == before;
}
