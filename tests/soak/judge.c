#include "judge.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NEAR = 1000,      /* holds between two by one hold id, at most */
    HOLDING_MAX = 256 /* of one lock at a moment */
};

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
    int key_a = soak_lock_key(a->hold->lock), key_b = soak_lock_key(b->hold->lock);
    if (key_a != key_b)
        return key_a < key_b ? -1 : 1;
    return a->hold->from < b->hold->from ? -1 : a->hold->from > b->hold->from;
}

/* When what it holds was asked for: one that was passed on within a process was so by the first who held by its h. If h
 * is not known the server had it a lease ago at the earliest, and again whenever it was renewed. */
static int64_t first_asked(const struct soak_hold *holds, size_t at)
{
    int64_t asked = holds[at].asked, lease_ago = holds[at].from - LONGEST_LEASE_MS * INT64_C(1000000);
    if (!holds[at].h)
        return asked < lease_ago ? asked : lease_ago;
    for (size_t i = at; i-- > 0 && at - i < NEAR;)
        if (holds[i].ready && holds[i].h == holds[at].h && holds[i].pid == holds[at].pid &&
            holds[i].lock == holds[at].lock && holds[i].asked < asked)
            asked = holds[i].asked;
    return asked;
}

/* Does the deed concern this lock? */
static bool is_of(const struct soak_deed *deed, int lock)
{
    return deed->lock == ALL_LOCKS || soak_lock_key(deed->lock) == soak_lock_key(lock);
}

static struct judged judge_one(const struct soak_hold *holds, size_t at, const struct soak_deed *deeds, size_t n)
{
    const struct soak_hold *hold = &holds[at];
    int64_t asked = first_asked(holds, at);
    struct judged judged = { hold, reported_end(hold), false };
    for (size_t i = 0; i < n; i++) {
        if (!is_of(&deeds[i], hold->lock) || deeds[i].end < asked || deeds[i].begin > judged.end)
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
        if (soak_lock_key(all[i].hold->lock) == soak_lock_key(all[at].hold->lock))
            soak_show_hold(all[i].hold);
}

/* A writer may read, too. */
static bool same_holder(const struct soak_hold *a, const struct soak_hold *b)
{
    return a->lock != b->lock && a->pid == b->pid && a->holder == b->holder && !((a->how ^ b->how) & HOW_OWNER);
}

/* Those who hold at some moment, of one key. */
struct holding {
    const struct judged *at[HOLDING_MAX];
    size_t n;
};

static void leave_those_that_ended(struct holding *holding, const struct judged *one)
{
    size_t left = 0;
    for (size_t i = 0; i < holding->n; i++)
        if (soak_lock_key(holding->at[i]->hold->lock) == soak_lock_key(one->hold->lock) &&
            holding->at[i]->end > one->hold->from)
            holding->at[left++] = holding->at[i];
    holding->n = left;
}

/* One that `one` may not hold beside; NULL: none. */
static const struct judged *conflict(const struct holding *holding, const struct judged *one)
{
    int at_most = soak_locks[one->hold->lock].at_most;
    if (at_most)
        return holding->n >= (size_t)at_most ? holding->at[0] : NULL;
    for (size_t i = 0; i < holding->n; i++)
        if (!soak_locks_share(holding->at[i]->hold->lock, one->hold->lock) &&
            !same_holder(holding->at[i]->hold, one->hold))
            return holding->at[i];
    return NULL;
}

static void judge_overlap(struct soak *soak, const struct judged *all, size_t n)
{
    struct holding holding = { .n = 0 };
    for (size_t i = 0; i < n; i++) {
        const struct judged *one = &all[i];
        if (one->end <= one->hold->from)
            continue;
        leave_those_that_ended(&holding, one);
        const struct judged *other = conflict(&holding, one);
        if (other) {
            soak_wrong(soak, "%zu valid holds of %s at %.3f ms, for %.3f ms", holding.n + 1,
                       soak_lock_name(one->hold->lock), (double)(one->hold->from - soak_zero) / 1e6,
                       (double)((one->end < other->end ? one->end : other->end) - one->hold->from) / 1e6);
            soak_show_hold(other->hold);
            soak_show_hold(one->hold);
            show_around(all, n, i);
        }
        if (holding.n < HOLDING_MAX)
            holding.at[holding.n++] = one;
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
            bool taken = !deeds[j].took_nothing && is_of(&deeds[j], hold->lock) && hold->from < deeds[j].begin &&
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
        if (soak->holds[i].ready &&
            soak->holds[i].lock < LOCKS) /* not ready when its writer was killed while it wrote */
            all[n++] = judge_one(soak->holds, i, deeds, n_deeds);
    qsort(all, n, sizeof *all, in_order);
    const char *long_ms = getenv("SOAK_LONG_MS"); /* for hunting: shows waits and holds that took longer */
    for (size_t i = 0; long_ms && i < n; i++)
        if (all[i].hold->from - all[i].hold->asked > strtoll(long_ms, NULL, 10) * 1000000 ||
            all[i].hold->end - all[i].hold->from > strtoll(long_ms, NULL, 10) * 1000000)
            soak_show_hold(all[i].hold);
    for (size_t i = 0; i < n; i++)
        if (all[i].end > all[i].hold->from) {
            sums->holds[all[i].hold->lock]++;
            sums->holds[LOCK_MULTI] += all[i].hold->how & HOW_MULTI ? 1 : 0;
        }
    judge_overlap(soak, all, n);
    judge_tokens(soak, all, n, deeds, n_deeds, sums->tokens);
    judge_losses(soak, all, n);
    judge_reports(soak, all, n, deeds, n_deeds);
    if (soak->claimed_events > EVENTS)
        soak_wrong(soak, "%zu events in a round, room for %d", (size_t)soak->claimed_events, EVENTS);
    judge_semaphore(soak, sums);
    judge_latch(soak, deeds, n_deeds, sums);
    judge_barrier(soak, deeds, n_deeds, sums);
    judge_condition(soak, sums);
    free(all);
    return soak->wrongs == before;
}
