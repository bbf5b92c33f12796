#include "scripts_fixture.h"

struct server *server;
redisContext *user;
redisContext *admin;
redisContext *inbox_a, *inbox_b, *inbox_c, *lock_channel;

void scripts_start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

void scripts_stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

const char *acquire(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, LOCK, QUEUE, script_number(lease_ms), hold, NULL);
}

const char *enqueue(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, LOCK, QUEUE, "30000", hold, member, NULL);
}

const char *release(const char *hold, int64_t tombstone_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, hold, CHANNEL, tombstone_ms ? "0" : NULL, "0",
                      script_number(tombstone_ms), NULL);
}

const char *release_brief(const char *hold, int64_t ttl_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, hold, CHANNEL, script_number(ttl_ms), NULL);
}

const char *leave(const char *hold, int64_t tombstone_ms, const char *member)
{
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, hold, CHANNEL, "0", "0",
                      script_number(tombstone_ms), member, NULL);
}

const char *release_with_window(const char *hold, int64_t yield_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, hold, CHANNEL, "0", script_number(yield_ms), NULL);
}

const char *reacquire(const char *hold, int64_t count, int64_t lease_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_REACQUIRE, 1, LOCK, hold, script_number(count), script_number(lease_ms),
                      NULL);
}

const char *renew(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_RENEW, 1, LOCK, hold, script_number(lease_ms), NULL);
}

const char *lock_break(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_BREAK, 3, LOCK, QUEUE, TOKEN, CHANNEL, NULL);
}

const char *query(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_QUERY, 2, LOCK, QUEUE, CHANNEL, "3", NULL);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(redisReply *const *)a)->str, (*(redisReply *const *)b)->str);
}

const char *everything(void)
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

const char *in_queue(void)
{
    return raw(admin, "ZRANGE %s 0 -1", QUEUE);
}

int64_t score(const char *member)
{
    return raw_int(admin, "ZSCORE %s %s", QUEUE, member);
}

int64_t server_now_ms(void)
{
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return now;
}

bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}

const char *answered(const char *answer)
{
    static _Thread_local char text[256];
    long long ttl = 0, position = 0;
    char holder[128] = "";
    int n = sscanf(answer, "[:%lld, \"%127[^\"]\", :%lld]", &ttl, holder, &position);
    if (n != 3 && sscanf(answer, "[:%lld, \"\", :%lld]", &ttl, &position) != 2)
        return answer;
    snprintf(text, sizeof text, "%s %lld", holder, position);
    return text;
}

int64_t answered_ttl(const char *answer)
{
    long long ttl = -99;
    cr_assert_eq(sscanf(answer, "[:%lld", &ttl), 1, "%s", answer);
    return ttl;
}

void put_dead_in_front(int n)
{
    char member[64];
    for (int i = 0; i < n; i++) {
        snprintf(member, sizeof member, "hlk-dead-1-x:%d 5000 0 0 1", i + 1);
        redisAppendCommand(admin, "ZADD %s %s %s", QUEUE, script_number(i + 1), member);
    }
    for (int i = 0; i < n; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(admin, (void **)&reply) != REDIS_OK)
            test_give_up("ZADD: %s", admin->errstr);
        freeReplyObject(reply);
    }
}

redisContext *subscribe(const char *channel)
{
    redisContext *redis = raw_open(server);
    cr_assert_not_null(strstr(raw(redis, "SUBSCRIBE %s", channel), ":1]"));
    return redis;
}

char *published_whole(redisContext *listener)
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
            len += (size_t)snprintf(text + len, sizeof texts[0] - len, "%s%s", len ? "; " : "", reply->element[2]->str);
        freeReplyObject(reply);
        if (!message)
            return text;
    }
}

const char *published(redisContext *listener)
{
    char *text = published_whole(listener);
    for (char *plus; (plus = strchr(text, '+')) != NULL;) {
        const char *rest = plus + 1 + strspn(plus + 1, "0123456789");
        memmove(plus, rest, strlen(rest) + 1);
    }
    return text;
}

int64_t calls(const char *command)
{
    char line[64];
    int64_t all = 0, this = 0;
    redisReply *stats = redisCommand(admin, "INFO commandstats");
    snprintf(line, sizeof line, "cmdstat_%s:", command);
    for (const char *at = stats->str; (at = strstr(at, "cmdstat_")) != NULL; at++) {
        int64_t n = strtoll(strstr(at, "calls=") + 6, NULL, 10);
        if (strncmp(at, line, strlen(line)) == 0)
            this = n;
        if (strncmp(at, "cmdstat_config", 14) != 0 && strncmp(at, "cmdstat_info", 12) != 0)
            all += n;
    }
    freeReplyObject(stats);
    return command[0] ? this : all;
}

void all_listen(void)
{
    inbox_a = subscribe(INBOX(CLIENT_A));
    inbox_b = subscribe(INBOX(CLIENT_B));
    inbox_c = subscribe(INBOX(CLIENT_C));
    lock_channel = subscribe(CHANNEL);
}

void nobody_listens(void)
{
    redisFree(inbox_a);
    redisFree(inbox_b);
    redisFree(inbox_c);
    redisFree(lock_channel);
}

const char *said(void)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s|%s|%s|%s", published(inbox_a), published(inbox_b), published(inbox_c),
             published(lock_channel));
    return text;
}

bool was_published(void)
{
    redisReply *stats = redisCommand(admin, "INFO commandstats");
    bool found = strstr(stats->str, "cmdstat_publish:") != NULL;
    freeReplyObject(stats);
    return found;
}
