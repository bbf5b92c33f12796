/* test_quorum_release.c - what a release over five masters says, and what it frees: also masters that answer late, or
 * come back late. */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_release, .init = start, .fini = quorum_end, .timeout = 120);

static hlk_quorum *held(hlk_client *client, const struct hlk_quorum_opts *opts)
{
    hlk_quorum *q = quorum_make(client, "t", opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return q;
}

Test(quorum_release, that_finds_too_few_holds_is_a_loss)
{
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), NULL);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    for (int i = 0; i < MAJORITY; i++)
        (void)raw(views[i], "DEL t");
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    cr_assert_eq(hlk_quorum_release(q), HLK_NOT_HOLDER);
}

Test(quorum_release, that_too_few_answer_is_unsure_and_is_repeated)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 2000; /* each master of a slow machine has answered by then */
    hlk_quorum *q = held(quorum_open(MASTERS, &opts), NULL);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    for (int i = 0; i < MAJORITY; i++)
        proxy_freeze(proxies[i], true);
    cr_assert_eq(hlk_quorum_release(q), HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_left_ms(q), 0);
    for (int i = 0; i < MAJORITY; i++)
        proxy_freeze(proxies[i], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* Three masters, the second of which has refused it. */
static hlk_quorum *held_by_two(int64_t reply_timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = reply_timeout_ms;
    hlk_client *client = quorum_open(3, &opts);
    (void)raw(views[1], "SET t else");
    hlk_quorum *q = held(client, NULL);
    quorum_read(client, 1);
    (void)raw(views[1], "DEL t");
    return q;
}

/* The one that has refused it is free of it too: only one may still have it. */
Test(quorum_release, is_done_when_no_majority_can_have_it_any_more)
{
    hlk_quorum *q = held_by_two(1000);
    proxy_freeze(proxies[2], true);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    proxy_freeze(proxies[2], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* The silent one had its node_timeout_ms. */
Test(quorum_release, that_is_done_does_not_wait_for_a_master_not_needed)
{
    hlk_quorum *q = held_by_two(60000);
    proxy_freeze(proxies[2], true);
    int64_t before_ms = hlk_now_ms();
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    cr_assert_lt(hlk_now_ms() - before_ms, 30000);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    proxy_freeze(proxies[2], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store((atomic_int *)ctx, (int)status);
}

Test(quorum_release, without_a_thread_does_not_wait_for_it_either)
{
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    static atomic_int status = -1;
    opts.reply_timeout_ms = 60000;
    hlk_client *client = quorum_open_url(3, "&ttl_ms=60000&node_timeout_ms=300", &opts);
    lock_opts.owner = hlk_owner_create(client, NULL);
    (void)raw(views[1], "SET t else");
    hlk_lock *lock = quorum_lock(client, "t", &lock_opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    quorum_read(client, 1);
    (void)raw(views[1], "DEL t");
    proxy_freeze(proxies[2], true);
    cr_assert_eq(hlk_lock_release_async(lock, on_done, &status), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(atomic_load(&status) == HLK_OK);
    hlk_owner_destroy(lock_opts.owner);
    proxy_freeze(proxies[2], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_release, is_a_loss_if_one_of_a_bare_majority_forgot_it)
{
    hlk_quorum *q = held_by_two(1000);
    (void)raw(views[2], "DEL t");
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "2 of 3 masters did not have the hold any more"), "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- one server by two URLs --- */

/* Of three URLs that mean two servers both servers are needed. */
Test(quorum_release, counts_a_server_once)
{
    const char *urls[] = { proxy_url(proxies[0]), hlk_test_url(masters[0]), proxy_url(proxies[1]) };
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client = NULL;
    cr_assert_eq(hlk_quorum_open(&client, urls, 3, &opts), HLK_OK, "%s", hlk_last_error());
    hlk_quorum *q = quorum_make(client, "t", NULL);
    WAIT_FOR(fixture_logged("it is the same server as"));
    WAIT_FOR(hlk_quorum_acquire(q, HLK_NOWAIT) == HLK_OK);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    proxy_freeze(proxies[1], true);
    cr_assert_neq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK);
    cr_assert_not_null(strstr(hlk_last_error(), "it is the same server as another master"), "%s", hlk_last_error());
    proxy_freeze(proxies[1], false);
    quorum_destroy(q);
    hlk_client_close(client);
}

/* --- masters that refuse --- */

static void forbid(int i, const char *scripts)
{
    (void)raw(views[i], "ACL SETUSER default %sevalsha %seval", scripts, scripts);
}

/* The third one, which is silent, could not make it a majority. */
Test(quorum_release, that_two_of_three_refuse_is_said_at_once)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 60000;
    hlk_quorum *q = held(quorum_open(3, &opts), NULL);
    WAIT_FOR(quorum_keys("t") == 3);
    proxy_freeze(proxies[2], true);
    forbid(0, "-");
    forbid(1, "-");
    int64_t before_ms = hlk_now_ms();
    cr_assert_eq(hlk_quorum_release(q), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert_lt(hlk_now_ms() - before_ms, 30000);
    forbid(0, "+");
    forbid(1, "+");
    proxy_freeze(proxies[2], false);
    (void)raw(views[0], "DEL t");
    (void)raw(views[1], "DEL t");
    WAIT_FOR(quorum_keys("t") == 0);
}

/* Too few replicas, say, which may pass: it is repeated, and what is known is the refusal. */
Test(quorum_release, that_most_masters_refuse_for_now_is_their_refusal)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 1000;
    hlk_quorum *q = held(quorum_open(3, &opts), NULL);
    WAIT_FOR(quorum_keys("t") == 3);
    for (int i = 0; i < 2; i++)
        (void)raw(views[i], "CONFIG SET min-replicas-to-write 1");
    cr_assert_eq(hlk_quorum_release(q), HLK_E_SERVER, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "NOREPLICAS"), "%s", hlk_last_error());
    for (int i = 0; i < 2; i++)
        (void)raw(views[i], "CONFIG SET min-replicas-to-write 0");
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- masters that answer late --- */

/* The masters have run it, and their answers wait: a try that got no majority is taken back there too. */
static void gives_back(enum proxy_fault fault)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.node_timeout_ms = 100;
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", &opts);
    for (int i = 0; i < MAJORITY; i++)
        proxy_arm(proxies[i], fault, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CONNECT, "%s", hlk_last_error());
    for (int i = 0; i < MAJORITY; i++) {
        proxy_wait_struck(proxies[i]);
        proxy_deliver(proxies[i], false);
    }
    WAIT_FOR(quorum_keys("t") == 0);
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_release, frees_masters_that_answered_late)
{
    gives_back(PROXY_HOLD_REPLY);
}

Test(quorum_release, frees_masters_that_were_asked_late)
{
    gives_back(PROXY_HOLD);
}

Test(quorum_release, frees_masters_cut_off_before_they_answered)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.node_timeout_ms = 2000;
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", &opts);
    for (int i = 0; i < MAJORITY; i++)
        proxy_arm(proxies[i], PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CONNECT, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_release, by_a_majority_frees_the_late_minority_too)
{
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", NULL);
    proxy_arm(proxies[4], PROXY_HOLD, PROXY_SCRIPTS, 1);
    proxy_arm(proxies[3], PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    proxy_deliver(proxies[4], false);
    proxy_deliver(proxies[3], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- masters that are away */

/* A master has the hold for as long as it was extended. It comes back when the first ttl is over. */
Test(quorum_release, is_repeated_for_as_long_as_an_extension_may_last)
{
    enum { TTL_MS = 1000, EXTENDED_MS = 600000 };
    struct hlk_quorum_opts opts = quorum_opts();
    opts.ttl_ms = TTL_MS;
    opts.node_timeout_ms = TTL_MS / 2; /* 50 ms are too short on a busy machine */
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    cr_assert_eq(hlk_quorum_extend(q, EXTENDED_MS), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_pttl(views[0], "t") > EXTENDED_MS / 2);
    proxy_refuse(proxies[0], true);
    proxy_cut_all(proxies[0]);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    int64_t released = test_now_ms();
    WAIT_FOR(test_now_ms() > released + 2 * TTL_MS);
    cr_assert_eq(quorum_keys("t"), 1u);
    proxy_refuse(proxies[0], false);
    WAIT_FOR(quorum_keys("t") == 0);
}
