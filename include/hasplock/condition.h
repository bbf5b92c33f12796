/* condition.h - a condition variable over many processes: a holder of a lock gives it up, waits until another holder
 * has changed something and signals, and has the lock again.
 *
 *     consumers:   hlk_lock_acquire(lock, HLK_FOREVER);
 *                  while (is_empty())                                    always a loop, see below
 *                      if (hlk_condition_wait(filled, lock, HLK_FOREVER) != HLK_OK)
 *                          return hlk_last_error();
 *                  take_one();
 *                  hlk_lock_release(lock);
 *
 *     producer:    hlk_lock_acquire(lock, HLK_FOREVER);
 *                  put_one();
 *                  hlk_condition_signal(filled);                         or after the release
 *                  hlk_lock_release(lock);
 *
 * It is that of POSIX (pthread_cond_wait), and its rules are the same. A condition has no state: a signal while nobody
 * waits does nothing. A waiter counts before it gives up its lock. So who changes what it waits for while holding that
 * lock, and signals after the change, misses no waiter. A wait may end with HLK_OK although nobody has signalled: look
 * again, in a loop. `lock` is any hlk_lock, of any kind, client and server; all who wait for one thing use the same.
 *
 * Waiters are woken in the order in which they came. One whose client listens goes before one that is cut off for the
 * moment. A waiter has a lease, which its wait renews. If a waiter is signalled and dies before it holds its lock
 * again, or reaches no server, its signal goes to the next one within the lease and 5 s. One that dies after its wait
 * has returned has used its signal up. If the server loses the data, all waits end with HLK_OK within 5 s.
 *
 * Redisson has no such type. The name is of this type alone: its keys are `hasplock_condition:{name}` and
 * `hasplock_condition_leases:{name}`, which end 10 minutes after the last wait. */
#ifndef HASPLOCK_CONDITION_H
#define HASPLOCK_CONDITION_H

#include "lock.h"

HLK_BEGIN_DECLS

typedef struct hlk_condition hlk_condition;     /* opaque; cheap: a name and a lease. Any number of threads at once */

/* Makes a handle. `name`: 1 to 512 bytes, copied. `lease_ms`: of a waiter, 1000 to a day; 0: the client's watchdog_ms.
 * No I/O. Returns NULL on an error, see hlk_last_status(). `client` must outlive the use of the handle; it must not be
 * one with HLK_OPEN_NO_PUBSUB, nor of several masters (the locks may be). Calls on a NULL handle return HLK_E_INVALID.
 * Any thread. */
HLK_API HLK_MUST_USE hlk_condition *hlk_condition_create(hlk_client *client, const char *name, int64_t lease_ms);

/* Frees the handle. No call may be using it. No I/O. NULL is fine. */
HLK_API void hlk_condition_destroy(hlk_condition *condition);

/* The condition's name. Lives as long as the handle. NULL for NULL. Any thread. */
HLK_API const char *hlk_condition_name(const hlk_condition *condition);

/* Gives up `lock`, which the caller holds, waits for up to `wait_ms` (HLK_NOWAIT, HLK_FOREVER) for a signal, and
 * acquires it again: as often as it was held, and with the lease that its acquire asked for. wait_ms is for the signal;
 * for the lock it then waits as long as it takes. All holds that this holder has through the handle are given up. Other
 * locks stay held, so a signaller that needs one of them waits for the caller.
 * HLK_OK           woken; the lock is held as before
 * HLK_TIMEOUT      nobody signalled in all of wait_ms; the lock is held as before. HLK_BUSY: the same, wait_ms is 0
 * HLK_NOT_HOLDER   the caller does not hold the lock; nothing was changed
 * HLK_LOST         the lock was lost before it was given up. No release of it is due any more
 * HLK_NOT_REPLICATED   only with wait_replicas (client.h): of the acquire; the lock is not held
 * HLK_E_CONNECT    no server within reconnect_timeout_ms    HLK_E_UNSURE  only before the lock was given up
 * HLK_E_AUTH, SERVER, NOMEM, OS, INVALID, FORKED, CLOSED    see status.h
 * After any other status than OK, TIMEOUT and BUSY, hlk_lock_holds(lock) says whether the lock is held: as before, if
 * the wait did not begin; else not at all, and no release is due. A signal that the caller has got then goes to the
 * next waiter. A fenced lock has a new token after the wait, and each hold a new id.
 * Any thread but one in a log callback. Blocks. A pthread cancellation point while it waits: a thread that is cancelled
 * does not hold the lock. */
HLK_API HLK_MUST_USE enum hlk_status hlk_condition_wait(hlk_condition *condition, hlk_lock *lock, int64_t wait_ms);

/* The same with the options of lock.h: wait_ms; cancel and HLK_ACQUIRE_EINTR, which end the wait for the signal and the
 * one for the lock; lease_ms must be 0. Also returns HLK_INTERRUPTED: the lock is not held. */
HLK_API HLK_MUST_USE enum hlk_status hlk_condition_wait_with(hlk_condition *condition, hlk_lock *lock,
                                                             const struct hlk_acquire_opts *opts);

/* Wakes the first waiter, if there is one; or all of them. The caller need not hold a lock.
 * HLK_OK           done; also if nobody waited
 * HLK_E_UNSURE     sent and not answered: it may have been done
 * HLK_E_...        nothing was done, see status.h
 * A signal whose answer is lost is sent again, and may wake one waiter more. Any thread. Blocks for up to
 * reconnect_timeout_ms + reply_timeout_ms. */
HLK_API enum hlk_status hlk_condition_signal(hlk_condition *condition);
HLK_API enum hlk_status hlk_condition_broadcast(hlk_condition *condition);

/* Writes how many wait for a signal to *waiting. HLK_OK; HLK_E_...: *waiting is unchanged. Any thread. Blocks as
 * hlk_condition_signal. */
HLK_API HLK_MUST_USE enum hlk_status hlk_condition_waiting(hlk_condition *condition, unsigned *waiting);

HLK_END_DECLS

#endif
