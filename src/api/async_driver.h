/* async_driver.h - runs the steps of an acquire without a blocked thread, and its completion.
 *
 * Events come from the loop, from whoever reads a connection, and from a cancel. They are bits. The thread that sets a
 * bit runs the steps, unless another one does. So steps never overlap, and no mutex is held during their I/O. */
#ifndef HLK_API_ASYNC_DRIVER_H
#define HLK_API_ASYNC_DRIVER_H

#include "api/handle.h"
#include "wait/wait_for.h"

struct hlk_async;

/* The operation that is driven. */
struct hlk_async_type {
    struct hlk_wait_for (*step)(struct hlk_async *async, unsigned events);
    /* After DONE, once: ends the operation, sets status and error, and sees to it that the job is completed once
     * (hlk_client_complete). It is gone then. */
    void (*end)(struct hlk_async *async);
    void (*free)(struct hlk_async *async);
};

struct hlk_async { /* heap, embedded */
    const struct hlk_async_type *type;
    atomic_uint bits;
    atomic_int refs; /* the completion's, and what its owner adds */
    bool touched;    /* the loop may have a pointer to it: free it on the loop thread */
    bool over;       /* no further steps */
    hlk_lock *lock;  /* kept by what is driven */
    hlk_owner *owner; /* referenced: the handle may be destroyed while this waits */
    struct hlk_waker waker;
    struct hlk_post post;
    struct hlk_post end; /* frees it: posted once, with the last reference */
    struct hlk_alarm alarm;
    int64_t alarm_ms; /* when it is due; 0: it is not armed */
    struct hlk_job job;
    hlk_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error error; /* the thread's error, for the thread of the callback */
};

/* Zeroed before. The owner is referenced. Events that come before hlk_async_start are kept. */
void hlk_async_init(struct hlk_async *async, const struct hlk_async_type *type, hlk_lock *lock, hlk_owner *owner,
                    hlk_done_fn *done, void *ctx);
/* Instead of hlk_async_start: it is freed. */
void hlk_async_drop(struct hlk_async *async);
/* After the operation's first step: what that waits for. */
void hlk_async_start(struct hlk_async *async, struct hlk_wait_for first);

/* Any thread, under any mutex of rank below POST: the loop thread runs the step. */
void hlk_async_wake(struct hlk_async *async, unsigned bit);
/* Any thread without a mutex: runs the step. The caller has a reference, or is the loop thread. */
void hlk_async_step(struct hlk_async *async, unsigned bit);

static inline void hlk_async_ref(struct hlk_async *async) { atomic_fetch_add(&async->refs, 1); }
void hlk_async_unref(struct hlk_async *async);

#endif
