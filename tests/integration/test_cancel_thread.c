/* Ending waits from outside: pthread_cancel. */
#include "cancel_fixture.h"

#include <pthread.h>
#include <stdlib.h>

TestSuite(cancel_thread, .init = cancel_start, .fini = fixture_end, .timeout = 90);
TestSuite(cancel_thread_wire, .init = cancel_start_proxied, .fini = fixture_end, .timeout = 90);

Test(cancel_thread, ends_a_parked_wait_and_leaves_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *cancelled = actor_start(lock, NULL), *patient = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 2);
    actor_cancel(cancelled);
    cr_assert(actor_join_cancelled(cancelled));
    cr_assert_eq(fixture_counters(client).waiting, 1u);
    cr_assert_not(actor_answered(patient));
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(patient), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    assert_nothing_left(client);
}

/* A new thread uses the context of an ended one. Whether its sleeps may be cancelled must not be inherited. (Found by
 * the soak test.) */
static void *extends_with_a_cancellation_pending(void *arg)
{
    hlk_lock *lock = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_cancel(pthread_self());
    bool good = true;
    for (int i = 0; i < 20; i++)
        good = hlk_lock_extend(lock, 60000) == HLK_OK && good;
    return good ? lock : NULL;
}

Test(cancel_thread, leaves_the_next_thread_its_own_cancel_state)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_NO_SPIN;
    hlk_client *client = fixture_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *held = fixture_lock(client, "t", NULL), *other = fixture_owned(client, "t2", owner);
    pthread_t next;
    void *result;
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    struct actor *cancelled = actor_start(held, NULL);
    WAIT_FOR_WAITERS(client, 1);
    actor_cancel(cancelled);
    cr_assert(actor_join_cancelled(cancelled));
    cr_assert_eq(pthread_create(&next, NULL, extends_with_a_cancellation_pending, other), 0);
    cr_assert_eq(pthread_join(next, &result), 0);
    cr_assert(result == other, "cancelled in a call that is no cancellation point");
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(cancel_thread_wire, of_a_thread_awaiting_an_answer_leaves_nothing)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 60000;
    opts.reconnect_timeout_ms = 60000;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t2", NULL);
    struct hlk_counters before = fixture_counters(client);
    proxy_freeze(fixture.proxy, true);
    struct actor *cancelled = actor_start(lock, NULL), *follower = actor_start(other, NULL);
    WAIT_FOR(fixture_counters(client).commands >= before.commands + 1);
    actor_cancel(cancelled);
    cr_assert(actor_join_cancelled(cancelled), "the server is cut off: it cannot have been answered");
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(actor_end(follower), HLK_OK, "whoever led is gone, and the other is served all the same");
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    assert_nothing_left(client);
}

/* asks A2 redisson 2714, spring-integration 11049: cancelling at every await point leaves no renewed key */
Test(cancel_thread, at_any_point_leaves_nothing)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3 * WAIT_MS; /* a hold that is left would outlast every wait here */
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    unsigned seed = 1;
    int cancelled = 0;
    for (int i = 0; i < 300; i++) {
        bool held = i % 3 == 0;
        if (held)
            cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK);
        struct actor *actor = actor_start(lock, NULL);
        pause_us(rand_r(&seed) % 300);
        actor_cancel(actor);
        if (held)
            cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cancelled += actor_join_cancelled(actor);
    }
    cr_log_info("%d of 300 were cancelled in time", cancelled);
    cr_assert_gt(cancelled, 0);
    assert_nothing_left(client);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

static void *lock_a_lot(void *arg)
{
    hlk_lock *lock = arg;
    intptr_t bad = 0;
    for (int i = 0; i < 300; i++)
        bad += hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK || hlk_lock_release(lock) != HLK_OK;
    return (void *)bad;
}

/* design 4: a leader that is cancelled passes the lead on; the others' replies are read */
Test(cancel_thread, of_whoever_leads_the_connection_disturbs_nobody)
{
    enum { THREADS = 4 };
    hlk_client *client = fixture_open(NULL);
    pthread_t threads[THREADS];
    hlk_lock *victim = fixture_lock(client, "t", NULL);
    for (int i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        pthread_create(&threads[i], NULL, lock_a_lot, fixture_lock(client, name, NULL));
    }
    for (int i = 0; i < 200; i++) {
        struct actor *actor = actor_start(victim, NULL);
        actor_cancel(actor);
        actor_join_cancelled(actor);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        cr_assert_eq((intptr_t)bad, 0);
    }
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    assert_nothing_left(client);
}

/* A cancellation is pending during calls that are no cancellation points but contain system calls. */
static void *triggers_with_a_cancellation_pending(void *arg)
{
    pthread_cancel(pthread_self());
    hlk_cancel_trigger(arg);
    return NULL;
}

static void *asks_for_lost_fd_with_a_cancellation_pending(void *arg)
{
    pthread_cancel(pthread_self());
    (void)hlk_lock_lost_fd(arg);
    return NULL;
}

Test(cancel_thread, pending_does_not_end_a_trigger_half_way)
{
    hlk_client *client = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    pthread_t thread;
    opts.cancel = cancel;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR_WAITERS(client, 1);
    pthread_create(&thread, NULL, triggers_with_a_cancellation_pending, cancel);
    pthread_join(thread, NULL);
    cr_assert_eq(hlk_cancel_triggered(cancel), 1);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    raw(fixture.redis, "DEL t");
    assert_nothing_left(client);
    hlk_cancel_destroy(cancel);
}

static enum hlk_status released;

static void *releases_with_a_cancellation_pending(void *arg)
{
    released = hlk_lock_acquire(arg, HLK_NOWAIT);
    pthread_cancel(pthread_self());
    if (released == HLK_OK) {
        released = HLK_E_UNSURE;
        released = hlk_lock_release(arg);
    }
    return NULL;
}

/* asks A4 redis-py PR 4258: a release that was cancelled had forgotten the lock and not freed it. Without polling: it
 * sleeps until the server answers. */
Test(cancel_thread, pending_does_not_end_a_release_half_way)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_NO_SPIN;
    hlk_lock *lock = fixture_lock(fixture_open(&opts), "t", NULL);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, releases_with_a_cancellation_pending, lock);
        pthread_join(thread, NULL);
        cr_assert_eq(released, HLK_OK, "round %d: %s", i, hlk_status_name(released));
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    }
}

Test(cancel_thread, pending_leaves_no_mutex_locked_in_lost_fd)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    pthread_t thread;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK); /* a known loss, for which the new descriptor is written to */
    fixture_wait_event(HLK_EVENT_LOST, "t");
    pthread_create(&thread, NULL, asks_for_lost_fd_with_a_cancellation_pending, lock);
    pthread_join(thread, NULL);
    cr_assert_geq(hlk_lock_lost_fd(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    hlk_owner_destroy(owner);
}
