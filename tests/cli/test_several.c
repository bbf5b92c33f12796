/* hasplock run with several names: all locks, or none. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(several, .init = cli_start, .fini = cli_stop);

static int64_t held(void)
{
    return raw_int(redis, "EXISTS ta tb tc");
}

Test(several, locks_are_held_at_once)
{
    struct command *c = COMMAND("run", "tc", "ta", "tb", "--", FAKE_COMMAND, "ready", "read", "exit=5");
    command_until(c, OUT, "ready\n");
    cr_assert_eq(held(), 3);
    cr_assert_eq(RUN("run", "-n", "tb", "--", "true"), 1);
    command_type_end(c);
    cr_assert_eq(command_end(c), 5, "%s", c->text[ERR]);
    cr_assert_str_empty(c->text[ERR]);
    cr_assert_eq(held(), 0);
    command_free(c);
}

Test(several, locks_are_not_held_if_one_is_busy)
{
    struct command *holder = HOLDER("run", "tb");
    struct command *c = COMMAND("run", "-n", "tb", "ta", "--", FAKE_COMMAND, "ready");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_empty(c->text[OUT]);
    cr_assert_eq(strncmp(c->text[ERR], "hasplock: run \"tb+ta\": \"tb\" at ", 31), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], ": held by "), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "-w", "0.2", "-E", "17", "ta", "tb", "tc", "--", FAKE_COMMAND, "ready");
    cr_assert_eq(command_end(c), 17);
    cr_assert_eq(strncmp(c->text[ERR], "hasplock: run \"ta+tb+tc\": \"tb\" at ", 34), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "held by "), "%s", c->text[ERR]);
    command_free(c);
    WAIT_FOR(held() == 1);
    holder_end(holder);
}

Test(several, waits_name_the_lock_that_is_waited_for)
{
    char pid[64];
    struct command *holder = HOLDER("run", "tb");
    struct command *c = COMMAND("run", "-v", "tb", "ta", "--", FAKE_COMMAND, "ready");
    command_until(c, ERR, "hasplock: run \"tb+ta\": waiting: \"tb\" held by ");
    command_until(c, ERR, ", ttl ");
    snprintf(pid, sizeof pid, " pid %d (hold ", (int)holder->pid);
    cr_assert_not_null(strstr(c->text[ERR], pid), "%s", c->text[ERR]);
    holder_end(holder);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], "ready\n");
    command_free(c);
}

/* Each of them waits for the lock that comes first by name. */
Test(several, runs_of_another_order_do_not_wait_for_each_other)
{
    struct command *c[8];
    for (int i = 0; i < 8; i++)
        c[i] = COMMAND("run", i % 2 ? "ta" : "tb", i % 2 ? "tb" : "ta", "--", "true");
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(command_end(c[i]), 0, "%s", c[i]->text[ERR]);
        command_free(c[i]);
    }
}

Test(several, signals_end_the_wait_and_leave_nothing)
{
    struct command *holder = HOLDER("run", "tb");
    struct command *c = COMMAND("run", "ta", "tb", "--", "true");
    WAIT_FOR(raw_listeners(redis, "tb") == 1);
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    command_free(c);
    WAIT_FOR(held() == 1 && raw_listeners(redis, "tb") == 0);
    holder_end(holder);
}

/* --- what COMMAND finds */

Test(several, names_and_holders_are_words_in_one_order)
{
    char b[200] = "", a[200] = "";
    struct command *c = COMMAND("run", "tb", "ta", "--", "sh", "-c", "echo \"$HASPLOCK_NAME $HASPLOCK_OWNER\"; read x");
    command_until(c, OUT, "\n");
    cr_assert_eq(sscanf(c->text[OUT], "tb ta %199s %199s\n", b, a), 2, "%s", c->text[OUT]);
    cr_assert_str_eq(b, raw_holder(redis, "tb"));
    cr_assert_str_eq(a, raw_holder(redis, "ta"));
    command_type(c, "\n");
    cr_assert_eq(command_end(c), 0);
    command_free(c);
}

