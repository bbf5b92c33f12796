/* acquire.h - one acquire of a lock over several masters, on its way: for acquire.c, which runs its rounds, and
 * acquire_wait.c, in which it waits between them. */
#ifndef HLK_QUORUM_ACQUIRE_H
#define HLK_QUORUM_ACQUIRE_H

#include "quorum/tally.h"

#define HLK_QUORUM_LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)

struct hlk_quorum_listener { /* at the lock's channel of one master */
    struct hlk_listener listener;
    struct hlk_quorum_op *op;
    unsigned i;
};

struct hlk_quorum_op { /* on its caller's stack. Its sleeps are cancellation points of an hlk_lock's acquire */
    struct hlk_quorum *quorum;
    const struct hlk_quorum_terms *terms;
    hlk_client *client;
    struct hlk_thread *self;
    struct hlk_cancel *cancel;
    struct hlk_wait_entry closing_wait;
    struct hlk_cancel_wait cancel_wait;
    struct hlk_quorum_waiter waiter;
    struct hlk_quorum_queue *queue;
    struct hlk_quorum_listener listeners[HLK_QUORUM_MAX];
    bool once, joined, eintr;
    bool waits;  /* counted in `waiting` */
    bool nested; /* a thread of its owner has it: one hold more */
    int64_t began_ms, deadline_ms;
    int64_t unreachable_ms; /* since when too few masters can be asked; 0: enough can */
    int tries_left;         /* < 0: any number */
    unsigned late, splits;
    unsigned blocked;     /* a bit for each master that others hold, or that cannot be asked */
    atomic_uint messaged; /* a bit for each one on whose channel a message has come since the last round */
    uint64_t seed;
    struct hlk_error error;
};

/* It is cancelled, or the client is being closed: op->error says which. */
bool hlk_quorum_op_must_leave(struct hlk_quorum_op *op);
/* 0 to max. */
int64_t hlk_quorum_op_jitter(struct hlk_quorum_op *op, int64_t max);
void hlk_quorum_op_leave_channels(struct hlk_quorum_op *op);

/* --- the local queue --- */

/* all->mu held. What the holder has of the lock. HLK_OK: nothing; or one hold more (op->nested). */
enum hlk_status hlk_quorum_op_look_at_hold(struct hlk_quorum_op *op);
/* all->mu held. It was not the head. */
void hlk_quorum_op_leave_queue(struct hlk_quorum_op *op);

/* --- waits. Not HLK_OK: the acquire ends with this status; op->error has the text --- */

/* HLK_OK: it is the head, or nested. */
enum hlk_status hlk_quorum_op_wait_in_queue(struct hlk_quorum_op *op);
enum hlk_status hlk_quorum_op_pause(struct hlk_quorum_op *op, int64_t ms);
/* HLK_OK: enough masters are connected. Nothing is sent as long as no majority can come of it. */
enum hlk_status hlk_quorum_op_wait_for_masters(struct hlk_quorum_op *op);
/* After a round without a majority. HLK_OK: the next round. */
enum hlk_status hlk_quorum_op_wait_after(struct hlk_quorum_op *op, const struct hlk_tally *t);

#endif
