/* format_condition.h - the commands about a condition. A waiter is <client id>:<cmd->seen.slot>. */
#ifndef HLK_KINDS_FORMAT_CONDITION_H
#define HLK_KINDS_FORMAT_CONDITION_H

#include "script/format.h"

/* A wait for a signal is an acquire that holds nothing, of a waiter that has enrolled. seen.mark is its number, too.
 * The `leave` may also be sent by itself, with cmd->id. The query answers how many wait. */
extern const struct hlk_format hlk_format_condition;

/* enroll: the waiter comes, with cmd->lease_ms. done: it was signalled, and needs that no more. The others are about no
 * waiter. */
extern const struct hlk_command_type hlk_condition_enroll, hlk_condition_done, hlk_condition_wake_one,
    hlk_condition_wake_all;

#endif
