/* hold.h - a hold of a lock over several masters: renewals, risk, loss. */
#ifndef HLK_QUORUM_HOLD_H
#define HLK_QUORUM_HOLD_H

#include "quorum/quorum.h"

/* The round's majority holds. False: nothing is left of it, or the client is being closed. */
bool hlk_quorum_begin(struct hlk_quorum *quorum, struct hlk_round *round, struct hlk_quorum_queue *queue,
                      const struct hlk_quorum_terms *terms);

/* How often a hold may be renewed; < 0: any number of times. */
int hlk_quorum_renewals(const struct hlk_quorum *quorum);

/* all->mu held: one release less is due. True: that was the last one. */
bool hlk_quorum_count_off(struct hlk_quorum *quorum);

/* Out of HELD, for a release: its round, which is the caller's; NULL: not HELD. A hold that is over becomes LOST.
 * *outer: it stays HELD, and one release less is due. `outer` NULL: all of them are. */
struct hlk_round *hlk_quorum_begin_release(struct hlk_quorum *quorum, bool *outer);

/* The release is in the streams: the next one of this process may send. */
void hlk_quorum_release_sent(struct hlk_quorum *quorum);

/* It is not held any more, for `why`; reported. No-op unless that round's hold is HELD. */
void hlk_quorum_lose(struct hlk_quorum *quorum, const struct hlk_round *round, const char *why);

/* Asks masters again that have not granted it, if it is certain that no other client has held it meanwhile. */
void hlk_quorum_retake(struct hlk_quorum *quorum);

/* The same, once a majority has confirmed that it has the hold: a master has connected. */
void hlk_quorum_retake_if_held(struct hlk_quorum *quorum);

/* The on_no of a renewal: the hold is lost as soon as no majority can have it. */
void hlk_quorum_on_no(struct hlk_round *renewal, unsigned i);
void hlk_quorum_on_alarm(struct hlk_alarm *alarm);

/* A loss that the clock alone knows so far is made one. */
void hlk_quorum_expire(struct hlk_quorum *quorum);

/* A holder has ended without a release: renewals stop, and that is reported. */
void hlk_quorum_orphan(struct hlk_quorums *all, uint64_t holder);

/* Close: no call will ask for a loss any more. */
void hlk_quorum_drop_loss(struct hlk_quorum *quorum);

#endif
