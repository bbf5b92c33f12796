#include "support/raw.h"

#include "support/wait.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { TEXTS = 16, TEXT_SIZE = 4096 };

struct text {
    char *at;
    size_t left;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    size_t used = len < 0 ? 0 : (size_t)len < text->left ? (size_t)len : text->left - 1;
    text->at += used;
    text->left -= used;
}

static void add_reply(struct text *text, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_NIL:
        add(text, "(nil)");
        break;
    case REDIS_REPLY_INTEGER:
        add(text, ":%lld", reply->integer);
        break;
    case REDIS_REPLY_STRING:
        add(text, "\"%s\"", reply->str);
        break;
    case REDIS_REPLY_STATUS:
        add(text, "%s", reply->str);
        break;
    case REDIS_REPLY_ERROR:
        add(text, "-%s", reply->str);
        break;
    case REDIS_REPLY_ARRAY:
        add(text, "[");
        for (size_t i = 0; i < reply->elements; i++) {
            add(text, i ? ", " : "");
            add_reply(text, reply->element[i]);
        }
        add(text, "]");
        break;
    default:
        add(text, "(type %d)", reply->type);
    }
}

const char *raw_show(const redisReply *reply)
{
    static _Thread_local char texts[TEXTS][TEXT_SIZE];
    static _Thread_local unsigned next;
    struct text text = { texts[next++ % TEXTS], TEXT_SIZE };
    char *begin = text.at;
    add_reply(&text, reply);
    return begin;
}

static void check(const redisContext *redis, const void *reply)
{
    if (!reply)
        test_give_up("raw connection to the server: %s", redis->errstr);
}

redisContext *raw_open_as(const struct server *server, const char *user, const char *password)
{
    redisContext *redis = redisConnectUnix(server->socket);
    if (!redis || redis->err)
        test_give_up("raw connection to %s: %s", server->socket, redis ? redis->errstr : "no memory");
    struct timeval limit = { WAIT_MS / 1000, 0 };
    redisSetTimeout(redis, limit);
    if (password) {
        const char *answer = user ? raw(redis, "AUTH %s %s", user, password) : raw(redis, "AUTH %s", password);
        if (strcmp(answer, "OK") != 0)
            test_give_up("raw connection to %s: %s", server->socket, answer);
    }
    return redis;
}

redisContext *raw_open(const struct server *server)
{
    return raw_open_as(server, NULL, server->acl ? SERVER_ADMIN_PASSWORD : NULL);
}

static const char *take(redisContext *redis, redisReply *reply)
{
    check(redis, reply);
    const char *text = raw_show(reply);
    freeReplyObject(reply);
    return text;
}

const char *raw(redisContext *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(redis, format, args);
    va_end(args);
    return take(redis, reply);
}

const char *raw_argv(redisContext *redis, int argc, const char **argv, const size_t *lens)
{
    return take(redis, redisCommandArgv(redis, argc, argv, lens));
}

int64_t raw_int(redisContext *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(redis, format, args);
    va_end(args);
    check(redis, reply);
    int64_t number = reply->integer;
    if (reply->type == REDIS_REPLY_STRING)
        number = strtoll(reply->str, NULL, 10);
    else if (reply->type != REDIS_REPLY_INTEGER)
        test_give_up("%s: a number was expected, not %s", format, raw_show(reply));
    freeReplyObject(reply);
    return number;
}

const char *raw_next_within(redisContext *redis, int64_t ms)
{
    struct timeval limit = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000 };
    void *reply = NULL;
    redisSetTimeout(redis, limit);
    if (redisGetReply(redis, &reply) == REDIS_OK)
        return take(redis, reply);
    if (redis->err != REDIS_ERR_IO || errno != EAGAIN)
        test_give_up("raw connection to the server: %s", redis->errstr);
    redis->err = 0; /* a timeout without input: the stream is intact, only hiredis marks it as broken */
    redis->errstr[0] = '\0';
    return NULL;
}

const char *raw_next(redisContext *redis)
{
    return raw_next_within(redis, WAIT_MS);
}

void raw_channel(char *buf, size_t size, const char *lock)
{
    snprintf(buf, size, strchr(lock, '{') ? "redisson_lock__channel:%s" : "redisson_lock__channel:{%s}", lock);
}

int64_t raw_pttl(redisContext *redis, const char *lock)
{
    return raw_int(redis, "PTTL %s", lock);
}

const char *raw_holder(redisContext *redis, const char *lock)
{
    static _Thread_local char holder[256];
    redisReply *reply = redisCommand(redis, "HKEYS %s", lock);
    check(redis, reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        reply = redisCommand(redis, "MGET %s", lock);
        check(redis, reply);
    }
    snprintf(holder, sizeof holder, "%s", reply->elements && reply->element[0]->str ? reply->element[0]->str : "");
    if (reply->elements > 1)
        test_give_up("%s has more than one holder: %s", lock, raw_show(reply));
    freeReplyObject(reply);
    return holder;
}

int64_t raw_listeners(redisContext *redis, const char *lock)
{
    char channel[640], queue[640];
    raw_channel(channel, sizeof channel, lock);
    snprintf(queue, sizeof queue, strchr(lock, '{') ? "hasplock_queue::%s" : "hasplock_queue:{%s}", lock);
    redisReply *reply = redisCommand(redis, "PUBSUB NUMSUB %s", channel);
    check(redis, reply);
    int64_t number = reply->elements == 2 ? reply->element[1]->integer : -1;
    freeReplyObject(reply);
    reply = redisCommand(redis, "ZCOUNT %s 1 1e15", queue);
    check(redis, reply);
    if (reply->integer > number)
        number = reply->integer;
    freeReplyObject(reply);
    return number;
}

int64_t raw_inboxes(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "PUBSUB CHANNELS hasplock_inbox:*");
    check(redis, reply);
    int64_t number = (int64_t)reply->elements;
    freeReplyObject(reply);
    return number;
}

int64_t raw_clients(redisContext *redis, const char *type)
{
    redisReply *reply = redisCommand(redis, "CLIENT LIST TYPE %s", type);
    check(redis, reply);
    int64_t lines = 0;
    for (const char *at = reply->str; at && (at = strchr(at, '\n')); at++)
        lines++;
    freeReplyObject(reply);
    return lines;
}

int64_t raw_stat(redisContext *redis, const char *field)
{
    char needle[128];
    redisReply *reply = redisCommand(redis, "INFO everything");
    check(redis, reply);
    snprintf(needle, sizeof needle, "\n%s:", field);
    const char *at = strstr(reply->str, needle);
    int64_t number = at ? strtoll(at + strlen(needle), NULL, 10) : -1;
    freeReplyObject(reply);
    return number;
}

/* "<kind>_<name>:<count>=7" */
static int64_t count_of(redisContext *redis, const char *section, const char *kind, const char *name, const char *count)
{
    char needle[128];
    redisReply *reply = redisCommand(redis, "INFO %s", section);
    check(redis, reply);
    snprintf(needle, sizeof needle, "\n%s_%s:%s=", kind, name, count);
    const char *at = strstr(reply->str, needle);
    int64_t number = at ? strtoll(at + strlen(needle), NULL, 10) : 0;
    freeReplyObject(reply);
    return number;
}

int64_t raw_calls(redisContext *redis, const char *command)
{
    return count_of(redis, "commandstats", "cmdstat", command, "calls");
}

int64_t raw_errors(redisContext *redis, const char *code)
{
    return count_of(redis, "errorstats", "errorstat", code, "count");
}
