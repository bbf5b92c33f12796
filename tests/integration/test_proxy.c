/* Tests of the tests' proxy. A fault that does not strike would make every test pass that uses it. */
#include "support/link.h"
#include "support/port.h"
#include "support/raw.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct server *server;
static struct proxy *proxy;

static void start(void)
{
    signal(SIGPIPE, SIG_IGN); /* hiredis writes to connections that are cut here */
    server = server_start(SERVER_NOACL | SERVER_AOF, NULL);
    server_allow(server, "t*");
    proxy = proxy_start(server);
}

static void stop(void)
{
    proxy_stop(proxy);
    server_stop(server);
}

TestSuite(proxy, .init = start, .fini = stop, .timeout = 60);

static redisContext *through_proxy(void)
{
    redisContext *redis = redisConnectUnix(proxy_url(proxy) + strlen("unix:"));
    cr_assert(redis && !redis->err);
    return redis;
}

/* The reply of a command that may get none: then NULL, and the connection is unusable. */
static const char *try(redisContext *redis, int64_t within_ms, const char *command)
{
    struct timeval limit = { (time_t)(within_ms / 1000), (suseconds_t)(within_ms % 1000 * 1000) };
    redisSetTimeout(redis, limit);
    redisReply *reply = redisCommand(redis, command);
    if (!reply)
        return NULL;
    const char *text = raw_show(reply);
    freeReplyObject(reply);
    return text;
}

Test(proxy, passes_requests_and_replies_and_counts_them)
{
    redisContext *redis = through_proxy();
    cr_assert_str_eq(raw(redis, "SET t 5"), "OK");
    cr_assert_str_eq(raw(redis, "EVAL %s 1 t", "return {redis.call('get', KEYS[1]), 7, {'x'}}"),
                     "[\"5\", :7, [\"x\"]]");
    const char *error = raw(redis, "NOSUCH"), *expected = "-ERR unknown command";
    cr_assert_eq(strncmp(error, expected, strlen(expected)), 0, "%s", error);
    cr_assert_eq(proxy_count(proxy, PROXY_ALL), 3u);
    cr_assert_eq(proxy_count(proxy, PROXY_SCRIPTS), 1u);
    cr_assert_eq(proxy_seen(proxy, "SET t"), 1u);
    cr_assert_eq(proxy_accepted(proxy), 1u);
    redisFree(redis);
    WAIT_FOR(proxy_open_connections(proxy) == 0);
}

Test(proxy, passes_a_pipeline_in_order_and_large_values)
{
    redisContext *redis = through_proxy();
    char *large = calloc(1, 300001);
    memset(large, 'x', 300000);
    raw(redis, "SET t %s", large);
    for (int i = 0; i < 1000; i++)
        redisAppendCommand(redis, i % 100 == 0 ? "STRLEN t" : "ECHO %d", i);
    for (int i = 0; i < 1000; i++) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(redis, (void **)&reply), REDIS_OK);
        if (i % 100 == 0)
            cr_assert_eq(reply->integer, 300000);
        else
            cr_assert_eq(strtol(reply->str, NULL, 10), i);
        freeReplyObject(reply);
    }
    free(large);
    redisFree(redis);
}

/* The second request gets no reply, and the server has run so many of the two. */
static void cut_at_the_second(enum proxy_fault fault, int64_t runs)
{
    redisContext *redis = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, fault, PROXY_ALL, 2);
    cr_assert_eq(raw_int(redis, "INCR t"), 1);
    cr_assert_null(try(redis, 20000, "INCR t"));
    cr_assert(proxy_struck(proxy));
    cr_assert_eq(raw_int(side, "GET t"), runs);
    redisFree(redis);
    redisFree(side);
}

Test(proxy, cuts_before_the_kth_request)
{
    cut_at_the_second(PROXY_CUT_BEFORE, 1);
}

Test(proxy, cuts_after_the_kth_request_has_run)
{
    cut_at_the_second(PROXY_CUT_AFTER, 2);
}

/* A stream loses its end, nothing in between: the later replies arrive together with the one that is lost. */
Test(proxy, cuts_after_the_kth_request_and_drops_all_behind_it)
{
    redisContext *redis = through_proxy(), *side = raw_open(server);
    redisReply *reply = NULL;
    proxy_arm(proxy, PROXY_CUT_AFTER, PROXY_ALL, 2);
    for (int i = 0; i < 4; i++)
        redisAppendCommand(redis, "INCR t");
    int got = 0;
    while (redisGetReply(redis, (void **)&reply) == REDIS_OK) {
        cr_assert_eq(reply->integer, ++got);
        freeReplyObject(reply);
    }
    cr_assert_leq(got, 1);
    cr_assert_geq(raw_int(side, "GET t"), 2);
    redisFree(redis);
    redisFree(side);
}

