/* test_quorum_lock.c - the calls of lock.h on a client of redlock://: the application changes nothing but the URL. */
/* Shows: P33 */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    quorum_begin(0);
}

static void start_proxied(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_lock, .init = start, .fini = quorum_end, .timeout = 60);
TestSuite(quorum_lock_proxied, .init = start_proxied, .fini = quorum_end, .timeout = 60);

static hlk_client *three(void)
{
    return quorum_open_url(3, "", NULL);
}

static hlk_lock *owned(hlk_client *client, const char *name, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    return quorum_lock(client, name, &opts);
}

static void forget_on(int from, int n, const char *name)
{
    for (int i = from; i < from + n; i++)
        raw(views[i], "DEL %s", name);
}

/* --- what is written */

Test(quorum_lock, is_redissons_hash_on_every_master)
{
    char id[192];
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    for (int i = 0; i < MASTERS; i++) {
        cr_assert_eq(raw_int(views[i], "HGET t %s", id), 1);
        cr_assert_gt(raw_int(views[i], "PTTL t"), 25000, "the client's watchdog_ms is the ttl");
    }
    cr_assert_gt(hlk_lock_left_ms(lock), 25000);
    cr_assert_eq(hlk_lock_token(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_not_null(strstr(hlk_last_error(), "at 5 masters"), "%s", hlk_last_error());
}

Test(quorum_lock, of_the_string_kind_is_the_redis_pages_string)
{
    char id[192];
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    hlk_lock *lock = quorum_lock(three(), "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    WAIT_FOR(quorum_keys("t") == 3);
    cr_assert_not_null(strstr(raw(views[0], "GET t"), id));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_lock, takes_the_options_of_the_url)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "&ttl_ms=5000&clock_drift_factor=0.1", NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_leq(hlk_lock_left_ms(lock), 5000 - 502);
    WAIT_FOR(quorum_keys("t") == 3);
    cr_assert_leq(raw_int(views[0], "PTTL t"), 5000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(quorum_lock, is_of_kinds_that_need_no_single_server)
{
    hlk_client *client = three();
    static const struct {
        int kind;
        const char *why;
    } refused[] = { { HLK_LOCK_FENCED, "fencing" },
                    { HLK_LOCK_FAIR, "on one server" },
                    { HLK_LOCK_SPIN, "on one" },
                    { HLK_LOCK_READ, "on one server" } };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = refused[i].kind;
        cr_assert_null(hlk_lock_create(client, "t", &opts));
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
        cr_assert_not_null(strstr(hlk_last_error(), refused[i].why), "%s", hlk_last_error());
    }
}

/* Each master is being connected when it is asked for. */
Test(quorum_lock, of_a_lazily_opened_client_is_got_by_one_try)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_LAZY;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", &opts), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* The third master is connected a moment later. A hold that it had not would not survive the loss of another one. */
Test(quorum_lock_proxied, of_a_lazily_opened_client_is_on_every_master)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_LAZY;
    proxy_freeze(proxies[2], true);
    hlk_client *client = quorum_open_url(3, "", &opts);
    struct actor *actor = actor_start_wait(quorum_lock(client, "t", NULL), HLK_NOWAIT);
    test_sleep_ms(200); /* so slow is its connection */
    proxy_freeze(proxies[2], false);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    WAIT_FOR(quorum_keys("t") == 3);
    cr_assert_eq(actor_end(actor), HLK_OK);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- holders */

Test(quorum_lock, is_reentrant_without_a_command)
{
    hlk_client *client = three();
    hlk_lock *lock = quorum_lock(client, "t", NULL), *same = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    uint64_t sent = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(same, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(same), 1);
    cr_assert_eq(fixture_counters(client).commands, sent);
    cr_assert_eq(fixture_counters(client).reentered, 1);
    struct actor *other = actor_start_wait(lock, HLK_NOWAIT);
    cr_assert_eq(actor_status(other), HLK_BUSY, "another thread");
    (void)actor_end(other);
    cr_assert_eq(hlk_lock_release(same), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(same), 0);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* Both wait behind somebody else. The second need not wait for the first. */
Test(quorum_lock, is_an_owners_in_all_its_threads)
{
    hlk_client *client = three();
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *mine = quorum_lock(client, "t", NULL), *lock = owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(mine, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *a = actor_start_wait(lock, HLK_FOREVER), *b = actor_start_wait(lock, HLK_FOREVER);
    WAIT_FOR(fixture_counters(client).waiting == 2);
    cr_assert_eq(hlk_lock_release(mine), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(a), HLK_OK, "%s", actor_error(a));
    cr_assert_eq(actor_status(b), HLK_OK, "%s", actor_error(b));
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(actor_end(a), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(actor_end(b), HLK_OK);
    WAIT_FOR(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

static void *try_often(void *lock)
{
    enum { TRIES = 3000 };
    int busy = 0;
    for (int i = 0; i < TRIES; i++)
        busy += hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_BUSY;
    return (void *)(intptr_t)(busy == TRIES);
}

/* What the client has of a holder without a hold ends with the last of the holder's calls, whichever that is. (Found by
 * ThreadSanitizer: memory was read after that.) */
Test(quorum_lock, of_an_owner_may_be_tried_by_its_threads_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    hlk_client *client = three();
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *mine = quorum_lock(client, "t", NULL), *lock = owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(mine, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, try_often, lock), 0);
    for (int i = 0; i < THREADS; i++) {
        void *all_busy;
        cr_assert_eq(pthread_join(threads[i], &all_busy), 0);
        cr_assert_not_null(all_busy);
    }
    cr_assert_eq(hlk_lock_release(mine), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

Test(quorum_lock, of_a_thread_that_ended_is_not_renewed)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 2000;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, PATIENT, &opts), "t", NULL);
    struct actor *gone = actor_start(lock, NULL);
    cr_assert_eq(actor_status(gone), HLK_OK, "%s", actor_error(gone));
    actor_leave(gone);
    (void)fixture_wait_event(HLK_EVENT_ORPHANED, "t");
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 0, "nobody is there to be told");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- leases */

Test(quorum_lock, with_a_lease_is_not_renewed_but_raised_by_nesting)
{
    struct hlk_acquire_opts short_lease = HLK_ACQUIRE_OPTS_INIT, long_lease = HLK_ACQUIRE_OPTS_INIT;
    short_lease.lease_ms = 10000;
    long_lease.lease_ms = 60000;
    hlk_lock *lock = quorum_lock(three(), "t", NULL);
    cr_assert_eq(hlk_lock_acquire_with(lock, &short_lease), HLK_OK, "%s", hlk_last_error());
    cr_assert_leq(hlk_lock_left_ms(lock), 10000 - 102);
    cr_assert_eq(hlk_lock_acquire_with(lock, &long_lease), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(lock), 50000);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(hlk_lock_extend(lock, 90000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(lock), 80000);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(quorum_lock, with_a_lease_is_renewed_if_nested_without_one)
{
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    opts.watchdog_ms = 2000;
    fixed.lease_ms = 2000;
    hlk_client *client = quorum_open_url(3, PATIENT, &opts);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(fixture_counters(client).renewals >= 3);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Two of three masters stand still: no majority can raise it, and what ends a wait ends that. */
Test(quorum_lock_proxied, ends_the_raise_of_a_lease_by_cancel_and_deadline)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_client *client = quorum_open_url(3, "&node_timeout_ms=20000", NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], true);
    opts.lease_ms = 60000;
    opts.wait_ms = 100;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_TIMEOUT, "%s", hlk_last_error());
    opts.cancel = hlk_cancel_create(client);
    opts.wait_ms = HLK_FOREVER;
    struct actor *other = actor_start(lock, &opts);
    WAIT_FOR(hlk_lock_holds(lock) == 2);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(actor_status(other), HLK_INTERRUPTED, "%s", actor_error(other));
    (void)actor_end(other);
    hlk_cancel_destroy(opts.cancel);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], false);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

/* Two of three masters stand still: no majority can raise it. The outer hold stays as it is. */
Test(quorum_lock_proxied, whose_lease_cannot_be_raised_is_not_nested)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "&node_timeout_ms=300", NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], true);
    opts.lease_ms = 60000;
    opts.wait_ms = HLK_NOWAIT;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_BUSY, "%s", hlk_last_error());
    opts.wait_ms = 1000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "could not be raised"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], false);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- losses */

