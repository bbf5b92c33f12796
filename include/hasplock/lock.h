/* lock.h - a reentrant lock that many processes share through Redis.
 *
 * Who holds it: the calling thread, or the owner the handle was made with (owner.h). The same holder may acquire again;
 * it is held until as many releases. Waiters are woken, not polling: whoever releases gives the lock to the first in
 * line. Threads and owners of one process take their turns in the order they came, processes in the order of their
 * first waits; a process may pass the lock among its own for up to 5 ms before (local_passes, client.h).
 *
 * A held lock has a lease. Without lease_ms the watchdog renews it until release; with it, it runs out by itself.
 * A lease can be lost: the server forgot it, an operator broke it, this process stood still or was cut off. Then events
 * tell (client.h), hlk_lock_lost_fd becomes readable, hlk_lock_left_ms is 0, and acquire and release by that holder
 * answer HLK_LOST until each hold is released. Losing is never silent, and never undone behind the holder's back. Who
 * is cut off is told when hlk_lock_held_until has come, before another holder is possible.
 *
 * HLK_LOCK_FAIR serves first come, first served: each thread and owner that waits has a place of its own in one queue
 * with those of all processes and of Redisson's RFairLock. Waiters that have died cost the next 1 s (Java's: 5 s), any
 * number of them in a row no more; one that stands still costs 10 s (docs/protocol.md, 11). It costs more than a plain
 * lock. Never use one name for both kinds.
 *
 * The format in Redis is Redisson's RLock: Java and C exclude each other on the same name. Never use both names N and
 * {N}: by that format they share the counter of tokens, the channel and a fair lock's queue.
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
    HLK_LOCK_FENCED = 1,        /* with a token for each hold (hlk_lock_token). To all others it is the plain lock of
                                 * that name, and Redisson's RFencedLock */
    HLK_LOCK_FAIR   = 2         /* first come, first served, over all processes */
};

struct hlk_lock_opts {
    size_t        size;
    int           kind;          /* enum hlk_lock_kind */
    hlk_owner    *owner;         /* who holds; NULL: the calling thread. The lock keeps a reference */
    int64_t       lease_ms;      /* default of its acquires: >= 100 fixed, up to a year; 0: the watchdog renews */
    int64_t       max_hold_ms;   /* > 0: no hold lasts longer, its renewals end in time for that; 0: no cap */
    hlk_event_fn *on_event;      /* of holds taken through this handle, before the client's own; NULL: none */
    void         *event_ctx;     /* borrowed until destroy has returned and the last such hold is over; of one whose
                                  * release answers HLK_LOST after the destroy also until on_event was told */
    int64_t       token_floor;   /* tokens are larger than this, whatever the server remembers; 0 to 2^52. Ignored but
                                  * for HLK_LOCK_FENCED */
};
#define HLK_LOCK_OPTS_INIT { sizeof(struct hlk_lock_opts), 0, HLK_NULL, 0, 0, HLK_NULL, HLK_NULL, 0 }

struct hlk_acquire_opts {
    size_t      size;
    int64_t     wait_ms;         /* 0: one try; < 0: no limit */
    int64_t     lease_ms;        /* >= 100: fixed, up to a year; 0: the lock's; < 0: watchdog. Re-entry never
                                  * shortens */
    hlk_cancel *cancel;          /* its trigger ends the wait; borrowed during the call; NULL: none */
    unsigned    flags;           /* HLK_ACQUIRE_... */
};
#define HLK_ACQUIRE_OPTS_INIT { sizeof(struct hlk_acquire_opts), -1, 0, HLK_NULL, 0 }
#define HLK_ACQUIRE_EINTR 0x1u   /* a signal handler that runs while this thread is parked ends the wait; one that runs
                                  * just before may slip past, as with pause(): then trigger a cancel from it */

/* `name`: 1 to 512 bytes, copied. No I/O. NULL on a fault, see hlk_last_status(). `client` must outlive its use. Calls
 * given a NULL lock answer HLK_E_INVALID, so the check of acquire is enough. Any thread. */
HLK_API HLK_MUST_USE hlk_lock *hlk_lock_create(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);

/* Frees the handle; holds are the holder's and stay. No blocking call may have it any more; pending async calls keep
 * what they need. No I/O. NULL is fine. Its on_event is not told what happened before; where it runs just now, in
 * another thread, this waits for it. */
HLK_API void hlk_lock_destroy(hlk_lock *lock);

/* Acquires, waiting up to `wait_ms` (HLK_NOWAIT, HLK_FOREVER). Re-entry under the watchdog needs no round trip.
 * HLK_OK           held until hlk_lock_held_until(); one release is due
 * HLK_BUSY         (wait 0)    HLK_TIMEOUT  (wait > 0, after all of it)
 * HLK_LOST         this holder lost an earlier hold that it has not released yet
 * HLK_E_CONNECT, AUTH, SERVER, UNSURE, NOMEM, OS, INVALID, FORKED, CLOSED    see status.h
 * HLK_NOWAIT gives the server reply_ms to answer; a shorter wait_ms > 0 gives it no more than that, and ends with
 * HLK_E_UNSURE when the first answer takes longer: nothing to do, what was sent is taken back.
 * Any thread but one in a log callback. Blocks; a pthread cancellation point while it waits. (RLock.tryLock, lock) */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms);

