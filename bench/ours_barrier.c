/* ours_barrier.c - hasplock's barrier as a peer: ours-barrier-N, of N parties. The last of them arrives in `fire`. */
#include "ours.h"

#include <stdlib.h>
#include <string.h>

static hlk_client *const *client_of_process;

static int barrier_open(struct bench_worker *worker)
{
    const char *parties = strrchr(worker->options->variant, '-');
    worker->state = hlk_barrier_create(*client_of_process, worker->key, (unsigned)strtoul(parties + 1, NULL, 10), 0);
    return worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void barrier_close(struct bench_worker *worker)
{
    hlk_barrier_destroy(worker->state);
}

static int barrier_await(struct bench_worker *worker)
{
    enum hlk_status status = hlk_barrier_await(worker->state, HLK_FOREVER, NULL);
    return status == HLK_OK ? 0 : bench_fail(worker, "await: %s: %s", hlk_status_name(status), hlk_last_error());
}

/* Its connection is up when it fires. */
static int barrier_arm(struct bench_worker *worker)
{
    unsigned waiting;
    enum hlk_status status = hlk_barrier_waiting(worker->state, &waiting);
    return status == HLK_OK ? 0 : bench_fail(worker, "waiting: %s: %s", hlk_status_name(status), hlk_last_error());
}

void ours_barrier_peer(struct bench_peer *peer, hlk_client *const *client)
{
    client_of_process = client;
    *peer = (struct bench_peer){
        .version = peer->version,
        .open = peer->open,
        .close = peer->close,
        .stats = peer->stats,
        .thread_open = barrier_open,
        .thread_close = barrier_close,
        .acquire = barrier_await,
        .arm = barrier_arm,
        .fire = barrier_await,
    };
}