static bool readable(int fd)
{
    struct pollfd look = { .fd = fd, .events = POLLIN };
    return poll(&look, 1, 0) == 1;
}

Test(quorum_lock, when_lost_tells_by_event_descriptor_and_status)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, PATIENT, &opts), "t", NULL);
    int fd = hlk_lock_lost_fd(lock);
    cr_assert_geq(fd, 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    cr_assert_not(readable(fd));
    forget_on(0, 2, "t");
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    WAIT_FOR(readable(fd));
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_holds(lock), 2, "two releases are due");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert(readable(fd));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_not(readable(fd));
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(quorum_lock, survives_a_minority)
{
    hlk_lock *lock = quorum_lock(three(), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    quorum_forget_view(2);
    server_kill(masters[2]);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- ends of a wait */

Test(quorum_lock, ends_a_wait_by_cancel_thread_cancel_and_deadline)
{
    hlk_client *client = three();
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *waiter = actor_start(lock, &opts), *other = actor_start_wait(lock, HLK_FOREVER);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_status(waiter), HLK_INTERRUPTED, "%s", actor_error(waiter));
    (void)actor_end(waiter);
    actor_cancel(other);
    cr_assert(actor_join_cancelled(other));
    struct actor *late = actor_start_wait(lock, 100);
    cr_assert_eq(actor_status(late), HLK_TIMEOUT, "%s", actor_error(late));
    (void)actor_end(late);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    hlk_cancel_destroy(cancel);
}

/* It is behind others of its process. */
Test(quorum_lock, leaves_the_local_queue_from_its_end)
{
    hlk_client *client = quorum_open_url(3, "&node_timeout_ms=20000", NULL);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *first = actor_start_wait(lock, HLK_FOREVER);
    WAIT_FOR(fixture_counters(client).waiting == 1);
    struct actor *second = actor_start_wait(lock, 100);
    cr_assert_eq(actor_status(second), HLK_TIMEOUT, "%s", actor_error(second));
    (void)actor_end(second);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(first), HLK_OK, "%s", actor_error(first));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "nobody is before it: %s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    cr_assert_eq(fixture_counters(client).commands, 3 * 2 * 3, "three holds: nobody asked in vain");
    cr_assert_eq(fixture_counters(client).waiting, 0);
}

