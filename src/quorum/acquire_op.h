/* acquire_op.h - what the steps of an acquire over several masters are made of: the local queue, connections,
 * channels. */
#ifndef HLK_QUORUM_ACQUIRE_OP_H
#define HLK_QUORUM_ACQUIRE_OP_H

#include "quorum/acquire.h"

/* Zeroed before. `opts` are checked, its cancel is borrowed. */
void hlk_quorum_op_init(struct hlk_quorum_op *op, struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                        const struct hlk_quorum_terms *terms, struct hlk_waker *waker);

/* From now on close and cancel are events. HLK_OK, or what has come already. */
enum hlk_status hlk_quorum_op_begin(struct hlk_quorum_op *op);

/* Leaves the local queue, the channels, the cancel object and the client's list of waits. A round in flight is given
 * back. */
void hlk_quorum_op_end(struct hlk_quorum_op *op);

/* It is cancelled, or the client is being closed: op->error says which. */
bool hlk_quorum_op_must_leave(struct hlk_quorum_op *op);

/* 0 to max. */
int64_t hlk_quorum_op_jitter(struct hlk_quorum_op *op, int64_t max);

/* Once; no-op without pub/sub. */
void hlk_quorum_op_join_channels(struct hlk_quorum_op *op);

/* So many masters are not held by others, or have said something, as a majority takes. */
bool hlk_quorum_op_enough_are_free(const struct hlk_quorum_op *op);

/* What the holder has of the lock, and its turn in the local queue. HLK_OK: it is the head of the queue, or has one
 * hold more (op->nested). HLK_BUSY: others are before it. Else the acquire ends with this status. */
enum hlk_status hlk_quorum_op_enter_queue(struct hlk_quorum_op *op);
enum hlk_status hlk_quorum_op_look_at_queue(struct hlk_quorum_op *op);

/* Is its lease too short for another hold, or not renewed? */
bool hlk_quorum_op_must_raise(struct hlk_quorum_op *op);

/* HLK_OK: so many masters are connected that a round makes sense; a majority does, but see complete_ms. HLK_BUSY: not
 * yet, look again in a moment. Else the acquire ends with this status. *failure: what it ends with if there is no time
 * left. */
enum hlk_status hlk_quorum_op_look_at_masters(struct hlk_quorum_op *op, enum hlk_status *failure);

/* Too few masters can be asked. HLK_OK: they may come back, ask again. */
enum hlk_status hlk_quorum_op_unreachable(struct hlk_quorum_op *op, enum hlk_status failure, bool waits);

#endif
