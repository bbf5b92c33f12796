/* The server is stopped, dies, comes back with and without its data, loses its scripts, disconnects clients, is full,
 * or has a new password: what holders and waiters get, and what is left.
 *
 * asks A2 bsm 83: an unknown outcome is asked again until the local deadline only. A3 redisson 4698, 3636: the holder
 * is told before anybody else can have the lock. A4 redisson 3.48: SCRIPT FLUSH between any two calls is invisible. A4
 * redis-py 3847: a failed release stays releasable. A9 node-redlock 309: the release of a known-lost lock waits for no
 * I/O. A1 redisson 3.19: CLIENT KILL TYPE pubsub during waits. A10 hiredis 946: reconnects by itself. (c) Kleppmann,
 * Redis docs: the restart of a server without its data. */
#include "fixture.h"

#include "support/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    fault_up(0);
}

static void start_durable(void)
{
    fault_up(SERVER_AOF);
}

static void start_open(void)
{
    fault_up(SERVER_NOACL);
}

TestSuite(server, .init = start, .fini = fixture_end, .timeout = 90);
TestSuite(server_durable, .init = start_durable, .fini = fixture_end, .timeout = 90);
TestSuite(server_rights, .init = start_open, .fini = fixture_end, .timeout = 90);

enum { LONG_MS = 3000 }; /* a lease that outlives a short fault and a busy machine */

static hlk_client *open_with(int64_t watchdog_ms, int64_t reconnect_timeout_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = watchdog_ms;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    return fixture_open(&opts);
}

static hlk_lock *held(hlk_client *client, const char *name)
{
    hlk_lock *lock = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    return lock;
}

static void assert_works(hlk_client *client, const char *name)
{
    hlk_lock *lock = held(client, name);
    cr_assert_null(disagreement(lock, name, 1));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_free(name));
}

/* Known to be lost: every call returns LOST without waiting for the server. */
static void assert_lost(hlk_lock *lock)
{
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_lt(running_ms(began), REPLY_MS);
}

/* --- is stopped */

Test(server, that_stands_still_within_the_lease_costs_no_hold)
{
    hlk_lock *lock = held(open_with(LONG_MS, RECONNECT_MS), "t");
    server_pause(fixture.server);
    fixture_wait_event(HLK_EVENT_AT_RISK, "t");
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    server_resume(fixture.server);
    fixture_wait_event(HLK_EVENT_SAFE, "t");
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* Shows: S15 */
Test(server, that_stands_still_past_the_lease_is_told_as_a_loss)
{
    hlk_client *client = open_with(LEASE_MS, RECONNECT_MS);
    hlk_lock *lock = held(client, "t"), *second = held(client, "t2");
    int fd = hlk_lock_lost_fd(lock);
    cr_assert_geq(fd, 0);
    server_pause(fixture.server);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    fixture_wait_event(HLK_EVENT_LOST, "t2");
    cr_assert_eq(fixture_events(HLK_EVENT_AT_RISK, "t"), 1u);
    cr_assert_leq(lost.held_until_at_ms, hlk_now_ms());
    assert_lost(lock);
    assert_lost(second);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 1u);
    server_resume(fixture.server);
    WITHIN(FREE_MS, is_free("t") && is_free("t2"));
    assert_works(client, "t");
}

Test(server, that_stands_still_holds_nobody_beyond_a_deadline)
{
    hlk_client *client = open_with(LEASE_MS, RECONNECT_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    const int64_t waits[] = { HLK_NOWAIT, 1, 400, 1000 };
    server_pause(fixture.server);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        int64_t began = test_now_ms();
        enum hlk_status status = hlk_lock_acquire(lock, waits[i]);
        int64_t took = test_now_ms() - began;
        cr_assert(NOT_GOT(status), "%s", hlk_status_name(status));
        cr_assert_eq(hlk_lock_holds(lock), 0);
        cr_assert_geq(took, waits[i], "never early");
        cr_assert_lt(running_ms(began), waits[i] + REPLY_MS + 500, "%d ms", (int)took);
    }
    server_resume(fixture.server);
    WITHIN(FREE_MS, is_free("t"));
    assert_works(client, "t");
}

