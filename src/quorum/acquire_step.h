/* acquire_step.h - the steps of an acquire over several masters: the local queue, connections, rounds, and pauses
 * between them. */
#ifndef HLK_QUORUM_ACQUIRE_STEP_H
#define HLK_QUORUM_ACQUIRE_STEP_H

#include "quorum/acquire.h"

struct hlk_wait_for hlk_quorum_acquire_start(struct hlk_quorum_op *op);

/* After an event, or what may be one. */
struct hlk_wait_for hlk_quorum_acquire_step(struct hlk_quorum_op *op);

/* The driver ends it, for this reason. DONE. */
struct hlk_wait_for hlk_quorum_acquire_abort(struct hlk_quorum_op *op, enum hlk_status status, const char *why);

/* After DONE: leaves, and counts. Returns the status; op->error has its text. */
enum hlk_status hlk_quorum_acquire_finish(struct hlk_quorum_op *op);

#endif
