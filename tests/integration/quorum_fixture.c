#include "quorum_fixture.h"
#include "net/pipeline_up.h"

#include "client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

struct server *masters[MASTERS];
struct proxy *proxies[MASTERS];
redisContext *views[MASTERS];

static hlk_client *clients[MOST];
static hlk_quorum *handles[MOST];
static hlk_lock *locks[MOST];
static int client_count, handle_count, lock_count;

void quorum_begin(unsigned flags)
{
    pause_watch();
    for (int i = 0; i < MASTERS; i++) {
        masters[i] = server_start((flags & ~STAGE_PROXY) | SERVER_NOACL, NULL);
        views[i] = raw_open(masters[i]);
        proxies[i] = flags & STAGE_PROXY ? proxy_start(masters[i]) : NULL;
        server_allow(masters[i], SERVER_TOMBSTONES);
    }
}

void quorum_end(void)
{
    for (int i = 0; i < handle_count; i++)
        hlk_quorum_destroy(handles[i]);
    for (int i = 0; i < lock_count; i++)
        hlk_lock_destroy(locks[i]);
    for (int i = 0; i < client_count; i++)
        hlk_client_close(clients[i]);
    for (int i = 0; i < MASTERS; i++) {
        proxy_stop(proxies[i]);
        if (views[i])
            redisFree(views[i]);
        if (masters[i]->pid)
            server_finish(masters[i]);
        else
            server_stop(masters[i]);
    }
}

void quorum_forget_view(int i)
{
    redisFree(views[i]);
    views[i] = NULL;
}

static bool has_tried_all(const hlk_client *client)
{
    unsigned tried = 0;
    for (unsigned i = 0; i < client->node_count; i++)
        tried += hlk_pipeline_tried(client->nodes[i].pipeline);
    return tried == client->node_count;
}

/* Open waits for a majority only. Most tests are about what comes next: for them all that are there are connected. One
 * that is silent is not waited for any longer. */
static void wait_for_all(const hlk_client *client, const struct hlk_client_opts *opts)
{
    int64_t began = test_now_ms();
    bool lazy = opts && (opts->flags & HLK_OPEN_LAZY);
    while (!lazy && !has_tried_all(client) && test_now_ms() - began < 1000)
        test_sleep_ms(1);
}

hlk_client *quorum_open(unsigned n, const struct hlk_client_opts *opts)
{
    struct hlk_client_opts usual = fixture_opts();
    const char *urls[MASTERS];
    cr_assert_lt(client_count, MOST);
    for (unsigned i = 0; i < n; i++)
        urls[i] = proxies[i] ? proxy_url(proxies[i]) : hlk_test_url(masters[i]);
    hlk_client **out = &clients[client_count++];
    cr_assert_eq(hlk_quorum_open(out, urls, n, opts ? opts : &usual), HLK_OK, "%s", hlk_last_error());
    wait_for_all(*out, opts);
    return *out;
}

/* The part of a master's URL that stands between the commas. */
static const char *one_of(unsigned i)
{
    const char *url = proxies[i] ? proxy_url(proxies[i]) : hlk_test_url(masters[i]), *host = strstr(url, "://");
    return host ? host + strlen("://") : url;
}

hlk_client *quorum_open_url_at_once(unsigned n, const char *options, const struct hlk_client_opts *opts)
{
    struct hlk_client_opts usual = fixture_opts();
    char url[1024];
    bool tls = !proxies[0] && strncmp(hlk_test_url(masters[0]), "rediss:", strlen("rediss:")) == 0;
    int at = snprintf(url, sizeof url, "redlock%s://", tls ? "s" : "");
    for (unsigned i = 0; i < n; i++)
        at += snprintf(url + at, sizeof url - (size_t)at, "%s%s", i ? "," : "", one_of(i));
    (void)snprintf(url + at, sizeof url - (size_t)at, "?restart_delay_ms=0%s", options);
    cr_assert_lt(client_count, MOST);
    hlk_client **out = &clients[client_count++];
    cr_assert_eq(hlk_client_open(out, url, opts ? opts : &usual), HLK_OK, "%s", hlk_last_error());
    return *out;
}

hlk_client *quorum_open_url(unsigned n, const char *options, const struct hlk_client_opts *opts)
{
    hlk_client *client = quorum_open_url_at_once(n, options, opts);
    wait_for_all(client, opts);
    return client;
}

void quorum_close(hlk_client *client)
{
    for (int i = 0; i < client_count; i++)
        if (clients[i] == client)
            clients[i] = NULL;
    hlk_client_close(client);
}

hlk_lock *quorum_lock(hlk_client *client, const char *name, const struct hlk_lock_opts *opts)
{
    cr_assert_lt(lock_count, MOST);
    hlk_lock *lock = locks[lock_count++] = hlk_lock_create(client, name, opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

struct hlk_quorum_opts quorum_opts(void)
{
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.restart_delay_ms = -1;
    return opts;
}

hlk_quorum *quorum_make(hlk_client *client, const char *name, const struct hlk_quorum_opts *opts)
{
    struct hlk_quorum_opts usual = quorum_opts();
    cr_assert_lt(handle_count, MOST);
    hlk_quorum *quorum = handles[handle_count++] = hlk_quorum_create(client, name, opts ? opts : &usual);
    cr_assert_not_null(quorum, "%s", hlk_last_error());
    return quorum;
}

void quorum_destroy(hlk_quorum *quorum)
{
    for (int i = 0; i < handle_count; i++)
        if (handles[i] == quorum)
            handles[i] = handles[--handle_count];
    hlk_quorum_destroy(quorum);
}

void quorum_read(hlk_client *client, int i)
{
    int away = i == 0 ? 1 : 0;
    proxy_freeze(proxies[away], true);
    hlk_quorum *other = quorum_make(client, "other", NULL);
    cr_assert_eq(hlk_quorum_acquire(other, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    quorum_destroy(other);
    proxy_freeze(proxies[away], false);
    WAIT_FOR(quorum_keys("other") == 0);
}

unsigned quorum_keys(const char *name)
{
    unsigned n = 0;
    for (int i = 0; i < MASTERS; i++)
        n += views[i] && raw_int(views[i], "EXISTS %s", name) == 1;
    return n;
}
