/* scripts.h - what the tests of the scripts in lua/ share: a server, the scripts as functions, and what is there and
 * was said afterwards. The texts are the embedded ones, run by EVAL as the user the library would be.
 *
 * Clients here are channels that somebody listens to, or nobody: listen(INBOX(CLIENT_B)) makes B's client alive. */
#ifndef HLK_TEST_SCRIPTS_H
#define HLK_TEST_SCRIPTS_H

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
#define QUEUE "hasplock_queue:{t}"
#define TOKEN "redisson_lock_token:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define INBOX(client) "hasplock_inbox:" client
#define CLIENT_A "hlk-a-1-x"
#define CLIENT_B "hlk-b-2-y"
#define CLIENT_C "hlk-c-3-z"
#define A CLIENT_A ":1"
#define B CLIENT_B ":7"
#define C CLIENT_C ":9"
#define FOREIGN "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"

/* A place in the queue. Granted, the lock's ttl is 5 s. */
#define PLACE(hold) hold " 5000 0 0 1700000000000"
/* The same of who takes `tokens` tokens above `floor`. */
#define FENCED(hold, tokens, floor) hold " 5000 " #tokens " " #floor " 1700000000000"

static inline void scripts_start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

static inline void scripts_stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

#define SCRIPTS_SUITE(name) TestSuite(name, .init = scripts_start, .fini = scripts_stop, .timeout = 60)

/* --- the scripts as functions, their replies as text */

static inline const char *acquire(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, LOCK, QUEUE, script_number(lease_ms), hold, NULL);
}

/* The same, and in line if it is not to be had. */
static inline const char *enqueue(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, LOCK, QUEUE, "30000", hold, member, NULL);
}

static inline const char *end(const char *hold, int64_t void_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_END, 2, LOCK, QUEUE, hold, CHANNEL, void_ms ? script_number(void_ms) : NULL,
                      NULL);
}

/* As a waiter, who may have a place. */
static inline const char *leave(const char *hold, int64_t void_ms, const char *member)
{
    return script_run(user, HLK_SCRIPT_LOCK_END, 2, LOCK, QUEUE, hold, CHANNEL, script_number(void_ms), "0", member,
                      NULL);
}

/* With an open window. */
static inline const char *end_open(const char *hold, int64_t open_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_END, 2, LOCK, QUEUE, hold, CHANNEL, "0", script_number(open_ms), NULL);
}

static inline const char *reacquire(const char *hold, int64_t count, int64_t lease_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_REACQUIRE, 1, LOCK, hold, script_number(count), script_number(lease_ms),
                      NULL);
}

static inline const char *renew(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_RENEW, 1, LOCK, hold, script_number(lease_ms), NULL);
}

static inline const char *lock_break(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_BREAK, 3, LOCK, QUEUE, TOKEN, CHANNEL, NULL);
}

static inline const char *query(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_QUERY, 2, LOCK, QUEUE, CHANNEL, "3", NULL);
}

/* --- what is there */

static inline int by_name(const void *a, const void *b)
{
    return strcmp((*(redisReply *const *)a)->str, (*(redisReply *const *)b)->str);
}

/* Every key with its value, as one text: what must not change is compared whole. Times to live and scores are asked
 * for apart. */
static inline const char *everything(void)
{
    static _Thread_local char texts[4][4096], key[256];
    static _Thread_local int next;
    char *text = texts[next++ % 4];
    size_t len = 0, size = sizeof texts[0];
    redisReply *keys = redisCommand(admin, "KEYS *");
    if (keys->elements > 0)
        qsort(keys->element, keys->elements, sizeof *keys->element, by_name);
    text[0] = '\0';
    for (size_t i = 0; i < keys->elements; i++) {
        snprintf(key, sizeof key, "%s", keys->element[i]->str);
        const char *type = raw(admin, "TYPE %s", key), *value = "";
        if (strcmp(type, "hash") == 0)
            value = raw(admin, "HGETALL %s", key);
        else if (strcmp(type, "zset") == 0)
            value = raw(admin, "ZRANGE %s 0 -1", key);
        else
            value = raw(admin, "GET %s", key);
        len += (size_t)snprintf(text + len, size - len, "%s %s %s; ", key, type, value);
    }
    freeReplyObject(keys);
    return text;
}

