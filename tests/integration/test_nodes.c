/* test_nodes.c - one client of several servers: a node for each, and one loop thread and one events thread for all. */
#include "client.h"
#include "lease/entry_table.h"
#include "net/pipeline_up.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 3 };

static struct server *servers[NODES];
static redisContext *views[NODES];
static const char *urls[NODES];
static hlk_client *client;
static hlk_lock *locks[NODES];
static const char *const names[NODES] = { "t0", "t1", "t2" };

/* The last letter of a lock's name is its node. */
static unsigned by_last_letter(const char *name, size_t len, unsigned nodes)
{
    return (unsigned)(name[len - 1] - '0') % nodes;
}

static void start(void)
{
    for (int i = 0; i < NODES; i++) {
        servers[i] = server_start(0, NULL);
        views[i] = raw_open(servers[i]);
        urls[i] = hlk_test_url(servers[i]);
    }
}

static void finish(void)
{
    hlk_client_close(client);
    for (int i = 0; i < NODES; i++) {
        redisFree(views[i]);
        server_finish(servers[i]);
    }
}

TestSuite(nodes, .init = start, .fini = finish);

/* As in errors: without the password. */
static const char *address(int i)
{
    static char text[80];
    if (servers[i]->acl)
        snprintf(text, sizeof text, "127.0.0.1:%d", servers[i]->port);
    else
        snprintf(text, sizeof text, "%s", servers[i]->socket);
    return text;
}

static void open_nodes(const struct hlk_client_opts *opts)
{
    cr_assert_eq(hlk_client_open_nodes(&client, urls, NODES, by_last_letter, opts), HLK_OK, "%s", hlk_last_error());
}

static void make_locks(const struct hlk_lock_opts *opts)
{
    for (int i = 0; i < NODES; i++)
        cr_assert_not_null(locks[i] = hlk_lock_create(client, names[i], opts), "%s", hlk_last_error());
}

static void destroy_locks(void)
{
    for (int i = 0; i < NODES; i++)
        hlk_lock_destroy(locks[i]);
}

static void acquire_all(void)
{
    for (int i = 0; i < NODES; i++)
        cr_assert_eq(hlk_lock_acquire(locks[i], WAIT_MS), HLK_OK, "%s", hlk_last_error());
}

static void release_all(void)
{
    for (int i = 0; i < NODES; i++)
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK, "%s", hlk_last_error());
}

static void each_kind(void (*test)(void))
{
    for (int kind = HLK_LOCK_PLAIN; kind <= HLK_LOCK_FAIR; kind++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kind;
        make_locks(&opts);
        test();
        destroy_locks();
    }
}

static void kept_where_routed(void)
{
    acquire_all();
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            cr_assert_eq(raw_int(views[j], "EXISTS %s", names[i]), i == j, "%s at %d", names[i], j);
    release_all();
}

Test(nodes, keep_the_locks_that_are_routed_to_them)
{
    open_nodes(NULL);
    for (int i = 0; i < NODES; i++)
        server_allow(servers[i], "redisson_lock_token:*");
    each_kind(kept_where_routed);
}

static int threads(void)
{
    int n = -2; /* not counted: . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks))
        n++;
    closedir(tasks);
    return n;
}

Test(nodes, share_one_loop_thread_and_one_events_thread)
{
    hlk_client *one;
    cr_assert_eq(hlk_client_open(&one, urls[0], NULL), HLK_OK, "%s", hlk_last_error());
    int before = threads();
    open_nodes(NULL);
    make_locks(NULL);
    acquire_all();
    WAIT_FOR(threads() == before + 2);
    release_all();
    destroy_locks();
    hlk_client_close(one);
}

/* Each node has an inbox, whose messages concern its own entries. */
Test(nodes, wake_the_waiters_of_their_own_locks)
{
    hlk_client *others[NODES];
    hlk_lock *theirs[NODES];
    struct actor *waiters[NODES];
    open_nodes(NULL);
    make_locks(NULL);
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(hlk_client_open(&others[i], urls[i], NULL), HLK_OK, "%s", hlk_last_error());
        theirs[i] = hlk_lock_create(others[i], names[i], NULL);
        cr_assert_eq(hlk_lock_acquire(theirs[i], HLK_NOWAIT), HLK_OK);
        waiters[i] = actor_start(locks[i], NULL);
    }
    for (int i = NODES - 1; i >= 0; i--) {
        WAIT_FOR(raw_listeners(views[i], names[i]) == 1 && raw_inboxes(views[i]) == 1);
        cr_assert_eq(hlk_lock_release(theirs[i]), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(actor_status(waiters[i]), HLK_OK, "%s", actor_error(waiters[i]));
    }
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
        hlk_lock_destroy(theirs[i]);
        hlk_client_close(others[i]);
    }
    cr_assert_eq(fixture_counters(client).granted, NODES);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    destroy_locks();
}

