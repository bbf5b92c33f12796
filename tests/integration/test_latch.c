/* hlk_latch: its count and its key as Redisson has them, and waits that end: by the last count down, a delete, a poll,
 * a deadline, a cancel, a signal, a close. */
/* Shows: P48 */
#include "support/fixture.h"
#include "support/script.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { MANY = 64, POLL_MS = 5000 };

#define NOTES "hasplock_queue:{t}" /* of the last opening */
#define CHANNEL "redisson_countdownlatch__channel__{t}"

static hlk_client *client;
static hlk_latch *latch;

static hlk_latch *make(hlk_client *of, const char *name)
{
    hlk_latch *made = hlk_latch_create(of, name);
    cr_assert_not_null(made, "%s", hlk_last_error());
    return made;
}

static void up(unsigned flags)
{
    fixture_begin(flags);
    server_allow(fixture.server, NOTES);
    struct hlk_client_opts opts = fixture_opts();
    if (flags & STAGE_PROXY)
        opts.reply_timeout_ms = 1000;
    client = fixture_open(&opts);
    latch = make(client, "t");
}

static void start(void)
{
    up(0);
}

static void start_proxied(void)
{
    up(STAGE_PROXY);
}

static void stop(void)
{
    hlk_latch_destroy(latch);
    fixture_end();
}

TestSuite(latch, .init = start, .fini = stop, .timeout = 60);
TestSuite(latch_wire, .init = start_proxied, .fini = stop, .timeout = 60);

static int64_t asked; /* how often a count was read when the latch was set last */

static void set(int64_t count)
{
    cr_assert_eq(hlk_latch_try_set(latch, count), HLK_OK, "%s", hlk_last_error());
    asked = raw_stat(fixture.redis, "keyspace_hits");
}

static int64_t down(int64_t n)
{
    int64_t left = -1;
    cr_assert_eq(hlk_latch_count_down(latch, n, &left), HLK_OK, "%s", hlk_last_error());
    return left;
}

/* The last count down, on a connection that no proxy breaks. */
static const char *script_down(void)
{
    return script_run(fixture.redis, HLK_SCRIPT_LATCH_DOWN, 2, "t", NOTES, "1", CHANNEL, NULL);
}

static int64_t count(void)
{
    int64_t now = -1;
    cr_assert_eq(hlk_latch_count(latch, &now), HLK_OK, "%s", hlk_last_error());
    return now;
}

static int64_t subscribed(void)
{
    const char *numsub = raw(fixture.redis, "PUBSUB NUMSUB " CHANNEL);
    return strtoll(strrchr(numsub, ':') + 1, NULL, 10);
}

/* --- threads that wait */

struct waiter {
    hlk_latch *latch;
    struct hlk_acquire_opts opts;
    enum hlk_status status;
    int64_t took_ms;
    char error[256];
    atomic_bool answered;
    pthread_t thread;
};

static void *waits(void *arg)
{
    struct waiter *waiter = arg;
    int64_t began = test_now_ms();
    waiter->status = hlk_latch_await_with(waiter->latch, &waiter->opts);
    waiter->took_ms = test_now_ms() - began;
    strncpy(waiter->error, hlk_last_error(), sizeof waiter->error - 1);
    atomic_store(&waiter->answered, true);
    return NULL;
}

static void waiter_start(struct waiter *waiter, hlk_latch *of)
{
    if (!waiter->opts.size)
        waiter->opts = (struct hlk_acquire_opts)HLK_ACQUIRE_OPTS_INIT;
    waiter->latch = of;
    cr_assert_eq(pthread_create(&waiter->thread, NULL, waits, waiter), 0);
}

static enum hlk_status waiter_end(struct waiter *waiter)
{
    cr_assert_eq(pthread_join(waiter->thread, NULL), 0);
    return waiter->status;
}

