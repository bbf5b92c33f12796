/* shared_hold.h - a hold that several holders of the process have at once: readers of a read/write lock.
 *
 * Each of them has an entry, which is HELD with the same hold id and a copy of the lease. So nesting, renewals, views
 * and events are an entry's as they are. This file counts who has the hold, so that only the last one releases it, and
 * decides who may enter it without a command. docs/decisions/shared_reads.md says why that is safe.
 *
 *   OPEN    a holder enters without a command. It stays for HLK_PASS_MS           Next: CLOSED; OVER, by its alarm
 *           without any
 *   CLOSED  a waiter comes first, HLK_SHARED_MS are over, it was lost, or the     Next: OVER, when the last holder
 *           client is being closed: none enters                                  leaves or loses it
 *   OVER    its release was begun: by that holder, or here                        freed by its alarm
 *
 * Everything is under the mutex of the entries, which is the same for all of a name. */
#ifndef HLK_LEASE_SHARED_HOLD_H
#define HLK_LEASE_SHARED_HOLD_H

#include "lease/entry_table.h"

#define HLK_SHARED_MS 500       /* holders enter for so long; then Redis is asked again who waits */

/* --- these take the mutex --- */

/* Before an acquire is sent: other holders of the process come and go, so it asks for a hold that may be shared.
 * *closings: for hlk_shared_begin. */
bool hlk_shared_is_wanted(struct hlk_entry *e, const struct hlk_local_waiter *waiter, uint64_t *closings);

/* Redis has said that h may be shared. No-op if another hold is shared already, or if somebody has begun to wait since
 * the acquire was sent. */
void hlk_shared_begin(struct hlk_entry *e, uint64_t h, uint64_t closings);

/* True: the waiter has the shared hold, as after hlk_entry_check: HLK_ENTER_ACQUIRED. It was in no queue. */
bool hlk_shared_enter(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* Somebody waits for the other half, or has it: no holder enters any more, and what no holder has is released. */
void hlk_shared_close(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len);
/* Every hold of the node is verified: the same for all its locks, because what no holder has is not verified. */
void hlk_shared_close_node(struct hlk_node *node);
/* The client is being closed: the same for all locks, from now on. */
void hlk_shared_close_all(struct hlk_entry_table *table);

/* After the loop has stopped. */
void hlk_shared_fini(struct hlk_entry_table *table);

/* --- the entry's mutex is held. Each is a no-op for a hold that is not shared --- */

/* Its holder leaves. True: the entry is NONE, nothing is to be sent, and the caller gives back the reference of a held
 * entry. False: the hold is its own from now on, and release(h) is due. */
bool hlk_shared_leave(struct hlk_entry *e);

/* Another entry has lost it: why. NULL: none has. */
const char *hlk_shared_why_lost(const struct hlk_entry *e);

/* It has lost the hold. Sets the record's was_shared, has_others and spreads; and kept_until_ms and until_ms to the
 * latest of all that had it. */
void hlk_shared_lose(struct hlk_entry *e, const char *why, struct hlk_release_record *record);

#endif
