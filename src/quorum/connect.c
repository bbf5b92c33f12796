#include "quorum/connect.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/min.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "quorum/hold.h"
#include "quorum/round_retake.h"
#include "quorum/tally.h"

#include <string.h>

#define LOOK_MS 10

/* --- which masters are connected --- */

void hlk_quorum_links_look(const hlk_client *client, struct hlk_quorum_links *links)
{
    HLK_DEBUG_ASSERT(client->node_count > 0 && client->node_count <= HLK_QUORUM_MAX);
    struct hlk_text why;
    struct hlk_error error;
    *links = (struct hlk_quorum_links){ .n = client->node_count, .need = client->node_count / 2 + 1 };
    hlk_text_init(&why, links->why, sizeof links->why);
    for (unsigned i = 0; i < links->n; i++) {
        struct hlk_pipeline *pipeline = client->nodes[i].pipeline;
        hlk_pipeline_link_dial(pipeline);
        bool tried = hlk_pipeline_tried(pipeline); /* before the look, so that what comes up meanwhile is not away */
        enum hlk_status status = hlk_pipeline_health(pipeline, &error);
        if (status == HLK_OK) {
            links->up++;
            continue;
        }
        if (status == HLK_E_CONNECT && (!tried || !links->waits))
            links->waits = pipeline;
        links->untried += status == HLK_E_CONNECT && !tried;
        links->refused += status != HLK_E_CONNECT;
        links->failure = links->failure == HLK_OK || links->failure == status ? status : HLK_E_CONNECT;
        hlk_tally_reason(&why, &client->nodes[i], error.text);
    }
}

static bool is_reached(enum hlk_quorum_goal goal, const struct hlk_quorum_links *links)
{
    switch (goal) {
    case HLK_QUORUM_MAJORITY:
        return links->up >= links->need || links->n - links->refused < links->need;
    case HLK_QUORUM_MAJORITY_NOW:
        return links->up >= links->need || links->up + links->untried < links->need;
    case HLK_QUORUM_ALL_TRIED:
        break;
    }
    return links->untried == 0;
}

void hlk_quorum_links_wait(const hlk_client *client, struct hlk_thread *self, enum hlk_quorum_goal goal, int64_t at_ms,
                           struct hlk_quorum_links *links)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    struct hlk_error error;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    for (;;) {
        hlk_quorum_links_look(client, links);
        int64_t now = hlk_clock_ms();
        if (is_reached(goal, links) || !links->waits || now >= at_ms)
            return;
        (void)hlk_pipeline_wait_up(links->waits, self, hlk_min_ms(now + LOOK_MS, at_ms), 0, &error);
    }
}

/* --- one server by two URLs --- */

/* Of the two the one that was known first counts. Called before the connection of master i can be used. */
static void look_for_twin(struct hlk_quorums *all, const hlk_client *client, unsigned i)
{
    hlk_loop_assert_here(client->loop);
    HLK_DEBUG_ASSERT(i < client->node_count);
    unsigned bit = 1u << i, twins = atomic_load(&all->twins) & ~bit;
    uint64_t server = hlk_pipeline_server(client->nodes[i].pipeline);
    const struct hlk_endpoint *endpoint = &client->nodes[i].endpoint;
    for (unsigned k = 0; k < client->node_count && server; k++) {
        if (k == i || (twins & 1u << k) || hlk_pipeline_server(client->nodes[k].pipeline) != server)
            continue;
        twins |= bit;
        hlk_log(&endpoint->log, HLK_LOG_WARN, "%s: it is the same server as %s, and does not count",
                endpoint->url.shown, client->nodes[k].endpoint.url.shown);
    }
    atomic_store(&all->twins, twins);
}

/* --- a master that connects later --- */

/* What is held, and lacks master i. With a reference each. */
static void collect_lacking(struct hlk_quorums *all, unsigned i, struct hlk_list *found)
{
    HLK_DEBUG_ASSERT(i < HLK_QUORUM_MAX);
    hlk_list_init(found);
    hlk_mutex_lock(&all->mu);
    for (struct hlk_list *node = all->all.next; node != &all->all; node = node->next) {
        struct hlk_quorum *quorum = HLK_CONTAINER(node, struct hlk_quorum, link);
        if (quorum->state != HLK_QUORUM_HELD || !hlk_round_lacks(quorum->round, i))
            continue;
        hlk_quorum_ref(quorum);
        hlk_list_push_back(found, &quorum->connecting);
    }
    hlk_mutex_unlock(&all->mu);
}

static void on_connected(struct hlk_post *post)
{
    hlk_mutex_assert_none();
    struct hlk_quorum_master *master = HLK_CONTAINER(post, struct hlk_quorum_master, connected);
    struct hlk_list found, *node;
    collect_lacking(master->all, (unsigned)(master - master->all->masters), &found);
    while ((node = hlk_list_pop(&found))) {
        struct hlk_quorum *quorum = HLK_CONTAINER(node, struct hlk_quorum, connecting);
        hlk_quorum_retake_if_held(quorum);
        hlk_quorum_unref(quorum);
    }
}

/* Its connection is not open for others yet: later, not here. */
static void on_link(struct hlk_node *node, bool up)
{
    const hlk_client *client = HLK_CONTAINER(node->table, struct hlk_client, table);
    struct hlk_quorums *all = hlk_quorums_of(client);
    if (!up)
        return;
    look_for_twin(all, client, (unsigned)(node - client->nodes));
    hlk_loop_post(node->loop, &all->masters[node - client->nodes].connected);
}

void hlk_quorum_watch_links(hlk_client *client)
{
    HLK_DEBUG_ASSERT(client->topology && client->node_count <= HLK_QUORUM_MAX);
    struct hlk_quorums *all = hlk_quorums_of(client);
    for (unsigned i = 0; i < client->node_count; i++) {
        all->masters[i] = (struct hlk_quorum_master){ .all = all, .connected = { .run = on_connected } };
        client->nodes[i].on_link = on_link;
    }
}
