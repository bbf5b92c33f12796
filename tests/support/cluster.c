#include "support/cluster.h"

#include "support/port.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_ok(const char *answer, const char *what)
{
    if (strcmp(answer, "OK") != 0)
        test_give_up("cluster: %s: %s", what, answer);
}

/* Where clients and the other servers' maps have it. */
static int port_of(const struct cluster *cluster, int i)
{
    return cluster->proxies[i] ? proxy_port(cluster->proxies[i]) : cluster->servers[i]->port;
}

/* The proxy comes first: the server's command line has its port. */
static void add_proxy(struct cluster *cluster, int i, const char **extra)
{
    static const struct server none;
    cluster->proxies[i] = proxy_start(&none);
    snprintf(cluster->announced_text[i], sizeof cluster->announced_text[i], "%d", proxy_port(cluster->proxies[i]));
    extra[0] = "--cluster-announce-port";
    extra[1] = cluster->announced_text[i];
    extra[2] = "--appendfsync"; /* what was written outlasts the process */
    extra[3] = "no";
    extra[4] = NULL;
}

static int start_server(struct cluster *cluster, bool behind_proxy)
{
    static char timeout[16];
    unsigned flags = SERVER_TCP | SERVER_NOACL | (behind_proxy ? SERVER_AOF : 0);
    int i = cluster->n++;
    cluster->joined++;
    cluster->bus_held[i] = port_reserve(&cluster->bus[i]);
    snprintf(cluster->bus_text[i], sizeof cluster->bus_text[i], "%d", cluster->bus[i]);
    snprintf(timeout, sizeof timeout, "%d", CLUSTER_TIMEOUT_MS);
    const char *extra[] = { "--cluster-enabled",
                            "yes",
                            "--cluster-port",
                            cluster->bus_text[i],
                            "--cluster-node-timeout",
                            timeout,
                            "--cluster-require-full-coverage",
                            "no",
                            "--repl-diskless-sync-delay",
                            "0",
                            "--cluster-allow-replica-migration",
                            "no",
                            "--rdb-del-sync-files",
                            "yes", /* else a restarted replica has data of long ago */
                            NULL };
    memcpy(cluster->extra[i], extra, sizeof extra);
    if (behind_proxy)
        add_proxy(cluster, i, cluster->extra[i] + sizeof extra / sizeof *extra - 1);
    cluster->servers[i] = server_start(flags, cluster->extra[i]);
    if (behind_proxy)
        proxy_move(cluster->proxies[i], cluster->servers[i]);
    cluster->redis[i] = raw_open(cluster->servers[i]);
    snprintf(cluster->ids[i], sizeof cluster->ids[i], "%.40s", raw(cluster->redis[i], "CLUSTER MYID") + 1);
    return i;
}

static void meet(struct cluster *cluster, int i)
{
    expect_ok(raw(cluster->redis[0], "CLUSTER MEET 127.0.0.1 %d %d", port_of(cluster, i), cluster->bus[i]), "MEET");
}

static bool knows_all(struct cluster *cluster, int i)
{
    const char *info = raw(cluster->redis[i], "CLUSTER INFO");
    const char *known = strstr(info, "cluster_known_nodes:");
    return strstr(info, "cluster_state:ok") && known && atoi(known + 20) == cluster->joined;
}

static bool all_know_all(struct cluster *cluster)
{
    bool all = true;
    for (int i = 0; i < cluster->n && all; i++)
        all = !cluster->redis[i] || knows_all(cluster, i);
    return all;
}