/* They sleep: each has asked, subscribed, and asked once more. Nobody else has asked since the set. */
static void settle(struct waiter *waiters, int n)
{
    WAIT_FOR_WAITERS(client, n);
    WAIT_FOR(raw_stat(fixture.redis, "keyspace_hits") >= asked + 2 * n);
    cr_assert_eq(subscribed(), 1);
    cr_assert_eq(raw_inboxes(fixture.redis), 0);
    for (int i = 0; i < n; i++)
        cr_assert(!atomic_load(&waiters[i].answered));
}

/* --- the count */

Test(latch, counts_down_to_0_and_leaves_no_key)
{
    cr_assert_eq(count(), 0);
    set(3);
    cr_assert_str_eq(raw(fixture.redis, "GET t"), "\"3\"");
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -1);
    cr_assert_eq(down(1), 2);
    cr_assert_eq(count(), 2);
    cr_assert_eq(down(2), 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    cr_assert_eq(count(), 0);
}

Test(latch, never_counts_below_0)
{
    cr_assert_eq(down(1), 0);
    set(2);
    cr_assert_eq(down(HLK_LATCH_MAX), 0);
    cr_assert_eq(down(5), 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
}

Test(latch, is_set_only_while_its_count_is_0)
{
    set(1);
    cr_assert_eq(hlk_latch_try_set(latch, 5), HLK_BUSY);
    cr_assert_eq(count(), 1);
    cr_assert_eq(down(1), 0);
    set(HLK_LATCH_MAX);
    cr_assert_eq(count(), HLK_LATCH_MAX);
    cr_assert_eq(down(1), HLK_LATCH_MAX - 1);
    cr_assert_eq(hlk_latch_delete(latch), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_latch_delete(latch), HLK_NOT_HOLDER);
}

/* Redisson's trySetCount(0) leaves a key with which no later trySetCount succeeds. */
Test(latch, whose_key_has_0_is_one_without_a_count)
{
    raw(fixture.redis, "SET t 0");
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_OK);
    set(2);
    cr_assert_eq(count(), 2);
    raw(fixture.redis, "SET t 0");
    cr_assert_eq(down(1), 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
}

Test(latch, refuses_what_is_out_of_range)
{
    int64_t left = 7;
    cr_assert_eq(hlk_latch_try_set(latch, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_try_set(latch, HLK_LATCH_MAX + 1), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_count_down(latch, 0, &left), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_count(latch, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_await_async(latch, NULL, NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_await(NULL, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_latch_count_down(NULL, 1, &left), HLK_E_INVALID);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 1000;
    cr_assert_eq(hlk_latch_await_with(latch, &opts), HLK_E_INVALID);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = 24;
    cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
    cr_assert_null(hlk_latch_create(client, ""));
    cr_assert_eq(left, 7);
    cr_assert_str_eq(hlk_latch_name(latch), "t");
}

Test(latch, leaves_another_type_of_its_name_alone)
{
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_latch_try_set(latch, 1), HLK_E_SERVER);
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_E_SERVER);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_eq(hlk_latch_delete(latch), HLK_E_SERVER);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "SET t word");
    cr_assert_eq(hlk_latch_try_set(latch, 1), HLK_E_SERVER);
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_E_SERVER);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "await \"t\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_latch_delete(latch), HLK_E_SERVER);
    cr_assert_str_eq(raw(fixture.redis, "GET t"), "\"word\"");
    raw(fixture.redis, "DEL t");
}

/* --- waits */

Test(latch, lets_everybody_pass_while_its_count_is_0)
{
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_latch_await(latch, HLK_FOREVER), HLK_OK);
    cr_assert_eq(fixture_counters(client).held, 0u);
    cr_assert_eq(fixture_counters(client).acquired, 0u);
}

Test(latch, is_busy_or_times_out_while_its_count_is_not_0)
{
    set(2);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_latch_await(latch, -52), HLK_BUSY);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_latch_await(latch, 150), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began, 150);
    cr_assert_not_null(strstr(hlk_last_error(), "await \"t\" at "), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "its count is 2"), "%s", hlk_last_error());
    cr_assert_eq(down(2), 0);
}

