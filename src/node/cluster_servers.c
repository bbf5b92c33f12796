#include "node/cluster_servers.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "hasplock/client.h"

#include <stdio.h>
#include <string.h>

static const struct hlk_host *host_of(const struct hlk_node *node)
{
    return &node->endpoint.url.hosts[0];
}

static unsigned find(const struct hlk_cluster *cluster, const char *host, int port)
{
    HLK_DEBUG_ASSERT(host);
    unsigned count = atomic_load(&cluster->count);
    for (unsigned i = 0; i < count; i++) {
        const struct hlk_host *is = host_of(cluster->servers[i]);
        if (is->port == port && strcmp(is->name, host) == 0)
            return i;
    }
    return HLK_SERVERS_MAX;
}

static struct hlk_node *make_server(const struct hlk_cluster *cluster, const char *host, int port,
                                    struct hlk_error *error)
{
    hlk_loop_assert_here(cluster->loop);
    char url[sizeof((struct hlk_address *)0)->host + 24];
    bool v6 = strchr(host, ':'), tls = cluster->home->endpoint.url.tls;
    (void)snprintf(url, sizeof url, "%s://%s%s%s:%d", tls ? "rediss" : "redis", v6 ? "[" : "", host, v6 ? "]" : "",
                   port);
    struct hlk_node_opts opts = cluster->opts;
    opts.url = url;
    struct hlk_node *node = hlk_mem_zalloc(sizeof *node);
    if (!node) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory");
        return NULL;
    }
    if (hlk_node_open(node, cluster->loop, &opts, &cluster->owner, error) == HLK_OK) {
        node->channels.pubsub.sharded = atomic_load(&cluster->router.sharded);
        return node;
    }
    hlk_node_fini(node);
    hlk_mem_free(node);
    return NULL;
}

static unsigned add(struct hlk_cluster *cluster, const char *host, int port)
{
    hlk_loop_assert_here(cluster->loop);
    struct hlk_error error;
    unsigned i = atomic_load(&cluster->count);
    bool full = i == HLK_SERVERS_MAX;
    struct hlk_node *node = full ? NULL : make_server(cluster, host, port, &error);
    if (full)
        (void)hlk_error_set(&error, HLK_E_SERVER, "%d servers are known, and no more are used", HLK_SERVERS_MAX);
    if (!node) {
        hlk_log(&cluster->home->endpoint.log, HLK_LOG_WARN, "%s: server %s:%d is left out: %s",
                cluster->home->endpoint.url.shown, host, port, error.text);
        return HLK_SERVERS_MAX;
    }
    node->cluster = cluster->home->cluster;
    node->on_link = cluster->home->on_link;
    cluster->servers[i] = node;
    atomic_store(&cluster->count, i + 1);
    return i;
}

unsigned hlk_cluster_server(struct hlk_cluster *cluster, const struct hlk_node *from, const struct hlk_address *address)
{
    const char *host = *address->host ? address->host : host_of(from)->name;
    unsigned i = find(cluster, host, address->port);
    return i == HLK_SERVERS_MAX && hlk_loop_here(cluster->loop) ? add(cluster, host, address->port) : i;
}

bool hlk_cluster_set(struct hlk_cluster *cluster, unsigned slot, unsigned server)
{
    HLK_DEBUG_ASSERT(slot < HLK_SLOTS && server < atomic_load(&cluster->count));
    bool moves = atomic_exchange(&cluster->keepers[slot], (uint16_t)server) != server;
    if (!moves)
        return false;
    hlk_mutex_lock(&cluster->mu);
    cluster->moved[slot / 64] |= UINT64_C(1) << slot % 64;
    hlk_mutex_unlock(&cluster->mu);
    atomic_store(&cluster->router.moved_ms, hlk_clock_ms());
    return true;
}

bool hlk_cluster_keeps(const struct hlk_cluster *cluster, unsigned server)
{
    HLK_DEBUG_ASSERT(server < HLK_SERVERS_MAX);
    unsigned slot = 0;
    while (slot < HLK_SLOTS && atomic_load(&cluster->keepers[slot]) != server)
        slot++;
    return slot < HLK_SLOTS;
}

bool hlk_cluster_moved(const struct hlk_cluster *cluster, const char *name, size_t len)
{
    hlk_loop_assert_here(cluster->loop);
    unsigned slot = hlk_slot_of(name, len);
    return cluster->settling[slot / 64] >> slot % 64 & 1;
}
