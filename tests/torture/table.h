/* table.h - what the torture suite runs: each script of lua/ with its keys and arguments, and for each family of
 * scripts the states in which Redis may be when one of them runs.
 *
 * Texts are words between '|'. A command ends at ';'. In a word:
 *   $<number>          a moment: the number + the server's ms (+ what the test adds): $1e15+500 is 1e15 + now + 500
 *   $$<number>         the same in hundredths of a ms, as a ticket's score is
 * The command DEAD|n puts n tickets of dead clients before all others, in the form of the family. */
#ifndef HLK_TEST_TORTURE_TABLE_H
#define HLK_TEST_TORTURE_TABLE_H

#include "script/table.h"

#include <stddef.h>

#define LOCK "t"
#define QUEUE "hasplock_queue:{t}"
#define RW_QUEUE "hasplock_rwlock:{t}"
#define TOKEN "redisson_lock_token:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define RW_CHANNEL "redisson_rwlock:{t}"
#define SC_CHANNEL "redisson_sc:{t}"
#define LATCH_CHANNEL "redisson_countdownlatch__channel__{t}"
#define LEASES "{t}:timeout"
#define BARRIER "hasplock_barrier:{t}"
#define ARRIVED "hasplock_arrived:{t}"
#define CONDITION "hasplock_condition:{t}"
#define CONDITION_LEASES "hasplock_condition_leases:{t}"
#define FAIR_QUEUE "redisson_lock_queue:{t}"
#define FAIR_SCORES "redisson_lock_timeout:{t}"
#define FAIR_NOTES "hasplock_fair:{t}"

/* The caller; a second client, alive; one of Redisson's; and one that is dead. */
#define ME "hlk-a-1-x:5"
#define OTHER "hlk-b-2-y:7"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define GONE "hlk-dead-1-x:1"
#define ME_INBOX "hasplock_inbox:hlk-a-1-x"
#define OTHER_INBOX "hasplock_inbox:hlk-b-2-y"
#define READS "{t}:" ME ":rwlock_timeout:1"
#define MY_NOTE "hasplock_note:{t}:" ME

struct torture_row {
    enum hlk_script script;
    const char *what;           /* this use of it, for people */
    const char *keys, *args;
    const char *answers;        /* an extended regular expression for the whole reply, as raw.h shows it */
};

struct torture_state {
    const char *name, *commands;
};

struct torture_family {
    const char *name;
    const struct torture_row *rows;         /* ends with one without `what` */
    const struct torture_state *states;     /* ends with one without a name */
    const struct torture_state *numbers;    /* the same, with %s where a huge number may be */
    const char *dead, *dead_at;             /* a dead client's ticket, with %d for its number, and the queue */
    const char *shared_keys;                /* other programs may use these names, for other data */
    const char *own_keys;                   /* only the library uses these names; the key may be of a wrong type */
    const char *may_lack_ttl;               /* keys that may be created without a ttl: by the format, or by a user */
    const char *may_lose_ttl;               /* keys that a script may persist, by the format */
    const char *persisting_use;             /* the use of a script whose head says that it removes a ttl */
    const char *unsound;                    /* Lua: returns what is wrong with the keys; "": nothing is checked */
};

extern const struct torture_family torture_plain, torture_fair, torture_string, torture_rw, torture_semaphore,
    torture_permit, torture_latch, torture_barrier, torture_condition, torture_quorum;

/* All of them; ends with NULL. */
extern const struct torture_family *const torture_families[];

#endif
