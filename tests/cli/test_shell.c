/* Locks that shell scripts take for themselves, as the EXAMPLES of hasplock(1) do. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(shell, .init = cli_start, .fini = cli_stop);

/* --- a whole script */

static void write_script(char path[64])
{
    static const char text[] = "#!/bin/sh\n"
                               "[ \"$HASPLOCK_NAME\" = t ] || exec \"$HASPLOCK\" run t -- \"$0\" \"$@\"\n"
                               "echo \"ready $# $2\"\n"
                               "read x\n"
                               "exit 7\n";
    snprintf(path, 64, "/tmp/hlk-test-script-XXXXXX");
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && fchmod(fd, 0700) == 0);
    close(fd);
    setenv("HASPLOCK", HASPLOCK, 1);
}

Test(shell, script_runs_itself_under_a_lock)
{
    char path[64];
    write_script(path);
    struct command *first = command_start((const char *const[]){ path, "a", "b c", NULL });
    command_until(first, OUT, "ready 2 b c\n");
    struct command *second = command_start((const char *const[]){ path, NULL });
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_str_empty(second->text[OUT]);
    command_type_end(first);
    cr_assert_eq(command_end(first), 7, "%s", first->text[ERR]);
    command_until(second, OUT, "ready 0 \n");
    command_type_end(second);
    cr_assert_eq(command_end(second), 7, "%s", second->text[ERR]);
    command_free(first);
    command_free(second);
    unlink(path);
}

/* --- two commands, by a coprocess of bash */

static struct command *start_coprocess(const char *option)
{
    static const char script[] =
        "coproc LOCK { exec \"$0\" run --lease 1h $1 t -- sh -c 'echo held; exec cat >/dev/null'; }\n"
        "pid=$LOCK_PID in=${LOCK[1]} out=${LOCK[0]}\n"
        "read -r held <&\"$out\" || exit 9\n"
        "echo \"pid $pid\"\n"
        "echo \"$held\"\n"
        "read -r x\n"
        "kill -0 \"$pid\" 2>/dev/null && echo 'still held' || echo lost\n"
        "exec {in}>&-\n"
        "wait \"$pid\"\n"
        "echo \"ended $?\"\n"
        "read -r x\n";
    return command_start((const char *const[]){ "bash", "-c", script, HASPLOCK, option, NULL });
}

Test(shell, coprocess_holds_until_it_is_told)
{
    struct command *c = start_coprocess("");
    command_until(c, OUT, "held\n");
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 1);
    command_type(c, "go on\n");
    command_until(c, OUT, "still held\nended 0\n");
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 0, "the script runs on without the lock");
    command_type_end(c);
    command_end(c);
    command_free(c);
}

Test(shell, coprocess_that_gets_no_lock_ends_the_read)
{
    struct command *holder = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(holder, OUT, "ready\n");
    struct command *c = start_coprocess("-n");
    cr_assert_eq(command_end(c), 9, "%s", c->text[ERR]);
    command_free(c);
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0);
    command_free(holder);
}

Test(shell, coprocess_ends_with_its_script)
{
    struct command *c = start_coprocess("");
    command_until(c, OUT, "held\n");
    kill(c->pid, SIGKILL);
    cr_assert_eq(command_end(c), DIED_OF + SIGKILL); /* also when hasplock has ended, which has its stderr */
    command_free(c);
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
}

Test(shell, coprocess_that_has_lost_the_lock_is_gone)
{
    struct command *c = start_coprocess("");
    pid_t pid = (pid_t)command_number(c, "pid");
    command_until(c, OUT, "held\n");
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    command_until(c, ERR, "sent SIGKILL");
    WAIT_FOR(kill(pid, 0) != 0); /* bash has waited for it */
    command_type(c, "go on\n");
    command_until(c, OUT, "lost\nended 75\n");
    command_type_end(c);
    command_end(c);
    command_free(c);
}
