/* lock.h - a reentrant lock that many processes share through Redis.
 *
 * The holder is the calling thread, or the owner that the handle was made with (owner.h). The same holder may acquire
 * the lock again (but see HLK_LOCK_NON_REENTRANT); it is held until as many releases. Waiters do not poll: a release
 * gives the lock to the first in the queue and wakes it. Threads and owners of one process get the lock in the order
 * in which they came, processes in the order of their first waits. A process may pass the lock on among its own
 * threads for up to 5 ms before that (local_passes, client.h).
 *
 * A held lock has a lease. Without lease_ms the watchdog renews it until the release. With lease_ms it runs out by
 * itself. A lease can be lost: the server lost its data, an operator broke the lock, or this process stood still or was
 * cut off. The loss is reported by an event (client.h), hlk_lock_lost_fd becomes readable, hlk_lock_left_ms is 0, and
 * acquire and release by that holder return HLK_LOST until each hold is released. A loss is never silent, and never
 * undone behind the holder's back. A holder that is cut off gets the event when hlk_lock_held_until has come. Another
 * holder is possible a tenth of the lease later (client.h), or after the last release by this one.
 *
 * HLK_LOCK_FAIR serves first come, first served: each waiting thread and owner has a position of its own in one queue,
 * shared by all processes and by Redisson's RFairLock. A waiter that has died costs nothing (one of Redisson: 5 s, any
 * number of them in a row); one that stands still costs 5 s. A fair lock is never passed on within a process without
 * Redis. Never use one name for a fair lock and for another kind.
 *
 * HLK_LOCK_SPIN is for servers and users without pub/sub (HLK_OPEN_NO_PUBSUB, client.h), and for locks that are held
 * for a few ms. Nothing tells a waiter that the lock is free: it asks again after pauses, each time by a command. Those
 * who wait by a plain lock of the same name come first; among processes that poll there is no order. A release wakes
 * plain waiters if the user may PUBLISH; else they find the lock by their polls, up to 5 s later.
 *
 * HLK_LOCK_STRING is the lock of many other libraries: SET name token NX PX ttl. Among clients of hasplock a release
 * gives the lock to the first in the queue, as above. Others have no queue and send no message: behind one of them the
 * first waiter asks again after pauses (backoff_min_ms), and the first one that asks when it is free has it. It has no
 * fencing tokens.
 *
 * HLK_LOCK_PERMIT: see permits.h. The format of the other kinds in Redis is that of Redisson's RLock: Java and C
 * exclude each other on the same name. Never use both names N and {N}: in that format they share the token counter, the
 * channel and a fair lock's queue.
 */
#ifndef HASPLOCK_LOCK_H
#define HASPLOCK_LOCK_H

#include "cancel.h"
#include "client.h"
#include "owner.h"

HLK_BEGIN_DECLS

typedef struct hlk_lock hlk_lock;       /* opaque; cheap: a name and how to lock it. Any number of threads at once */

enum hlk_lock_kind {
    HLK_LOCK_PLAIN  = 0,
    HLK_LOCK_FENCED = 1,        /* Each hold has a fencing token (hlk_lock_token). For plain locks of the same name, and
                                 * for Redisson's RFencedLock, it is the same lock. */
    HLK_LOCK_FAIR   = 2,        /* First come, first served, over all processes. */
    HLK_LOCK_SPIN   = 3,        /* A wait asks again after pauses (backoff_min_ms), without pub/sub. For plain locks of
                                 * the same name, and for Redisson's RSpinLock, it is the same lock. */
    HLK_LOCK_NON_REENTRANT = 4, /* An acquire by its holder returns HLK_DEADLOCK, and changes nothing. For plain locks
                                 * of the same name, and for Redisson's non-reentrant lock, it is the same lock. */
    HLK_LOCK_NON_REENTRANT_FAIR = 5,    /* The same, of a fair lock. */
    HLK_LOCK_STRING = 6,        /* A string with a random token: the same lock as those of redis-py's Lock and
                                 * bsm/redislock of the same name. Not reentrant. For all other kinds the name is taken
                                 * by something else, and so the other way round: HLK_E_SERVER. */
    HLK_LOCK_READ   = 7,        /* One half of a read/write lock each: rwlock.h. Many may hold it to read, or one to */
    HLK_LOCK_WRITE  = 8,        /* write. For Redisson's RReadWriteLock it is the same lock. */
    HLK_LOCK_PERMIT = 9         /* One of a number of permits: permits.h. As many hold one as there are permits. Not
                                 * reentrant: a holder has one at most. */
};

