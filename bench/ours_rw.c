/* ours_rw.c - hasplock's read/write lock as a peer: ours-read, ours-write, and ours-rw, which writes one time in a
 * hundred. */
#include "ours.h"

#include <string.h>

enum { WRITES_EVERY = 100 };

static hlk_client *const *client_of_process;
static bool always_writes;

static int rw_open(struct bench_worker *worker)
{
    worker->state = hlk_rwlock_create(*client_of_process, worker->key, NULL);
    worker->writes = always_writes;
    return worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void rw_close(struct bench_worker *worker)
{
    hlk_rwlock_destroy(worker->state);
}

static hlk_lock *half(const struct bench_worker *worker)
{
    return worker->writes ? hlk_rwlock_write(worker->state) : hlk_rwlock_read(worker->state);
}

static int rw_acquire(struct bench_worker *worker)
{
    enum hlk_status status = hlk_lock_acquire(half(worker), HLK_FOREVER);
    return status == HLK_OK ? 0 : bench_fail(worker, "acquire: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int rw_release(struct bench_worker *worker)
{
    enum hlk_status status = hlk_lock_release(half(worker));
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

void ours_rw_peer(struct bench_peer *peer, const char *variant, hlk_client *const *client)
{
    client_of_process = client;
    always_writes = strncmp(variant, "ours-write", strlen("ours-write")) == 0;
    peer->writes_every = strncmp(variant, "ours-rw", strlen("ours-rw")) == 0 ? WRITES_EVERY : 0;
    peer->thread_open = rw_open;
    peer->thread_close = rw_close;
    peer->acquire = rw_acquire;
    peer->release = rw_release;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
}
