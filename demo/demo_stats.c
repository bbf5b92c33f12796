/* demo_stats.c - checks the exclusion of all holds, and computes the figures of the report. */
#include "demo_stats.h"

#include <stdlib.h>

static bool was_held(const struct demo_hold *hold)
{
    return hold->got_ns != 0;
}

int64_t demo_hold_end_ns(const struct demo_hold *hold)
{
    int64_t ended_ns = atomic_load(&hold->ended_ns);
    if (atomic_load(&hold->how) == DEMO_LOST && hold->valid_ns < ended_ns)
        return hold->valid_ns;
    return ended_ns;
}

static int by_begin(const void *a, const void *b)
{
    const struct demo_hold *const *left = a, *const *right = b;
    int64_t l = (*left)->got_ns, r = (*right)->got_ns;
    return (l > r) - (l < r);
}

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void check_pair(const struct demo_shared *shared, const struct demo_hold *last, const struct demo_hold *hold,
                       struct demo_check *check)
{
    if (demo_hold_end_ns(last) <= hold->got_ns)
        return;
    if (check->overlaps++ == 0) {
        check->first = (uint32_t)(last - shared->holds);
        check->second = (uint32_t)(hold - shared->holds);
    }
}

bool demo_check_holds(const struct demo_shared *shared, struct demo_check *check)
{
    uint32_t count = demo_hold_count(shared), held = 0;
    const struct demo_hold **sorted = calloc(count ? count : 1, sizeof *sorted);

    *check = (struct demo_check){ 0 };
    if (!sorted)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct demo_hold *hold = &shared->holds[i];
        if (!was_held(hold))
            continue;
        sorted[held++] = hold;
        if (hold->wrote_ns && hold->wrote_ns > hold->valid_ns)
            check->late_writes++;
    }
    qsort(sorted, held, sizeof *sorted, by_begin);
    const struct demo_hold *last = held ? sorted[0] : NULL; /* of the holds so far, the one that ends last */
    for (uint32_t i = 1; i < held; i++) {
        check_pair(shared, last, sorted[i], check);
        if (demo_hold_end_ns(sorted[i]) > demo_hold_end_ns(last))
            last = sorted[i];
    }
    check->holds = (int)held;
    free(sorted);
    return true;
}

/* Did it wait while the lock was held by a dead or stopped holder? `over_ns`: when other clients could get it. */
static bool met_accident(const struct demo_shared *shared, const struct demo_hold *hold, const int64_t *over_ns)
{
    for (int kind = 0; kind < DEMO_ACCIDENTS; kind++) {
        const struct demo_accident *accident = &shared->accidents[kind];
        bool stood = hold->pid == accident->pid && accident->resumed_ns > hold->asked_ns; /* stopped while it waited */
        if (atomic_load(&accident->state) >= DEMO_HIT && hold->got_ns > accident->hit_ns &&
            (stood || hold->asked_ns < over_ns[kind]))
            return true;
    }
    return false;
}

static int64_t percentile(const int64_t *sorted, size_t count, unsigned percent) /* nearest rank */
{
    return count ? sorted[(count * percent + 99) / 100 - 1] : 0;
}

bool demo_tally_process(const struct demo_shared *shared, int process, struct demo_tally *tally)
{
    uint32_t count = demo_hold_count(shared);
    size_t waits = 0;
    int64_t *wait_ns = calloc(count ? count : 1, sizeof *wait_ns), over_ns[DEMO_ACCIDENTS];

    for (int kind = 0; kind < DEMO_ACCIDENTS; kind++) {
        const struct demo_hold *next = demo_next_hold(shared, shared->accidents[kind].hit_ns);
        over_ns[kind] = next ? next->got_ns : INT64_MAX;
    }
    *tally = (struct demo_tally){ .sold = demo_sold(shared, process) };
    if (!wait_ns)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct demo_hold *hold = &shared->holds[i];
        if (!was_held(hold) || (process >= 0 && hold->row / shared->order.threads != process))
            continue;
        int64_t held_ns = demo_hold_end_ns(hold) - hold->got_ns, waited_ns = hold->got_ns - hold->asked_ns;
        tally->holds++;
        tally->held_ns += held_ns;
        if (held_ns > tally->held_longest_ns)
            tally->held_longest_ns = held_ns;
        if (waited_ns > tally->wait_longest_ns)
            tally->wait_longest_ns = waited_ns;
        if (met_accident(shared, hold, over_ns))
            tally->waits_met++;
        else
            wait_ns[waits++] = waited_ns;
    }
    qsort(wait_ns, waits, sizeof *wait_ns, by_size);
    tally->wait_p50_ns = percentile(wait_ns, waits, 50);
    tally->wait_p99_ns = percentile(wait_ns, waits, 99);
    free(wait_ns);
    return true;
}

const struct demo_hold *demo_next_hold(const struct demo_shared *shared, int64_t at_ns)
{
    uint32_t count = demo_hold_count(shared);
    const struct demo_hold *next = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct demo_hold *hold = &shared->holds[i];
        if (was_held(hold) && hold->got_ns > at_ns && (!next || hold->got_ns < next->got_ns))
            next = hold;
    }
    return next;
}

void demo_bury(struct demo_shared *shared, int pid, int64_t at_ns)
{
    uint32_t count = demo_hold_count(shared);
    for (uint32_t i = 0; i < count; i++) {
        struct demo_hold *hold = &shared->holds[i];
        if (hold->pid != pid || atomic_load(&hold->how) != DEMO_OPEN)
            continue;
        if (!atomic_load(&hold->ended_ns))
            atomic_store(&hold->ended_ns, at_ns);
        atomic_store(&hold->how, DEMO_KILLED);
    }
}
