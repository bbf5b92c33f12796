/* inspect.h - the state of a lock as the server has it, and a client's counters.
 *
 * For people, tests and metrics. A decision by hlk_lock_query ("it is free, so I...") is a race: acquire instead. A
 * holder finds its own state without I/O by hlk_lock_holds and hlk_lock_left_ms (lock.h).
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
    int64_t ttl_ms;             /* what is left of the lease; 0: free; -1: held without end (not by this library) */
    char    holder[192];        /* as written in Redis, cut if longer; "" when free */
    int64_t waiting;            /* client processes in its queue or subscribed to its channel, whichever is larger; a
                                 * process with many waiting threads counts once. A fair lock: threads and owners */
};
#define HLK_LOCK_STATE_INIT { sizeof(struct hlk_lock_state), 0, 0, 0, 0, { 0 }, 0 }

/* Queries the server. HLK_OK also if the lock is free. Faults as acquire, and HLK_E_UNSURE: not answered in time.
 * HLK_E_SERVER also if the key is no lock. *out is unchanged then. Any thread. Blocks up to
 * reconnect_timeout_ms + reply_timeout_ms.
 * Over several masters the lock is held if it is held on a majority of them. ttl_ms is for how long that is so,
 * `holder` the name that most masters have, `waiting` the largest of their numbers. A fault is returned if too few
 * masters answered to know whether a majority has it. Blocks up to node_timeout_ms for each master. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_query(hlk_lock *lock, struct hlk_lock_state *out);

struct hlk_waiter {             /* an entry of the queue: one for each process, however many of its threads wait; of a
                                 * fair lock one for each thread and owner, with `holder` only */
    size_t  size;               /* sizeof(struct hlk_waiter); set it in the first element */
    char    holder[192];        /* as it will be written in Redis when it has the lock, cut if longer */
    int64_t since_ms;           /* when it began to wait: ms since 1970 by its own host's clock; 0: unknown */
    int64_t lease_ms;           /* the ttl that a grant will set; with the watchdog at most 5 s, until it renews */
    int     fenced;             /* 1: it takes a fencing token */
};

#define HLK_WAITERS_MAX 10000

/* Lists the queue, the next waiter first. *n is their number; the first `max` of them are written to `out`. `max` is
 * 0 to HLK_WAITERS_MAX; with 0 `out` may be NULL. Set out[0].size before the call. This is a snapshot: some waiters may
 * be dead; they are skipped when it is their turn. Redisson's waiters are not in the queue of a plain lock
 * (hlk_lock_query counts them), but are in that of a fair lock. Over several masters there is no queue: *n is 0.
 * HLK_OK also if nobody waits. HLK_E_INVALID; faults as hlk_lock_query; *n is 0 then. Any thread. Blocks up to
 * reconnect_timeout_ms + reply_timeout_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_waiters(hlk_lock *lock, struct hlk_waiter *out, size_t max, size_t *n);

#define HLK_NOTE_MAX 512            /* bytes of a note */

/* Writes a note beside the lock, for people: who or what holds it, and why. `hasplock show` and `list` print it. NULL
 * removes it. Else it is gone after ttl_ms (100 to a year): write it again before that, and remove it before the
 * release. It belongs to this hold, by its hold id: no other holder is shown with it. Nothing depends on it. The call
 * does not wait for an answer: a note may be lost, as when there is no connection.
 * HLK_OK: sent, or lost. HLK_NOT_HOLDER: nothing was sent. HLK_LOST: the same; a note from before can still be removed.
 * HLK_E_AUTH: an earlier note of this handle was refused, because the user lacks the rights of the section Notes of
 * docs/acl.md; nothing is sent any more. HLK_E_INVALID: also of a multilock, whose members have notes, and over several
 * masters. HLK_E_FORKED, HLK_E_CLOSED. Any thread that holds the lock. Does not block. */
HLK_API enum hlk_status hlk_lock_write_note(hlk_lock *lock, const char *note, int64_t ttl_ms);

