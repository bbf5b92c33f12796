/* The network between holder and server is cut and healed, while another client waits on the server's side. In network
 * namespaces of the test's own: cut in both directions, only the replies lost, or only the subscriber cut off. And
 * through the proxy as a black hole.
 *
 * asks A3 redisson 3636, 3187: from the local "lost" to the other's acquire is never negative, in 1000 runs. A3
 * redisson 4698, PR 7254, 3854: callback and held_until each come no later than the moment another client can acquire.
 * A2 redisson 5697: the holder is told before the lease can have expired. */
/* Shows: P7 */
#include "fixture.h"

#include "support/netns.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS = 100, PARTED_LEASE_MS = 1500 };

struct run { /* one lock in one partition */
    char name[16];
    hlk_lock *lock, *theirs;
    atomic_llong theirs_at_ms;
    atomic_int status;
};

struct net {
    void (*cut)(void), (*heal)(void);
    hlk_client *(*open)(const struct hlk_client_opts *opts); /* on the holder's side */
};

static struct run runs[LOCKS];
static atomic_llong reported_at_ms[LOCKS], held_until_at_ms[LOCKS];
static atomic_int reported;

static void on_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    int i = atoi(event->lock + 1);
    atomic_store(&reported_at_ms[i], hlk_now_ms());
    atomic_store(&held_until_at_ms[i], event->held_until_at_ms);
    atomic_fetch_add(&reported, 1);
}

static void on_theirs(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct run *run = ctx;
    atomic_store(&run->theirs_at_ms, hlk_now_ms());
    atomic_store(&run->status, status);
}

static int theirs_got(void)
{
    int n = 0;
    for (int i = 0; i < LOCKS; i++)
        n += atomic_load(&runs[i].status) != 1000;
    return n;
}

static void make_locks(hlk_client *client, hlk_owner *owner, hlk_client *other, hlk_owner *other_owner)
{
    for (int i = 0; i < LOCKS; i++) {
        snprintf(runs[i].name, sizeof runs[i].name, "t%d", i);
        runs[i].lock = fixture_owned(client, runs[i].name, owner);
        runs[i].theirs = fixture_owned(other, runs[i].name, other_owner);
    }
}

