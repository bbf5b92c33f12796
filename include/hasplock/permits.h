/* permits.h - permits that have a lease each: at most so many do something at once, and the permit of a process that
 * dies comes back (Redisson's RPermitExpirableSemaphore).
 *
 *     struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
 *     opts.permits = 8;
 *     hlk_permits *jobs = hlk_permits_create(client, "jobs", &opts);
 *     hlk_lock *permit = hlk_permits_permit(jobs);
 *     if (hlk_lock_acquire(permit, 5000) == HLK_OK) {
 *         ...
 *         hlk_lock_release(permit);
 *     }
 *
 * A permit is a hlk_lock that as many holders may have at once as there are permits. Each call of lock.h, async.h,
 * guard.h and inspect.h takes it, except hlk_lock_break. Deadline, cancel, lease, events, owners and counters work as
 * for any lock. Without lease_ms the watchdog renews a permit until its release. With lease_ms it comes back by itself.
 * The loss of a permit is reported as that of any lock: by event, descriptor and status.
 *
 * The number of permits is `permits` of the options, or is set by the calls below. With `permits` each acquire sets the
 * number if it is another one. So it is there again after the server has lost its data. Two programs may name different
 * numbers: each gets a permit if fewer than its own number are held. A number that no acquire has set, and of which
 * nobody holds a permit, may be a hlk_semaphore's or a counter: it stays, and the acquire is HLK_E_SERVER.
 *
 * The number stays in Redis when nobody needs it. With HLK_PERMITS_DROP in `flags`, a release that leaves no permit
 * held deletes the number that an acquire has set; it does not while a client of Redisson's listens. Then the next
 * acquire must name the number: one that does not waits, and so does Redisson's, until somebody sets it. So use it for
 * names that Java does not acquire. A number that hlk_permits_try_set or Redisson's trySetPermits has made always
 * stays. The permit of a holder that died comes back with a later acquire of that name.
 *
 * A holder (a thread, or the owner) has one permit at most: a second acquire is HLK_DEADLOCK. Use an owner for each
 * permit where a thread needs several.
 *
 * First come, first served among clients of hasplock, over all processes. Before that a process may pass a permit on
 * among its own holders for up to 5 ms (local_passes, client.h), if the watchdog renews its lease. Redisson's clients
 * know no queue. One in yield_every releases (client.h) leaves a free permit to them for a moment.
 *
 * The id of a permit is its hold (hlk_lock_hold_id); Redisson's clients see the same bytes in hex. A permit that is
 * passed on keeps its id. So none is passed on whose holder has asked for the id, has queried the permit, or was told
 * of it by an event. An id that others read in Redis may belong to another holder of the same process a moment later.
 *
 * Leases end by the server's clock. A client of Redisson's compares that end with the clock of its own host: one that
 * is fast takes a permit back early by as much, and the holder learns of it by its next renewal or release.
 *
 * Never use one name for permits and for anything else. */
#ifndef HASPLOCK_PERMITS_H
#define HASPLOCK_PERMITS_H

#include "lock.h"
#include "semaphore.h"

HLK_BEGIN_DECLS

typedef struct hlk_permits hlk_permits;     /* opaque. Any number of threads at once */

/* Makes a handle on the permits `name` (1 to 512 bytes), which need not exist in Redis. opts: as for hlk_lock_create,
 * for the permit, except `kind`, which is 0; NULL: defaults. No I/O. Any thread. NULL: an error, see hlk_last_status():
 * HLK_E_INVALID (also for a client without pub/sub, or one of independent masters), HLK_E_NOMEM, HLK_E_CLOSED,
 * HLK_E_FORKED. (RedissonClient.getPermitExpirableSemaphore) */
HLK_API HLK_MUST_USE hlk_permits *hlk_permits_create(hlk_client *client, const char *name,
                                                    const struct hlk_lock_opts *opts);

/* Destroys it and its permit, as hlk_lock_destroy: permits stay with their holders. NULL is fine. */
HLK_API void hlk_permits_destroy(hlk_permits *permits);

/* The permit. It belongs to `permits`: do not destroy it. Others are made by hlk_lock_create with HLK_LOCK_PERMIT. NULL
 * for NULL. No I/O. Any thread. (acquire, tryAcquire, release, updateLeaseTime) */
HLK_API hlk_lock *hlk_permits_permit(const hlk_permits *permits);