Test(several, tokens_are_words_in_that_order_too)
{
    raw(redis, "SET redisson_lock_token:{ta} 41");
    raw(redis, "SET redisson_lock_token:{tb} 6");
    struct command *c = COMMAND("run", "-v", "--fenced", "-c", "echo \"$HASPLOCK_TOKEN\"", "tb", "ta", "--");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], "7 42\n");
    cr_assert_not_null(strstr(c->text[ERR], " s, lease 30 s, tokens 7 42\n"), "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "DEL redisson_lock_token:{ta} redisson_lock_token:{tb}");
}

Test(several, events_name_all_and_the_one)
{
    struct command *holder = HOLDER("run", "tb");
    struct command *c = COMMAND("run", "--json", "-n", "ta", "tb", "--", "true");
    cr_assert_eq(command_end(c), 1);
    const char *busy = strstr(c->text[ERR], "\"event\":\"busy\"");
    cr_assert(busy && strstr(busy, "\"name\":\"ta+tb\",\"lock\":\"tb\",\"holder\":\"hlk-"), "%s", c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "--json", "-w", "2", "ta", "tb", "--", "true");
    cr_assert_eq(command_end(c), 1);
    const char *waiting = strstr(c->text[ERR], "\"event\":\"waiting\"");
    cr_assert(waiting && strstr(waiting, "\"name\":\"ta+tb\",\"lock\":\"tb\",\"holder\":\"hlk-"), "%s", c->text[ERR]);
    command_free(c);
    holder_end(holder);
}

/* --- while COMMAND runs */

Test(several, locks_end_the_command_if_one_is_broken)
{
    struct command *c = COMMAND("run", "ta", "tb", "tc", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready\n");
    cr_assert_eq(RUN("break", "--now", "-q", "tb"), 0);
    cr_assert_eq(command_end(c), 75);
    cr_assert_eq(strncmp(c->text[ERR], "hasplock: run \"ta+tb+tc\": \"tb\" lost: ", 37), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "; sent SIGKILL to "), "%s", c->text[ERR]);
    WAIT_FOR(held() == 0);
    command_free(c);
}

static const char *run_for_three_leases(void)
{
    static char wrong[600];
    struct command *c = COMMAND("run", "--lease", "1", "ta", "tb", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    bool all = true;
    for (int64_t end = test_now_ms() + 3000; all && test_now_ms() < end; test_sleep_ms(20))
        all = held() == 2;
    command_type_end(c);
    int code = command_end(c);
    snprintf(wrong, sizeof wrong, "%s, %d: %.500s", all ? "held" : "not held", code, c->text[ERR]);
    command_free(c);
    return all && code == 0 ? NULL : wrong;
}

Test(several, locks_are_renewed)
{
    const char *wrong = pause_repeat(100, run_for_three_leases);
    cr_assert_null(wrong, "%s", wrong);
}

/* --- a run within a run */

Test(several, locks_of_a_run_around_it_are_refused)
{
    static const char *const scripts[] = { "exec \"$0\" run -u \"$1\" tb tc -- true",
                                           "exec env -i \"$0\" run -u \"$1\" tc tb -- true",
                                           "exec env -i \"$0\" run -u \"$1\" tb -- true" };
    for (int i = 0; i < 3; i++) {
        struct command *c = COMMAND("run", "ta", "tb", "--", "sh", "-c", scripts[i], HASPLOCK, getenv("HASPLOCK_URL"));
        cr_assert_eq(command_end(c), 64, "%d: %s", i, c->text[ERR]);
        cr_assert_not_null(strstr(c->text[ERR], i < 2 ? ": \"tb\" held by the hasplock run around this one"
                                                      : "\"tb\": held by the hasplock run around this one"),
                           "%s", c->text[ERR]);
        command_free(c);
    }
}

/* --- kinds */

Test(several, locks_are_all_of_the_kind_that_is_given)
{
    struct command *reader = COMMAND("run", "-s", "ta", "tb", "--", FAKE_COMMAND, "ready", "read");
    command_until(reader, OUT, "ready\n");
    cr_assert_eq(RUN("run", "-sn", "tb", "ta", "--", "true"), 0);
    struct command *c = COMMAND("run", "-xn", "tb", "tc", "--", "true");
    cr_assert_eq(command_end(c), 1);
    cr_assert_eq(strncmp(c->text[ERR], "hasplock: run \"tb+tc\": \"tb\" at ", 31), 0, "%s", c->text[ERR]);
    command_free(c);
    holder_end(reader);
    c = COMMAND("run", "--string", "ta", "tb", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    cr_assert_str_eq(raw(redis, "TYPE ta"), "string");
    cr_assert_str_eq(raw(redis, "TYPE tb"), "string");
    holder_end(c);
}

/* --- which words are names */

static void runs(const char *expected, const char *const *argv)
{
    struct command *c = command_start(argv);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], expected);
    command_free(c);
}
#define RUNS(expected, ...) runs(expected, (const char *const[]){ HASPLOCK, "run", __VA_ARGS__, NULL })

