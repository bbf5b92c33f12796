/* hold_end.h - releases without a waiting caller: of a hand-back, of a lost hold. */
#ifndef HLK_LEASE_HOLD_END_H
#define HLK_LEASE_HOLD_END_H

#include "lease/entry.h"

/* Fills in what the release sends. The caller sets the rest (script/pending_release.h). */
void hlk_hold_end_fill(struct hlk_release *pending, const struct hlk_entry *e,
                       const struct hlk_release_record *record);
/* The hold is over without a release by its holder: fills and starts one in the background. */
void hlk_hold_end(struct hlk_entry *e, const struct hlk_release_record *record);
/* The same for a grant that no waiter needs. It is counted in handing_back until it is settled. */
void hlk_hold_hand_back(struct hlk_entry *e, const struct hlk_release_record *record);
/* The same for a lost hold. The release is announced at once, so that no second one is sent. It is started after the
 * holder's callbacks have returned, so that no other client gets the lock before the loss was reported. If a callback
 * takes long, the lease simply runs out. */
void hlk_hold_end_lost(struct hlk_entry *e, const struct hlk_release_record *record);

#endif
