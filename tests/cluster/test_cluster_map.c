/* Which map of the slots is followed: of a cluster that was made anew, and when one server says what nobody else does. */
#include "fixture.h"

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
Test(cluster_map, of_a_cluster_that_was_made_anew_is_followed_though_its_epoch_is_smaller)
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

/* The client reads the map again when it is connected anew. */
static bool is_led_astray(hlk_lock *lock, int astray)
{
    raw(cluster->redis[1], "CLIENT KILL TYPE normal SKIPME yes");
    acquire(lock);
    bool is = is_at(lock, astray);
    release(lock);
    return is;
}

Test(cluster_map, of_one_server_with_an_absurd_epoch_is_left_again)
{
    hlk_client *client = open_cluster();
    use_each(client, MASTERS);
    hlk_lock *lock = lock_at(client, 1, 1, NULL);
    for (int i = 0; i < MASTERS; i++)
        server_allow(cluster->servers[i], SERVER_VOID); /* of what was in doubt when a connection was killed */
    cluster_make_alone(cluster, 2, ABSURD);
    WAIT_FOR(is_led_astray(lock, 2));
    cluster_kill(cluster, 2);
    acquire(lock);
    cr_assert(is_at(lock, 1));
    release(lock);
    use_each(client, 2);
}
