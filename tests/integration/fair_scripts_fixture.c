#include "fair_scripts_fixture.h"

struct server *server;
redisContext *user;
redisContext *admin;

void fair_scripts_start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

void fair_scripts_stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

const char *join_for(const char *hold, int64_t lease_ms, int64_t grant_ms)
{
    return script_run(user, HLK_SCRIPT_FAIR_ACQUIRE, 4, LOCK, QUEUE, SCORES, NOTES, script_number(lease_ms), hold,
                      CHANNEL, script_number(grant_ms), NULL);
}

const char *join(const char *hold)
{
    return join_for(hold, 30000, GRANT);
}

const char *join_polling(const char *hold)
{
    return script_run(user, HLK_SCRIPT_FAIR_ACQUIRE, 5, LOCK, QUEUE, SCORES, NOTES, PLAIN_QUEUE, "30000", hold, CHANNEL,
                      script_number(GRANT), NULL);
}

const char *try_acquire(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_FAIR_ACQUIRE, 4, LOCK, QUEUE, SCORES, NOTES, script_number(lease_ms), hold,
                      CHANNEL, NULL);
}

const char *release(const char *hold)
{
    return script_run(user, HLK_SCRIPT_FAIR_RELEASE, 5, LOCK, QUEUE, SCORES, NOTES, PLAIN_QUEUE, hold, CHANNEL, NULL);
}

const char *release_in_doubt(const char *hold, int64_t tombstone_ms)
{
    return script_run(user, HLK_SCRIPT_FAIR_RELEASE, 5, LOCK, QUEUE, SCORES, NOTES, PLAIN_QUEUE, hold, CHANNEL,
                      script_number(tombstone_ms), "1", NULL);
}

const char *leave(const char *hold)
{
    return release_in_doubt(hold, 0);
}

const char *fair_break(void)
{
    return script_run(user, HLK_SCRIPT_FAIR_BREAK, 4, LOCK, QUEUE, SCORES, NOTES, CHANNEL, NULL);
}

const char *query(const char *most)
{
    return script_run(user, HLK_SCRIPT_FAIR_QUERY, 2, LOCK, QUEUE, most, NULL);
}

struct busy busy(const char *reply)
{
    struct busy got = { -99, -99, -99, 0, "" };
    char copy[256];
    snprintf(copy, sizeof copy, "%s", reply);
    int n = sscanf(copy, "[:%lld, \"%63[^\"]\", :%lld, :%lld, :%lld", &got.ms, got.holder, &got.position, &got.foreign,
                   &got.mixed);
    if (n == 1)
        n = sscanf(copy, "[:%lld, \"\", :%lld, :%lld, :%lld", &got.ms, &got.position, &got.foreign, &got.mixed) + 1;
    cr_assert_geq(n, 4, "%s", copy);
    return got;
}

const char *queue(void)
{
    return raw(admin, "LRANGE " QUEUE " 0 -1");
}

int64_t score(const char *waiter)
{
    return raw_int(admin, "ZSCORE " SCORES " %s", waiter);
}

int64_t server_ms(void)
{
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return now;
}

bool in_step(void)
{
    redisReply *queued = redisCommand(admin, "LRANGE " QUEUE " 0 -1");
    bool same = raw_int(admin, "ZCARD " SCORES) == (int64_t)queued->elements;
    for (size_t i = 0; i < queued->elements; i++)
        same = same && strcmp(raw(admin, "ZSCORE " SCORES " %s", queued->element[i]->str), "(nil)") != 0;
    freeReplyObject(queued);
    return same;
}

bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

bool nothing_is_left(void)
{
    return raw_int(admin, "DBSIZE") == 0;
}

bool is_held_by(const char *hold)
{
    char want[96];
    snprintf(want, sizeof want, "[\"%s\", \"1\"]", hold);
    return strcmp(raw(admin, "HGETALL " LOCK), want) == 0;
}

redisContext *listens(const char *waiter)
{
    redisContext *redis = raw_open(server);
    if (strncmp(waiter, "hlk-", 4) == 0)
        raw(redis, "SUBSCRIBE hasplock_inbox:%b", waiter, (size_t)(strrchr(waiter, ':') - waiter));
    else
        raw(redis, "SUBSCRIBE " CHANNEL ":%s", waiter);
    return redis;
}

bool was_notified(redisContext *listener, const char *what)
{
    const char *message = raw_next(listener);
    char end[96];
    snprintf(end, sizeof end, "\"%s\"]", what);
    size_t len = message ? strlen(message) : 0;
    return len > strlen(end) && strstr(message, "\"message\"") && strcmp(message + len - strlen(end), end) == 0;
}

bool was_called(redisContext *java)
{
    return was_notified(java, "0");
}

bool was_not_notified(redisContext *listener)
{
    return raw_next_within(listener, 50) == NULL;
}

void unsubscribes(redisContext *listener, const char *waiter)
{
    redisFree(listener);
    WAIT_FOR(strstr(raw(admin, "PUBSUB NUMSUB hasplock_inbox:%b", waiter, (size_t)(strrchr(waiter, ':') - waiter)),
                    ":0]") != NULL);
}

void java_waits(const char *waiter, int64_t score_ms)
{
    raw(admin, "RPUSH " QUEUE " %s", waiter);
    raw(admin, "ZADD " SCORES " %lld %s", (long long)score_ms, waiter);
}

void expires(void)
{
    cr_assert_eq(raw_int(admin, "DEL " LOCK), 1);
}

void its_time_is_over(void)
{
    redisReply *mark = redisCommand(admin, "ZRANGEBYSCORE " NOTES " 1e12 +inf");
    cr_assert_eq(mark->elements, 1, "%zu were given time", mark->elements);
    const char *argv[] = { "ZADD", NOTES, script_number(server_ms() - 1), mark->element[0]->str };
    raw_argv(admin, 4, argv, NULL);
    freeReplyObject(mark);
}

void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}
