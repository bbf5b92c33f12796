/* Permits and semaphores in a cluster: on the server of their slot, with messages that stay there. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(cluster_permits, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static hlk_lock *permit_at(hlk_client *client, int server, int i)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.permits = 1;
    return lock_at(client, server, i, &opts);
}

/* What is left is their number. */
static void forget(const char *name)
{
    raw(cluster->redis[cluster_owner(cluster, name)], "DEL %s", name);
}

Test(cluster_permits, are_handed_over_on_the_server_of_their_slot)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    for (int i = 0; i < MASTERS; i++) {
        hlk_lock *ours = permit_at(one, i, 0), *theirs = permit_at(two, i, 0);
        acquire(ours);
        struct actor *waiter = actor_start(theirs, NULL);
        WAIT_FOR_WAITERS(two, 1);
        WAIT_FOR(raw_int(cluster->redis[i], "EXISTS hasplock_queue:{%s}", hlk_lock_name(ours)) == 1);
        release(ours);
        cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
        cr_assert_eq(actor_end(waiter), HLK_OK);
        forget(hlk_lock_name(ours));
    }
    cr_assert_eq(fixture_counters(two).granted, (uint64_t)MASTERS);
}

/* Many of one server, in different slots. */
Test(cluster_permits, are_renewed_on_each_server)
{
    enum { OF_EACH = 3 };
    struct hlk_client_opts opts = patient_opts();
    opts.watchdog_ms = 1500;
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    hlk_lock *permits[MASTERS][OF_EACH];
    for (int i = 0; i < MASTERS; i++)
        for (int k = 0; k < OF_EACH; k++)
            acquire(permits[i][k] = permit_at(client, i, k));
    WAIT_FOR(fixture_counters(client).renewals >= (uint64_t)(4 * MASTERS * OF_EACH));
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    for (int i = 0; i < MASTERS; i++)
        for (int k = 0; k < OF_EACH; k++) {
            release(permits[i][k]);
            forget(hlk_lock_name(permits[i][k]));
        }
}

static void *takes(void *semaphore)
{
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(cluster_permits, of_a_semaphore_are_handed_over_too)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    for (int i = 0; i < MASTERS; i++) {
        char name[64];
        pthread_t thread;
        cluster_name(cluster, i, 0, name, sizeof name);
        hlk_semaphore *ours = hlk_semaphore_create(one, name), *theirs = hlk_semaphore_create(two, name);
        cr_assert_eq(hlk_semaphore_try_set(ours, 0, 0), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(pthread_create(&thread, NULL, takes, theirs), 0);
        WAIT_FOR(raw_int(cluster->redis[i], "EXISTS hasplock_queue:{%s}", name) == 1);
        cr_assert_eq(hlk_semaphore_release(ours, 1), HLK_OK, "%s", hlk_last_error());
        pthread_join(thread, NULL);
        hlk_semaphore_destroy(ours);
        hlk_semaphore_destroy(theirs);
        WAIT_FOR(raw_int(cluster->redis[i], "EXISTS hasplock_queue:{%s}", name) == 0);
        forget(name);
    }
}
