#include "diagnose/answers.h"

#include "base/debug.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_GET(name)                                                                                               \
    {                                                                                                                  \
        "CONFIG", "GET", name, NULL                                                                                    \
    }

static const char *const words[HLK_ASK_COUNT][5] = {
    [HLK_ASK_PING] = { "PING" },
    [HLK_ASK_WHOAMI] = { "ACL", "WHOAMI" },
    [HLK_ASK_INFO] = { "INFO" },
    [HLK_ASK_COMMANDSTATS] = { "INFO", "commandstats" },
    [HLK_ASK_ROLE] = { "ROLE" },
    [HLK_ASK_SENTINELS] = { "PUBSUB", "NUMSUB", "__sentinel__:hello" },
    [HLK_ASK_SLOWLOG] = { "SLOWLOG", "GET", "32" },
    [HLK_ASK_LATENCY] = { "LATENCY", "LATEST" },
    [HLK_ASK_POLICY] = CONFIG_GET("maxmemory-policy"),
    [HLK_ASK_MAXMEMORY] = CONFIG_GET("maxmemory"),
    [HLK_ASK_SAVE] = CONFIG_GET("save"),
    [HLK_ASK_APPENDONLY] = CONFIG_GET("appendonly"),
    [HLK_ASK_APPENDFSYNC] = CONFIG_GET("appendfsync"),
    [HLK_ASK_STOP_WRITES] = CONFIG_GET("stop-writes-on-bgsave-error"),
    [HLK_ASK_MIN_REPLICAS] = CONFIG_GET("min-replicas-to-write"),
    [HLK_ASK_MAXCLIENTS] = CONFIG_GET("maxclients"),
    [HLK_ASK_BUFFERS] = CONFIG_GET("client-output-buffer-limit"),
    [HLK_ASK_TIMEOUT] = CONFIG_GET("timeout"),
    [HLK_ASK_KEEPALIVE] = CONFIG_GET("tcp-keepalive"),
    [HLK_ASK_BUSY] = CONFIG_GET("lua-time-limit"), /* busy-reply-threshold by its name before Redis 7 */
    [HLK_ASK_EVALSHA] = { "EVALSHA", "0000000000000000000000000000000000000000", "0" },
    [HLK_ASK_SCAN] = { "SCAN", "0", "COUNT", "1" },
    [HLK_ASK_WAIT] = { "WAIT", "0", "1" },
    [HLK_ASK_CLUSTER] = { "CLUSTER", "INFO" },
    [HLK_ASK_SLOTS] = { "CLUSTER", "SLOTS" },
    [HLK_ASK_ASKING] = { "ASKING" },
};

const char *const *hlk_ask_words(enum hlk_ask ask)
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT);
    return words[ask][0] ? words[ask] : NULL;
}

static void show_answer(char value[HLK_VALUE_MAX], const char *from, size_t len)
{
    struct hlk_text text;
    hlk_text_init(&text, value, HLK_VALUE_MAX);
    hlk_text_add_shown(&text, from, len);
}

static bool is_string(const redisReply *reply)
{
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

/* Lines are "field:value\r\n". */
bool hlk_answers_field(const struct hlk_answers *answers, enum hlk_ask ask, const char *field,
                       char value[HLK_VALUE_MAX])
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT && field);
    const redisReply *reply = answers->reply[ask];
    size_t len = strlen(field);
    value[0] = '\0';
    if (!is_string(reply))
        return false;
    for (const char *line = reply->str; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, len) == 0 && line[len] == ':') {
            show_answer(value, line + len + 1, strcspn(line + len + 1, "\r\n"));
            return true;
        }
    }
    return false;
}

bool hlk_answers_info(const struct hlk_answers *answers, const char *field, char value[HLK_VALUE_MAX])
{
    return hlk_answers_field(answers, HLK_ASK_INFO, field, value);
}

bool hlk_answers_config(const struct hlk_answers *answers, enum hlk_ask ask, char value[HLK_VALUE_MAX])
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT);
    const redisReply *reply = answers->reply[ask];
    value[0] = '\0';
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_string(reply->element[1]))
        return false;
    show_answer(value, reply->element[1]->str, reply->element[1]->len);
    return true;
}

static int64_t number_or(bool there, const char *value, int64_t otherwise)
{
    char *end;
    long long n = strtoll(value, &end, 10);
    return there && end > value ? (int64_t)n : otherwise;
}

int64_t hlk_answers_info_number(const struct hlk_answers *answers, const char *field, int64_t otherwise)
{
    char value[HLK_VALUE_MAX];
    bool there = hlk_answers_info(answers, field, value);
    return number_or(there, value, otherwise);
}

int64_t hlk_answers_config_number(const struct hlk_answers *answers, enum hlk_ask ask, int64_t otherwise)
{
    char value[HLK_VALUE_MAX];
    bool there = hlk_answers_config(answers, ask, value);
    return number_or(there, value, otherwise);
}

bool hlk_answers_refused(const struct hlk_answers *answers, enum hlk_ask ask)
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT);
    const redisReply *reply = answers->reply[ask];
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0;
}

bool hlk_answers_refused_command(const struct hlk_answers *answers, enum hlk_ask ask)
{
    return hlk_answers_refused(answers, ask) && strstr(answers->reply[ask]->str, "permissions to run the");
}

/* "config|get": as ACL SETUSER calls it. */
static void name_right(char right[HLK_VALUE_MAX], const char *word, const char *second)
{
    int len = snprintf(right, HLK_VALUE_MAX, "%s%s%s", word, *second ? "|" : "", second);
    for (int i = 0; i < len && i < HLK_VALUE_MAX; i++)
        right[i] = (char)tolower((unsigned char)right[i]);
}

void hlk_found_unknown(struct hlk_found *found, const struct hlk_answers *answers, enum hlk_ask ask)
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT && words[ask][0]);
    static const char *const subcommands[] = { "CONFIG", "ACL", "SLOWLOG", "LATENCY", "PUBSUB", "CLUSTER" };
    const char *const *ask_words = words[ask];
    char right[HLK_VALUE_MAX];
    bool two = false;
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        two = two || strcmp(ask_words[0], subcommands[i]) == 0;
    const char *space = two ? " " : "", *second = two ? ask_words[1] : "";
    if (hlk_answers_refused(answers, ask)) {
        hlk_found_set(found, HLK_FINDING_NOTE, "not known: this user may not run %s%s%s", ask_words[0], space, second);
        name_right(right, ask_words[0], second);
        hlk_found_advice(found, "Run this as a user with the right +%s, or ask the server's administrator.", right);
    } else {
        hlk_found_set(found, HLK_FINDING_NOTE, "not known: the server does not answer %s%s%s as Redis does",
                      ask_words[0], space, second);
    }
}
