/* Signals while COMMAND runs. asks.md A7, consul 797, 1210, 2489, 2999, 3754, 4643: COMMAND gets them, and the lock is
 * released after COMMAND's death, not before. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(signals, .init = cli_start, .fini = cli_stop);

/* All but KILL, STOP, faults, PIPE, CHLD, URG and job control. */
static const int passed_on[] = { SIGHUP,  SIGINT,  SIGQUIT,   SIGABRT, SIGUSR1, SIGUSR2, SIGALRM,  SIGTERM,
                                 SIGCONT, SIGXCPU, SIGVTALRM, SIGPROF, SIGXFSZ, SIGIO,   SIGWINCH, SIGPWR };
enum { PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

static void until_got(struct command *c, int signal)
{
    char line[64];
    snprintf(line, sizeof line, "got SIG%s\n", sigabbrev_np(signal));
    command_until(c, OUT, line);
}

Test(signals, reach_the_command_and_end_nothing_else)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "catch", "ready", "read", "exit=42");
    command_until(c, OUT, "ready\n");
    for (int i = 0; i < PASSED_ON; i++) {
        kill(c->pid, passed_on[i]);
        until_got(c, passed_on[i]);
    }
    kill(c->pid, SIGRTMIN + 1);
    command_until(c, OUT, "got signal ");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type(c, "end\n");
    cr_assert_eq(command_end(c), 42);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(signals, ending_the_command_free_the_lock_and_end_hasplock)
{
    for (int i = 0; i < PASSED_ON; i++) {
        if (passed_on[i] == SIGCONT || passed_on[i] == SIGWINCH)
            continue;
        struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "stay");
        command_until(c, OUT, "ready\n");
        kill(c->pid, passed_on[i]);
        cr_assert_eq(command_end(c), DIED_OF + passed_on[i], "signal %d", passed_on[i]);
        cr_assert_eq(raw_pttl(redis, "t"), -2);
        command_free(c);
    }
}

Test(signals, do_not_free_the_lock_before_the_command_is_dead)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "catch", "ready", "read", "exit=3");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGTERM);
    until_got(c, SIGTERM);
    cr_assert_eq(RUN("run", "-qn", "t", "--", "true"), 1);
    command_type_end(c);
    cr_assert_eq(command_end(c), 3);
    cr_assert_eq(RUN("run", "-qn", "t", "--", "true"), 0);
    command_free(c);
}

/* consul 2022: only /bin/sh was killed. */
Test(signals, reach_the_whole_group)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "child", "ready", "stay", ".", "stay");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM); /* comes when nobody holds stdout any more */
    command_free(c);
}

Test(signals, that_come_before_the_command_runs_are_its_own)
{
    for (int i = 0; i < 20; i++) {
        struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "stay");
        WAIT_FOR(raw_pttl(redis, "t") > 0); /* held; COMMAND may be there or not */
        kill(c->pid, SIGTERM);
        cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
        cr_assert_eq(raw_pttl(redis, "t"), -2);
        command_free(c);
    }
}

Test(signals, that_cannot_be_caught_take_the_command_along)
{
    struct command *c = COMMAND("run", "--lease", "1", "t", "--", FAKE_COMMAND, "catch", "tell", "ready", "stay");
    command_until(c, OUT, "ready\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    kill(c->pid, SIGKILL);
    cr_assert_eq(command_end(c), DIED_OF + SIGKILL);
    WAIT_FOR(process_is_gone(pid));
    WAIT_FOR(raw_pttl(redis, "t") == -2); /* by its lease */
    command_free(c);
}

Test(signals, that_stop_the_command_leave_it_its_lock)
{
    struct command *c = COMMAND("run", "--lease", "3", "t", "--", FAKE_COMMAND, "ready", "read", "exit=4");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGTSTP); /* no terminal: COMMAND stops, we go on */
    int64_t end = test_now_ms() + 4000;
    while (test_now_ms() < end) {
        cr_assert_gt(raw_pttl(redis, "t"), 0);
        test_sleep_ms(20);
    }
    command_type(c, "hello\n");
    kill(c->pid, SIGCONT);
    cr_assert_eq(command_end(c), 4);
    command_free(c);
}
