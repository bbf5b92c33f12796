/* round_release.h - what an acquire has got on each master is given back there: which masters owe a release, and their
 * answers. */
#ifndef HLK_QUORUM_ROUND_RELEASE_H
#define HLK_QUORUM_ROUND_RELEASE_H

#include "quorum/round.h"

void hlk_vote_sent(struct hlk_vote *vote);

/* Gives back what an acquire has got, or may have got, everywhere. It is in the streams on return, but for a master
 * that another thread is asking again at this moment, and with release_at_ms: it is sent then, or when the client is
 * closed. Once. eager: a caller waits for on_released. */
void hlk_round_release(struct hlk_round *round, bool eager);

/* The outcome, as far as it is known: HLK_OK, LOST, UNSURE, or a refusal. */
enum hlk_status hlk_round_released(struct hlk_round *round, struct hlk_error *error);

#endif
