/* Nested holds that need the server: a lease to be raised, a count to be written. And calls in which a pthread_cancel
 * has no effect. */
#include "lease_fixture.h"

#include <pthread.h>
#include <semaphore.h>

static void start(void)
{
    lease_up(STAGE_PROXY);
}

TestSuite(nested, .init = start, .fini = fixture_end, .timeout = 60);

static struct hlk_acquire_opts fixed(int64_t lease_ms, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    opts.wait_ms = wait_ms;
    return opts;
}

/* --- raising */

Test(nested, raise_of_a_lease_ends_with_the_wait)
{
    hlk_lock *lock = held_for(fixture_open(NULL), "t", 30000); /* reply_timeout_ms is 3000 */
    struct hlk_acquire_opts opts = fixed(60000, 100);
    proxy_freeze(fixture.proxy, true);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_TIMEOUT);
    cr_assert_lt(running_ms(began), 2000);
    cr_assert_not_null(strstr(hlk_last_error(), "no answer"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

struct raising {
    hlk_lock *lock;
    struct hlk_acquire_opts opts;
    enum hlk_status status;
};

static void *raises(void *arg)
{
    struct raising *raising = arg;
    raising->status = hlk_lock_acquire_with(raising->lock, &raising->opts);
    return NULL;
}

struct hanging_raise {
    hlk_owner *owner;
    hlk_cancel *cancel;
    struct raising raising;
    pthread_t thread;
};

/* The raise was sent by a thread of its own, and the network stands still. */
static void start_hanging_raise(struct hanging_raise *hanging)
{
    hlk_client *client = fixture_open(NULL);
    hanging->owner = hlk_owner_create(client, NULL);
    hanging->cancel = hlk_cancel_create(client);
    hanging->raising =
        (struct raising){ .lock = fixture_owned(client, "t", hanging->owner), .opts = fixed(30000, HLK_FOREVER) };
    cr_assert_eq(hlk_lock_acquire_with(hanging->raising.lock, &hanging->raising.opts), HLK_OK);
    hanging->raising.opts.cancel = hanging->cancel;
    proxy_freeze(fixture.proxy, true);
    cr_assert_eq(pthread_create(&hanging->thread, NULL, raises, &hanging->raising), 0);
    WAIT_FOR(hlk_lock_holds(hanging->raising.lock) == 2);
}

/* The hold is as before. */
static void end_hanging_raise(struct hanging_raise *hanging)
{
    cr_assert_eq(hlk_lock_holds(hanging->raising.lock), 1);
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(hlk_lock_release(hanging->raising.lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    hlk_cancel_destroy(hanging->cancel);
    hlk_owner_destroy(hanging->owner);
}

Test(nested, raise_of_a_lease_is_ended_by_a_cancel)
{
    struct hanging_raise hanging;
    int64_t began = test_now_ms();
    start_hanging_raise(&hanging);
    hlk_cancel_trigger(hanging.cancel);
    pthread_join(hanging.thread, NULL);
    cr_assert_eq(hanging.raising.status, HLK_INTERRUPTED);
    cr_assert_lt(running_ms(began), 2500);
    end_hanging_raise(&hanging);
}

Test(nested, raise_of_a_lease_is_a_cancellation_point)
{
    struct hanging_raise hanging;
    void *result;
    start_hanging_raise(&hanging);
    cr_assert_eq(pthread_cancel(hanging.thread), 0);
    pthread_join(hanging.thread, &result);
    cr_assert(result == PTHREAD_CANCELED);
    end_hanging_raise(&hanging);
}

/* Both are queued. The first has a fixed lease, so it must be raised for the second, which is under the watchdog. */
Test(nested, raise_of_a_lease_serves_a_queued_second_thread)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *first = held(client, "t"), *owned = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts opts = fixed(1000, HLK_FOREVER);
    struct actor *a = actor_start(owned, &opts);
    WAIT_FOR_WAITERS(client, 1);
    struct actor *b = actor_start_wait(owned, HLK_FOREVER);
    WAIT_FOR_WAITERS(client, 2);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(actor_status(a), HLK_OK);
    cr_assert_eq(actor_status(b), HLK_OK);
    cr_assert_gt(hlk_lock_left_ms(owned), 5000);
    test_sleep_ms(1500);
    cr_assert_eq(hlk_lock_holds(owned), 2);
    cr_assert_eq(actor_end(a), HLK_OK);
    cr_assert_eq(actor_end(b), HLK_OK);
    hlk_owner_destroy(owner);
}

/* It was queued for most of its wait. The round trip has only the rest of that time. */
Test(nested, raise_of_a_lease_after_queueing_ends_with_the_wait)
{
    hlk_client *client = fixture_open(NULL); /* reply_timeout_ms is 3000 */
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *owned = fixture_owned(client, "t", owner), *elsewhere = fixture_held_elsewhere("t", 0);
    struct actor *first = actor_start(owned, NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    struct hlk_acquire_opts opts = fixed(60000, 1500);
    struct actor *second = actor_start(owned, &opts);
    WAIT_FOR_WAITERS(client, 2);
    test_sleep_ms(1200);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
    enum hlk_status status = actor_status(second);
    proxy_deliver(fixture.proxy, false);
    cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_status_name(status));
    cr_assert_lt(actor_running_ms(second), 1500 + 1000);
    (void)actor_end(second);
    cr_assert_eq(actor_end(first), HLK_OK);
    hlk_owner_destroy(owner);
}

/* It is unknown whether the server has raised it: the release is owed for as long as the ttl may last. */
Test(nested, unsure_raise_of_a_lease_leaves_nothing_held)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.watchdog_ms = 1000;
    client_opts.reply_timeout_ms = 200;
    client_opts.reconnect_timeout_ms = 300;
    hlk_lock *lock = held(fixture_open(&client_opts), "t");
    struct hlk_acquire_opts opts = fixed(3600000, 100);
    cr_assert_eq(hlk_lock_extend(lock, 100), HLK_OK); /* may have to send the script in full */
    proxy_refuse(fixture.proxy, true);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_TIMEOUT, "%s", hlk_last_error());
    proxy_wait_struck(fixture.proxy);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 3000000);
    enum hlk_status released = hlk_lock_release(lock);
    cr_assert(released == HLK_E_UNSURE || released == HLK_E_CONNECT, "%s", hlk_status_name(released));
    test_sleep_ms(1500); /* the watchdog's lease is over */
    proxy_refuse(fixture.proxy, false);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

struct in_doubt {
    hlk_lock *lock;
    enum hlk_status (*raise)(hlk_lock *lock);
    enum hlk_status status;
};

static enum hlk_status extend_by_an_hour(hlk_lock *lock)
{
    return hlk_lock_extend(lock, 3600000);
}

static enum hlk_status nest_for_an_hour(hlk_lock *lock)
{
    struct hlk_acquire_opts opts = fixed(3600000, HLK_FOREVER);
    return hlk_lock_acquire_with(lock, &opts);
}

static void *raises_in_doubt(void *arg)
{
    struct in_doubt *in_doubt = arg;
    in_doubt->status = in_doubt->raise(in_doubt->lock);
    return NULL;
}

/* The reply is lost, and the server is away until the hold is lost, or for longer than the call waits. The release is
 * owed for as long as the raised ttl may last, not only for the earlier lease. */
static void lost_with_a_raise_in_doubt(enum hlk_status (*raise)(hlk_lock *lock), int64_t reconnect_timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 200;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    hlk_client *client = fixture_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct in_doubt in_doubt = { .lock = fixture_owned(client, "t", owner), .raise = raise };
    struct hlk_acquire_opts first = fixed(1000, HLK_NOWAIT);
    pthread_t thread;
    cr_assert_eq(hlk_lock_acquire_with(in_doubt.lock, &first), HLK_OK);
    cr_assert_eq(hlk_lock_extend(in_doubt.lock, 100), HLK_OK); /* may have to send the script in full */
    proxy_refuse(fixture.proxy, true);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    pthread_create(&thread, NULL, raises_in_doubt, &in_doubt);
    proxy_wait_struck(fixture.proxy);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    test_sleep_ms(1500); /* the earlier lease is over */
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 3000000);
    proxy_refuse(fixture.proxy, false);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    pthread_join(thread, NULL);
    cr_assert_neq(in_doubt.status, HLK_OK);
    cr_assert_eq(hlk_lock_release(in_doubt.lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(in_doubt.lock), HLK_NOT_HOLDER);
    hlk_owner_destroy(owner);
}

Test(nested, extend_in_doubt_of_a_lost_hold_leaves_nothing_held)
{
    lost_with_a_raise_in_doubt(extend_by_an_hour, 10000);
    lost_with_a_raise_in_doubt(extend_by_an_hour, 1200);
}

Test(nested, raise_in_doubt_of_a_lost_hold_leaves_nothing_held)
{
    lost_with_a_raise_in_doubt(nest_for_an_hour, 10000);
    lost_with_a_raise_in_doubt(nest_for_an_hour, 1200);
}

/* --- replies after the end of the hold */

static void late_answers(hlk_lock *lock, enum hlk_status (*call)(hlk_lock *lock))
{
    proxy_delay(fixture.proxy, 0, 1200); /* the server runs it at once, the reply is late */
    cr_assert_eq(call(lock), HLK_LOST, "%s", hlk_last_error());
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 1u);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

static enum hlk_status extend_to_10_s(hlk_lock *lock)
{
    return hlk_lock_extend(lock, 10000);
}

static enum hlk_status nest_for_10_s(hlk_lock *lock)
{
    struct hlk_acquire_opts opts = fixed(10000, HLK_FOREVER);
    return hlk_lock_acquire_with(lock, &opts);
}

Test(nested, extend_that_is_answered_after_the_loss_is_lost)
{
    late_answers(held_for(fixture_open(NULL), "t", 1000), extend_to_10_s);
}

Test(nested, raise_that_is_answered_after_the_loss_is_lost)
{
    late_answers(held_for(fixture_open(NULL), "t", 1000), nest_for_10_s);
}

Test(nested, extend_when_max_hold_is_over_is_lost)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 300;
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", &opts);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK);
        while (hlk_lock_left_ms(lock) > 0)
            ;
        cr_assert_eq(hlk_lock_extend(lock, 1000), HLK_LOST, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    }
}

