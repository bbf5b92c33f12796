/* line.h - the line of leased permits: which holders of a process ask Redis for one, and which wait for that of
 * another holder (pass_holds.c).
 *
 * Each holder of permits has an entry of its own. Those of one client that wait for permits of one name, with the same
 * number of them, share a line: an entry that is never held. Its `waiters` are those that wait without asking Redis,
 * linked by `in_line`, and its `count` is how many entries ask. All of them have one mutex.
 *
 * Waiting in line pays while holds are brief and permits are short. Then one entry asks at a time; when it has its
 * permit or leaves, the first in line asks. It does not ask at once while holds are passed on and no more holders wait
 * than have permits, but when a hold goes back to Redis, or when none was passed on for HLK_PASS_MS. After a hold that
 * was not brief all ask: several permits that come free elsewhere would be fetched one after the other.
 *
 *   EMPTY      no waiter in it                      a new wait asks. It joins if one asks and permits were short just
 *                                                   now (ASKING), or if a pass is likely (POSTPONED)
 *   ASKING     waiters, count > 0                   that entry asks no more: the first asks (ASKING), or POSTPONED
 *   POSTPONED  waiters, count == 0, asks_ms > 0     a hold is passed on: the first has it. A hold goes to Redis, or the
 *                                                   alarm: the first asks (ASKING). A hold that was not brief: all ask
 *                                                   (EMPTY) */
#ifndef HLK_LEASE_LINE_H
#define HLK_LEASE_LINE_H

#include "lease/entry.h"

/* The alarm of a line: its first waiter asks, if nothing was passed on meanwhile. The mutex is held. */
void hlk_line_on_alarm(struct hlk_entry *line);

/* --- the entry's mutex is held. Each is a no-op for entries without a line --- */

/* The entry has begun or ceased to be held, or asks Redis no more: then the first in its line may have to. */
void hlk_line_moved(struct hlk_entry *e);

/* The waiter's line is the entry's, if that has none yet. */
void hlk_line_begin(struct hlk_entry *e, const struct hlk_local_waiter *waiter);

/* The first waiter of an entry that is NONE. False: it need not wait in line, and asks. */
bool hlk_line_join(struct hlk_entry *e, struct hlk_local_waiter *waiter);
void hlk_line_leave(struct hlk_local_waiter *waiter);

/* Redis has answered BUSY; or has given the entry a hold, to this waiter. */
void hlk_line_busy(struct hlk_entry *e);
void hlk_line_got(struct hlk_entry *e, const struct hlk_local_waiter *waiter, int64_t now_ms);
struct hlk_local_waiter *hlk_line_first(const struct hlk_entry *line);      /* NULL: it is empty */

/* The first one in it asks Redis if no waiter of it does. at_once: now. Else it may wait for a hold that is passed on,
 * and ask by an alarm. */
void hlk_line_ask(struct hlk_entry *line, bool at_once);
void hlk_line_ask_all(const struct hlk_entry *line);                        /* each waiter in it asks Redis */

#endif