/* The same name may be a different lock at each server: their entries are separate. */
Test(nodes, have_entries_of_their_own)
{
    open_nodes(NULL);
    struct hlk_entry *entries[NODES];
    for (int i = 0; i < NODES; i++)
        entries[i] = hlk_entry_get(&client->nodes[i], client->table.formats[0], "t", 1);
    for (int i = 0; i < NODES; i++) {
        cr_assert_neq(entries[i], entries[(i + 1) % NODES]);
        hlk_entry_unref(entries[i]);
    }
}

Test(nodes, renew_and_lose_their_own_holds)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    open_nodes(&opts);
    make_locks(NULL);
    acquire_all();
    WAIT_FOR(fixture_counters(client).renewals >= 2 * NODES);
    raw(views[1], "DEL %s", names[1]);
    (void)fixture_wait_event(HLK_EVENT_LOST, names[1]);
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 4);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1u);
    cr_assert_eq(hlk_lock_release(locks[0]), HLK_OK);
    cr_assert_eq(hlk_lock_release(locks[1]), HLK_LOST);
    cr_assert_eq(hlk_lock_release(locks[2]), HLK_OK);
    destroy_locks();
}

Test(nodes, fail_alone)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = opts.reply_timeout_ms = 3000;
    open_nodes(&opts);
    make_locks(NULL);
    struct hlk_error error;
    server_kill(servers[1]);
    WAIT_FOR(hlk_pipeline_health(client->nodes[1].pipeline, &error) != HLK_OK); /* else a try might be sent on it */
    cr_assert_eq(hlk_lock_acquire(locks[1], HLK_NOWAIT), HLK_E_CONNECT, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), address(1)), "%s", hlk_last_error());
    for (int i = 0; i < NODES; i += 2) {
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK, "%s", hlk_last_error());
    }
    server_restart(servers[1], false);
    cr_assert_eq(hlk_lock_acquire(locks[1], WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(locks[1]), HLK_OK, "%s", hlk_last_error());
    destroy_locks();
}

Test(nodes, that_do_not_answer_keep_the_client_from_opening)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 3000; /* long enough for the others */
    server_kill(servers[2]);
    cr_assert_eq(hlk_client_open_nodes(&client, urls, NODES, by_last_letter, &opts), HLK_E_CONNECT);
    cr_assert_not_null(strstr(hlk_last_error(), address(2)), "%s", hlk_last_error());
    cr_assert_null(client);
    server_restart(servers[2], false);
}

/* --- dispatch: one descriptor for all */

static int completed;

static void count_completion(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock, (void)ctx;
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    completed++;
}

static void dispatch_until(int n)
{
    while (completed < n) {
        struct pollfd set = { hlk_client_fd(client), POLLIN, 0 };
        cr_assert_gt(poll(&set, 1, WAIT_MS), 0, "nothing to dispatch");
        (void)hlk_client_dispatch(client, 0);
    }
}

Test(nodes, complete_in_the_users_loop)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.flags = HLK_OPEN_DISPATCH;
    open_nodes(&client_opts);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = hlk_owner_create(client, "loop");
    make_locks(&opts);
    for (int round = 0; round < 20; round++) {
        completed = 0;
        for (int i = 0; i < NODES; i++)
            cr_assert_eq(hlk_lock_acquire_async(locks[i], NULL, count_completion, NULL), HLK_OK);
        dispatch_until(NODES);
        for (int i = 0; i < NODES; i++)
            cr_assert_eq(hlk_lock_release_async(locks[i], count_completion, NULL), HLK_OK);
        dispatch_until(2 * NODES);
    }
    destroy_locks();
    hlk_owner_destroy(opts.owner);
}
