/* Completions in the user's own loop: one descriptor to poll, one call. */
#include "client.h"

#include "base/nocancel.h"

#include <sys/eventfd.h>

#define DISPATCH_PUSH 32 /* measured: two phases of 64 calls in flight overlap; 16 is no better */

int hlk_client_fd(hlk_client *client)
{
    return hlk_client_check(client, "fd", NULL) == HLK_OK ? client->epoll_fd : -1;
}

int hlk_client_dispatch(hlk_client *client, int max)
{
    if (hlk_client_check(client, "dispatch", NULL) != HLK_OK || client->epoll_fd < 0)
        return 0;
    eventfd_t drained;
    atomic_store(&client->work_told, true); /* what we cause ourselves wakes nobody */
    int old = hlk_nocancel_begin();
    (void)eventfd_read(client->work_fd, &drained);
    hlk_nocancel_end(old);
    hlk_mux_dispatch(client->mux);
    int ran = 0;
    bool more = false;
    struct hlk_list now;
    hlk_list_init(&now);
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_splice(&now, &client->ready); /* what they complete at once waits for the next dispatch */
    hlk_mutex_unlock(&client->ready_mu);
    struct hlk_list *node;
    hlk_mux_batch(client->mux, true);
    struct hlk_self *outer = atomic_exchange(&client->dispatcher, hlk_self_get());
    while ((max <= 0 || ran < max) && (node = hlk_list_pop(&now))) {
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
        if (++ran % DISPATCH_PUSH == 0) /* the server works on these while we run the next */
            hlk_mux_push(client->mux);
    }
    atomic_store(&client->dispatcher, outer);
    hlk_mux_batch(client->mux, false);
    hlk_mux_dispatch(client->mux);
    atomic_store(&client->work_told, false);
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_splice(&now, &client->ready);
    hlk_list_splice(&client->ready, &now);
    more = !hlk_list_empty(&client->ready);
    hlk_mutex_unlock(&client->ready_mu);
    /* What another thread queued while work_told was up told nobody. */
    if (hlk_mux_arm(client->mux, client->epoll_fd) || more)
        hlk_client_work(client);
    return ran;
}
