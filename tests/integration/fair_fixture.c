#include "fair_fixture.h"

void fair_start(void)
{
    fixture_begin(0);
}

void fair_start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
    server_allow(fixture.server, "hasplock_fair:*");
}

hlk_lock *fair_lock(hlk_client *client, const char *name, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    opts.owner = owner;
    return fixture_lock(client, name, &opts);
}

int64_t queued(void)
{
    return raw_int(fixture.redis, "LLEN " QUEUE);
}

bool hears_grants(const hlk_client *client)
{
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB hasplock_inbox:%s", hlk_client_id(client)), ":1]") != NULL;
}

struct waiter first_waiter(void)
{
    struct waiter first;
    redisReply *reply = redisCommand(fixture.redis, "LINDEX " QUEUE " 0");
    snprintf(first.name, sizeof first.name, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return first;
}

bool listens(const char *waiter)
{
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_lock__channel:{t}:%s", waiter), ":1]") != NULL;
}

void call(const char *waiter)
{
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t}:%s 0", waiter);
}

void start_waiters(hlk_client *client, struct actor **waiters, int n)
{
    int64_t before = queued();
    for (int i = 0; i < n; i++) {
        waiters[i] = actor_start(fair_lock(client, "t", NULL), NULL);
        WAIT_FOR(queued() == before + i + 1 && hears_grants(client));
    }
}

int64_t script_calls(void)
{
    redisReply *stats = redisCommand(fixture.redis, "INFO commandstats");
    const char *at = strstr(stats->str, "cmdstat_evalsha:calls=");
    int64_t number = at ? strtoll(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(stats);
    return number;
}

bool no_queue(void)
{
    return raw_int(fixture.redis, "EXISTS " QUEUE " " SCORES) == 0;
}
