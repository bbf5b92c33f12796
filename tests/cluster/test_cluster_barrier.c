/* A barrier in a cluster: on the server of its slot, with messages that stay there. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(cluster_barrier, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static void *waits(void *barrier)
{
    cr_assert_eq(hlk_barrier_await(barrier, WAIT_MS, NULL), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

/* Two clients pass twice, by the message on `channel`. */
static void is_passed(const char *name, const char *channel)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_barrier *last = hlk_barrier_create(one, name, 2, 0), *first = hlk_barrier_create(two, name, 2, 0);
    int owner = cluster_owner(cluster, name);
    server_allow(cluster->servers[owner], "hasplock_barrier*");
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        unsigned index = 77;
        cr_assert_eq(pthread_create(&thread, NULL, waits, first), 0);
        WAIT_FOR(strstr(raw(cluster->redis[owner], "PUBSUB SHARDNUMSUB %s", channel), "\", :1]") != NULL);
        WAIT_FOR(raw_int(cluster->redis[owner], "EXISTS hasplock_arrived%s", strchr(channel, ':')) == 1);
        cr_assert_eq(hlk_barrier_await(last, WAIT_MS, &index), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(index, 0u);
        pthread_join(thread, NULL);
    }
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0u);
    hlk_barrier_destroy(last);
    hlk_barrier_destroy(first);
}

Test(cluster_barrier, is_on_the_server_of_its_slot)
{
    for (int i = 0; i < MASTERS; i++) {
        char name[64], channel[128];
        cluster_name(cluster, i, 0, name, sizeof name);
        snprintf(channel, sizeof channel, "hasplock_barrier:{%s}", name);
        is_passed(name, channel);
    }
}

Test(cluster_barrier, works_with_a_tag_in_its_name)
{
    is_passed("t:{tag}:1", "hasplock_barrier::t:{tag}:1");
}
