/* hold_end.h - releases without a waiting caller: of a hand-back, of a lost hold. */
#ifndef HLK_LEASE_HOLD_END_H
#define HLK_LEASE_HOLD_END_H

#include "lease/entry.h"

/* Fills in what the release sends. The caller sets the rest (script/pending_release.h). */
void hlk_hold_end_fill(struct hlk_release *pending, const struct hlk_entry *e,
                       const struct hlk_release_record *record);
/* The release is settled. Logs it if permits of a semaphore may be missing: its acquire may have taken them
 * (pending->taken_ms), and the note that would say so may have been gone when the end ran, or the end never did. */
void hlk_hold_end_check_note(const struct hlk_release *pending, const struct hlk_entry *e,
                             enum hlk_release_outcome outcome);
/* The hold is over without a release by its holder: fills and starts one in the background. */
void hlk_hold_end(struct hlk_entry *e, const struct hlk_release_record *record);
/* The same for a grant that no waiter needs. It is counted in handing_back until it is settled. */
void hlk_hold_hand_back(struct hlk_entry *e, const struct hlk_release_record *record);

/* The release of a lost hold. It is announced at once, so that no second one is sent. It is started when both are true:
 * - the holder's callbacks have returned: no other client gets the lock before the loss was reported;
 * - the holder has released each of its holds (hlk_lost_end_start_now), or record->kept_until_ms has come: until then
 *   the holder has time to stop.
 * If a callback takes long, the lease simply runs out. NULL: no memory, the lease runs out too. */
struct hlk_lost_end;
struct hlk_lost_end *hlk_lost_end_make(struct hlk_entry *e, const struct hlk_release_record *record);
void hlk_lost_end_unref(struct hlk_lost_end *end);      /* NULL is fine */
/* The holder has released. Drops the caller's reference. NULL is fine. */
void hlk_lost_end_start_now(struct hlk_entry *e, struct hlk_lost_end *end);

#endif