Test(latch, wakes_a_waiter_by_the_last_count_down_only)
{
    struct waiter waiter = { 0 };
    set(2);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    cr_assert_eq(down(1), 1);
    cr_assert(!atomic_load(&waiter.answered));
    cr_assert_eq(down(1), 0);
    cr_assert_eq(waiter_end(&waiter), HLK_OK, "%s", waiter.error);
    cr_assert_lt(waiter.took_ms, POLL_MS);
    cr_assert_eq(fixture_counters(client).woken, 1u);
}

/* Redisson's delete() publishes a message that wakes nobody. */
Test(latch, wakes_its_waiters_when_it_is_deleted)
{
    struct waiter waiter = { 0 };
    set(2);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    hlk_latch *other = make(fixture_open(NULL), "t");
    cr_assert_eq(hlk_latch_delete(other), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(waiter_end(&waiter), HLK_OK, "%s", waiter.error);
    cr_assert_lt(waiter.took_ms, POLL_MS);
    hlk_latch_destroy(other);
}

Test(latch, wakes_its_waiters_when_redisson_deletes_it)
{
    struct waiter waiter = { 0 };
    set(2);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH " CHANNEL " 1");
    cr_assert_eq(waiter_end(&waiter), HLK_OK, "%s", waiter.error);
    cr_assert_lt(waiter.took_ms, POLL_MS);
}

/* Redisson 4.7: await() returns. The data may be lost, and nobody has counted down. */
/* Shows: S6 */
Test(latch, never_opens_because_the_server_has_lost_it)
{
    struct waiter waiter = { 0 };
    set(2);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    raw(fixture.redis, "FLUSHALL");
    cr_assert_eq(waiter_end(&waiter), HLK_LOST, "%s", waiter.error);
    cr_assert_lt(waiter.took_ms, 2 * POLL_MS);
    cr_assert(strstr(waiter.error, "\"t\"") && strstr(waiter.error, "its count is gone"), "%s", waiter.error);
}

/* It was counted down, and set again before any waiter could look. */
Test(latch, lets_all_waiters_pass_even_if_set_again_at_once)
{
    static struct waiter waiters[MANY];
    set(1);
    for (int i = 0; i < MANY; i++)
        waiter_start(&waiters[i], latch);
    settle(waiters, MANY);
    raw(fixture.redis, "MULTI");
    (void)script_down();
    raw(fixture.redis, "SET t 3");
    raw(fixture.redis, "EXEC");
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(waiter_end(&waiters[i]), HLK_OK, "%s", waiters[i].error);
    cr_assert_eq(count(), 3);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_BUSY, "a new wait is for the new count");
    cr_assert_eq(down(3), 0);
}

Test(latch, wakes_all_waiters_of_a_process_by_one_subscription)
{
    static struct waiter waiters[MANY];
    set(1);
    for (int i = 0; i < MANY; i++)
        waiter_start(&waiters[i], latch);
    settle(waiters, MANY);
    cr_assert_eq(raw_clients(fixture.redis, "pubsub"), 1);
    cr_assert_eq(down(1), 0);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(waiter_end(&waiters[i]), HLK_OK, "%s", waiters[i].error);
        cr_assert_lt(waiters[i].took_ms, POLL_MS);
    }
    cr_assert_eq(fixture_counters(client).woken, (uint64_t)MANY);
}

Test(latch, is_used_again_after_it_was_counted_down)
{
    for (int round = 0; round < 20; round++) {
        struct waiter waiters[4] = { 0 };
        set(2);
        for (int i = 0; i < 4; i++)
            waiter_start(&waiters[i], latch);
        WAIT_FOR_WAITERS(client, 4);
        cr_assert_eq(down(2), 0);
        for (int i = 0; i < 4; i++)
            cr_assert_eq(waiter_end(&waiters[i]), HLK_OK, "%s", waiters[i].error);
    }
}

Test(latch, ends_a_wait_by_a_cancel)
{
    struct waiter waiter = { .opts = HLK_ACQUIRE_OPTS_INIT };
    hlk_cancel *cancel = hlk_cancel_create(client);
    waiter.opts.cancel = cancel;
    set(1);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(waiter_end(&waiter), HLK_INTERRUPTED);
    cr_assert_not_null(strstr(waiter.error, "await \"t\""), "%s", waiter.error);
    hlk_cancel_destroy(cancel);
    cr_assert_eq(down(1), 0);
}

