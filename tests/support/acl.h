/* acl.h - the least rights a user of hasplock needs, as ACL SETUSER takes them. The whole integration stage runs with
 * them when HLK_TEST_ACL=1 (server.h), so a right that is missing here fails a test, and docs/protocol.md quotes them.
 *
 * Here the locks' names begin with "t"; whoever copies the line puts in what theirs begin with, in all places
 * (twice for names that have a brace: the rule of docs/protocol.md). Inboxes are named after clients. */
#ifndef HLK_TEST_ACL_H
#define HLK_TEST_ACL_H

#define ACL_USER     "locks"
#define ACL_PASSWORD "least-rights"

/* keys: the lock, its queue, its counter of tokens. channels: the lock's, and the clients' inboxes. commands: what the
 * scripts in lua/ call (get, set, incrby: for fenced locks only), and what the connection itself sends. */
#define ACL_KEYS     "~t* ~hasplock_queue:{t* ~hasplock_queue::t* ~redisson_lock_token:{t* ~redisson_lock_token:t*"
#define ACL_CHANNELS "resetchannels &redisson_lock__channel:{t* &redisson_lock__channel:t* &hasplock_inbox:*"
#define ACL_COMMANDS                                                                                                   \
    "-@all +evalsha +eval +exists +hexists +hkeys +hgetall +hset +hdel +del +pttl +pexpire +zscore +zadd +zrem "       \
    "+zremrangebyscore +zrangebyscore +zrange +zrevrange +zrevrangebyscore +zcount +zrank +zmscore +zpopmin "  \
    "+get +set +incrby "                                                                                               \
    "+time +publish +pubsub|numsub +subscribe +unsubscribe +ping +select"

/* And what fair locks need beside it. */
#define ACL_FAIR                                                                                                       \
    "~hasplock_fair:{t* ~hasplock_fair:t* "                                                                           \
    "~redisson_lock_queue:{t* ~redisson_lock_queue:t* ~redisson_lock_timeout:{t* ~redisson_lock_timeout:t* "           \
    "+lindex +llen +lpop +lpos +lrange +lrem +rpush +zincrby +persist +pexpireat"

#define ACL_RULES ACL_KEYS " " ACL_CHANNELS " " ACL_COMMANDS " " ACL_FAIR

#endif
