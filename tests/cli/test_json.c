/* --json: each line one object that any reader of JSON takes. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(json, .init = cli_start, .fini = cli_stop);

/* Redis brings a strict reader of JSON along: cjson. Each line must be an object to it; -ERR otherwise. */
static void each_line_is_an_object(const char *text)
{
    static const char *const script =
        "local n = 0 for line in ARGV[1]:gmatch('[^\\n]+') do "
        "if line:sub(1, 1) ~= '{' or type(cjson.decode(line)) ~= 'table' then return redis.error_reply('none') end "
        "n = n + 1 end return n";
    char lines[32];
    snprintf(lines, sizeof lines, ":%d", count_lines(text));
    cr_assert_str_eq(raw(redis, "EVAL %s 0 %s", script, text), lines, "%s", text);
}

/* The value of a field in the last object that has `with` in its line. */
static const char *field(const char *text, const char *with, const char *name)
{
    static char line[8192];
    const char *found = NULL;
    for (const char *at = strstr(text, with); at; at = strstr(at + 1, with))
        found = at;
    cr_assert_not_null(found, "no %s in %s", with, text);
    while (found > text && found[-1] != '\n')
        found--;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(found, "\n"), found);
    return raw(redis, "EVAL %s 0 %s %s", "return tostring(cjson.decode(ARGV[1])[ARGV[2]])", line, name);
}

Test(json, run_tells_its_steps_on_stderr_and_not_on_stdout)
{
    struct command *c = COMMAND("run", "--json", "t", "--", "sh", "-c", "echo out; exit 3");
    cr_assert_eq(command_end(c), 3);
    cr_assert_str_eq(c->text[OUT], "out\n");
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"acquired\"", "name"), "\"t\"");
    cr_assert_str_eq(field(c->text[ERR], "\"acquired\"", "lease_ms"), "\"30000\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "by"), "\"command\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "code"), "\"3\"");
    cr_assert_str_eq(strrchr(c->text[ERR], '}'), "}\n");
    command_free(c);
}

Test(json, run_tells_the_token)
{
    raw(redis, "SET redisson_lock_token:{t} 41");
    struct command *c = COMMAND("run", "--json", "--fenced", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"acquired\"", "token"), "\"42\"");
    command_free(c);
    c = COMMAND("run", "--json", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(field(c->text[ERR], "\"acquired\"", "token"), "\"nil\"");
    command_free(c);
    raw(redis, "DEL redisson_lock_token:{t}");
}

Test(json, run_tells_whose_code_it_is)
{
    cr_assert_str_eq(raw(redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1"), ":1");
    struct command *c = COMMAND("run", "--json", "-n", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"busy\"", "event"), "\"busy\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "by"), "\"hasplock\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "code"), "\"1\"");
    command_free(c);
    raw(redis, "DEL t");
}

/* Of another host: read by machines, it must not be taken apart from the text. */
static void is_of_the_holder(const char *text, const char *with)
{
    cr_assert_str_eq(field(text, with, "holder"), "\"hlk-web-3-4711-9f3c:12\"");
    cr_assert_str_eq(field(text, with, "host"), "\"web-3\"");
    cr_assert_str_eq(field(text, with, "pid"), "\"4711\"");
}

Test(json, run_tells_whom_it_waits_for_and_who_was_in_the_way)
{
    raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1");
    raw(redis, "PEXPIRE t 600000");
    struct command *c = COMMAND("run", "--json", "-w", "2", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    each_line_is_an_object(c->text[ERR]);
    is_of_the_holder(c->text[ERR], "\"event\":\"waiting\"");
    cr_assert_str_eq(field(c->text[ERR], "\"event\":\"waiting\"", "position"), "\"1\"");
    is_of_the_holder(c->text[ERR], "\"event\":\"busy\"");
    command_free(c);
    c = COMMAND("run", "--json", "-n", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    is_of_the_holder(c->text[ERR], "\"event\":\"busy\"");
    command_free(c);
    raw(redis, "DEL t");
}

Test(json, each_event_has_its_time)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct command *c = COMMAND("run", "--json", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    each_line_is_an_object(c->text[ERR]);
    for (const char *line = c->text[ERR]; *line; line = strchr(line, '\n') + 1) {
        const char *time_ms = strstr(line, "\"time_ms\":");
        cr_assert(time_ms && time_ms < strchr(line, '\n'), "%s", line);
        long long ms = strtoll(time_ms + strlen("\"time_ms\":"), NULL, 10);
        cr_assert(ms >= (long long)now.tv_sec * 1000 && ms < ((long long)now.tv_sec + 60) * 1000, "%lld", ms);
    }
    command_free(c);
}

Test(json, wrong_usage_is_an_object_wherever_json_stands)
{
    static const char *const argvs[][5] = { { "run", "--bogus", "--json", "t", "true" },
                                            { "run", "--lease", "x", "t", "--json" },
                                            { "--json", "show", "--bogus", "t", NULL },
                                            { "show", "t", "t2", "--json", NULL },
                                            { "--bogus", "--json", "show", "t", NULL } };
    for (size_t i = 0; i < sizeof argvs / sizeof argvs[0]; i++) {
        struct command *c = COMMAND(argvs[i][0], argvs[i][1], argvs[i][2], argvs[i][3], argvs[i][4]);
        cr_assert_eq(command_end(c), 64, "%zu", i);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        each_line_is_an_object(c->text[ERR]);
        command_free(c);
    }
}

Test(json, run_tells_of_a_loss)
{
    struct command *c = COMMAND("run", "--json", "--lease", "1", "t", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready\n");
    raw(redis, "DEL t");
    cr_assert_eq(command_end(c), 75);
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"lost\"", "signal"), "\"SIGKILL\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "by"), "\"hasplock\"");
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "code"), "\"75\"");
    command_free(c);
}

