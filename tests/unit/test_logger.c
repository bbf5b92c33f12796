/* Log lines for a stderr that is slow, full or closed. */
#include "base/logger.h"

#include "base/log.h"
#include "hasplock/client.h"
#include "support/fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_S = 10, FLUSH_MS = 20000, MANY = 4000 };

static const struct hlk_log to_stderr = { NULL, NULL, HLK_LOG_DEBUG };
static int before, ends[2];
static char got[512 * 1024];
static size_t got_len;

/* From here on stderr is a pipe. */
static void new_pipe(void)
{
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

static void start(void)
{
    before = dup(STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    new_pipe();
}

static void end(void)
{
    dup2(before, STDERR_FILENO);
    close(before);
}

TestSuite(logger, .init = start, .fini = end, .timeout = 90);

static void set_flags(int fd, int flags)
{
    cr_assert_eq(fcntl(fd, F_SETFL, flags), 0);
}

/* Returns how many bytes fit. */
static size_t fill(void)
{
    static const char dots[4096];
    size_t size = 0;
    set_flags(STDERR_FILENO, O_NONBLOCK);
    for (ssize_t n; (n = write(STDERR_FILENO, dots, sizeof dots)) > 0;)
        size += (size_t)n;
    set_flags(STDERR_FILENO, 0);
    return size;
}

static void read_some(void)
{
    ssize_t n = read(ends[0], got + got_len, sizeof got - got_len - 1);
    if (n > 0)
        got_len += (size_t)n;
}

/* Reads until the logger has written everything. */
static void read_all(size_t skip)
{
    set_flags(ends[0], O_NONBLOCK);
    while (!hlk_logger_flush(1))
        read_some();
    for (size_t len = SIZE_MAX; len != got_len;) {
        len = got_len;
        read_some();
    }
    cr_assert_geq(got_len, skip);
    got_len -= skip;
    memmove(got, got + skip, got_len);
    got[got_len] = '\0';
}

/* Asserts that the lines in `got` have rising numbers, and sums up the lines and the reported drops. */
static unsigned count_lines(unsigned *dropped)
{
    unsigned n = 0, number, least = 0;
    *dropped = 0;
    for (char *save, *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (sscanf(line, "hasplock: error: line %u", &number) == 1) {
            cr_assert_geq(number, least);
            least = number + 1;
            n++;
        } else if (sscanf(line, "hasplock: warning: %u log lines were dropped", &number) == 1) {
            *dropped += number;
        } else {
            cr_assert_fail("%s", line);
        }
    }
    return n;
}

/* Shows: S29 */
Test(logger, drops_what_has_no_room_and_writes_how_much)
{
    unsigned dropped, lines;
    size_t skip = fill();
    for (int i = 0; i < MANY; i++)
        hlk_log(&to_stderr, HLK_LOG_ERROR, "line %d", i);
    read_all(skip);
    lines = count_lines(&dropped);
    cr_assert_gt(lines, 100u);
    cr_assert_gt(dropped, 0u);
    cr_assert_eq(lines + dropped, (unsigned)MANY);
}

Test(logger, writes_all_when_a_nonblocking_pipe_has_room_again)
{
    unsigned dropped;
    size_t skip = fill();
    set_flags(STDERR_FILENO, O_NONBLOCK);
    hlk_log(&to_stderr, HLK_LOG_ERROR, "line 0");
    cr_assert_not(hlk_logger_flush(50));
    hlk_log(&to_stderr, HLK_LOG_ERROR, "line 1");
    read_all(skip);
    cr_assert_eq(count_lines(&dropped), 2u);
    cr_assert_eq(dropped, 0u);
}

Test(logger, survives_a_closed_pipe_and_counts_its_lines)
{
    unsigned dropped;
    close(ends[0]);
    hlk_log(&to_stderr, HLK_LOG_ERROR, "one");
    hlk_log(&to_stderr, HLK_LOG_ERROR, "two");
    cr_assert(hlk_logger_flush(FLUSH_MS));
    new_pipe();
    hlk_log(&to_stderr, HLK_LOG_ERROR, "line 0");
    read_all(0);
    cr_assert_eq(count_lines(&dropped), 1u);
    cr_assert_eq(dropped, 2u);
}

static void await_child(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
}

/* The parent's thread is in its write meanwhile. The child has neither that thread nor its lines. */
Test(logger, of_a_forked_child_begins_anew, .disabled = STAGE_UNDER_TSAN || STAGE_UNDER_ASAN)
{
    unsigned dropped;
    size_t skip = fill();
    hlk_log(&to_stderr, HLK_LOG_ERROR, "line 0");
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_S);
        new_pipe();
        hlk_log(&to_stderr, HLK_LOG_ERROR, "line 0");
        read_all(0);
        _exit(count_lines(&dropped) == 1 && dropped == 0 ? 0 : 1);
    }
    await_child(child);
    read_all(skip);
    cr_assert_eq(count_lines(&dropped), 1u);
}

static void exit_with_a_line(void)
{
    alarm(CHILD_S);
    hlk_log(&to_stderr, HLK_LOG_ERROR, "line 0");
    (void)hlk_logger_flush(1);
    exit(0);
}

Test(logger, does_not_keep_a_process_that_exits, .disabled = STAGE_UNDER_TSAN || STAGE_UNDER_ASAN)
{
    (void)fill();
    pid_t child = fork();
    if (child == 0)
        exit_with_a_line();
    await_child(child);
}
