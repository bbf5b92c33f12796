/* ours_open.c - a client as a peer: opened, a lock acquired and released, and closed, as a short-lived process does. */
#include "ours.h"

#include <stdlib.h>

struct visitor {
    hlk_client *client;
    hlk_lock *lock;
};

static int visitor_make(struct bench_worker *worker)
{
    worker->state = calloc(1, sizeof(struct visitor));
    return worker->state ? 0 : bench_fail(worker, "no memory");
}

static void visitor_free(struct bench_worker *worker)
{
    free(worker->state);
}

static int visitor_comes(struct bench_worker *worker)
{
    struct visitor *visitor = worker->state;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", worker->options->port);
    enum hlk_status status = hlk_client_open(&visitor->client, url, NULL);
    if (status == HLK_OK) {
        visitor->lock = hlk_lock_create(visitor->client, worker->key, NULL);
        status = visitor->lock ? hlk_lock_acquire(visitor->lock, HLK_FOREVER) : HLK_E_NOMEM;
    }
    return status == HLK_OK ? 0 : bench_fail(worker, "open: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int visitor_goes(struct bench_worker *worker)
{
    struct visitor *visitor = worker->state;
    enum hlk_status status = hlk_lock_release(visitor->lock);
    hlk_lock_destroy(visitor->lock);
    hlk_client_close(visitor->client);
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int none_open(const struct bench_options *options)
{
    (void)options;
    return 0;
}

void ours_open_peer(struct bench_peer *peer)
{
    *peer = (struct bench_peer){
        .version = peer->version,
        .open = none_open,
        .thread_open = visitor_make,
        .thread_close = visitor_free,
        .acquire = visitor_comes,
        .release = visitor_goes,
    };
}
