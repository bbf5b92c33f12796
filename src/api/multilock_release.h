/* multilock_release.h - releases all members of a multilock, at once. */
#ifndef HLK_API_MULTILOCK_RELEASE_H
#define HLK_API_MULTILOCK_RELEASE_H

#include "api/multilock.h"

/* Releases each, whatever happens to one of them. */
enum hlk_status hlk_multilock_release(hlk_lock *multilock);

#endif
