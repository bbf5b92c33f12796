/* entry_state.h - the state of an entry and its first waiter, for the other files of the entry. */
#ifndef HLK_LEASE_ENTRY_STATE_H
#define HLK_LEASE_ENTRY_STATE_H

#include "lease/entry.h"

/* After hlk_entry_leave (local_queue.h): the record for release(h), with its ticket. A successor may leave before it
 * has sent anything. */
void hlk_entry_release_record(struct hlk_entry *e, struct hlk_release_record *out);

/* --- the entry's mutex is held --- */

/* The head waiter, or the one that becomes it when the state is NONE. NULL: no waiter. */
struct hlk_local_waiter *hlk_entry_head(const struct hlk_entry *e);
bool hlk_entry_is_held_by(const struct hlk_entry *e, uint64_t holder);

/* Makes the first waiter the head waiter and lets it send, if the state is NONE and it does not wait for a pass. */
void hlk_entry_promote(struct hlk_entry *e);

/* This waiter is the head waiter, and has sent nothing yet. */
void hlk_entry_new_hold_id(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* It may still be passed on locally: for HLK_PASS_MS, and local_passes times. It has a ticket. */
bool hlk_entry_has_turn(const struct hlk_entry *e, int64_t now_ms);

/* Redis has said BUSY just now. */
bool hlk_passing_is_contended(const struct hlk_passing *passing, int64_t now_ms);

/* And this process has as many permits as its line waits for, and passes them on. */
bool hlk_passing_is_likely(const struct hlk_passing *passing, int64_t now_ms);

/* Sets the alarm for the first waiter. If it is set already, nothing changes, and it may be set again when it fires. */
void hlk_entry_ask_by(struct hlk_entry *e, int64_t at_ms);

/* The first waiter waits for permits that are passed on, and asks at the end of the turn. False: it asks now; so does
 * that of a lock. */
bool hlk_entry_postpone(struct hlk_entry *e);

/* False: no memory. */
bool hlk_entry_make_ticket(struct hlk_entry *e);

/* Drops the hold's own references, once. */
void hlk_entry_forget_hold(struct hlk_entry *e, bool holder_lives);

/* What the release of the hold needs to know. */
void hlk_entry_fill_record(const struct hlk_entry *e, struct hlk_release_record *out);

/* Sets the alarm after the lease has begun, or was renewed or extended. */
void hlk_entry_arm(struct hlk_entry *e);

#endif
