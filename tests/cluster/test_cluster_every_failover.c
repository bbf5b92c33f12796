/* What holds for each kind of lock when a replica takes the place of its master: planned, and because the master is
 * killed. */
/* Shows: P53 */
#include "every_cluster.h"

#include <string.h>

static bool says(int server, const char *text)
{
    return strstr(raw(cluster->redis[server], "INFO replication"), text) != NULL;
}

static void by_plan(void)
{
    int master = home(), replica = replica_of(master);
    cr_assert_str_eq(raw(cluster->redis[replica], "CLUSTER FAILOVER"), "OK");
    WAIT_FOR(says(replica, "role:master") && says(master, "role:slave") && says(master, "master_link_status:up"));
    home_moves(replica);
}

static void by_kill(void)
{
    int replica = replica_of(home());
    replicated(home());
    cluster_kill(cluster, home());
    WAIT_FOR(cluster_master_of(cluster, home_slot()) == replica);
    home_moves(replica);
}

/* Held, and waited for. */
static void outlasts(const struct every_kind *kind, void (*failover)(void))
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct every_call call;
    every_allow_tombstones(kind);
    every_acquired(own);
    call_start_wait(&call, every_other(kind, client), RECONNECT_MS); /* the lease is longer: it is told */
    every_wait_for_waiters(client, 1);
    failover();
    every_is_held(other);
    every_released(own);
    call_acquired(&call);
    every_is_free(other);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

static void outlasts_a_planned_failover(const struct every_kind *kind)
{
    outlasts(kind, by_plan);
}

static void outlives_its_master(const struct every_kind *kind)
{
    outlasts(kind, by_kill);
}

#define FAILOVER_SUITE(kind)                                                                                           \
    TestSuite(every_kind_##kind, .init = every_cluster_begin_replicas, .fini = every_cluster_end, .timeout = 120);
#define FAILOVERS(kind)                                                                                                \
    Test(every_kind_##kind, failovers)                                                                                 \
    {                                                                                                                  \
        EVERY_RUN(kind, outlasts_a_planned_failover, 0)                                                                \
        EVERY_RUN(kind, outlives_its_master, 0)                                                                        \
    }

EACH_KIND(FAILOVER_SUITE)
EACH_KIND(FAILOVERS)
