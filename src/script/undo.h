/* undo.h - ends that are owed to Redis: releases, give-ups, clean-ups after a loss, repeated until answered.
 *
 * An end is sent once at the caller's asking. When its connection breaks or the server asks to come later it is sent
 * again, in front of everything else once a connection is up, until it is answered or its lease is over anyway.
 * Whoever asked may wait for the outcome, or go. */
#ifndef HLK_SCRIPT_UNDO_H
#define HLK_SCRIPT_UNDO_H

#include "script/call.h"

enum hlk_undo_outcome {
    HLK_UNDO_OWED = 0,          /* not settled yet */
    HLK_UNDO_DONE,              /* it was held by this hold, and is free now */
    HLK_UNDO_ABSENT,            /* it was not, said to the first copy: expired or broken before */
    HLK_UNDO_ABSENT_REPEATED,   /* it is not, said to a repeated copy: an earlier one may have done it */
    HLK_UNDO_GIVEN_UP,          /* the lease is over, or the client closed, without an answer */
    HLK_UNDO_REFUSED            /* the server refused for good: error */
};

struct hlk_undos;

struct hlk_undo {               /* heap; the undos' from start until settled */
    struct hlk_question q;
    struct hlk_list link;       /* under the undos' mutex: all of them */
    struct hlk_undos *undos;
    /* Once, any thread, no mutex held; frees the undo or keeps it. `error` NULL unless REFUSED. */
    void (*settled)(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error);
    void *ctx;
    bool doubt;                 /* a copy of the hold's acquire is in doubt */
    uint64_t acquire_epoch;     /* != 0: a copy of it still flies in this stream */
    int64_t until_ms;           /* the lease is over then */
    bool flies;                 /* the waiter's: its copy is in the stream */
    bool parked;                /* under the mutex: no copy flies, waits for a connection or a later moment */
};

struct hlk_undos {
    hlk_mux *mux;
    hlk_loop *loop;
    const char *client_id;
    /* one in so many ends leaves the lock to Redisson's clients for so long, if any listens; 0: none does */
    unsigned open_every;
    int64_t open_ms;
    struct hlk_tick tick;
    struct hlk_mutex mu;        /* rank UNDO; guards: */
    struct hlk_list all;
    unsigned parked;
    bool closed;                /* nothing is sent any more: what is parked is given up */
    int64_t try_at_ms;
};

void hlk_undos_init(struct hlk_undos *undos, hlk_loop *loop, const char *client_id);
void hlk_undos_fini(struct hlk_undos *undos);       /* settles what is left as GIVEN_UP; after the mux was closed */
/* those that no thread drives, as GIVEN_UP; after the mux was closed */
void hlk_undos_settle_all(struct hlk_undos *undos);
void hlk_undos_on_up(struct hlk_undos *undos);      /* loop thread: a new stream begins */
size_t hlk_undos_count(struct hlk_undos *undos);
bool hlk_undos_owe(struct hlk_undos *undos, uint64_t hold);     /* an end of it is not settled yet */

/* q.name, hold, place, fenced, until_ms, doubt, acquire_epoch, settled, ctx are set. The end is in the stream, or
 * parked, on return: what the caller sends next comes after it. With waiter: hlk_undo_wait must follow. eager: somebody
 * waits for `settled`. */
void hlk_undo_start(struct hlk_undos *undos, struct hlk_undo *undo, struct hlk_self *waiter, bool eager);

/* Drives it from the waiter's thread. True: `settled` was called. False at at_ms: it goes on in the background;
 * *sent: some copy was written. */
bool hlk_undo_wait(struct hlk_undos *undos, struct hlk_undo *undo, struct hlk_self *waiter, int64_t at_ms, bool *sent);

#endif
