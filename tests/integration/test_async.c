/* Locks without a blocked thread, in both modes: completions on the events thread, or by hlk_client_dispatch in the
 * test's own loop. Each test is written once and run in both. */
#include "integration/async_fixture.h"

#include <stdlib.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(async, .init = start, .fini = fixture_end, .timeout = 90);
TestSuite(async_events, .init = start, .fini = fixture_end, .timeout = 90);
TestSuite(async_dispatch, .init = start, .fini = fixture_end, .timeout = 90);

#define BOTH(name) IN_BOTH_MODES(async_events, async_dispatch, name)

/* --- in both modes */

BOTH(acquires_and_releases)
{
    static struct done acquired, released;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK);
    cr_assert_eq(acquired.lock, lock);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_str_neq(raw_holder(fixture.redis, "t"), "");
    release(lock, &released);
    cr_assert_eq(hlk_lock_holds(lock), 0, "over for its holder at once");
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    cr_assert_eq(atomic_load(&acquired.runs) + atomic_load(&released.runs), 2);
    hlk_owner_destroy(owner);
}

BOTH(answers_busy_and_timeout)
{
    static struct done busy, timeout;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    acquire(lock, HLK_NOWAIT, NULL, &busy);
    cr_assert_eq(result(&busy), HLK_BUSY);
    cr_assert_not_null(strstr(busy.error, "b983c153-7421-469a-addb-44fb92259a1b:1"), "%s", busy.error);
    int64_t before = test_now_ms();
    acquire(lock, 200, NULL, &timeout);
    cr_assert_eq(result(&timeout), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - before, 200);
    raw(fixture.redis, "DEL t");
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0);
    hlk_owner_destroy(owner);
}

BOTH(waits_and_is_woken)
{
    static struct done acquired, released;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    LOOP_UNTIL(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(fixture_counters(client).waiting, 1u);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(result(&acquired), HLK_OK);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    hlk_owner_destroy(owner);
}

BOTH(is_ended_by_a_cancel)
{
    static struct done ended, at_once;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    hlk_cancel *cancel = hlk_cancel_create(client);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    acquire(lock, HLK_FOREVER, cancel, &ended);
    LOOP_UNTIL(raw_listeners(fixture.redis, "t") == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&ended), HLK_INTERRUPTED);
    acquire(lock, HLK_FOREVER, cancel, &at_once);
    cr_assert_eq(result(&at_once), HLK_INTERRUPTED);
    raw(fixture.redis, "DEL t");
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

BOTH(completes_in_the_order_of_the_calls)
{
    enum { CALLS = 40 };
    static struct done done[CALLS];
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    for (int i = 0; i < CALLS; i += 4) { /* acquire, nested acquire, release, release */
        acquire(lock, HLK_FOREVER, NULL, &done[i]);
        acquire(lock, HLK_FOREVER, NULL, &done[i + 1]);
        LOOP_UNTIL(atomic_load(&done[i + 1].runs) == 1);
        release(lock, &done[i + 2]);
        release(lock, &done[i + 3]); /* the next acquire is sent after this release */
    }
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(result(&done[i]), HLK_OK);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(atomic_load(&done[i].order), i + 1);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    cr_assert_eq(fixture_counters(client).acquired, CALLS / 4u);
    cr_assert_eq(fixture_counters(client).reentered, CALLS / 4u);
    hlk_owner_destroy(owner);
}

/* A nested hold does not wait: the same status as from the blocking call. If its lease must be raised, a command is
 * sent. */
BOTH(nests_despite_its_cancel_unless_it_has_to_ask)
{
    static struct done first, nested, raised;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    acquire(lock, HLK_NOWAIT, NULL, &first);
    cr_assert_eq(result(&first), HLK_OK);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    acquire(lock, HLK_FOREVER, cancel, &nested);
    cr_assert_eq(result(&nested), HLK_OK);
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_INTERRUPTED);
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &raised), HLK_OK);
    cr_assert_eq(result(&raised), HLK_INTERRUPTED);
    cr_assert_eq(hlk_lock_holds(lock), 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

static atomic_int refusals;
static atomic_bool destroyed;

static void release_and_acquire(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    static struct done none;
    WAIT_FOR(atomic_load(&destroyed));
    cr_expect_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK, "%s", hlk_last_error());
    atomic_fetch_add(&refusals, hlk_lock_acquire_async(lock, NULL, remember, &none) == HLK_E_INVALID);
    remember(lock, status, ctx);
}

/* Its owner was given back, so a new hold would have no holder. */
BOTH(of_a_destroyed_handle_may_release_and_not_acquire)
{
    static struct done acquired;
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, release_and_acquire, &acquired), HLK_OK);
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    atomic_store(&destroyed, true);
    cr_assert_eq(result(&acquired), HLK_OK);
    cr_assert_eq(atomic_load(&refusals), 1);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
}

BOTH(waits_in_queue_behind_its_own_release)
{
    static struct done first, second, released;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    for (int i = 0; i < 50; i++) {
        memset(&first, 0, sizeof first);
        memset(&second, 0, sizeof second);
        memset(&released, 0, sizeof released);
        acquire(lock, HLK_NOWAIT, NULL, &first);
        cr_assert_eq(result(&first), HLK_OK);
        release(lock, NULL);
        acquire(lock, HLK_NOWAIT, NULL, &second); /* NOWAIT: never BUSY because of our own release */
        cr_assert_eq(result(&second), HLK_OK);
        release(lock, &released);
        cr_assert_eq(result(&released), HLK_OK);
    }
    hlk_owner_destroy(owner);
}

