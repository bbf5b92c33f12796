/* locks.h - the lock of a run, and who is in its way. Of a read/write lock it is one half, and holders of either half
 * may be in its way. */
#ifndef HLK_CLI_LOCKS_H
#define HLK_CLI_LOCKS_H

#include "options.h"

#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stdint.h>

struct locks {
    hlk_client *client;         /* borrowed */
    hlk_lock *lock;             /* what is acquired and released */
    hlk_rwlock *halves;         /* -s, -x: `lock` is one of them. NULL: another kind */
};

/* The lock's holder is `owner`. False: see hlk_last_error(). */
bool locks_create(struct locks *locks, hlk_client *client, const struct options *options, hlk_owner *owner);
void locks_destroy(struct locks *locks);        /* zeroed is fine, too */

struct locks_obstacle {         /* who is in the way of an acquire */
    struct hlk_lock_state state;        /* not held: nobody */
    int kind;                   /* HLK_LOCK_READ, HLK_LOCK_WRITE: of that half; 0: of another kind of lock */
    int64_t position;           /* of this client in the queue, from 1; 0: not found */
};

/* Queries the server: HLK_OK, or the status of hlk_lock_query. Any thread. */
enum hlk_status locks_look(const struct locks *locks, struct locks_obstacle *obstacle);

#endif
