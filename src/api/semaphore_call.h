/* semaphore_call.h - where a call of a semaphore differs from one of a lock (api/acquire_op.h): permits, their notes in
 * Redis, and the line in which the calls of a process wait. */
#ifndef HLK_API_SEMAPHORE_CALL_H
#define HLK_API_SEMAPHORE_CALL_H

#include "api/acquire_op.h"
#include "api/semaphore_notes.h"
#include "hasplock/semaphore.h"

struct hlk_semaphore_call {
    int64_t count;
    atomic_uint holds;                  /* of the call's holder */
    struct hlk_notes *notes;            /* NULL: permits with leases, which leave no notes, and wait in no line */
    struct hlk_entry *line;             /* in which it waits, if it does not get its permits at once; referenced.
                                         * NULL: in none */
    hlk_semaphore *semaphore;           /* of a call without a blocked thread: for `done` */
    hlk_semaphore_done_fn *done;
    char text[HLK_NOTES_TEXT(HLK_NOTES_SENT)];      /* cmd->drop_notes */
};

/* NULL: it is not one for a call of a semaphore. */
static inline struct hlk_semaphore_call *hlk_lock_semaphore_call(const hlk_lock *lock)
{
    return lock->has_permits ? (struct hlk_semaphore_call *)(uintptr_t)(lock + 1) : NULL;
}

/* Fills in a release of permits, but for what its caller does when it is settled. drop_notes: cmd->drop_notes. */
void hlk_semaphore_fill_release(struct hlk_release *pending, const hlk_lock *lock, int64_t permits, int change,
                                const char *drop_notes);

/* A release is settled: the status for who called it, with the thread's error, and what it counts for. */
enum hlk_status hlk_semaphore_released(hlk_lock *lock, const struct hlk_release *pending,
                                       enum hlk_release_outcome outcome, const struct hlk_error *error);
/* The part of that for an outcome other than HLK_RELEASE_DONE. */
enum hlk_status hlk_semaphore_not_released(hlk_lock *lock, const struct hlk_release *pending,
                                           enum hlk_release_outcome outcome, const struct hlk_error *error);

/* Sends a command that only drops the notes in `notes`, those of the lock's semaphore. Nobody waits for it. */
void hlk_semaphore_drop_notes(hlk_lock *lock, struct hlk_notes *notes);

/* --- for acquire_op.c; each is a no-op for a lock --- */

/* From now on its command is about another hold id. */
void hlk_semaphore_call_begin(struct hlk_acquire_op *op);
/* Its commands take no ticket: it will wait in the line if they are answered BUSY. */
bool hlk_semaphore_call_tries(const struct hlk_acquire_op *op);
/* That was the answer: it joins the line. Returns what the entry says: HEAD, QUEUED, NOMEM. */
enum hlk_enter hlk_semaphore_call_join(struct hlk_acquire_op *op);
/* False: an attempt that was not answered may have taken, and another one may find its note gone and take again. See
 * op->error. */
bool hlk_semaphore_call_may_repeat(struct hlk_acquire_op *op);
/* When it leaves: since when there may be a note that it has taken. 0: there is none. */
int64_t hlk_semaphore_call_taken_ms(const struct hlk_acquire_op *op);
/* The permits are the caller's, and have no holder: the entry lets go of its hold, and nothing is sent. HLK_OK, or
 * HLK_E_CLOSED: close has given them back; see op->error. */
enum hlk_status hlk_semaphore_call_keep(struct hlk_acquire_op *op);
/* Another call has passed it permits, and it ends without them: they are released in the background. op->take_back is
 * the release; it has ended the ticket before, if there was one. */
void hlk_semaphore_call_give_back(struct hlk_acquire_op *op);

#endif