/* The same with everything. Also HLK_INTERRUPTED: nothing is held, queued or renewed for this call any more. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *opts);

/* Gives one hold back; the last one frees the lock and lets the next waiter have it. Renewal ends before it is sent.
 * HLK_OK           one hold less; or, after HLK_E_UNSURE or HLK_E_CONNECT, now it is known to be done
 * HLK_NOT_HOLDER   nothing changed
 * HLK_LOST         the hold was lost; it is off the holder's account
 * HLK_E_UNSURE, HLK_E_CONNECT   not answered: repeated in the background until the lease is over; not held any more,
 *                  never renewed. Calling again waits for that outcome; acquiring again first settles it
 * HLK_E_AUTH, HLK_E_SERVER      the server refused: not held any more, never renewed, and its lease runs out
 * HLK_E_NOMEM, INVALID, FORKED  nothing was sent, held as before    HLK_E_CLOSED   close releases it
 * Blocks up to reply_ms; not at all when the loss is known, or an outer hold remains (unless one of them has a fixed
 * lease: then Redis has the count too). (RLock.unlock) */
HLK_API enum hlk_status hlk_lock_release(hlk_lock *lock);

/* Makes a held lock's lease end no sooner than `lease_ms`, 100 up to a year, from now; shortens nothing.
 * HLK_OK           so it is
 * HLK_LOST         the hold is lost; also when no time was left (hlk_lock_left_ms): what is over is not revived
 * HLK_NOT_HOLDER, HLK_E_INVALID   nothing was changed; INVALID also for a lease beyond what max_hold_ms leaves
 * HLK_E_UNSURE, HLK_E_CONNECT     sent and not answered, or not sent: held for as long as before
 * HLK_E_AUTH, SERVER, NOMEM, OS, FORKED, CLOSED    the same, see status.h
 * Any thread that holds. Blocks up to patience_ms + reply_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_extend(hlk_lock *lock, int64_t lease_ms);

/* Takes the lock from whoever holds it and lets the next waiter have it. For operators: a holder whose process waits
 * for a lock, or did in the last 10 s, is told at once, another one, or that of a fair lock, learns of it by its next
 * renewal. HLK_OK; HLK_NOT_HOLDER: nobody held it; HLK_E_SERVER also of a hash that is no lock, which stays;
 * HLK_E_UNSURE: sent, not answered, and not repeated; HLK_E_CONNECT, AUTH, NOMEM, OS, INVALID, FORKED, CLOSED.
 * Blocks up to patience_ms + reply_ms. (RLock.forceUnlock) */
HLK_API HLK_MUST_USE enum hlk_status hlk_lock_break(hlk_lock *lock);

/* Local, no I/O, any thread, nanoseconds. For the handle's holder: */
HLK_API int     hlk_lock_holds(const hlk_lock *lock);       /* releases due; 0: does not hold, or no longer */
HLK_API int64_t hlk_lock_held_until(const hlk_lock *lock);  /* lost from then on, by hlk_now_ms; 0: not held */
HLK_API int64_t hlk_lock_left_ms(const hlk_lock *lock);     /* from now till then; 0: not held, lost, over. Ask it
                                                             * before each effect on the outside world */

/* The hold's fencing token, > 0: larger than that of every earlier hold of this lock through any fenced handle, in any
 * process, Java's too; the same for nested holds. Write it with each effect, and let the resource refuse a smaller one
 * than it has seen: that stops a holder that lost the lock and does not know it yet. 0: not held, or lost, or not taken
 * as a fenced lock. Tokens may skip numbers. Local, no I/O, any thread. (RFencedLock.getToken, lockAndGetToken) */
HLK_API int64_t hlk_lock_token(const hlk_lock *lock);

/* The hold as written in Redis, "<client id>:<hold id>", copied to buf (cut if longer, always ended by NUL); "" when
 * the handle's holder does not hold it. Holds that were passed on within this process (local_passes) have the same, one
 * after the other. HLK_OK, HLK_NOT_HOLDER, HLK_LOST, HLK_E_INVALID, FORKED, CLOSED. Local, any thread. */
HLK_API enum hlk_status hlk_lock_hold_id(const hlk_lock *lock, char *buf, size_t size);

/* The name it was made with. Lives as long as the handle; NULL for NULL. Any thread. */
HLK_API const char *hlk_lock_name(const hlk_lock *lock);

/* A descriptor for poll that turns readable when a hold taken through this handle is lost, until that is released. The
 * lock's, made at the first call: do not read or close it. -1: see hlk_last_status(). */
HLK_API int hlk_lock_lost_fd(hlk_lock *lock);

HLK_END_DECLS

#endif
