/* Redisson's cluster client and ours on one Redis Cluster of three masters. */
/* Shows: P30 */
#include "interop/fixture.h"
#include "support/cluster.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 3, TURNS = 150 };

static struct cluster *cluster;
static struct peer *java;
static hlk_client *client;

static void begin(void)
{
    char urls[128] = "";
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.watchdog_ms = WATCHDOG_MS;
    cluster = cluster_start(MASTERS, 0);
    for (int i = 0; i < MASTERS; i++) {
        server_allow(cluster->servers[i], "redisson_unlock_latch:*");
        server_allow(cluster->servers[i], "hasplock_fair:*"); /* that Java was waited for stands in it for a minute */
        size_t len = strlen(urls);
        snprintf(urls + len, sizeof urls - len, "%sredis://127.0.0.1:%d", i ? "," : "", cluster->servers[i]->port);
    }
    java = peer_open();
    cr_assert_str_eq(peer_ask(java, "- open A %s %d", urls, WATCHDOG_MS), "ok");
    cr_assert_eq(hlk_client_open(&client, cluster->url, &opts), HLK_OK, "%s", hlk_last_error());
}

static void end(void)
{
    hlk_client_close(client);
    cluster_finish(cluster); /* Java is still connected */
    peer_close(java);
}

TestSuite(redisson_cluster, .init = begin, .fini = end, .timeout = FIXTURE_SECONDS);

/* A channel that begins so, of the lock, has a subscriber at that server, by sharded pub/sub. */
static bool listens(int server, const char *prefix, const char *name)
{
    const char *channels = raw(cluster->redis[server], "PUBSUB SHARDCHANNELS %s*{%s}*", prefix, name);
    return strstr(channels, prefix) != NULL;
}

static long long queue_length(int server, const char *name)
{
    return raw_int(cluster->redis[server], "LLEN redisson_lock_queue:{%s}", name);
}