/* Else the reply to one command would be taken for that to another: no connection does that. */
Test(proxy, swallows_the_kth_reply_and_all_behind_it)
{
    redisContext *redis = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, PROXY_SWALLOW, PROXY_ALL, 2);
    for (int i = 0; i < 3; i++)
        redisAppendCommand(redis, "INCR t");
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(redis, (void **)&reply), REDIS_OK);
    cr_assert_eq(reply->integer, 1);
    freeReplyObject(reply);
    WAIT_FOR(proxy_struck(proxy) && raw_int(side, "GET t") == 3);
    cr_assert_eq(redisSetTimeout(redis, (struct timeval){ .tv_usec = 200000 }), REDIS_OK);
    cr_assert_neq(redisGetReply(redis, (void **)&reply), REDIS_OK);
    redisFree(redis);
    redis = through_proxy();
    redisAppendCommand(redis, "INCR t");
    cr_assert_eq(redisGetReply(redis, (void **)&reply), REDIS_OK, "another connection answers");
    freeReplyObject(reply);
    redisFree(redis);
    redisFree(side);
}

Test(proxy, skips_the_kth_reply_and_passes_those_behind_it)
{
    redisContext *redis = through_proxy();
    redisReply *reply = NULL;
    proxy_arm(proxy, PROXY_SKIP, PROXY_ALL, 2);
    for (int i = 0; i < 3; i++)
        redisAppendCommand(redis, "INCR t");
    for (int i = 1; i <= 3; i += 2) {
        cr_assert_eq(redisGetReply(redis, (void **)&reply), REDIS_OK);
        cr_assert_eq(reply->integer, i);
        freeReplyObject(reply);
    }
    cr_assert(proxy_struck(proxy));
    redisFree(redis);
}

Test(proxy, delivers_a_held_request_after_its_connection_ends)
{
    redisContext *late = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, PROXY_HOLD, PROXY_ALL, 1);
    redisAppendCommand(late, "APPEND t late");
    redisAppendCommand(late, "APPEND t -too");
    int written = 0;
    cr_assert_eq(redisBufferWrite(late, &written), REDIS_OK);
    proxy_wait_struck(proxy);
    redisFree(late);
    redisContext *next = through_proxy();
    cr_assert_eq(raw_int(next, "APPEND t early-"), 6);
    proxy_deliver(proxy, false);
    cr_assert_str_eq(raw(side, "GET t"), "\"early-late-too\"");
    redisFree(next);
    redisFree(side);
    WAIT_FOR(proxy_open_connections(proxy) == 0);
}

Test(proxy, delivers_a_held_request_without_what_followed_it)
{
    redisContext *late = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, PROXY_HOLD, PROXY_ALL, 1);
    redisAppendCommand(late, "APPEND t late");
    redisAppendCommand(late, "APPEND t -too");
    int written = 0;
    cr_assert_eq(redisBufferWrite(late, &written), REDIS_OK);
    WAIT_FOR(proxy_count(proxy, PROXY_ALL) == 2);
    proxy_deliver(proxy, true);
    cr_assert_str_eq(raw(side, "GET t"), "\"late\"");
    redisFree(late);
    redisFree(side);
}

Test(proxy, delivers_a_request_to_be_held_behind_a_held_one)
{
    redisContext *redis = through_proxy();
    for (int i = 0; i < 2; i++) {
        int written = 0;
        proxy_arm(proxy, PROXY_HOLD, PROXY_ALL, 1);
        redisAppendCommand(redis, "INCR t");
        cr_assert_eq(redisBufferWrite(redis, &written), REDIS_OK);
        WAIT_FOR(proxy_count(proxy, PROXY_ALL) == (uint64_t)i + 1);
    }
    proxy_deliver(proxy, false);
    cr_assert_str_eq(raw_next(redis), ":1");
    cr_assert_str_eq(raw_next(redis), ":2");
    redisFree(redis);
}

Test(proxy, answers_a_held_request_when_its_client_still_waits)
{
    redisContext *redis = through_proxy();
    proxy_arm(proxy, PROXY_HOLD, PROXY_ALL, 1);
    redisAppendCommand(redis, "INCR t");
    int written = 0;
    cr_assert_eq(redisBufferWrite(redis, &written), REDIS_OK);
    proxy_wait_struck(proxy);
    proxy_deliver(proxy, false);
    cr_assert_str_eq(raw_next(redis), ":1");
    redisFree(redis);
}

