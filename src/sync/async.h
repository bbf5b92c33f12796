/* async.h - what a completion-driven acquire adds to a request. */
#ifndef HLK_SYNC_ASYNC_INNER_H
#define HLK_SYNC_ASYNC_INNER_H

#include "sync/request.h"

#define HLK_WAKE_TIME 0x1000u           /* a moment of its own has come */
#define HLK_ASYNC_RUNNING 0x40000000u   /* somebody steps it now, and will see what comes meanwhile */

/* Events may come from the loop, from whoever leads the connection, from a cancel. They are bits; whoever finds nobody
 * stepping the request steps it, so its steps never overlap, and no mutex is held while it does I/O. */
struct hlk_async {
    atomic_uint bits;
    atomic_int refs;                    /* the completion's, and one for the call that flies */
    bool touched;                       /* the loop knows it: memory goes back on the loop thread */
    bool over;                          /* the machine has finished; nothing steps it any more */
    bool raising;                       /* not an acquire: a nested hold whose lease is being raised */
    struct hlk_request *r;
    hlk_owner *owner;                   /* referenced: the handle may be destroyed while this waits */
    struct hlk_post post;
    struct hlk_post end;                /* frees: posted once, by whoever gave the last reference back */
    struct hlk_alarm alarm;
    struct hlk_up up;
    struct hlk_job job;
    int64_t patience_at_ms;             /* INT64_MAX: connected */
    int64_t refused_until_ms;           /* > 0: the server says "later", and is asked again until then */
    bool refused;                       /* and the last copy ended so, r->error says how. None flies until */
    int64_t pause_until_ms;             /*   then; */
    bool asks_again;                    /*   false: then it is over */
    hlk_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error told;              /* the thread's error, for the callback's thread */
};

void hlk_async_wake(struct hlk_async *async, unsigned bit);     /* any thread, under any mutex of rank below POST */

/* async_step.c: by whoever runs it. */
void hlk_async_start(struct hlk_async *async);                  /* as if it had been in line */
void hlk_async_step(struct hlk_async *async, unsigned bits);    /* what has happened */

/* async.c: for the steps. */
void hlk_async_on_answer(struct hlk_call *call);
void hlk_async_finish(struct hlk_async *async);                 /* the machine has its status; over from here on */

#endif
