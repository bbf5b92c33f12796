/* wait_replicas in a cluster: each master has a replica of its own. */
/* Shows: P31 */
#include "fixture.h"

#include <string.h>

TestSuite(cluster_replicas, .init = cluster_begin_replicas, .fini = cluster_end, .timeout = 120);

static hlk_client *open_waiting(int timeout_ms)
{
    struct hlk_client_opts opts = patient_opts();
    opts.wait_replicas = 1;
    opts.wait_replicas_timeout_ms = timeout_ms;
    return fixture_open_at(cluster->url, &opts);
}

Test(cluster_replicas, a_hold_is_at_the_replica_of_its_own_master)
{
    hlk_client *client = open_waiting(WAIT_MS);
    for (int i = 0; i < MASTERS; i++) {
        hlk_lock *lock = lock_at(client, i, 0, NULL);
        acquire(lock);
        cr_assert(is_at(lock, MASTERS + i)); /* at once */
        release(lock);
    }
}

Test(cluster_replicas, a_stopped_replica_fails_its_masters_locks_alone)
{
    hlk_client *client = open_waiting(300);
    hlk_lock *lock = lock_at(client, 1, 0, NULL), *other = lock_at(client, 2, 0, NULL);
    acquire(lock);
    release(lock);
    server_pause(cluster->servers[MASTERS + 1]);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_NOT_REPLICATED, "%s", hlk_last_error());
    WAIT_FOR(!is_at(lock, 1));
    acquire(other);
    release(other);
    server_resume(cluster->servers[MASTERS + 1]);
}

/* What an acquire without wait_replicas cannot promise. */
Test(cluster_replicas, a_hold_that_was_confirmed_outlives_its_master)
{
    hlk_client *client = open_waiting(WAIT_MS);
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    cluster_kill(cluster, 0);
    WAIT_FOR(cluster_master_of(cluster, slot) >= MASTERS);
    cr_assert(is_at(lock, cluster_master_of(cluster, slot)));
    release(lock);
    cr_assert_eq(fixture_counters(client).lost, 0);
}
