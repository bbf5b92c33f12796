/* multilock_release.h - releases all members of a multilock, at once. */
#ifndef HLK_MULTILOCK_MULTILOCK_RELEASE_H
#define HLK_MULTILOCK_MULTILOCK_RELEASE_H

#include "multilock/multilock.h"

/* Releases each, whatever happens to one of them. */
enum hlk_status hlk_multilock_release(hlk_lock *multilock);

#endif
