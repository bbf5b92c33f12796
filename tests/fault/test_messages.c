/* Failing messages and subscriptions: all messages are dropped, the confirmation comes seconds late, the subscriber
 * connection falls silent or cannot be opened, another client subscribes to everything.
 *
 * asks A1 redisson 1763: delaying the SUBSCRIBE reply by 5 s never loses a wake-up. A1 redisson 5761: dropping all
 * messages only makes waits as long as the ttl. A1 redisson 3891: such wakes are counted. A1 redisson 3.19. A1
 * spring-integration 3690: a timed wait never ends before its deadline. A10 hiredis 970, nekipelov 52: a silent
 * subscriber is noticed within two intervals. A5 redisson 3349: an uncontended release publishes nothing. */
#include "fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(messages, .init = start, .fini = fixture_end, .timeout = 90);

static hlk_client *open_with(int64_t reply_timeout_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = reply_timeout_ms;
    return fixture_open(&opts);
}

/* --- no message arrives */

enum { TTL_MS = 500, POLL_MS = 20 };

/* Shows: S18 */
Test(messages, that_are_dropped_make_a_wait_as_long_as_the_ttl)
{
    hlk_client *client = open_with(3000), *other = bystander();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    proxy_drop_messages(fixture.proxy, true);
    for (int i = 0; i < 5; i++) {
        hlk_lock *theirs = held_by_bystander(other, "t", TTL_MS);
        int64_t over_at = test_now_ms() + TTL_MS;
        struct actor *waiter = actor_start(lock, NULL);
        WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
        enum hlk_status status = hlk_lock_release(theirs);
        cr_assert(ONE_OF(status, HLK_OK, HLK_LOST)); /* LOST: this machine was stopped for so long */
        cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
        cr_assert_lt(actor_answered_at_ms(waiter), over_at + POLL_MS + 1000, "round %d", i);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.woken, 0u);
    cr_assert_leq(counters.woken_by_ttl, 5u);
    cr_assert_geq(proxy_messages(fixture.proxy), 1u, "there was something to drop");
}

Test(messages, that_are_dropped_end_no_timed_wait_early_or_late)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = open_with(3000);
    proxy_drop_messages(fixture.proxy, true);
    struct actor *waiter = actor_start_wait(fixture_lock(client, "t", NULL), 700);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK); /* ttl 30 s: the waiter learns of it at its deadline */
    enum hlk_status status = actor_status(waiter);
    cr_assert(ONE_OF(status, HLK_OK, HLK_TIMEOUT), "%s", actor_error(waiter));
    cr_assert_geq(actor_took_ms(waiter), 700);
    cr_assert_lt(actor_running_ms(waiter), 1700);
    cr_assert_eq(actor_end(waiter), status);
}

/* --- the subscription comes late */

/* asks A1 redisson 1763, literally: 5 s. Released before any subscription; the holder's ttl would last 30 s more. */
Test(messages, whose_subscription_is_5_s_late_are_not_missed)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = open_with(3000);
    proxy_hold_confirmations(fixture.proxy, true);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    struct actor *timed = actor_start_wait(fixture_lock(client, "t", NULL), 1000);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(timed), HLK_TIMEOUT, "it cannot hear yet, and its deadline is its deadline: %s",
                 actor_error(timed));
    cr_assert_geq(actor_took_ms(timed), 1000);
    actor_end(timed);
    while (test_now_ms() < began + 5000)
        test_sleep_ms(10);
    proxy_hold_confirmations(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_lt(running_between_ms(began, actor_answered_at_ms(waiter)), 15000);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* --- the subscriber falls silent */

/* While there are subscriptions, a ping is sent each second. After two without reply the connection is replaced. */
Test(messages, of_a_silent_subscriber_come_by_a_new_one_in_4_s)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = open_with(3000);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    uint64_t accepted = proxy_accepted(fixture.proxy);
    int64_t began = test_now_ms();
    proxy_freeze_subscribers(fixture.proxy, true);
    WAIT_FOR(proxy_accepted(fixture.proxy) > accepted);
    cr_assert_lt(running_ms(began), 3000 + 1000);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    proxy_freeze_subscribers(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_lt(running_between_ms(began, actor_answered_at_ms(waiter)), 10000,
                 "by its new subscription, not by the ttl");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* A wait whose subscription always fails still ends by the ttl: messages are only hints. */
Test(messages, whose_subscription_fails_make_a_wait_last_the_ttl)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", TTL_MS);
    hlk_client *client = open_with(REPLY_MS);
    proxy_refuse(fixture.proxy, true); /* the command connection is open, the subscriber's is not */
    struct actor *waiter = actor_start_wait(fixture_lock(client, "t", NULL), 10000);
    WAIT_FOR_WAITERS(client, 1);
    (void)hlk_lock_release(theirs);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_lt(actor_running_ms(waiter), TTL_MS + POLL_MS + 1500);
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

static bool is_busy_with_a_script(void)
{
    return strncmp(raw(fixture.redis, "PING"), "-BUSY", 5) == 0;
}

/* The server runs a long script meanwhile and refuses the subscription. The wait goes on. */
Test(messages, whose_subscription_is_refused_at_first_are_heard)
{
    hlk_client *client = open_with(3000);
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0), *lock = fixture_lock(client, "t", NULL);
    redisContext *script = raw_open(fixture.server);
    int done = 0;
    raw(fixture.redis, "CONFIG SET lua-time-limit 20");
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 1);
    struct actor *waiter = actor_start_wait(lock, WAIT_MS);
    proxy_wait_struck(fixture.proxy);
    redisAppendCommand(script, "EVAL %s 0", "while true do end");
    while (!done)
        cr_assert_eq(redisBufferWrite(script, &done), REDIS_OK);
    WAIT_FOR(is_busy_with_a_script());
    proxy_deliver(fixture.proxy, false);
    test_sleep_ms(200); /* longer than a pause, so it is refused more than once */
    raw(fixture.redis, "SCRIPT KILL");
    WAIT_FOR(!is_busy_with_a_script());
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1 || actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    redisFree(script);
}

