/* Waits whose messages are lost, late or held back. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static void start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES); /* on a slow machine a reply may miss a short reply_timeout_ms */
}

TestSuite(wait_wire, .init = start_proxied, .fini = fixture_end, .timeout = 90);

/* asks A1 redisson 1763: released before the subscription is confirmed, without a message */
Test(wait_wire, loses_no_wake_while_its_subscription_is_on_the_way)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    hlk_client *client = fixture_open(NULL);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 1);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(proxy_messages(fixture.proxy), 0u);
    proxy_deliver(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* asks A1 redisson 1763: the confirmation itself is late, by any time */
Test(wait_wire, loses_no_wake_while_the_confirmation_is_late)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 60000; /* else a silent subscriber counts as dead and is replaced */
    hlk_client *client = fixture_open(&opts);
    proxy_hold_confirmations(fixture.proxy, true);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    proxy_hold_confirmations(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* asks A1 redisson 5761: all messages dropped: waits last at most for the ttl */
/* Shows: S18 */
Test(wait_wire, with_messages_dropped_ends_by_the_ttl_it_was_told)
{
    hlk_client *client = fixture_open(NULL);
    proxy_drop_messages(fixture.proxy, true);
    for (int i = 0; i < 5; i++) {
        hlk_lock *theirs = fixture_held_elsewhere("t", 400), *lock = fixture_lock(client, "t", NULL);
        struct actor *waiter = actor_start(lock, NULL);
        WAIT_FOR(raw_listeners(fixture.redis, "t") == 1 || actor_answered(waiter)); /* it has the lock already */
        hlk_lock_release(theirs); /* LOST if this thread was slow: then the ttl has ended too */
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    cr_assert_eq(fixture_counters(client).woken, 0u);
}

Test(wait_wire, with_messages_dropped_gives_each_thread_its_turn)
{
    enum { THREADS = 6 };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 200; /* so its lease limits the next one's wait */
    hlk_client *clients[2] = { fixture_open(NULL), fixture_open(NULL) };
    proxy_drop_messages(fixture.proxy, true);
    struct actor *waiters[THREADS];
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(fixture_lock(clients[i % 2], "t", NULL), &opts);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(actor_status(waiters[i]), HLK_OK);
        actor_end(waiters[i]); /* OK, or LOST if the thread was stopped for 200 ms */
    }
}

/* asks A10 hiredis 970: a subscription that silently died is noticed */
Test(wait_wire, notices_a_silent_subscriber)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 500;
    hlk_client *client = fixture_open(&opts);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    uint64_t accepted = proxy_accepted(fixture.proxy);
    proxy_freeze_subscribers(fixture.proxy, true);
    WAIT_FOR(proxy_accepted(fixture.proxy) > accepted); /* it has given up the silent one and dials again */
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    proxy_freeze_subscribers(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* --- the reply takes longer than the wait */

enum { SHORT_MS = 60, LATE_MS = 400 };

static void assert_ends_in_time(hlk_lock *lock, int64_t wait_ms, enum hlk_status status)
{
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, wait_ms), status, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, wait_ms);
    cr_assert_not_null(strstr(hlk_last_error(), "the server has not answered; what was sent is taken back"), "%s",
                       hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

/* The deadline has passed: whatever else has happened is rolled back by the library, and is of no concern to the
 * caller. */
Test(wait_wire, ending_before_the_answer_times_out_leaving_nothing)
{
    static const int kinds[] = { HLK_LOCK_PLAIN, HLK_LOCK_FENCED,        HLK_LOCK_FAIR,
                                 HLK_LOCK_SPIN,  HLK_LOCK_NON_REENTRANT, HLK_LOCK_NON_REENTRANT_FAIR,
                                 HLK_LOCK_STRING };
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reply_timeout_ms = 2 * LATE_MS;
    hlk_client *client = fixture_open(&client_opts);
    server_allow(fixture.server, "redisson_lock_token:*");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kinds[i];
        char name[] = { 't', (char)('0' + i), '\0' };
        hlk_lock *lock = fixture_lock(client, name, &opts);
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error()); /* makes the scripts known */
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        uint64_t timeouts = fixture_counters(client).timeouts;
        proxy_delay(fixture.proxy, 0, LATE_MS);
        assert_ends_in_time(lock, SHORT_MS, HLK_TIMEOUT);
        proxy_delay(fixture.proxy, 0, 0);
        cr_assert_eq(fixture_counters(client).timeouts, timeouts + 1);
        WAIT_FOR(raw_pttl(fixture.redis, name) == -2);
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
}

/* One try waits for reply_timeout_ms. */
Test(wait_wire, that_is_one_try_is_busy_when_no_answer_comes)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = LATE_MS;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    proxy_freeze(fixture.proxy, true);
    int64_t began = test_now_ms();
    assert_ends_in_time(lock, HLK_NOWAIT, HLK_BUSY);
    cr_assert_geq(test_now_ms() - began, LATE_MS - 1);
    cr_assert_eq(fixture_counters(client).busy, 1u);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR(hlk_lock_acquire(lock, 5000) == HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}
