/* raw.h - the server's state, read by plain hiredis as its administrator.
 *
 *     redisContext *redis = raw_open(server);
 *     cr_assert_eq(raw_int(redis, "HGET t %s", hold), 1);
 *     cr_assert_str_eq(raw(redis, "PUBSUB NUMSUB %s", channel), "[\"redisson_lock__channel:{t}\", :1]");
 *
 * A broken connection ends the test with a line on stderr. Error replies are returned as replies. One thread for each
 * context. */
#ifndef HLK_TEST_RAW_H
#define HLK_TEST_RAW_H

#include "support/server.h"

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

redisContext *raw_open(const struct server *server);
redisContext *raw_open_as(const struct server *server, const char *user, const char *password);

/* The reply as text, in the notation of Redisson's transcripts: (nil), :1, "text", status OK, -ERR text, [a, b]. Valid
 * until this thread's 16th call after it. Formats as redisCommand does (%s, %b, %d). */
const char *raw(redisContext *redis, const char *format, ...);
const char *raw_argv(redisContext *redis, int argc, const char **argv, const size_t *lens);     /* lens NULL: strings */
const char *raw_show(const redisReply *reply);

/* An integer, or a string that is one. Any other reply ends the test. */
int64_t raw_int(redisContext *redis, const char *format, ...);

/* The next message on a subscribed or monitoring connection, in raw's notation; NULL: none within WAIT_MS. */
const char *raw_next(redisContext *redis);
const char *raw_next_within(redisContext *redis, int64_t ms);

/* One lock on the server. */
int64_t raw_pttl(redisContext *redis, const char *lock);                /* -2: free */
const char *raw_holder(redisContext *redis, const char *lock);          /* its only field, or a string; "": free */
/* Client processes that wait for it: those in its queue or on its channel, whichever are more. */
int64_t raw_listeners(redisContext *redis, const char *lock);
int64_t raw_inboxes(redisContext *redis);                               /* clients that are subscribed to their inbox */
int64_t raw_clients(redisContext *redis, const char *type);             /* of CLIENT LIST TYPE normal | pubsub */
void raw_channel(char *buf, size_t size, const char *lock);             /* as docs/protocol.md builds it */
int64_t raw_stat(redisContext *redis, const char *field);               /* a number of INFO; -1: not found */
int64_t raw_calls(redisContext *redis, const char *command);            /* how often it has run, also in scripts */
int64_t raw_errors(redisContext *redis, const char *code);              /* how often the server has answered so */

#endif
