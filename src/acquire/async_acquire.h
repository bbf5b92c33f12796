/* async_acquire.h - an acquire of a lock on one server without a blocked thread: the driver of acquire/acquire_step.h
 * for completions. Several of them may be under way for one thread (multilock/try_all.c). */
#ifndef HLK_ACQUIRE_ASYNC_ACQUIRE_H
#define HLK_ACQUIRE_ASYNC_ACQUIRE_H

#include "acquire/acquire_op.h"
#include "acquire/async_driver.h"

struct hlk_acquiring { /* three parties have it: `complete`, an attempt in flight, and the loop */
    struct hlk_async async;
    struct hlk_acquire_op *op;
    struct hlk_up up;
    bool lazy; /* set before the start: no thread is woken to read the answer of the first attempt */
    /* `async` has its status and error, and `complete` the reference that hlk_async_unref drops. Any thread; it may be
     * under the entry's mutex. */
    void (*complete)(void *async);
};

/* terms->with is the operation's from now on. owner: referenced, for as long as it takes; NULL: the holder is no owner.
 * NULL: no memory. */
struct hlk_acquiring *hlk_acquiring_make(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                         hlk_owner *owner, void (*complete)(void *async));

/* HLK_OK: `complete` will be called, or was. Else it will not be, the thread's error is set, *acquiring is freed. */
enum hlk_status hlk_acquiring_start(struct hlk_acquiring *acquiring, const struct hlk_acquire_opts *opts);

/* Before the start: at_ms is the deadline, also of one try, which else ends after reply_timeout_ms. Its starter makes
 * the event of that time (hlk_async_step, HLK_WAKE_TIME), and that of close. */
void hlk_acquiring_limit(struct hlk_acquiring *acquiring, int64_t at_ms);

/* Ends it, as a cancel does: HLK_INTERRUPTED, if it is not over. The caller has a reference. */
void hlk_acquiring_stop(struct hlk_acquiring *acquiring);

/* An acquire with a completion. terms->with is the operation's from now on; it is there until `done` has returned. */
enum hlk_status hlk_acquire_async_on(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                     hlk_owner *owner, hlk_done_fn *done, void *ctx);

/* hlk_lock_acquire_async with checked arguments. owner: the handle's own, referenced by the caller even if the handle
 * was destroyed; NULL: the handle's holder is no owner. */
enum hlk_status hlk_lock_acquire_async_as(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                          hlk_done_fn *done, void *ctx);

#endif