/* Reads the note of `holder` (as written in Redis, from hlk_lock_query) to buf: cut if it is longer, always terminated
 * by NUL; "" if there is none. *left_ms (may be NULL): what is left of its ttl; 0: none. HLK_OK. HLK_E_INVALID: as
 * above, and for a holder that has not 1 to 191 bytes. Faults, and how long it blocks: as hlk_lock_query. Any
 * thread. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_read_note(hlk_lock *lock, const char *holder, char *buf, size_t size,
                                                        int64_t *left_ms);

enum hlk_found_kind {           /* what a name may be beside the kinds of enum hlk_lock_kind */
    HLK_FOUND_NOTHING   = -1,
    HLK_FOUND_SEMAPHORE = 23,   /* a semaphore: hlk_semaphore, or hlk_permits none of which is held */
    HLK_FOUND_LATCH     = 24,
    HLK_FOUND_BARRIER   = 25,
    HLK_FOUND_CONDITION = 26,
    HLK_FOUND_NUMBER    = 32,   /* a number: a semaphore, permits, a latch, or other data */
    HLK_FOUND_STRING    = 33,   /* another string: a string lock of another library, or other data */
    HLK_FOUND_OTHER     = 34    /* other data, or what this user may not read */
};

struct hlk_lock_found {              /* what a name is. Kinds may be added */
    size_t  size;
    int     kind;               /* of enum hlk_lock_kind, or of enum hlk_found_kind. A barrier and a condition have keys
                                 * of their own, so that the same name may be a lock too: */
    int64_t number;             /* HLK_LOCK_PERMIT, SEMAPHORE: free permits. LATCH: the count. NUMBER: what it is */
    int64_t parties;            /* how many wait at the barrier of that name, */
    int64_t waiters;            /* and how many at the condition */
};
#define HLK_LOCK_FOUND_INIT { sizeof(struct hlk_lock_found), 0, 0, 0, 0 }

/* Says which kind `name` is, by its key and the keys beside it. For people: a program knows its locks.
 * HLK_LOCK_PLAIN: plain, fenced, spin or not reentrant, or a fair lock without waiters, which is the same in Redis.
 * HLK_LOCK_STRING: a string that this library holds or waits for; its kind cannot be seen otherwise: HLK_FOUND_STRING.
 * A number is told apart by what is beside it: permits that are held, or were set by an acquire; who waits. What this
 * user may not read counts as not there, and the server notes that in ACL LOG. Over several masters there are plain and
 * string locks only: the kind that most masters have.
 * HLK_OK, also if there is nothing. HLK_E_INVALID; faults as hlk_lock_query; *out is unchanged then. Any thread. Blocks
 * as hlk_lock_query. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_find(hlk_client *client, const char *name, struct hlk_lock_found *out);

struct hlk_listed {             /* a held lock; owned by the library, valid during the callback */
    size_t      size;
    const char *name, *holder;      /* as written in Redis; holder "": it has none */
    int64_t     count, ttl_ms;      /* as in hlk_lock_state; of HLK_LOCK_PERMIT: the permits that are held, and the
                                     * lease that ends last */
    int64_t     waiting;
    int         kind;               /* as in hlk_lock_found. Of a list of kind 0: HLK_LOCK_PLAIN, fair locks too */
    int64_t     number;             /* as in hlk_lock_found */
    const char *note;               /* of HLK_LIST_EVERY and HLK_LIST_NUMBERS: the holder's (hlk_lock_write_note); "":
                                     * none */
    int64_t     note_left_ms;       /* what is left of its ttl */
};

/* Runs inside hlk_lock_list. Return 0 to go on, anything else to stop after this lock. */
typedef int hlk_list_fn(const struct hlk_listed *lock, void *ctx);

struct hlk_list_opts {
    size_t      size;
    const char *prefix;             /* of the names, literal, up to 512 bytes; NULL: all */
    int64_t     max_keys;           /* stop after about this many keys of all servers; 0: 100000 */
    hlk_cancel *cancel;             /* triggering it ends the call with HLK_INTERRUPTED; NULL: none */
    uint64_t    cursor;             /* in: 0, or where an earlier call stopped. Out: where it stopped; 0: at the end */
    int64_t     refused;            /* out: how many keys this user may not read */
    int         stopped;            /* out: 1 if the callback stopped it */
    int         kind;               /* 0: plain and fair locks. HLK_LOCK_STRING: string locks. HLK_LIST_... */
};
#define HLK_LIST_EVERY   (-1)       /* locks and permits of every kind, and barriers and conditions at which somebody
                                     * waits. Over several masters: plain and string locks */
