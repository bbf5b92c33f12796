/* Completions in the caller's own loop: its descriptor, its batches, and what continues while it does not dispatch. */
#include "integration/async_fixture.h"

static void start(void)
{
    fixture_begin(0);
}

TestSuite(dispatch, .init = start, .fini = fixture_end, .timeout = 90);

Test(dispatch, descriptor_is_level_triggered_and_quiet_when_idle)
{
    static struct done done;
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct pollfd set = { hlk_client_fd(client), POLLIN, 0 };
    cr_assert_geq(set.fd, 0);
    cr_assert_eq(poll(&set, 1, 0), 0);
    acquire(lock, HLK_FOREVER, NULL, &done);
    cr_assert_eq(poll(&set, 1, WAIT_MS), 1);
    cr_assert_eq(poll(&set, 1, 0), 1, "still");
    cr_assert_eq(result(&done), HLK_OK);
    while (hlk_client_dispatch(client, 0) > 0)
        ;
    cr_assert_eq(poll(&set, 1, 0), 0, "quiet again");
    release(lock, NULL);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
    hlk_owner_destroy(owner);
}

Test(dispatch, runs_no_more_completions_than_asked_for)
{
    enum { CALLS = 10 };
    static struct done done[CALLS];
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    for (int i = 0; i < CALLS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        done[i].release = true;
        acquire(fixture_owned(client, name, owner), HLK_FOREVER, NULL, &done[i]);
    }
    int ran = 0;
    for (int64_t end = test_now_ms() + WAIT_MS; ran < CALLS && test_now_ms() < end;) {
        struct pollfd set = { hlk_client_fd(client), POLLIN, 0 };
        poll(&set, 1, 100);
        int now = hlk_client_dispatch(client, 3);
        cr_assert_leq(now, 3);
        ran += now;
    }
    cr_assert_eq(ran, CALLS);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

/* Makes the server know the scripts, also that of batches: each one is sent in full at its second use. */
static void warm_up(hlk_client *client, hlk_lock *lock, hlk_lock *other)
{
    uint64_t before, used;
    do {
        struct done held[2] = { { .runs = 0 } }, freed[2] = { { .runs = 0 } };
        before = fixture_counters(client).commands;
        acquire(lock, HLK_FOREVER, NULL, &held[0]);
        acquire(other, HLK_FOREVER, NULL, &held[1]);
        cr_assert(result(&held[0]) == HLK_OK && result(&held[1]) == HLK_OK);
        used = fixture_counters(client).commands - before;
        release(lock, &freed[0]);
        release(other, &freed[1]);
        cr_assert(result(&freed[0]) == HLK_OK && result(&freed[1]) == HLK_OK);
    } while (used > 1);
}

enum { BATCH = 64 };

/* What was sent for it: up to 16 acquires are one command. */
static struct hlk_counters acquire_batch(hlk_client *client, hlk_lock *locks[BATCH])
{
    static struct done held[BATCH], freed[BATCH];
    memset(held, 0, sizeof held);
    memset(freed, 0, sizeof freed);
    struct hlk_counters before = fixture_counters(client);
    for (int i = 0; i < BATCH; i++)
        acquire(locks[i], HLK_FOREVER, NULL, &held[i]);
    for (int i = 0; i < BATCH; i++)
        cr_assert_eq(result(&held[i]), HLK_OK);
    struct hlk_counters sent = fixture_counters(client);
    sent.writes -= before.writes;
    sent.commands -= before.commands;
    for (int i = 0; i < BATCH; i++)
        release(locks[i], &freed[i]);
    for (int i = 0; i < BATCH; i++)
        cr_assert_eq(result(&freed[i]), HLK_OK);
    return sent;
}

/* async.h: a batch that is made before the next dispatch is sent in one write. But what waits when the library's own
 * loop ticks is sent by that tick, so batches are made until no tick was in between. */
Test(dispatch, sends_a_batch_in_one_write)
{
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *locks[BATCH];
    struct hlk_counters sent;
    for (int i = 0; i < BATCH; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = fixture_owned(client, name, owner);
    }
    warm_up(client, locks[0], locks[1]);
    int64_t give_up = test_now_ms() + WAIT_MS;
    do
        sent = acquire_batch(client, locks);
    while (sent.writes > 1 && test_now_ms() < give_up);
    cr_assert_eq(sent.writes, 1u);
    cr_assert_eq(sent.commands, BATCH / 16u);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

/* async.h: the holder's next acquire is sent after the release. The queue has another client's tombstone, so the
 * release cannot run in a batch and is sent again. */
Test(dispatch, a_try_behind_a_release_in_a_batch_has_the_lock)
{
    static struct done held[2], freed[2], again;
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner), *other = fixture_owned(client, "t2", owner);
    acquire(lock, HLK_FOREVER, NULL, &held[0]);
    acquire(other, HLK_FOREVER, NULL, &held[1]);
    cr_assert(result(&held[0]) == HLK_OK && result(&held[1]) == HLK_OK);
    raw(fixture.redis, "ZADD hasplock_queue:{t} 2000000000001000 hlk-a-1-x:1");
    server_pause(fixture.server);
    uint64_t writes = fixture_counters(client).writes;
    release(other, &freed[0]);
    release(lock, &freed[1]);
    LOOP_UNTIL(fixture_counters(client).writes > writes);
    writes = fixture_counters(client).writes;
    acquire(lock, 0, NULL, &again);
    LOOP_UNTIL(fixture_counters(client).writes > writes);
    server_resume(fixture.server);
    cr_assert_eq(result(&again), HLK_OK, "%s", again.error);
    release(lock, NULL);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
    hlk_owner_destroy(owner);
}

/* async.h: deadlines are kept without dispatch; the completion runs at the next dispatch. A grant after the deadline is
 * handed back. */
Test(dispatch, keeps_deadlines_of_waits_while_nobody_dispatches)
{
    static struct done done;
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    acquire(lock, 200, NULL, &done);
    LOOP_UNTIL(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0); /* it timed out without a dispatch */
    cr_assert_eq(atomic_load(&done.runs), 0);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(result(&done), HLK_TIMEOUT);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    hlk_owner_destroy(owner);
}

/* async.h: pending completions run in hlk_client_close; acquired locks are released */
Test(dispatch, close_runs_what_is_pending_in_its_own_thread)
{
    static struct done got, waits;
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    raw(fixture.redis, "HSET t2 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    acquire(fixture_owned(client, "t", owner), HLK_FOREVER, NULL, &got);
    acquire(fixture_owned(client, "t2", owner), HLK_FOREVER, NULL, &waits);
    WAIT_FOR(fixture_counters(client).acquired == 1 && raw_listeners(fixture.redis, "t2") == 1);
    cr_assert_eq(atomic_load(&got.runs) + atomic_load(&waits.runs), 0);
    fixture_close(client);
    cr_assert_eq(atomic_load(&got.runs), 1);
    cr_assert_eq(atomic_load(&waits.runs), 1);
    cr_assert(pthread_equal(got.thread, pthread_self()) && pthread_equal(waits.thread, pthread_self()));
    cr_assert_eq(got.status, HLK_OK);
    cr_assert_eq(waits.status, HLK_E_CLOSED);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    raw(fixture.redis, "DEL t2");
    hlk_owner_destroy(owner);
}

Test(dispatch, can_be_driven_beside_calls_that_block)
{
    enum { CALLS = 50 };
    static struct done done[CALLS];
    hlk_client *client = open_for(true);
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct actor *actors[CALLS];
    for (int i = 0; i < CALLS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i % 5);
        done[i].release = true;
        actors[i] = actor_start_wait(fixture_lock(client, "t-blocking", NULL), HLK_NOWAIT);
        acquire(fixture_owned(client, name, owner), HLK_FOREVER, NULL, &done[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(result(&done[i]), HLK_OK);
        enum hlk_status status = actor_status(actors[i]);
        cr_assert(status == HLK_OK || status == HLK_BUSY);
        actor_end(actors[i]);
    }
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}
