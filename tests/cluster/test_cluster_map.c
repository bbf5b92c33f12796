/* Which map of the slots is followed: of a cluster that was made anew; when one server says what nobody else does. */
/* Shows: P28 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cluster_map, .init = cluster_begin, .fini = cluster_end, .timeout = 120);

enum { ABSURD = 1000000 };

static void use_each(hlk_client *client, int servers)
{
    for (int i = 0; i < servers; i++) {
        hlk_lock *lock = lock_at(client, i, 0, NULL);
        acquire(lock);
        cr_assert(is_at(lock, i), "server %d", i);
        release(lock);
    }
}

/* The slots of the third server are the others' now. Each of its locks was HLK_E_CONNECT. */
Test(cluster_map, of_a_remade_cluster_is_followed_at_a_lower_epoch)
{
    (void)cluster_raise_epoch(cluster, 20);
    hlk_client *client = open_cluster();
    use_each(client, MASTERS);
    hlk_lock *of_the_third = lock_at(client, 2, 1, NULL);
    cluster_make_anew(cluster, 2, false);
    acquire(of_the_third);
    release(of_the_third);
    use_each(client, 2);
    cr_assert(fixture_logged("made anew"));
}

/* How often servers were asked for it. */
static long long maps_read(void)
{
    long long sum = 0;
    for (int i = 0; i < MASTERS; i++) {
        const char *at = strstr(raw(cluster->redis[i], "INFO commandstats"), "cluster|slots:calls=");
        sum += at ? strtoll(at + strlen("cluster|slots:calls="), NULL, 10) : 0;
    }
    return sum;
}

static bool is_connected_at(int server)
{
    return raw_clients(cluster->redis[server], "normal") == 2; /* the test's own connection is one, too */
}

/* A client reads the map when a connection has broken, and when it is there again: from one server after the other.
 * Broken are those to the last two servers by turns, each time when the client is connected and has read the map. */
static bool has_followed_and_left(int epoch)
{
    static long long read;
    static int breaks;
    char text[64];
    if (is_connected_at(1) && is_connected_at(2) && maps_read() > read) {
        read = maps_read();
        raw(cluster->redis[1 + breaks++ % 2], "CLIENT KILL TYPE normal SKIPME yes");
    }
    snprintf(text, sizeof text, "epoch %d of the cluster is followed by epoch", epoch);
    return fixture_logged(text);
}

Test(cluster_map, of_one_server_with_an_absurd_epoch_is_left_again)
{
    hlk_client *client = open_cluster();
    use_each(client, MASTERS);
    for (int i = 0; i < MASTERS; i++)
        server_allow(cluster->servers[i], SERVER_TOMBSTONES); /* of what was in doubt when a connection was killed */
    cluster_make_alone(cluster, 2, ABSURD);
    WAIT_FOR(has_followed_and_left(ABSURD));
    use_each(client, 2);
    cluster_kill(cluster, 2);
    use_each(client, 2);
}

/* No two neighbouring slots are on one server: 16,384 ranges. The map comes on the connection of the commands. */
Test(cluster_map, with_a_range_for_each_slot_breaks_no_connection)
{
    cluster_make_anew(cluster, MASTERS, true);
    hlk_client *client = open_cluster();
    use_each(client, MASTERS);
    for (int i = 0; i < 3; i++) {
        hlk_lock *lock = lock_at(client, 0, i, NULL);
        cluster_move(cluster, slot_of(lock), 1);
        long long read = maps_read();
        acquire(lock); /* MOVED */
        cr_assert(is_at(lock, 1));
        release(lock);
        WAIT_FOR(maps_read() > read);
        use_each(client, MASTERS); /* answered behind the map */
    }
    cr_assert_eq(fixture_counters(client).reconnects, 0);
}
