/* fair.h - what the tests of fair locks share. */
#ifndef HLK_TEST_FAIR_H
#define HLK_TEST_FAIR_H

#include "support/history.h"
#include "support/stage.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"

static inline void fair_start(void)
{
    stage_up(0);
}

static inline void fair_start_proxied(void)
{
    stage_up(STAGE_PROXY);
    server_allow(stage.server, "hasplock_fair:*");
}

static inline hlk_lock *fair_lock(hlk_client *client, const char *name, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    opts.owner = owner;
    return stage_lock(client, name, &opts);
}

static inline int64_t queued(void)
{
    return raw_int(stage.redis, "LLEN " QUEUE);
}

/* Threads of `client` that wait, one behind the other. */
static inline void start_waiters(hlk_client *client, struct actor **waiters, int n)
{
    int64_t before = queued();
    for (int i = 0; i < n; i++) {
        waiters[i] = actor_start(fair_lock(client, "t", NULL), NULL);
        WAIT_FOR(queued() == before + i + 1);
    }
}

static inline int64_t script_calls(void)
{
    redisReply *stats = redisCommand(stage.redis, "INFO commandstats");
    const char *at = strstr(stats->str, "cmdstat_evalsha:calls=");
    int64_t number = at ? strtoll(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(stats);
    return number;
}

static inline bool no_queue(void)
{
    return raw_int(stage.redis, "EXISTS " QUEUE " " SCORES) == 0;
}

#endif