struct hlk_lock_opts {
    size_t        size;
    int           kind;          /* enum hlk_lock_kind */
    unsigned      flags;         /* HLK_LOCK_PERMIT: HLK_PERMITS_DROP, below. Else 0. */
    hlk_owner    *owner;         /* The holder. NULL: the calling thread. The lock keeps a reference. */
    int64_t       lease_ms;      /* Default lease of its acquires. 100 to a year: fixed. 0: the watchdog renews it.
                                  * Redis has the lock for so long. The hold counts for less, by 2 % and 2 ms for the
                                  * clocks, and by a tenth (at least 50 ms): for 4398 ms of 5000. */
    int64_t       max_hold_ms;   /* > 0: a hold lasts no longer than this; renewals end in time. It is lost then, and
                                  * another holder is possible as after any loss (held_until_at_ms in client.h). 0: no
                                  * limit. */
    hlk_event_fn *on_event;      /* Events of holds taken through this handle, before the client's own. NULL: none. */
    void         *event_ctx;     /* Passed to on_event. Borrowed until destroy has returned and the last such hold is
                                  * over; if a release after destroy returns HLK_LOST, also until on_event has run. */
    int64_t       token_floor;   /* HLK_LOCK_FENCED: tokens are larger than this, whatever the server remembers.
                                  * 0 to 2^52. */
    int           backoff_min_ms;/* Waits that poll: the first pause between two attempts. Each pause is twice as long
                                  * as the one before it, and up to 20 ms of random length are added. 1 to 60000. 0: 1
                                  * ms. */
    int           backoff_max_ms;/* Waits that poll: the longest pause. The same as backoff_min_ms: all have this
                                  * length. 1 to 60000. 0: 128 ms, or backoff_min_ms if that is more. */
    int64_t       permits;       /* HLK_LOCK_PERMIT: how many there are. An acquire sets their number to this if it is
                                  * another one. 1 to HLK_PERMITS_MAX. 0: as it was set (permits.h). */
};
#define HLK_PERMITS_DROP 0x1u    /* With `permits`: a release that leaves no permit held deletes the number that an
                                  * acquire has set, unless a client of Redisson's listens. */
#define HLK_LOCK_OPTS_INIT { sizeof(struct hlk_lock_opts), 0, 0, HLK_NULL, 0, 0, HLK_NULL, HLK_NULL, 0, 0, 0, 0 }

struct hlk_acquire_opts {
    size_t      size;
    int64_t     wait_ms;         /* HLK_NOWAIT, HLK_FOREVER, or so long. */
    int64_t     lease_ms;        /* 100 to a year: fixed. 0: the lock's default. HLK_RENEWED: the watchdog renews it. A
                                  * nested acquire never shortens the lease. */
    hlk_cancel *cancel;          /* Triggering it ends the wait. Borrowed during the call. NULL: none. */
    unsigned    flags;           /* HLK_ACQUIRE_... */
    unsigned    reserved;        /* Must be 0. */
};
#define HLK_ACQUIRE_OPTS_INIT { sizeof(struct hlk_acquire_opts), HLK_FOREVER, 0, HLK_NULL, 0, 0 }
#define HLK_ACQUIRE_EINTR 0x1u   /* A signal handler that runs while this thread sleeps ends the wait. One that runs
                                  * just before the sleep may not, as with pause(); trigger a cancel from it instead. */

/* Makes a handle. `name`: 1 to 512 bytes, copied. `opts`: NULL for the defaults. No I/O. Returns NULL on an error, see
 * hlk_last_status(). `client` must outlive the use of the handle. Calls on a NULL handle return HLK_E_INVALID, so
 * checking the acquire is enough. Any thread. */
HLK_API HLK_MUST_USE hlk_lock *hlk_lock_create(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);

/* Frees the handle. Holds belong to their holders and stay. No blocking call may be using it; pending async calls keep
 * what they need. No I/O. NULL is fine. Its on_event does not run for events of before. If it is running in another
 * thread, this waits for it. */
HLK_API void hlk_lock_destroy(hlk_lock *lock);

