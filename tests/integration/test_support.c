/* Tests of the tests' tools. A fault that does not strike, or a checker that finds nothing, would make every test pass
 * that uses it. */
#include "support/history.h"
#include "support/order.h"
#include "support/port.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct server *server;

static void start(void)
{
    server = server_start(SERVER_NOACL | SERVER_AOF, NULL);
    server_allow(server, "t*");
}

static void stop(void)
{
    server_stop(server);
}

TestSuite(support_server, .init = start, .fini = stop, .timeout = 60);
TestSuite(support_history, .timeout = 60);
TestSuite(support_order, .timeout = 60);

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
    redisSetTimeout(redis, (struct timeval){ .tv_usec = 100000 });
    cr_assert_null(redisCommand(redis, "PING"));
    redisFree(redis);
    server_resume(server);
    redis = raw_open(server);
    cr_assert_str_eq(raw(redis, "PING"), "PONG");
    redisFree(redis);
}

/* Otherwise the client of a killed server could use another test's server, and both tests would fail. */
Test(support_server, keeps_its_port_while_it_is_down)
{
    struct server *tcp = server_start(SERVER_TCP, NULL);
    for (int i = 0; i < 2; i++) {
        server_kill(tcp);
        cr_assert(port_is_reserved(tcp->port));
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
    server_allow(server, SERVER_TOMBSTONES);
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