/* --- another client is subscribed to everything */

static int64_t published(redisContext *everything)
{
    int64_t n = 0;
    while (raw_next_within(everything, 50))
        n++;
    return n;
}

Test(messages, are_not_sent_for_a_listener_to_everything)
{
    redisContext *everything = raw_open(fixture.server);
    hlk_client *clients[2] = { open_with(3000), open_with(3000) };
    raw(everything, "PSUBSCRIBE *"); /* after the clients: each tests its right to publish when it starts */
    hlk_lock *lock = fixture_lock(clients[0], "t", NULL), *theirs = fixture_lock(clients[1], "t", NULL);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(published(everything), 0, "a pattern is not a waiter");
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        struct actor *waiter = actor_start(theirs, NULL);
        WAIT_FOR_WAITERS(clients[1], 1);
        WAIT_FOR(raw_listeners(fixture.redis, "t") >= 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    cr_assert_geq(published(everything), 10);
    cr_assert_eq(fixture_counters(clients[0]).woken_by_ttl + fixture_counters(clients[1]).woken_by_ttl, 0u);
    redisFree(everything);
}

/* --- messages at the wrong moment */

/* Its client is subscribed, because it has just waited. */
static void waits_in_vain(hlk_client *client)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t-other", 0);
    fixture_wait_in_vain(fixture_lock(client, "t-other", NULL), client);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(raw_inboxes(fixture.redis), 1);
}

static void publish(hlk_client *client, const char *message)
{
    raw(fixture.redis, "PUBLISH hasplock_inbox:%s %b", hlk_client_id(client), message, strlen(message));
}

/* The break is read before the reply "acquired", which is older. The caller must not believe in the hold. */
Test(messages, of_a_break_that_overtake_the_answer_are_minded)
{
    hlk_client *client = open_with(WAIT_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    waits_in_vain(client);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *taker = actor_start_wait(lock, WAIT_MS);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_lock_break(fixture_lock(bystander(), "t", NULL)), HLK_OK);
    publish(client, "grant 999999 5000 0 t-unknown"); /* when it is handed back, the break before it was read */
    WAIT_FOR(proxy_seen(fixture.proxy, ":999999") > 0);
    proxy_deliver(fixture.proxy, false);
    cr_assert_eq(actor_status(taker), HLK_OK, "%s", actor_error(taker));
    cr_assert_not(is_free("t"), "it was told that it holds, after the break");
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 0u);
    cr_assert_eq(actor_end(taker), HLK_OK, "%s", hlk_last_error());
}

static struct {
    atomic_bool begun, over;
} telling;

static void tell_slowly(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    atomic_store(&telling.begun, true);
    WAIT_FOR(atomic_load(&telling.over));
}

/* The release of a lost hold waits until the loss was reported. A late grant of it must not send the release
 * earlier. */
Test(messages, of_a_late_grant_free_no_hold_before_a_loss_is_told)
{
    char text[320];
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = 3000;
    opts.on_event = tell_slowly;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    waits_in_vain(client);
    char hold[192];
    snprintf(hold, sizeof hold, "%s", hold_of(lock));
    const char *number = strrchr(hold, ':') + 1;
    snprintf(text, sizeof text, "broken %s 0 0 t", number); /* published without a break */
    publish(client, text);
    WAIT_FOR(atomic_load(&telling.begun));
    snprintf(text, sizeof text, "grant %s 5000 0 t", number);
    publish(client, text);
    publish(client, "grant 999999 5000 0 t-unknown"); /* when it is handed back, the message before it was read */
    WAIT_FOR(proxy_seen(fixture.proxy, ":999999") > 0);
    hlk_lock *sync = fixture_lock(client, "t-sync", NULL); /* and everything that it has sent was run */
    cr_assert_eq(hlk_lock_acquire(sync, HLK_NOWAIT), HLK_OK);
    cr_assert(is_held("t", hold), "free before its holder was told");
    atomic_store(&telling.over, true);
    WITHIN(WAIT_MS, is_free("t"));
    cr_assert_eq(hlk_lock_release(sync), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}
