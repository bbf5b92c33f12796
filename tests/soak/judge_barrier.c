/* judge_barrier.c - nobody passes the barrier before all parties of his generation have arrived.
 *
 * Callers do not know the number of their generation, but each of its parties has another index, and a generation opens
 * at one moment, which is in the time of the wait of each of its parties. So the waits that passed have to fall into
 * groups: one of each index, with a moment in common. If there is such a grouping, the one that is tried finds it: the
 * wait that ended first, at that moment, with those of the other indexes that had arrived and ended first after it.
 *
 * A party that passed may not say so: its process was killed, or no answer came, or none before data was lost. It
 * counts for a lease after that, so one may be missing for each of those that were there since the last moment at which
 * nobody waited. And whoever passed has to have met each other index, or somebody of those, during his own wait.
 * Without faults those who left have an answer, and are not among them; and a generation is broken only if a party
 * left, or the barrier was reset. */
#include "judge.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>

struct barrier {
    const struct soak_event **passed[PARTIES];
    const struct soak_event **left, **gone; /* those that left with an answer; those that may have passed */
    size_t n[PARTIES], first[PARTIES], n_left, n_gone;
    bool *taken[PARTIES];
};

static int by_end(const void *left, const void *right)
{
    const struct soak_event *a = *(const struct soak_event *const *)left, *b = *(const struct soak_event *const *)right;
    return a->end < b->end ? -1 : a->end > b->end;
}

static double shown(int64_t ns)
{
    return (double)(ns - soak_zero) / 1e6;
}

/* The first that ended, of those that were there at `at` (INT64_MAX: of all). */
static const struct soak_event *take(struct barrier *barrier, int index, int64_t at, bool keep)
{
    while (barrier->first[index] < barrier->n[index] && barrier->taken[index][barrier->first[index]])
        barrier->first[index]++;
    for (size_t i = barrier->first[index]; i < barrier->n[index]; i++) {
        if (barrier->taken[index][i] || barrier->passed[index][i]->begin > at)
            continue;
        barrier->taken[index][i] = !keep;
        return barrier->passed[index][i];
    }
    return NULL;
}

/* The next generation; false: all are done. */
static bool group(struct barrier *barrier, int64_t *opened, int *missing)
{
    const struct soak_event *first = NULL;
    for (int index = 0; index < PARTIES; index++) {
        const struct soak_event *one = take(barrier, index, INT64_MAX, true);
        if (one && (!first || one->end < first->end))
            first = one;
    }
    if (!first)
        return false;
    *opened = first->end;
    *missing = 0;
    for (int index = 0; index < PARTIES; index++)
        *missing += !take(barrier, index, *opened, false);
    return true;
}

/* Until when it may count. */
static int64_t counts_until(const struct soak_event *gone)
{
    return (gone->end ? gone->end : gone->begin + LATE_NS) + LONGEST_LEASE_MS * INT64_C(1000000);
}

/* How many of those that may have passed may be of generations between two moments? */
static size_t could_be_of(const struct barrier *barrier, int64_t from, int64_t until)
{
    size_t n = 0;
    for (size_t i = 0; i < barrier->n_gone; i++)
        n += barrier->gone[i]->begin <= until && counts_until(barrier->gone[i]) >= from;
    return n;
}

/* All that are left had not arrived at `at`. */
static bool nobody_waited(const struct barrier *barrier, int64_t at)
{
    for (int index = 0; index < PARTIES; index++)
        for (size_t i = barrier->first[index]; i < barrier->n[index]; i++)
            if (!barrier->taken[index][i] && barrier->passed[index][i]->begin <= at)
                return false;
    return true;
}

static void judge_groups(struct soak *soak, struct barrier *barrier)
{
    size_t missing_since = 0;
    int64_t since = 0, opened;
    for (int missing; group(barrier, &opened, &missing);) {
        missing_since += (size_t)missing;
        if (missing && missing_since > could_be_of(barrier, since, opened)) {
            soak_wrong(soak, "%d of %d parties are missing in a generation that had opened at %.3f ms", missing,
                       PARTIES, shown(opened));
            missing_since = 0;
        }
        if (nobody_waited(barrier, opened)) {
            since = opened;
            missing_since = 0;
        }
    }
}

