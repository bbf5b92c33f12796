/* A latch in a cluster: on the server of its slot, with messages that stay there. */
/* Shows: P48 */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(cluster_latch, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static void *waits(void *latch)
{
    enum hlk_status status = hlk_latch_await(latch, WAIT_MS);
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    return NULL;
}

/* The last count down of another client wakes a waiter that listens on `channel`. */
static void is_counted_down(const char *name, const char *channel)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_latch *set = hlk_latch_create(one, name), *waited = hlk_latch_create(two, name);
    redisContext *redis = cluster->redis[cluster_owner(cluster, name)];
    pthread_t thread;
    server_allow(cluster->servers[cluster_owner(cluster, name)], SERVER_TOMBSTONES); /* of the last opening */
    cr_assert_eq(hlk_latch_try_set(set, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(redis, "EXISTS %s", name), 1);
    cr_assert_eq(pthread_create(&thread, NULL, waits, waited), 0);
    WAIT_FOR(strstr(raw(redis, "PUBSUB SHARDNUMSUB %s", channel), "\", :1]") != NULL);
    cr_assert_eq(hlk_latch_count_down(set, 2, NULL), HLK_OK, "%s", hlk_last_error());
    pthread_join(thread, NULL);
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0u);
    hlk_latch_destroy(set);
    hlk_latch_destroy(waited);
}

Test(cluster_latch, wakes_its_waiters_on_the_server_of_its_slot)
{
    for (int i = 0; i < MASTERS; i++) {
        char name[64], channel[128];
        cluster_name(cluster, i, 0, name, sizeof name);
        snprintf(channel, sizeof channel, "redisson_countdownlatch__channel__{%s}", name);
        is_counted_down(name, channel);
    }
}

/* Redisson's channel of such a name would be in another slot, and its latches do not work there at all. */
Test(cluster_latch, works_with_a_tag_in_its_name)
{
    is_counted_down("t:{tag}:1", "redisson_countdownlatch__channel__t:{tag}:1");
}
