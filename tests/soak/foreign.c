/* foreign.c - a client that is not ours: hiredis, the scripts of Redisson's RLock, one thread. It waits at the lock's
 * channel, holds with a fixed lease, and publishes "0". What it may believe it reckons as we do. */
#include "worker.h"

#include "support/raw.h"
#include "support/wait.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#define TAKE                                                                                                           \
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "                      \
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end "               \
    "return redis.call('pttl', KEYS[1])"
#define LEAVE                                                                                                          \
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end "                                             \
    "if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end "                                            \
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], ARGV[2]) return 1"

struct foreign {
    struct soak *soak;
    struct soak_rng rng;
    redisContext *redis, *ear;
    uint64_t holds;
    char channel[96];
};

static redisContext *reach(struct foreign *foreign)
{
    struct timeval limit = { 0, 300000 };
    redisContext *redis = redisConnectUnixWithTimeout(foreign->soak->socket[FOREIGN], limit);
    if (!redis || redis->err) {
        redisFree(redis);
        return NULL;
    }
    redisSetTimeout(redis, limit);
    return redis;
}

static void drop(redisContext **redis)
{
    redisFree(*redis);
    *redis = NULL;
}

static bool both_there(struct foreign *foreign)
{
    if (foreign->redis && foreign->ear)
        return true;
    test_sleep_ms(5);
    if (!foreign->redis)
        foreign->redis = reach(foreign);
    if (!foreign->ear && (foreign->ear = reach(foreign)) != NULL) {
        redisReply *reply = redisCommand(foreign->ear, "SUBSCRIBE %s", foreign->channel);
        if (!reply)
            drop(&foreign->ear);
        freeReplyObject(reply);
    }
    return foreign->redis && foreign->ear;
}

/* Till something is said on the channel, or `ms`. */
static void listen_for(struct foreign *foreign, int64_t ms)
{
    struct timeval limit = { ms / 1000, ms % 1000 * 1000 };
    void *reply = NULL;
    redisSetTimeout(foreign->ear, limit);
    if (redisGetReply(foreign->ear, &reply) != REDIS_OK)
        drop(&foreign->ear); /* as hiredis wants it, also when nothing came */
    else
        freeReplyObject(reply);
}

/* True: held; else *ttl is what is left of the holder's. */
static bool try(struct foreign *foreign, const char *id, int64_t lease, int64_t *ttl)
{
    redisReply *reply =
        redisCommand(foreign->redis, "EVAL %s 1 %s %lld %s", TAKE, soak_lock_name(LOCK_FOREIGN), (long long)lease, id);
    bool got = reply && reply->type == REDIS_REPLY_NIL;
    *ttl = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 20;
    if (!reply)
        drop(&foreign->redis);
    freeReplyObject(reply);
    return got;
}

static void one_turn(struct foreign *foreign)
{
    struct soak *soak = foreign->soak;
    char id[64];
    int64_t lease = 200 + (int64_t)soak_draw(&foreign->rng, 600), asked = soak_now(), sent = asked, ttl;
    snprintf(id, sizeof id, "%08x-0000-4000-8000-%012llx:1", (unsigned)getpid(), (unsigned long long)++foreign->holds);
    for (;;) {
        if (atomic_load(&soak->stop))
            return;
        if (!both_there(foreign))
            continue;
        sent = soak_now();
        if (try(foreign, id, lease, &ttl))
            break;
        if (!foreign->redis)
            return; /* may hold by this id until its lease is over: another id next time */
        listen_for(foreign, ttl > 0 && ttl < 500 ? ttl + 1 : 500);
    }
    struct soak_hold *hold = soak_acquired(soak, asked, LOCK_FOREIGN, FOREIGN, 0, HOW_FOREIGN | HOW_FIXED);
    hold->until = sent + (lease - lease / 50 - 2) * 1000000;
    atomic_store(&hold->ready, 1);
    soak_longest(&soak->longest_foreign_wait_ns, soak_now() - asked);
    if (soak_chance(&foreign->rng, 70))
        test_sleep_ms((int64_t)soak_draw(&foreign->rng, soak_chance(&foreign->rng, 5) ? 600 : 6));
    atomic_store(&hold->end, soak_now());
    redisReply *reply =
        redisCommand(foreign->redis, "EVAL %s 2 %s %s %s 0", LEAVE, soak_lock_name(LOCK_FOREIGN), foreign->channel, id);
    if (!reply)
        drop(&foreign->redis);
    freeReplyObject(reply);
}

int foreign_main(struct soak *soak)
{
    struct foreign foreign = { .soak = soak };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != soak->parent)
        return 1;
    foreign.rng = soak_rng(soak, FOREIGN, (uint64_t)atomic_load(&soak->slot[FOREIGN].incarnation), 0);
    raw_channel(foreign.channel, sizeof foreign.channel, soak_lock_name(LOCK_FOREIGN));
    while (!atomic_load(&soak->stop)) {
        one_turn(&foreign);
        test_sleep_ms((int64_t)soak_draw(&foreign.rng, 40));
    }
    redisFree(foreign.redis);
    redisFree(foreign.ear);
    return 0;
}
