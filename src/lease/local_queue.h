/* local_queue.h - which waiter of the process gets the lock: the local queue, its ticket in Redis' queue, grants, and
 * passing on. */
#ifndef HLK_LEASE_LOCAL_QUEUE_H
#define HLK_LEASE_LOCAL_QUEUE_H

#include "lease/entry.h"

/* For a holder that has the entry already: NESTED; RAISE, with the count after it and the hold id; LOST. QUEUED: the
 * holder does not have it. RAISE means that fixed_lease_ms is given, or that it is 0, for the watchdog, while the
 * hold's lease is fixed. */
enum hlk_enter hlk_entry_nest(struct hlk_entry *e, uint64_t holder, int64_t fixed_lease_ms, unsigned *count,
                              uint64_t *h);
enum hlk_enter hlk_entry_enter(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* After wake(): HEAD or QUEUED; ACQUIRED; NESTED, RAISE, DEADLOCK (its owner has acquired it meanwhile) or BUSY (once),
 * which leave the queue; LOST (its owner has acquired and lost it): the caller leaves. */
enum hlk_enter hlk_entry_check(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* Before the head waiter sends. *out is the same in all attempts of one hold id. queues: this attempt takes a ticket in
 * Redis' queue. NOMEM, or HEAD. */
enum hlk_enter hlk_entry_queue(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool queues,
                               struct hlk_member *out);

/* Before the head waiter sends again: WAITING -> ACQUIRING. False: it holds the lock meanwhile. */
bool hlk_entry_resend(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* The reply was "busy". doubt: an attempt of it is in doubt. True: a grant came before the reply, and it holds the
 * lock. */
bool hlk_entry_wait(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool doubt);

/* A grant: h holds the lock for ttl_ms, after its ticket was queued for waited_ms. False: no waiter needs it,
 * release(h) is due. */
bool hlk_entry_grant(struct hlk_entry *e, uint64_t h, int64_t ttl_ms, int64_t waited_ms, int64_t token);

/* A message for h: send again. */
void hlk_entry_retry(struct hlk_entry *e, uint64_t h);

/* The head waiter sends again, whatever its hold id. */
void hlk_entry_retry_head(struct hlk_entry *e);

/* The reply was "acquired"; its attempt was sent at sent_ms. False: too late to count on the lease, send again. */
bool hlk_entry_acquired(struct hlk_entry *e, struct hlk_local_waiter *waiter, int64_t sent_ms, int64_t token,
                        bool doubt);

/* Reports that waiter `winner` holds the lock: by the return of its call, or by `complete`, which queues its
 * completion. `complete` runs under the mutex, so no later holder is reported first. Then the waiters of the same
 * holder, and those with one try, check the entry again. */
void hlk_entry_report_acquired(struct hlk_entry *e, uint64_t winner, void (*complete)(void *ctx), void *ctx);

/* The reply said that h has a tombstone: the head waiter gets a new hold id. */
void hlk_entry_renumber(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* Leaves the local queue from any position; no-op when not in it. True: the caller must start release(h), with
 * hlk_entry_release_record (entry_state.h), and then call hlk_entry_leave_finish; the state is RELEASING meanwhile.
 * That is so when h has a ticket in Redis' queue that no successor takes over, or when an attempt of the acquire may
 * still run (in_flight). */
bool hlk_entry_leave(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool in_flight);
void hlk_entry_leave_finish(struct hlk_entry *e);

/* While a release's completion is pending, completions of grants are held back, so that an owner's completions stay in
 * order. A release that is sent again may run after the acquire of the next waiter. */
void hlk_entry_release_unreported(struct hlk_entry *e);
void hlk_entry_release_reported(struct hlk_entry *e);

/* --- the entry's mutex is held --- */

/* Out of the local queue, and of a line. */
void hlk_entry_unlink(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* h was broken while it is not HELD. An "acquired" that is on its way is older than the break, and so is a noted
 * grant. */
void hlk_entry_note_break(struct hlk_entry *e);

/* Gives the lock to the first waiter after a release. False: there is none that may have it, or Redis' queue comes
 * first. *woken: for hlk_park_wake_signalled after the mutex is unlocked, because the woken thread needs it at once. */
bool hlk_entry_pass_on(struct hlk_entry *e, struct hlk_park **woken);

/* A part of hlk_entry_pass_on: the waiter has the hold of this entry. True: it ends at another time, so it has to be
 * armed. */
bool hlk_entry_take_over(struct hlk_entry *e, struct hlk_local_waiter *next, int64_t now_ms);

/* Wakes the waiters that may return without being the head waiter: same holder, or one try. */
void hlk_entry_wake_informed(struct hlk_entry *e);

#endif
