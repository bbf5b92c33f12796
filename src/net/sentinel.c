#include "net/sentinel.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define SWITCHED "+switch-master"
#define REDIAL_FIRST_MS 100
#define REDIAL_MOST_MS 5000

/* The answers of a round, in their order. */
enum question { UNSUBSCRIBED, ADDRESS, MASTER, MY_ID, OTHERS, SUBSCRIBED, QUESTIONS };

bool hlk_sentinel_round(struct hlk_buffer *round, const char *service)
{
    const char *const words[QUESTIONS][3] = {
        [UNSUBSCRIBED] = { "UNSUBSCRIBE", SWITCHED },    [ADDRESS] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service },
        [MASTER] = { "SENTINEL", "MASTER", service },    [MY_ID] = { "SENTINEL", "MYID" },
        [OTHERS] = { "SENTINEL", "SENTINELS", service }, [SUBSCRIBED] = { "SUBSCRIBE", SWITCHED },
    };
    bool ok = true;
    for (int i = 0; i < QUESTIONS && ok; i++) {
        const char *argv[] = { words[i][0], words[i][1], words[i][2] };
        ok = hlk_buffer_add_command(round, argv[2] ? 3 : 2, argv, NULL);
    }
    return ok;
}

static void sentinel_wake_in(struct hlk_sentinel *sentinel, int64_t ms)
{
    hlk_loop_assert_here(sentinel->loop);
    HLK_DEBUG_ASSERT(ms >= 0);
    hlk_loop_arm(sentinel->loop, &sentinel->alarm, hlk_clock_after(hlk_clock_ms(), ms));
}

static void sentinel_hang_up(struct hlk_sentinel *sentinel)
{
    hlk_loop_assert_here(sentinel->loop);
    hlk_loop_unwatch(sentinel->loop, &sentinel->io);
    hlk_conn_reset(&sentinel->conn);
    hlk_buffer_clear(&sentinel->out);
    sentinel->due = 0;
}

static void sentinel_fail(struct hlk_sentinel *sentinel, const struct hlk_error *why)
{
    hlk_loop_assert_here(sentinel->loop);
    sentinel_hang_up(sentinel);
    sentinel->error = *why;
    sentinel->asking = sentinel->switched = false;
    sentinel_wake_in(sentinel, hlk_backoff_next(&sentinel->backoff));
    sentinel->owner.on_failure(sentinel->owner.ctx, sentinel);
}

/* --- a round's answers --- */

static bool is_array_of(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, word) == 0;
}

/* The value of a field, in a flat array of fields and values; "": it is not there. */
static const char *field_of(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return "";
}

/* False: that is no address. */
static bool take_named_address(char host[HLK_DIAL_HOST], int *port, const char *ip, const char *number)
{
    char *end;
    long value = strtol(number, &end, 10);
    if (!*ip || strlen(ip) >= HLK_DIAL_HOST || *end || value < 1 || value > 65535)
        return false;
    strcpy(host, ip);
    *port = (int)value;
    return true;
}

static bool take_master(struct hlk_sentinel *sentinel, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL)
        return true;
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_STRING &&
           take_named_address(sentinel->next.host, &sentinel->next.port, reply->element[0]->str,
                              reply->element[1]->str);
}

static void take_others(struct hlk_sentinel *sentinel, const redisReply *reply)
{
    char host[HLK_DIAL_HOST];
    int port;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *other = reply->element[i];
        if (take_named_address(host, &port, field_of(other, "ip"), field_of(other, "port")))
            sentinel->owner.on_other(sentinel->owner.ctx, host, port, field_of(other, "runid"));
    }
}

/* False: not an answer to that question, or a question that matters was refused. */
static bool take_answer(struct hlk_sentinel *sentinel, enum question question, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(question < QUESTIONS);
    switch (question) {
    case UNSUBSCRIBED:
        return is_array_of(reply, "unsubscribe");
    case ADDRESS:
        return take_master(sentinel, reply);
    case MASTER:
        sentinel->next.epoch = strtoull(field_of(reply, "config-epoch"), NULL, 10);
        return true;
    case MY_ID: /* Redis before 6.2 does not know that */
        if (reply->type == REDIS_REPLY_STRING)
            (void)snprintf(sentinel->id, sizeof sentinel->id, "%s", reply->str);
        return true;
    case OTHERS:
        take_others(sentinel, reply);
        return true;
    case SUBSCRIBED:
        return is_array_of(reply, "subscribe");
    default:
        return false;
    }
}

