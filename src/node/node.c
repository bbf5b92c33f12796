#include "node/node.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/min.h"
#include "hasplock/client.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "node/replicas.h"
#include "node/topology.h"
#include "script/batch.h"
#include "script/greeting.h"
#include "script/release_list.h"

#include <stdio.h>
#include <time.h>

#define DRAIN_LOOK_MS 10 /* between two looks whether releases are still waited for */

/* --- what its parts call up --- */

static void node_on_up(void *ctx)
{
    struct hlk_node *node = ctx;
    hlk_loop_assert_here(node->loop);
    node->owner.verify(node);
    hlk_releases_on_up(&hlk_node_home(node)->releases);
    if (node->on_link)
        node->on_link(node, true);
}

static void node_on_down(void *ctx, const struct hlk_error *why)
{
    struct hlk_node *node = ctx;
    hlk_loop_assert_here(node->loop);
    hlk_log(&node->endpoint.log, HLK_LOG_INFO, "%s: %s", node->endpoint.url.shown, why->text);
    if (node->on_link)
        node->on_link(node, false);
}

static void node_on_moved(void *ctx)
{
    struct hlk_node *node = ctx;
    hlk_loop_assert_here(node->loop);
    hlk_subscriber_move(&node->channels.pubsub);
    hlk_replicas_move(node->replicas);
}

/* The master is another server now. Answers of the old one do not count any more. */
static void node_on_new_master(void *ctx)
{
    struct hlk_node *node = ctx;
    hlk_loop_assert_here(node->loop);
    hlk_pipeline_move(node->pipeline);
    hlk_subscriber_move(&node->channels.pubsub);
    hlk_replicas_move(node->replicas);
}

/* The map is mended by what the server says; without words it is read again. */
static void node_on_channel_moved(void *ctx, const char *words)
{
    const struct hlk_node *node = ctx;
    struct hlk_router *router = node->cluster ? &node->cluster->router : NULL;
    if (router && words)
        (void)router->redirect(router, node->pipeline, words);
    else if (router)
        router->refresh(router);
}

static void node_on_work(void *ctx)
{
    const struct hlk_node *node = ctx;
    node->owner.on_work(node->owner.ctx);
}

static void node_on_inbox_message(void *ctx, const char *message, size_t len)
{
    struct hlk_node *node = ctx;
    hlk_mutex_assert_none();
    node->owner.receive(hlk_node_home(node), message, len);
}

/* What was broken while the inbox was not subscribed is not in it. */
static void node_on_inbox(void *ctx)
{
    struct hlk_node *node = ctx;
    hlk_loop_post(node->loop, &node->verify);
}

static void node_on_verify(struct hlk_post *post)
{
    struct hlk_node *node = HLK_CONTAINER(post, struct hlk_node, verify);
    hlk_loop_assert_here(node->loop);
    node->owner.verify(node);
}

/* --- open, close --- */

static bool replace_secret(char **old, const char *now)
{
    if (!now)
        return true;
    char *copy = hlk_mem_strdup(now);
    if (!copy)
        return false;
    hlk_mem_free(*old);
    *old = copy;
    return true;
}

/* An option that would have no effect is refused: its caller expects TLS. */
static enum hlk_status set_tls(struct hlk_endpoint *endpoint, const struct hlk_tls_opts *tls, struct hlk_error *error)
{
    bool given = tls->ca_file || tls->ca_dir || tls->cert_file || tls->crl_file || tls->server_name;
    if (!endpoint->url.tls)
        return given ? hlk_error_set(error, HLK_E_INVALID, "tls_...: the URL is not one with TLS (rediss://)") : HLK_OK;
    endpoint->tls = hlk_tls_context_create(tls);
    return endpoint->tls ? HLK_OK : hlk_error_set(error, HLK_E_NOMEM, "no memory");
}

static enum hlk_status set_endpoint(struct hlk_endpoint *endpoint, const struct hlk_node_opts *opts,
                                    struct hlk_error *error)
{
    enum hlk_status status = opts->url ? hlk_url_parse(&endpoint->url, opts->url, error)
                                       : hlk_error_set(error, HLK_E_INVALID, "the URL is NULL");
    if (status != HLK_OK)
        return status;
    endpoint->log = opts->log;
    endpoint->reply_timeout_ms = opts->reply_timeout_ms;
    (void)snprintf(endpoint->client_name, sizeof endpoint->client_name, "%s", opts->client_name);
    endpoint->credentials = opts->credentials;
    if (opts->credentials.password_file &&
        !(endpoint->credentials.password_file = hlk_mem_strdup(opts->credentials.password_file)))
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    if (!replace_secret(&endpoint->url.username, opts->username) ||
        !replace_secret(&endpoint->url.password, opts->password))
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    return set_tls(endpoint, &opts->tls, error);
}

static enum hlk_status set_locator(struct hlk_node *node, const struct hlk_node_opts *opts, struct hlk_error *error)
{
    if (node->endpoint.url.kind != HLK_URL_SENTINEL)
        return HLK_OK;
    node->endpoint.locator = &node->sentinels.locator;
    return hlk_sentinels_init(&node->sentinels, node->loop, &node->endpoint, opts->sentinel_username,
                              opts->sentinel_password, node_on_new_master, node, error);
}

