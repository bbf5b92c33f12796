/* ours_multilock.c - hasplock's multilock as a peer: ours-multilock, of 5 locks. */
#include "ours.h"

enum { MEMBERS = 5 };

static hlk_client *const *client_of_process;

static int multilock_open(struct bench_worker *worker)
{
    hlk_lock *members[MEMBERS] = { NULL };
    for (int i = 0; i < MEMBERS; i++) {
        char name[sizeof worker->key + 8];
        (void)snprintf(name, sizeof name, "%s:%d", worker->key, i);
        members[i] = hlk_lock_create(*client_of_process, name, NULL);
    }
    worker->state = hlk_lock_create_multilock(members, MEMBERS, NULL);
    int result = worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
    for (int i = 0; i < MEMBERS; i++)
        hlk_lock_destroy(members[i]);
    return result;
}

void ours_multilock_peer(struct bench_peer *peer, hlk_client *const *client)
{
    client_of_process = client;
    peer->thread_open = multilock_open; /* the rest is as for any lock */
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
}
