/* On a terminal: COMMAND is what ^C and ^Z and the keyboard belong to, and afterwards the terminal is given back. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(terminal, .init = cli_start, .fini = cli_stop);

/* A shell without job control: hasplock is in the foreground group like it. */
static struct command *in_sh(const char *script)
{
    return command_start_on_terminal((const char *const[]){ "sh", "-c", script, HASPLOCK, FAKE_COMMAND, NULL });
}

static struct command *in_bash(void)
{
    setenv("H", HASPLOCK, 1);
    setenv("P", FAKE_COMMAND, 1);
    setenv("PS1", "prompt> ", 1);
    struct command *c =
        command_start_on_terminal((const char *const[]){ "bash", "--noprofile", "--norc", "--noediting", "-i", NULL });
    command_until(c, OUT, "prompt> ");
    return c;
}

Test(terminal, the_command_is_in_the_foreground_and_we_afterwards)
{
    struct command *c = in_sh("\"$0\" run t -- \"$1\" tell; echo then; \"$1\" tell");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(command_number(c, "terminal"), command_number(c, "pid"));
    char *then = strstr(c->text[OUT], "then");
    cr_assert_not_null(then);
    memmove(c->text[OUT], then, strlen(then) + 1);
    cr_assert_eq(command_number(c, "terminal"), command_number(c, "group"));
    command_free(c);
}

Test(terminal, the_command_reads_from_it)
{
    struct command *c = in_sh("\"$0\" run t -- \"$1\" ready read");
    command_until(c, OUT, "ready");
    command_type(c, "hello\n");
    command_until(c, OUT, "read hello");
    cr_assert_eq(command_end(c), 0);
    command_free(c);
}