#define HELD_BY_A "t hash [\"" A "\", \"1\"]; "
#define HELD_BY_B "t hash [\"" B "\", \"1\"]; "
#define VOID_OF_A QUEUE " zset [\"" A "\"]; "

/* The whole queue in its order, void entries first, an open window last. */
static inline const char *in_line(void)
{
    return raw(admin, "ZRANGE %s 0 -1", QUEUE);
}

static inline int64_t score(const char *member)
{
    return raw_int(admin, "ZSCORE %s %s", QUEUE, member);
}

static inline int64_t server_now_ms(void)
{
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return now;
}

static inline bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

/* A ttl that was just set to `ms`. Slow machines may have used some of it, never all. */
static inline bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

static inline void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}

/* The text of the answer to who does not get the lock: "<holder> <place>". Its ttl is asked for by answered_ttl. */
static inline const char *answered(const char *answer)
{
    static _Thread_local char text[256];
    long long ttl = 0, place = 0;
    char holder[128] = "";
    int n = sscanf(answer, "[:%lld, \"%127[^\"]\", :%lld]", &ttl, holder, &place);
    if (n != 3 && sscanf(answer, "[:%lld, \"\", :%lld]", &ttl, &place) != 2)
        return answer;
    snprintf(text, sizeof text, "%s %lld", holder, place);
    return text;
}

static inline int64_t answered_ttl(const char *answer)
{
    long long ttl = -99;
    cr_assert_eq(sscanf(answer, "[:%lld", &ttl), 1, "%s", answer);
    return ttl;
}

/* --- what was said */

static inline redisContext *listen(const char *channel)
{
    redisContext *redis = raw_open(server);
    cr_assert_not_null(strstr(raw(redis, "SUBSCRIBE %s", channel), ":1]"));
    return redis;
}

/* The messages since the last call, with "; " between them, "" if there were none: a PING on the same connection is
 * answered after all that was published before. */
static inline const char *told(redisContext *listener)
{
    static _Thread_local char texts[4][1024];
    static _Thread_local int next;
    char *text = texts[next++ % 4];
    size_t len = 0;
    text[0] = '\0';
    redisAppendCommand(listener, "PING");
    for (;;) {
        redisReply *reply = NULL;
        if (redisGetReply(listener, (void **)&reply) != REDIS_OK)
            test_give_up("a listener's connection: %s", listener->errstr);
        bool message = reply->elements == 3 && strcmp(reply->element[0]->str, "message") == 0;
        if (message)
            len += (size_t)snprintf(text + len, sizeof texts[0] - len, "%s%s", len ? "; " : "",
                                    reply->element[2]->str);
        freeReplyObject(reply);
        if (!message)
            return text;
    }
}

static redisContext *inbox_a, *inbox_b, *inbox_c, *lock_channel;

static inline void all_listen(void)
{
    inbox_a = listen(INBOX(CLIENT_A));
    inbox_b = listen(INBOX(CLIENT_B));
    inbox_c = listen(INBOX(CLIENT_C));
    lock_channel = listen(CHANNEL);
}

static inline void nobody_listens(void)
{
    redisFree(inbox_a);
    redisFree(inbox_b);
    redisFree(inbox_c);
    redisFree(lock_channel);
}

/* All that was said since the last time: "<to A>|<to B>|<to C>|<on the channel>". */
static inline const char *said(void)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s|%s|%s|%s", told(inbox_a), told(inbox_b), told(inbox_c), told(lock_channel));
    return text;
}

/* Whether anything was published since the server started: by the count of PUBLISH calls, subscribers or not. */
static inline bool was_published(void)
{
    redisReply *stats = redisCommand(admin, "INFO commandstats");
    bool found = strstr(stats->str, "cmdstat_publish:") != NULL;
    freeReplyObject(stats);
    return found;
}

#endif