static void destroy_lock(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    remember(lock, status, ctx);
    hlk_lock_destroy(lock);
}

BOTH(lets_the_completion_release_and_destroy_the_lock)
{
    static struct done done = { .release = true };
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    hlk_owner_destroy(owner);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, destroy_lock, &done), HLK_OK);
    cr_assert_eq(result(&done), HLK_OK);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0u);
}

BOTH(serves_a_handle_that_is_destroyed_while_it_waits)
{
    static struct done done = { .release = true };
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, remember, &done), HLK_OK);
    LOOP_UNTIL(raw_listeners(fixture.redis, "t") == 1);
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(result(&done), HLK_OK);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
}

BOTH(gives_one_lock_to_1000_owners_in_turn)
{
    enum { OWNERS = 1000 };
    static struct done done[OWNERS];
    hlk_owner *owners[OWNERS];
    for (int i = 0; i < OWNERS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        done[i].release = true;
        acquire(fixture_owned(client, "t", owners[i]), HLK_FOREVER, NULL, &done[i]);
    }
    for (int i = 0; i < OWNERS; i++)
        cr_assert_eq(result(&done[i]), HLK_OK);
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
    cr_assert_eq(fixture_counters(client).acquired, (uint64_t)OWNERS);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u, "%d of %d", (int)fixture_counters(client).woken_by_ttl,
                 OWNERS);
    for (int i = 0; i < OWNERS; i++)
        hlk_owner_destroy(owners[i]);
}

BOTH(shares_a_lock_with_threads)
{
    enum { EACH = 20 };
    static struct done done[EACH];
    struct actor *actors[EACH];
    hlk_owner *owners[EACH];
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 0; i < EACH; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        done[i].release = true;
        acquire(fixture_owned(client, "t", owners[i]), HLK_FOREVER, NULL, &done[i]);
        actors[i] = actor_start_passing(lock);
    }
    for (int i = 0; i < EACH; i++) {
        cr_assert_eq(result(&done[i]), HLK_OK);
        LOOP_UNTIL(actor_answered(actors[i])); /* it may wait for another one, which only this loop completes */
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
        hlk_owner_destroy(owners[i]);
    }
    LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2);
}

BOTH(answers_closed_to_all_that_wait_at_close)
{
    enum { WAITS = 10 };
    static struct done done[WAITS];
    hlk_owner *owner = hlk_owner_create(client, "order");
    for (int i = 0; i < WAITS; i++) {
        raw(fixture.redis, "HSET t%d b983c153-7421-469a-addb-44fb92259a1b:1 1", i);
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        acquire(fixture_owned(client, name, owner), HLK_FOREVER, NULL, &done[i]);
    }
    LOOP_UNTIL(fixture_counters(client).waiting == WAITS);
    fixture_close(client);
    for (int i = 0; i < WAITS; i++) {
        cr_assert_eq(atomic_load(&done[i].runs), 1, "exactly once, before close returns");
        cr_assert_eq(done[i].status, HLK_E_CLOSED);
        raw(fixture.redis, "DEL t%d", i);
    }
    hlk_owner_destroy(owner);
}

BOTH(of_what_is_not_held_is_refused_and_never_completes)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    cr_assert_eq(hlk_lock_release_async(lock, remember, &done), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire_async(NULL, NULL, remember, &done), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_acquire_async(fixture_lock(client, "t", NULL), NULL, remember, &done), HLK_E_INVALID);
    for (int i = 0; i < 10; i++)
        turn();
    cr_assert_eq(atomic_load(&done.runs), 0);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_owner_destroy(owner);
}

BOTH(tells_a_loss_at_release)
{
    static struct done acquired;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 200;
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &acquired), HLK_OK);
    cr_assert_eq(result(&acquired), HLK_OK);
    fixture_wait_event(HLK_EVENT_LOST, "t"); /* in both modes events come on the events thread */
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_LOST);
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_NOT_HOLDER);
    hlk_owner_destroy(owner);
}

/* --- of one mode only */

Test(async, release_of_a_threads_hold_may_be_in_the_background)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    static struct done done;
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "the next acquire goes behind the release");
        cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), 0);
    }
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release_async(lock, remember, &done), HLK_E_INVALID, "no thread to complete for");
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* Also when its reconnect timeout ends within one of its pauses. */
Test(async, a_wait_for_a_full_server_ends_by_reconnect_timeout)
{
    static const int64_t timeouts_ms[] = { 500, 1300 };
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof *timeouts_ms; i++) {
        struct hlk_client_opts opts = fixture_opts();
        struct done *done = calloc(1, sizeof *done); /* leaks if the wait never ends; then the test has failed */
        opts.reconnect_timeout_ms = timeouts_ms[i];
        hlk_client *client = fixture_open(&opts);
        hlk_owner *owner = hlk_owner_create(client, "order");
        acquire(fixture_owned(client, "t", owner), HLK_FOREVER, NULL, done);
        cr_assert_eq(result(done), HLK_E_SERVER);
        cr_assert_not_null(strstr(done->error, "OOM"), "%s", done->error);
        hlk_owner_destroy(owner);
        fixture_close(client);
        free(done);
    }
    raw(fixture.redis, "CONFIG SET maxmemory 0");
}

Test(async, without_dispatch_there_is_no_descriptor)
{
    hlk_client *client = fixture_open(NULL);
    cr_assert_eq(hlk_client_fd(client), -1);
    cr_assert_eq(hlk_client_dispatch(client, 0), 0);
    cr_assert_eq(hlk_client_fd(NULL), -1);
    cr_assert_eq(hlk_client_dispatch(NULL, 0), 0);
}
