/* test_string_peers.c - HLK_LOCK_STRING and other libraries' locks of the same name: redis-py's Lock and bsm/redislock.
 * HASPLOCK_STRING_PEER runs the peer (string.sh). */
/* Shows: P40 */
#include "line_peer.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 60 };

static hlk_client *clients[2];

static hlk_lock *ours(int client)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    return fixture_lock(clients[client], "t", &opts);
}

static void start(void)
{
    char command[4096];
    fixture_begin(SERVER_TCP | SERVER_NOACL);
    for (int i = 0; i < 2; i++)
        clients[i] = fixture_open(NULL);
    snprintf(command, sizeof command, "%s 127.0.0.1:%d", getenv("HASPLOCK_STRING_PEER"), fixture.server->port);
    line_peer_start(command);
}

/* fixture_end fails the test if a key is left. */
static void finish(void)
{
    line_peer_end();
    fixture_end();
}

TestSuite(string_peers, .init = start, .fini = finish, .timeout = 90);

#define PEER(command, answer) cr_assert_str_eq(line_peer_ask(command), answer)

/* How often SET has run: each attempt of a peer is one. */
static int64_t attempts(void)
{
    return raw_calls(fixture.redis, "set");
}

Test(string_peers, we_exclude_them)
{
    hlk_lock *lock = ours(0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "busy");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "busy");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    PEER("acquire t 20000", "ok");
    PEER("release", "ok");
}

Test(string_peers, they_exclude_us)
{
    hlk_lock *lock = ours(0);
    PEER("acquire t 20000", "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, 300), HLK_TIMEOUT, "%s", hlk_last_error());
    PEER("extend 60000", "ok");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 50000);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    PEER("release", "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* The first of our waiters polls, and hands the lock over to the second. */
Test(string_peers, we_wait_for_them)
{
    PEER("acquire t 20000", "ok");
    struct actor *first = actor_start(ours(0), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    struct actor *second = actor_start(ours(1), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 2);
    PEER("release", "ok");
    int64_t before = test_now_ms();
    cr_assert_eq(actor_status(first), HLK_OK, "%s", actor_error(first));
    cr_assert_lt(test_now_ms() - before, 4000);
    PEER("acquire t 20000", "busy");
    cr_assert_not(actor_answered(second));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(actor_status(second), HLK_OK, "%s", actor_error(second));
    cr_assert_eq(fixture_counters(clients[1]).granted, 1u);
    PEER("acquire t 20000", "busy");
    cr_assert_eq(actor_end(second), HLK_OK);
    PEER("acquire t 20000", "ok");
    PEER("release", "ok");
}

Test(string_peers, they_wait_for_us)
{
    hlk_lock *lock = ours(0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    int64_t before = attempts();
    line_peer_tell("wait t 20000");
    WAIT_FOR(attempts() >= before + 3);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(line_peer_answer(), "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    PEER("release", "ok");
}

Test(string_peers, a_hold_of_theirs_runs_out_and_is_not_released_late)
{
    hlk_lock *lock = ours(0);
    int64_t began = test_now_ms();
    PEER("acquire t 500", "ok");
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 490);
    PEER("release", "no");
    PEER("acquire t 500", "busy");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(string_peers, a_hold_of_ours_runs_out_and_is_not_released_late)
{
    hlk_lock *lock = ours(0);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 500;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
    PEER("wait t 20000", "ok");
    cr_assert_eq(hlk_lock_left_ms(lock), 0, "ours was over first");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    PEER("extend 20000", "ok");
    PEER("release", "ok");
}

Test(string_peers, a_hold_of_theirs_is_shown_and_broken)
{
    hlk_lock *lock = ours(0);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    PEER("acquire t 20000", "ok");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert(state.held && !state.mine && state.ttl_ms > 10000 && state.ttl_ms <= 20000);
    cr_assert_geq(strlen(state.holder), 16u);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    PEER("extend 60000", "no");
    PEER("release", "no");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- mixed contention: a key counts who is inside, as in the peers' command `rounds` */

static void *compete(void *arg)
{
    hlk_lock *lock = arg;
    redisContext *redis = raw_open(fixture.server);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 3 * WAIT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(raw_int(redis, "INCR t:inside"), 1);
        raw(redis, "DECR t:inside");
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    redisFree(redis);
    return NULL;
}

Test(string_peers, of_many_one_holds_at_a_time)
{
    pthread_t threads[THREADS];
    char command[64];
    snprintf(command, sizeof command, "rounds t %d", ROUNDS);
    line_peer_tell(command);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, compete, ours(i % 2));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_str_eq(line_peer_answer(), "ok");
    cr_assert_eq(raw_int(fixture.redis, "GET t:inside"), 0);
    raw(fixture.redis, "DEL t:inside");
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}