static void end_asking_round(struct hlk_sentinel *sentinel)
{
    HLK_DEBUG_ASSERT(sentinel->asking && sentinel->due == 0);
    sentinel->before = sentinel->answer;
    sentinel->answer = sentinel->next;
    sentinel->asking = false;
    hlk_backoff_reset(&sentinel->backoff);
    sentinel_wake_in(sentinel, HLK_SENTINEL_POLL_MS);
    sentinel->owner.on_answer(sentinel->owner.ctx, sentinel);
    sentinel->switched = false;
}

/* "name oldip oldport newip newport". Only the name is read: the round that follows also gets the epoch. */
static bool concerns_service(const struct hlk_sentinel *sentinel, const redisReply *message)
{
    HLK_DEBUG_ASSERT(message->elements == 3);
    const redisReply *text = message->element[2];
    size_t len = strlen(sentinel->service);
    return text->type == REDIS_REPLY_STRING && strncmp(text->str, sentinel->service, len) == 0 && text->str[len] == ' ';
}

/* False: the connection is to be dropped, see error. */
static bool sentinel_take_reply(struct hlk_sentinel *sentinel, const redisReply *reply, struct hlk_error *error)
{
    hlk_loop_assert_here(sentinel->loop);
    if (is_array_of(reply, "message")) {
        if (concerns_service(sentinel, reply)) {
            sentinel->switched = true;
            hlk_sentinel_ask(sentinel);
        }
        return true;
    }
    if (sentinel->due == 0) {
        (void)hlk_error_set(error, HLK_E_CONNECT, "a reply came without a command");
        return false;
    }
    if (!take_answer(sentinel, QUESTIONS - sentinel->due, reply)) {
        bool refused = reply->type == REDIS_REPLY_ERROR;
        bool right = refused && (strncmp(reply->str, "NOAUTH", 6) == 0 || strncmp(reply->str, "NOPERM", 6) == 0);
        (void)hlk_error_set(error, right ? HLK_E_AUTH : HLK_E_CONNECT, "%s",
                            refused ? reply->str : "what it answers is no answer of a sentinel");
        return false;
    }
    if (--sentinel->due == 0)
        end_asking_round(sentinel);
    return true;
}

/* --- the connection --- */

static void sentinel_flush(struct hlk_sentinel *sentinel)
{
    HLK_DEBUG_ASSERT(sentinel->conn.fd >= 0);
    struct hlk_error error;
    bool ok = hlk_conn_send(&sentinel->conn, &sentinel->out, &error);
    unsigned events = hlk_buffer_empty(&sentinel->out) ? EPOLLIN : EPOLLIN | EPOLLOUT;
    if (!ok || hlk_loop_watch(sentinel->loop, &sentinel->io, sentinel->conn.fd, events, &error) != HLK_OK)
        sentinel_fail(sentinel, &error);
}

/* Reads once: what a sentinel sends without end comes with the next events, and the loop does its other work between
 * them. */
static void sentinel_on_io(struct hlk_watch *io, unsigned events)
{
    struct hlk_sentinel *sentinel = HLK_CONTAINER(io, struct hlk_sentinel, io);
    hlk_loop_assert_here(sentinel->loop);
    struct hlk_error error;
    redisReply *reply;
    (void)events;
    int got = hlk_conn_recv(&sentinel->conn, &error);
    bool broken = got < 0;
    while (got > 0 && !broken && (reply = hlk_conn_reply(&sentinel->conn, &broken, &error))) {
        broken = !sentinel_take_reply(sentinel, reply, &error);
        freeReplyObject(reply);
        if (sentinel->conn.fd < 0) /* a round that followed failed */
            return;
    }
    if (broken)
        sentinel_fail(sentinel, &error);
    else if (!hlk_buffer_empty(&sentinel->out))
        sentinel_flush(sentinel);
}

static void begin_round(struct hlk_sentinel *sentinel)
{
    HLK_DEBUG_ASSERT(sentinel->asking && sentinel->due == 0 && sentinel->conn.fd >= 0);
    if (!hlk_buffer_add(&sentinel->out, sentinel->round->data, sentinel->round->len)) {
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_NOMEM, "no memory");
        sentinel_fail(sentinel, &error);
        return;
    }
    memset(&sentinel->next, 0, sizeof sentinel->next);
    sentinel->due = QUESTIONS;
    sentinel_wake_in(sentinel, sentinel->endpoint.reply_timeout_ms);
    sentinel_flush(sentinel);
}

