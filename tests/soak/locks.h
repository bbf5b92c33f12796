/* locks.h - the locks of the soak: what kind each is, how it is used, and how many may hold it at once. */
#ifndef HLK_SOAK_LOCKS_H
#define HLK_SOAK_LOCKS_H

#include "hasplock/hasplock.h"

#include <stdbool.h>

/* Rows of the table. LOCK_FOREIGN is shared with the foreign client; LOCK_CONDITION is the one beside the condition. */
enum {
    LOCK_PLAIN, LOCK_BUSY, LOCK_FIXED, LOCK_FENCED, LOCK_FENCED_FIXED, LOCK_FOREIGN,
    LOCK_FAIR, LOCK_SPIN, LOCK_STRING, LOCK_NON_REENTRANT, LOCK_NON_REENTRANT_FAIR,
    LOCK_READ, LOCK_WRITE, LOCK_PERMITS, LOCK_CONDITION,
    LOCKS,
    LOCK_MULTI = LOCKS,     /* some of those above at once */
    TURN_SEMAPHORE, TURN_LATCH, TURN_BARRIER,
    TURNS                   /* what a worker may do in a turn */
};
enum { MEMBERS = 4 };       /* of a multilock, at most */

struct soak_lock {
    const char *name;
    int  kind;          /* enum hlk_lock_kind */
    int  weight;        /* of 100 turns of a worker, about so many are for this lock */
    int  fixed;         /* of 100 holds so many have a fixed lease; the watchdog renews the others */
    bool nests;         /* its holder may acquire it again; else that is HLK_DEADLOCK */
    int  at_most;       /* so many holds at once; 0: one, but see soak_locks_share */
};
extern const struct soak_lock soak_locks[TURNS];

const char *soak_lock_name(int lock);
const char *soak_turn_name(int turn);               /* for people: the halves differ */
bool soak_lock_is_fenced(int lock);
int  soak_lock_key(int lock);                       /* the first row of the same name: of a read/write lock */
bool soak_locks_share(int one, int other);          /* of one key: two holders may hold them at once */
struct hlk_lock_opts soak_lock_opts(int lock);

#endif
