/* barrier.h - a point where a number of parties, in many processes, wait for each other: a cyclic barrier.
 *
 *     each of 3:   for (int round = 0; round < n; round++) {
 *                      work(round);
 *                      if (hlk_barrier_await(barrier, 60000, &index) != HLK_OK)    until all 3 are here
 *                          give_up(hlk_last_error());
 *                      if (index == 0)
 *                          action(round);                                          in one of the 3
 *                  }
 *
 * A barrier has generations. Each arrival belongs to one. When `parties` have arrived, all of them pass, and the next
 * generation begins. If one of them leaves before that, the generation is broken: all who wait get HLK_BROKEN, with who
 * left and why, and the next generation begins afresh. A party leaves when its wait times out or is cancelled, when its
 * client is closed, and when its process dies or reaches no server: an arrival has a lease, which the wait renews, and
 * ends with it. So a death breaks the generation within the lease and 5 s. Nobody passes before all have arrived, and
 * lost data breaks and never opens.
 *
 * Redisson has no such type. The name is of this type alone: its keys are `hasplock_barrier:{name}` and
 * `hasplock_arrived:{name}`, which end 10 minutes after the last command. */
#ifndef HASPLOCK_BARRIER_H
#define HASPLOCK_BARRIER_H

#include "lock.h"

HLK_BEGIN_DECLS

typedef struct hlk_barrier hlk_barrier;     /* opaque; any number of threads at once, each a party of its own */

#define HLK_BARRIER_MAX 100000          /* the most parties */

/* Makes a handle. `name`: 1 to 512 bytes, copied. `parties`: 1 to HLK_BARRIER_MAX; all who use the name say the same.
 * `lease_ms`: of an arrival, 1000 to a day; 0: the client's watchdog_ms. No I/O. Returns NULL on an error, see
 * hlk_last_status(). `client` must outlive the use of the handle; it must not be one with HLK_OPEN_NO_PUBSUB, nor of
 * several masters. Calls on a NULL handle return HLK_E_INVALID. Any thread. (java.util.concurrent.CyclicBarrier) */
HLK_API HLK_MUST_USE hlk_barrier *hlk_barrier_create(hlk_client *client, const char *name, unsigned parties,
                                                     int64_t lease_ms);

/* Frees the handle. No blocking call may be using it; pending async calls keep what they need. No I/O. NULL is fine. */
HLK_API void hlk_barrier_destroy(hlk_barrier *barrier);

/* The barrier's name, and its number of parties. The name lives as long as the handle. NULL and 0 for NULL. Any
 * thread. */
HLK_API const char *hlk_barrier_name(const hlk_barrier *barrier);
HLK_API unsigned hlk_barrier_parties(const hlk_barrier *barrier);

/* Arrives, and waits for up to `wait_ms` (HLK_NOWAIT: not at all; HLK_FOREVER) for the others.
 * HLK_OK           all parties had arrived. *index (may be NULL) says in which order, from parties - 1, the first, to
 *                  0, the last: exactly one of a generation gets 0
 * HLK_BROKEN       another party left before all had arrived, or the barrier was reset, or its data was lost: the text
 *                  says who and why. The caller no longer counts as arrived
 * HLK_BUSY         wait_ms is 0, and others are missing; or no answer came. The caller no longer counts as arrived,
 *                  and those that waited get HLK_BROKEN
 * HLK_TIMEOUT      others were missing in all of wait_ms. Likewise
 * HLK_E_CONNECT    no server within reconnect_timeout_ms. Likewise, within the lease
 * HLK_E_SERVER     also: others wait there for another number of parties; nothing was changed
 * HLK_E_AUTH, NOMEM, OS, INVALID, FORKED, CLOSED    see status.h. Never HLK_E_UNSURE
 * Any other than HLK_OK leaves *index as it is. Any thread but one in a log callback. Blocks; after wait_ms for up to
 * reply_timeout_ms more, to learn whether the generation has passed after all: then it is HLK_OK. A pthread
 * cancellation point while it waits. (CyclicBarrier.await) */
HLK_API HLK_MUST_USE enum hlk_status hlk_barrier_await(hlk_barrier *barrier, int64_t wait_ms, unsigned *index);

/* The same with the options of lock.h: wait_ms, cancel, HLK_ACQUIRE_EINTR; lease_ms must be 0. Also returns
 * HLK_INTERRUPTED: the caller no longer counts as arrived, and those that waited get HLK_BROKEN. */
HLK_API HLK_MUST_USE enum hlk_status hlk_barrier_await_with(hlk_barrier *barrier, const struct hlk_acquire_opts *opts,
                                                            unsigned *index);

/* `status` is what hlk_barrier_await_with would have returned, with `index` for HLK_OK; hlk_last_error() explains it
 * during the callback, which may destroy `barrier`. Runs as a hlk_done_fn does (async.h). */
typedef void hlk_barrier_done_fn(hlk_barrier *barrier, enum hlk_status status, unsigned index, void *ctx);

/* Starts hlk_barrier_await_with and returns. `opts` as for hlk_lock_acquire_async. Any number of waits at once, each a
 * party; needs no owner. `barrier` is only passed on to `done`, which must not be NULL. Any thread. Never waits for
 * Redis. HLK_OK: accepted, `done` will run once. HLK_E_INVALID, NOMEM, FORKED, CLOSED: it never will. */
HLK_API HLK_MUST_USE enum hlk_status hlk_barrier_await_async(hlk_barrier *barrier, const struct hlk_acquire_opts *opts,
                                                             hlk_barrier_done_fn *done, void *ctx);

/* Writes how many parties wait to *waiting. HLK_OK; HLK_E_...: *waiting is unchanged. Any thread. Blocks for up to
 * reconnect_timeout_ms + reply_timeout_ms. (CyclicBarrier.getNumberWaiting) */
HLK_API HLK_MUST_USE enum hlk_status hlk_barrier_waiting(hlk_barrier *barrier, unsigned *waiting);

/* Breaks the generation, if anybody waits.
 * HLK_OK           all who waited get HLK_BROKEN
 * HLK_NOT_HOLDER   nobody waited; nothing was changed
 * HLK_E_UNSURE     sent and not answered, not repeated
 * HLK_E_...        nothing was changed
 * Any thread. Blocks as hlk_barrier_waiting. (CyclicBarrier.reset) */
HLK_API enum hlk_status hlk_barrier_reset(hlk_barrier *barrier);

HLK_END_DECLS

#endif
