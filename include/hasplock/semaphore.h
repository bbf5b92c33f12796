/* semaphore.h - a number of permits, shared by processes: at most so many do something at once (Redisson's RSemaphore).
 *
 *     hlk_semaphore *jobs = hlk_semaphore_create(client, "jobs");
 *     hlk_semaphore_try_set(jobs, 8, 0);                          once; who comes later changes nothing
 *     if (hlk_semaphore_acquire(jobs, 1, 5000) == HLK_OK) {
 *         ...
 *         hlk_semaphore_release(jobs, 1);
 *     }
 *
 * The number of free permits is one key in Redis. A permit has no holder and no lease: anybody may release, also what
 * was never acquired, and the permits of a process that dies are gone for good. Where that matters use a lock.
 *
 * A semaphore that does not exist has no permits: an acquire waits until somebody makes it.
 *
 * Waiters of hasplock stand in a queue in Redis, and get permits in its order, n at once. One that needs more than are
 * free keeps those behind it waiting, so it is not overtaken for ever. A process may pass permits on among its own
 * calls for up to 5 ms before that (local_passes, client.h). Redisson's clients know no queue, and take whatever is
 * free; one in yield_every releases (client.h) leaves it to them for a moment.
 *
 * An acquire takes its permits once, and a release gives them back once, even if connections break and commands are
 * sent again: each is noted in Redis until its client has the answer, for 10 minutes at most. So a command that was
 * sent and not answered is not sent again 8 minutes later. Then nobody can tell whether it ran: permits may be missing
 * until hlk_semaphore_add adds them, and are never too many. */
#ifndef HASPLOCK_SEMAPHORE_H
#define HASPLOCK_SEMAPHORE_H

#include "lock.h"

HLK_BEGIN_DECLS

#define HLK_PERMITS_MAX 2147483647      /* 2^31 - 1: of a call, and of a semaphore */

typedef struct hlk_semaphore hlk_semaphore;     /* opaque. Any number of threads at once */

/* Makes a handle on the semaphore `name` (1 to 512 bytes). It need not exist in Redis. No I/O. Any thread. NULL: an
 * error, see hlk_last_status(): HLK_E_INVALID (the name; a client without pub/sub, or one of independent masters),
 * HLK_E_NOMEM, HLK_E_CLOSED, HLK_E_FORKED. */
HLK_API HLK_MUST_USE hlk_semaphore *hlk_semaphore_create(hlk_client *client, const char *name);

/* Frees the handle, when no call uses it. Nothing is released. NULL is fine. Before hlk_client_close. */
HLK_API void hlk_semaphore_destroy(hlk_semaphore *semaphore);

/* The name. Owned by the handle. NULL for NULL. */
HLK_API const char *hlk_semaphore_name(const hlk_semaphore *semaphore);

/* Takes `permits` (1 to HLK_PERMITS_MAX) within `wait_ms` (HLK_NOWAIT: one try; HLK_FOREVER), all or none.
 * HLK_OK           taken
 * HLK_BUSY         one try: too few are free, or others wait for them. Or no answer came within reply_timeout_ms
 * HLK_TIMEOUT      all of wait_ms has passed
 * HLK_NOT_REPLICATED   taken, but not confirmed by wait_replicas replicas; given back
 * HLK_E_UNSURE     sent, and no server could be asked for 8 minutes after that. If it has taken them nobody has them
 * HLK_E_...        faults. HLK_E_SERVER: for example, there is no semaphore under that name but something else
 * Any other than HLK_OK: the caller has nothing. What may have been taken by a command that was not answered is given
 * back in the background, for as long as the client is open. If that takes more than 8 minutes it may be too late, and
 * a warning is logged.
 * Any thread but one in a log callback. Blocks. A pthread cancellation point, which takes nothing. */
HLK_API HLK_MUST_USE enum hlk_status hlk_semaphore_acquire(hlk_semaphore *semaphore, int64_t permits, int64_t wait_ms);

/* The same with options of lock.h: wait_ms, cancel and flags. lease_ms must be 0. Also returns HLK_INTERRUPTED. */
HLK_API HLK_MUST_USE enum hlk_status hlk_semaphore_acquire_with(hlk_semaphore *semaphore, int64_t permits,
                                                               const struct hlk_acquire_opts *opts);

/* `status` is what the blocking call would have returned; hlk_last_error() explains it during the callback, which may
 * destroy `semaphore`. Runs as a hlk_done_fn does (async.h). */
typedef void hlk_semaphore_done_fn(hlk_semaphore *semaphore, enum hlk_status status, void *ctx);