Test(terminal, control_c_ends_the_command_and_frees_the_lock)
{
    struct command *c = in_sh("exec \"$0\" run t -- \"$1\" ready stay");
    command_until(c, OUT, "ready");
    command_type(c, "\003");
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

/* As if COMMAND had been in the script's own process group. */
Test(terminal, control_c_ends_the_script)
{
    static const char *const shells[] = { "sh", "bash" };
    for (int i = 0; i < 2; i++) {
        struct command *c = command_start_on_terminal(
            (const char *const[]){ shells[i], "-c", "while :; do \"$0\" run t -- \"$1\" ready stay; echo NEXT; done",
                                   HASPLOCK, FAKE_COMMAND, NULL });
        command_until(c, OUT, "ready");
        command_type(c, "\003");
        cr_assert_eq(command_end(c), DIED_OF + SIGINT, "%s", shells[i]);
        cr_assert_null(strstr(c->text[OUT], "NEXT"), "%s", c->text[OUT]);
        cr_assert_eq(raw_pttl(redis, "t"), -2);
        command_free(c);
    }
}

Test(terminal, control_c_ends_the_wait)
{
    cr_assert_str_eq(raw(redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1"), ":1");
    struct command *c = in_sh("exec \"$0\" run t -- \"$1\" ready stay");
    WAIT_FOR(raw_listeners(redis, "t") == 1);
    command_type(c, "\003");
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    command_free(c);
    raw(redis, "DEL t");
}

/* --- what a terminal shows of a wait */

static void hold_elsewhere(void)
{
    cr_assert_str_eq(raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1"), ":1");
    raw(redis, "PEXPIRE t 600000");
}

Test(terminal, shows_the_awaited_holder_after_1_s_then_erases_it)
{
    hold_elsewhere();
    struct command *c = in_sh("exec \"$0\" run t -- \"$1\" ready");
    command_until(c, OUT, "hasplock: run \"t\": waiting 1 s, 1st in the queue: held by web-3 pid 4711 (hold ");
    command_until(c, OUT, "waiting 2 s, ");
    cr_assert_null(strchr(c->text[OUT], '\n'), "one line, made anew: %s", c->text[OUT]);
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    command_until(c, OUT, "\r\033[Kready");
    cr_assert_eq(command_end(c), 0);
    command_free(c);
}

Test(terminal, shows_while_waiting_that_no_server_answers)
{
    redisFree(redis);
    redis = NULL;
    server_kill(server);
    struct command *c = in_sh("exec \"$0\" run t -- \"$1\" ready");
    command_until(c, OUT, "hasplock: run \"t\": waiting 1 s: no server answers");
    command_until(c, OUT, "waiting 2 s: no server answers");
    server_restart(server, false);
    command_until(c, OUT, "\r\033[Kready");
    cr_assert_eq(command_end(c), 0);
    command_free(c);
}

Test(terminal, shows_nothing_of_a_brief_wait_nor_when_quiet)
{
    hold_elsewhere();
    struct command *c =
        in_sh("\"$0\" run -w 0.3 t -- true 2>&1 | cat; \"$0\" run -q -w 1200ms t -- true; echo code=$?");
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strstr(c->text[OUT], "waiting"), "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "code=1"), "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "DEL t");
}

Test(terminal, is_clean_again_after_a_wait_that_was_interrupted)
{
    hold_elsewhere();
    struct command *c = in_sh("exec \"$0\" run t -- true");
    command_until(c, OUT, "waiting 1 s");
    command_type(c, "\003");
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    const char *last = strrchr(c->text[OUT], '\r');
    cr_assert(last && strncmp(last, "\r\033[K", 4) == 0 && !strstr(last, "waiting"), "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "DEL t");
}

/* `hasplock run x -- a | less`: the terminal is less's until a asks for it. */
Test(terminal, a_pipeline_keeps_it_until_the_command_wants_it)
{
    struct command *c = in_sh("\"$0\" run t -- \"$1\" tell ready read tell | cat");
    command_until(c, OUT, "ready");
    cr_assert_neq(command_number(c, "terminal"), command_number(c, "pid"));
    command_type(c, "hello\n");
    command_until(c, OUT, "read hello");
    cr_assert_eq(command_end(c), 0);
    char *then = strstr(c->text[OUT], "read hello");
    memmove(c->text[OUT], then, strlen(then) + 1);
    cr_assert_eq(command_number(c, "terminal"), command_number(c, "pid"));
    command_free(c);
}

Test(terminal, control_c_reaches_a_command_in_a_pipeline)
{
    struct command *c = in_sh("\"$0\" run t -- \"$1\" ready stay | cat");
    command_until(c, OUT, "ready");
    command_type(c, "\003");
    command_end(c);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_free(c);
}

Test(terminal, control_z_stops_both_and_fg_goes_on)
{
    struct command *c = in_bash();
    command_type(c, "$H run t -- $P ready read tell; echo code=$?\n");
    command_until(c, OUT, "ready\r\n");
    command_type(c, "\032");
    command_until(c, OUT, "Stopped");
    command_type(c, "fg\n");
    command_type(c, "hello\n");
    command_until(c, OUT, "read hello\r\n");
    command_until(c, OUT, "terminal ");
    cr_assert_eq(command_number(c, "terminal"), command_number(c, "pid"));
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_type(c, "exit\n");
    command_end(c);
    command_free(c);
}

/* 'T' while it is stopped. */
static char state_of(long pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *stat = fopen(path, "r");
    if (stat && !fgets(line, sizeof line, stat))
        line[0] = '\0';
    if (stat)
        fclose(stat);
    const char *name_end = strrchr(line, ')');
    return name_end ? name_end[2] : '-';
}

/* A member of the group that ignores ^Z would work on while nobody renews the lease. */
Test(terminal, control_z_stops_those_too_who_ignore_it)
{
    struct command *c = in_bash();
    command_type(c, "$H run --lease 60 t -- $P child ignore=20 tell ready stay . stay\n"); /* TSTP */
    command_until(c, OUT, "ready\r\n");
    long pid = command_number(c, "pid");
    command_type(c, "\032");
    command_until(c, OUT, "Stopped");
    WAIT_FOR(state_of(pid) == 'T');
    command_type(c, "fg\n");
    WAIT_FOR(state_of(pid) == 'S');
    command_type(c, "\003");
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_type(c, "exit\n");
    command_end(c);
    command_free(c);
}

/* The lease was over while both stood still: COMMAND must never run again. */
Test(terminal, fg_after_the_lease_kills_the_command)
{
    struct command *c = in_bash();
    command_type(c, "$H run --lease 1 t -- $P catch=18 tell ready stay\n"); /* CONT */
    command_until(c, OUT, "ready\r\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    command_type(c, "\032");
    command_until(c, OUT, "Stopped");
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_type(c, "fg\n");
    command_until(c, OUT, "sent SIGKILL to ");
    WAIT_FOR(process_is_gone(pid));
    cr_assert_null(strstr(c->text[OUT], "got SIGCONT"));
    command_type(c, "echo code=$?\n");
    command_until(c, OUT, "code=75");
    command_type(c, "exit\n");
    command_end(c);
    command_free(c);
}

Test(terminal, stops_a_background_command_that_reads_until_fg)
{
    struct command *c = in_bash();
    command_type(c, "$H run t -- $P ready read &\n");
    command_until(c, OUT, "ready\r\n");
    command_type(c, "until jobs | grep Stop[p]ed; do sleep 0.01; done\n");
    command_until(c, OUT, "Stopped");
    command_type(c, "fg\n");
    command_type(c, "hello\n");
    command_until(c, OUT, "read hello\r\n");
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    command_type(c, "exit\n");
    command_end(c);
    command_free(c);
}
