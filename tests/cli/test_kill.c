/* COMMAND is killed in time whatever stands still: who reads our stderr, a file system, a terminal, hasplock itself.
 * And then hasplock ends at once. */
#include "fixture.h"
#include "frozen.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

TestSuite(kill, .init = cli_start, .fini = cli_stop);

enum { LEASE_MS = 1500, AT_ONCE_MS = 1000 };

/* hasplock with `fd` as its stderr, over a COMMAND that tells the time and heeds no signal. Takes fd. */
static struct command *run_with_stderr(int fd, const char *option)
{
    struct command *c =
        command_start_with_stderr((const char *const[]){ HASPLOCK, "run", option, "--lease", "1.5", "t", "--",
                                                         FAKE_COMMAND, "catch", "ready", "times", NULL },
                                  fd);
    close(fd);
    command_until(c, OUT, "ready\n");
    return c;
}

/* The server stands still from now on. COMMAND must be dead before its lease is over, and hasplock end soon after. */
static void lose_in_time(struct command *c)
{
    int64_t asked_ms = test_now_ms();
    cr_assert_leq(raw_pttl(redis, "t"), LEASE_MS);
    server_pause(server);
    int code = command_end(c);
    int64_t ended_ms = test_now_ms();
    server_resume(server);
    cr_assert_eq(code, 75, "%d: %s", code, c->text[ERR]);
    cr_assert_gt(command_last_time(c), 0);
    cr_assert_lt(command_last_time(c), asked_ms + LEASE_MS);
    cr_assert_lt(running_between_ms(command_last_time(c), ended_ms), AT_ONCE_MS);
}

