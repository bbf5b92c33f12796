/* outcome.h - which outcome of several calls is that of all: one of the highest rank, and of those the first. */
#ifndef HLK_ACQUIRE_OUTCOME_H
#define HLK_ACQUIRE_OUTCOME_H

#include "hasplock/status.h"

/* Acquires: a busy lock can be waited for, any other failure is final. */
static inline int hlk_acquire_rank(enum hlk_status status)
{
    return status == HLK_OK ? 0 : status == HLK_BUSY ? 1 : 2;
}

/* Releases: no other outcome hides a loss. */
static inline int hlk_release_rank(enum hlk_status status)
{
    return status == HLK_OK ? 0 : status == HLK_LOST ? 2 : 1;
}

#endif
