/* Opens a client: of one server, of a cluster, or of several independent masters. */
#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/nocancel.h"
#include "client_opts.h"
#include "node/route_single.h"
#include "quorum/connect.h"
#include "quorum/hold.h"
#include "quorum/opts.h"
#include "quorum/release.h"
#include "quorum/round.h"
#include "quorum/url.h"

#include <stdio.h>
#include <string.h>

/* --- what the client calls --- */

/* Held; or lost, and of a holder that has not released it. With a reference. */
static struct hlk_quorum *next_due(struct hlk_quorums *all)
{
    struct hlk_quorum *due = NULL;
    hlk_mutex_lock(&all->mu);
    for (struct hlk_list *node = all->all.next; node != &all->all && !due; node = node->next) {
        struct hlk_quorum *quorum = HLK_CONTAINER(node, struct hlk_quorum, link);
        if (quorum->state == HLK_QUORUM_HELD || (quorum->state == HLK_QUORUM_LOST && quorum->node.key))
            due = quorum;
    }
    if (due)
        hlk_quorum_ref(due);
    hlk_mutex_unlock(&all->mu);
    return due;
}

static void quorums_close(struct hlk_client_topology *topology, hlk_client *client)
{
    hlk_mutex_assert_none();
    struct hlk_quorums *all = HLK_CONTAINER(topology, struct hlk_quorums, topology);
    struct hlk_quorum *quorum;
    (void)client;
    while ((quorum = next_due(all))) {
        hlk_quorum_release_nowait(quorum, true);
        hlk_quorum_drop_loss(quorum);
        hlk_quorum_unref(quorum);
    }
}

static void quorums_fini(struct hlk_client_topology *topology)
{
    struct hlk_quorums *all = HLK_CONTAINER(topology, struct hlk_quorums, topology);
    hlk_map_fini(&all->queues);
    hlk_map_fini(&all->holders);
    hlk_mutex_fini(&all->mu);
    hlk_mem_free(all);
}

static void on_quorum_orphan(struct hlk_entry_table *table, uint64_t holder)
{
    HLK_DEBUG_ASSERT(holder);
    const hlk_client *client = HLK_CONTAINER(table, struct hlk_client, table);
    hlk_quorum_orphan(hlk_quorums_of(client), holder);
}

/* opts: of the locks that are made by hlk_lock_create. */
static enum hlk_status add_part(hlk_client *client, bool no_spin, const struct hlk_quorum_opts *opts)
{
    HLK_DEBUG_ASSERT(!client->topology);
    struct hlk_quorum_opts complete = *opts;
    if (!complete.ttl_ms)
        complete.ttl_ms = client->table.watchdog_ms;
    const char *wrong = hlk_quorum_opts_wrong(&complete);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "open: %s", wrong);
    hlk_quorum_opts_complete(&complete);
    struct hlk_quorums *all = hlk_mem_zalloc(sizeof *all);
    if (!all)
        return hlk_last_set(HLK_E_NOMEM, "open: no memory");
    all->opts = complete;
    all->topology.locks = &hlk_quorum_locks;
    (void)snprintf(all->topology.shown, sizeof all->topology.shown, "%u masters", client->node_count);
    all->topology.close = quorums_close;
    all->topology.fini = quorums_fini;
    hlk_mutex_init(&all->mu, HLK_RANK_ENTRY);
    hlk_list_init(&all->all);
    hlk_spin_init(&all->spin, no_spin);
    client->topology = &all->topology;
    hlk_quorum_watch_links(client);
    atomic_store(&client->table.on_orphan, on_quorum_orphan);
    return HLK_OK;
}

/* --- open --- */

/* One server each. */
static enum hlk_status check_masters(const hlk_client *client)
{
    for (unsigned i = 0; i < client->node_count; i++) {
        const struct hlk_url *url = &client->nodes[i].endpoint.url;
        if (url->kind == HLK_URL_CLUSTER || url->kind == HLK_URL_SENTINEL)
            return hlk_last_set(HLK_E_INVALID, "open: %s: a master of a quorum is one server, without replicas",
                                url->shown);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(url->shown, client->nodes[j].endpoint.url.shown) == 0)
                return hlk_last_set(HLK_E_INVALID, "open: %s is there twice", url->shown);
    }
    return HLK_OK;
}

