#include "rwlock_fixture.h"

#include <stdio.h>

void rw_start(void)
{
    fixture_begin(0);
}

void rw_start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
    server_allow(fixture.server, "hasplock_rwlock:*"); /* tombstones */
}

hlk_lock *rw_half(hlk_client *client, int kind, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    opts.owner = owner;
    return fixture_lock(client, "t", &opts);
}

hlk_lock *rw_reader(hlk_client *client)
{
    return rw_half(client, HLK_LOCK_READ, NULL);
}

hlk_lock *rw_writer(hlk_client *client)
{
    return rw_half(client, HLK_LOCK_WRITE, NULL);
}

int64_t rw_queued(void)
{
    return raw_int(fixture.redis, "ZCOUNT " RW_QUEUE " 1 1e15");
}

struct actor *rw_waiter(hlk_lock *half, int64_t before)
{
    struct actor *waiter = actor_start(half, NULL);
    WAIT_FOR(rw_queued() == before + 1);
    return waiter;
}

void rw_java_reads(int64_t lease_ms)
{
    raw(fixture.redis, "HSET t mode read " JAVA " 1");
    raw(fixture.redis, "SET {t}:" JAVA ":rwlock_timeout:1 1 PX %lld", (long long)lease_ms);
    raw(fixture.redis, "PEXPIRE t %lld", (long long)lease_ms);
}

void rw_java_writes(int64_t lease_ms)
{
    raw(fixture.redis, "HSET t mode write " JAVA ":write 1");
    raw(fixture.redis, "PEXPIRE t %lld", (long long)lease_ms);
}

int64_t rw_lease(const char *hold)
{
    return raw_int(fixture.redis, "PTTL {t}:%s:rwlock_timeout:1", hold);
}

const char *rw_mode(void)
{
    static char mode[16];
    redisReply *reply = redisCommand(fixture.redis, "HGET t mode");
    snprintf(mode, sizeof mode, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return mode;
}
