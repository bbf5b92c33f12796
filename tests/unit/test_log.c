/* The log callback. */
#include "base/log.h"

#include "base/logger.h"
#include "hasplock/client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    int calls, level;
    char line[2048];
} got;

static void callback(int level, const char *line, void *ctx)
{
    cr_assert_eq(ctx, &got);
    got.calls++;
    got.level = level;
    snprintf(got.line, sizeof got.line, "%s", line);
    errno = EIO;
}

static struct hlk_log ours = { callback, &got, HLK_LOG_WARN };

Test(log, gives_the_line_and_its_level)
{
    hlk_log(&ours, HLK_LOG_WARN, "reconnect in %d ms", 40);
    cr_assert_eq(got.calls, 1);
    cr_assert_eq(got.level, HLK_LOG_WARN);
    cr_assert_str_eq(got.line, "reconnect in 40 ms");
}

static int evaluated;

static const char *costly(void)
{
    evaluated++;
    return "";
}

Test(log, above_its_level_evaluates_nothing)
{
    hlk_log(&ours, HLK_LOG_INFO, "%s", costly());
    hlk_log(&ours, HLK_LOG_DEBUG, "%s", costly());
    hlk_log_write(&ours, HLK_LOG_DEBUG, "straight");
    cr_assert_eq(evaluated, 0);
    cr_assert_eq(got.calls, 0);
    hlk_log(&ours, HLK_LOG_ERROR, "%s", costly());
    cr_assert_eq(evaluated, 1);
    cr_assert_eq(got.calls, 1);
}

Test(log, is_one_line)
{
    hlk_log(&ours, HLK_LOG_ERROR, "%s", "-ERR a\r\nb\tc\033[0m\x9b \xc3\xa4");
    cr_assert_str_eq(got.line, "-ERR a\\x0d\\x0ab\\x09c\\x1b[0m\\x9b \xc3\xa4");
}

Test(log, cuts_what_is_too_long)
{
    char longest[4000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    hlk_log(&ours, HLK_LOG_ERROR, "%s", longest);
    cr_assert_eq(strlen(got.line), 1023u);
}

Test(log, keeps_errno)
{
    errno = ENOENT;
    hlk_log(&ours, HLK_LOG_ERROR, "x");
    cr_assert_eq(errno, ENOENT);
}

Test(log, goes_to_stderr_without_a_hook)
{
    struct hlk_log none = { NULL, NULL, HLK_LOG_DEBUG };
    char said[256];
    int out[2], before = dup(STDERR_FILENO);
    cr_assert_eq(pipe(out), 0);
    dup2(out[1], STDERR_FILENO);
    hlk_log(&none, HLK_LOG_ERROR, "one");
    hlk_log(&none, HLK_LOG_WARN, "two");
    hlk_log(&none, HLK_LOG_INFO, "three");
    hlk_log(&none, HLK_LOG_DEBUG, "four");
    bool written = hlk_logger_flush(20000);
    dup2(before, STDERR_FILENO);
    cr_assert(written);
    ssize_t len = read(out[0], said, sizeof said - 1);
    said[len > 0 ? len : 0] = '\0';
    cr_assert_str_eq(said,
                     "hasplock: error: one\nhasplock: warning: two\nhasplock: info: three\nhasplock: debug: four\n");
    close(out[0]);
    close(out[1]);
    close(before);
}
