/* multilock_async.h - acquire and release of a multilock without a blocked thread. Each part of them is calls of the
 * members; the last of these that completes begins the next part. All members are of one client: completions run one
 * after the other. */
#ifndef HLK_MULTILOCK_MULTILOCK_ASYNC_H
#define HLK_MULTILOCK_MULTILOCK_ASYNC_H

#include "multilock/multilock.h"

/* The same, with completions. */
enum hlk_status hlk_multilock_acquire_async(hlk_lock *multilock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                            hlk_done_fn *done, void *ctx);
enum hlk_status hlk_multilock_release_async(hlk_lock *multilock, hlk_done_fn *done, void *ctx);

#endif