/* All locks are held on the cut side and waited for on the other. */
static void set_up(hlk_client *other)
{
    atomic_store(&reported, 0);
    for (int i = 0; i < LOCKS; i++) {
        atomic_store(&runs[i].status, 1000);
        cr_assert_eq(hlk_lock_acquire(runs[i].lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_acquire_async(runs[i].theirs, NULL, on_theirs, &runs[i]), HLK_OK);
    }
    WAIT_FOR_WAITERS(other, LOCKS);
    cr_assert_eq(atomic_load(&reported), 0, "nothing is lost before the cut");
}

static void judge(int round)
{
    for (int i = 0; i < LOCKS; i++) {
        int64_t theirs = atomic_load(&runs[i].theirs_at_ms), ours = atomic_load(&reported_at_ms[i]);
        cr_assert_eq(atomic_load(&runs[i].status), HLK_OK);
        cr_assert_leq(atomic_load(&held_until_at_ms[i]), theirs, "round %d", round);
        cr_assert_leq(ours, theirs, "round %d, t%d: told %d ms after somebody else had it", round, i,
                      (int)(ours - theirs));
        cr_assert(is_held(runs[i].name, hold_of(runs[i].theirs)));
    }
}

/* The former holders affect no other hold, and can acquire again. */
static void tear_down(void)
{
    for (int i = 0; i < LOCKS; i++) {
        cr_assert_eq(hlk_lock_left_ms(runs[i].lock), 0);
        cr_assert_eq(hlk_lock_release(runs[i].lock), HLK_LOST);
        cr_assert(is_held(runs[i].name, hold_of(runs[i].theirs)));
        cr_assert_eq(hlk_lock_release(runs[i].theirs), HLK_OK, "%s", hlk_last_error());
    }
}

static void partitions(const struct net *net, int rounds)
{
    struct hlk_client_opts opts = fault_opts();
    opts.on_event = on_event;
    opts.watchdog_ms = PARTED_LEASE_MS;
    opts.reconnect_timeout_ms = 20000;
    hlk_client *client = net->open(&opts), *other = bystander();
    hlk_owner *owner = hlk_owner_create(client, "cut off"), *other_owner = hlk_owner_create(other, "other");
    make_locks(client, owner, other, other_owner);
    for (int round = 0; round < rounds; round++) {
        set_up(other);
        net->cut();
        WAIT_FOR(theirs_got() == LOCKS);
        WAIT_FOR(atomic_load(&reported) == LOCKS);
        net->heal();
        judge(round);
        tear_down();
    }
    hlk_owner_destroy(owner);
    hlk_owner_destroy(other_owner);
}

/* --- by the proxy */

static void freeze(void)
{
    proxy_freeze(fixture.proxy, true);
}

static void thaw(void)
{
    proxy_freeze(fixture.proxy, false);
}

static void start_proxied(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(partition, .init = start_proxied, .fini = fixture_end, .timeout = 90);

/* Shows: S15 */
Test(partition, by_a_black_hole_tells_a_loss_before_a_new_hold)
{
    partitions(&(struct net){ freeze, thaw, fixture_open }, 3);
}

/* --- in namespaces: the server's, with the test's main thread, and the holder's */

static char holder_url[64];

static void start_apart(void)
{
    static const char *const anywhere[] = { "--bind", "0.0.0.0", "--protected-mode", "no",
                                            NULL }; /* in the namespace: two hosts */
    netns_begin(1);
    fixture.server = server_start(SERVER_TCP | SERVER_NOACL, anywhere);
    fixture.redis = raw_open(fixture.server);
    fixture.url = hlk_test_url(fixture.server);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    snprintf(holder_url, sizeof holder_url, "redis://%s:%d", netns_address(0), fixture.server->port);
}

TestSuite(partition_apart, .init = start_apart, .fini = fixture_end, .timeout = 120);

static void pull_cable(void)
{
    netns_unplug(0);
}

static void plug_in(void)
{
    netns_plug_in(0);
}

/* Commands arrive, replies do not. */
static void lose_answers(void)
{
    netns_drop_from(fixture.server->port);
}

static void lose_no_answers(void)
{
    netns_pass(fixture.server->port);
}

/* A client's sockets are made by its loop thread, in the namespace in which that was started. */
static hlk_client *open_apart(const struct hlk_client_opts *opts)
{
    netns_at_clients();
    hlk_client *client = fixture_open_at(holder_url, opts);
    netns_at_servers();
    return client;
}

/* asks A3 redisson 3636, 3187: 1000 runs, with the three rounds above. */
Test(partition_apart, by_a_pulled_cable_tells_a_loss_before_a_new_hold)
{
    partitions(&(struct net){ pull_cable, plug_in, open_apart }, 4);
}

Test(partition_apart, of_answers_alone_tells_a_loss_before_a_new_hold)
{
    partitions(&(struct net){ lose_answers, lose_no_answers, open_apart }, 3);
}

/* --- of the subscriber connection alone, while the lock is granted */

static int subscribers_port(void)
{
    redisReply *reply = redisCommand(fixture.redis, "CLIENT LIST TYPE pubsub");
    const char *addr = strstr(reply->str, " addr=" NETNS_CLIENT ":");
    int port = addr ? atoi(addr + strlen(" addr=" NETNS_CLIENT ":")) : 0;
    freeReplyObject(reply);
    return port;
}

/* Two pings one second apart, a new connection, and the command after its confirmation: before the grant (5 s) is
 * over. */
Test(partition_apart, of_the_subscriber_alone_delays_grants_by_two_pings)
{
    enum { ROUNDS = 3, FOUND_MS = 4500 };
    hlk_client *client = open_apart(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(bystander(), "t", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
        struct actor *waiter = actor_start(lock, NULL);
        WAIT_FOR(raw_listeners(fixture.redis, "t") == 1 && subscribers_port() != 0);
        WAIT_FOR_WAITERS(client, 1);
        int port = subscribers_port();
        netns_drop_at_client(port);
        int64_t released_at = test_now_ms();
        cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
        cr_assert_neq(raw_pttl(fixture.redis, "t"), -2, "it was granted");
        cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
        int64_t took = actor_answered_at_ms(waiter) - released_at;
        netns_pass(port);
        cr_log_info("found after %d ms", (int)took);
        cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(waiter)), FOUND_MS);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    cr_assert_eq(fixture_counters(client).granted, 0u, "no message told it");
}