/* A try of a nested hold does not wait longer either. */
Test(server, that_stands_still_holds_no_nested_try_for_long)
{
    hlk_client *client = open_with(LEASE_MS, RECONNECT_MS);
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    fixed.wait_ms = HLK_NOWAIT;
    fixed.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    server_pause(fixture.server);
    int64_t began = test_now_ms();
    enum hlk_status status = hlk_lock_acquire_with(lock, &fixed);
    int64_t took = test_now_ms() - began;
    cr_assert(NOT_GOT(status), "%s", hlk_status_name(status));
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_lt(running_ms(began), 2 * REPLY_MS + 500, "%d ms", (int)took);
    server_resume(fixture.server);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- dies */

/* (c): it cannot be prevented, but is reported with the next renewal at the latest: the lock is lost with the data. */
/* Shows: S5 */
Test(server, that_comes_back_empty_is_told_as_a_loss_at_renewal)
{
    enum { SLOW_MS = 6000 };
    hlk_client *client = open_with(SLOW_MS, RECONNECT_MS);
    hlk_lock *lock = held(client, "t");
    int64_t began = test_now_ms(), until = hlk_lock_held_until(lock);
    fixture_restart(NULL, false);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(lost.reported_at_ms - began, SLOW_MS / 2);
    cr_assert_lt(lost.reported_at_ms, until);
    cr_assert_leq(lost.held_until_at_ms, lost.reported_at_ms, "nothing is left of it");
    cr_assert_not_null(strstr(lost.why, "unknown to the server"), "%s", lost.why);
    cr_assert(is_free("t"), "a renewal must not create it");
    assert_lost(lock);
    assert_works(client, "t");
}

Test(server, that_comes_back_empty_lets_waiters_have_the_lock)
{
    hlk_client *holder = open_with(LONG_MS, RECONNECT_MS), *client = open_with(LONG_MS, RECONNECT_MS);
    hlk_lock *theirs = held(holder, "t");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    fixture_restart(NULL, false);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(theirs), HLK_LOST);
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 1);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(server_durable, that_comes_back_with_its_data_has_kept_the_hold)
{
    hlk_client *client = open_with(6000, RECONNECT_MS);
    hlk_lock *lock = held(client, "t");
    uint64_t renewals = fixture_counters(client).renewals;
    fixture_restart(NULL, true);
    WAIT_FOR(fixture_counters(client).renewals > renewals); /* verified without a call of the application */
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_free("t"));
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_geq(fixture_counters(client).reconnects, 1u);
}

