/* A grant is sent and does not arrive, because its subscriber is cut off or disconnected; and inbox messages that are
 * no valid grants. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    fault_up(0);
}

static void start_proxied(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(handoff_wire, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(handoff_proxied, .init = start_proxied, .fini = fixture_end, .timeout = 60);

enum { G_MS = 5000, FOUND_MS = 4500 }; /* two pings, a connection, a command: before the grant is over */

static const char *member_of(const char *name)
{
    static char member[256];
    redisReply *reply = redisCommand(fixture.redis, "ZRANGE hasplock_queue:{%s} 0 0", name);
    cr_assert_eq(reply->elements, 1u);
    snprintf(member, sizeof member, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return member;
}

/* Does what a release does (include_pass.lua), but floods the subscriber in the same script, so the server disconnects
 * it before the grant is in its buffer. */
Test(handoff_wire, grant_that_a_flood_swallows_is_found_by_asking)
{
    enum { FLOOD = 256 * 1024 };
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "CONFIG SET client-output-buffer-limit %s", "pubsub 8192 0 0");
    raw(fixture.redis, "HSET t hlk-other-1-x:1 1");
    raw(fixture.redis, "PEXPIRE t 30000");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    const char *member = member_of("t"), *id = strchr(member, ':') + 1;
    int field = (int)(id - member) + (int)strcspn(id, " ");
    char *flood = calloc(1, FLOOD + 1);
    memset(flood, 'x', FLOOD);
    raw(fixture.redis, "MULTI");
    raw(fixture.redis, "PUBLISH hasplock_inbox:%s %s", hlk_client_id(client), flood);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "HSET t %b 1", member, (size_t)field);
    raw(fixture.redis, "PEXPIRE t %d", G_MS);
    raw(fixture.redis, "ZREM hasplock_queue:{t} %s", member);
    raw(fixture.redis, "PUBLISH hasplock_inbox:%s %s", hlk_client_id(client), "grant 1 5000 0 t");
    int64_t granted_at = test_now_ms();
    raw(fixture.redis, "EXEC");
    free(flood);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_log_info("found after %d ms", (int)(actor_answered_at_ms(waiter) - granted_at));
    cr_assert_lt(running_between_ms(granted_at, actor_answered_at_ms(waiter)), FOUND_MS);
    cr_assert_eq(strncmp(raw_holder(fixture.redis, "t"), member, (size_t)field), 0, "the hold that was granted");
    cr_assert_eq(fixture_counters(client).granted, 0u, "no message told it");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert(is_free("t"));
}

/* The subscriber connection is silent, while the command connection works. */
Test(handoff_proxied, grant_to_a_silent_subscriber_is_found_in_time)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = fixture_open(NULL);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    char member[256];
    snprintf(member, sizeof member, "%s", member_of("t"));
    proxy_freeze_subscribers(fixture.proxy, true);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    const char *holder = raw_holder(fixture.redis, "t");
    cr_assert_eq(strncmp(holder, member, strlen(holder)), 0, "granted to it: %s", holder);
    uint64_t accepted = proxy_accepted(fixture.proxy);
    WAIT_FOR(proxy_accepted(fixture.proxy) > accepted);
    proxy_freeze_subscribers(fixture.proxy, false);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_log_info("found after %d ms", (int)(actor_answered_at_ms(waiter) - released_at));
    cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(waiter)), FOUND_MS);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert(is_free("t"));
}

/* --- invalid messages */

static void send_message(hlk_client *client, const char *what)
{
    raw(fixture.redis, "PUBLISH hasplock_inbox:%s %s", hlk_client_id(client), what);
}

/* Grants a hold of the client's that no waiter needs. When it was handed back, everything before it was read. */
static void tell_and_wait(hlk_client *client)
{
    static int h = 5000;
    char message[64];
    uint64_t handed_back = fixture_counters(client).handed_back;
    snprintf(message, sizeof message, "grant %d 30000 0 t3", ++h); /* new: the last one may have a release pending */
    raw(fixture.redis, "HSET t3 %s:%d 1", hlk_client_id(client), h);
    raw(fixture.redis, "PEXPIRE t3 30000");
    send_message(client, message);
    WAIT_FOR(is_free("t3"));
    /* messages before it may be handed back too, if they look like a grant */
    cr_assert_gt(fixture_counters(client).handed_back, handed_back);
}

/* It holds t2 and waits for t. */
Test(handoff_wire, inbox_messages_that_are_not_ours_change_nothing)
{
    static const char *const messages[] = { "",
                                            "x",
                                            "0",
                                            "grant",
                                            "grant 1",
                                            "grant 1 5000 0",
                                            "grant 1 5000 0 ",
                                            "grant one 5000 0 t",
                                            "grant -1 -1 -1 t",
                                            "grant 99999999999999999999999 5000 0 t",
                                            "open 4711 0 0 t",
                                            "open 4711 0 0 t2",
                                            "open 4711 0 0 t-nobody-knows",
                                            "broken 4711 0 0 t",
                                            "broken 4711 0 0 t2",
                                            "broken 4711 0 0 t-nobody-knows",
                                            "broken 0 0 0 t2",
                                            "stolen 1 0 0 t2" };
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *mine = held_by_bystander(client, "t2", 0);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    char member[256];
    snprintf(member, sizeof member, "%s", member_of("t"));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        send_message(client, messages[i]);
        tell_and_wait(client);
        cr_assert_not(actor_answered(waiter), "%s", messages[i]);
        cr_assert_str_eq(member_of("t"), member, "%s", messages[i]);
        cr_assert(is_held("t", hold_of(theirs)), "%s", messages[i]);
        cr_assert(is_held("t2", hold_of(mine)), "%s", messages[i]);
        cr_assert_gt(hlk_lock_left_ms(mine), 0, "%s", messages[i]);
    }
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_release(mine), HLK_OK);
}

/* For the lock of this wait, but with the hold id of another one. The waiter behind it gets the lock. */
Test(handoff_wire, grant_for_an_unknown_hold_goes_to_the_next)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "HSET t %s:4711 1", hlk_client_id(client));
    raw(fixture.redis, "PEXPIRE t 30000");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    send_message(client, "grant 4711 30000 0 t");
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(client).handed_back, 1u);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert(is_free("t"));
}

/* The release is repeated for as long as the ticket may last, not only for the lease that was never acquired. (Found by
 * the soak test.) */
Test(handoff_proxied, wait_given_up_leaves_no_ticket_after_any_outage)
{
    enum { SHORT_MS = 200 };
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = SHORT_MS;
    opts.wait_ms = 2 * SHORT_MS;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    (void)actor_status(waiter);
    test_sleep_ms(3 * SHORT_MS); /* such a lease would be over */
    proxy_refuse(fixture.proxy, false);
    actor_end(waiter);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 0);
    raw(fixture.redis, "DEL t");
}
