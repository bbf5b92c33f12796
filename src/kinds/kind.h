/* kind.h - a kind of lock as data: the format that it has in Redis, and what it makes of it.
 *
 * A new kind is an enumerator in hasplock/lock.h and a row of the table in kinds.c. A kind that is no lock is a row
 * alone: it is known by its format. A new format is a file in here. */
#ifndef HLK_KINDS_KIND_H
#define HLK_KINDS_KIND_H

#include "script/format.h"

struct hlk_kind {
    const struct hlk_format *format;
    bool fenced;                /* each hold has a fencing token */
    bool non_reentrant;         /* an acquire by its holder is HLK_DEADLOCK */
    bool no_lock;               /* hlk_lock_create makes none */
    bool has_number;            /* as many may hold it as a number says, which an acquire may set */
    bool polls;                 /* a wait asks again after pauses, by the handle's backoff, and never subscribes */
};

/* The locks that are a hash with one field, Redisson's RLock; RFairLock, which has a queue besides; the locks that are
 * a string; and the halves of RReadWriteLock. */
extern const struct hlk_format hlk_format_lock, hlk_format_fair, hlk_format_string, hlk_format_read, hlk_format_write;
/* Redisson's RCountDownLatch: its break_it deletes it, and its query answers its count. cmd->count: the new count; so
 * many are counted down. */
extern const struct hlk_format hlk_format_latch;
extern const struct hlk_command_type hlk_latch_set, hlk_latch_down;

/* A barrier: an acquire that holds nothing, and has a lease while it waits. cmd->count: the parties. Its break_it
 * resets it, and its query answers how many wait. */
extern const struct hlk_format hlk_format_barrier;

/* Redisson's RSemaphore: a number of permits. */
extern const struct hlk_format hlk_format_semaphore;

/* Calls about a semaphore that wait for nothing. */
enum hlk_semaphore_change {
    HLK_SEMAPHORE_RELEASE,        /* cmd->count more; noted by cmd->hold, so that it happens once */
    HLK_SEMAPHORE_RELEASE_IF,     /* the same, if the semaphore exists */
    HLK_SEMAPHORE_DROP_NOTES,         /* only drops the notes in cmd->drop_notes */
    HLK_SEMAPHORE_TRY_SET,        /* cmd->count, if there is no semaphore; for cmd->lease_ms, if that is not 0 */
    HLK_SEMAPHORE_ADD,            /* cmd->count more or, if that is negative, less */
    HLK_SEMAPHORE_DRAIN,
    HLK_SEMAPHORE_GET,
    HLK_SEMAPHORE_DELETE
};
extern const struct hlk_command_type hlk_semaphore_command;

/* In errors: why an acquire of a semaphore's permits, or of one with a lease, gets none. */
#define HLK_NO_PERMITS "there are no permits: their number was never set"

/* Redisson's RPermitExpirableSemaphore: permits that have a lease each. */
extern const struct hlk_format hlk_format_permit;

/* Calls about the number of such permits. */
enum hlk_permits_change {
    HLK_PERMITS_TRY_SET,         /* cmd->count free ones, if there is no number yet */
    HLK_PERMITS_SET,             /* cmd->count in all */
    HLK_PERMITS_ADD,             /* cmd->count more or, if that is negative, less */
    HLK_PERMITS_GET,
    HLK_PERMITS_DELETE           /* if none is held */
};
extern const struct hlk_command_type hlk_permits_command;

#endif
