/* latch.h - a count that many processes wait for: a count-down latch.
 *
 *     one:     hlk_latch_try_set(latch, 3);                 it takes three
 *     three:   hlk_latch_count_down(latch, 1, NULL);
 *     any:     hlk_latch_await(latch, HLK_FOREVER);         until the third has counted down
 *
 * The format in Redis is that of Redisson's RCountDownLatch: Java and C count and wait together. A latch without a
 * count, and one that was never set, has the count 0, and nobody waits for it: set the count before others await. It
 * belongs to nobody and has no lease: a process that dies before it has counted down leaves the others waiting. The
 * name is that of a key: do not use it for a lock.
 *
 * A message wakes those who wait, all of a process by one subscription. A wait whose message is lost asks within 5 s.
 * hasplock notes in Redis, for 10 minutes, that a latch was counted down to 0. So a latch that is set again at once
 * lets all pass who waited for the count before, and lost data opens no latch. Redisson notes nothing. */
#ifndef HASPLOCK_LATCH_H
#define HASPLOCK_LATCH_H

#include "lock.h"

HLK_BEGIN_DECLS

typedef struct hlk_latch hlk_latch;     /* opaque; cheap: a name. Any number of threads at once */

#define HLK_LATCH_MAX 4503599627370496  /* the largest count: 2^52 */

/* Makes a handle. `name`: 1 to 512 bytes, copied. No I/O. Returns NULL on an error, see hlk_last_status(). `client`
 * must outlive the use of the handle; it must not be one with HLK_OPEN_NO_PUBSUB. Calls on a NULL handle return
 * HLK_E_INVALID. Any thread. (Redisson.getCountDownLatch) */
HLK_API HLK_MUST_USE hlk_latch *hlk_latch_create(hlk_client *client, const char *name);

/* Frees the handle; the latch in Redis stays. No blocking call may be using it; pending async calls keep what they
 * need. No I/O. NULL is fine. */
HLK_API void hlk_latch_destroy(hlk_latch *latch);

/* The latch's name. Lives as long as the handle. NULL for NULL. Any thread. */
HLK_API const char *hlk_latch_name(const hlk_latch *latch);

/* Sets the count to `count` (1 to HLK_LATCH_MAX) if it is 0.
 * HLK_OK           set
 * HLK_BUSY         it has a count that is not 0 yet; nothing was changed
 * HLK_E_UNSURE     sent and not answered; it may have been set, or may be yet. It is not repeated
 * HLK_E_SERVER     also: the name is that of another type or no whole number, such as a lock; nothing was changed
 * HLK_E_CONNECT, AUTH, NOMEM, OS, INVALID, FORKED, CLOSED   nothing was changed, see status.h
 * Any thread. Blocks for up to reconnect_timeout_ms + reply_timeout_ms. (RCountDownLatch.trySetCount) */
HLK_API HLK_MUST_USE enum hlk_status hlk_latch_try_set(hlk_latch *latch, int64_t count);

/* Writes the count to *count: 0 where there is none. HLK_OK; HLK_E_...: *count is unchanged. Any thread. Blocks as
 * try_set. (RCountDownLatch.getCount) */
HLK_API HLK_MUST_USE enum hlk_status hlk_latch_count(hlk_latch *latch, int64_t *count);

/* Counts down by `n` (1 to HLK_LATCH_MAX), not below 0, and writes what is left to *left (may be NULL). At 0 the key is
 * deleted, and all waiters are woken. A latch without a count stays as it is.
 * HLK_OK           done
 * HLK_E_UNSURE     sent and not answered: it may have been counted once, now or later, and never twice. It is not
 *                  repeated; *left is unchanged
 * HLK_E_SERVER, HLK_E_...   nothing was changed, see try_set
 * Any thread. Blocks as try_set. (RCountDownLatch.countDown) */
HLK_API enum hlk_status hlk_latch_count_down(hlk_latch *latch, int64_t n, int64_t *left);

/* Waits for up to `wait_ms` (HLK_NOWAIT: not at all; HLK_FOREVER) until the count is 0. It holds nothing.
 * HLK_OK           the count was 0 at some moment during this call: counted down, deleted, or never set
 * HLK_BUSY         wait_ms is 0, and the count is not; or no answer came within reply_timeout_ms
 * HLK_TIMEOUT      the count was not 0 in all of wait_ms, as far as it was answered; the error text has it
 * HLK_LOST         the count is gone, and nothing says that it was counted down: the server has lost its data, or the
 *                  key was removed by hand or ran out, or Redisson counted it down while no message could be heard.
 *                  Within 6 s. Do not go on as if it were 0
 * HLK_E_CONNECT    no server within reconnect_timeout_ms
 * HLK_E_SERVER     also: the name is that of another type or no whole number
 * HLK_E_AUTH, NOMEM, OS, INVALID, FORKED, CLOSED    see status.h. Never HLK_E_UNSURE
 * A count that Redisson sets again at once after it became 0 may be missed, as by Redisson's own waiters.
 * Any thread but one in a log callback. Blocks. A pthread cancellation point while it waits. (RCountDownLatch.await) */
HLK_API HLK_MUST_USE enum hlk_status hlk_latch_await(hlk_latch *latch, int64_t wait_ms);

/* The same with the options of lock.h: wait_ms, cancel, HLK_ACQUIRE_EINTR; lease_ms must be 0. Also returns
 * HLK_INTERRUPTED. */
HLK_API HLK_MUST_USE enum hlk_status hlk_latch_await_with(hlk_latch *latch, const struct hlk_acquire_opts *opts);

/* `status` is what hlk_latch_await_with would have returned; hlk_last_error() explains it during the callback, which
 * may destroy `latch`. Runs as a hlk_done_fn does (async.h). */
typedef void hlk_latch_done_fn(hlk_latch *latch, enum hlk_status status, void *ctx);

/* Starts hlk_latch_await_with and returns. `opts` as for hlk_lock_acquire_async. Any number of waits at once; needs no
 * owner. `latch` is only passed on to `done`, which must not be NULL. Any thread. Never waits for Redis.
 * HLK_OK: accepted, `done` will run once. HLK_E_INVALID, NOMEM, FORKED, CLOSED: it never will. */
HLK_API HLK_MUST_USE enum hlk_status hlk_latch_await_async(hlk_latch *latch, const struct hlk_acquire_opts *opts,
                                                           hlk_latch_done_fn *done, void *ctx);

/* Deletes the count, whatever it is, and wakes all waiters: for them it is 0. (Redisson's delete() leaves its own
 * waiters blocked.)
 * HLK_OK           deleted
 * HLK_NOT_HOLDER   there was none; nothing was changed
 * HLK_E_UNSURE     sent and not answered, not repeated
 * HLK_E_SERVER, HLK_E_...   nothing was changed, see try_set
 * Any thread. Blocks as try_set. (RCountDownLatch.delete) */
HLK_API enum hlk_status hlk_latch_delete(hlk_latch *latch);

HLK_END_DECLS

#endif
