/* judge_server.c - what the server has after a round, when no client is there any more. */
#include "judge.h"

#include "support/raw.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LEFT_MAX = 512 };

/* What may be there: counters of tokens, and queues in which nobody waits but those whose processes were killed, or
 * said at their close that they leave something. The command lists who waits. */
static const struct {
    const char *prefix, *waiters;
} may_stay[] = {
    { "redisson_lock_token:", NULL },
    { "hasplock_queue:", "ZRANGEBYSCORE %s 1 1e15" },
    { "redisson_lock_queue:", "LRANGE %s 0 -1" },
    { "redisson_lock_timeout:", "ZRANGE %s 0 -1" },
    { "hasplock_fair:", "ZRANGEBYSCORE %s 1 1e12" },
    { "hasplock_rwlock:", "ZRANGEBYSCORE %s 1 1e15" },
    { "hasplock_barrier:", NULL },
    { "hasplock_arrived:", NULL },
    { "hasplock_condition:", NULL },
};

/* Is `waiter` of a client that was closed, and whose close did not log that something is left? */
static bool is_of_closed(const struct soak *soak, const char *waiter)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        const char *id = soak->slot[slot].client_id;
        if (id[0] && !atomic_load(&soak->slot[slot].leaves) && strncmp(waiter, id, strlen(id)) == 0)
            return true;
    }
    return false;
}

static void look_at_waiters(const struct soak *soak, redisContext *redis, const char *command, const char *key,
                            char left[LEFT_MAX])
{
    redisReply *waiters = redisCommand(redis, command, key);
    for (size_t i = 0; waiters && i < waiters->elements && !left[0]; i++)
        if (is_of_closed(soak, waiters->element[i]->str))
            snprintf(left, LEFT_MAX, "%s in %s", waiters->element[i]->str, key);
    freeReplyObject(waiters);
}

static int64_t leases_live(redisContext *redis, const char *key)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return raw_int(redis, "ZCOUNT %s %lld +inf", key, (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/* Permits: none is held, and all are free; leases that are over stay until somebody looks. */
static bool are_permits(redisContext *redis, const char *key, char left[LEFT_MAX])
{
    const char *name = soak_lock_name(LOCK_PERMITS);
    char leases[64];
    snprintf(leases, sizeof leases, "{%s}:timeout", name);
    if (strcmp(key, name) != 0 && strcmp(key, leases) != 0)
        return false;
    int64_t held = raw_int(redis, "ZCARD %s", leases);
    int64_t live = leases_live(redis, leases);
    int64_t free = strcmp(key, name) == 0 ? raw_int(redis, "GET %s", name) : -1;
    if (live)
        snprintf(left, LEFT_MAX, "%d permits that are held", (int)live);
    else if (free >= 0 && free + held != soak_locks[LOCK_PERMITS].at_most)
        snprintf(left, LEFT_MAX, "%d free permits and %d leases that are over", (int)free, (int)held);
    return true;
}

/* No waiter lives. One that could not say that it is done stays until somebody looks (lua/include_condition.lua). */
static bool are_waits(redisContext *redis, const char *key, char left[LEFT_MAX])
{
    static const char prefix[] = "hasplock_condition_leases:";
    if (strncmp(key, prefix, strlen(prefix)) != 0)
        return false;
    int64_t live = leases_live(redis, key);
    if (live)
        snprintf(left, LEFT_MAX, "%d waiters at %s", (int)live, key);
    return true;
}

static void look_at_key(const struct soak *soak, redisContext *redis, const char *key, char left[LEFT_MAX])
{
    for (size_t i = 0; i < sizeof may_stay / sizeof *may_stay; i++) {
        if (strncmp(key, may_stay[i].prefix, strlen(may_stay[i].prefix)) != 0)
            continue;
        if (may_stay[i].waiters)
            look_at_waiters(soak, redis, may_stay[i].waiters, key, left);
        return;
    }
    if (!are_permits(redis, key, left) && !are_waits(redis, key, left))
        snprintf(left, LEFT_MAX, "key %s", key);
}

/* "": nothing that may not be there. */
static void look(const struct soak *soak, redisContext *redis, char left[LEFT_MAX])
{
    redisReply *keys = redisCommand(redis, "KEYS *"), *channels = redisCommand(redis, "PUBSUB CHANNELS");
    if (!keys || !channels)
        test_give_up("no answer from the server");
    left[0] = '\0';
    for (size_t i = 0; i < keys->elements && !left[0]; i++)
        look_at_key(soak, redis, keys->element[i]->str, left);
    for (size_t i = 0; i < channels->elements && !left[0]; i++)
        snprintf(left, LEFT_MAX, "a subscriber of %s", channels->element[i]->str);
    freeReplyObject(keys);
    freeReplyObject(channels);
}

/* All leases are over after twice the longest. */
void judge_server(struct soak *soak, struct redisContext *redis)
{
    char left[LEFT_MAX];
    int64_t give_up = test_now_ms() + 2 * LONGEST_LEASE_MS + 1000;
    for (look(soak, redis, left); left[0] && test_now_ms() < give_up; look(soak, redis, left))
        test_sleep_ms(5);
    if (left[0])
        soak_wrong(soak, "left on the server: %s", left);
}
