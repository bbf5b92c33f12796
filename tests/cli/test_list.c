/* hasplock list: what is held, in the order of the names. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start(void)
{
    cli_start();
    if (server->acl)
        raw(redis, "ACL SETUSER locks +scan"), raw(redis, "ACL SETUSER locks +type");
}

TestSuite(list, .init = start, .fini = cli_stop);

static void lists(const char *expected, const char *a, const char *b)
{
    struct command *c = COMMAND("list", a, b);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], expected);
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    command_free(c);
}

Test(list, of_nothing_is_empty)
{
    lists("", NULL, NULL);
}

Test(list, names_all_that_is_held_in_order)
{
    raw(redis, "HSET tb hlk-web-3-4711-9f3c:12 1");
    raw(redis, "HSET ta b983c153-7421-469a-addb-44fb92259a1b:31 2");
    raw(redis, "HSET tc no lock");
    raw(redis, "SET td x");
    lists("ta: held by b983c153-7421-469a-addb-44fb92259a1b:31, without end\n"
          "tb: held by web-3 pid 4711 (hold 12), without end\n",
          NULL, NULL);
    lists("tb: held by web-3 pid 4711 (hold 12), without end\n", "tb", NULL);
    lists("", "t*", NULL);
    lists("", "-q", "x");
    raw(redis, "FLUSHALL");
}

Test(list, tells_the_ttl_and_who_waits_of_real_ones)
{
    char host[256] = "", expected[400];
    gethostname(host, sizeof host - 1);
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    struct command *w = COMMAND("run", "t", "--", "true");
    WAIT_FOR(strcmp(raw(redis, "ZCARD hasplock_queue:{t}"), ":1") == 0);
    struct command *l = COMMAND("list");
    cr_assert_eq(command_end(l), 0);
    snprintf(expected, sizeof expected, "t: held by %s pid %d (hold ", host, (int)c->pid);
    cr_assert_eq(strncmp(l->text[OUT], expected, strlen(expected)), 0, "%s", l->text[OUT]);
    cr_assert_not_null(strstr(l->text[OUT], ", ttl "), "%s", l->text[OUT]);
    cr_assert_not_null(strstr(l->text[OUT], " s, 1 waiting; for "), "%s", l->text[OUT]);
    command_free(l);
    command_type_end(c);
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(command_end(w), 0);
    command_free(c);
    command_free(w);
}

Test(list, stops_at_the_limit_and_says_so)
{
    raw(redis, "EVAL %s 0", "for i = 1, 30 do redis.call('hset', 't' .. i, 'hlk-a-1-x:' .. i, 1) end");
    struct command *c = COMMAND("list", "--limit", "20");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(count_lines(c->text[OUT]), 20, "%s", c->text[OUT]);
    cr_assert_str_eq(c->text[ERR],
                     "hasplock: list: stopped behind 20 locks, and there are more: give a PREFIX, or --limit\n");
    command_free(c);
    c = COMMAND("list", "--limit", "30");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(count_lines(c->text[OUT]), 30);
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(list, stops_at_a_million_keys_and_says_so)
{
    for (int from = 0; from < 1100000; from += 100000)
        raw(redis, "EVAL %s 0 %d", "for i = 1, 100000 do redis.call('set', 'k' .. ARGV[1] + i, '') end", from);
    cr_assert_str_eq(raw(redis, "DBSIZE"), ":1100000");
    struct command *c = COMMAND("list", "--json");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_empty(c->text[OUT]);
    cr_assert_not_null(strstr(c->text[ERR], "\"event\":\"more\","), "%s", c->text[ERR]);
    cr_assert_not_null(
        strstr(c->text[ERR], "\"shown\":0,\"text\":\"stopped when 1000000 keys of the server were looked at"), "%s",
        c->text[ERR]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(list, prints_objects_with_json)
{
    raw(redis, "HSET t\" hlk-web-3-4711-9f3c:12 1");
    lists("{\"name\":\"t\\\"\",\"kind\":\"plain\",\"holder\":\"hlk-web-3-4711-9f3c:12\",\"host\":\"web-3\","
          "\"pid\":4711,\"hold\":12,\"count\":1,\"ttl_ms\":-1,\"waiting\":0}\n",
          "--json", NULL);
    raw(redis, "FLUSHALL");
}

/* --- with --watch. Elsewhere than on a terminal: a line for each change, none for a ttl that runs. */

