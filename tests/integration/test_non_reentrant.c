/* Kinds that are not reentrant: an acquire by the holder is HLK_DEADLOCK, in each form of the call, and changes
 * nothing. For all others they are the lock on which they are based. */
/* Shows: P26 */
#include "integration/async_fixture.h"

#include <stdlib.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(non_reentrant, .init = start, .fini = fixture_end, .timeout = 90);

/* A kind, and its reentrant counterpart. */
static const struct kinds {
    int kind, reentrant;
} kinds[] = { { HLK_LOCK_NON_REENTRANT, HLK_LOCK_PLAIN }, { HLK_LOCK_NON_REENTRANT_FAIR, HLK_LOCK_FAIR } };
enum { KINDS = sizeof kinds / sizeof *kinds };

static hlk_lock *lock_of(hlk_client *client, int kind, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    opts.owner = owner;
    return fixture_lock(client, "t", &opts);
}

static void assert_deadlock(hlk_client *client, hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    uint64_t commands = fixture_counters(client).commands, reentered = fixture_counters(client).reentered;
    cr_assert_eq(hlk_lock_acquire_with(lock, opts), HLK_DEADLOCK, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "\"t\""), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "holds it already"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(fixture_counters(client).commands, commands, "nothing was sent");
    cr_assert_eq(fixture_counters(client).reentered, reentered);
    cr_assert_eq(fixture_counters(client).held, 1u);
    cr_assert_eq(fixture_counters(client).waiting, 0u);
}

Test(non_reentrant, a_holders_second_acquire_is_a_deadlock_at_once)
{
    static const int64_t waits[] = { HLK_NOWAIT, 1, 60000, HLK_FOREVER }, leases[] = { 0, 5000, -1 };
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_cancel *cancel = hlk_cancel_create(client);
    for (int i = 0; i < 2 * KINDS; i++) {
        hlk_lock *lock = lock_of(client, kinds[i / 2].kind, i % 2 ? owner : NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        for (size_t k = 0; k < 2 * 4 * 3; k++) {
            struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
            opts.wait_ms = waits[k / 2 % 4];
            opts.lease_ms = leases[k / 2 / 4];
            opts.cancel = k % 2 ? cancel : NULL;
            assert_deadlock(client, lock, &opts);
        }
        cr_assert_eq(raw_int(fixture.redis, "HGET t %s", raw_holder(fixture.redis, "t")), 1);
        cr_assert_gt(raw_pttl(fixture.redis, "t"), 10000, "the lease is as it was");
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    }
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

Test(non_reentrant, lets_others_wait)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    for (int i = 0; i < KINDS; i++) {
        hlk_lock *lock = lock_of(client, kinds[i].kind, NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(fixture_try(lock), HLK_BUSY, "another thread is no holder");
        struct actor *same = actor_start_passing(lock); /* either may be the first */
        WAIT_FOR_WAITERS(client, 1);
        struct actor *else_where = actor_start_passing(lock_of(other, kinds[i].reentrant, NULL));
        WAIT_FOR_WAITERS(other, 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(actor_end(same), HLK_OK);
        cr_assert_eq(actor_end(else_where), HLK_OK);
    }
}

/* The handle forbids nesting, not the lock. */
Test(non_reentrant, nests_in_a_hold_through_a_reentrant_handle)
{
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < KINDS; i++) {
        hlk_lock *lock = lock_of(client, kinds[i].kind, NULL), *again = lock_of(client, kinds[i].reentrant, NULL);
        cr_assert_eq(hlk_lock_acquire(again, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_DEADLOCK);
        cr_assert_eq(hlk_lock_acquire(again, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(again), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "the holder's, whichever handle it goes through");
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    }
}

Test(non_reentrant, a_loss_is_told_first)
{
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < KINDS; i++) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.lease_ms = 300;
        hlk_lock *lock = lock_of(client, kinds[i].kind, NULL);
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
        WAIT_FOR(hlk_lock_left_ms(lock) == 0);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
        WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    }
}

/* --- async */

static void second_async(bool dispatch)
{
    hlk_client *client = open_for(dispatch);
    hlk_owner *owner = hlk_owner_create(client, "order");
    for (int i = 0; i < KINDS; i++) {
        struct done first, second, third, released;
        memset(&first, 0, sizeof first);
        memset(&second, 0, sizeof second);
        memset(&third, 0, sizeof third);
        memset(&released, 0, sizeof released);
        hlk_lock *lock = lock_of(client, kinds[i].kind, owner);
        acquire(lock, HLK_FOREVER, NULL, &first); /* the second one is queued until this one was reported */
        acquire(lock, HLK_FOREVER, NULL, &second);
        cr_assert_eq(result(&first), HLK_OK, "%s", first.error);
        cr_assert_eq(result(&second), HLK_DEADLOCK, "%s", second.error);
        cr_assert_lt(atomic_load(&first.order), atomic_load(&second.order));
        acquire(lock, HLK_NOWAIT, NULL, &third);
        cr_assert_eq(result(&third), HLK_DEADLOCK);
        cr_assert_not_null(strstr(third.error, "holds it already"), "%s", third.error);
        cr_assert_eq(hlk_lock_holds(lock), 1);
        release(lock, &released);
        cr_assert_eq(result(&released), HLK_OK);
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    }
    hlk_owner_destroy(owner);
}

Test(non_reentrant, a_second_async_acquire_completes_with_a_deadlock)
{
    second_async(false);
}

Test(non_reentrant, a_second_async_acquire_is_a_deadlock_in_dispatch)
{
    second_async(true);
}

struct both {
    pthread_t thread;
    hlk_lock *lock;
    enum hlk_status status;
};

static void *acquire_in_thread(void *arg)
{
    struct both *both = arg;
    both->status = hlk_lock_acquire(both->lock, HLK_FOREVER);
    return NULL;
}

/* Two threads of one owner wait behind a third holder: one of them acquires, and the other gets HLK_DEADLOCK. */
Test(non_reentrant, threads_of_one_owner_that_wait_are_one_holder)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "order");
    for (int i = 0; i < KINDS; i++) {
        struct both both[2];
        hlk_lock *lock = lock_of(client, kinds[i].kind, owner), *before = lock_of(client, kinds[i].kind, NULL);
        cr_assert_eq(hlk_lock_acquire(before, HLK_NOWAIT), HLK_OK);
        for (int k = 0; k < 2; k++) {
            both[k] = (struct both){ .lock = lock };
            cr_assert_eq(pthread_create(&both[k].thread, NULL, acquire_in_thread, &both[k]), 0);
        }
        WAIT_FOR_WAITERS(client, 2);
        cr_assert_eq(hlk_lock_release(before), HLK_OK);
        for (int k = 0; k < 2; k++)
            pthread_join(both[k].thread, NULL);
        cr_assert_eq(both[0].status + both[1].status, HLK_OK + HLK_DEADLOCK, "%s, %s", hlk_status_name(both[0].status),
                     hlk_status_name(both[1].status));
        cr_assert_eq(hlk_lock_holds(lock), 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    hlk_owner_destroy(owner);
}
