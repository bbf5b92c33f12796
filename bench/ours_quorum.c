/* ours_quorum.c - hasplock's lock over several masters as a peer: ours-quorum-3, ours-quorum-5. */
#include "ours.h"

#include <stdlib.h>

static hlk_client *client;

static int quorum_client_open(const struct bench_options *options)
{
    static char urls[HLK_QUORUM_MAX][48];
    const char *list[HLK_QUORUM_MAX], *more = options->masters;
    unsigned n = 0;
    int port = options->port;
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.label = "bench";
    for (;;) {
        (void)snprintf(urls[n], sizeof urls[n], "redis://127.0.0.1:%d", port);
        list[n] = urls[n];
        n++;
        if (!*more || n == HLK_QUORUM_MAX)
            break;
        char *end;
        port = (int)strtol(more, &end, 10);
        more = *end ? end + 1 : end;
    }
    enum hlk_status status = hlk_quorum_open(&client, list, n, &opts);
    return status == HLK_OK ? 0 : bench_fail(NULL, "%s: %s", hlk_status_name(status), hlk_last_error());
}

static void quorum_client_close(void)
{
    hlk_client_close(client);
}

static int quorum_thread_open(struct bench_worker *worker)
{
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.ttl_ms = worker->options->lease_ms;
    opts.restart_delay_ms = -1; /* the servers have just started */
    worker->state = hlk_quorum_create(client, worker->key, &opts);
    return worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void quorum_thread_close(struct bench_worker *worker)
{
    hlk_quorum_destroy(worker->state);
}

static int quorum_acquire(struct bench_worker *worker)
{
    enum hlk_status status = hlk_quorum_acquire(worker->state, HLK_FOREVER);
    return status == HLK_OK ? 0 : bench_fail(worker, "acquire: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int quorum_release(struct bench_worker *worker)
{
    enum hlk_status status = hlk_quorum_release(worker->state);
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

static void quorum_stats(FILE *out)
{
    ours_stats(client, out);
}

void ours_quorum_peer(struct bench_peer *peer)
{
    peer->open = quorum_client_open;
    peer->close = quorum_client_close;
    peer->thread_open = quorum_thread_open;
    peer->thread_close = quorum_thread_close;
    peer->acquire = quorum_acquire;
    peer->release = quorum_release;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
    peer->stats = quorum_stats;
}