#define HLK_LIST_NUMBERS (-2)       /* semaphores, latches and any other number, too */
#define HLK_LIST_OPTS_INIT { sizeof(struct hlk_list_opts), HLK_NULL, 0, HLK_NULL, 0, 0, 0, 0 }

/* Calls `fn` for each held lock of the server, in no order. A lock that is held all the time is reported at least once,
 * some locks twice. Locks are distinguished from other hashes by the form of their holder's name. The call looks at all
 * keys of the server, in steps of 500 that take it about a millisecond each: use it for people, not every second. The
 * user needs the rights +scan and +hlen in addition to those of docs/acl.md; for string locks +scan and +getrange; for
 * HLK_LIST_EVERY and HLK_LIST_NUMBERS +scan, +type, +hlen and +getrange. Of string locks those are named that hasplock
 * holds, and for HLK_LIST_EVERY also those that it waits for: a token of other libraries looks like any other string.
 * Over several masters the call looks at the keys of each, and asks all of them about each name that it finds. It
 * reports each lock once, if a majority holds it or may hold it: a master that does not answer counts as holding it.
 * The user needs these rights on each master. A minority of the masters may be away. If more are, the call fails with
 * their status, after what it has reported so far.
 * HLK_OK (see `cursor`), HLK_INTERRUPTED, HLK_E_INVALID, faults as hlk_lock_query. Any thread. Blocks up to
 * reconnect_timeout_ms + reply_timeout_ms for each step. Over several masters it blocks up to node_timeout_ms for each
 * step, and as long for each master and name. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_list(hlk_client *client, struct hlk_list_opts *opts, hlk_list_fn *fn,
                                                   void *ctx);

/* Counted since open, except for the gauges. Each number is exact; they may be read an instant apart. */
struct hlk_counters {
    size_t   size;
    uint64_t held;              /* gauge: holds, nested ones not counted */
    uint64_t waiting;           /* gauge: threads and async calls that wait for a lock */
    uint64_t acquired;          /* first holds */
    uint64_t reentered;         /* nested holds */
    uint64_t busy, timeouts, interrupted;
    uint64_t lost;              /* expired, broken or unknown to the server while held */
    uint64_t released;
    uint64_t release_unsure;    /* blocking releases not answered in time; repeated in the background */
    uint64_t release_refused;   /* releases that the server refused; the lease runs out */
    uint64_t orphaned;          /* holds of threads that ended, of owners that were destroyed */
    uint64_t renewals;          /* of single leases */
    uint64_t renewals_late;     /* renewals more than half a lease after the previous one */
    uint64_t woken;             /* waits ended by a message or a grant */
    uint64_t woken_by_ttl;      /* waits ended by a poll: a message was lost, or the holder died */
    uint64_t commands, writes;  /* commands sent (up to 16 acquires and releases in one); writes they were sent in */
    uint64_t reconnects;
    uint64_t granted;           /* waits to which a release elsewhere gave the lock */
    uint64_t passed;            /* holds, and acquires of a semaphore, passed on within this process, without
                                 * a command; also reads of a hold that the process shares (rwlock.h) */
    uint64_t handed_back;       /* grants that arrived when nobody waited any more */
    uint64_t wait_us[32];       /* how long successful waits took: [i] counts those below 2^i us, not below 2^(i-1) */
    uint64_t connected;         /* gauge: servers whose connection for commands is up */
};

/* Fills the first out->size bytes of *out; set `out.size = sizeof out` before the call. HLK_OK, HLK_E_INVALID,
 * HLK_E_FORKED. Any thread, no I/O, never blocks. */
HLK_API enum hlk_status hlk_client_counters(const hlk_client *client, struct hlk_counters *out);

HLK_END_DECLS

#endif
