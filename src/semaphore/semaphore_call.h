/* semaphore_call.h - where an acquire of a semaphore differs from one of a lock (acquire/acquire_terms.h): permits,
 * their notes in Redis, and the line in which the acquires of a process wait. And what all its releases say. */
#ifndef HLK_SEMAPHORE_SEMAPHORE_CALL_H
#define HLK_SEMAPHORE_SEMAPHORE_CALL_H

#include "semaphore/semaphore.h"

struct hlk_semaphore_call {             /* one acquire; the operation's */
    hlk_semaphore *semaphore;           /* referenced */
    int64_t count;
    bool waits;                         /* in the line, if it does not get its permits at once */
    hlk_semaphore_done_fn *done;        /* of one without a blocked thread */
    void *ctx;
    char text[HLK_NOTES_TEXT(HLK_NOTES_SENT)];      /* cmd->drop_notes */
};

/* Of an acquire: the permits and the options, which are read. */
enum hlk_status hlk_semaphore_check_acquire(const hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts);

/* The terms of an acquire of so many permits. once: it does not wait. terms->with is its call.
 * hlk_acquire_terms_end must follow. False: no memory; the thread's error is set. */
bool hlk_semaphore_terms(hlk_semaphore *semaphore, int64_t permits, bool once, struct hlk_acquire_terms *out);

/* These permits are given back. True: another acquire of this process has them now. */
bool hlk_semaphore_passes(const hlk_semaphore *semaphore, int64_t permits);

/* Fills in a release of permits, but for what its caller does when it is settled. drop_notes: cmd->drop_notes. */
void hlk_semaphore_fill_release(struct hlk_release *pending, const hlk_lock *lock, int64_t permits, int change,
                                const char *drop_notes);

/* A release is settled: its status, with the thread's error, and what it counts for. */
enum hlk_status hlk_semaphore_released(hlk_semaphore *semaphore, const struct hlk_release *pending,
                                       enum hlk_release_outcome outcome, const struct hlk_error *error);

#endif
