/* semaphore.h - a handle on a semaphore, internally. */
#ifndef HLK_API_SEMAPHORE_H
#define HLK_API_SEMAPHORE_H

#include "api/semaphore_call.h"
#include "hasplock/semaphore.h"

struct hlk_semaphore {
    hlk_lock *lock;         /* without an entry */
    struct hlk_entry *line; /* in which the calls of this process wait */
};

/* Refuses NULL, a forked child, a closed client, and fewer than `min` permits or more than there can be. */
enum hlk_status hlk_semaphore_check(const hlk_semaphore *semaphore, const char *operation, int64_t permits,
                                    int64_t min);

/* --- acquire --- */

/* Also reads the options. */
enum hlk_status hlk_semaphore_check_acquire(const hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts);
/* A handle for one acquire. NULL: no memory; the thread's error is set. */
hlk_lock *hlk_semaphore_call_make(const hlk_semaphore *semaphore, int64_t permits, bool once);

/* --- release --- */

/* True: another call of this process has them now. */
bool hlk_semaphore_passes(const hlk_semaphore *semaphore, int64_t permits);
#endif
