/* locks.h - the locks of a run, held all or none, and who is in the way of one. A read/write lock is one of its halves,
 * and holders of either half may be in its way. */
#ifndef HLK_CLI_LOCKS_H
#define HLK_CLI_LOCKS_H

#include "json.h"
#include "options.h"

#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct locks {
    hlk_client *client;         /* borrowed */
    hlk_lock *lock;             /* what is acquired and released: each[0], or a multilock of them */
    size_t count;
    hlk_lock *each[HLK_MULTILOCK_MAX];          /* in the order of NAMEs */
    hlk_rwlock *halves[HLK_MULTILOCK_MAX];      /* -s, -x: each[i] is one of them. NULL: another kind */
    size_t order[HLK_MULTILOCK_MAX];            /* of `each`, by their names */
};

/* The holder is `owner`. False: see hlk_last_error(). */
bool locks_create(struct locks *locks, hlk_client *client, const struct options *options, hlk_owner *owner);
void locks_destroy(struct locks *locks);        /* zeroed is fine, too */

struct locks_obstacle {         /* who is in the way of an acquire */
    struct hlk_lock_state state;        /* not held: nobody */
    const char *name;           /* of which lock; lives as long as that */
    int kind;                   /* HLK_LOCK_READ, HLK_LOCK_WRITE: of that half; 0: of another kind of lock */
    int64_t position;           /* of this client in the queue, from 1; 0: not found */
};

/* Queries the server: HLK_OK, or the status of hlk_lock_query. Of several locks it is the first by name that another
 * one holds, as a multilock waits in that order; `nested`: rather one that a run around this one holds. Any thread. */
enum hlk_status locks_look(const struct locks *locks, bool nested, struct locks_obstacle *obstacle);

/* Adds the fields of the holder, and before them, of several locks, the field `lock`. */
void locks_add_json(const struct locks *locks, const char *name, const char *holder, struct json *fields);

/* What stands before words about one of several locks: its name in quotes, and a blank. Of one lock: "". */
#define LOCKS_WHICH 72
const char *locks_which(const struct options *options, const char *name, char buf[LOCKS_WHICH]);

#endif
