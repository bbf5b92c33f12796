/* Async calls when the server refuses or is late, or when close ends them. In both modes. */
#include "async_fixture.h"

static void start(void)
{
    fixture_begin(STAGE_PROXY);
}

TestSuite(async_faults_events, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(async_faults_dispatch, .init = start, .fini = fixture_end, .timeout = 60);

#define BOTH(name) IN_BOTH_MODES(async_faults_events, async_faults_dispatch, name)

/* async.h: each completes once, also one that pauses between two commands while the client is closed */
BOTH(that_pauses_after_a_refusal_is_completed_by_close)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    acquire(lock, HLK_FOREVER, NULL, &done);
    LOOP_UNTIL(fixture_counters(client).commands >= 3); /* refused, and sent again */
    fixture_close(client);
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    cr_assert_eq(atomic_load(&done.runs), 1);
    cr_assert_eq(done.status, HLK_E_CLOSED, "%s", done.error);
    hlk_owner_destroy(owner);
}

static void nest(hlk_lock *lock, int64_t lease_ms, int64_t wait_ms, struct done *done)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    opts.wait_ms = wait_ms;
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, done), HLK_OK, "%s", hlk_last_error());
}

BOTH(that_raises_a_lease_ends_with_its_wait)
{
    static struct done first, nested;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    acquire(lock, HLK_NOWAIT, NULL, &first);
    cr_assert_eq(result(&first), HLK_OK);
    proxy_delay(fixture.proxy, 0, 1500);
    int64_t began = test_now_ms();
    nest(lock, 60000, 200, &nested);
    cr_assert_eq(result(&nested), HLK_TIMEOUT, "%s", nested.error);
    cr_assert_lt(running_ms(began), 1200);
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
}

BOTH(a_raise_answered_after_the_loss_is_lost)
{
    static struct done first, nested;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    nest(lock, 1000, HLK_NOWAIT, &first);
    cr_assert_eq(result(&first), HLK_OK);
    proxy_delay(fixture.proxy, 0, 1200); /* the server runs it at once, the reply is late */
    nest(lock, 10000, HLK_FOREVER, &nested);
    cr_assert_eq(result(&nested), HLK_LOST, "%s", nested.error);
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    hlk_owner_destroy(owner);
}

/* As nested.raise_in_doubt_of_a_lost_hold_leaves_nothing_held, with completions. */
BOTH(raise_in_doubt_of_a_lost_hold_leaves_nothing_held)
{
    static struct done first, nested;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    nest(lock, 1000, HLK_NOWAIT, &first);
    cr_assert_eq(result(&first), HLK_OK);
    cr_assert_eq(hlk_lock_extend(lock, 100), HLK_OK); /* may have to send the script in full */
    proxy_refuse(fixture.proxy, true);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    nest(lock, 3600000, HLK_FOREVER, &nested);
    proxy_wait_struck(fixture.proxy);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    test_sleep_ms(1500); /* the earlier lease is over */
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 3000000);
    proxy_refuse(fixture.proxy, false);
    cr_assert_neq(result(&nested), HLK_OK);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    hlk_owner_destroy(owner);
}

static void close_it(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock, (void)status;
    hlk_client_close(loop_client);
    atomic_store((atomic_int *)ctx, 1);
}

/* client.h: close from a callback does nothing */
BOTH(whose_completion_closes_the_client_leaves_it_open)
{
    static atomic_int closed;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, close_it, &closed), HLK_OK);
    LOOP_UNTIL(atomic_load(&closed));
    WAIT_FOR(fixture_logged("called from a callback"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
}