static enum hlk_status connect_majority(const hlk_client *client)
{
    hlk_mutex_assert_none();
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_quorum_links links;
    if (!self)
        return hlk_last_set(HLK_E_NOMEM, "open: no memory");
    int64_t timeout = client->reconnect_timeout_ms < 0 ? HLK_RECONNECT_TIMEOUT_MS : client->reconnect_timeout_ms;
    hlk_quorum_links_wait(client, self, HLK_QUORUM_MAJORITY, hlk_clock_after(hlk_clock_ms(), timeout), &links);
    if (links.up >= links.need)
        return HLK_OK;
    return hlk_last_set(links.failure, "open: %u of %u masters are connected, %u are needed%s", links.up, links.n,
                        links.need, links.why);
}

static enum hlk_status open_quorum(hlk_client **out, const char *const *urls, unsigned count,
                                   const struct hlk_client_opts *given, const struct hlk_quorum_opts *of_locks)
{
    HLK_DEBUG_ASSERT(of_locks);
    struct hlk_client_opts opts;
    if (!out)
        return hlk_last_set(HLK_E_INVALID, "open: out is NULL");
    *out = NULL;
    enum hlk_status status = hlk_client_read_opts(given, &opts);
    if (status != HLK_OK)
        return status;
    if (!urls || count < 1 || count > HLK_QUORUM_MAX)
        return hlk_last_set(HLK_E_INVALID, "open: 1 to %d masters", HLK_QUORUM_MAX);
    if (opts.wait_replicas)
        return hlk_last_set(HLK_E_INVALID, "open: wait_replicas is for one master; these have no replicas");
    bool lazy = opts.flags & HLK_OPEN_LAZY;
    opts.flags |= HLK_OPEN_LAZY;
    opts.yield_every = -1; /* there are no tickets, and no queue that the lock would be kept from */
    status = hlk_client_open_nodes(out, urls, count, hlk_route_single, &opts);
    if (status != HLK_OK)
        return status;
    status = check_masters(*out);
    if (status == HLK_OK)
        status = add_part(*out, opts.flags & HLK_OPEN_NO_SPIN, of_locks);
    if (status == HLK_OK && !lazy)
        status = connect_majority(*out);
    if (status != HLK_OK) {
        hlk_client_close(*out);
        *out = NULL;
    }
    return status;
}

enum hlk_status hlk_quorum_open(hlk_client **out, const char *const *urls, unsigned count,
                                const struct hlk_client_opts *opts)
{
    static const struct hlk_quorum_opts usual = HLK_QUORUM_OPTS_INIT;
    int old = hlk_nocancel_begin();
    enum hlk_status status = open_quorum(out, urls, count, opts, &usual);
    hlk_nocancel_end(old);
    return status;
}

static enum hlk_status open_redlock(hlk_client **out, const char *text, const struct hlk_client_opts *opts)
{
    struct hlk_quorum_url url;
    struct hlk_error error;
    if (out)
        *out = NULL;
    if (hlk_quorum_url_parse(&url, text, &error) != HLK_OK)
        return hlk_last_set(error.status, "open: %s", error.text);
    enum hlk_status status = open_quorum(out, url.urls, url.count, opts, &url.opts);
    hlk_quorum_url_fini(&url);
    return status;
}

enum hlk_status hlk_client_open(hlk_client **out, const char *url, const struct hlk_client_opts *opts)
{
    int old = hlk_nocancel_begin();
    enum hlk_status status = hlk_quorum_url_is(url) ? open_redlock(out, url, opts)
                                                    : hlk_client_open_nodes(out, &url, 1, hlk_route_single, opts);
    hlk_nocancel_end(old);
    return status;
}
