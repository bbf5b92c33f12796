/* Waits whose messages are lost, late or held up on the way. */
#include "support/stage.h"

#include <criterion/criterion.h>

static void start_proxied(void)
{
    stage_up(STAGE_PROXY);
    server_allow(stage.server, SERVER_VOID); /* on a slow machine an answer may miss a short reply_ms */
}

TestSuite(wait_wire, .init = start_proxied, .fini = stage_down, .timeout = 90);

/* asks A1 redisson 1763: released before the subscription is confirmed, and nobody was told */
Test(wait_wire, loses_no_wake_while_its_subscription_is_on_the_way)
{
    hlk_lock *theirs = stage_held_elsewhere("t", 0);
    hlk_client *client = stage_open(NULL);
    proxy_arm(stage.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 1);
    struct actor *waiter = actor_start(stage_lock(client, "t", NULL), NULL);
    proxy_wait_struck(stage.proxy);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(proxy_messages(stage.proxy), 0u);
    proxy_deliver(stage.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* asks A1 redisson 1763: the confirmation itself is late, by as long as you like */
Test(wait_wire, loses_no_wake_while_the_confirmation_is_late)
{
    hlk_lock *theirs = stage_held_elsewhere("t", 0);
    struct hlk_client_opts opts = stage_opts();
    opts.reply_ms = 60000; /* else a silent subscriber counts as dead and is replaced */
    hlk_client *client = stage_open(&opts);
    proxy_hold_confirmations(stage.proxy, true);
    struct actor *waiter = actor_start(stage_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_inboxes(stage.redis) == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    proxy_hold_confirmations(stage.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* asks A1 redisson 5761: all messages dropped: waits only grow to the ttl */
Test(wait_wire, with_all_messages_dropped_ends_by_the_ttl_it_was_told)
{
    hlk_client *client = stage_open(NULL);
    proxy_drop_messages(stage.proxy, true);
    for (int i = 0; i < 5; i++) {
        hlk_lock *theirs = stage_held_elsewhere("t", 400), *lock = stage_lock(client, "t", NULL);
        struct actor *waiter = actor_start(lock, NULL);
        WAIT_FOR(raw_listeners(stage.redis, "t") == 1);
        hlk_lock_release(theirs); /* LOST if this thread was slow: the ttl has ended then, too */
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
    cr_assert_eq(stage_counters(client).woken, 0u);
}

Test(wait_wire, with_all_messages_dropped_many_threads_still_have_their_turns)
{
    enum { THREADS = 6 };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 200; /* so each is the next one's bound */
    hlk_client *clients[2] = { stage_open(NULL), stage_open(NULL) };
    proxy_drop_messages(stage.proxy, true);
    struct actor *waiters[THREADS];
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(stage_lock(clients[i % 2], "t", NULL), &opts);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(actor_status(waiters[i]), HLK_OK);
        actor_end(waiters[i]); /* OK, or LOST when it stood still for 200 ms */
    }
}

/* asks A10 hiredis 970: a subscription that silently died is noticed */
Test(wait_wire, notices_a_silent_subscriber)
{
    hlk_lock *theirs = stage_held_elsewhere("t", 0);
    struct hlk_client_opts opts = stage_opts();
    opts.reply_ms = 500;
    hlk_client *client = stage_open(&opts);
    struct actor *waiter = actor_start(stage_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(stage.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    uint64_t accepted = proxy_accepted(stage.proxy);
    proxy_freeze_subscribers(stage.proxy, true);
    WAIT_FOR(proxy_accepted(stage.proxy) > accepted); /* it gave the silent one up and dials again */
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    proxy_freeze_subscribers(stage.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}
