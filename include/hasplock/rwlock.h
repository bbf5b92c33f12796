/* rwlock.h - a lock that many may hold to read, or one to write.
 *
 *     hlk_rwlock *rw = hlk_rwlock_create(client, "catalogue", NULL);
 *     hlk_lock *reading = hlk_rwlock_read(rw), *writing = hlk_rwlock_write(rw);
 *     if (hlk_lock_acquire(reading, 1000) == HLK_OK) {
 *         ...
 *         hlk_lock_release(reading);
 *     }
 *
 * Each half is a hlk_lock, and each call of lock.h, async.h, guard.h, multilock.h and inspect.h takes it: leases,
 * events, owners, cancel and counters are theirs. A holder (a thread, or the owner) holds each half as often as it
 * acquires it.
 *
 * Who holds it to write may acquire it to read too, at once. When it then releases the write half, it goes on reading,
 * and other readers come in (downgrade). Who holds it to read only cannot acquire it to write: HLK_DEADLOCK at once, as
 * it would wait for itself. Release the read half first.
 *
 * First come, first served: a reader that comes while a writer waits gets its turn after that writer, and a release
 * gives the lock to the next writer, or to all readers that wait before the next writer, at once. So a writer waits for
 * no more than the holds before it, and a reader for no more writers than were before it.
 *
 * While nobody else waits, readers of one process share a hold, which they enter and leave without a command: as
 * soon as several read within milliseconds, and for half a second at a time. To Redis and to Java they are one
 * reader. A writer that waits ends that: at once, or, if a message to that process is lost or the writer is Java's,
 * within half a second. It stays for 5 ms after the last reader has left: one try elsewhere can be HLK_BUSY for so
 * long. A loss, or a break, is one for all that share the hold. Readers with a lease_ms or max_hold_ms do not
 * share, nor do clients with wait_replicas or on a cluster. local_passes < 0 (client.h) switches it off.
 *
 * Each reader has its own lease, or that of the hold it shares. One that died blocks writers until its lease is
 * over, and no longer, whatever the leases of other readers; a renewal never shortens another reader's.
 *
 * The format in Redis is that of Redisson's RReadWriteLock: Java and C exclude each other on the same name. Redisson's
 * clients do not know the queue: a reader of theirs comes in before a writer of ours that waits. Never use one name for
 * a read/write lock and for another kind. */
#ifndef HASPLOCK_RWLOCK_H
#define HASPLOCK_RWLOCK_H

#include "lock.h"

HLK_BEGIN_DECLS

typedef struct hlk_rwlock hlk_rwlock;   /* opaque: its two halves */

/* Makes the halves for `name` (1 to 512 bytes). opts: as for hlk_lock_create, for both of them, except `kind`, which is
 * 0; NULL: defaults. Returns NULL on an error, see hlk_last_status(): HLK_E_INVALID, HLK_E_NOMEM, HLK_E_CLOSED. No
 * I/O. Any thread. (RedissonClient.getReadWriteLock) */
HLK_API HLK_MUST_USE hlk_rwlock *hlk_rwlock_create(hlk_client *client, const char *name,
                                                  const struct hlk_lock_opts *opts);

/* Destroys both halves, as hlk_lock_destroy: holds stay with their holders. NULL is fine. */
HLK_API void hlk_rwlock_destroy(hlk_rwlock *rwlock);

/* The halves. They belong to the rwlock: do not destroy them. NULL for NULL. No I/O. Any thread.
 * (RReadWriteLock.readLock, writeLock) */
HLK_API hlk_lock *hlk_rwlock_read(const hlk_rwlock *rwlock);
HLK_API hlk_lock *hlk_rwlock_write(const hlk_rwlock *rwlock);

HLK_END_DECLS

#endif
