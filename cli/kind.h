/* kind.h - which kind of lock NAME is: the one that an option names, or the one that the server has (hlk_lock_find). */
#ifndef HLK_CLI_KIND_H
#define HLK_CLI_KIND_H

#include "options.h"

#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Says an option which kind NAME is? */
bool kind_is_given(const struct options *options);

/* *found is what NAME is: by an option only its kind. 0, or the exit code of a fault, which was said. */
int kind_find(hlk_client *client, const struct options *options, struct hlk_lock_found *found);

/* The kind of the lock that is queried or broken. HLK_LOCK_PLAIN: there is nothing, or it is none, which the call then
 * says. */
int kind_of_lock(const struct hlk_lock_found *found);
bool kind_is_permits(int kind);         /* permits or a semaphore */
bool kind_is_number(int kind);          /* a latch, or what may be one */

/* "plain", "fair", ...: for --json. NULL: there is nothing. */
const char *kind_word(int kind);

/* What stands before " by " and a holder; or all of it if there is no holder. `number`: as in hlk_lock_found. Returns
 * buf. */
const char *kind_held(int kind, int64_t count, int64_t number, char *buf, size_t size);
/* Of a barrier or a condition. Returns buf. */
const char *kind_waiting(int kind, int64_t waiting, char *buf, size_t size);

/* Says why NAME, whose kind may be one of several, is not taken for a lock. Returns the exit code. */
int kind_refuse_string(void);

#endif
