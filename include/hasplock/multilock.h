/* multilock.h - several locks, all or none.
 *
 *     hlk_lock *accounts[] = { from, to };
 *     hlk_multilock *transfer = hlk_multilock_create(accounts, 2);
 *     if (hlk_multilock_acquire(transfer, 1000) == HLK_OK) {
 *         ...
 *         hlk_multilock_release(transfer);
 *     }
 *
 * The members may be of any kind, of several clients, and held by threads or owners: each is acquired and released as
 * by lock.h, for the holder of its handle. Nothing else is written to Redis, so that a member excludes everybody who
 * uses the same lock alone, by hasplock or by Redisson (RedissonMultiLock).
 *
 * All processes acquire members in the order of their names, whatever the order of the array. So two multilocks do not
 * wait for each other for ever. Redisson's clients, and callers who hold one of the locks already, keep no such order.
 * That is why a caller that holds some members waits for the next one for 1 to 1.5 s only, gives all of them back, and
 * waits for that one first. Its place in the queue of that member is then a new one.
 *
 * An acquire costs a round trip for each member, and so does a release. */
#ifndef HASPLOCK_MULTILOCK_H
#define HASPLOCK_MULTILOCK_H

#include "lock.h"

HLK_BEGIN_DECLS

#define HLK_MULTILOCK_MAX 64            /* members */

typedef struct hlk_multilock hlk_multilock;     /* opaque: a sorted list of handles. Any number of threads at once */

/* Makes a list of `count` (1 to HLK_MULTILOCK_MAX) handles, which are borrowed: destroy it before them. Refused: NULL,
 * and two handles of one name and client. Returns NULL on an error, see hlk_last_status(). No I/O. Any
 * thread. */
HLK_API HLK_MUST_USE hlk_multilock *hlk_multilock_create(hlk_lock *const *members, size_t count);

/* Frees the list. Holds stay with their holders. NULL is fine. */
HLK_API void hlk_multilock_destroy(hlk_multilock *multilock);

/* Acquires all members within `wait_ms` (HLK_NOWAIT: if all are free; HLK_FOREVER), or none.
 * HLK_OK           each is held once more; one release of the multilock is due
 * HLK_BUSY, HLK_TIMEOUT, HLK_LOST, HLK_DEADLOCK, HLK_NOT_REPLICATED, HLK_E_...    as hlk_lock_acquire, of one member,
 *                  which the error text names. Those that were acquired before it are released: what was not answered
 *                  is repeated in the background, as by hlk_lock_release. This does not wait for it
 * A member whose hold is lost while others are waited for is no HLK_LOST: all are given back, and it begins again. The
 * leases are complete when it returns: a fixed lease that has become shorter meanwhile is extended.
 * Any thread but one in a log callback. Blocks. A pthread cancellation point, which releases what was acquired.
 * (RedissonMultiLock.tryLock, lock) */
HLK_API HLK_MUST_USE enum hlk_status hlk_multilock_acquire(hlk_multilock *multilock, int64_t wait_ms);

/* The same with all options of lock.h, which are those of each member's acquire; wait_ms is for all of them together.
 * Also returns HLK_INTERRUPTED. */
HLK_API HLK_MUST_USE enum hlk_status hlk_multilock_acquire_with(hlk_multilock *multilock,
                                                               const struct hlk_acquire_opts *opts);

/* Releases one hold of each member, in the reverse order, whatever happens to one of them.
 * HLK_OK           each has one hold less
 * HLK_LOST         at least one of them was lost before
 * HLK_NOT_HOLDER, HLK_E_...    as hlk_lock_release: of the first member, in the order of names, that was not OK
 * Blocks for up to reply_timeout_ms for each member. */
HLK_API enum hlk_status hlk_multilock_release(hlk_multilock *multilock);

/* Local, no I/O, any thread. The moment by hlk_now_ms from which one of the members counts as lost; the time from now
 * until then. 0: one of them is not held by its holder, or lost, or over. */
HLK_API int64_t hlk_multilock_held_until(const hlk_multilock *multilock);
HLK_API int64_t hlk_multilock_left_ms(const hlk_multilock *multilock);

HLK_END_DECLS

#endif