static hlk_lock *lock_of(const char *name, bool fair)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    if (fair)
        opts.kind = HLK_LOCK_FAIR;
    hlk_lock *lock = hlk_lock_create(client, name, &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static void c_holds_java_waits(int server, bool fair)
{
    char name[32];
    const char *kind = fair ? "fair" : "";
    cluster_name(cluster, server, fair, name, sizeof name);
    hlk_lock *lock = lock_of(name, fair);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(java, "A.2 %strylock %s", kind, name), "false");
    peer_tell(java, "A.1 %slock %s", kind, name);
    WAIT_FOR(listens(server, "redisson_lock__channel:", name));
    cr_assert(peer_waits(java, "A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_answer(java, "A.1")->text, "ok");
    cr_assert_str_eq(peer_ask(java, "A.1 %sunlock %s", kind, name), "ok");
    hlk_lock_destroy(lock);
}

static void java_holds_c_waits(int server, bool fair)
{
    char name[32];
    struct c_waiter waiter;
    const char *kind = fair ? "fair" : "";
    cluster_name(cluster, server, fair, name, sizeof name);
    hlk_lock *lock = lock_of(name, fair);
    cr_assert_str_eq(peer_ask(java, "A.1 %slock %s", kind, name), "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    c_waiter_start(&waiter, lock, WAIT_MS);
    WAIT_FOR(fair ? queue_length(server, name) == 1 : listens(server, "redisson_lock__channel:", name));
    WAIT_FOR(listens(server, "hasplock_inbox:", name));
    cr_assert_str_eq(peer_ask(java, "A.1 %sunlock %s", kind, name), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_str_eq(peer_ask(java, "A.1 %strylock %s", kind, name), "false");
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    hlk_lock_destroy(lock);
}

Test(redisson_cluster, java_waits_while_c_holds)
{
    for (int i = 0; i < MASTERS; i++)
        c_holds_java_waits(i, false);
}

Test(redisson_cluster, java_waits_while_c_holds_a_fair_lock)
{
    for (int i = 0; i < MASTERS; i++)
        c_holds_java_waits(i, true);
}

Test(redisson_cluster, c_waits_while_java_holds)
{
    for (int i = 0; i < MASTERS; i++)
        java_holds_c_waits(i, false);
}

Test(redisson_cluster, c_waits_while_java_holds_a_fair_lock)
{
    for (int i = 0; i < MASTERS; i++)
        java_holds_c_waits(i, true);
}

/* Redis 7.0 has sharded pub/sub, and Redisson uses it there: a message on a plain channel would reach neither side. */
Test(redisson_cluster, both_use_sharded_pubsub)
{
    char name[32];
    struct c_waiter waiter;
    cluster_name(cluster, 1, 0, name, sizeof name);
    hlk_lock *lock = lock_of(name, false);
    cr_assert_str_eq(peer_ask(java, "A.1 lock %s", name), "ok");
    peer_tell(java, "A.2 lock %s", name);
    WAIT_FOR(listens(1, "redisson_lock__channel:", name));
    c_waiter_start(&waiter, lock, WAIT_MS);
    WAIT_FOR(listens(1, "hasplock_inbox:", name));
    for (int i = 0; i < MASTERS; i++) {
        cr_assert_null(strstr(raw(cluster->redis[i], "PUBSUB CHANNELS redisson_lock*"), "redisson_lock"));
        cr_assert_null(strstr(raw(cluster->redis[i], "PUBSUB CHANNELS hasplock*"), "hasplock"));
    }
    cr_assert_str_eq(peer_ask(java, "A.1 unlock %s", name), "ok");
    WAIT_FOR(waiter.answered || !peer_waits(java, "A.2"));
    bool c_first = waiter.answered;
    if (c_first)
        cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    cr_assert_str_eq(peer_answer(java, "A.2")->text, "ok");
    cr_assert_str_eq(peer_ask(java, "A.2 unlock %s", name), "ok");
    if (!c_first) {
        cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
        cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    }
    hlk_lock_destroy(lock);
}

/* --- both at once --- */

struct counting {
    pthread_t thread;
    hlk_lock *lock;
    int server;
    const char *name;
    long long done;
};

static long long value_of(redisContext *redis, const char *name)
{
    const char *quoted = raw(redis, "GET {%s}:counter", name);
    return *quoted == '"' ? atoll(quoted + 1) : 0;
}

static void *count(void *arg)
{
    struct counting *c = arg;
    redisContext *redis = raw_open(cluster->servers[c->server]);
    while (raw_int(redis, "EXISTS {%s}:stop", c->name) == 0) {
        if (hlk_lock_acquire(c->lock, WAIT_MS) != HLK_OK)
            test_give_up("%s", hlk_last_error());
        long long seen = value_of(redis, c->name);
        raw(redis, "SET {%s}:counter %lld", c->name, seen + 1);
        if (hlk_lock_release(c->lock) != HLK_OK)
            test_give_up("%s", hlk_last_error());
        c->done++;
    }
    redisFree(redis);
    return NULL;
}

/* A turn that two had at once would be missing from the counter. */
static void count_together(int server, bool fair)
{
    char name[32];
    struct counting c[2];
    cluster_name(cluster, server, fair, name, sizeof name);
    redisContext *redis = cluster->redis[server];
    for (int i = 0; i < 2; i++) {
        c[i] = (struct counting){ .lock = lock_of(name, fair), .server = server, .name = name };
        pthread_create(&c[i].thread, NULL, count, &c[i]);
        peer_tell(java, "A.%d %scount %s redis://127.0.0.1:%d {%s}:counter {%s}:turns {%s}:stop", i + 1,
                  fair ? "fair" : "", name, cluster->servers[server]->port, name, name, name);
    }
    WAIT_FOR(raw_int(redis, "LLEN {%s}:turns", name) >= TURNS && c[0].done + c[1].done >= TURNS);
    raw(redis, "SET {%s}:stop 1", name);
    long long turns = atoll(peer_answer(java, "A.1")->text) + atoll(peer_answer(java, "A.2")->text);
    for (int i = 0; i < 2; i++) {
        pthread_join(c[i].thread, NULL);
        turns += c[i].done;
        hlk_lock_destroy(c[i].lock);
    }
    cr_assert_eq(value_of(redis, name), turns);
    raw(redis, "DEL {%s}:counter {%s}:turns {%s}:stop", name, name, name);
}

Test(redisson_cluster, count_together)
{
    count_together(0, false);
}

Test(redisson_cluster, count_together_under_a_fair_lock)
{
    count_together(2, true);
}
