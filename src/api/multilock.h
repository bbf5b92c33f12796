/* multilock.h - a lock made of several locks, internally. */
#ifndef HLK_API_MULTILOCK_H
#define HLK_API_MULTILOCK_H

#include "api/handle.h"
#include "hasplock/multilock.h"

/* multilock_acquire.c: acquires all members, or none. Blocks. */
enum hlk_status hlk_multilock_acquire(hlk_lock *multilock, const struct hlk_acquire_opts *opts);

/* multilock_release.c: releases each, whatever happens to one of them. */
enum hlk_status hlk_multilock_release(hlk_lock *multilock);

/* The thread's error is that of a member; it says of which multilock. Returns status. */
enum hlk_status hlk_multilock_fail(const hlk_lock *multilock, enum hlk_status status);

#endif
