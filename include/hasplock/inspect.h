/* inspect.h - what the server says about a lock, and what a client has counted.
 *
 * For people, tests and metrics. Deciding on hlk_lock_query ("is it free? then I...") is a race: acquire instead. The
 * holder's own questions are answered without I/O by hlk_lock_holds and hlk_lock_left_ms (lock.h).
 */
#ifndef HASPLOCK_INSPECT_H
#define HASPLOCK_INSPECT_H

#include "lock.h"

HLK_BEGIN_DECLS

struct hlk_lock_state {
    size_t  size;
    int     held;               /* 1: somebody holds it */
    int     mine;               /* 1: the handle's holder does */
    int64_t count;              /* holds as written in Redis; this library's nested holds need not be in it */
    int64_t ttl_ms;             /* left of the lease; 0: free; -1: held without end (not by this library) */
    char    holder[192];        /* as written in Redis, cut if longer; "" when free */
    int64_t waiting;            /* client processes in its queue, or at its channel, whichever are more (not each of
                                 * their threads); of a fair lock: each thread and owner in its queue */
};
#define HLK_LOCK_STATE_INIT { sizeof(struct hlk_lock_state), 0, 0, 0, 0, { 0 }, 0 }

/* Asks the server. HLK_OK also when the lock is free; faults as acquire. Any thread. Blocks up to patience_ms +
 * reply_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_query(hlk_lock *lock, struct hlk_lock_state *out);

struct hlk_waiter {             /* a place in the queue: a process's, however many of its threads want the lock; of a
                                 * fair lock a thread's or an owner's, and of it only the holder is told */
    size_t  size;               /* how far two of them are apart; set it in the first */
    char    holder[192];        /* as it will be written in Redis when it has the lock, cut if longer */
    int64_t since_ms;           /* when it began to wait: ms since 1970 by its own host's clock; 0: not told */
    int64_t lease_ms;           /* what it is given, until it renews it: under the watchdog 5 s at most, else all */
    int     fenced;             /* 1: it takes a fencing token */
};

/* Who stands in line, from the next one on: *n of them, of whom the first `most` are written to `out` (none, with NULL,
 * when most is 0). A snapshot; some may be dead, and are passed over when it is their turn. Redisson's waiters stand
 * in no line (hlk_lock_query counts them). Set out[0].size. Of a fair lock: each thread and owner that waits,
 * Redisson's among them, with nothing but its holder.
 * HLK_OK also when nobody waits; HLK_E_INVALID; faults as acquire: *n is 0. Any thread. Blocks up to patience_ms +
 * reply_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_waiters(hlk_lock *lock, struct hlk_waiter *out, size_t most, size_t *n);

/* Since open, but for the two gauges. A snapshot: each number is exact, together they may be an instant apart. */
struct hlk_counters {
    size_t   size;
    uint64_t held;              /* gauge: holds, nested ones not counted */
    uint64_t waiting;           /* gauge: threads and async calls that wait for a lock */
    uint64_t acquired;          /* first holds */
    uint64_t reentered;         /* nested holds */
    uint64_t busy, timeouts, interrupted;
    uint64_t lost;              /* expired, broken or unknown to the server while held */
    uint64_t released;
    uint64_t release_unsure;    /* blocking releases that had no answer in time: repeated in the background */
    uint64_t release_refused;   /* by the server: the lease runs out */
    uint64_t orphaned;          /* holds of threads that ended, of owners that were destroyed */
    uint64_t renewals;          /* of single leases */
    uint64_t renewals_late;     /* later than half a lease after the one before */
    uint64_t woken;             /* waits ended by a message or a grant */
    uint64_t woken_by_ttl;      /* waits that got it by asking after nothing had come: a lost message, a dead holder */
    uint64_t commands, writes;  /* sent to Redis, up to 16 acquires and releases in one; sends they left in */
    uint64_t reconnects;
    uint64_t granted;           /* waits that a release elsewhere ended by giving them the lock */
    uint64_t passed;            /* holds that went from thread to thread of this process without a word to Redis */
    uint64_t handed_back;       /* grants that came when nobody waited any more */
    uint64_t wait_us[32];       /* how long successful waits took: [i] counts those below 2^i us, not below 2^(i-1) */
};

/* Fills *out as far as out->size reaches; set it: `out.size = sizeof out`. HLK_OK, HLK_E_INVALID, HLK_E_FORKED. Any
 * thread, no I/O, never blocks. */
HLK_API enum hlk_status hlk_client_counters(const hlk_client *client, struct hlk_counters *out);

HLK_END_DECLS

#endif
