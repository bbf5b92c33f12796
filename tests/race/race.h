/* race.h - what the race programs share: plain programs, so that ThreadSanitizer, helgrind and memcheck see our threads
 * and nothing else. Each does one kind of thing at once from many threads on a real server, writes a history, and ends
 * with 0 only if the history is clean, every answer was one it may give, and the server is empty at the end.
 *
 *     race_x [rounds]         more rounds for a longer look
 */
#ifndef HLK_RACE_H
#define HLK_RACE_H

#include "support/history.h"
#include "support/stage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int race_failures;

/* Any thread; goes on, so that the history is still judged. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            atomic_fetch_add(&race_failures, 1);                                                                       \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, hlk_last_error()); \
        }                                                                                                              \
    } while (0)

static inline int race_rounds(int argc, char **argv, int otherwise)
{
    return argc > 1 ? atoi(argv[1]) : otherwise;
}

/* Holds the lock in the history for the length of `work_us` (busy, so that others really wait). The caller's thread or
 * owner has it; what it released with is returned. */
static inline enum hlk_status race_hold_and_release(struct history *history, hlk_lock *lock, int who, int which,
                                                    unsigned work_us)
{
    int64_t until = hlk_lock_held_until(lock);
    struct hold *hold = history_acquired(history, who, which, until);
    for (int64_t end = test_now_ns() + (int64_t)work_us * 1000; test_now_ns() < end;)
        ;
    until = hlk_lock_held_until(lock);
    if (until > 0)
        history_valid_until(hold, until);
    history_released(hold);
    return hlk_lock_release(lock);
}

static inline int race_end(struct history *history, const char *what)
{
    bool clean = history_check(history);
    size_t holds = history_count(history);
    history_destroy(history);
    stage_down(); /* aborts when something is left */
    int failures = atomic_load(&race_failures);
    printf("%s: %zu holds, %s, %d answers that may not be\n", what, holds, clean ? "no overlap" : "OVERLAP", failures);
    return clean && failures == 0 && holds > 0 ? 0 : 1;
}

#endif
