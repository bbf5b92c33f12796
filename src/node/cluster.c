#include "node/cluster.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "net/pipeline_up.h"
#include "node/cluster_read.h"
#include "node/cluster_servers.h"

#include <string.h>

/* --- the router: any thread --- */

static struct hlk_cluster *of(struct hlk_router *router)
{
    return (struct hlk_cluster *)(void *)router;
}

static hlk_pipeline *cluster_find(struct hlk_router *router, unsigned slot)
{
    HLK_DEBUG_ASSERT(slot < HLK_SLOTS);
    struct hlk_cluster *cluster = of(router);
    if (!atomic_load(&cluster->known)) {
        hlk_cluster_refresh(cluster);
        return NULL;
    }
    return cluster->servers[atomic_load(&cluster->keepers[slot])]->pipeline;
}

static const struct hlk_node *node_of(const struct hlk_cluster *cluster, const hlk_pipeline *pipeline)
{
    HLK_DEBUG_ASSERT(pipeline);
    unsigned i = 0;
    while (cluster->servers[i]->pipeline != pipeline)
        i++;
    return cluster->servers[i];
}

static hlk_pipeline *cluster_redirect(struct hlk_router *router, const hlk_pipeline *from, const char *words)
{
    HLK_DEBUG_ASSERT(from && words);
    struct hlk_cluster *cluster = of(router);
    const struct hlk_node *said = node_of(cluster, from);
    struct hlk_address to;
    unsigned slot;
    if (!hlk_slot_redirect_read(words, &slot, &to))
        return NULL;
    if (!*to.host)
        strcpy(to.host, said->endpoint.url.hosts[0].name);
    unsigned server = hlk_cluster_server(cluster, said, &to);
    bool moved = *words == 'M', known = server < HLK_SERVERS_MAX;
    if (!known) {
        hlk_mutex_lock(&cluster->mu);
        cluster->unknown = to;
        hlk_mutex_unlock(&cluster->mu);
    }
    if (moved && known)
        (void)hlk_cluster_set(cluster, slot, server);
    if (moved || !known)
        hlk_cluster_refresh(cluster);
    return known ? cluster->servers[server]->pipeline : NULL;
}

static void cluster_refresh(struct hlk_router *router)
{
    hlk_cluster_refresh(of(router));
}

/* --- open, close --- */

/* A server that is gone may have a successor; one that is there may be asked for the map. */
static void cluster_on_link(struct hlk_node *node, bool up)
{
    hlk_loop_assert_here(node->loop);
    HLK_DEBUG_ASSERT(node->cluster);
    (void)up;
    hlk_cluster_refresh(node->cluster);
}

static void set_opts(struct hlk_cluster *cluster, const struct hlk_node_opts *opts)
{
    HLK_DEBUG_ASSERT(cluster->home);
    const struct hlk_endpoint *endpoint = &cluster->home->endpoint;
    cluster->opts = *opts;
    cluster->opts.client_name = endpoint->client_name;
    cluster->opts.username = endpoint->url.username;
    cluster->opts.password = endpoint->url.password;
    cluster->opts.credentials = endpoint->credentials;
    if (endpoint->tls)
        cluster->opts.tls = hlk_tls_context_opts(endpoint->tls);
    cluster->opts.in_cluster = true;
    cluster->owner = cluster->home->owner;
}

enum hlk_status hlk_cluster_open(struct hlk_node *home, const struct hlk_node_opts *opts, struct hlk_error *error)
{
    hlk_loop_assert_here(home->loop);
    HLK_DEBUG_ASSERT(!home->cluster);
    struct hlk_cluster *cluster = hlk_mem_zalloc(sizeof *cluster);
    if (!cluster)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    cluster->router =
        (struct hlk_router){ .find = cluster_find, .redirect = cluster_redirect, .refresh = cluster_refresh };
    cluster->home = home;
    cluster->loop = home->loop;
    hlk_mutex_init(&cluster->mu, HLK_RANK_LEAF);
    set_opts(cluster, opts);
    hlk_cluster_read_init(cluster);
    home->cluster = cluster;
    home->on_link = cluster_on_link;
    cluster->servers[0] = home;
    atomic_store(&cluster->count, 1);
    const struct hlk_url *url = &home->endpoint.url;
    for (unsigned i = 1; i < url->host_count; i++) {
        struct hlk_address seed = { .port = url->hosts[i].port };
        strncpy(seed.host, url->hosts[i].name, sizeof seed.host - 1);
        if (hlk_cluster_server(cluster, home, &seed) == HLK_SERVERS_MAX)
            return hlk_error_set(error, HLK_E_NOMEM, "no memory for %s:%d", seed.host, seed.port);
    }
    return HLK_OK;
}

void hlk_cluster_free(struct hlk_cluster *cluster)
{
    if (!cluster)
        return;
    hlk_loop_assert_here(cluster->loop);
    for (unsigned i = 1; i < atomic_load(&cluster->count); i++) {
        hlk_node_fini(cluster->servers[i]);
        hlk_mem_free(cluster->servers[i]);
    }
    if (cluster->calls[2].call.reply)
        freeReplyObject(cluster->calls[2].call.reply);
    hlk_mutex_fini(&cluster->mu);
    hlk_mem_free(cluster);
}

/* Why there is no map yet. HLK_E_CONNECT as long as one may come. */
static enum hlk_status cluster_health(struct hlk_cluster *cluster, struct hlk_error *error)
{
    unsigned count = atomic_load(&cluster->count);
    bool up = false, may_come = false;
    struct hlk_error why;
    for (unsigned i = 0; i < count && !up; i++) {
        enum hlk_status status = hlk_pipeline_health(cluster->servers[i]->pipeline, &why);
        up = status == HLK_OK;
        if (!may_come)
            *error = why;
        may_come |= status == HLK_E_CONNECT;
    }
    if (!up)
        return error->status;
    hlk_mutex_lock(&cluster->mu);
    *error = cluster->refusal;
    hlk_mutex_unlock(&cluster->mu);
    return error->status != HLK_OK ? error->status : hlk_error_set(error, HLK_E_CONNECT, "no map of the slots yet");
}

enum hlk_status hlk_cluster_wait(struct hlk_cluster *cluster, struct hlk_thread *self, int64_t until_ms,
                                 struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    enum hlk_status status;
    atomic_store(&cluster->opener, self);
    hlk_cluster_refresh(cluster);
    for (;;) {
        (void)hlk_park_take(&self->park, HLK_WAKE_UP);
        status = atomic_load(&cluster->known) ? HLK_OK : cluster_health(cluster, error);
        if (status != HLK_E_CONNECT || hlk_clock_ms() >= until_ms)
            break;
        (void)hlk_park_until(&self->park, HLK_WAKE_UP, until_ms, -1, NULL);
    }
    atomic_store(&cluster->opener, NULL);
    return status;
}
