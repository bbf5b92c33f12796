/* Completions in the application's own loop: one descriptor to poll, one call. */
#include "client.h"

#include "base/debug.h"
#include "base/nocancel.h"
#include "net/pipeline_lead.h"
#include "node/topology.h"

#include <sys/eventfd.h>

#define DISPATCH_PUSH 32 /* measured: two phases of 64 calls in flight overlap; 16 is no better */

int hlk_client_fd(hlk_client *client)
{
    return hlk_client_check(client, "fd", NULL) == HLK_OK ? client->epoll_fd : -1;
}

static void dispatch_server(struct hlk_node *server)
{
    hlk_mutex_assert_none();
    hlk_pipeline_dispatch(server->pipeline);
}

static void hold_back(struct hlk_node *server)
{
    hlk_pipeline_hold_back(server->pipeline, true);
}

static void send_held_back(struct hlk_node *server)
{
    hlk_pipeline_hold_back(server->pipeline, false);
}

static void push(struct hlk_node *server)
{
    hlk_mutex_assert_none();
    hlk_pipeline_push(server->pipeline);
}

/* True: commands are queued that only another dispatch can write. */
static bool arm_nodes(hlk_client *client)
{
    HLK_DEBUG_ASSERT(client->epoll_fd >= 0);
    bool queued = false;
    struct hlk_node *server;
    for (unsigned i = 0; i < client->node_count; i++)
        for (unsigned k = 0; (server = hlk_node_server(&client->nodes[i], k)); k++)
            queued |= hlk_pipeline_arm(server->pipeline, client->epoll_fd);
    return queued;
}

int hlk_client_dispatch(hlk_client *client, int max)
{
    if (hlk_client_check(client, "dispatch", NULL) != HLK_OK || client->epoll_fd < 0)
        return 0;
    eventfd_t drained;
    atomic_store(&client->work_signalled, true); /* no wake-up for events of this dispatch itself */
    int old = hlk_nocancel_begin();
    (void)eventfd_read(client->work_fd, &drained);
    hlk_nocancel_end(old);
    hlk_client_each_server(client, dispatch_server);
    int ran = 0;
    bool more = false;
    struct hlk_list now;
    hlk_list_init(&now);
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_splice(&now, &client->ready); /* completions that are added meanwhile wait for the next dispatch */
    hlk_mutex_unlock(&client->ready_mu);
    struct hlk_list *node;
    hlk_client_each_server(client, hold_back);
    struct hlk_thread *outer = atomic_exchange(&client->dispatcher, hlk_thread_get());
    while ((max <= 0 || ran < max) && (node = hlk_list_pop(&now))) {
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
        if (++ran % DISPATCH_PUSH == 0) /* the server works on these while we run the next */
            hlk_client_each_server(client, push);
    }
    atomic_store(&client->dispatcher, outer);
    hlk_client_each_server(client, send_held_back);
    hlk_client_each_server(client, dispatch_server);
    atomic_store(&client->work_signalled, false);
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_splice(&now, &client->ready);
    hlk_list_splice(&client->ready, &now);
    more = !hlk_list_empty(&client->ready);
    hlk_mutex_unlock(&client->ready_mu);
    /* While work_signalled was true, commands queued by other threads caused no wake-up. */
    if (arm_nodes(client) || more)
        hlk_client_need_dispatch(client);
    return ran;
}
