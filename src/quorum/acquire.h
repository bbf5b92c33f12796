/* acquire.h - one acquire of a lock over several masters, on its way: rounds, and waits between them, until one round
 * has a majority.
 *
 * acquire_step.c has its steps, acquire_op.c what they are made of. A blocked thread (acquire.c) or completions
 * (lock_async.c) drive it: hlk_quorum_acquire_start, then hlk_quorum_acquire_step for each event until it is DONE, then
 * hlk_quorum_acquire_finish. Steps never sleep, and use no error of the thread. */
#ifndef HLK_QUORUM_ACQUIRE_H
#define HLK_QUORUM_ACQUIRE_H

#include "quorum/tally.h"

struct hlk_quorum_listener { /* at the lock's channel of one master */
    struct hlk_listener listener;
    struct hlk_quorum_op *op;
    unsigned i;
};

struct hlk_quorum_op {
    struct hlk_quorum *quorum;
    struct hlk_quorum_terms terms;
    hlk_client *client;
    struct hlk_waker *waker; /* the driver's: gets every event */
    struct hlk_cancel *cancel;
    struct hlk_wait_entry closing_wait;
    struct hlk_cancel_wait cancel_wait;
    struct hlk_quorum_waiter waiter;
    struct hlk_quorum_queue *queue;
    struct hlk_round *round; /* in flight; its own */
    struct hlk_quorum_listener listeners[HLK_QUORUM_MAX];
    struct hlk_wait_for wait_for; /* set by each step */
    int64_t at_ms;                /* when the wait ends; wait_for.until_ms is this or the deadline */
    bool once, joined, eintr;
    bool waits;   /* counted in `waiting` */
    bool nested;  /* a thread of its owner has it: one hold more */
    bool raising; /* and the lease of that is being raised, by `round` */
    bool listens; /* PAUSE: then it waits for messages, for delay_ms; else the next round */
    int64_t began_ms, deadline_ms, delay_ms;
    int64_t unreachable_ms; /* since when too few masters can be asked; 0: enough can */
    int64_t complete_ms;    /* until then a round waits for masters that are about to connect; 0: none does */
    unsigned untried;       /* so many masters were about to connect when the round was sent */
    int tries_left;         /* < 0: any number */
    unsigned late, splits;
    unsigned blocked;        /* a bit for each master that others hold, or that cannot be asked */
    atomic_uint messaged;    /* a bit for each one on whose channel a message has come since the last round */
    enum hlk_status failure; /* what the deadline means, if not HLK_TIMEOUT: too few masters could be asked */
    enum hlk_status status;  /* DONE */
    uint64_t seed;
    struct hlk_error error;
};

/* --- acquire_op.c: what the steps are made of --- */

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

/* --- acquire_step.c --- */

struct hlk_wait_for hlk_quorum_acquire_start(struct hlk_quorum_op *op);
/* After an event, or what may be one. */
struct hlk_wait_for hlk_quorum_acquire_step(struct hlk_quorum_op *op);
/* The driver ends it, for this reason. DONE. */
struct hlk_wait_for hlk_quorum_acquire_abort(struct hlk_quorum_op *op, enum hlk_status status, const char *why);
/* After DONE: leaves, and counts. Returns the status; op->error has its text. */
enum hlk_status hlk_quorum_acquire_finish(struct hlk_quorum_op *op);

#endif
