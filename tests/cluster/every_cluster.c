#include "every_cluster.h"

#include <stdio.h>

static const char *running; /* NULL: none */

/* --- the lock's server --- */

static int home_server;

unsigned home_slot(void)
{
    return cluster_slot(cluster, "t");
}

int home(void)
{
    return home_server;
}

void home_moves(int server)
{
    home_server = server;
    fixture.server = cluster->servers[server];
    fixture.redis = cluster->redis[server];
    fixture.proxy = cluster->proxies[server];
}

/* The test's process ends then. */
static void show_running(void)
{
    if (running)
        fprintf(stderr, "[----] in a cluster: %s\n", running);
}

static void settle_in(void)
{
    pause_watch();
    test_on_vain_wait = show_running;
    fixture.url = cluster->url;
    home_moves(cluster_owner(cluster, "t"));
}

void every_cluster_begin(void)
{
    cluster = cluster_start_behind_proxies(MASTERS);
    settle_in();
}

void every_cluster_begin_replicas(void)
{
    cluster_begin_replicas();
    settle_in();
}

void every_cluster_end(void)
{
    show_running();
    every_end();
    fixture = (struct fixture){ .server = NULL }; /* they are the cluster's */
    cluster_end();
}

void every_run(const struct every_kind *kind, const char *name, void (*promise)(const struct every_kind *kind))
{
    running = name;
    every_begin(kind, 0);
    promise(kind);
    every_end();
    running = NULL;
}

/* --- the place --- */

static void each_server(void (*fn)(redisContext *redis))
{
    for (int i = 0; i < cluster->n; i++)
        if (cluster->redis[i])
            fn(cluster->redis[i]);
}

static void forget(redisContext *redis)
{
    raw(redis, "FLUSHALL");
}

/* Of the promise before there may be tombstones. */
static void begin(unsigned flags)
{
    (void)flags;
    fixture_forget_events();
    each_server(forget);
    for (int i = 0; i < cluster->n; i++)
        cluster->servers[i]->allowed[0] = '\0';
}

static void end(void)
{
    fixture_close_all();
    const char *left = cluster_leftovers(cluster);
    if (left)
        test_give_up("left in the cluster after %s: %s", running ? running : "a test", left);
}

/* They outlast a restart. */
static hlk_client *open_patient(const struct hlk_client_opts *given)
{
    struct hlk_client_opts opts = *given;
    opts.reconnect_timeout_ms = WAIT_MS;
    return fixture_open(&opts);
}

static void allow(const char *glob)
{
    for (int i = 0; i < cluster->n; i++)
        server_allow(cluster->servers[i], glob);
}

static void restart(bool keep_data)
{
    cluster_restart(cluster, home(), keep_data);
    home_moves(home());
}

static struct every_place place;

__attribute__((constructor)) static void choose(void)
{
    place = every_one_server;
    place.begin = begin;
    place.end = end;
    place.open = open_patient;
    place.each_server = each_server;
    place.allow = allow;
    place.restart = restart;
    every_place = &place;
}
