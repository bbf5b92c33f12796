/* fixture.h - what the race programs share. They are plain programs, so that ThreadSanitizer, helgrind and memcheck see
 * our threads and nothing else. Each makes calls of one sort from many threads at once on a real server and writes a
 * history. It ends with 0 only if the history is clean, every status is one that the call may return, and the server is
 * empty at the end.
 *
 *     race_x [rounds]         more rounds: a longer run
 */
#ifndef HLK_TEST_RACE_FIXTURE_H
#define HLK_TEST_RACE_FIXTURE_H

#include "support/history.h"
#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern atomic_int race_failures;

/* Any thread. The program goes on, so that the history is still checked. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            atomic_fetch_add(&race_failures, 1);                                                                       \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, hlk_last_error()); \
        }                                                                                                              \
    } while (0)

int race_rounds(int argc, char **argv, int otherwise);

/* Enters the caller's hold of `lock` in the history, keeps it for `work_us` without sleeping, and releases it. Returns
 * the release's status. */
enum hlk_status race_hold_and_release(struct history *history, hlk_lock *lock, int who, int which, unsigned work_us);
int race_end(struct history *history, const char *what);

#endif
