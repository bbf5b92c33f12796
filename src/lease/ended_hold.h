/* ended_hold.h - holds that are over and not fully reported: a loss, until each hold of it is released; an unanswered
 * release, until the holder's next call. The entry's mutex is held in those of the first group. */
#ifndef HLK_LEASE_ENDED_HOLD_H
#define HLK_LEASE_ENDED_HOLD_H

#include "lease/entry.h"

struct hlk_ended_hold *hlk_ended_hold_find(const struct hlk_entry *e, uint64_t holder);

/* Also takes a reference to the entry. NULL: no memory. */
struct hlk_ended_hold *hlk_ended_hold_add(struct hlk_entry *e, struct hlk_holder holder, uint64_t h, unsigned releases);

/* After unlocking the mutex the caller gives back the reference to the entry. holder_lives: the holder's count of holds
 * is lowered. */
void hlk_ended_hold_drop(struct hlk_entry *e, struct hlk_ended_hold *ended_hold, bool holder_lives);

/* Counts a hold that was lost through this handle and is not released: one more, or one less. Updates its descriptor.
 * NULL is fine. */
void hlk_handle_count_lost(struct hlk_handle *handle, bool lost);

/* --- these take the mutex --- */

/* The ended hold of the lost hold h takes over the reference. False: there is none any more. */
bool hlk_ended_hold_keep(struct hlk_entry *e, uint64_t h, struct hlk_lost_end *end);

/* The release of h was not answered in time. It is kept for the holder's next call. False: no memory. */
bool hlk_entry_note_unsure(struct hlk_entry *e, struct hlk_holder holder, uint64_t h);
bool hlk_entry_is_unsure(struct hlk_entry *e, uint64_t holder);     /* there is one, settled or not */

/* no-op when h has no unsure release */
void hlk_entry_settle_unsure(struct hlk_entry *e, uint64_t h, enum hlk_status outcome);

/* Waits for an unsure release. HLK_E_UNSURE: still unsure at at_ms, and *h is its hold; or that is its outcome, and *h
 * is 0. */
enum hlk_status hlk_entry_wait_unsure(struct hlk_entry *e, uint64_t holder, struct hlk_thread *self, int64_t at_ms,
                                      uint64_t *h);
void hlk_entry_forget(struct hlk_entry *e);     /* drops the ended holds: no call will read them */

#endif