/* Acquires the lock, waiting for up to `wait_ms` (HLK_NOWAIT: not at all; HLK_FOREVER). A nested acquire under the
 * watchdog needs no round trip.
 * HLK_OK           held until hlk_lock_held_until(); one release is due
 * HLK_BUSY         wait_ms is 0, and somebody else holds the lock    HLK_TIMEOUT  not acquired in all of wait_ms
 * HLK_LOST         this holder lost an earlier hold, and has not released it yet
 * HLK_DEADLOCK     this holder has the lock, which is of a kind that is not reentrant; at once, nothing was sent
 * HLK_NOT_REPLICATED   only with wait_replicas (client.h): too few replicas acknowledged the hold; it is released
 * HLK_E_CONNECT    no server within reconnect_timeout_ms, or until the end of the wait if nothing was sent
 * HLK_E_AUTH, SERVER, NOMEM, OS, INVALID, FORKED, CLOSED    see status.h
 * The server has reply_timeout_ms to answer an HLK_NOWAIT, and wait_ms otherwise. If its answer takes longer, the
 * result is HLK_BUSY or HLK_TIMEOUT as well, and the error text says so. Never HLK_E_UNSURE: the library takes back
 * what was sent and not answered, and the caller has nothing to do.
 * Any thread but one in a log callback. Blocks. A pthread cancellation point while it waits. (RLock.tryLock, lock) */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms);

/* The same with all options. Also returns HLK_INTERRUPTED (cancelled, or EINTR): nothing is held, queued or renewed for
 * this call. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *opts);

/* Releases one hold. The last release frees the lock and gives it to the next waiter. Renewal ends before it is sent.
 * HLK_OK           one hold less. Also: the outcome of an earlier HLK_E_UNSURE or HLK_E_CONNECT is known now
 * HLK_NOT_HOLDER   nothing changed
 * HLK_LOST         the hold was lost before; the holder owes one release less. With the last one another holder is
 *                  possible
 * HLK_E_UNSURE, HLK_E_CONNECT   not answered. The release is repeated in the background until the lease is over. The
 *                  lock counts as not held, and is never renewed. Calling again waits for the outcome; acquiring again
 *                  first settles it. UNSURE also when the server was restarted, or replaced by another one, before it
 *                  answered: then it will never be known whether the hold was released or lost. It is reported as
 *                  HLK_EVENT_LOST, and calling again returns HLK_NOT_HOLDER
 * HLK_E_SERVER     the server refused each attempt; the error text has its words. Not held any more, never renewed. A
 *                  refusal that may pass (no replicas, read-only, ...) is treated like HLK_E_UNSURE; after another one
 *                  the lease runs out
 * HLK_E_AUTH       a right is missing. Not held any more, never renewed; the lease runs out
 * HLK_E_NOMEM, INVALID, FORKED  nothing was sent, held as before    HLK_E_CLOSED   close releases it
 * Blocks for up to reply_timeout_ms. Does not block when the loss is known, or when an outer hold remains (unless one
 * of them has a fixed lease: then the count is written to Redis). (RLock.unlock) */
HLK_API enum hlk_status hlk_lock_release(hlk_lock *lock);

/* Extends the lease of a held lock: Redis has it for `lease_ms` (100 to a year) from now on, or longer. The hold counts
 * for less, as after an acquire: hlk_lock_left_ms is 4398 after 5000. Never shortens it.
 * HLK_OK           the lease was extended
 * HLK_LOST         the hold is lost; also when no time was left (hlk_lock_left_ms): what is over is not revived
 * HLK_NOT_HOLDER, HLK_E_INVALID   nothing was changed. INVALID also for a lease beyond what max_hold_ms leaves
 * HLK_E_UNSURE, HLK_E_CONNECT     sent and not answered, or not sent: held for as long as before
 * HLK_E_AUTH, SERVER, NOMEM, OS, FORKED, CLOSED    the same, see status.h
 * Any thread that holds the lock. Blocks for up to reconnect_timeout_ms + reply_timeout_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_extend(hlk_lock *lock, int64_t lease_ms);

/* Takes the lock from any holder, and gives it to the next waiter. For operators. A holder whose
 * client listens gets HLK_EVENT_LOST at once: it was opened with HLK_OPEN_LISTEN (client.h), waits for a lock, or did
 * in the last 10 s. Any other holder learns of it by its next renewal. HLK_OK. HLK_NOT_HOLDER: nobody held the lock.
 * HLK_E_SERVER: also for a hash that is no lock; it stays. HLK_E_UNSURE: sent, not answered, not repeated.
 * HLK_E_CONNECT, AUTH, NOMEM, OS, INVALID, FORKED, CLOSED: see status.h. Blocks for up to reconnect_timeout_ms +
 * reply_timeout_ms. Over several masters the lock is broken at each of them. HLK_OK: a majority has answered.
 * HLK_E_UNSURE: fewer have, and at least one of them has done it, or may have. A holder in another process learns of it
 * by its next renewal, and waiters are woken as by a release. Blocks for up to node_timeout_ms for each master.
 * (RLock.forceUnlock) */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_break(hlk_lock *lock);

