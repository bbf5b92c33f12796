/* --min-hold: a host that is late with the same job finds the lock held, also when COMMAND has ended. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(min_hold, .init = cli_start, .fini = cli_stop);

static const char kept[] = "hasplock: run \"t\": COMMAND has ended; kept for ";

/* COMMAND has ended, and the lock is kept. */
static struct command *start_kept(const char *step)
{
    struct command *c = COMMAND("run", "-v", "--min-hold", "5m", "t", "--", FAKE_COMMAND, step);
    command_until(c, ERR, kept);
    return c;
}

Test(min_hold, keeps_the_lock_when_the_command_has_ended)
{
    struct command *c = start_kept("exit=5");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    cr_assert_eq(RUN("run", "-qn", "t", "--", "true"), 1);
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), 5, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": SIGTERM ended --min-hold\n"), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": released after "), "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(min_hold, ends_when_its_time_is_over)
{
    int64_t started_ms = test_now_ms();
    struct command *c = COMMAND("run", "--min-hold", "700ms", "t", "--", FAKE_COMMAND, "exit=6");
    cr_assert_eq(command_end(c), 6);
    cr_assert_geq(test_now_ms() - started_ms, 700);
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(min_hold, is_over_already_if_the_command_takes_longer)
{
    struct command *c = COMMAND("run", "-v", "--min-hold", "1ms", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    test_sleep_ms(2);
    command_type_end(c);
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strstr(c->text[ERR], kept), "%s", c->text[ERR]);
    command_free(c);
}

Test(min_hold, ends_by_a_signal_that_asks_for_an_end)
{
    static const int ending[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct command *c = start_kept("exit=7");
        kill(c->pid, ending[i]);
        cr_assert_eq(command_end(c), 7, "signal %d: %s", ending[i], c->text[ERR]);
        cr_assert_eq(raw_pttl(redis, "t"), -2);
        command_free(c);
    }
}

Test(min_hold, does_not_end_by_another_signal)
{
    struct command *c = start_kept("exit=7");
    kill(c->pid, SIGUSR1);
    kill(c->pid, SIGCONT);
    kill(c->pid, SIGWINCH);
    cr_assert_eq(RUN("run", "-q", "-w", "0.3", "t", "--", "true"), 1);
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), 7);
    command_free(c);
}

static const char *keep_for_three_leases(void)
{
    struct command *c = COMMAND("run", "-v", "--lease", "1", "--min-hold", "3", "t", "--", FAKE_COMMAND, "exit=8");
    command_until(c, ERR, kept);
    cr_assert_eq(RUN("run", "-w", "15", "t", "--", "true"), 0);
    int64_t took_ms = test_now_ms() - c->began_ms;
    cr_assert_eq(command_end(c), 8, "%s", c->text[ERR]);
    command_free(c);
    return took_ms >= 3000 ? NULL : "another one had it before";
}

Test(min_hold, renews_the_lease)
{
    const char *wrong = pause_repeat(100, keep_for_three_leases);
    cr_assert_null(wrong, "%s", wrong);
}

Test(min_hold, is_not_for_what_was_not_done)
{
    cr_assert_eq(RUN("run", "--min-hold", "5m", "t", "--", "no-such-command-anywhere"), 127);
    cr_assert_eq(RUN("run", "--min-hold", "5m", "t", "--", FAKE_COMMAND, "kill=15"), DIED_OF + SIGTERM);
    struct command *c = COMMAND("run", "--min-hold", "5m", "t", "--", FAKE_COMMAND, "catch", "ready", "read", "exit=3");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGTERM);
    command_until(c, OUT, "got SIGTERM\n");
    command_type_end(c);
    cr_assert_eq(command_end(c), 3, "it was passed on, and COMMAND has heeded it: %s", c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "--min-hold", "5m", "t", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready\n");
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    cr_assert_eq(command_end(c), 75);
    command_free(c);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
}

Test(min_hold, is_for_what_has_failed)
{
    struct command *c = start_kept("kill=6");
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGABRT, "%s", c->text[ERR]);
    command_free(c);
}

Test(min_hold, ends_when_the_lock_is_lost)
{
    struct command *c = start_kept("exit=9");
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    cr_assert_eq(command_end(c), 9, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "run \"t\": lost when COMMAND had ended, while it was kept"), "%s",
                       c->text[ERR]);
    command_free(c);
}

/* The helper kills at the end of the lease: of the one that it knew while COMMAND ran. */
Test(min_hold, leaves_alone_what_the_command_has_left_behind)
{
    struct command *c = COMMAND("run", "--lease", "1", "--min-hold", "3", "t", "--", FAKE_COMMAND, "child", "ready",
                                "read", ".", "exit=6");
    cr_assert_eq(command_wait(c), 6);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_until(c, OUT, "ready\n");
    command_type(c, "go on\n");
    command_until(c, OUT, "read go on\n");
    command_end(c);
    command_free(c);
}

Test(min_hold, is_for_permits_too)
{
    struct command *c = COMMAND("semaphore", "-v", "-k1", "--min-hold", "5m", "t", "--", "true");
    command_until(c, ERR, "COMMAND has ended; kept for ");
    cr_assert_eq(RUN("semaphore", "-k1", "-qn", "t", "--", "true"), 1);
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "DEL t");
}

Test(min_hold, is_an_event)
{
    struct command *c = COMMAND("run", "--json", "--min-hold", "5m", "t", "--", FAKE_COMMAND, "exit=4");
    command_until(c, ERR, "\"event\":\"kept\"");
    command_until(c, ERR, "\"keep_ms\":29");
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), 4);
    cr_assert_not_null(strstr(c->text[ERR], "\"event\":\"interrupted\""), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "\"by\":\"command\",\"code\":4"), "%s", c->text[ERR]);
    command_free(c);
}
