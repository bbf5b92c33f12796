/* acl.h - the least rights a user of hasplock needs, as ACL SETUSER takes them. The whole integration stage runs with
 * them when HLK_TEST_ACL=1 (server.h), so a right that is missing here fails a test, and docs/protocol.md quotes them.
 *
 * Here the locks' names begin with "t"; whoever copies the line puts in what theirs begin with, in all three places
 * (and twice more for names that have a brace: the rule of docs/protocol.md).
 */
#ifndef HLK_TEST_ACL_H
#define HLK_TEST_ACL_H

#define ACL_USER     "locks"
#define ACL_PASSWORD "least-rights"

/* keys: the lock and its void set. channels: the lock's. commands: what the scripts in lua/ call, and what the
 * connection itself sends. */
#define ACL_KEYS     "~t* ~hasplock_void:{t* ~hasplock_void:t*"
#define ACL_CHANNELS "resetchannels &redisson_lock__channel:{t* &redisson_lock__channel:t*"
#define ACL_COMMANDS                                                                                                   \
    "-@all +evalsha +eval +exists +hexists +hkeys +hgetall +hset +hdel +del +pttl +pexpire +zscore +zadd "             \
    "+zremrangebyscore +time +publish +pubsub|numsub +subscribe +unsubscribe +ping +select"

#define ACL_RULES ACL_KEYS " " ACL_CHANNELS " " ACL_COMMANDS

#endif
