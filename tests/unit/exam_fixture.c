#include "exam_fixture.h"

#include "net/resp.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct hlk_exam exam;
struct hlk_found found;
static struct hlk_url url;

static const char good[] = "redis_version:7.0.15\n"
                           "role:master\n"
                           "cluster_enabled:0\n"
                           "connected_slaves:0\n"
                           "connected_clients:3\n"
                           "maxclients:10000\n"
                           "used_memory:1000000\n"
                           "maxmemory:0\n"
                           "maxmemory_policy:noeviction\n"
                           "aof_enabled:1\n"
                           "aof_last_write_status:ok\n"
                           "rdb_last_bgsave_status:ok\n";

void exam_url(const char *text)
{
    struct hlk_error error;
    hlk_url_fini(&url);
    memset(&url, 0, sizeof url);
    cr_assert_eq(hlk_url_parse(&url, text, &error), HLK_OK, "%s", error.text);
    exam.url = &url;
}

void exam_answer(enum hlk_ask ask, const char *resp)
{
    redisReply **reply = &exam.answers.reply[ask];
    const char *why = NULL;
    if (*reply)
        freeReplyObject(*reply);
    *reply = NULL;
    if (!resp)
        return;
    struct hlk_resp *reader = hlk_resp_create();
    for (const char *at = resp; *at; at++) /* one by one: a string of INFO has its own ends of lines */
        cr_assert(*at == '\n' ? hlk_resp_feed(reader, "\r\n", 2) : hlk_resp_feed(reader, at, 1));
    *reply = hlk_resp_next(reader, &why);
    cr_assert(*reply && !why, "%s: %s", resp, why ? why : "not whole");
    hlk_resp_destroy(reader);
}

static size_t sent_length(const char *text)
{
    size_t len = 0;
    for (; *text; text++)
        len += *text == '\n' ? 2 : 1;
    return len;
}

void exam_string(enum hlk_ask ask, const char *text)
{
    char resp[4096];
    snprintf(resp, sizeof resp, "$%zu\n%s\n", sent_length(text), text);
    exam_answer(ask, resp);
}

void exam_info(const char *lines)
{
    char text[2048];
    snprintf(text, sizeof text, "# Server\n%s%s", lines, good);
    exam_string(HLK_ASK_INFO, text);
}

void exam_config(enum hlk_ask ask, const char *value)
{
    char resp[512];
    snprintf(resp, sizeof resp, "*2\n$4\nname\n$%zu\n%s\n", strlen(value), value);
    exam_answer(ask, resp);
}

void exam_refuse(enum hlk_ask ask)
{
    exam_answer(ask, "-NOPERM this user has no permissions to run the 'x' command\n");
}

void exam_start(void)
{
    memset(&exam, 0, sizeof exam);
    exam_url("redis://bob:secret@10.0.0.7");
    exam.user = "bob";
    exam.has_password = exam.pubsub = true;
    exam.prefix = "app:";
    exam.id = "hasplock_doctor:1";
    exam.lease_ms = 30000;
    exam.lookup_us = 1000;
    exam.addresses = 1;
    exam.connect_us = 2000;
    exam.pings = (struct hlk_round_trips){ 200, 300, 900, 1000 };
    exam.clocks = (struct hlk_clocks){ 1000000, 500, 100, 50, 200 };
    exam_info("");
    exam_answer(HLK_ASK_ROLE, "*3\n$6\nmaster\n:0\n*0\n");
    exam_answer(HLK_ASK_SENTINELS, "*2\n$18\n__sentinel__:hello\n:0\n");
    exam_answer(HLK_ASK_SELECT, "+OK\n");
    exam_answer(HLK_ASK_SLOWLOG, "*0\n");
    exam_answer(HLK_ASK_LATENCY, "*0\n");
    exam_answer(HLK_ASK_RIGHTS, "*0\n");
    exam_string(HLK_ASK_COMMANDSTATS, "# Commandstats\n");
    exam_config(HLK_ASK_POLICY, "noeviction");
    exam_config(HLK_ASK_MAXMEMORY, "0");
    exam_config(HLK_ASK_SAVE, "");
    exam_config(HLK_ASK_APPENDONLY, "yes");
    exam_config(HLK_ASK_APPENDFSYNC, "always");
    exam_config(HLK_ASK_MIN_REPLICAS, "0");
    exam_config(HLK_ASK_BUFFERS, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
    exam_config(HLK_ASK_TIMEOUT, "0");
    exam_config(HLK_ASK_KEEPALIVE, "300");
    exam_config(HLK_ASK_BUSY, "5000");
}

void exam_stop(void)
{
    for (int ask = 0; ask < HLK_ASK_COUNT; ask++)
        exam_answer((enum hlk_ask)ask, NULL);
    hlk_url_fini(&url);
}

static void has(const char *which, const char *text, const char *words)
{
    if (words)
        cr_assert(strstr(text, words), "%s: \"%s\" lacks \"%s\"", which, text, words);
    else
        cr_assert_str_empty(text, "%s: \"%s\"", which, text);
}

void exam_judge(hlk_check_fn *check, enum hlk_finding_level level, const char *measured, const char *meaning,
                const char *advice)
{
    hlk_found_init(&found);
    check(&exam, &found);
    cr_assert(found.applies);
    has("measured", found.measured.buf, measured);
    has("meaning", found.meaning.buf, meaning);
    has("advice", found.advice.buf, advice);
    cr_assert_eq(found.level, level, "%s: %d", found.measured.buf, (int)found.level);
}