/* Starts hlk_semaphore_acquire_with and returns. `opts` as for hlk_lock_acquire_async. Any number of calls at once, in
 * the same line as blocking ones; needs no owner. `semaphore` is only passed on to `done`, which must not be NULL. Any
 * thread. Never waits for Redis. Permits whose completion says HLK_OK are the caller's, also while the client is being
 * closed.
 * HLK_OK: accepted, `done` will run once. HLK_E_INVALID, NOMEM, FORKED, CLOSED: it never will. */
HLK_API HLK_MUST_USE enum hlk_status hlk_semaphore_acquire_async(hlk_semaphore *semaphore, int64_t permits,
                                                                const struct hlk_acquire_opts *opts,
                                                                hlk_semaphore_done_fn *done, void *ctx);

/* Gives back `permits` (1 to HLK_PERMITS_MAX), and wakes who waits for them. Makes the semaphore if it does not exist.
 * HLK_OK           they are free, or another call of this process that waited for so many has them
 * HLK_E_UNSURE     sent, and not answered within reply_timeout_ms, or refused all that time for a reason that may pass,
 *                  such as too few replicas; HLK_E_CONNECT: no server in that time. It is repeated in the background,
 *                  and happens once: do not call it again. If it was sent and is not answered for 8 minutes it is
 *                  repeated no more: it has happened, or never will. That is logged, as is each other outcome but
 *                  HLK_OK
 * HLK_E_SERVER     there would be more than HLK_PERMITS_MAX, or it is no semaphore; nothing was changed
 * HLK_E_...        other faults; nothing was changed
 * Any thread. Blocks for up to reply_timeout_ms. */
HLK_API enum hlk_status hlk_semaphore_release(hlk_semaphore *semaphore, int64_t permits);

/* Starts hlk_semaphore_release and returns. It is repeated in the background until it is answered; then `done` gets the
 * outcome: HLK_E_UNSURE if it was sent and not answered for 8 minutes, HLK_E_CLOSED if the client was closed before.
 * `done` NULL: an outcome other than HLK_OK is logged. Any thread. Never blocks.
 * HLK_OK: accepted. HLK_E_INVALID, NOMEM, FORKED, CLOSED: nothing was changed, and `done` never runs. */
HLK_API enum hlk_status hlk_semaphore_release_async(hlk_semaphore *semaphore, int64_t permits,
                                                    hlk_semaphore_done_fn *done, void *ctx);

/* The same as hlk_semaphore_release, but a semaphore that does not exist is not made: HLK_NOT_HOLDER, nothing was
 * changed. */
HLK_API enum hlk_status hlk_semaphore_release_if_exists(hlk_semaphore *semaphore, int64_t permits);

/* Makes the semaphore with `permits` (0 to HLK_PERMITS_MAX) if it does not exist. ttl_ms: after that time it is
 * deleted, with all its permits; 0: never.
 * HLK_OK           made
 * HLK_BUSY         it exists already; nothing was changed
 * HLK_E_UNSURE     sent, and not answered in time: made, or not
 * HLK_E_...        other faults; nothing was changed
 * Any thread. Blocks for up to reconnect_timeout_ms + reply_timeout_ms, like all that follow. */
HLK_API HLK_MUST_USE enum hlk_status hlk_semaphore_try_set(hlk_semaphore *semaphore, int64_t permits, int64_t ttl_ms);

/* Adds `permits` (not 0; negative: takes away, also below 0) to the free ones, for example because the limit has
 * changed. Makes the semaphore, and removes a ttl of it, as Redisson does. HLK_E_UNSURE: it may have happened. */
HLK_API enum hlk_status hlk_semaphore_add(hlk_semaphore *semaphore, int64_t permits);

/* Takes all free permits. *drained (may be NULL): how many. A number below 0 stays as it is. HLK_E_UNSURE: it may have
 * happened. */
HLK_API enum hlk_status hlk_semaphore_drain(hlk_semaphore *semaphore, int64_t *drained);

/* Deletes the semaphore, however many permits are free or taken. Waiters wait until somebody makes it again, and a
 * hlk_semaphore_release makes it; hlk_semaphore_release_if_exists does not.
 * HLK_OK           deleted
 * HLK_NOT_HOLDER   there was none; nothing was changed
 * HLK_E_UNSURE     sent, and not answered in time; it is not repeated. HLK_E_... other faults; nothing was changed
 * (RSemaphore.delete) */
HLK_API enum hlk_status hlk_semaphore_delete(hlk_semaphore *semaphore);

/* *permits: how many are free; it may be negative. 0 if there is no semaphore. Only a hint. */
HLK_API enum hlk_status hlk_semaphore_available(hlk_semaphore *semaphore, int64_t *permits);

HLK_END_DECLS

#endif
