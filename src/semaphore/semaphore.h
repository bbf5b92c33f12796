/* semaphore.h - a handle on a semaphore, internally. */
#ifndef HLK_SEMAPHORE_SEMAPHORE_H
#define HLK_SEMAPHORE_SEMAPHORE_H

#include "acquire/acquire_op.h"
#include "semaphore/semaphore_notes.h"
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

/* --- its notes --- */

/* Sends a command that only drops the semaphore's notes. No caller waits for it. */
void hlk_semaphore_drop_notes(hlk_semaphore *semaphore);
/* The same for these: drop_notes is cmd->drop_notes, and is copied. */
void hlk_semaphore_send_drop_notes(hlk_lock *lock, const char *drop_notes);

#endif