Test(nested, extend_is_refused_beyond_the_cap)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 20000;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_E_INVALID);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 30000, "who dies now leaves it no longer than the watchdog's lease");
    cr_assert_eq(hlk_lock_extend(lock, 10000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- an inner release */

/* Threads of one owner release at the same time. If a count is written after the other thread's last release, nothing
 * is lost. */
static void *nests_and_releases(void *arg)
{
    hlk_lock *lock = arg;
    struct hlk_acquire_opts opts = fixed(30000, HLK_FOREVER);
    int64_t lost = 0;
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
        lost += hlk_lock_release(lock) != HLK_OK;
    }
    return (void *)(intptr_t)lost;
}

Test(nested, release_beside_the_owners_other_thread_is_no_loss)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, nests_and_releases, lock);
    for (int i = 0; i < 2; i++) {
        void *lost;
        pthread_join(threads[i], &lost);
        cr_assert_null(lost);
    }
    hlk_owner_destroy(owner);
}

/* Written in the background, without a waiting caller. A loss that it finds out is reported all the same. */
Test(nested, background_release_that_finds_a_loss_tells_it)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts opts = fixed(60000, HLK_NOWAIT);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    raw(fixture.redis, "DEL t");
    hlk_owner_destroy(owner);
}

/* --- very large durations */

