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
    int64_t waiting;            /* client processes in its queue or at its channel (not each of their threads) */
};
#define HLK_LOCK_STATE_INIT { sizeof(struct hlk_lock_state), 0, 0, 0, 0, { 0 }, 0 }

/* Asks the master. HLK_OK also when the lock is free; faults as acquire. Any thread. Blocks up to patience_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_query(hlk_lock *lock, struct hlk_lock_state *out);

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
    uint64_t release_unsure;    /* releases that had to be repeated in the background */
    uint64_t orphaned;          /* holds of threads that ended, of owners that were destroyed */
    uint64_t renewals;          /* of single leases */
    uint64_t renewals_late;     /* later than half a lease after the one before */
    uint64_t woken;             /* waits ended by a message or a grant */
    uint64_t woken_by_ttl;      /* waits that tried again because nothing came: a lost message, or a dead holder */
    uint64_t commands, writes;  /* sent to Redis; sends they left in */
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
