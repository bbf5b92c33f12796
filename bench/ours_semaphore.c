/* ours_semaphore.c - hasplock's semaphore as a peer: ours-semaphore, ours-semaphore-8. */
#include "ours.h"

static hlk_client *const *client_of_process;
static int permits;

static int semaphore_open(struct bench_worker *worker)
{
    hlk_semaphore *semaphore = worker->state = hlk_semaphore_create(*client_of_process, worker->key);
    enum hlk_status status = semaphore ? hlk_semaphore_try_set(semaphore, permits, 0) : HLK_E_NOMEM;
    return status == HLK_OK || status == HLK_BUSY ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void semaphore_close(struct bench_worker *worker)
{
    hlk_semaphore_destroy(worker->state);
}

static int semaphore_acquire(struct bench_worker *worker)
{
    enum hlk_status status = hlk_semaphore_acquire(worker->state, 1, HLK_FOREVER);
    return status == HLK_OK ? 0 : bench_fail(worker, "acquire: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int semaphore_release(struct bench_worker *worker)
{
    enum hlk_status status = hlk_semaphore_release(worker->state, 1);
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

void ours_semaphore_peer(struct bench_peer *peer, hlk_client *const *client)
{
    client_of_process = client;
    permits = peer->permits;
    peer->thread_open = semaphore_open;
    peer->thread_close = semaphore_close;
    peer->acquire = semaphore_acquire;
    peer->release = semaphore_release;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
}
