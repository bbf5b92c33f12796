/* The lines of docs/acl.md for a cluster, as a reader attempts them on each server. */
#include "fixture.h"
#include "support/acl_page.h"

#include <stdio.h>
#include <string.h>

TestSuite(cluster_acl, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static void allow(const char *section)
{
    for (int i = 0; i < cluster->n; i++)
        acl_page_run(cluster->redis[i], section, NULL);
}

static struct hlk_client_opts user_opts(void)
{
    struct hlk_client_opts opts = patient_opts();
    opts.username = "locks";
    opts.password = "SECRET";
    return opts;
}

static void app_name(int server, char *name, size_t size)
{
    for (int n = 0;; n++) {
        snprintf(name, size, "app:%d", n);
        if (cluster_owner(cluster, name) == server)
            return;
    }
}

Test(cluster_acl, the_page_has_what_a_cluster_needs)
{
    allow("Locks");
    allow("Cluster");
    struct hlk_client_opts opts = user_opts();
    hlk_client *one = fixture_open_at(cluster->url, &opts), *two = fixture_open_at(cluster->url, &opts);
    for (int i = 0; i < MASTERS; i++) {
        char name[32];
        app_name(i, name, sizeof name);
        hlk_lock *held = fixture_lock(one, name, NULL);
        acquire(held);
        struct actor *waiter = actor_start(fixture_lock(two, name, NULL), NULL);
        WAIT_FOR(raw_int(cluster->redis[i], "EXISTS hasplock_queue:{%s}", name) == 1);
        release(held);
        cr_assert_eq(actor_end(waiter), HLK_OK, "%s", actor_error(waiter));
        acquire(held);
        unsigned slot = slot_of(held);
        cluster_move_begin(cluster, slot, (i + 1) % MASTERS);
        cluster_move_keys(cluster, slot, (i + 1) % MASTERS);
        cr_assert_eq(hlk_lock_extend(held, 100000), HLK_OK, "%s", hlk_last_error());
        cluster_move_end(cluster, slot, (i + 1) % MASTERS);
        release(held);
    }
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0);
}

Test(cluster_acl, without_the_fifth_line_it_is_auth)
{
    hlk_client *client;
    allow("Locks");
    struct hlk_client_opts opts = user_opts();
    cr_assert_eq(hlk_client_open(&client, cluster->url, &opts), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "shardnumsub"), "%s", hlk_last_error());
    for (int i = 0; i < MASTERS; i++)
        raw(cluster->redis[i], "ACL SETUSER locks +spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub");
    cr_assert_eq(hlk_client_open(&client, cluster->url, &opts), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "cluster|slots"), "%s", hlk_last_error());
}