static void on_signal(int number)
{
    (void)number;
}

Test(latch, ends_a_wait_by_a_signal)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    struct waiter waiter = { .opts = HLK_ACQUIRE_OPTS_INIT };
    waiter.opts.flags = HLK_ACQUIRE_EINTR;
    set(1);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    while (!atomic_load(&waiter.answered)) { /* one that runs just before the sleep does not count */
        pthread_kill(waiter.thread, SIGUSR1);
        sched_yield();
    }
    cr_assert_eq(waiter_end(&waiter), HLK_INTERRUPTED);
    cr_assert_eq(down(1), 0);
}

Test(latch, ends_a_wait_by_pthread_cancel)
{
    struct waiter waiter = { 0 };
    set(1);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    cr_assert_eq(pthread_cancel(waiter.thread), 0);
    void *result;
    cr_assert_eq(pthread_join(waiter.thread, &result), 0);
    cr_assert_eq(result, PTHREAD_CANCELED);
    cr_assert_eq(down(1), 0);
    WAIT_FOR(subscribed() == 0);
}

Test(latch, ends_its_waits_when_the_client_is_closed)
{
    struct waiter waiter = { 0 };
    hlk_client *other = fixture_open(NULL);
    hlk_latch *theirs = make(other, "t");
    set(1);
    waiter_start(&waiter, theirs);
    WAIT_FOR_WAITERS(other, 1);
    fixture_close(other);
    cr_assert_eq(waiter_end(&waiter), HLK_E_CLOSED);
    cr_assert_eq(hlk_latch_await(theirs, HLK_NOWAIT), HLK_E_CLOSED);
    hlk_latch_destroy(theirs);
    cr_assert_eq(down(1), 0);
}

/* --- without a blocked thread */

struct outcome {
    atomic_int ok, interrupted, closed, other;
};

static void on_done(hlk_latch *of, enum hlk_status status, void *ctx)
{
    struct outcome *outcome = ctx;
    (void)of;
    atomic_fetch_add(status == HLK_OK            ? &outcome->ok
                     : status == HLK_INTERRUPTED ? &outcome->interrupted
                     : status == HLK_E_CLOSED    ? &outcome->closed
                                                 : &outcome->other,
                     1);
}

Test(latch, completes_any_number_of_async_waits)
{
    struct outcome outcome = { 0 };
    set(1);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(hlk_latch_await_async(latch, NULL, on_done, &outcome), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR_WAITERS(client, MANY);
    WAIT_FOR(subscribed() == 1);
    cr_assert_eq(outcome.ok, 0);
    cr_assert_eq(down(1), 0);
    WAIT_FOR(outcome.ok == MANY);
}

Test(latch, completes_a_cancelled_or_closed_async_wait)
{
    struct outcome outcome = { 0 };
    hlk_client *other = fixture_open(NULL);
    hlk_latch *theirs = make(other, "t");
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    set(1);
    cr_assert_eq(hlk_latch_await_async(latch, &opts, on_done, &outcome), HLK_OK);
    cr_assert_eq(hlk_latch_await_async(theirs, NULL, on_done, &outcome), HLK_OK);
    hlk_latch_destroy(theirs); /* it keeps what it needs */
    WAIT_FOR_WAITERS(other, 1);
    hlk_cancel_trigger(cancel);
    WAIT_FOR(outcome.interrupted == 1);
    fixture_close(other);
    cr_assert_eq(outcome.closed, 1);
    hlk_cancel_destroy(cancel);
    cr_assert_eq(down(1), 0);
}

/* --- faults of the wire */

/* Redisson's await() has no poll: a lost message leaves it blocked. */
Test(latch_wire, lets_its_waiters_pass_although_the_message_is_lost)
{
    struct waiter waiters[2] = { 0 };
    set(1);
    proxy_drop_messages(fixture.proxy, true);
    for (int i = 0; i < 2; i++)
        waiter_start(&waiters[i], latch);
    settle(waiters, 2);
    cr_assert_eq(down(1), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(waiter_end(&waiters[i]), HLK_OK, "%s", waiters[i].error);
    cr_assert_eq(fixture_counters(client).woken, 0u);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 2u);
}

/* The count becomes 0 between the answer and the subscription. */
Test(latch_wire, loses_no_wake_while_its_subscription_is_on_the_way)
{
    struct waiter waiter = { 0 };
    set(1);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 1);
    waiter_start(&waiter, latch);
    proxy_wait_struck(fixture.proxy);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH " CHANNEL " 0");
    proxy_deliver(fixture.proxy, false);
    cr_assert_eq(waiter_end(&waiter), HLK_OK, "%s", waiter.error);
    cr_assert_lt(waiter.took_ms, POLL_MS);
}