/* What the helper that was left behind has to say comes when it can. */
static void says_it_later(int fd)
{
    static char said[1 << 20];
    size_t len = 0;
    ssize_t n;
    while (len < sizeof said - 1 && (n = read(fd, said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)n;
    said[len] = '\0';
    const char *text = said + strspn(said, "\n");
    cr_assert_not_null(strstr(text, "hasplock: run \"t\": lost: "), "%s", text);
    cr_assert_not_null(strstr(text, "; sent SIGKILL to "), "%s", text);
}

static void fill(int fd)
{
    char bytes[4096];
    memset(bytes, '\n', sizeof bytes);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, bytes, sizeof bytes) > 0 || write(fd, bytes, 1) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

/* A page of it may be written in part. */
static bool is_full(int pipe)
{
    int bytes = 0;
    return ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > fcntl(pipe, F_GETPIPE_SZ) - 4096;
}

static void lose_with_a_full_pipe(const char *option)
{
    int err[2];
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    struct command *c = run_with_stderr(fcntl(err[1], F_DUPFD_CLOEXEC, 0), option);
    fill(err[1]);
    close(err[1]);
    lose_in_time(c);
    says_it_later(err[0]);
    close(err[0]);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

Test(kill, does_not_wait_for_a_pipe_that_nobody_reads)
{
    lose_with_a_full_pipe("--on-lost=term");
}

Test(kill, does_not_wait_for_an_unread_pipe_when_logging)
{
    lose_with_a_full_pipe("-vv");
}

/* stdout is COMMAND's: both are full, and COMMAND stands in its write. */
Test(kill, comes_to_a_command_whose_output_nobody_reads)
{
    int err[2];
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    fill(err[1]);
    struct command *c = command_start_with_stderr(
        (const char *const[]){ HASPLOCK, "run", "-vv", "--on-lost=kill", "--lease", "1.5", "t", "--", "yes", NULL },
        err[1]);
    close(err[1]);
    WAIT_FOR(is_full(c->from[OUT]));
    int64_t began_ms = test_now_ms();
    server_pause(server);
    int code = command_wait(c);
    int64_t ended_ms = test_now_ms();
    server_resume(server);
    cr_assert_eq(code, 75);
    cr_assert_lt(running_between_ms(began_ms, ended_ms), LEASE_MS + AT_ONCE_MS);
    says_it_later(err[0]);
    close(err[0]);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

static bool file_says(const char *path, const char *text)
{
    static char said[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, said, sizeof said - 1);
    close(fd);
    said[len > 0 ? len : 0] = '\0';
    return strstr(said, text);
}

static void lose_on_a_frozen_file_system(const char *option)
{
    const char *dir = frozen_mount();
    char path[64];
    if (!dir)
        return;
    snprintf(path, sizeof path, "%s/stderr", dir);
    struct command *c = run_with_stderr(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), option);
    frozen_freeze(true);
    lose_in_time(c);
    frozen_freeze(false);
    WAIT_FOR(file_says(path, "; sent SIGKILL to "));
    cr_assert(file_says(path, "hasplock: run \"t\": at risk: ") || file_says(path, "hasplock: run \"t\": lost: "));
    frozen_unmount();
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

/* Shows: S2 */
Test(kill, does_not_wait_for_a_frozen_file_system)
{
    lose_on_a_frozen_file_system("--on-lost=term");
}

Test(kill, does_not_wait_for_frozen_file_systems_when_logging)
{
    lose_on_a_frozen_file_system("-vv");
}

/* Whether `text` has come by now. */
static bool has_said(int master, const char *text)
{
    static char said[1 << 16];
    static size_t len;
    ssize_t n = read(master, said + len, sizeof said - 1 - len);
    if (n > 0)
        len += (size_t)n;
    said[len] = '\0';
    return strstr(said, text);
}

/* ^S */
Test(kill, does_not_wait_for_a_terminal_that_was_stopped)
{
    int master, terminal;
    cr_assert_eq(openpty(&master, &terminal, NULL, NULL, NULL), 0);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    fcntl(terminal, F_SETFD, FD_CLOEXEC);
    struct command *c = run_with_stderr(fcntl(terminal, F_DUPFD_CLOEXEC, 0), "-v");
    cr_assert_eq(tcflow(terminal, TCOOFF), 0);
    lose_in_time(c);
    cr_assert_eq(tcflow(terminal, TCOON), 0);
    fcntl(master, F_SETFL, O_NONBLOCK);
    WAIT_FOR(has_said(master, "; sent SIGKILL to "));
    close(terminal);
    close(master);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

/* Shows: S2 */
Test(kill, comes_while_hasplock_stands_still)
{
    struct command *c = COMMAND("run", "--lease", "1.5", "t", "--", FAKE_COMMAND, "tell", "ready", "times");
    command_until(c, OUT, "ready\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    int64_t asked_ms = test_now_ms();
    kill(c->pid, SIGSTOP);
    WAIT_FOR(process_is_gone(pid));
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    kill(c->pid, SIGCONT);
    cr_assert_eq(command_end(c), 75);
    cr_assert_lt(command_last_time(c), asked_ms + LEASE_MS);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": lost: "), "%s", c->text[ERR]);
    command_free(c);
}

static const char *let_both_stand_still(void)
{
    struct command *c = COMMAND("run", "--lease", "1.5", "t", "--", FAKE_COMMAND, "catch", "tell", "ready", "stay");
    command_until(c, OUT, "ready\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    kill(c->pid, SIGSTOP);
    kill(pid, SIGSTOP);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    kill(pid, SIGCONT);
    kill(c->pid, SIGCONT);
    cr_assert_eq(command_end(c), 75);
    bool went_on = strstr(c->text[OUT], "got ");
    command_free(c);
    return went_on ? "the command went on" : NULL;
}

/* Whoever is woken first: COMMAND is dead by then. */
/* Shows: S2 */
Test(kill, comes_while_hasplock_and_the_command_stand_still)
{
    const char *wrong = pause_repeat(LEASE_MS / 20, let_both_stand_still);
    cr_assert_null(wrong, "%s", wrong);
}

/* SIGKILL to hasplock is SIGKILL to all that COMMAND has started, too. */
Test(kill, of_hasplock_takes_the_whole_group_along)
{
    struct command *c = COMMAND("run", "--lease", "60", "t", "--", FAKE_COMMAND, "child", "catch", "tell", "ready",
                                "stay", ".", "stay");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGKILL);
    cr_assert_eq(command_end(c), DIED_OF + SIGKILL); /* comes when nobody holds stdout any more */
    command_free(c);
    raw(redis, "DEL t");
}

/* But what a COMMAND that has ended left in the background is not ours any more. */
Test(kill, spares_what_the_command_left_behind)
{
    struct command *c = COMMAND("run", "--lease", "1", "t", "--", FAKE_COMMAND, "child", "ready", "read", "tell", ".");
    cr_assert_eq(command_wait(c), 0);
    command_until(c, OUT, "ready\n");
    test_sleep_ms(1500);
    command_type(c, "go on\n");
    command_until(c, OUT, "read go on\n");
    command_end(c);
    command_free(c);
}

/* Killed when the lease is at risk, a release cannot be answered: nobody waits for it. */
static void end_at_once(const char *lease, const char *on_lost, const char *step)
{
    struct command *c =
        COMMAND("run", "--lease", lease, "--on-lost", on_lost, "t", "--", FAKE_COMMAND, step, "tell", "ready", "stay");
    command_until(c, OUT, "ready\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    server_pause(server);
    WAIT_FOR(process_is_gone(pid));
    int64_t dead_ms = test_now_ms();
    cr_assert_eq(command_end(c), 75);
    int64_t took_ms = running_ms(dead_ms);
    server_resume(server);
    cr_assert_lt(took_ms, AT_ONCE_MS, "%lld ms after COMMAND's death", (long long)took_ms);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

Test(kill, is_the_end_when_the_command_heeds_sigterm)
{
    end_at_once("3", "term", "catch=1");
}

Test(kill, is_the_end_when_the_lease_is_over)
{
    end_at_once("1.5", "kill", "catch");
}
