/* multilock_acquire.h - acquires all members of a multilock, or none: a thread does what the plan says. */
#ifndef HLK_MULTILOCK_MULTILOCK_ACQUIRE_H
#define HLK_MULTILOCK_MULTILOCK_ACQUIRE_H

#include "multilock/multilock.h"

/* Acquires all members, or none. Blocks. */
enum hlk_status hlk_multilock_acquire(hlk_lock *multilock, const struct hlk_acquire_opts *opts);

#endif