Test(nested, and_other_holds_may_be_wanted_for_ages)
{
    static const int64_t ages[] = { INT64_MAX, INT64_MAX - 3000, INT64_MAX / 1000000, INT64_MAX / 1000000 - 1 };
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        struct hlk_client_opts client_opts = fixture_opts();
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        struct hlk_acquire_opts acquire = fixed(30000, ages[i]);
        client_opts.reconnect_timeout_ms = ages[i];
        client_opts.flags = i % 2 ? HLK_OPEN_NO_SPIN : 0;
        opts.max_hold_ms = ages[i];
        hlk_client *client = fixture_open(&client_opts);
        hlk_lock *lock = fixture_lock(client, "t", &opts);
        cr_assert_eq(hlk_lock_acquire(lock, ages[i]), HLK_OK, "%s", hlk_last_error());
        struct actor *waiter = actor_start_wait(fixture_lock(client, "t", NULL), ages[i]);
        WAIT_FOR_WAITERS(client, 1);
        cr_assert_eq(hlk_lock_acquire_with(lock, &acquire), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
}

/* --- a pending pthread_cancel */

struct edge {
    hlk_client *client;
    hlk_lock *lock, *owned;
    const char *came_out_of;
    sem_t completed;
};

static void *passes_it_on(void *arg)
{
    struct edge *edge = arg;
    if (hlk_lock_acquire(edge->lock, HLK_NOWAIT) != HLK_OK)
        return NULL;
    WAIT_FOR_WAITERS(edge->client, 1);
    pthread_cancel(pthread_self());
    (void)hlk_lock_release(edge->lock);
    edge->came_out_of = "release";
    pthread_testcancel();
    return NULL;
}

static void *writes_a_count(void *arg)
{
    struct edge *edge = arg;
    struct hlk_acquire_opts opts = fixed(30000, HLK_NOWAIT);
    if (hlk_lock_acquire_with(edge->lock, &opts) != HLK_OK || hlk_lock_acquire_with(edge->lock, &opts) != HLK_OK)
        return NULL;
    pthread_cancel(pthread_self());
    (void)hlk_lock_release_async(edge->lock, NULL, NULL);
    edge->came_out_of = "release_async";
    (void)hlk_lock_release_async(edge->lock, NULL, NULL);
    pthread_testcancel();
    return NULL;
}

static void *releases_what_was_lost(void *arg)
{
    struct edge *edge = arg;
    if (hlk_lock_lost_fd(edge->lock) < 0 || hlk_lock_acquire(edge->lock, HLK_NOWAIT) != HLK_OK)
        return NULL;
    raw(fixture.redis, "DEL t");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    pthread_cancel(pthread_self());
    (void)hlk_lock_release(edge->lock);
    edge->came_out_of = "release";
    pthread_testcancel();
    return NULL;
}

static void ignore(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock, (void)status;
    sem_post(ctx);
}

static void *asks_without_waiting(void *arg)
{
    struct edge *edge = arg;
    pthread_cancel(pthread_self());
    if (hlk_lock_acquire_async(edge->owned, NULL, ignore, &edge->completed) == HLK_OK)
        edge->came_out_of = "acquire_async";
    pthread_testcancel();
    return NULL;
}

/* The thread ends right after the call, not in it. */
static void ends_after(void *(*call)(void *), struct edge *edge)
{
    pthread_t thread;
    void *ended;
    pthread_create(&thread, NULL, call, edge);
    pthread_join(thread, &ended);
    cr_assert_eq(ended, PTHREAD_CANCELED);
    cr_assert_str_not_empty(edge->came_out_of);
}

Test(nested, or_last_release_is_no_cancellation_point)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct edge edge = { client, fixture_lock(client, "t", NULL), fixture_owned(client, "t", owner), "", { { 0 } } };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.flags = HLK_ACQUIRE_EINTR; /* such a waiter is woken by a write */
    hlk_lock *behind = fixture_lock(client, "t", NULL);
    pthread_t thread;
    void *ended;
    pthread_create(&thread, NULL, passes_it_on, &edge);
    WAIT_FOR(raw_pttl(fixture.redis, "t") > 0);
    struct actor *waiter = actor_start(behind, &opts);
    pthread_join(thread, &ended);
    cr_assert_eq(ended, PTHREAD_CANCELED);
    cr_assert_str_not_empty(edge.came_out_of);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    edge.came_out_of = "";
    ends_after(writes_a_count, &edge);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    edge.came_out_of = "";
    ends_after(releases_what_was_lost, &edge);
    edge.came_out_of = "";
    sem_init(&edge.completed, 0, 0);
    ends_after(asks_without_waiting, &edge);
    sem_wait(&edge.completed);
    cr_assert_eq(hlk_lock_release(edge.owned), HLK_OK);
    cr_assert_eq(fixture_try(behind), HLK_OK);
    hlk_owner_destroy(owner);
}
