/* ended_hold.h - holds that are over and not fully reported: a loss, until each hold of it is released; an unanswered
 * release, until the holder's next call. The entry's mutex is held in all of these. */
#ifndef HLK_LEASE_ENDED_HOLD_H
#define HLK_LEASE_ENDED_HOLD_H

#include "lease/entry.h"

struct hlk_ended_hold *hlk_ended_hold_find(const struct hlk_entry *e, uint64_t holder);

/* Also takes a reference to the entry. NULL: no memory. */
struct hlk_ended_hold *hlk_ended_hold_add(struct hlk_entry *e, struct hlk_holder holder, uint64_t h, unsigned releases);

/* After unlocking the mutex the caller gives back the reference to the entry. holder_lives: the holder's count of holds
 * is lowered. */
void hlk_ended_hold_drop(struct hlk_entry *e, struct hlk_ended_hold *ended_hold, bool holder_lives);

/* The ended hold of the lost hold h takes over the reference. False: there is none any more. Takes the mutex itself. */
bool hlk_ended_hold_keep(struct hlk_entry *e, uint64_t h, struct hlk_lost_end *end);

/* Counts a hold that was lost through this handle and is not released: one more, or one less. Updates its descriptor.
 * NULL is fine. */
void hlk_handle_count_lost(struct hlk_handle *handle, bool lost);

#endif
