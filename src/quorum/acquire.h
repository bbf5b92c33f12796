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

/* Blocks. HLK_OK: held, once more if it was before. */
enum hlk_status hlk_quorum_acquire_as(struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                                      const struct hlk_quorum_terms *terms, struct hlk_thread *self);

#endif