/* Behind another client, so that it asks the masters between its sleeps. */
Test(quorum_lock, ends_a_wait_behind_another_client_too)
{
    hlk_lock *theirs = quorum_lock(three(), "t", NULL), *lock = quorum_lock(three(), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *waiter = actor_start_wait(lock, HLK_FOREVER);
    WAIT_FOR(strstr(raw(views[0], "PUBSUB CHANNELS"), "{t}"));
    actor_cancel(waiter);
    cr_assert(actor_join_cancelled(waiter));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

static void on_signal(int signal)
{
    (void)signal;
}

Test(quorum_lock, ends_a_wait_by_a_signal)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.flags = HLK_ACQUIRE_EINTR;
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    hlk_lock *lock = quorum_lock(three(), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *waiter = actor_start(lock, &opts);
    while (!actor_answered(waiter)) { /* it may not sleep yet */
        actor_signal(waiter, SIGUSR1);
        test_sleep_ms(1);
    }
    cr_assert_eq(actor_status(waiter), HLK_INTERRUPTED, "%s", actor_error(waiter));
    (void)actor_end(waiter);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- a release without a wait, and several locks */

struct released {
    atomic_int done;
    enum hlk_status status;
};

static void released(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct released *out = ctx;
    (void)lock;
    out->status = status;
    atomic_store(&out->done, 1);
}

Test(quorum_lock, is_released_by_a_completion_too)
{
    static struct released out;
    hlk_client *client = three();
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < 2; i++) {
        atomic_store(&out.done, 0);
        cr_assert_eq(hlk_lock_release_async(lock, released, &out), HLK_OK, "%s", hlk_last_error());
        WAIT_FOR(atomic_load(&out.done));
        cr_assert_eq(out.status, HLK_OK);
    }
    cr_assert_eq(hlk_lock_release_async(lock, released, &out), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "the releases go first: %s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

Test(quorum_lock, is_a_member_of_a_multilock)
{
    hlk_client *client = three();
    hlk_lock *members[2] = { quorum_lock(client, "a", NULL), quorum_lock(client, "b", NULL) };
    hlk_lock *both = hlk_lock_create_multilock(members, 2, NULL);
    cr_assert_not_null(both, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(both), 0);
    cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(both);
    WAIT_FOR(quorum_keys("a") == 0 && quorum_keys("b") == 0);
}
