/* Slots that move from one server to another while locks in them are held, waited for, and acquired. */
/* Shows: P29 */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(cluster_moves, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

Test(cluster_moves, a_hold_is_released_where_it_has_gone)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    acquire(lock);
    cluster_move(cluster, slot_of(lock), 1);
    cr_assert(is_at(lock, 1));
    release(lock);
    cr_assert_not(is_at(lock, 1));
    acquire(lock);
    cr_assert(is_at(lock, 1));
    release(lock);
}

/* The key is at the new server already, and the slot is the old one's still. */
Test(cluster_moves, an_extension_follows_a_key_ahead_of_its_slot)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    cluster_move_begin(cluster, slot, 1);
    cluster_move_keys(cluster, slot, 1);
    cr_assert_eq(hlk_lock_extend(lock, 100000), HLK_OK, "%s", hlk_last_error());
    raw(cluster->redis[1], "ASKING");
    cr_assert_gt(raw_int(cluster->redis[1], "PTTL %s", hlk_lock_name(lock)), 90000);
    cluster_move_end(cluster, slot, 1);
    release(lock);
}

static bool was_refused(int server, const char *code)
{
    return raw_errors(cluster->redis[server], code) > 0;
}

/* The lock's key has gone and its queue has not, or the reverse: a script that uses both has to wait. */
Test(cluster_moves, an_acquire_waits_until_all_keys_have_moved)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    unsigned slot = slot_of(lock);
    acquire(lock);
    release(lock);
    cluster_move_begin(cluster, slot, 1);
    struct actor *actor = actor_start(lock, NULL);
    WAIT_FOR(was_refused(0, "TRYAGAIN") || was_refused(1, "TRYAGAIN"));
    cr_assert_not(actor_answered(actor));
    cluster_move_end(cluster, slot, 1);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert(is_at(lock, 1));
    cr_assert_eq(actor_end(actor), HLK_OK);
}

Test(cluster_moves, a_server_that_was_added_gets_its_locks)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    acquire(lock);
    int added = cluster_add(cluster);
    cluster_move(cluster, slot_of(lock), added);
    cr_assert(is_at(lock, added));
    release(lock);
    acquire(lock);
    cr_assert(is_at(lock, added));
    release(lock);
}

/* The server without its slots: no command goes there any more. */
Test(cluster_moves, a_server_that_is_removed_is_not_asked_any_more)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    acquire(lock);
    cluster_move(cluster, slot_of(lock), 1);
    acquire(lock); /* nested, and sent nowhere */
    release(lock);
    cr_assert_eq(hlk_lock_extend(lock, 100000), HLK_OK, "%s", hlk_last_error());
    cluster_kill(cluster, 0);
    cr_assert_eq(hlk_lock_extend(lock, 200000), HLK_OK, "%s", hlk_last_error());
    release(lock);
}

static int64_t maps_read(void)
{
    int64_t n = 0;
    for (int i = 0; i < MASTERS; i++)
        n += raw_calls(cluster->redis[i], "cluster|slots");
    return n;
}

/* Takes the place of a server that was killed. */
static int listen_at(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0, "%s", strerror(errno));
    cr_assert_eq(listen(fd, 64), 0);
    return fd;
}

/* Takes connections for so long, and ends each at once. How many they were. */
static int dials_at(int fd, int64_t ms)
{
    int dials = 0;
    for (int64_t until = test_now_ms() + ms; test_now_ms() < until;) {
        struct pollfd some = { .fd = fd, .events = POLLIN };
        int one = poll(&some, 1, 100) == 1 ? accept(fd, NULL, NULL) : -1;
        if (one < 0)
            continue;
        close(one);
        dials++;
    }
    return dials;
}

/* Nobody dials there in that time, and nobody reads the map. */
static bool is_quiet(int listener, int ms)
{
    int64_t before = maps_read();
    return dials_at(listener, ms) == 0 && maps_read() == before;
}

/* Nobody waits for that server. Each attempt to connect to it that fails has the map read, until a map says that it
 * keeps no slot. Before, the client read the map twice a second for it, and dialled it four times. */
Test(cluster_moves, a_dead_server_without_slots_costs_no_traffic)
{
    struct hlk_client_opts opts = patient_opts();
    char url[300];
    int added = cluster_add(cluster), port = cluster->servers[added]->port;
    snprintf(url, sizeof url, "%s,127.0.0.1:%d", cluster->url, port);
    hlk_client *client = fixture_open_at(url, &opts);
    hlk_lock *lock = lock_at(client, 1, 0, NULL), *moved = lock_at(client, 1, 1, NULL);
    acquire(lock);
    release(lock);
    WAIT_FOR(raw_stat(cluster->redis[added], "connected_clients") == 2);
    cluster_kill(cluster, added);
    int listener = listen_at(port);
    WAIT_FOR(is_quiet(listener, 2000));
    acquire(lock);
    release(lock);
    /* It is tried at once when it has got a slot. */
    for (int i = 0; i < MASTERS; i++)
        raw(cluster->redis[i], "CLUSTER SETSLOT %u NODE %s", slot_of(moved), cluster->ids[added]);
    cr_assert_neq(hlk_lock_acquire(moved, 1000), HLK_OK);
    cr_assert_geq(dials_at(listener, 100), 1);
    close(listener);
}

static bool listens_at(const hlk_client *client, int server)
{
    return strstr(raw(cluster->redis[server], "PUBSUB CHANNELS *"), hlk_client_id(client)) != NULL ||
           strstr(raw(cluster->redis[server], "PUBSUB SHARDCHANNELS *"), hlk_client_id(client)) != NULL;
}

static bool queued_at(const hlk_lock *lock, int server)
{
    raw(cluster->redis[server], "ASKING");
    return strncmp(raw(cluster->redis[server], "EXISTS hasplock_queue:{%s}", hlk_lock_name(lock)), ":1", 2) == 0;
}

/* Its server unsubscribes it: it asks, is answered MOVED, and subscribes at the new one. */
Test(cluster_moves, a_waiter_follows_and_is_granted_the_lock)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 0, 0, NULL), *wanted = lock_at(two, 0, 0, NULL);
    acquire(held);
    struct actor *waiter = actor_start(wanted, NULL);
    WAIT_FOR(listens_at(two, 0) && queued_at(held, 0));
    cluster_move(cluster, slot_of(held), 2);
    WAIT_FOR(listens_at(two, 2));
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0, "it was not told that the slot has gone, and polled");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(one).lost + fixture_counters(two).lost, 0);
}
