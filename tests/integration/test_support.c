/* Tests of the tests' tools. A fault that does not strike, or a checker that finds nothing, would make every test pass
 * that uses it. */
#include "support/history.h"
#include "support/order.h"
#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

TestSuite(support_server, .init = start, .fini = stop, .timeout = 60);
TestSuite(support_proxy, .init = start, .fini = stop, .timeout = 60);
TestSuite(support_history, .timeout = 60);
TestSuite(support_order, .timeout = 60);

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

/* Otherwise a stage for another server would pass with the system's one. */
Test(support_server, is_the_program_that_was_asked_for)
{
    const char *program = getenv("HLK_TEST_SERVER");
    char expected[512];
    snprintf(expected, sizeof expected, "executable:%s", program && *program ? program : "");
    redisContext *redis = raw_open(server);
    const char *info = raw(redis, "INFO server");
    cr_assert_not_null(strstr(info, expected), "%s is not in %s", expected, info);
    redisFree(redis);
}

Test(support_server, answers_and_restarts_with_and_without_its_data)
{
    redisContext *redis = raw_open(server);
    cr_assert_str_eq(raw(redis, "SET t 1"), "OK");
    redisFree(redis);
    server_restart(server, true);
    redis = raw_open(server);
    cr_assert_eq(raw_int(redis, "GET t"), 1);
    redisFree(redis);
    server_restart(server, false);
    redis = raw_open(server);
    cr_assert_str_eq(raw(redis, "GET t"), "(nil)");
    redisFree(redis);
}

Test(support_server, stands_still_and_goes_on)
{
    redisContext *redis = raw_open(server);
    server_pause(server);
    cr_assert_null(try(redis, 100, "PING"));
    redisFree(redis);
    server_resume(server);
    redis = raw_open(server);
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    redisFree(redis);
}

/* Otherwise the client of a killed server could use another test's server, and both tests would fail. */
static void expect_kept(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == EADDRINUSE);
    close(fd);
}

Test(support_server, keeps_its_port_while_it_is_down)
{
    struct server *tcp = server_start(SERVER_TCP, NULL);
    for (int i = 0; i < 2; i++) {
        server_kill(tcp);
        expect_kept(tcp->port);
        server_restart(tcp, false);
        redisContext *redis = redisConnect("127.0.0.1", tcp->port);
        cr_assert_not(redis->err);
        redisFree(redis);
    }
    server_finish(tcp);
}

/* The wait is long, so check only once. */
static bool waits_for_leftovers(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(1);
        server_leftovers(server);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

Test(support_server, names_what_is_left)
{
    redisContext *redis = raw_open(server);
    raw(redis, "SET left-behind 1 PX 30000");
    raw(redis, "SET t-allowed 1");
    cr_assert(waits_for_leftovers(), "a key was left and it did not wait");
    raw(redis, "DEL left-behind");
    cr_assert_null(server_leftovers(server));
    redisFree(redis);
}

Test(support_server, lets_ended_holds_be_left_and_nobody_who_waits)
{
    redisContext *redis = raw_open(server);
    server_allow(server, SERVER_VOID);
    raw(redis, "ZADD hasplock_queue:{t} -1000 ended:1");
    cr_assert_null(server_leftovers(server));
    raw(redis, "ZADD hasplock_queue:{t} 1 %s", "waits:2 5000 0 0 1");
    cr_assert(waits_for_leftovers());
    server_allow(server, SERVER_QUEUE);
    cr_assert_null(server_leftovers(server));
    redisFree(redis);
}

Test(support_server, dies_with_its_test)
{
    int pipes[2];
    struct server copy = { .pid = 0 };
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        struct server *orphan = server_start(SERVER_NOACL, NULL);
        if (write(pipes[1], orphan, sizeof *orphan) != (ssize_t)sizeof *orphan)
            _exit(1);
        raise(SIGKILL);
    }
    cr_assert_eq(read(pipes[0], &copy, sizeof copy), (ssize_t)sizeof copy);
    waitpid(child, NULL, 0);
    WAIT_FOR(kill(copy.pid, 0) != 0 && errno == ESRCH);
    struct server *orphan = malloc(sizeof *orphan); /* what it left behind */
    *orphan = copy;
    server_stop(orphan);
}

Test(support_proxy, passes_requests_and_replies_and_counts_them)
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

Test(support_proxy, passes_a_pipeline_in_order_and_large_values)
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

Test(support_proxy, cuts_before_the_kth_request)
{
    redisContext *redis = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, PROXY_CUT_BEFORE, PROXY_ALL, 2);
    cr_assert_eq(raw_int(redis, "INCR t"), 1);
    cr_assert_null(try(redis, 20000, "INCR t"));
    cr_assert(proxy_struck(proxy));
    cr_assert_eq(raw_int(side, "GET t"), 1, "the request arrived");
    redisFree(redis);
    redisFree(side);
}

Test(support_proxy, cuts_after_the_kth_request_has_run)
{
    redisContext *redis = through_proxy(), *side = raw_open(server);
    proxy_arm(proxy, PROXY_CUT_AFTER, PROXY_ALL, 2);
    cr_assert_eq(raw_int(redis, "INCR t"), 1);
    cr_assert_null(try(redis, 20000, "INCR t"));
    cr_assert_eq(raw_int(side, "GET t"), 2, "the request did not arrive");
    redisFree(redis);
    redisFree(side);
}

/* A stream loses its end, nothing in between: the later replies arrive together with the one that is lost. */
Test(support_proxy, cuts_after_the_kth_request_and_passes_on_nothing_behind_it)
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

