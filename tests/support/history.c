#include "support/history.h"

#include "support/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct history {
    size_t capacity, bytes;
    atomic_size_t claimed; /* may exceed capacity: then holds are missing, and check reports it */
    struct hold holds[];
};

struct history *history_create(size_t capacity)
{
    size_t bytes = sizeof(struct history) + capacity * sizeof(struct hold);
    struct history *history = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (history == MAP_FAILED)
        test_give_up("history of %zu: %s", capacity, strerror(errno));
    history->capacity = capacity;
    history->bytes = bytes;
    return history;
}

void history_destroy(struct history *history)
{
    if (history)
        munmap(history, history->bytes);
}

struct hold *history_acquired(struct history *history, int who, int lock, int64_t held_until_ms)
{
    static struct hold nowhere; /* for holds without room; never read */
    int64_t now = test_now_ns();
    size_t i = atomic_fetch_add_explicit(&history->claimed, 1, memory_order_relaxed);
    if (i >= history->capacity)
        return &nowhere;
    struct hold *hold = &history->holds[i];
    hold->who = who;
    hold->lock = lock;
    hold->pid = getpid();
    hold->held_until = held_until_ms * 1000000;
    hold->acquired_at = now;
    hold->ready = 1;
    return hold;
}

void history_valid_until(struct hold *hold, int64_t held_until_ms)
{
    hold->held_until = held_until_ms * 1000000;
}

void history_released(struct hold *hold)
{
    hold->released_at = test_now_ns();
}

size_t history_count(const struct history *history)
{
    size_t claimed = atomic_load(&((struct history *)(uintptr_t)history)->claimed);
    return claimed < history->capacity ? claimed : history->capacity;
}

const struct hold *history_at(const struct history *history, size_t i)
{
    return &history->holds[i];
}

/* When it ceased to be valid. */
static int64_t end_of(const struct hold *hold)
{
    if (hold->released_at && hold->released_at < hold->held_until)
        return hold->released_at;
    return hold->held_until;
}

static int by_lock_then_time(const void *left, const void *right)
{
    const struct hold *a = *(const struct hold *const *)left, *b = *(const struct hold *const *)right;
    if (a->lock != b->lock)
        return a->lock < b->lock ? -1 : 1;
    return a->acquired_at < b->acquired_at ? -1 : a->acquired_at > b->acquired_at;
}

static void show(const char *which, const struct hold *hold, int64_t zero)
{
    fprintf(stderr, "[----]   %s: lock %d by %d (pid %d), acquired %.3f ms, valid until %.3f ms, released %.3f ms\n",
            which, hold->lock, hold->who, hold->pid, (double)(hold->acquired_at - zero) / 1e6,
            (double)(hold->held_until - zero) / 1e6,
            hold->released_at ? (double)(hold->released_at - zero) / 1e6 : -1.0);
}

static bool overlap(const struct hold *first, const struct hold *second)
{
    return first && first->lock == second->lock && second->acquired_at < end_of(first) &&
           second->acquired_at < end_of(second);
}

bool history_check(const struct history *history)
{
    size_t claimed = atomic_load(&((struct history *)(uintptr_t)history)->claimed), n = 0;
    bool good = claimed <= history->capacity;
    if (!good)
        fprintf(stderr, "[----] history: %zu holds, room for %zu\n", claimed, history->capacity);
    const struct hold **order = calloc(history_count(history) + 1, sizeof *order);
    for (size_t i = 0; i < history_count(history); i++)
        if (history->holds[i].ready) /* not set if its writer was killed during the write */
            order[n++] = &history->holds[i];
    qsort(order, n, sizeof *order, by_lock_then_time);
    const struct hold *longest = NULL; /* of the holds so far, the one that is valid longest */
    for (size_t i = 0; i < n; i++) {
        if (overlap(longest, order[i])) {
            good = false;
            fprintf(stderr, "[----] history: two valid holds at once\n");
            show("first ", longest, longest->acquired_at);
            show("second", order[i], longest->acquired_at);
        }
        if (!longest || longest->lock != order[i]->lock || end_of(order[i]) > end_of(longest))
            longest = order[i];
    }
    free(order);
    return good;
}

struct history_share history_shares(const struct history *history, int lock, int whos)
{
    size_t *counts = calloc((size_t)whos + 1, sizeof *counts);
    struct history_share share = { SIZE_MAX, 0, 0 };
    for (size_t i = 0; i < history_count(history); i++) {
        const struct hold *hold = &history->holds[i];
        if (hold->ready && (lock < 0 || hold->lock == lock) && hold->who >= 0 && hold->who < whos)
            counts[hold->who]++;
    }
    for (int who = 0; who < whos; who++) {
        share.min = counts[who] < share.min ? counts[who] : share.min;
        share.max = counts[who] > share.max ? counts[who] : share.max;
        share.total += counts[who];
    }
    free(counts);
    return share;
}
