/* async.h - what a completion-driven acquire adds to an acquire operation. */
#ifndef HLK_API_ASYNC_INNER_H
#define HLK_API_ASYNC_INNER_H

#include "lease/raise.h"
#include "api/acquire_op.h"

#define HLK_WAKE_TIME 0x1000u           /* its alarm is due */
#define HLK_ASYNC_RUNNING 0x40000000u   /* a thread runs its steps and will see events that arrive meanwhile */

/* Events come from the loop, from the leader of the connection and from a cancel. They are bits. The thread that sets a
 * bit runs the steps, unless another one does. So steps never overlap, and no mutex is held during their I/O. */
struct hlk_async {
    atomic_uint bits;
    atomic_int refs;                    /* the completion's, and one for an attempt in flight */
    bool touched;                       /* the loop may have a pointer to it: free it on the loop thread */
    bool over;                          /* the machine has finished, no further steps */
    struct hlk_raise raise;             /* for op->raising */
    struct hlk_acquire_op *op;
    void (*on_answer)(struct hlk_call *call);
    hlk_owner *owner;                   /* referenced: the handle may be destroyed while this waits */
    struct hlk_post post;
    struct hlk_post end;                /* frees it: posted once, with the last reference */
    struct hlk_alarm alarm;
    struct hlk_up up;
    struct hlk_job job;
    enum hlk_progress progress;         /* of the operation's command, at the last step */
    hlk_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error told;              /* the thread's error, for the thread of the callback */
};

/* async_step.c: for the thread that runs the steps. `over`: the machine has its status. */
void hlk_async_start(struct hlk_async *async);                  /* the first step */
void hlk_async_step(struct hlk_async *async, unsigned bits);    /* handles events */

#endif
