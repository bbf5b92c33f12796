/* history.h - a record of all holds and their times. Every contended test writes one and checks it at its end.
 *
 * The memory is shared: processes forked after history_create write to the same history. A record is claimed by one
 * atomic add and then belongs to its writer. So recording takes tens of nanoseconds and imposes no order.
 *
 *     struct hold *hold = history_acquired(history, thread, 0, hlk_lock_held_until(lock));     right after HLK_OK
 *     ...
 *     history_valid_until(hold, hlk_lock_held_until(lock));                                    at any time
 *     history_released(hold);                                                                  right BEFORE release
 *     ...
 *     cr_assert(history_check(history));
 *
 * A hold counts from the return of its acquire until the call of its release, and never beyond held_until, as the
 * library promises. Two holds of one lock must not overlap. A hold whose process was killed has no release and counts
 * until held_until. */
#ifndef HLK_TEST_HISTORY_H
#define HLK_TEST_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hold {                   /* times in ns of CLOCK_BOOTTIME; 0: not yet */
    int64_t acquired_at, held_until, released_at;
    int     who, lock, pid, ready;
};

struct history;

struct history *history_create(size_t capacity);    /* zeroed pages: a large capacity costs nothing until used */
void history_destroy(struct history *history);      /* NULL is fine */

struct hold *history_acquired(struct history *history, int who, int lock, int64_t held_until_ms);
void history_valid_until(struct hold *hold, int64_t held_until_ms);
void history_released(struct hold *hold);

/* After all writers are done. True: no two holds of a lock overlap, and no hold is missing for lack of room. Else
 * prints the overlapping pair to stderr. */
bool history_check(const struct history *history);

/* Holds for each `who` of one lock (-1: of all): minimum and maximum over who = 0 .. whos - 1. */
struct history_share { size_t min, max, total; };
struct history_share history_shares(const struct history *history, int lock, int whos);

size_t history_count(const struct history *history);
const struct hold *history_at(const struct history *history, size_t i);     /* in order of recording */

#endif
