/* acquire_step.h - the steps of an acquire that is under way. A step handles the events that have come, sends what is
 * to be sent, and says what to wait for next. It never sleeps.
 *
 * There are two drivers: a blocked thread (acquire/acquire_blocking.c) and completions (acquire/async_acquire.c). Each
 * calls hlk_acquire_start once and then hlk_acquire_step until it is DONE, one step after the other. They differ in how
 * they wait, and in how an attempt is sent (op->send). */
#ifndef HLK_ACQUIRE_ACQUIRE_STEP_H
#define HLK_ACQUIRE_ACQUIRE_STEP_H

#include "acquire/acquire_op.h"

/* Enters the local queue, and mostly sends the first attempt. `nested`: what hlk_acquire_nest has returned, with count
 * and h. */
struct hlk_wait_for hlk_acquire_start(struct hlk_acquire_op *op, enum hlk_enter nested, unsigned count, uint64_t h);

struct hlk_wait_for hlk_acquire_step(struct hlk_acquire_op *op, unsigned events);

/* The driver ends it, for this reason. DONE. */
struct hlk_wait_for hlk_acquire_abort(struct hlk_acquire_op *op, enum hlk_status status, const char *why);

/* Takes a nested hold. HLK_ENTER_NESTED: held once more. HLK_ENTER_RAISE: the same, and its lease must be raised.
 * HLK_ENTER_LOST. Else this holder does not hold the lock, or may not nest, and nothing was changed. */
enum hlk_enter hlk_acquire_nest(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                unsigned *count, uint64_t *h);

/* After DONE: leaves, counts, and sets the thread's error. Returns the status of the call. */
enum hlk_status hlk_acquire_finish(struct hlk_acquire_op *op);

/* At any time, instead of hlk_acquire_finish: all of it is rolled back. */
void hlk_acquire_abandon(struct hlk_acquire_op *op);

#endif
