/* ours_latch.c - hasplock's latch as a peer: ours-latch. */
#include "ours.h"

static hlk_client *const *client_of_process;

static int latch_open(struct bench_worker *worker)
{
    worker->state = hlk_latch_create(*client_of_process, worker->key);
    return worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void latch_close(struct bench_worker *worker)
{
    hlk_latch_destroy(worker->state);
}

static int result(struct bench_worker *worker, const char *what, enum hlk_status status)
{
    return status == HLK_OK ? 0 : bench_fail(worker, "%s: %s: %s", what, hlk_status_name(status), hlk_last_error());
}

static int latch_await(struct bench_worker *worker)
{
    return result(worker, "await", hlk_latch_await(worker->state, HLK_FOREVER));
}

static int latch_arm(struct bench_worker *worker)
{
    return result(worker, "set", hlk_latch_try_set(worker->state, 1));
}

static int latch_fire(struct bench_worker *worker)
{
    return result(worker, "count down", hlk_latch_count_down(worker->state, 1, NULL));
}

void ours_latch_peer(struct bench_peer *peer, hlk_client *const *client)
{
    client_of_process = client;
    *peer = (struct bench_peer){
        .version = peer->version,
        .open = peer->open,
        .close = peer->close,
        .stats = peer->stats,
        .thread_open = latch_open,
        .thread_close = latch_close,
        .acquire = latch_await,
        .arm = latch_arm,
        .fire = latch_fire,
    };
}
