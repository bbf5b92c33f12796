/* fair_scripts.h - what the tests of lua/fair_*.lua share: a server, the scripts as functions, and what is there
 * afterwards. The texts are the embedded ones, run by EVAL as the user the library would be. */
#ifndef HLK_TEST_FAIR_SCRIPTS_H
#define HLK_TEST_FAIR_SCRIPTS_H

#include "support/acl.h"
#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct server *server;
static redisContext *user;  /* runs the scripts */
static redisContext *admin; /* looks */

#define LOCK "t"
#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"
#define VOID "hasplock_fair:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:7"
#define C "hlk-b-2-y:8"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define JAVA2 "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:2"
#define PATIENCE 300000

static inline void fair_scripts_start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

static inline void fair_scripts_stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

/* --- the scripts as functions, their replies as text */

static inline const char *run(int64_t lease_ms, const char *hold, const char *join)
{
    return script_run(user, HLK_SCRIPT_FAIR_ACQUIRE, 4, LOCK, QUEUE, SCORES, VOID, script_number(lease_ms), hold,
                      CHANNEL, script_number(PATIENCE), join, NULL);
}

static inline const char *try(int64_t lease_ms, const char *hold)
{
    return run(lease_ms, hold, "0");
}

static inline const char *join(const char *hold)
{
    return run(30000, hold, "1");
}

static inline const char *end(const char *hold, int64_t void_ms)
{
    return script_run(user, HLK_SCRIPT_FAIR_END, 4, LOCK, QUEUE, SCORES, VOID, hold, CHANNEL, script_number(PATIENCE),
                      script_number(void_ms), NULL);
}

static inline const char *fair_break(void)
{
    return script_run(user, HLK_SCRIPT_FAIR_BREAK, 2, LOCK, QUEUE, CHANNEL, NULL);
}

static inline const char *query(const char *most)
{
    return script_run(user, HLK_SCRIPT_FAIR_QUERY, 2, LOCK, QUEUE, most, NULL);
}

/* An answer "not yet". */
struct busy {
    long long ms, place;
    char holder[64];
};

static inline struct busy busy(const char *reply)
{
    struct busy got = { -99, -99, "" };
    char copy[256];
    snprintf(copy, sizeof copy, "%s", reply);
    int n = sscanf(copy, "[:%lld, \"%63[^\"]\", :%lld]", &got.ms, got.holder, &got.place);
    if (n == 1)
        n = sscanf(copy, "[:%lld, \"\", :%lld]", &got.ms, &got.place) + 1;
    cr_assert_eq(n, 3, "%s", copy);
    return got;
}

/* --- what is there */

static inline const char *queue(void)
{
    return raw(admin, "LRANGE " QUEUE " 0 -1");
}

static inline int64_t score(const char *waiter)
{
    return raw_int(admin, "ZSCORE " SCORES " %s", waiter);
}

static inline int64_t server_ms(void)
{
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return now;
}

/* Queue and scores name the same waiters. */
static inline bool in_step(void)
{
    redisReply *queued = redisCommand(admin, "LRANGE " QUEUE " 0 -1");
    bool same = raw_int(admin, "ZCARD " SCORES) == (int64_t)queued->elements;
    for (size_t i = 0; i < queued->elements; i++)
        same = same && strcmp(raw(admin, "ZSCORE " SCORES " %s", queued->element[i]->str), "(nil)") != 0;
    freeReplyObject(queued);
    return same;
}

static inline bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

/* A ttl or moment that was just set. Slow machines may have used some of it, never all. */
static inline bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

static inline bool nothing_is_left(void)
{
    return raw_int(admin, "DBSIZE") == 0;
}

static inline redisContext *listens(const char *waiter)
{
    redisContext *redis = raw_open(server);
    raw(redis, "SUBSCRIBE " CHANNEL ":%s", waiter);
    return redis;
}

static inline bool was_called(redisContext *listener)
{
    const char *message = raw_next(listener);
    return message && strstr(message, "\"message\"") && strstr(message, "\"0\"]");
}

static inline bool was_not_called(redisContext *listener)
{
    return raw_next_within(listener, 50) == NULL;
}

/* Somebody of Redisson's, as its own script would have put it there. */
static inline void java_waits(const char *waiter, int64_t score_ms)
{
    raw(admin, "RPUSH " QUEUE " %s", waiter);
    raw(admin, "ZADD " SCORES " %lld %s", (long long)score_ms, waiter);
}

/* The lock's holder is gone, and no script has said so. */
static inline void expires(void)
{
    cr_assert_eq(raw_int(admin, "DEL " LOCK), 1);
}

/* Time goes by: what the queue's first has been given is over. */
static inline void its_chance_is_over(void)
{
    redisReply *mark = redisCommand(admin, "ZRANGEBYSCORE " VOID " 1 +inf");
    cr_assert_eq(mark->elements, 1, "nobody was given a chance");
    const char *argv[] = { "ZADD", VOID, "1000", mark->element[0]->str };
    raw_argv(admin, 4, argv, NULL);
    freeReplyObject(mark);
}

static inline void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}

#define FAIR_SCRIPTS_SUITE(name) TestSuite(name, .init = fair_scripts_start, .fini = fair_scripts_stop, .timeout = 60)

#endif