/* The same, if `holder` holds the lock: a holder as written in Redis, from hlk_lock_query, hlk_lock_hold_id or
 * `hasplock show`. The script on the server compares and takes in one step: a holder that came meanwhile keeps it.
 * NULL: from any holder. buf (may be NULL) gets, cut if it is longer, always terminated by NUL:
 * HLK_OK           the holder from which the lock was taken
 * HLK_NOT_HOLDER   another holder, which keeps it; "": nobody held it. Nothing was changed
 * and "" with any other status: see hlk_lock_break. HLK_E_INVALID also for a holder that has not 1 to 191 bytes.
 * Of the read half of a read/write lock only that reader's hold is taken. Of a string lock with a longer token the
 * first 191 bytes are compared; an empty token is "(empty)". Over several masters each master compares. HLK_OK: it was
 * taken on at least one, and no other holder has a majority. HLK_NOT_HOLDER: what a minority had of `holder` may have
 * been removed. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_break_holder(hlk_lock *lock, const char *holder, char *buf, size_t size);

/* Asks `holder` (as written in Redis, as of hlk_lock_break_holder) to release the lock, and changes nothing. Its client
 * gets HLK_EVENT_ASKED if it listens, as of hlk_lock_break. For operators: hasplock run ends its COMMAND then.
 * HLK_OK: a client got the message; whether it has the lock, and releases it, hlk_lock_query says. HLK_NOT_HOLDER: the
 * holder is not of this library, its client does not listen, or it is dead; always over several masters. HLK_E_UNSURE:
 * sent, not answered, not repeated. HLK_E_INVALID, CONNECT, AUTH, SERVER, NOMEM, OS, FORKED, CLOSED: see status.h.
 * Blocks for up to reconnect_timeout_ms + reply_timeout_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *holder);

/* Local, no I/O, any thread, nanoseconds. They concern the handle's holder. */
HLK_API int     hlk_lock_holds(const hlk_lock *lock);       /* Number of releases due, those of lost holds included:
                                                             * hlk_lock_left_ms says whether the lock is held. */
HLK_API int64_t hlk_lock_held_until(const hlk_lock *lock);  /* Lost from then on, by hlk_now_ms. 0: not held. */
HLK_API int64_t hlk_lock_left_ms(const hlk_lock *lock);     /* Time from now until then. 0: not held, lost, or over.
                                                             * Check it before each effect on the outside world. */

/* The fencing token of the hold, > 0. It is larger than that of every earlier hold of this lock through any fenced
 * handle, in any process, Java's included, and the same for nested holds. Write it with each effect, and let the
 * resource refuse a token smaller than the largest it has seen: that stops a holder that lost the lock and does not
 * know it yet. 0: not held, lost, or not taken as a fenced lock. Tokens may skip numbers. Local, no I/O, any thread.
 * (RFencedLock.getToken, lockAndGetToken) */
HLK_API int64_t hlk_lock_token(const hlk_lock *lock);

/* Copies the hold as written in Redis, "<client id>:<hold id>", to buf: cut if it is longer, always terminated by NUL;
 * "" when the handle's holder does not hold the lock. Holds that were passed on within this process (local_passes) have
 * the same id, one after the other. HLK_OK, HLK_NOT_HOLDER, HLK_LOST, HLK_E_INVALID, FORKED, CLOSED. Local, any
 * thread. */
HLK_API enum hlk_status hlk_lock_hold_id(const hlk_lock *lock, char *buf, size_t size);

/* The lock's name. Lives as long as the handle. NULL for NULL. Any thread. */
HLK_API const char *hlk_lock_name(const hlk_lock *lock);

/* A descriptor for poll. It turns readable when a hold taken through this handle is lost, until that hold is released.
 * It belongs to the lock and is made by the first call: do not read or close it. -1: see hlk_last_status(). */
HLK_API int hlk_lock_lost_fd(hlk_lock *lock);

HLK_END_DECLS

#endif