static bool overlap(const struct soak_event *a, const struct soak_event *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

static void show_around(const struct soak *soak, int64_t from, int64_t until)
{
    size_t n = soak->claimed_events < EVENTS ? soak->claimed_events : EVENTS;
    for (size_t i = 0; i < n; i++) {
        const struct soak_event *event = &soak->events[i];
        bool is_of_barrier = event->what == BARRIER_AWAIT || event->what == BARRIER_RESET;
        if (is_of_barrier && event->begin <= until && (!event->end || event->end >= from))
            fprintf(stderr, "soak:   %s pid %d: from %.3f to %.3f, %s, index %d\n",
                    event->what == BARRIER_RESET ? "reset" : "party", event->pid, shown(event->begin),
                    event->end ? shown(event->end) : -1,
                    event->status == EVENT_DIED ? "died" : hlk_status_name((enum hlk_status)event->status),
                    (int)event->n);
    }
}

static void judge_met(struct soak *soak, const struct barrier *barrier, const struct soak_event *one, int own)
{
    size_t missing = 0;
    for (int index = 0; index < PARTIES; index++) {
        bool met = index == own;
        for (size_t i = 0; i < barrier->n[index] && !met; i++)
            met = overlap(one, barrier->passed[index][i]);
        missing += !met;
    }
    if (!missing || missing <= could_be_of(barrier, one->begin, one->end))
        return;
    soak_wrong(soak, "pid %d passed the barrier as %d, from %.3f to %.3f ms, without %zu of %d parties", one->pid, own,
               shown(one->begin), shown(one->end), missing, PARTIES);
    show_around(soak, one->begin - 100000000, one->end);
}

static void judge_broken(struct soak *soak, const struct barrier *barrier, const struct soak_event *one)
{
    size_t n = soak->claimed_events < EVENTS ? soak->claimed_events : EVENTS;
    for (size_t i = 0; i < barrier->n_left; i++)
        if (overlap(one, barrier->left[i]))
            return;
    for (size_t i = 0; i < n; i++)
        if (soak->events[i].what == BARRIER_RESET && overlap(one, &soak->events[i]))
            return;
    if (!could_be_of(barrier, one->begin - LATE_NS, one->end))
        soak_wrong(soak, "nobody left, and the barrier was broken for pid %d, from %.3f to %.3f ms", one->pid,
                   shown(one->begin), shown(one->end));
}

static void *room(size_t n, size_t size)
{
    void *at = calloc(n + 1, size);
    if (!at)
        test_give_up("no memory");
    return at;
}

/* Was its data lost while it waited? It may have passed before, and not have heard of it. */
static bool is_lost(const struct soak_event *event, const struct soak_deed *deeds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((deeds[i].lock == ALL_LOCKS || deeds[i].lock == TURN_BARRIER) && deeds[i].begin <= event->end &&
            deeds[i].end >= event->begin)
            return true;
    return false;
}

static void sort_out(struct soak *soak, struct barrier *barrier, size_t n, const struct soak_deed *deeds,
                     size_t n_deeds)
{
    for (size_t i = 0; i < n; i++) {
        const struct soak_event *event = &soak->events[i];
        if (!event->ready || event->what != BARRIER_AWAIT)
            continue;
        bool left = event->end &&
                    (event->status == HLK_BUSY || event->status == HLK_TIMEOUT || event->status == HLK_INTERRUPTED);
        if (left && soak->quiet)
            barrier->left[barrier->n_left++] = event;
        else if (!event->end || (event->status != HLK_OK && event->status != HLK_BROKEN) ||
                 (event->status == HLK_BROKEN && is_lost(event, deeds, n_deeds)))
            barrier->gone[barrier->n_gone++] = event;
        else if (event->status == HLK_OK && event->n >= 0 && event->n < PARTIES)
            barrier->passed[event->n][barrier->n[event->n]++] = event;
        else if (event->status == HLK_OK)
            soak_wrong(soak, "a party of the barrier has the index %d of %d", (int)event->n, PARTIES);
    }
    for (int index = 0; index < PARTIES; index++)
        qsort(barrier->passed[index], barrier->n[index], sizeof *barrier->passed[index], by_end);
}

void judge_barrier(struct soak *soak, const struct soak_deed *deeds, size_t n_deeds, struct judge_sums *sums)
{
    struct barrier barrier = { .n_left = 0 };
    size_t n = soak->claimed_events < EVENTS ? soak->claimed_events : EVENTS;
    barrier.left = room(n, sizeof *barrier.left);
    barrier.gone = room(n, sizeof *barrier.gone);
    for (int index = 0; index < PARTIES; index++) {
        barrier.passed[index] = room(n, sizeof *barrier.passed[index]);
        barrier.taken[index] = room(n, sizeof *barrier.taken[index]);
    }
    sort_out(soak, &barrier, n, deeds, n_deeds);
    for (int index = 0; index < PARTIES; index++) {
        sums->holds[TURN_BARRIER] += barrier.n[index];
        for (size_t i = 0; i < barrier.n[index]; i++)
            judge_met(soak, &barrier, barrier.passed[index][i], index);
    }
    for (size_t i = 0; soak->quiet && i < n; i++)
        if (soak->events[i].what == BARRIER_AWAIT && soak->events[i].status == HLK_BROKEN)
            judge_broken(soak, &barrier, &soak->events[i]);
    judge_groups(soak, &barrier);
    for (int index = 0; index < PARTIES; index++) {
        free(barrier.passed[index]);
        free(barrier.taken[index]);
    }
    free(barrier.left);
    free(barrier.gone);
}