Test(support_proxy, swallows_the_kth_reply_and_only_that)
{
    redisContext *redis = through_proxy();
    proxy_arm(proxy, PROXY_SWALLOW, PROXY_ALL, 2);
    for (int i = 0; i < 3; i++)
        redisAppendCommand(redis, "INCR t");
    for (int want = 1; want <= 3; want += 2) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(redis, (void **)&reply), REDIS_OK);
        cr_assert_eq(reply->integer, want);
        freeReplyObject(reply);
    }
    cr_assert(proxy_struck(proxy));
    redisFree(redis);
}

Test(support_proxy, delivers_a_held_request_after_later_ones_and_after_its_connection_is_gone)
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

Test(support_proxy, delivers_a_held_request_without_what_followed_it)
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

Test(support_proxy, answers_a_held_request_when_its_client_still_waits)
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

Test(support_proxy, drops_messages_but_not_confirmations)
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

Test(support_proxy, holds_confirmations_back)
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

Test(support_proxy, delays_each_direction)
{
    redisContext *redis = through_proxy();
    proxy_delay(proxy, 60, 40);
    int64_t before = test_now_ms();
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    cr_assert_geq(test_now_ms() - before, 99);
    redisFree(redis);
}

Test(support_proxy, freezes_and_goes_on)
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

Test(support_proxy, freezes_subscribers_only)
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

Test(support_proxy, refuses_and_listens_again)
{
    proxy_refuse(proxy, true);
    redisContext *redis = redisConnectUnix(proxy_url(proxy) + strlen("unix:"));
    cr_assert(redis->err);
    redisFree(redis);
    expect_kept(proxy_port(proxy));
    proxy_refuse(proxy, false);
    redis = redisConnect("127.0.0.1", proxy_port(proxy));
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    redisFree(redis);
}

Test(support_proxy, cuts_all)
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

Test(support_history, accepts_holds_one_after_the_other)
{
    struct history *history = history_create(16);
    for (int i = 0; i < 8; i++) {
        struct hold *hold = history_acquired(history, i % 2, 0, test_now_ms() + 1000);
        struct hold *other_lock = history_acquired(history, i % 2, 1, test_now_ms() + 1000);
        history_released(hold);
        history_released(other_lock);
    }
    cr_assert(history_check(history));
    struct history_share share = history_shares(history, 0, 3);
    cr_assert(share.total == 8 && share.max == 4 && share.min == 0);
    history_destroy(history);
}

Test(support_history, finds_two_holds_at_once)
{
    struct history *history = history_create(16);
    struct hold *first = history_acquired(history, 0, 0, test_now_ms() + 1000);
    struct hold *second = history_acquired(history, 1, 0, test_now_ms() + 1000);
    history_released(second);
    history_released(first);
    cr_assert_not(history_check(history));
    history_destroy(history);
}

Test(support_history, finds_an_overlap_that_is_not_with_the_neighbour)
{
    struct history *history = history_create(16);
    struct hold *longest = history_acquired(history, 0, 0, test_now_ms() + 60000);
    for (int i = 1; i < 4; i++)
        *history_acquired(history, i, 1, test_now_ms() + 60000) = (struct hold){ .ready = 0 };
    struct hold *late = history_acquired(history, 5, 0, test_now_ms() + 60000);
    history_released(late);
    history_released(longest);
    cr_assert_not(history_check(history));
    history_destroy(history);
}

Test(support_history, lets_a_hold_end_with_its_validity)
{
    struct history *history = history_create(16);
    history_acquired(history, 0, 0, test_now_ms() + 5); /* never released: its process was killed */
    test_sleep_ms(6);
    struct hold *next = history_acquired(history, 1, 0, test_now_ms() + 1000);
    history_released(next);
    cr_assert(history_check(history));
    history_destroy(history);
}

Test(support_history, finds_a_hold_within_the_validity_of_a_killed_owner)
{
    struct history *history = history_create(16);
    pid_t child = fork();
    if (child == 0) {
        history_acquired(history, 0, 0, test_now_ms() + 5000);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    history_released(history_acquired(history, 1, 0, test_now_ms() + 1000));
    cr_assert_eq(history_count(history), 2u);
    cr_assert_not(history_check(history));
    history_destroy(history);
}

Test(support_history, is_not_content_when_it_was_full)
{
    struct history *history = history_create(1);
    history_released(history_acquired(history, 0, 0, test_now_ms() + 1000));
    history_released(history_acquired(history, 0, 1, test_now_ms() + 1000));
    cr_assert_not(history_check(history));
    history_destroy(history);
}

/* --- order */

static bool in_order(int passes, const char *const turns[][2], size_t n)
{
    struct order *order = order_create(n, NULL, NULL);
    size_t called;
    for (size_t i = 0; i < n; i++)
        order_add(order, turns[i][0], turns[i][1]);
    bool good = order_check(order, passes, &called);
    order_destroy(order);
    return good;
}

Test(support_order, is_by_the_queue_and_with_so_many_passes)
{
    static const char *const turns[][2] = {
        { "a", "b 1 0" }, { "a", "b 1 0" }, { "b", "" }, { "c", "a" }, { "a", "" }
    };
    static const char *const overtaken[][2] = { { "a", "b 1 0" }, { "c", "" } };
    static const char *const alone[][2] = { { "a", "" }, { "a", "" }, { "a", "b" }, { "b", "" } };
    cr_assert(in_order(1, turns, 5));
    cr_assert_not(in_order(0, turns, 5), "a had it twice");
    cr_assert_not(in_order(1, overtaken, 2), "b was first");
    cr_assert(in_order(0, alone, 4), "nobody waited");
}