enum hlk_status hlk_node_open(struct hlk_node *node, hlk_loop *loop, const struct hlk_node_opts *opts,
                              const struct hlk_node_owner *owner, struct hlk_error *error)
{
    hlk_loop_assert_here(loop);
    HLK_DEBUG_ASSERT(owner->verify && owner->receive && !node->pipeline);
    node->loop = loop;
    node->owner = *owner;
    node->verify.run = node_on_verify;
    enum hlk_status status = set_endpoint(&node->endpoint, opts, error);
    if (status == HLK_OK)
        status = set_locator(node, opts, error);
    bool in_cluster = opts->in_cluster || node->endpoint.url.kind == HLK_URL_CLUSTER;
    if (status == HLK_OK && !hlk_scripts_greeting(&node->greeting, opts->client_id, opts->pubsub, in_cluster))
        status = hlk_error_set(error, HLK_E_NOMEM, "no memory");
    if (status != HLK_OK)
        return status;
    struct hlk_pipeline_owner calls = { .ctx = node,
                                        .on_up = node_on_up,
                                        .on_down = node_on_down,
                                        .on_moved = node_on_moved,
                                        .build_batch = in_cluster ? NULL : hlk_batch_build,
                                        .on_work = owner->on_work ? node_on_work : NULL };
    status = hlk_pipeline_create(&node->pipeline, loop, &node->endpoint, &node->greeting, &calls, opts->no_spin, error);
    if (status != HLK_OK)
        return status;
    hlk_releases_init(&node->releases, loop, opts->client_id);
    node->releases.pipeline = node->pipeline;
    node->releases.log = &node->endpoint.log;
    node->releases.yield_every = opts->yield_every;
    node->releases.yield_ms = opts->yield_ms;
    status =
        hlk_channels_init(&node->channels, loop, &node->endpoint, opts->client_id, node_on_inbox_message, node, error);
    node->channels.on_inbox = opts->listening ? node_on_inbox : NULL;
    node->channels.on_moved = node_on_channel_moved;
    if (status == HLK_OK && opts->wait_replicas)
        status = hlk_replicas_open(&node->replicas, loop, &node->endpoint, &node->greeting, opts->client_id,
                                   opts->wait_replicas, error);
    return status;
}

void hlk_node_disconnect(struct hlk_node *node)
{
    if (node->pipeline)
        hlk_pipeline_close(node->pipeline);
    hlk_replicas_disconnect(node->replicas);
}

void hlk_node_settle(struct hlk_node *node)
{
    if (!node->pipeline)
        return;
    hlk_loop_assert_here(node->loop);
    hlk_releases_settle_all(&node->releases);
    hlk_channels_close(&node->channels);
}

void hlk_node_fini(struct hlk_node *node)
{
    if (node->pipeline) {
        hlk_channels_fini(&node->channels);
        hlk_releases_fini(&node->releases);
    }
    hlk_map_fini(&node->entries);
    hlk_map_fini(&node->holds);
    hlk_pipeline_destroy(node->pipeline);
    hlk_replicas_free(node->replicas);
    hlk_sentinels_fini(&node->sentinels);
    hlk_url_fini(&node->endpoint.url);
    hlk_mem_free((char *)node->endpoint.credentials.password_file);
    hlk_tls_context_destroy(node->endpoint.tls);
    hlk_buffer_fini(&node->greeting.bytes);
    hlk_buffer_fini(&node->greeting.late);
}

/* HLK_OK: it is connected, and has answered. Else why it is not connected by up_ms (0: now). */
static enum hlk_status drain_server(struct hlk_node *server, int64_t at_ms, int64_t up_ms)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    struct hlk_thread *self = hlk_thread_get();
    enum hlk_status status = hlk_pipeline_health(server->pipeline, &error);
    if (status != HLK_OK && up_ms && self)
        status = hlk_pipeline_wait_up(server->pipeline, self, up_ms, 0, &error);
    if (status == HLK_OK)
        (void)hlk_pipeline_drain(server->pipeline, at_ms);
    return status;
}

/* HLK_OK: one of them at least. */
static enum hlk_status drain_servers(struct hlk_node *node, int64_t at_ms, int64_t up_ms)
{
    enum hlk_status status = HLK_E_CONNECT;
    struct hlk_node *server;
    for (unsigned i = 0; (server = hlk_node_server(node, i)); i++) {
        enum hlk_status one = drain_server(server, at_ms, up_ms);
        status = status == HLK_OK ? status : one;
    }
    return status;
}

/* A release that the server answered with NOSCRIPT, or refused for now, is in the stream a second time. In a cluster a
 * server that does not come back may have a successor: no wait here. A connection is waited for in short
 * waits, because the releases may become optional meanwhile. */
void hlk_node_drain(struct hlk_node *node, int64_t at_ms)
{
    hlk_mutex_assert_none();
    static const struct timespec moment = { 0, 1000000 };
    for (int64_t now; hlk_releases_awaited(&node->releases) > 0 && (now = hlk_clock_ms()) < at_ms;) {
        int64_t up_ms = node->cluster ? 0 : hlk_min_ms(now + DRAIN_LOOK_MS, at_ms);
        enum hlk_status status = drain_servers(node, at_ms, up_ms);
        if (status != HLK_OK && status != HLK_E_CONNECT && !node->cluster)
            return;
        if (hlk_releases_awaited(&node->releases) > 0)
            (void)nanosleep(&moment, NULL);
    }
}

void hlk_node_drain_connected(struct hlk_node *node, int64_t at_ms)
{
    (void)drain_servers(node, at_ms, 0);
}