Test(server_durable, that_comes_back_with_its_data_still_wakes_waiters)
{
    hlk_client *holder = open_with(30000, RECONNECT_MS), *client = open_with(30000, RECONNECT_MS);
    hlk_lock *theirs = held(holder, "t");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    uint64_t renewals = fixture_counters(holder).renewals;
    fixture_restart(NULL, true);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1 && fixture_counters(holder).renewals > renewals);
    cr_assert_not(actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* asks A4 redis-py 3847: the release is repeated in the background, and releasing again returns the outcome. */
Test(server_durable, that_dies_before_a_release_gets_it_when_it_is_back)
{
    for (int asks = 0; asks < 2; asks++) {
        hlk_client *client = open_with(30000, 300);
        hlk_lock *lock = held(client, "t");
        redisFree(fixture.redis);
        server_kill(fixture.server);
        enum hlk_status status = hlk_lock_release(lock);
        cr_assert(UNKNOWN(status), "%s", hlk_status_name(status));
        cr_assert_eq(hlk_lock_left_ms(lock), 0);
        server_restart(fixture.server, true);
        fixture.redis = raw_open(fixture.server);
        if (asks) {
            WAIT_FOR((status = hlk_lock_release(lock), !UNKNOWN(status)));
            cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        }
        WITHIN(FREE_MS, is_free("t"));
        fixture_close(client);
    }
}

Test(server, that_stays_away_ends_waits_at_reconnect_timeout)
{
    enum { PATIENT_MS = 700 };
    hlk_client *client = open_with(30000, PATIENT_MS), *stubborn = open_with(30000, -1);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct actor *waiter = actor_start(lock, NULL), *timed = actor_start_wait(lock, 400);
    struct actor *rider = actor_start(fixture_lock(stubborn, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 2);
    redisFree(fixture.redis);
    int64_t began = test_now_ms();
    server_kill(fixture.server);
    cr_assert_eq(actor_status(timed), HLK_TIMEOUT, "%s", actor_error(timed));
    cr_assert_geq(actor_took_ms(timed), 400);
    cr_assert_eq(actor_status(waiter), HLK_E_CONNECT, "%s", actor_error(waiter));
    cr_assert_geq(actor_answered_at_ms(waiter) - began, PATIENT_MS);
    cr_assert_lt(running_between_ms(began, actor_answered_at_ms(waiter)), PATIENT_MS + 2000);
    actor_end(timed);
    actor_end(waiter);
    cr_assert_not(actor_answered(rider));
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    cr_assert_eq(actor_status(rider), HLK_OK, "%s", actor_error(rider));
    cr_assert_eq(actor_end(rider), HLK_OK);
    assert_works(client, "t");
}

/* --- loses its scripts */

static void *flush_scripts(void *stop)
{
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load((atomic_bool *)stop))
        raw(redis, "SCRIPT FLUSH");
    redisFree(redis);
    return NULL;
}

/* asks A4 redisson 3.48: between any two calls, and within each */
Test(server, that_keeps_forgetting_its_scripts_is_not_noticed)
{
    atomic_bool stop = false;
    pthread_t flusher;
    cr_assert_eq(pthread_create(&flusher, NULL, flush_scripts, &stop), 0);
    hlk_client *client = open_with(LONG_MS, RECONNECT_MS), *other = open_with(LONG_MS, RECONNECT_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL),
             *kept = held(client, "t-kept");
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    fixed.lease_ms = 60000;
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, i % 2 ? HLK_NOWAIT : 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_extend(lock, 70000), HLK_OK, "%s", hlk_last_error());
        struct actor *waiter = i % 10 ? NULL : actor_start(theirs, NULL);
        if (waiter)
            WAIT_FOR_WAITERS(other, 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        if (waiter)
            cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals > renewals);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
    atomic_store(&stop, true);
    pthread_join(flusher, NULL);
}

/* --- disconnects its clients */

struct contest {
    struct history *history;
    hlk_lock *lock;
    atomic_bool *stop;
    pthread_t thread;
    int who;
};

static void *compete(void *arg)
{
    struct contest *c = arg;
    while (!atomic_load(c->stop)) {
        enum hlk_status status = hlk_lock_acquire(c->lock, HLK_FOREVER);
        if (status != HLK_OK)
            test_give_up("thread %d: %s", c->who, hlk_last_error());
        struct hold *hold = history_acquired(c->history, c->who, 0, hlk_lock_held_until(c->lock));
        history_released(hold);
        while (status = hlk_lock_release(c->lock), UNKNOWN(status))
            ;
        if (status != HLK_OK)
            test_give_up("thread %d: %s", c->who, hlk_last_error());
    }
    return NULL;
}