Test(several, names_stand_alone_up_to_two_dashes)
{
    RUNS("ta tb\n", "-n", "ta", "tb", "--", "printenv", "HASPLOCK_NAME");
    RUNS("ta tb\n", "ta", "-n", "tb", "--", "printenv", "HASPLOCK_NAME");
    RUNS("ta tb\n", "-c", "echo $HASPLOCK_NAME", "ta", "tb", "--");
    RUNS("a -- b\n", "ta", "--", "echo", "a", "--", "b");
    RUNS("-x -- b\n", "ta", "echo", "-x", "--", "b"); /* an option: they are COMMAND */
    RUNS("-- b\n", "--", "ta", "echo", "--", "b");
    struct command *c = COMMAND("run", "ta", "tb", "-n", "--", "true");
    cr_assert_eq(command_end(c), 127);
    cr_assert_str_eq(c->text[ERR],
                     "hasplock: run \"ta\": cannot execute \"tb\": No such file or directory (options stand "
                     "before the second of several NAMEs)\n");
    command_free(c);
}

Test(several, refuses_bad_input)
{
    static char name[513], many[70][8];
    const char *argv[80] = { HASPLOCK, "run" };
    memset(name, 't', 512);
    static const struct {
        const char *words[6], *line;
    } wrong[] = {
        { { "ta", "tb", "ta", "--", "true" }, "hasplock: run \"ta+tb+ta\": \"ta\" is named twice\n" },
        { { "ta", "", "--", "true" }, "hasplock: run \"ta\": NAME is empty; it has 1 to 512 bytes\n" },
        { { "ta", "tb", "--" }, "hasplock: run \"ta+tb\": no COMMAND given\n" },
        { { "--lease", "5", "ta", "tb", "--", "" }, "hasplock: run \"ta+tb\": COMMAND is empty\n" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(argv + 2, wrong[i].words, sizeof wrong[i].words);
        struct command *c = command_start(argv);
        cr_assert_eq(command_end(c), 64, "%zu: %s", i, c->text[ERR]);
        cr_assert_str_eq(c->text[ERR], wrong[i].line);
        command_free(c);
    }
    for (int i = 0; i < 65; i++) {
        snprintf(many[i], sizeof many[i], "t%d", i);
        argv[2 + i] = many[i];
    }
    argv[67] = "--";
    argv[68] = "true";
    struct command *c = command_start(argv);
    cr_assert_eq(command_end(c), 64);
    cr_assert_not_null(strstr(c->text[ERR], ": more than 64 NAMEs\n"), "%s", c->text[ERR]);
    command_free(c);
    cr_assert_eq(RUN("run", "ta", name, "--", "true"), 0, "a long one is cut in messages only");
    cr_assert_eq(RUN("semaphore", "-k", "1", "ta", "tb", "--", "true"), 127, "it has one NAME: tb is COMMAND");
    raw(redis, "DEL ta");
}
