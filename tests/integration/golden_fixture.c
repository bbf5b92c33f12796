#include "golden_fixture.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIME_MS = 5000 }; /* by which the ends of leases may differ */

struct side theirs, ours;
static redisContext *monitor; /* on our server */

static void side_start(struct side *side)
{
    side->server = server_start(SERVER_NOACL, NULL);
    side->redis = raw_open(side->server);
}

static void side_stop(struct side *side)
{
    redisFree(side->redis);
    redisFree(side->listener);
    server_stop(side->server);
}

void golden_start(void)
{
    side_start(&theirs);
    side_start(&ours);
    monitor = raw_open(ours.server);
    cr_assert_str_eq(raw(monitor, "MONITOR"), "OK");
}

void golden_stop(void)
{
    redisFree(monitor);
    side_stop(&theirs);
    side_stop(&ours);
}

void golden_subscribe(const char *channel)
{
    for (struct side *side = &theirs; side; side = side == &theirs ? &ours : NULL) {
        side->listener = raw_open(side->server);
        raw(side->listener, "SUBSCRIBE %s", channel);
    }
}

const char *golden_replay(const char *line, ...)
{
    char copy[1024], *save = NULL;
    const char *reply = "";
    va_list args;
    va_start(args, line);
    vsnprintf(copy, sizeof copy, line, args);
    va_end(args);
    for (char *command = strtok_r(copy, "|", &save); command; command = strtok_r(NULL, "|", &save)) {
        const char *argv[16];
        int n = 0;
        char *inner = NULL;
        for (char *word = strtok_r(command, " ", &inner); word && n < 16; word = strtok_r(NULL, " ", &inner))
            argv[n++] = word;
        reply = raw_argv(theirs.redis, n, argv, NULL);
        cr_assert_neq(reply[0], '-', "%s: %s", command, reply);
    }
    return reply;
}

/* Without scores and ttl. */
static void content(const struct side *side, const char *key, char *text, size_t size)
{
    const char *type = raw(side->redis, "TYPE %s", key), *inside = "";
    if (strcmp(type, "hash") == 0)
        inside = raw(side->redis, "HGETALL %s", key);
    else if (strcmp(type, "string") == 0)
        inside = raw(side->redis, "GET %s", key);
    else if (strcmp(type, "zset") == 0)
        inside = raw(side->redis, "ZRANGE %s 0 -1", key);
    snprintf(text, size, "%s %s", type, inside);
}

static void compare_scores(const char *step, const char *key)
{
    for (int i = 0;; i++) {
        double score[2] = { 0, 0 };
        for (int side = 0; side < 2; side++) {
            const char *entry = raw(side ? ours.redis : theirs.redis, "ZRANGE %s %d %d WITHSCORES", key, i, i);
            const char *comma = strrchr(entry, ',');
            if (!comma)
                return;
            score[side] = strtod(comma + 3, NULL); /* , "123"] */
        }
        cr_assert(score[0] > 0 && score[1] > 0);
        cr_assert(score[1] - score[0] < TIME_MS && score[0] - score[1] < TIME_MS, "%s: %f, but Redisson's is %f", step,
                  score[1], score[0]);
    }
}

void golden_compare(const char *step, const char *key)
{
    char expected[512], mine[512];
    content(&theirs, key, expected, sizeof expected);
    content(&ours, key, mine, sizeof mine);
    cr_assert_str_eq(mine, expected, "%s: %s, but Redisson's is %s", step, mine, expected);
    if (strncmp(expected, "zset", 4) == 0)
        compare_scores(step, key);
    int64_t their_ttl = raw_pttl(theirs.redis, key), our_ttl = raw_pttl(ours.redis, key);
    cr_assert(llabs(their_ttl - our_ttl) < TIME_MS, "%s: ttl %lld, but Redisson's is %lld", step, (long long)our_ttl,
              (long long)their_ttl);
    cr_assert_eq(their_ttl < 0, our_ttl < 0, "%s: one of them has no ttl", step);
}

void golden_compare_messages(const char *step)
{
    const char *message = raw_next(theirs.listener), *mine = raw_next(ours.listener);
    cr_assert(message && mine, "%s: no message", step);
    cr_assert_str_eq(mine, message, "%s: %s, but Redisson's is %s", step, mine, message);
}

void golden_silent(const char *step)
{
    const char *mine = raw_next_within(ours.listener, 50);
    cr_assert_null(mine, "%s: %s", step, mine);
}

const char *golden_ran_inside(void)
{
    static _Thread_local char text[2048];
    size_t len = 0;
    text[0] = '\0';
    raw(ours.redis, "ECHO end-of-step");
    for (const char *line; (line = raw_next(monitor)) && !strstr(line, "end-of-step");) {
        const char *inside = strstr(line, "lua] ");
        if (inside)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s | ", inside + 5);
    }
    return text;
}
