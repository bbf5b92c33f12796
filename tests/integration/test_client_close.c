/* Closing a client that holds, waits, is active, or has lost its server. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(client_close, .init = start, .fini = fixture_end, .timeout = 90);

/* client.h: ends all waits, releases all holds */
Test(client_close, wakes_waiters_and_releases_holds)
{
    enum { THREADS = 8 };
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    struct actor *waiters[THREADS];
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t1", NULL), HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t1", NULL), HLK_NOWAIT), HLK_OK); /* nested */
    cr_assert_eq(hlk_lock_acquire(fixture_owned(client, "t2", owner), HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "HSET t3 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(fixture_lock(client, i % 2 ? "t1" : "t3", NULL), NULL);
    WAIT_FOR_WAITERS(client, THREADS);
    fixture_close(client);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_E_CLOSED);
    cr_assert_eq(raw_pttl(fixture.redis, "t1"), -2);
    cr_assert_eq(raw_pttl(fixture.redis, "t2"), -2);
    raw(fixture.redis, "DEL t3");
    hlk_owner_destroy(owner);
}

/* PING is for what is on its way. */
Test(client_close, sends_nothing_if_everything_was_answered)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    int64_t pings = raw_calls(fixture.redis, "ping");
    fixture_close(client);
    cr_assert_eq(raw_calls(fixture.redis, "ping"), pings);
}

/* The first attempt of each release gets NOSCRIPT: close waits for the second one too. */
Test(client_close, releases_holds_when_the_server_forgot_the_scripts)
{
    for (int i = 0; i < 50; i++) {
        hlk_client *client = fixture_open(NULL);
        hlk_lock *locks[3];
        char name[32];
        for (int j = 0; j < 3; j++) {
            snprintf(name, sizeof name, "t%d", j);
            locks[j] = hlk_lock_create(client, name, NULL);
            cr_assert_eq(hlk_lock_acquire(locks[j], HLK_NOWAIT), HLK_OK);
        }
        raw(fixture.redis, "SCRIPT FLUSH");
        fixture_close(client);
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0, "round %d", i);
        for (int j = 0; j < 3; j++)
            hlk_lock_destroy(locks[j]);
    }
}

struct slow_hook {
    hlk_client *client;
    atomic_bool closing;
};

/* Runs until close has begun, and then for as long as close would need without the wait. */
static void tells_while_close_is_under_way(const struct hlk_event *event, void *ctx)
{
    struct slow_hook *hook = ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    WAIT_FOR(atomic_load(&hook->closing));
    for (int64_t until = test_now_ms() + 300; raw_int(fixture.redis, "DBSIZE") > 0 && test_now_ms() < until;)
        test_sleep_ms(1);
}

static void *closes(void *ctx)
{
    struct slow_hook *hook = ctx;
    atomic_store(&hook->closing, true);
    fixture_close(hook->client);
    return NULL;
}

/* max_hold_ms has ended the hold, but Redis has the watchdog's ttl. Its release is sent after the loss was reported. */
Test(client_close, ends_holds_whose_loss_is_being_told)
{
    static struct slow_hook hook;
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    pthread_t thread;
    opts.on_event = tells_while_close_is_under_way;
    opts.event_ctx = &hook;
    lock_opts.max_hold_ms = 100;
    hook.client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(hook.client, "t", &lock_opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(fixture_counters(hook.client).lost == 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    pthread_create(&thread, NULL, closes, &hook);
    pthread_join(thread, NULL);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(client_close, of_null_is_fine_and_handles_may_outlive_it)
{
    hlk_client_close(NULL);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    hlk_owner *owner = hlk_owner_create(client, "x");
    hlk_cancel *cancel = hlk_cancel_create(client);
    fixture_close(client);
    cr_assert_str_eq(hlk_lock_name(lock), "t");
    cr_assert_str_eq(hlk_owner_label(owner), "x");
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    hlk_cancel_destroy(cancel);
}

Test(client_close, leaves_no_connection_although_handles_live_on)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, 500), HLK_TIMEOUT); /* its client has subscribed */
    raw(fixture.redis, "DEL t");
    fixture_close(client);
    WAIT_FOR(raw_clients(fixture.redis, "normal") == 1 && raw_clients(fixture.redis, "pubsub") == 0);
    hlk_lock_destroy(lock);
    hlk_cancel_destroy(cancel);
}

static void *lock_until_closed(void *arg)
{
    enum hlk_status status;
    do {
        status = hlk_lock_acquire(arg, HLK_FOREVER);
        if (status == HLK_OK)
            status = hlk_lock_release(arg);
    } while (status == HLK_OK);
    return (void *)(intptr_t)status;
}

Test(client_close, while_threads_use_it_ends_all_their_calls)
{
    enum { THREADS = 8 };
    for (int round = 0; round < 10; round++) {
        pthread_t threads[THREADS];
        hlk_client *client = fixture_open(NULL);
        hlk_lock *locks[THREADS];
        for (int i = 0; i < THREADS; i++) {
            locks[i] = hlk_lock_create(client, i % 2 ? "t1" : "t2", NULL);
            pthread_create(&threads[i], NULL, lock_until_closed, locks[i]);
        }
        WAIT_FOR(fixture_counters(client).acquired > 20);
        fixture_close(client);
        for (int i = 0; i < THREADS; i++) {
            void *status;
            pthread_join(threads[i], &status);
            cr_assert(status == (void *)(intptr_t)HLK_E_CLOSED, "%s",
                      hlk_status_name((enum hlk_status)(intptr_t)status));
            hlk_lock_destroy(locks[i]);
        }
        const char *left = raw(fixture.redis, "KEYS *");
        cr_assert_str_eq(left, "[]", "left: %s", left);
    }
}

Test(client_close, of_a_server_that_is_gone_returns)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 300;
    for (int gone = 0; gone < 2; gone++) {
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = hlk_lock_create(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        if (gone) {
            redisFree(fixture.redis);
            server_kill(fixture.server);
        } else {
            server_pause(fixture.server);
        }
        fixture_close(client); /* returns while the server is away */
        cr_assert(fixture_logged("close: releases that are not answered: 1, the first one of \"t\""));
        hlk_lock_destroy(lock);
        if (gone) {
            server_restart(fixture.server, false);
            fixture.redis = raw_open(fixture.server);
        } else {
            server_resume(fixture.server);
            WAIT_FOR(raw_pttl(fixture.redis, "t") == -2 || raw_int(fixture.redis, "DEL t") == 1);
            server_allow(fixture.server, SERVER_TOMBSTONES);
        }
    }
}

static void on_event_after_close(const struct hlk_event *event, void *ctx)
{
    fixture_on_event(event, NULL);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

Test(client_close, delivers_what_is_due_and_nothing_afterwards)
{
    atomic_int message = 0;
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 300;
    opts.on_event = on_event_after_close;
    opts.event_ctx = &message;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    hlk_lock_release(lock);
    fixture_close(client);
    int at_close = atomic_load(&message);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 1u); /* an AT_RISK may have come before */
    test_sleep_ms(50);
    cr_assert_eq(atomic_load(&message), at_close);
}

static void close_it(const struct hlk_event *event, void *ctx)
{
    hlk_client **client = ctx;
    fixture_on_event(event, NULL);
    hlk_client_close(*client);
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
}

Test(client_close, in_a_callback_is_refused_aloud)
{
    hlk_client *client;
    struct hlk_client_opts opts = fixture_opts();
    opts.on_event = close_it;
    opts.event_ctx = &client;
    client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    WAIT_FOR(fixture_logged("called from a callback"));
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "it stays open");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}
