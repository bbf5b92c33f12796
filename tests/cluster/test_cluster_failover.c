/* A master that dies, and the replica that takes its place. */
/* Shows: P31 */
#include "fixture.h"

#include <string.h>

TestSuite(cluster_failover, .init = cluster_begin_replicas, .fini = cluster_end, .timeout = 120);

static int new_master(unsigned slot)
{
    WAIT_FOR(cluster_master_of(cluster, slot) >= MASTERS);
    return cluster_master_of(cluster, slot);
}

Test(cluster_failover, a_hold_that_was_replicated_goes_on)
{
    struct hlk_client_opts opts = patient_opts();
    opts.watchdog_ms = 20000; /* a failover takes longer when its first vote fails */
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    replicated(0);
    cluster_kill(cluster, 0);
    int server = new_master(slot);
    uint64_t renewed = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals > renewed);
    cr_assert(is_at(lock, server));
    cr_assert_eq(fixture_counters(client).lost, 0);
    release(lock);
    cr_assert_not(is_at(lock, server));
}

Test(cluster_failover, a_hold_that_the_new_master_does_not_know_is_lost)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    replicated(0);
    cluster_kill(cluster, 0);
    int server = new_master(slot);
    raw(cluster->redis[server], "DEL %s", hlk_lock_name(lock));
    (void)fixture_wait_event(HLK_EVENT_LOST, hlk_lock_name(lock));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

Test(cluster_failover, an_acquire_waits_for_the_new_master)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 1, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    release(lock);
    replicated(1);
    cluster_kill(cluster, 1);
    acquire(lock);
    cr_assert(is_at(lock, cluster_master_of(cluster, slot)));
    release(lock);
}

Test(cluster_failover, a_waiter_is_served_after_it)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 2, 0, NULL), *wanted = lock_at(two, 2, 0, NULL);
    unsigned slot = slot_of(held);
    acquire(held);
    struct actor *waiter = actor_start(wanted, NULL);
    WAIT_FOR(raw_int(cluster->redis[2], "EXISTS hasplock_queue:{%s}", hlk_lock_name(held)) == 1);
    replicated(2);
    cluster_kill(cluster, 2);
    int server = new_master(slot);
    WAIT_FOR(strstr(raw(cluster->redis[server], "PUBSUB SHARDCHANNELS *"), hlk_client_id(two)) != NULL);
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(one).lost + fixture_counters(two).lost, 0);
}

/* Its command was for the dead master, and is answered by the new one: it has to listen there. */
Test(cluster_failover, a_waiter_that_came_meanwhile_is_served)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 2, 0, NULL), *wanted = lock_at(two, 2, 0, NULL);
    unsigned slot = slot_of(held);
    acquire(held);
    replicated(2);
    cluster_kill(cluster, 2);
    struct actor *waiter = actor_start(wanted, NULL);
    int server = new_master(slot);
    WAIT_FOR(strstr(raw(cluster->redis[server], "PUBSUB SHARDCHANNELS *"), hlk_client_id(two)) != NULL);
    WAIT_FOR(raw_int(cluster->redis[server], "EXISTS hasplock_queue:{%s}", hlk_lock_name(held)) == 1);
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0);
}

/* Planned: the replica takes over while the master lives. */
Test(cluster_failover, a_planned_one_is_followed)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 0, 0, NULL), *wanted = lock_at(two, 0, 0, NULL);
    acquire(held);
    struct actor *waiter = actor_start(wanted, NULL);
    WAIT_FOR(raw_int(cluster->redis[0], "EXISTS hasplock_queue:{%s}", hlk_lock_name(held)) == 1);
    cr_assert_str_eq(raw(cluster->redis[MASTERS], "CLUSTER FAILOVER"), "OK");
    WAIT_FOR(strstr(raw(cluster->redis[MASTERS], "ROLE"), "master") != NULL);
    WAIT_FOR(strstr(raw(cluster->redis[0], "ROLE"), "slave") != NULL);
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(one).lost + fixture_counters(two).lost, 0);
}