Test(list, watches_until_a_signal)
{
    raw(redis, "HSET ta hlk-web-3-4711-9f3c:12 1");
    raw(redis, "HSET tb b983c153-7421-469a-addb-44fb92259a1b:31 2");
    struct command *c = COMMAND("list", "--watch=1", "t");
    command_until(c, OUT,
                  "ta: held by web-3 pid 4711 (hold 12), without end\n"
                  "tb: held by b983c153-7421-469a-addb-44fb92259a1b:31, without end\n");
    raw(redis, "PEXPIRE tb 600000");
    raw(redis, "DEL ta");
    command_until(c, OUT, "ta: free\n");
    raw(redis, "HSET tc hlk-web-3-4711-9f3c:13 1");
    raw(redis, "ZADD hasplock_queue:{tb} 7 %s", "hlk-web-3-812-9f3c:3 5000 0 0 0");
    command_until(c, OUT, " s, 1 waiting\n");
    command_until(c, OUT, "tc: held by web-3 pid 4711 (hold 13), without end\n");
    raw(redis, "HSET tc hlk-web-4-812-7aa0:3 1");
    raw(redis, "HDEL tc hlk-web-3-4711-9f3c:13");
    command_until(c, OUT, "tc: held by web-4 pid 812 (hold 3), without end\n");
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(list, watches_with_objects_and_their_times)
{
    raw(redis, "HSET ta hlk-web-3-4711-9f3c:12 1");
    struct command *c = COMMAND("list", "--json", "--watch=1");
    command_until(c, OUT,
                  ",\"held\":true,\"kind\":\"plain\",\"holder\":\"hlk-web-3-4711-9f3c:12\",\"host\":\"web-3\","
                  "\"pid\":4711,\"hold\":12,\"count\":1,\"ttl_ms\":-1,\"waiting\":0}\n");
    cr_assert_eq(strncmp(c->text[OUT], "{\"name\":\"ta\",\"time_ms\":", 23), 0, "%s", c->text[OUT]);
    raw(redis, "DEL ta");
    command_until(c, OUT, ",\"held\":false}\n");
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    cr_assert_eq(count_lines(c->text[OUT]), 2, "%s", c->text[OUT]);
    command_free(c);
}

Test(list, calls_nothing_free_that_it_may_not_have_seen)
{
    raw(redis, "HSET ta hlk-web-3-4711-9f3c:12 1");
    raw(redis, "HSET tb hlk-web-3-4711-9f3c:13 1");
    struct command *c = COMMAND("list", "--watch=1", "--limit", "1");
    command_until(c, ERR, "stopped behind 1 locks, and there are more");
    test_sleep_ms(2500); /* two looks more */
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    cr_assert_null(strstr(c->text[OUT], "free"), "%s", c->text[OUT]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(list, fills_a_terminal_when_it_watches)
{
    raw(redis, "HSET ta hlk-web-3-4711-9f3c:12 1");
    struct command *c = command_start_on_terminal((const char *const[]){ HASPLOCK, "list", "--watch=1", NULL });
    command_until(c, OUT, "\033[H\033[Jta: held by web-3 pid 4711 (hold 12), without end");
    raw(redis, "DEL ta");
    command_until(c, OUT, "\033[H\033[Jnothing is held");
    command_type(c, "\003");
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    command_free(c);
}

Test(list, names_string_locks_alone_when_it_is_told_to)
{
    raw(redis, "HSET t1 hlk-web-3-4711-9f3c:12 1");
    raw(redis, "SET t2 hlk-web-3-4711-9f3c:13");
    raw(redis, "SET t3 1f0b6c7e");
    lists("t2: held by web-3 pid 4711 (hold 13), without end\n", "--string", NULL);
    lists("t1: held by web-3 pid 4711 (hold 12), without end\n"
          "t2: held by web-3 pid 4711 (hold 13), without end\n",
          NULL, NULL);
    raw(redis, "FLUSHALL");
}

Test(list, prints_no_control_bytes)
{
    raw(redis, "HSET t\033[2J hlk-\033-1-x:3 1");
    struct command *c = COMMAND("list");
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strchr(c->text[OUT], '\033'), "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "t\\x1b[2J: held by \\x1b pid 1 (hold 3)"), "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(list, says_which_rights_are_missing)
{
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    char url[128];
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw ~* &* +@all -scan"), "OK");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", guarded->port);
    struct command *c = COMMAND("list", "-u", url);
    cr_assert_eq(command_end(c), 77, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "ACL SETUSER <user> +scan +type +hlen +getrange"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
    redisFree(admin);
    server_stop(guarded);
}
