/* acl.h - the minimal rights for a user of hasplock, in the form of ACL SETUSER. With HLK_TEST_ACL=1 the whole
 * integration stage runs with them (server.h), so a missing right fails a test. docs/acl.md quotes them.
 *
 * Here the names of locks begin with "t". A user of these lines replaces that by the prefix of their own names, in all
 * places (twice for names with a brace, by the rule of docs/protocol.md). Inboxes are named after clients. */
#ifndef HLK_TEST_ACL_H
#define HLK_TEST_ACL_H

#define ACL_USER     "locks"
#define ACL_PASSWORD "least-rights"

/* keys: the lock, its queue, its token counter. channels: the lock's, and the clients' inboxes. commands: those that
 * the scripts in lua/ call (get, set, incrby: only for fenced locks), and those that the connection sends. */
#define ACL_KEYS     "~t* ~hasplock_queue:{t* ~hasplock_queue::t* ~redisson_lock_token:{t* ~redisson_lock_token:t*"
#define ACL_CHANNELS "resetchannels &redisson_lock__channel:{t* &redisson_lock__channel:t* &hasplock_inbox:*"
#define ACL_COMMANDS ACL_POLL_COMMANDS " +publish +pubsub|numsub +subscribe +unsubscribe"
/* without pub/sub, for locks that poll; no channel is needed */
#define ACL_POLL_COMMANDS                                                                                              \
    "-@all +evalsha +eval +exists +hexists +hkeys +hgetall +hset +hdel +del +pttl +pexpire +zscore +zadd +zrem "       \
    "+zremrangebyscore +zrangebyscore +zrange +zrevrank +zrevrangebyscore +zcount +zrank +zmscore +zpopmin "  \
    "+get +set +incrby "                                                                                               \
    "+time +ping +select +info"

/* In addition, for fair locks. */
#define ACL_FAIR                                                                                                       \
    "~hasplock_fair:{t* ~hasplock_fair:t* "                                                                           \
    "~redisson_lock_queue:{t* ~redisson_lock_queue:t* ~redisson_lock_timeout:{t* ~redisson_lock_timeout:t* "           \
    "+lindex +llen +lpop +lpos +lrange +lrem +rpush +persist"

/* In addition, for lists of string locks. */
#define ACL_STRING "+getrange"

/* In addition, for read/write locks. */
#define ACL_RW                                                                                                         \
    "~{t* ~hasplock_rwlock:{t* ~hasplock_rwlock::t* &redisson_rwlock:{t* &redisson_rwlock:t* +hget +hlen +hrandfield"

#define ACL_BUT_RW ACL_KEYS " " ACL_CHANNELS " " ACL_COMMANDS " " ACL_FAIR " " ACL_STRING
#define ACL_RULES                                                                                                      \
    ACL_BUT_RW " " ACL_RW " " ACL_LATCH " " ACL_SEMAPHORE " " ACL_PERMIT " " ACL_BARRIER " " ACL_CONDITION " "         \
    ACL_NOTE

/* In addition, for latches. The second pattern is for names with braces in a cluster. */
#define ACL_LATCH "&redisson_countdownlatch__channel__{t* &redisson_countdownlatch__channel__t*"

/* In addition, for semaphores. */
#define ACL_SEMAPHORE "&redisson_sc:{t* &redisson_sc:t*"

/* In addition, for barriers. */
#define ACL_BARRIER                                                                                                    \
    "~hasplock_barrier:{t* ~hasplock_barrier::t* ~hasplock_arrived:{t* ~hasplock_arrived::t* "                         \
    "&hasplock_barrier:{t* &hasplock_barrier::t* +hget +hmget +hlen +hrandfield +zcard"

/* In addition, for conditions. */
#define ACL_CONDITION                                                                                                  \
    "~hasplock_condition:{t* ~hasplock_condition::t* ~hasplock_condition_leases:{t* ~hasplock_condition_leases::t* "   \
    "&hasplock_condition:{t* &hasplock_condition::t* +zcard"

/* In addition, for notes. */
#define ACL_NOTE "~hasplock_note:{t* ~hasplock_note::t*"

/* In addition to these, for permits. */
#define ACL_PERMIT "~{t*"

#endif
