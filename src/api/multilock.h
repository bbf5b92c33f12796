/* multilock.h - a lock made of several locks, internally. */
#ifndef HLK_API_MULTILOCK_H
#define HLK_API_MULTILOCK_H

#include "api/handle.h"
#include "hasplock/multilock.h"

#endif
