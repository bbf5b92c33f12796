/* async_driver.h - runs the steps of an acquire without a blocked thread, and its completion.
 *
 * Events come from the loop, from the reader of a connection, and from a cancel. They are bits. The thread that sets a
 * bit runs the steps, unless another one does. So steps never overlap, and no mutex is held during their I/O. */
#ifndef HLK_ACQUIRE_ASYNC_DRIVER_H
#define HLK_ACQUIRE_ASYNC_DRIVER_H

#include "handle/handle.h"
#include "wait/wait_for.h"

struct hlk_async;

/* The operation that is driven. */
struct hlk_async_type {
    struct hlk_wait_for (*step)(struct hlk_async *async, unsigned events);
    /* After DONE, once. Ends the operation, sets status and error, and completes the job (hlk_client_complete), at once
     * or later. `async` may be freed on return. */
    void (*end)(struct hlk_async *async);
    void (*free)(struct hlk_async *async);
};

struct hlk_async {              /* heap; embedded in the operation's own struct */
    const struct hlk_async_type *type;
    atomic_uint bits;
    atomic_int refs;            /* the completion's, and those of hlk_async_ref */
    bool touched;               /* the loop may have a pointer to it: it is freed on the loop thread */
    bool over;                  /* no further steps */
    hlk_lock *lock;             /* its handle is referenced by the operation */
    hlk_owner *owner;           /* referenced: the handle may be destroyed during the wait; or NULL */
    struct hlk_waker waker;     /* for the operation */
    struct hlk_post post;
    struct hlk_post end;        /* frees it: posted once, with the last reference */
    struct hlk_alarm alarm;
    int64_t alarm_ms;           /* when it is due; 0: it is not armed */
    struct hlk_job job;
    hlk_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error error;     /* of the thread that ended the operation, for the thread of the callback */
};

/* Zeroed before; `done` and `ctx` are the caller's to set. The owner (NULL: none) is referenced. Events that come
 * before hlk_async_start are kept. */
void hlk_async_init(struct hlk_async *async, const struct hlk_async_type *type, hlk_lock *lock, hlk_owner *owner);
/* Instead of hlk_async_start: it is freed. */
void hlk_async_drop(struct hlk_async *async);
/* After the operation's first step: what that waits for. */
void hlk_async_start(struct hlk_async *async, struct hlk_wait_for first);

/* Runs a step. Any thread, without a mutex. The caller has a reference, or is the loop thread. Under a mutex:
 * async->waker; then the loop thread runs the step. */
void hlk_async_step(struct hlk_async *async, unsigned bit);

static inline void hlk_async_ref(struct hlk_async *async) { atomic_fetch_add(&async->refs, 1); }
void hlk_async_unref(struct hlk_async *async);

#endif
