/* A condition in a cluster: on the server of its slot, with a channel for each waiter that stays there. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(cluster_condition, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

struct waits {
    hlk_condition *condition;
    hlk_lock *lock;
};

static void *wait_once(void *arg)
{
    const struct waits *waits = arg;
    cr_assert_eq(hlk_lock_acquire(waits->lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_wait(waits->condition, waits->lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(waits->lock), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

/* One client is woken twice by another one, by messages on channels that begin with `channels`. */
static void is_signalled(const char *name, const char *channels)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_condition *there = hlk_condition_create(one, name, 0), *here = hlk_condition_create(two, name, 0);
    struct waits waits = { there, hlk_lock_create(one, name, NULL) };
    int owner = cluster_owner(cluster, name);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, wait_once, &waits), 0);
        WAIT_FOR(strstr(raw(cluster->redis[owner], "PUBSUB SHARDCHANNELS %s:hlk-*", channels), channels) != NULL);
        cr_assert_eq(hlk_condition_signal(here), HLK_OK, "%s", hlk_last_error());
        pthread_join(thread, NULL);
        WAIT_FOR(raw_int(cluster->redis[owner], "EXISTS %s", channels) == 0);
        WAIT_FOR(strstr(raw(cluster->redis[owner], "PUBSUB SHARDCHANNELS %s:hlk-*", channels), channels) == NULL);
    }
    cr_assert_eq(fixture_counters(one).woken_by_ttl, 0u);
    hlk_lock_destroy(waits.lock);
    hlk_condition_destroy(there);
    hlk_condition_destroy(here);
}

Test(cluster_condition, is_on_the_server_of_its_slot)
{
    for (int i = 0; i < MASTERS; i++) {
        char name[64], channels[128];
        cluster_name(cluster, i, 0, name, sizeof name);
        snprintf(channels, sizeof channels, "hasplock_condition:{%s}", name);
        is_signalled(name, channels);
    }
}

Test(cluster_condition, works_with_a_tag_in_its_name)
{
    is_signalled("t:{tag}:1", "hasplock_condition::t:{tag}:1");
}