Test(json, run_tells_of_a_signal_that_ended_the_wait)
{
    cr_assert_str_eq(raw(redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1"), ":1");
    struct command *c = COMMAND("run", "--json", "t", "--", "true");
    WAIT_FOR(raw_listeners(redis, "t") == 1);
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"end\"", "code"), "\"130\"");
    command_free(c);
    raw(redis, "DEL t");
}

Test(json, show_tells_held_and_free)
{
    struct command *c = COMMAND("show", "--json", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_eq(c->text[OUT], "{\"name\":\"t\",\"held\":false,\"waiting\":0}\n");
    command_free(c);

    cr_assert_str_eq(raw(redis, "HSET t hlk-web-3-4711-9f3c:12 2"), ":1");
    c = COMMAND("show", "--json", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT],
                     "{\"name\":\"t\",\"held\":true,\"kind\":\"plain\",\"holder\":\"hlk-web-3-4711-9f3c:12\","
                     "\"host\":\"web-3\",\"pid\":4711,\"hold\":12,\"count\":2,\"ttl_ms\":-1,\"waiting\":0}\n");
    command_free(c);

    c = COMMAND("break", "--now", "--json", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "{\"name\":\"t\",\"broken\":true,\"holder\":\"hlk-web-3-4711-9f3c:12\","
                                   "\"host\":\"web-3\",\"pid\":4711,\"hold\":12,\"ttl_ms\":-1}\n");
    command_free(c);
    c = COMMAND("break", "--now", "--json", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_eq(c->text[OUT], "{\"name\":\"t\",\"broken\":false}\n");
    command_free(c);
}

Test(json, show_gives_each_position_in_queue)
{
    cr_assert_str_eq(raw(redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1"), ":1");
    cr_assert_str_eq(raw(redis, "ZADD hasplock_queue:{t} 1 %s", "hlk-web-3-812-9f3c:3 5000 1 0 1772330407213"), ":1");
    cr_assert_str_eq(raw(redis, "ZADD hasplock_queue:{t} 2 %s", "nonsense\"\n"), ":1");
    struct command *c = COMMAND("show", "--json", "t");
    cr_assert_eq(command_end(c), 0);
    each_line_is_an_object(c->text[OUT]);
    cr_assert_str_eq(
        c->text[OUT],
        "{\"name\":\"t\",\"held\":true,\"kind\":\"plain\",\"holder\":\"b983c153-7421-469a-addb-44fb92259a1b:1\","
        "\"count\":1,\"ttl_ms\":-1,\"waiting\":2}\n"
        "{\"name\":\"t\",\"position\":1,\"holder\":\"hlk-web-3-812-9f3c:3\",\"host\":\"web-3\",\"pid\":812,"
        "\"hold\":3,\"since_ms\":1772330407213,\"fenced\":true}\n"
        "{\"name\":\"t\",\"position\":2,\"holder\":\"nonsense\\\"\\u000a\",\"since_ms\":0,\"fenced\":false}\n");
    command_free(c);
    raw(redis, "DEL t hasplock_queue:{t}");
}

Test(json, escapes_what_a_name_may_have)
{
    struct command *c = COMMAND("show", "--json", "t\"\\\n\x01\xc3\xa4\xff\xed\xa0\x80\xf0\x9f\x94\x92");
    cr_assert_eq(command_end(c), 1);
    each_line_is_an_object(c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT],
                              "{\"name\":\"t\\\"\\\\\\u000a\\u0001\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                              "\xef\xbf\xbd\xf0\x9f\x94\x92\","),
                       "%s", c->text[OUT]);
    command_free(c);
}

/* CSI as one character, and a mark that turns the text behind it round. */
Test(json, escapes_what_a_terminal_would_act_on)
{
    struct command *c = COMMAND("show", "--json",
                                "t\xc2\x9b"
                                "31m\xe2\x80\xae");
    cr_assert_eq(command_end(c), 1);
    each_line_is_an_object(c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "{\"name\":\"t\\u009b31m\\u202e\","), "%s", c->text[OUT]);
    command_free(c);
}

Test(json, the_longest_name_fits)
{
    char name[513];
    memset(name, '\x01', 512);
    name[512] = '\0';
    struct command *c = COMMAND("show", "--json", name);
    cr_assert_eq(command_end(c), 1);
    each_line_is_an_object(c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "\"held\":false"));
    command_free(c);
}

Test(json, errors_are_objects_too)
{
    struct command *c = COMMAND("show", "--json", "-u", "nonsense", "t");
    cr_assert_eq(command_end(c), 64);
    cr_assert_str_empty(c->text[OUT]);
    each_line_is_an_object(c->text[ERR]);
    cr_assert_str_eq(field(c->text[ERR], "\"error\"", "status"), "\"HLK_E_INVALID\"");
    command_free(c);
}