static void add_slots(struct cluster *cluster, int i)
{
    int first = CLUSTER_SLOTS * i / cluster->masters, last = CLUSTER_SLOTS * (i + 1) / cluster->masters - 1;
    expect_ok(raw(cluster->redis[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1), "SET-CONFIG-EPOCH");
    expect_ok(raw(cluster->redis[i], "CLUSTER ADDSLOTSRANGE %d %d", first, last), "ADDSLOTSRANGE");
    memset(cluster->owner + first, i, (size_t)(last - first + 1));
}

static bool replicates(struct cluster *cluster, int i)
{
    return strstr(raw(cluster->redis[i], "INFO replication"), "master_link_status:up") != NULL;
}

/* The other servers know it as that master's replica, too: they vote for no other one. */
static bool known_as_replica(struct cluster *cluster, int i, int master)
{
    char line[128];
    snprintf(line, sizeof line, "slave %s", cluster->ids[master]);
    bool known = true;
    for (int k = 0; k < cluster->n && known; k++) {
        const char *at = strstr(raw(cluster->redis[k], "CLUSTER NODES"), cluster->ids[i]);
        const char *end = at ? strstr(at, "\\n") : NULL, *found = at ? strstr(at, line) : NULL;
        known = found && (!end || found < end);
    }
    return known;
}

static void add_replica(struct cluster *cluster, int i)
{
    int master = (i - cluster->masters) % cluster->masters;
    WAIT_FOR(strcmp(raw(cluster->redis[i], "CLUSTER REPLICATE %s", cluster->ids[master]), "OK") == 0);
    WAIT_FOR(replicates(cluster, i));
    WAIT_FOR(known_as_replica(cluster, i, master));
}

static struct cluster *start(int masters, int replicas, bool behind_proxies)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    cluster->masters = masters;
    for (int i = 0; i < masters + replicas; i++)
        start_server(cluster, behind_proxies);
    for (int i = 0; i < masters; i++)
        add_slots(cluster, i);
    for (int i = 1; i < cluster->n; i++)
        meet(cluster, i);
    WAIT_FOR(all_know_all(cluster));
    for (int i = masters; i < cluster->n; i++)
        add_replica(cluster, i);
    size_t len = (size_t)snprintf(cluster->url, sizeof cluster->url, "redis+cluster://");
    for (int i = 0; i < masters; i++)
        len += (size_t)snprintf(cluster->url + len, sizeof cluster->url - len, "%s127.0.0.1:%d", i ? "," : "",
                                port_of(cluster, i));
    return cluster;
}

struct cluster *cluster_start(int masters, int replicas)
{
    return start(masters, replicas, false);
}

struct cluster *cluster_start_behind_proxies(int masters)
{
    return start(masters, 0, true);
}

int cluster_add(struct cluster *cluster)
{
    int i = start_server(cluster, false);
    meet(cluster, i);
    WAIT_FOR(all_know_all(cluster));
    return i;
}

/* --- epochs */

static long long epoch_of(struct cluster *cluster, int i)
{
    const char *at = strstr(raw(cluster->redis[i], "CLUSTER INFO"), "cluster_current_epoch:");
    return at ? strtoll(at + strlen("cluster_current_epoch:"), NULL, 10) : -1;
}

/* A server that has the largest epoch of all does not raise it: two of them take turns. */
uint64_t cluster_raise_epoch(struct cluster *cluster, int by)
{
    long long want = epoch_of(cluster, 0) + by;
    for (int i = 0; epoch_of(cluster, 0) < want || epoch_of(cluster, 1) < want; i++)
        raw(cluster->redis[i % 2], "CLUSTER BUMPEPOCH");
    for (int i = 0; i < cluster->n; i++)
        WAIT_FOR(epoch_of(cluster, i) >= want);
    return (uint64_t)want;
}

static void reset(struct cluster *cluster, int i)
{
    raw(cluster->redis[i], "FLUSHALL");
    expect_ok(raw(cluster->redis[i], "CLUSTER RESET HARD"), "RESET");
    snprintf(cluster->ids[i], sizeof cluster->ids[i], "%.40s", raw(cluster->redis[i], "CLUSTER MYID") + 1);
}

