/* Which server: --url, --url-file, HASPLOCK_URL, HASPLOCK_URL_FILE, and who may read such a file. */
#include "fixture.h"
#include "support/fake_sentinel.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[] = "/tmp/hlk-where-XXXXXX", url[200];

static void start(void)
{
    cli_start();
    close(mkstemp(path));
    snprintf(url, sizeof url, "%s", getenv("HASPLOCK_URL"));
    unsetenv("HASPLOCK_URL");
}

static void stop(void)
{
    unlink(path);
    cli_stop();
}

TestSuite(where, .init = start, .fini = stop);

static void write_file(const char *format, mode_t mode)
{
    FILE *file = fopen(path, "w");
    fprintf(file, format, url);
    fclose(file);
    cr_assert_eq(chmod(path, mode), 0);
}

static void refused(const char *why, const char *option, const char *value)
{
    struct command *c = COMMAND("show", "t", option, value);
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], why), "%s instead of %s", c->text[ERR], why);
    cr_assert_null(strstr(c->text[ERR], url), "the file's content is not shown: %s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
}

Test(where, is_in_the_first_line_of_a_file)
{
    static const char *const formats[] = { "%s", "%s\n", "  %s \r\n", "\n%s\nanother line\n" };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        write_file(formats[i], 0600);
        cr_assert_eq(RUN("show", "--url-file", path, "t"), 1, "%zu", i);
        setenv("HASPLOCK_URL_FILE", path, 1);
        cr_assert_eq(RUN("show", "t"), 1, "%zu", i);
        cr_assert_eq(RUN("--url-file", path, "show", "t"), 1);
        unsetenv("HASPLOCK_URL_FILE");
    }
}

Test(where, is_not_in_a_file_that_others_may_read)
{
    static const struct {
        mode_t mode;
        bool good;
    } modes[] = { { 0600, true },  { 0400, true },  { 0640, true /* root's */ },
                  { 0644, false }, { 0660, false }, { 0604, false } };
    cr_assert_eq(geteuid(), 0, "the file is root's: ./dev test runs as root");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file("%s\n", modes[i].mode);
        if (modes[i].good)
            cr_assert_eq(RUN("show", "--url-file", path, "t"), 1, "%o", modes[i].mode);
        else
            refused("others than root and its group may use it (chmod 640)", "--url-file", path);
    }
    write_file("%s\n", 0600);
    cr_assert_eq(chown(path, 65534, 65534), 0);
    refused("it belongs to another user", "--url-file", path);
}

Test(where, is_not_in_a_file_that_is_none_or_empty)
{
    refused("No such file or directory", "--url-file", "/nonexistent/file");
    refused("it is no regular file", "--url-file", "/tmp");
    write_file("\n%.0s", 0600);
    refused("no URL in its first line", "--url-file", path);
}

/* The sentinels have credentials of their own, which COMMAND does not get. */
Test(where, is_where_sentinels_say)
{
    struct server *master = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    struct fake_sentinel *sentinel = fake_sentinel_start(master->port, 1);
    char sentinels[80];
    snprintf(sentinels, sizeof sentinels, "redis+sentinel://127.0.0.1:%d/tmaster", fake_sentinel_port(sentinel));
    cr_assert_eq(RUN("show", "-u", sentinels, "t"), 1);
    cr_assert(fake_sentinel_was_told(sentinel, "", ""));
    setenv("HASPLOCK_SENTINEL_USERNAME", "watcher", 1);
    setenv("HASPLOCK_SENTINEL_PASSWORD", "secret", 1);
    struct command *c = COMMAND("run", "-u", sentinels, "t", "sh", "-c", "echo \"<$HASPLOCK_SENTINEL_PASSWORD>\"");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], "<>\n");
    cr_assert(fake_sentinel_was_told(sentinel, "watcher", "secret"));
    command_free(c);
    unsetenv("HASPLOCK_SENTINEL_USERNAME");
    unsetenv("HASPLOCK_SENTINEL_PASSWORD");
    fake_sentinel_stop(sentinel);
    server_finish(master);
}

/* One that was given by mistake must not silently lose against another. */
Test(where, is_one_server)
{
    write_file("%s\n", 0600);
    struct command *c = COMMAND("show", "--url", url, "--url-file", path, "t");
    cr_assert_eq(command_end(c), 64);
    cr_assert_not_null(strstr(c->text[ERR], "--url and --url-file are both given: which server?"), "%s", c->text[ERR]);
    command_free(c);
    setenv("HASPLOCK_URL", url, 1);
    setenv("HASPLOCK_URL_FILE", path, 1);
    c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 64);
    cr_assert_not_null(strstr(c->text[ERR], "HASPLOCK_URL and HASPLOCK_URL_FILE are both given"), "%s", c->text[ERR]);
    command_free(c);
    setenv("HASPLOCK_URL", "unix:/nonexistent", 1);
    cr_assert_eq(RUN("show", "--url-file", path, "t"), 1, "an option goes before the environment");
}

/* The password stays in the file, and a hasplock within finds the same server. */
Test(where, is_handed_on_by_the_file)
{
    static const char script[] = "env | grep HASPLOCK_URL; \"$0\" show \"$HASPLOCK_NAME\"; echo \"code $?\"";
    char expected[100];
    write_file("%s\n", 0600);
    cr_assert_eq(chdir("/tmp"), 0);
    setenv("HASPLOCK_URL", "unix:/of/another/server", 1);
    struct command *c = COMMAND("run", "--url-file", path + strlen("/tmp/"), "t", "sh", "-c", script, HASPLOCK);
    cr_assert_eq(command_end(c), 0);
    snprintf(expected, sizeof expected, "HASPLOCK_URL_FILE=%s\nt: held by ", path);
    cr_assert_eq(strncmp(c->text[OUT], expected, strlen(expected)), 0, "%s%s", c->text[OUT], c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "code 0\n"), "%s%s", c->text[OUT], c->text[ERR]);
    command_free(c);
}
