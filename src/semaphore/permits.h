/* permits.h - a handle on permits with leases, internally. */
#ifndef HLK_SEMAPHORE_PERMITS_H
#define HLK_SEMAPHORE_PERMITS_H

#include "handle/handle.h"
#include "hasplock/permits.h"

struct hlk_permits {
    hlk_lock *permit;           /* the user's */
    hlk_lock *by_call;          /* of calls that have a holder of their own, and of short ones; without an entry */
};

/* Refuses NULL, a forked child and a closed client; called first by every call. */
enum hlk_status hlk_permits_check(const hlk_permits *permits, const char *operation);

#endif
