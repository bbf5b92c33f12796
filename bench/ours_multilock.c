/* ours_multilock.c - hasplock's multilock as a peer.
 *
 *     ours-multilock           of 5 locks
 *     ours-multilock-3         of 3; `take` acquires the last one alone
 *     ours-multilock-3-async   the same by async calls, each of which is waited for */
#include "ours.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 5, FEW = 3 };

static hlk_client *const *client_of_process;

static hlk_lock *make_multilock(struct bench_worker *worker, hlk_lock **members, int count, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    for (int i = 0; i < count; i++) {
        char name[sizeof worker->key + 16];
        (void)snprintf(name, sizeof name, "%s:%d", worker->key, i);
        members[i] = hlk_lock_create(*client_of_process, name, &opts);
    }
    return hlk_lock_create_multilock(members, (size_t)count, NULL);
}

static void destroy_each(hlk_lock **members, int count)
{
    for (int i = 0; i < count; i++)
        hlk_lock_destroy(members[i]);
}

static int multilock_open(struct bench_worker *worker)
{
    hlk_lock *members[MEMBERS] = { NULL };
    worker->state = make_multilock(worker, members, MEMBERS, NULL);
    int result = worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
    destroy_each(members, MEMBERS);
    return result;
}

/* --- of 3 */

struct few {
    hlk_owner *owner;
    hlk_lock *members[FEW], *all;
    sem_t done; /* async: the call has completed */
    enum hlk_status status;
};

static void few_close(struct bench_worker *worker)
{
    struct few *few = worker->state;
    hlk_lock_destroy(few->all);
    destroy_each(few->members, FEW);
    hlk_owner_destroy(few->owner);
    sem_destroy(&few->done);
    free(few);
}

static int few_open(struct bench_worker *worker)
{
    struct few *few = worker->state = calloc(1, sizeof *few);
    if (!few)
        return bench_fail(worker, "no memory");
    sem_init(&few->done, 0, 0);
    bool async = strstr(worker->options->variant, "-async") != NULL;
    few->owner = async ? hlk_owner_create(*client_of_process, NULL) : NULL;
    few->all = make_multilock(worker, few->members, FEW, few->owner);
    if (few->all)
        return 0;
    (void)bench_fail(worker, "create: %s", hlk_last_error());
    few_close(worker);
    return -1;
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct few *few = ctx;
    (void)lock;
    few->status = status;
    sem_post(&few->done);
}

/* The outcome of an async call that was accepted. */
static enum hlk_status completed(struct few *few, enum hlk_status accepted)
{
    if (accepted != HLK_OK)
        return accepted;
    while (sem_wait(&few->done) < 0 && errno == EINTR)
        ;
    return few->status;
}

static int result(struct bench_worker *worker, const char *what, enum hlk_status status)
{
    return status == HLK_OK ? 0 : bench_fail(worker, "%s: %s", what, hlk_status_name(status));
}

static int few_acquire(struct bench_worker *worker)
{
    struct few *few = worker->state;
    return result(worker, "acquire",
                  few->owner ? completed(few, hlk_lock_acquire_async(few->all, NULL, on_done, few))
                             : hlk_lock_acquire(few->all, HLK_FOREVER));
}

static int few_release(struct bench_worker *worker)
{
    struct few *few = worker->state;
    return result(worker, "release",
                  few->owner ? completed(few, hlk_lock_release_async(few->all, on_done, few))
                             : hlk_lock_release(few->all));
}

static int few_arm(struct bench_worker *worker)
{
    struct few *few = worker->state;
    return result(worker, "take", hlk_lock_acquire(few->members[FEW - 1], HLK_FOREVER));
}

static int few_fire(struct bench_worker *worker)
{
    struct few *few = worker->state;
    return result(worker, "give", hlk_lock_release(few->members[FEW - 1]));
}

void ours_multilock_peer(struct bench_peer *peer, const char *variant, hlk_client *const *client)
{
    bool few = strstr(variant, "-3") != NULL;
    client_of_process = client;
    peer->thread_open = few ? few_open : multilock_open;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
    if (!few)
        return; /* the rest is as for any lock */
    peer->thread_close = few_close;
    peer->acquire = few_acquire;
    peer->release = few_release;
    peer->arm = few_arm;
    peer->fire = few_fire;
}