/* Sets how many there are: `number` (0 to HLK_PERMITS_MAX), if it was never set. All are free.
 * HLK_OK           set
 * HLK_BUSY         it was set already; nothing was changed
 * HLK_E_UNSURE     sent, and not answered in time: set, or not
 * HLK_E_SERVER     under that name there is something else; nothing was changed
 * HLK_E_...        other faults; nothing was changed
 * Any thread. Blocks for up to reconnect_timeout_ms + reply_timeout_ms, like all that follow. (trySetPermits) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_try_set(hlk_permits *permits, int64_t number);

/* Sets how many there are, those that are held included: `number` (0 to HLK_PERMITS_MAX). If more are held nobody loses
 * one: none is free until enough have come back. Repeated until it is answered. HLK_E_UNSURE: it may have happened.
 * (setPermits) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_set(hlk_permits *permits, int64_t number);

/* Deletes their number, if no permit is held. An acquire that names their number sets it again; others wait until
 * somebody sets it.
 * HLK_OK           deleted
 * HLK_BUSY         permits are held; nothing was changed
 * HLK_NOT_HOLDER   there was no number; nothing was changed
 * HLK_E_UNSURE     sent, and not answered in time; it is not repeated. HLK_E_... other faults; nothing was changed
 * (RPermitExpirableSemaphore.delete, which also deletes permits that are held) */
HLK_API enum hlk_status hlk_permits_delete(hlk_permits *permits);

/* Adds `number` permits (not 0; negative: takes away). HLK_E_UNSURE: it may have happened; it is not repeated.
 * (addPermits) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_add(hlk_permits *permits, int64_t number);

struct hlk_permits_state {
    size_t  size;
    int64_t free;               /* how many can be acquired; negative: so many more are held than there are */
    int64_t held;
    int64_t waiting;            /* threads and owners in the queue; Redisson's waiters are in none */
};
#define HLK_PERMITS_STATE_INIT { sizeof(struct hlk_permits_state), 0, 0, 0 }

/* Counts them; those whose lease is over are free. *out is unchanged after a fault. Only a hint.
 * (availablePermits, acquiredPermits; getPermits is the sum of both) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_query(hlk_permits *permits, struct hlk_permits_state *out);

/* --- permits that are named by id, and watched by nobody: acquired here, and given back anywhere, Java's included */

struct hlk_taken_permit {
    size_t  size;
    char    id[192];            /* terminated by NUL */
    int64_t until_ms;           /* when the lease is over at the latest, by hlk_now_ms */
};
#define HLK_TAKEN_PERMIT_INIT { sizeof(struct hlk_taken_permit), { 0 }, 0 }

/* Takes a permit for `lease_ms` (100 to a year) within `wait_ms` (HLK_NOWAIT, HLK_FOREVER). It is not renewed, and no
 * loss is reported: it comes back by hlk_permits_give_back, or when its lease is over. A thread may take any number.
 * HLK_OK           *out is the permit
 * HLK_BUSY, HLK_TIMEOUT    one try; all of wait_ms has passed
 * HLK_LOST         its lease was over before this call returned
 * HLK_NOT_REPLICATED, HLK_E_...    as hlk_lock_acquire
 * Any other than HLK_OK: nothing is taken. What a command without an answer has taken is given back in the background,
 * and comes back at the latest when its lease is over.
 * Any thread. Blocks. A pthread cancellation point, which takes nothing. (acquire(leaseTime), tryAcquire) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_take(hlk_permits *permits, int64_t lease_ms, int64_t wait_ms,
                                                     struct hlk_taken_permit *out);

/* Gives back the permit `id`: one of hlk_permits_take, the hold of a permit (hlk_lock_hold_id), whose holder then finds
 * it lost, or 32 hex digits of Redisson's.
 * HLK_OK           it is free
 * HLK_NOT_HOLDER   nobody has it: its lease is over, or it was given back before
 * HLK_E_UNSURE     sent, and not answered in time; call it again: HLK_NOT_HOLDER then means that it is free
 * HLK_E_INVALID    also for what is no id. HLK_E_...    other faults; nothing was changed
 * Any thread. Blocks for up to reconnect_timeout_ms + reply_timeout_ms, like the next two. (tryRelease) */
HLK_API enum hlk_status hlk_permits_give_back(hlk_permits *permits, const char *id);

/* Its lease ends no sooner than `lease_ms` (100 to a year) from now. HLK_OK, HLK_NOT_HOLDER (nothing was changed),
 * HLK_E_INVALID, faults. It is repeated until it is answered. (updateLeaseTime) */
HLK_API HLK_MUST_USE enum hlk_status hlk_permits_extend(hlk_permits *permits, const char *id, int64_t lease_ms);

/* *left_ms: what is left of its lease; -1: it does not end (Redisson's); 0: nobody has it. (getLeaseTime) */
HLK_API enum hlk_status hlk_permits_left_ms(hlk_permits *permits, const char *id, int64_t *left_ms);

HLK_END_DECLS

#endif
