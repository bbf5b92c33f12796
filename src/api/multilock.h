/* multilock.h - a lock made of several locks, internally. */
#ifndef HLK_API_MULTILOCK_H
#define HLK_API_MULTILOCK_H

#include "api/handle.h"
#include "hasplock/multilock.h"

/* multilock_acquire.c: acquires all members, or none. Blocks. */
enum hlk_status hlk_multilock_acquire(hlk_lock *multilock, const struct hlk_acquire_opts *opts);

/* multilock_release.c: releases each, whatever happens to one of them. */
enum hlk_status hlk_multilock_release(hlk_lock *multilock);

/* multilock_async.c: the same, with completions. */
enum hlk_status hlk_multilock_acquire_async(hlk_lock *multilock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                            hlk_done_fn *done, void *ctx);
enum hlk_status hlk_multilock_release_async(hlk_lock *multilock, hlk_done_fn *done, void *ctx);

#endif
