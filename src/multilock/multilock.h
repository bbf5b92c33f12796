/* multilock.h - a lock made of several locks, internally. */
#ifndef HLK_MULTILOCK_MULTILOCK_H
#define HLK_MULTILOCK_MULTILOCK_H

#include "handle/handle.h"
#include "hasplock/multilock.h"

#endif
