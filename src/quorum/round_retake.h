/* round_retake.h - while a hold lasts, its acquire is asked for again on the masters that do not have it. */
#ifndef HLK_QUORUM_ROUND_RETAKE_H
#define HLK_QUORUM_ROUND_RETAKE_H

#include "quorum/round.h"

/* Of an acquire that is held: asks each master again that has not granted it, for lease_ms. Nothing waits for the
 * answers. No-op after the release. */
void hlk_round_retake(struct hlk_round *round, int64_t lease_ms);

/* One of them was not connected when it was its turn, and is now. */
bool hlk_round_may_grow(struct hlk_round *round);

/* Master i is not known to have granted it. */
bool hlk_round_lacks(struct hlk_round *round, unsigned i);

/* Master i has said that it does not have the hold. False: that was known. */
bool hlk_round_miss(struct hlk_round *round, unsigned i);

#endif
