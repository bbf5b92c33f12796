/* A cluster that stands still: each lock is on the server of its slot, and waits are served there. */
/* Shows: P27 */
#include "fixture.h"
#include "node/slots.h"

#include "support/port.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(cluster, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static void allow_tokens(void)
{
    for (int i = 0; i < cluster->n; i++)
        server_allow(cluster->servers[i], "redisson_lock_token:*");
}

Test(cluster, each_lock_is_on_the_server_of_its_slot)
{
    hlk_client *client = open_cluster();
    allow_tokens();
    for (int kind = HLK_LOCK_PLAIN; kind <= HLK_LOCK_FAIR; kind++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kind;
        for (int i = 0; i < MASTERS; i++) {
            hlk_lock *lock = lock_at(client, i, kind, &opts);
            acquire(lock);
            cr_assert(is_at(lock, i), "kind %d, server %d", kind, i);
            release(lock);
        }
    }
}

Test(cluster, slots_are_those_that_the_server_says)
{
    static const char *const keys[] = { "t", "{t}", "t{", "{}t", "a{t}b", "a{}{t}", "}t{", "{{t}}", "t}", "{t" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_assert_eq(hlk_slot_of(keys[i], strlen(keys[i])), cluster_slot(cluster, keys[i]), "%s", keys[i]);
}

static void opens_at(const char *hosts)
{
    char url[256];
    snprintf(url, sizeof url, "redis+cluster://%s", hosts);
    hlk_client *client = fixture_open_at(url, NULL);
    for (int i = 0; i < MASTERS; i++) {
        hlk_lock *lock = lock_at(client, i, 0, NULL);
        acquire(lock);
        release(lock);
    }
}

Test(cluster, one_living_server_in_the_url_is_enough)
{
    char hosts[128];
    int port, held = port_reserve(&port);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", cluster->servers[2]->port);
    opens_at(hosts);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", port, cluster->servers[1]->port);
    opens_at(hosts);
    close(held);
}

Test(cluster, without_any_it_is_no_connection)
{
    char url[128];
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    int port, held = port_reserve(&port);
    opts.reconnect_timeout_ms = 200;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", port);
    cr_assert_eq(hlk_client_open(&client, url, &opts), HLK_E_CONNECT, "%s", hlk_last_error());
    close(held);
}

Test(cluster, a_server_without_a_cluster_is_refused)
{
    char url[128];
    hlk_client *client;
    struct server *alone = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", alone->port);
    cr_assert_eq(hlk_client_open(&client, url, NULL), HLK_E_SERVER, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "cluster support disabled"), "%s", hlk_last_error());
    server_finish(alone);
}

Test(cluster, a_node_opened_as_a_single_server_says_what_to_use)
{
    hlk_client *client = fixture_open_at(cluster->servers[0]->url, NULL);
    hlk_lock *lock = lock_at(client, 1, 0, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 1000), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), "use redis+cluster://"), "%s", hlk_last_error());
}

Test(cluster, a_lazy_client_reads_the_map_at_its_first_command)
{
    struct hlk_client_opts opts = patient_opts();
    opts.flags = HLK_OPEN_LAZY;
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    hlk_lock *lock = lock_at(client, 1, 0, NULL);
    acquire(lock);
    cr_assert(is_at(lock, 1));
    release(lock);
}

Test(cluster, names_that_break_slots_are_refused)
{
    static const char *const bad[] = { "a{b", "a}b", "a{}b", "{}" }, *const good[] = { "t", "{t}", "a{t}b", "{t}}" };
    hlk_client *client = open_cluster();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_null(hlk_lock_create(client, bad[i], NULL), "%s", bad[i]);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID, "%s", bad[i]);
        cr_assert(strstr(hlk_last_error(), "different slots"), "%s", hlk_last_error());
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        hlk_lock *lock = fixture_lock(client, good[i], NULL);
        acquire(lock);
        release(lock);
    }
}

static int64_t scripts_run(int server)
{
    return raw_calls(cluster->redis[server], "evalsha") + raw_calls(cluster->redis[server], "eval");
}

/* A waiter asks a second time when its inbox is subscribed, and is granted the lock from then on. */
static void hands_over(int kind, int server)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, server, kind, &opts), *wanted = lock_at(two, server, kind, &opts);
    acquire(held);
    cr_assert_eq(hlk_lock_acquire(wanted, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error()); /* the script is known now */
    int64_t before = scripts_run(server);
    struct actor *waiter = actor_start(wanted, NULL);
    WAIT_FOR(scripts_run(server) >= before + 2);
    WAIT_FOR(raw_int(cluster->redis[server], "EXISTS hasplock_queue:{%s} redisson_lock_queue:{%s}", hlk_lock_name(held),
                     hlk_lock_name(held)) == 1);
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(two).granted, 1);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    fixture_close(two);
    fixture_close(one);
}

Test(cluster, a_waiter_is_granted_the_lock_on_each_server)
{
    for (int i = 0; i < MASTERS; i++)
        hands_over(HLK_LOCK_PLAIN, i);
}

Test(cluster, so_is_one_of_a_fair_lock)
{
    hands_over(HLK_LOCK_FAIR, 1);
}

enum { MANY = 300 };

/* Each renewal is due with others of other slots. */
Test(cluster, many_locks_are_renewed_on_their_servers)
{
    struct hlk_client_opts opts = patient_opts();
    opts.watchdog_ms = 1000;
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    hlk_lock *locks[MANY];
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        acquire(locks[i] = fixture_lock(client, name, NULL));
    }
    WAIT_FOR(fixture_counters(client).renewals >= 5 * MANY);
    cr_assert_eq(fixture_counters(client).lost, 0);
    for (int i = 0; i < MANY; i++)
        release(locks[i]);
}

Test(cluster, the_user_s_loop_serves_all_servers)
{
    struct hlk_client_opts opts = patient_opts();
    opts.flags = HLK_OPEN_DISPATCH;
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    cr_assert_geq(hlk_client_fd(client), 0);
    for (int i = 0; i < MASTERS; i++) {
        hlk_lock *lock = lock_at(client, i, 0, NULL);
        acquire(lock);
        release(lock);
    }
}

static int count_listed(const struct hlk_listed *lock, void *seen)
{
    unsigned i;
    if (sscanf(lock->name, "t%u-", &i) == 1 && i < 30)
        *(unsigned *)seen |= 1u << i;
    return 0;
}

Test(cluster, a_list_has_the_locks_of_all_servers)
{
    hlk_client *client = open_cluster();
    unsigned seen = 0;
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    hlk_lock *locks[MASTERS];
    for (int i = 0; i < MASTERS; i++)
        acquire(locks[i] = lock_at(client, i, i, NULL));
    cr_assert_eq(hlk_lock_list(client, &opts, count_listed, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(seen, 7);
    cr_assert_eq(opts.cursor, 0);
    for (int i = 0; i < MASTERS; i++)
        release(locks[i]);
}
