/* acquire_confirm.h - the last step of an acquire with wait_replicas: its hold counts when enough replicas have it. */
#ifndef HLK_ACQUIRE_ACQUIRE_CONFIRM_H
#define HLK_ACQUIRE_ACQUIRE_CONFIRM_H

#include "acquire/acquire_op.h"

/* Held: begins to confirm it by replicas, for machine.until_ms at most. HLK_ACQUIRE_ON_JOINED: the
 * outcome comes with HLK_WAKE_SETTLED. */
enum hlk_acquire_event hlk_acquire_op_confirm(struct hlk_acquire_op *op);

/* HLK_ACQUIRE_ON_JOINED: not known yet; ON_CONFIRMED; ON_UNCONFIRMED; HLK_ACQUIRE_ON_ABORT with op->error. */
enum hlk_acquire_event hlk_acquire_op_confirmed(struct hlk_acquire_op *op);

#endif