static enum hlk_status await_past_a_broken_subscription(void (*opens)(void))
{
    struct waiter waiter = { 0 };
    set(1);
    waiter_start(&waiter, latch);
    settle(&waiter, 1);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    opens();
    proxy_refuse(fixture.proxy, false);
    enum hlk_status status = waiter_end(&waiter);
    cr_assert_lt(waiter.took_ms, POLL_MS);
    return status;
}

static void opened_by_us(void)
{
    (void)script_down();
}

static void opened_by_redisson(void)
{
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH " CHANNEL " 0");
}

Test(latch_wire, loses_no_wake_when_the_subscription_breaks)
{
    cr_assert_eq(await_past_a_broken_subscription(opened_by_us), HLK_OK);
}

/* Redisson notes nothing in Redis. Nobody can know that it was not the data that was lost. */
/* Shows: S6 */
Test(latch_wire, is_lost_if_redisson_opened_it_unheard)
{
    cr_assert_eq(await_past_a_broken_subscription(opened_by_redisson), HLK_LOST);
}

/* Redisson, but for a single server, repeats such a count down, and counts twice. */
Test(latch_wire, counts_once_and_says_unsure_when_an_answer_is_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_AFTER, PROXY_SWALLOW };
    set(5);
    cr_assert_eq(down(1), 4); /* the script is known */
    for (int i = 0; i < 2; i++) {
        int64_t left = 77;
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_latch_count_down(latch, 1, &left), HLK_E_UNSURE, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(left, 77);
        cr_assert_eq(count(), 3 - i);
    }
    cr_assert_eq(down(2), 0);
}

/* Nobody knows that it did not arrive. */
Test(latch_wire, is_unsure_also_when_the_command_is_lost)
{
    set(2);
    cr_assert_eq(down(1), 1);
    proxy_arm(fixture.proxy, PROXY_CUT_BEFORE, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert_eq(count(), 1);
    cr_assert_eq(down(1), 0);
}

Test(latch_wire, counts_once_when_the_server_forgot_the_script)
{
    set(5);
    cr_assert_eq(down(1), 4);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(down(1), 3);
    cr_assert_eq(down(3), 0);
}

Test(latch_wire, is_unsure_after_a_lost_answer_to_set_or_delete)
{
    set(1);
    cr_assert_eq(hlk_latch_delete(latch), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_latch_try_set(latch, 2), HLK_E_UNSURE);
    cr_assert_eq(count(), 2);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_latch_delete(latch), HLK_E_UNSURE);
    cr_assert_eq(count(), 0);
}

Test(latch_wire, asks_again_when_an_answer_to_a_wait_is_lost)
{
    set(1);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_BUSY);
    struct waiter waiter = { 0 };
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    waiter_start(&waiter, latch);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(down(1), 0);
    cr_assert_eq(waiter_end(&waiter), HLK_OK, "%s", waiter.error);
}

Test(latch_wire, times_out_at_its_deadline_without_an_answer)
{
    set(1);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_BUSY);
    proxy_freeze(fixture.proxy, true);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_latch_await(latch, 100), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began, 100);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR(hlk_latch_delete(latch) == HLK_OK);
}
