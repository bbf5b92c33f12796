/* semaphore.h - a handle on a semaphore, internally. */
#ifndef HLK_API_SEMAPHORE_H
#define HLK_API_SEMAPHORE_H

#include "api/acquire_op.h"
#include "api/semaphore_notes.h"
#include "hasplock/semaphore.h"

struct hlk_semaphore {
    atomic_int refs;        /* the user's, and those of calls and releases that are under way */
    hlk_lock *lock;         /* without an entry; its handle is referenced */
    struct hlk_entry *line; /* in which the acquires of this process wait */
    struct hlk_notes *notes;
};

void hlk_semaphore_ref(hlk_semaphore *semaphore);
void hlk_semaphore_unref(hlk_semaphore *semaphore);

/* Refuses NULL, a forked child, a closed client, and fewer than `min` permits or more than there can be. */
enum hlk_status hlk_semaphore_check(const hlk_semaphore *semaphore, const char *operation, int64_t permits,
                                    int64_t min);

/* --- acquire --- */

/* Also reads the options. */
enum hlk_status hlk_semaphore_check_acquire(const hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts);

/* --- release --- */

/* True: another call of this process has them now. */
bool hlk_semaphore_passes(const hlk_semaphore *semaphore, int64_t permits);

#endif
