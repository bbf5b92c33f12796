/* lock_async.h - a lock over several masters without a blocked thread. */
#ifndef HLK_QUORUM_LOCK_ASYNC_H
#define HLK_QUORUM_LOCK_ASYNC_H

#include "quorum/quorum.h"

enum hlk_status hlk_quorum_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                              hlk_done_fn *done, void *ctx);
enum hlk_status hlk_quorum_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx);

#endif
