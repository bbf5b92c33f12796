/* test_redlock.c - one lock with other libraries on the same three masters: redsync, node-redlock and redlock-py by
 * strings, Redisson's RedLock by hashes: with an hlk_quorum, and with an hlk_lock of redlock://. HASPLOCK_REDLOCK names
 * the library, HASPLOCK_REDLOCK_PEER runs its peer (redlock.sh). */
/* Shows: P36 */
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
static hlk_quorum *quorum;
static hlk_owner *owner;
static hlk_lock *lock; /* instead of the quorum; of an owner, because several threads use it */

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

static void open_quorum(void)
{
    const char *urls[MASTERS];
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.format = is("java") ? HLK_QUORUM_HASH : HLK_QUORUM_STRING;
    opts.ttl_ms = TTL_MS;
    opts.restart_delay_ms = -1;
    for (int i = 0; i < MASTERS; i++)
        urls[i] = hlk_test_url(masters[i]);
    if (hlk_quorum_open(&client, urls, MASTERS, NULL) != HLK_OK || !(quorum = hlk_quorum_create(client, "t", &opts)))
        test_give_up("%s", hlk_last_error());
}

static void open_lock(void)
{
    char url[256];
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    (void)snprintf(url, sizeof url, "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?ttl_ms=%d&restart_delay_ms=0",
                   masters[0]->port, masters[1]->port, masters[2]->port, TTL_MS);
    if (hlk_client_open(&client, url, NULL) != HLK_OK || !(owner = opts.owner = hlk_owner_create(client, NULL)) ||
        !(lock = hlk_lock_create(client, "t", &opts)))
        test_give_up("%s", hlk_last_error());
}

static void start(void)
{
    for (int i = 0; i < MASTERS; i++) {
        masters[i] = server_start(SERVER_TCP | SERVER_NOACL, NULL);
        views[i] = raw_open(masters[i]);
    }
    if (is("lock"))
        open_lock();
    else
        open_quorum();
    start_peer();
}

static void finish(void)
{
    line_peer_end();
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    hlk_quorum_destroy(quorum);
    hlk_client_close(client);
    for (int i = 0; i < MASTERS; i++) {
        redisFree(views[i]);
        server_finish(masters[i]);
    }
}

TestSuite(redlock, .init = start, .fini = finish, .timeout = 60);

#define PEER(command, answer) cr_assert_str_eq(line_peer_ask(command), answer)

static enum hlk_status acquire(int64_t wait_ms)
{
    return lock ? hlk_lock_acquire(lock, wait_ms) : hlk_quorum_acquire(quorum, wait_ms);
}

static enum hlk_status extend(void)
{
    return lock ? hlk_lock_extend(lock, TTL_MS) : hlk_quorum_extend(quorum, TTL_MS);
}

static enum hlk_status release(void)
{
    return lock ? hlk_lock_release(lock) : hlk_quorum_release(quorum);
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
    cr_assert_eq(acquire(HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "busy");
    WAIT_FOR(keys() == MASTERS); /* what they gave back was theirs */
    cr_assert_eq(extend(), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(release(), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "ok");
    PEER("release", "ok");
    WAIT_FOR(keys() == 0);
}

Test(redlock, they_exclude_us)
{
    PEER("acquire t 20000", "ok");
    WAIT_FOR(keys() == MASTERS); /* a peer may say so as soon as a majority has answered */
    cr_assert_eq(acquire(HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(acquire(300), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_eq(keys(), MASTERS);
    if (is("redsync") || is("node")) {
        PEER("extend", "ok");
        cr_assert_eq(acquire(HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    }
    PEER("release", "ok");
    cr_assert_eq(acquire(WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(release(), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(keys() == 0);
}

static void *acquire_in_thread(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)acquire(WAIT_MS);
}

Test(redlock, we_wait_for_them)
{
    pthread_t thread;
    void *status;
    PEER("acquire t 20000", "ok");
    pthread_create(&thread, NULL, acquire_in_thread, NULL);
    for (int i = 0; i < MASTERS; i++)
        WAIT_FOR(raw_listeners(views[i], "t") > 0);
    PEER("release", "ok");
    pthread_join(thread, &status);
    cr_assert_eq((int)(intptr_t)status, HLK_OK);
    PEER("acquire t 20000", "busy");
    cr_assert_eq(release(), HLK_OK, "%s", hlk_last_error());
}

Test(redlock, a_hold_of_theirs_that_nobody_releases_runs_out)
{
    int64_t began = test_now_ms();
    PEER("acquire t 500", "ok");
    cr_assert_eq(acquire(WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 490);
    cr_assert_eq(release(), HLK_OK, "%s", hlk_last_error());
}
