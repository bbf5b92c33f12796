#include "diagnose/sentinels.h"

#include "base/debug.h"
#include "base/mutex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 1000 /* a Sentinel is near, or of no use */

static void take_named_master(struct hlk_exam_sentinels *sentinels, const char *host, int port)
{
    if (sentinels->know++ == 0) {
        (void)snprintf(sentinels->host, sizeof sentinels->host, "%s", host);
        sentinels->port = port;
    } else if (strcmp(sentinels->host, host) != 0 || sentinels->port != port) {
        sentinels->differ = true;
    }
}

static void set_why(struct hlk_exam_sentinels *sentinels, const char *why)
{
    struct hlk_text text;
    hlk_text_init(&text, sentinels->why, sizeof sentinels->why);
    hlk_text_add_shown(&text, why, strlen(why));
}

void hlk_exam_take_sentinel(struct hlk_exam_sentinels *sentinels, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(reply);
    bool address =
        reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str && reply->element[1]->str;
    if (reply->type == REDIS_REPLY_ERROR) {
        set_why(sentinels, reply->str);
        return;
    }
    sentinels->answered++;
    if (address)
        take_named_master(sentinels, reply->element[0]->str, atoi(reply->element[1]->str));
}

static void build_url(char *url, size_t size, const struct hlk_host *host, bool tls)
{
    bool v6 = strchr(host->name, ':') != NULL;
    (void)snprintf(url, size, "redis%s://%s%s%s:%d", tls ? "s" : "", v6 ? "[" : "", host->name, v6 ? "]" : "",
                   host->port);
}

static enum hlk_status ask_for_master(struct hlk_exchange *exchange, const char *service, redisReply **reply)
{
    const char *argv[] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service };
    enum hlk_status status = hlk_exchange_open(exchange);
    if (status == HLK_OK && !hlk_exchange_add(exchange, 3, argv))
        status = hlk_error_set(&exchange->error, HLK_E_NOMEM, "no memory");
    return status == HLK_OK ? hlk_exchange_ask(exchange, reply) : status;
}

static enum hlk_status ask_sentinel(struct hlk_exam_sentinels *sentinels, const char *url, const char *service,
                                    const struct hlk_exchange_login *login, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_exchange exchange;
    redisReply *reply = NULL;
    enum hlk_status status = hlk_exchange_init(&exchange, url, login);
    if (status == HLK_OK)
        status = ask_for_master(&exchange, service, &reply);
    if (reply)
        hlk_exam_take_sentinel(sentinels, reply);
    else
        set_why(sentinels, exchange.error.text);
    if (reply)
        freeReplyObject(reply);
    *error = exchange.error;
    hlk_exchange_close(&exchange);
    return status;
}

enum hlk_status hlk_exam_ask_sentinels(struct hlk_exam_sentinels *sentinels, const struct hlk_url *url,
                                       const struct hlk_exchange_login *login, struct hlk_error *error)
{
    struct hlk_exchange_login brief = *login;
    if (brief.reply_timeout_ms > TIMEOUT_MS)
        brief.reply_timeout_ms = TIMEOUT_MS;
    for (; sentinels->asked < url->host_count; sentinels->asked++) {
        char text[320];
        build_url(text, sizeof text, &url->hosts[sentinels->asked], url->tls);
        enum hlk_status status = ask_sentinel(sentinels, text, url->service, &brief, error);
        if (status == HLK_E_NOMEM || status == HLK_E_OS)
            return status;
    }
    return HLK_OK;
}