Test(proxy, drops_messages_but_not_confirmations)
{
    redisContext *sub = through_proxy(), *side = raw_open(server);
    proxy_drop_messages(proxy, true);
    cr_assert_str_eq(raw(sub, "SUBSCRIBE tc"), "[\"subscribe\", \"tc\", :1]");
    cr_assert_eq(raw_int(side, "PUBLISH tc lost"), 1);
    WAIT_FOR(proxy_messages(proxy) == 1);
    proxy_drop_messages(proxy, false);
    cr_assert_eq(raw_int(side, "PUBLISH tc kept"), 1);
    cr_assert_str_eq(raw_next(sub), "[\"message\", \"tc\", \"kept\"]");
    redisFree(sub);
    redisFree(side);
}

Test(proxy, holds_confirmations_back)
{
    redisContext *sub = through_proxy(), *side = raw_open(server);
    proxy_hold_confirmations(proxy, true);
    redisAppendCommand(sub, "SUBSCRIBE tc");
    int written = 0;
    cr_assert_eq(redisBufferWrite(sub, &written), REDIS_OK);
    WAIT_FOR(raw_int(side, "PUBLISH tc x") == 1);
    cr_assert_null(raw_next_within(sub, 100));
    proxy_hold_confirmations(proxy, false);
    cr_assert_str_eq(raw_next(sub), "[\"subscribe\", \"tc\", :1]");
    cr_assert_str_eq(raw_next(sub), "[\"message\", \"tc\", \"x\"]");
    redisFree(sub);
    redisFree(side);
}

Test(proxy, delays_each_direction)
{
    redisContext *redis = through_proxy();
    proxy_delay(proxy, 60, 40);
    int64_t before = test_now_ms();
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    cr_assert_geq(test_now_ms() - before, 99);
    redisFree(redis);
}

/* What becomes due after the last look for it, and before the wait begins, is not forgotten: the wait ends at once. */
Test(proxy, waits_for_what_became_due_since_it_last_sent)
{
    enum { SENT = 1000, DUE, LATER };
    struct unit late = { .due_ns = DUE }, over = { .due_ns = SENT };
    struct link link = { .requests = { &over, &over.next }, .replies = { &late, &late.next } };
    int64_t due_ns = LATER;
    link_soonest(&link, SENT, &due_ns);
    cr_assert_eq(due_ns, DUE, "and not the request, which is held back");
}

Test(proxy, freezes_and_goes_on)
{
    redisContext *redis = through_proxy();
    raw(redis, "PING");
    proxy_freeze(proxy, true);
    redisContext *second = through_proxy();
    cr_assert_null(try(second, 100, "PING"), "a black hole answered");
    redisAppendCommand(redis, "INCR t");
    int written = 0;
    cr_assert_eq(redisBufferWrite(redis, &written), REDIS_OK);
    cr_assert_null(raw_next_within(redis, 50));
    proxy_freeze(proxy, false);
    cr_assert_str_eq(raw_next(redis), ":1");
    redisFree(redis);
    redisFree(second);
}

Test(proxy, freezes_subscribers_only)
{
    redisContext *redis = through_proxy(), *sub = through_proxy(), *side = raw_open(server);
    cr_assert_str_eq(raw(sub, "SUBSCRIBE tc"), "[\"subscribe\", \"tc\", :1]");
    proxy_freeze_subscribers(proxy, true);
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    raw(side, "PUBLISH tc x");
    cr_assert_null(raw_next_within(sub, 50));
    proxy_freeze_subscribers(proxy, false);
    cr_assert_str_eq(raw_next(sub), "[\"message\", \"tc\", \"x\"]");
    redisFree(redis);
    redisFree(sub);
    redisFree(side);
}

Test(proxy, refuses_and_listens_again)
{
    proxy_refuse(proxy, true);
    redisContext *redis = redisConnectUnix(proxy_url(proxy) + strlen("unix:"));
    cr_assert(redis->err);
    redisFree(redis);
    cr_assert(port_is_reserved(proxy_port(proxy)));
    proxy_refuse(proxy, false);
    redis = redisConnect("127.0.0.1", proxy_port(proxy));
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    redisFree(redis);
}

Test(proxy, cuts_all)
{
    redisContext *one = through_proxy(), *two = through_proxy();
    raw(one, "PING");
    raw(two, "PING");
    proxy_cut_all(proxy);
    cr_assert_eq(proxy_open_connections(proxy), 0);
    cr_assert_null(try(one, 20000, "PING"));
    cr_assert_null(try(two, 20000, "PING"));
    redisFree(one);
    redisFree(two);
}
