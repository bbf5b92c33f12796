/* A name behind which there is another server from now on. The old one has become a replica and keeps its
 * connections. */
#include "fixture.h"

#include <string.h>

static struct server *other;
static redisContext *redis; /* administrator's connection to the other server */

static void start(void)
{
    fault_up(STAGE_PROXY);
    other = server_start(0, NULL);
    redis = raw_open(other);
}

static void stop(void)
{
    raw(fixture.redis, "REPLICAOF NO ONE");
    raw(fixture.redis, "FLUSHALL");
    fixture_end();
    redisFree(redis);
    server_finish(other);
}

TestSuite(moved, .init = start, .fini = stop, .timeout = 60);

/* No connection is closed. New connections go to the other server. */
static void fail_over(void)
{
    proxy_move(fixture.proxy, other);
    raw(fixture.redis, "REPLICAOF 127.0.0.1 1");
}

static hlk_client *open_patient(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.reconnect_timeout_ms = 20000;
    opts.reply_timeout_ms = 5000;
    return fixture_open(&opts);
}

static bool has(const char *name)
{
    return raw_int(redis, "EXISTS %s", name) == 1;
}

/* Shows: P16, S10 */
Test(moved, an_acquire_follows_to_the_server_that_takes_writes)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    fail_over();
    cr_assert_eq(hlk_lock_acquire(lock, 10000), HLK_OK, "%s", hlk_last_error());
    cr_assert(has("t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S8 */
Test(moved, a_release_follows_and_a_renewal_does)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL), *kept = fixture_lock(client, "tk", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(redis, "HSET tk %s 1", hold_of(kept)); /* as if replicated before the failover */
    raw(redis, "HSET t %s 1", hold_of(lock));
    raw(redis, "PEXPIRE tk %d", LEASE_MS);
    raw(redis, "PEXPIRE t %d", LEASE_MS);
    fail_over();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_not(has("t"));
    WAIT_FOR(fixture_counters(client).renewals > 0);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK, "%s", hlk_last_error());
    cr_assert_not(has("tk"));
}

/* Shows: S10 */
Test(moved, only_a_renewal_was_refused)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(redis, "HSET t %s 1", hold_of(lock));
    raw(redis, "PEXPIRE t %d", 10 * LEASE_MS);
    fail_over();
    WAIT_FOR(fixture_counters(client).reconnects == 1);
    uint64_t renewed = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals > renewed);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S8, S10 */
Test(moved, a_hold_that_was_not_replicated_is_told_lost)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    fail_over();
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_not_null(strstr(lost.why, "unknown to the server"), "%s", lost.why);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

static hlk_lock *held_there(const char *name)
{
    hlk_lock *lock = fixture_lock(fixture_open_at(hlk_test_url(other), NULL), name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return lock;
}

/* Shows: P16 */
Test(moved, the_subscriber_follows_and_a_waiter_gets_the_lock)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL), *asks = fixture_lock(client, "ta", NULL);
    raw(fixture.redis, "HSET t hlk-of-the-old-one:1 1");
    raw(fixture.redis, "PEXPIRE t 60000");
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    fail_over();
    hlk_lock *same = held_there("t");
    cr_assert_eq(hlk_lock_acquire(asks, 10000), HLK_OK, "%s", hlk_last_error()); /* the first command finds it out */
    cr_assert_eq(hlk_lock_release(asks), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_inboxes(redis) == 1 && raw_int(redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_eq(hlk_lock_release(same), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0, "not by a message");
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(moved, a_lasting_replica_is_not_dialled_all_the_time)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "REPLICAOF 127.0.0.1 1");
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, 2000), HLK_E_SERVER, "%s", hlk_last_error());
    uint64_t most = (uint64_t)(test_now_ms() - began) / 500;
    cr_assert_not_null(strstr(hlk_last_error(), "READONLY"), "%s", hlk_last_error());
    cr_assert_leq(fixture_counters(client).reconnects, most);
    cr_assert_geq(fixture_counters(client).reconnects, 1);
}
