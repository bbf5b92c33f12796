/* locks.h - the locks of the soak: what kind each is, how it is used, and how many may hold it at once. */
#ifndef HLK_SOAK_LOCKS_H
#define HLK_SOAK_LOCKS_H

#include "hasplock/hasplock.h"

#include <stdbool.h>

/* Rows of the table. LOCK_FOREIGN is shared with the foreign client. */
enum {
    LOCK_PLAIN, LOCK_BUSY, LOCK_FIXED, LOCK_FENCED, LOCK_FENCED_FIXED, LOCK_FOREIGN,
    LOCK_FAIR, LOCK_SPIN, LOCK_STRING, LOCK_NON_REENTRANT, LOCK_NON_REENTRANT_FAIR,
    LOCKS
};

struct soak_lock {
    const char *name;
    int  kind;          /* enum hlk_lock_kind */
    int  weight;        /* of 100 turns of a worker, about so many are for this lock */
    int  fixed;         /* of 100 holds so many have a fixed lease; the watchdog renews the others */
    bool nests;         /* its holder may acquire it again; else that is HLK_DEADLOCK */
};
extern const struct soak_lock soak_locks[LOCKS];

const char *soak_lock_name(int lock);
bool soak_lock_is_fenced(int lock);
struct hlk_lock_opts soak_lock_opts(int lock);

#endif