/* Holds last 30 s. None may be lost, and all waits end by message. */
static void thrown_out(const char *type)
{
    enum { CLIENTS = 2, THREADS = 6, ROUNDS = 150 };
    struct contest all[THREADS];
    atomic_bool stop = false;
    struct history *history = history_create(1 << 20);
    hlk_client *clients[CLIENTS] = { open_with(30000, -1), open_with(30000, -1) };
    for (int i = 0; i < THREADS; i++) {
        all[i] = (struct contest){ .history = history, .stop = &stop, .who = i };
        all[i].lock = fixture_lock(clients[i % CLIENTS], "t", NULL);
        cr_assert_eq(pthread_create(&all[i].thread, NULL, compete, &all[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t count = history_count(history);
        WAIT_FOR(history_count(history) > count + 20); /* so it continues after each */
        raw(fixture.redis, "CLIENT KILL TYPE %s SKIPME yes", type);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i].thread, NULL);
    cr_assert(history_check(history));
    struct history_share share = history_shares(history, 0, THREADS);
    cr_assert_gt(share.min, 0u);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(fixture_counters(clients[0]).woken_by_ttl + fixture_counters(clients[1]).woken_by_ttl, 0u);
    cr_assert(is_free("t"));
    history_destroy(history);
}

Test(server, that_keeps_evicting_clients_loses_no_hold_or_wait)
{
    thrown_out("normal");
}

/* asks A1 redisson 3.19 */
Test(server, that_keeps_evicting_subscribers_loses_no_wake_up)
{
    thrown_out("pubsub");
}

/* --- is full */

/* Shows: S30 */
Test(server, that_is_full_refuses_acquires_but_frees_and_renews)
{
    hlk_client *client = open_with(LEASE_MS, 600), *other = open_with(LONG_MS, RECONNECT_MS);
    hlk_lock *lock = held(client, "t"), *second = fixture_lock(client, "t2", NULL);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "OOM"), "%s", hlk_last_error());
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(second, HLK_FOREVER), HLK_E_SERVER, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 600, "a wait rides it out for reconnect_timeout_ms");
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "what is passed on needs no memory: %s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert(is_free("t"));
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    assert_works(client, "t2");
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* --- has a new password */

Test(server_rights, with_a_new_password_refuses_new_connections_only)
{
    hlk_client *client = open_with(LEASE_MS, RECONNECT_MS);
    hlk_lock *lock = held(client, "t"), *second = fixture_lock(client, "t2", NULL);
    struct actor *waiter;
    raw(fixture.redis, "CONFIG SET requirepass another");
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 2);
    assert_works(client, "t2");
    raw(fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
    WAIT_FOR(hlk_lock_acquire(second, HLK_NOWAIT) == HLK_E_AUTH);
    int64_t began = test_now_ms();
    waiter = actor_start(second, NULL);
    cr_assert_eq(actor_status(waiter), HLK_E_AUTH, "waiting does not cure it: %s", actor_error(waiter));
    cr_assert_lt(running_ms(began), RECONNECT_MS);
    actor_end(waiter);
    struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, "t"),
                         lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(risk.reported_at_ms, lost.reported_at_ms);
    assert_lost(lock);
    WITHIN(FREE_MS, is_free("t"));
    raw(fixture.redis, "CONFIG SET requirepass %s", "");
    enum hlk_status status;
    WAIT_FOR((status = hlk_lock_acquire(lock, HLK_NOWAIT), status != HLK_E_AUTH && !NOT_GOT(status)));
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* The user is removed and restored within a lease: at most at risk is reported. */
Test(server_rights, that_drops_the_user_for_a_moment_costs_no_hold)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.username = "visitor";
    opts.password = "one";
    raw(fixture.redis, "ACL SETUSER visitor on >one ~* &* +@all");
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = held(client, "t");
    raw(fixture.redis, "ACL DELUSER visitor");
    WAIT_FOR(hlk_lock_acquire(fixture_lock(client, "t2", NULL), HLK_NOWAIT) == HLK_E_AUTH);
    raw(fixture.redis, "ACL SETUSER visitor on >one ~* &* +@all");
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals > renewals); /* verified after the reconnect */
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}
