#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cluster *cluster;

void cluster_begin(void)
{
    cluster = cluster_start(MASTERS, 0);
}

void cluster_begin_replicas(void)
{
    cluster = cluster_start(MASTERS, MASTERS);
    for (int i = 0; i < cluster->n; i++)
        server_allow(cluster->servers[i], SERVER_TOMBSTONES); /* what was in doubt when the master died */
}

void cluster_end(void)
{
    fixture_end();
    cluster_finish(cluster);
}

struct hlk_client_opts patient_opts(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = WAIT_MS;
    opts.reply_timeout_ms = 5000;
    return opts;
}

hlk_client *open_cluster(void)
{
    struct hlk_client_opts opts = patient_opts();
    return fixture_open_at(cluster->url, &opts);
}

hlk_lock *lock_at(hlk_client *client, int server, int i, const struct hlk_lock_opts *opts)
{
    char name[64];
    cluster_name(cluster, server, i, name, sizeof name);
    return fixture_lock(client, name, opts);
}

unsigned slot_of(const hlk_lock *lock)
{
    return cluster_slot(cluster, hlk_lock_name(lock));
}

bool is_at(const hlk_lock *lock, int server)
{
    const char *keys = raw(cluster->redis[server], "KEYS *");
    char key[96];
    snprintf(key, sizeof key, "\"%s\"", hlk_lock_name(lock));
    return strstr(keys, key) != NULL;
}

static long long offset_of(int server, const char *field)
{
    const char *at = strstr(raw(cluster->redis[server], "INFO replication"), field);
    return at ? strtoll(at + strlen(field), NULL, 10) : -1;
}

int replica_of(int server)
{
    return (server + MASTERS) % cluster->n;
}

/* WAIT would be about what this connection wrote. */
void replicated(int server)
{
    long long written = offset_of(server, "master_repl_offset:");
    WAIT_FOR(offset_of(replica_of(server), "slave_repl_offset:") >= written);
}

void acquire(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
}

void release(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}
