/* test_redlock.c - one lock with other libraries on the same three masters: redsync, node-redlock and redlock-py by
 * strings, Redisson's RedLock by hashes. HASPLOCK_REDLOCK names the library, HASPLOCK_REDLOCK_PEER runs its peer
 * (redlock.sh). */
#include "line_peer.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 3, TTL_MS = 20000 };

static struct server *masters[MASTERS];
static redisContext *views[MASTERS];
static hlk_client *client;

static bool is(const char *library)
{
    return strcmp(getenv("HASPLOCK_REDLOCK"), library) == 0;
}

static void start_peer(void)
{
    char command[4096];
    int len = snprintf(command, sizeof command, "%s", getenv("HASPLOCK_REDLOCK_PEER"));
    for (int i = 0; i < MASTERS; i++)
        len += snprintf(command + len, sizeof command - (size_t)len, " 127.0.0.1:%d", masters[i]->port);
    line_peer_start(command);
}

static void start(void)
{
    const char *urls[MASTERS];
    for (int i = 0; i < MASTERS; i++) {
        masters[i] = server_start(SERVER_TCP | SERVER_NOACL, NULL);
        views[i] = raw_open(masters[i]);
        urls[i] = hlk_test_url(masters[i]);
    }
    if (hlk_quorum_open(&client, urls, MASTERS, NULL) != HLK_OK)
        test_give_up("%s", hlk_last_error());
    start_peer();
}

static void finish(void)
{
    line_peer_end();
    hlk_client_close(client);
    for (int i = 0; i < MASTERS; i++) {
        redisFree(views[i]);
        server_finish(masters[i]);
    }
}

TestSuite(redlock, .init = start, .fini = finish, .timeout = 60);

#define PEER(command, answer) cr_assert_str_eq(line_peer_ask(command), answer)

static hlk_quorum *ours(void)
{
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.format = is("java") ? HLK_QUORUM_HASH : HLK_QUORUM_STRING;
    opts.ttl_ms = TTL_MS;
    opts.restart_delay_ms = -1;
    hlk_quorum *q = hlk_quorum_create(client, "t", &opts);
    cr_assert_not_null(q, "%s", hlk_last_error());
    return q;
}

static int keys(void)
{
    int n = 0;
    for (int i = 0; i < MASTERS; i++)
        n += raw_int(views[i], "EXISTS t") == 1;
    return n;
}

/* asks: works together with at least two real ones of redsync, node-redlock, redis-py's */
Test(redlock, we_exclude_them)
{
    hlk_quorum *q = ours();
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "busy");
    WAIT_FOR(keys() == MASTERS); /* what they gave back was theirs */
    cr_assert_eq(hlk_quorum_extend(q, TTL_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "ok");
    PEER("release", "ok");
    WAIT_FOR(keys() == 0);
    hlk_quorum_destroy(q);
}

Test(redlock, they_exclude_us)
{
    hlk_quorum *q = ours();
    PEER("acquire t 20000", "ok");
    WAIT_FOR(keys() == MASTERS); /* a peer may say so as soon as a majority has answered */
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_acquire(q, 300), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_eq(keys(), MASTERS);
    if (is("redsync") || is("node")) {
        PEER("extend", "ok");
        cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    }
    PEER("release", "ok");
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(keys() == 0);
    hlk_quorum_destroy(q);
}

static void *acquire_in_thread(void *q)
{
    return (void *)(intptr_t)hlk_quorum_acquire(q, WAIT_MS);
}

Test(redlock, we_wait_for_them)
{
    hlk_quorum *q = ours();
    pthread_t thread;
    void *status;
    PEER("acquire t 20000", "ok");
    pthread_create(&thread, NULL, acquire_in_thread, q);
    for (int i = 0; i < MASTERS; i++)
        WAIT_FOR(raw_listeners(views[i], "t") > 0);
    PEER("release", "ok");
    pthread_join(thread, &status);
    cr_assert_eq((int)(intptr_t)status, HLK_OK);
    PEER("acquire t 20000", "busy");
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    hlk_quorum_destroy(q);
}

Test(redlock, a_hold_of_theirs_that_nobody_releases_runs_out)
{
    hlk_quorum *q = ours();
    int64_t began = test_now_ms();
    PEER("acquire t 500", "ok");
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 490);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    hlk_quorum_destroy(q);
}
