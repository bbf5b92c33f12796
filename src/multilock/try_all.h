/* try_all.h - one try at each of several locks by one thread, all at once: one round trip for all that are free. They
 * are acquires without a blocked thread (acquire/async_acquire.h), whose answers the thread reads itself
 * (acquire/multi_wait.h). */
#ifndef HLK_MULTILOCK_TRY_ALL_H
#define HLK_MULTILOCK_TRY_ALL_H

#include "acquire/async_acquire.h"
#include "acquire/multi_wait.h"

struct hlk_try_all_client {
    hlk_client *client;
    struct hlk_wait_entry closing; /* its close wakes the thread */
    struct hlk_thread *self;
};

struct hlk_try_all {
    struct hlk_multi_wait wait;
    int64_t at_ms;
    bool asleep; /* close is noticed */
    unsigned client_count;
    struct hlk_try_all_client clients[HLK_MULTI_WAIT_MAX]; /* each once */
    atomic_uint pending;
    unsigned count;
    struct hlk_acquiring *tries[HLK_MULTI_WAIT_MAX]; /* NULL: over */
    enum hlk_status status[HLK_MULTI_WAIT_MAX];
    struct hlk_error error; /* of all of them (acquire/outcome.h) */
};

/* Tries each of `locks` (on one server each, count <= HLK_MULTI_WAIT_MAX) with these terms: opts->wait_ms is 0. A try
 * ends at at_ms at the latest, with what its acquire says of its deadline. The commands are on their way.
 * hlk_try_all_end must follow. */
void hlk_try_all_start(struct hlk_try_all *tries, struct hlk_thread *self, hlk_lock *const *locks, unsigned count,
                     const struct hlk_acquire_opts *opts, int64_t at_ms);
/* Until each is over. A cancellation point if the thread is cancellable. */
void hlk_try_all_wait(struct hlk_try_all *tries);
/* After the start, at any time, also twice: those that are not over end without the lock. Sets `status` and `error`.
 * HLK_OK: it is held once more. */
void hlk_try_all_end(struct hlk_try_all *tries);

#endif