static void sentinel_on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct hlk_sentinel *sentinel = ctx;
    hlk_loop_assert_here(sentinel->loop);
    if (!conn) {
        sentinel_fail(sentinel, error);
        return;
    }
    sentinel->conn = *conn;
    memset(&sentinel->error, 0, sizeof sentinel->error);
    begin_round(sentinel);
}

void hlk_sentinel_ask(struct hlk_sentinel *sentinel)
{
    hlk_loop_assert_here(sentinel->loop);
    if (sentinel->asking)
        return;
    sentinel->asking = true;
    if (sentinel->conn.fd >= 0) {
        begin_round(sentinel);
        return;
    }
    hlk_loop_cancel(sentinel->loop, &sentinel->alarm);
    hlk_dial_start(&sentinel->dial);
}

static void sentinel_on_alarm(struct hlk_alarm *alarm)
{
    struct hlk_sentinel *sentinel = HLK_CONTAINER(alarm, struct hlk_sentinel, alarm);
    hlk_loop_assert_here(sentinel->loop);
    if (!sentinel->asking) {
        hlk_sentinel_ask(sentinel);
        return;
    }
    struct hlk_error error;
    (void)hlk_error_set(&error, HLK_E_CONNECT, "no answer for %lld ms", (long long)sentinel->endpoint.reply_timeout_ms);
    sentinel_fail(sentinel, &error);
}

/* --- making and ending --- */

static bool set_master_url(struct hlk_url *url, bool tls, const char *host, int port, const char *username,
                           const char *password)
{
    memset(url, 0, sizeof *url);
    url->kind = HLK_URL_TCP;
    url->tls = tls;
    url->hosts = hlk_mem_zalloc(sizeof *url->hosts);
    if (!url->hosts)
        return false;
    url->host_count = 1;
    url->hosts->port = port;
    url->hosts->name = hlk_mem_strdup(host);
    url->username = hlk_mem_strdup(username);
    url->password = hlk_mem_strdup(password);
    return url->hosts->name && !url->username == !username && !url->password == !password;
}

struct hlk_sentinel *hlk_sentinel_create(hlk_loop *loop, const struct hlk_endpoint *like, const char *host, int port,
                                         const char *username, const char *password, const struct hlk_buffer *round,
                                         const struct hlk_sentinel_owner *owner)
{
    hlk_loop_assert_here(loop);
    struct hlk_sentinel *sentinel = hlk_mem_zalloc(sizeof *sentinel);
    if (!sentinel)
        return NULL;
    sentinel->loop = loop;
    sentinel->owner = *owner;
    sentinel->service = like->url.service;
    sentinel->round = round;
    (void)snprintf(sentinel->name, sizeof sentinel->name, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    sentinel->endpoint = *like;
    sentinel->endpoint.locator = NULL;
    sentinel->endpoint.credentials = (struct hlk_credentials_source){ NULL, NULL, NULL };
    sentinel->endpoint.is_sentinel = true;
    if (sentinel->endpoint.reply_timeout_ms > HLK_SENTINEL_TIMEOUT_MS)
        sentinel->endpoint.reply_timeout_ms = HLK_SENTINEL_TIMEOUT_MS;
    bool ok = set_master_url(&sentinel->endpoint.url, like->url.tls, host, port, username, password);
    hlk_conn_init(&sentinel->conn);
    hlk_dial_init(&sentinel->dial, loop, &sentinel->endpoint, NULL, sentinel_on_dialled, sentinel);
    hlk_backoff_init(&sentinel->backoff, REDIAL_FIRST_MS, REDIAL_MOST_MS, (uint64_t)hlk_clock_ns());
    sentinel->io.ready = sentinel_on_io;
    sentinel->alarm.fire = sentinel_on_alarm;
    if (ok)
        return sentinel;
    hlk_url_fini(&sentinel->endpoint.url);
    hlk_mem_free(sentinel);
    return NULL;
}

void hlk_sentinel_destroy(struct hlk_sentinel *sentinel)
{
    hlk_loop_assert_here(sentinel->loop);
    hlk_list_remove(&sentinel->link);
    hlk_loop_cancel(sentinel->loop, &sentinel->alarm);
    hlk_dial_stop(&sentinel->dial);
    sentinel_hang_up(sentinel);
    hlk_buffer_fini(&sentinel->out);
    hlk_url_fini(&sentinel->endpoint.url);
    hlk_mem_free(sentinel);
}