static void add_each_nth_slot(struct cluster *cluster, int i)
{
    static char texts[CLUSTER_SLOTS][12];
    const char *words[CLUSTER_SLOTS + 2] = { "CLUSTER", "ADDSLOTS" };
    int n = 2;
    for (int slot = i; slot < CLUSTER_SLOTS; slot += cluster->masters) {
        snprintf(texts[slot], sizeof texts[slot], "%d", slot);
        words[n++] = texts[slot];
        cluster->owner[slot] = (unsigned char)i;
    }
    expect_ok(raw(cluster->redis[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1), "SET-CONFIG-EPOCH");
    expect_ok(raw_argv(cluster->redis[i], n, words, NULL), "ADDSLOTS");
}

void cluster_make_anew(struct cluster *cluster, int masters, bool scattered)
{
    for (int i = 0; i < cluster->n; i++)
        reset(cluster, i);
    for (int i = masters; i < cluster->n; i++)
        cluster_kill(cluster, i);
    cluster->masters = cluster->joined = masters;
    for (int i = 0; i < masters; i++)
        (scattered ? add_each_nth_slot : add_slots)(cluster, i);
    for (int i = 1; i < masters; i++)
        meet(cluster, i);
    WAIT_FOR(all_know_all(cluster));
}

static redisContext *any(struct cluster *cluster)
{
    int i = 0;
    while (!cluster->redis[i])
        i++;
    return cluster->redis[i];
}

unsigned cluster_slot(struct cluster *cluster, const char *key)
{
    return (unsigned)raw_int(any(cluster), "CLUSTER KEYSLOT %s", key);
}

int cluster_owner(struct cluster *cluster, const char *key)
{
    return cluster->owner[cluster_slot(cluster, key)];
}

void cluster_name(struct cluster *cluster, int server, int i, char *name, size_t size)
{
    for (int n = 0;; n++) {
        snprintf(name, size, "t%d-%d", i, n);
        if (cluster_owner(cluster, name) == server)
            return;
    }
}

void cluster_move_begin(struct cluster *cluster, unsigned slot, int to)
{
    int from = cluster->owner[slot];
    expect_ok(raw(cluster->redis[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster->ids[from]), "IMPORTING");
    expect_ok(raw(cluster->redis[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster->ids[to]), "MIGRATING");
}

void cluster_move_keys(struct cluster *cluster, unsigned slot, int to)
{
    redisContext *from = cluster->redis[cluster->owner[slot]];
    for (;;) {
        redisReply *keys = redisCommand(from, "CLUSTER GETKEYSINSLOT %u 100", slot);
        if (!keys || keys->type != REDIS_REPLY_ARRAY)
            test_give_up("cluster: GETKEYSINSLOT");
        size_t n = keys->elements;
        for (size_t i = 0; i < n; i++) {
            const char *answer =
                raw(from, "MIGRATE 127.0.0.1 %d %s 0 5000", cluster->servers[to]->port, keys->element[i]->str);
            if (strcmp(answer, "OK") != 0 && strcmp(answer, "NOKEY") != 0)
                test_give_up("cluster: MIGRATE: %s", answer);
        }
        freeReplyObject(keys);
        if (n == 0)
            return;
    }
}

/* Who the server believes to be the slot's master: its port; 0: nobody. */
static int master_by(redisContext *redis, unsigned slot)
{
    int port = 0;
    redisReply *map = redisCommand(redis, "CLUSTER SLOTS");
    for (size_t k = 0; map && k < map->elements; k++) {
        redisReply **range = map->element[k]->element;
        if (range[0]->integer <= slot && slot <= range[1]->integer)
            port = (int)range[2]->element[1]->integer;
    }
    if (map)
        freeReplyObject(map);
    return port;
}

void cluster_make_alone(struct cluster *cluster, int server, int epoch)
{
    int next = (server + 1) % cluster->masters;
    unsigned last = 0;
    for (int i = 0; i < cluster->n; i++)
        if (i != server)
            expect_ok(raw(cluster->redis[i], "CLUSTER FORGET %s", cluster->ids[server]), "FORGET");
    reset(cluster, server);
    expect_ok(raw(cluster->redis[server], "CLUSTER SET-CONFIG-EPOCH %d", epoch), "SET-CONFIG-EPOCH");
    expect_ok(raw(cluster->redis[server], "CLUSTER ADDSLOTSRANGE 0 %d", CLUSTER_SLOTS - 1), "ADDSLOTSRANGE");
    WAIT_FOR(strstr(raw(cluster->redis[server], "CLUSTER INFO"), "cluster_state:ok") != NULL);
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (cluster->owner[slot] == server) {
            cluster->owner[slot] = (unsigned char)next;
            expect_ok(raw(cluster->redis[next], "CLUSTER ADDSLOTS %d", slot), "ADDSLOTS");
            last = (unsigned)slot;
        }
    for (int i = 0; i < cluster->n; i++)
        WAIT_FOR(i == server || master_by(cluster->redis[i], last) == port_of(cluster, next));
}

static bool all_agree(struct cluster *cluster, unsigned slot, int master)
{
    bool agree = true;
    for (int i = 0; i < cluster->n && agree; i++)
        agree = !cluster->redis[i] || master_by(cluster->redis[i], slot) == port_of(cluster, master);
    return agree;
}

/* The target first: no moment at which nobody has the slot. Until its replica knows of it a failover loses the slot. */
void cluster_move_end(struct cluster *cluster, unsigned slot, int to)
{
    int from = cluster->owner[slot];
    expect_ok(raw(cluster->redis[to], "CLUSTER SETSLOT %u NODE %s", slot, cluster->ids[to]), "NODE");
    expect_ok(raw(cluster->redis[from], "CLUSTER SETSLOT %u NODE %s", slot, cluster->ids[to]), "NODE");
    cluster->owner[slot] = (unsigned char)to;
    WAIT_FOR(all_agree(cluster, slot, to));
}

void cluster_move(struct cluster *cluster, unsigned slot, int to)
{
    cluster_move_begin(cluster, slot, to);
    cluster_move_keys(cluster, slot, to);
    cluster_move_end(cluster, slot, to);
}

void cluster_kill(struct cluster *cluster, int server)
{
    redisFree(cluster->redis[server]);
    cluster->redis[server] = NULL;
    server_kill(cluster->servers[server]);
}

void cluster_restart(struct cluster *cluster, int server, bool keep_data)
{
    redisFree(cluster->redis[server]);
    server_restart(cluster->servers[server], keep_data);
    cluster->redis[server] = raw_open(cluster->servers[server]);
    WAIT_FOR(all_know_all(cluster));
}

int cluster_master_of(struct cluster *cluster, unsigned slot)
{
    for (int i = 0; i < cluster->n; i++)
        if (cluster->redis[i] && master_by(cluster->redis[i], slot) == port_of(cluster, i))
            return i;
    return -1;
}

const char *cluster_leftovers(struct cluster *cluster)
{
    static char text[600];
    for (int i = 0; i < cluster->n; i++) {
        const char *left = cluster->redis[i] ? server_leftovers(cluster->servers[i]) : NULL;
        if (left) {
            snprintf(text, sizeof text, "server %d:%s", i, left);
            return text;
        }
    }
    return NULL;
}

/* All are asked before the first one stops: the cluster is down soon after, and answers nothing. */
void cluster_finish(struct cluster *cluster)
{
    const char *left = cluster_leftovers(cluster);
    for (int i = 0; i < cluster->n; i++) {
        if (cluster->redis[i])
            redisFree(cluster->redis[i]);
        close(cluster->bus_held[i]);
        proxy_stop(cluster->proxies[i]);
    }
    for (int i = 0; i < cluster->n; i++)
        server_stop(cluster->servers[i]);
    free(cluster);
    if (left)
        test_give_up("left in the cluster: %s", left);
}
