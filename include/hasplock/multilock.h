/* multilock.h - several locks as one: all are held, or none.
 *
 *     hlk_lock *accounts[] = { from, to };
 *     hlk_lock *transfer = hlk_lock_create_multilock(accounts, 2, NULL);
 *     if (hlk_lock_acquire(transfer, 1000) == HLK_OK) {
 *         ...
 *         hlk_lock_release(transfer);
 *     }
 *
 * A multilock is a hlk_lock. It has no state of its own: it is held while all of its members are, each by the holder of
 * the handle that was given. The members may be of any kind, of several clients, and held by threads or owners. Only
 * the members are written to Redis. So a member excludes everybody who uses the same lock alone, by hasplock or by
 * Redisson, or in another multilock. Redisson's is RedissonMultiLock.
 *
 * An acquire first tries all members at once. If all are free, it costs one round trip. Otherwise it keeps those that
 * come before the first busy one in the order of names, gives the others back, waits for the busy one, and tries the
 * rest again. All processes have the same order, so multilocks do not wait for each other: one of them always gets all
 * of its members. Redisson's clients have no such order, nor have callers who hold one of the locks already. So a
 * caller that holds some members waits for the next one for 1 to 1.5 s only. Then it gives all back and waits for that
 * one while it holds nothing, with a new place in its queue. When it has that one, it tries the others once. If one of
 * them is busy, it gives all back and begins again. A caller that holds a member and waits for an earlier one in the
 * order of names waits for up to 1.5 s for each multilock that is before it in the queue of that one.
 *
 * HLK_NOWAIT tries the members one after the other in that order, by a round trip each. If several callers try the same
 * members at the same time, one of them gets all.
 *
 * What calls of lock.h mean for a multilock:
 * acquire          as for one lock. An error text names the member. HLK_LOST: an earlier hold of a member was lost, and
 *                  is not released yet. If a member is lost while others are waited for, all are given back, and the
 *                  acquire begins again. A fixed lease that has become shorter meanwhile is extended
 * release          each member, even if the release of another one fails; one round trip for all. HLK_OK: each has one
 *                  hold less. HLK_LOST: at least one of them was lost before. Otherwise the first outcome, in the order
 *                  of names, that was not HLK_OK. After HLK_E_UNSURE the release is repeated in the background. The
 *                  next one returns the outcome for the members that were not answered, and HLK_OK for the others. A
 *                  release by a member's own handle returns its outcome
 * extend           each member, by a round trip each, until one is not extended. That outcome is returned; the members
 *                  before it are extended
 * holds, held_until, left_ms    those of the member that has the least
 * lost_fd, on_event             of any member: an event names the member
 * name             the members' names with + between, up to 512 bytes
 * calls of async.h   need an owner for each member, and one client for all: else HLK_E_INVALID. They do not extend a
 *                  fixed lease that has become shorter if the member is not reentrant
 * hold_id, break, query, waiters    HLK_E_INVALID. hlk_lock_token: 0. Use a member's own handle */
#ifndef HASPLOCK_MULTILOCK_H
#define HASPLOCK_MULTILOCK_H

#include "lock.h"

HLK_BEGIN_DECLS

#define HLK_MULTILOCK_MAX 64            /* members */

/* Makes a lock of `count` (1 to HLK_MULTILOCK_MAX) locks. The handles are needed during the call only; their owners and
 * their other options are kept. `opts`: NULL, or lease_ms (0: each member's own), on_event and event_ctx; all else is
 * the members', and must be 0. Refused, with HLK_E_INVALID: NULL, a multilock, and two handles of one name and client.
 * No I/O. Returns NULL on an error, see hlk_last_status(). The members' clients must outlive the use of the handle. Any
 * thread. */
HLK_API HLK_MUST_USE hlk_lock *hlk_lock_create_multilock(hlk_lock *const *members, size_t count,
                                                         const struct hlk_lock_opts *opts);

HLK_END_DECLS

#endif
