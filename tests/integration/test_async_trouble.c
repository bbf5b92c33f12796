/* Async calls whose server refuses, is late or is given up by close. In both modes. */
#include "async.h"

static void start(void)
{
    stage_up(STAGE_PROXY);
}

TestSuite(async_trouble_events, .init = start, .fini = stage_down, .timeout = 60);
TestSuite(async_trouble_dispatch, .init = start, .fini = stage_down, .timeout = 60);

#define BOTH(name) IN_BOTH_MODES(async_trouble_events, async_trouble_dispatch, name)

/* async.h: each completes, once; also one that pauses between two questions when the client is closed */
BOTH(that_pauses_after_a_refusal_is_completed_by_close)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = stage_owned(client, "t", owner);
    raw(stage.redis, "CONFIG SET maxmemory 1");
    acquire(lock, HLK_FOREVER, NULL, &done);
    LOOP_UNTIL(stage_counters(client).commands >= 3); /* refused, and asked again */
    stage_close(client);
    raw(stage.redis, "CONFIG SET maxmemory 0");
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
    hlk_lock *lock = stage_owned(client, "t", owner);
    acquire(lock, HLK_NOWAIT, NULL, &first);
    cr_assert_eq(result(&first), HLK_OK);
    proxy_delay(stage.proxy, 0, 1500);
    int64_t began = test_now_ms();
    nest(lock, 60000, 200, &nested);
    cr_assert_eq(result(&nested), HLK_E_UNSURE, "%s", nested.error);
    cr_assert_lt(test_now_ms() - began, 1200);
    proxy_delay(stage.proxy, 0, 0);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
}

BOTH(that_raises_a_lease_and_is_answered_after_the_loss_is_lost)
{
    static struct done first, nested;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = stage_owned(client, "t", owner);
    nest(lock, 1000, HLK_NOWAIT, &first);
    cr_assert_eq(result(&first), HLK_OK);
    proxy_delay(stage.proxy, 0, 1200); /* done by the server at once, told late */
    nest(lock, 10000, HLK_FOREVER, &nested);
    cr_assert_eq(result(&nested), HLK_LOST, "%s", nested.error);
    proxy_delay(stage.proxy, 0, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
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
    hlk_lock *lock = stage_owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, close_it, &closed), HLK_OK);
    LOOP_UNTIL(atomic_load(&closed));
    WAIT_FOR(stage_logged("called from a callback"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
}
