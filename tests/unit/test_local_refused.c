/* The private server of `local:` when it cannot be started: the error texts, and that nothing else is touched. */
#include "local_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(local, .init = local_begin, .fini = local_end, .timeout = 120);

/* A program of the test's own instead of redis-server. */
static const char *script(const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/script", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("HASPLOCK_SERVER", path, 1);
    return path;
}

static void refused(enum hlk_status status, const char *text)
{
    cr_assert_eq(ensure_for(RECONNECT_MS), status, "%s", local_error.text);
    cr_assert_not_null(strstr(local_error.text, text), "%s", local_error.text);
}

Test(local, says_when_there_is_no_server_program)
{
    setenv("PATH", folder, 1);
    refused(HLK_E_INVALID, "apt-get install redis-server");
    setenv("PATH", "/bin:/usr/bin:/usr/local/bin", 1); /* needed by fini */
}

Test(local, says_when_the_chosen_program_is_none)
{
    setenv("HASPLOCK_SERVER", "/etc/passwd", 1);
    refused(HLK_E_INVALID, "HASPLOCK_SERVER is \"/etc/passwd\"");
    setenv("HASPLOCK_SERVER", "no-such-program", 1);
    refused(HLK_E_INVALID, "HASPLOCK_SERVER is \"no-such-program\"");
}

Test(local, takes_the_chosen_program_from_the_path)
{
    setenv("HASPLOCK_SERVER", "redis-server", 1);
    ensure();
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, says_when_the_program_cannot_run)
{
    script("#!/no/such/interpreter\n");
    refused(HLK_E_OS, "No such file or directory");
}

Test(local, quotes_the_last_words_of_a_server_that_fails)
{
    script("#!/bin/sh\necho first\necho 'Bad directive'\necho\nexit 1\n");
    refused(HLK_E_CONNECT, "its log ends with: Bad directive");
}

Test(local, ends_a_server_that_does_not_come_up)
{
    script("#!/bin/sh\necho $$ > $(dirname $0)/script.pid\nexec sleep 600\n");
    cr_assert_eq(ensure_for(2000), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "did not come up in time"), "%s", local_error.text);
    pid_t pid = server_pid_in("script.pid");
    cr_assert(is_gone(pid));
}

Test(local, says_when_the_server_stands_still)
{
    ensure();
    pid_t server = server_pid();
    send_signal(server, SIGSTOP);
    WAIT_FOR(strchr(status_of(server, "State"), 'T'));
    cr_assert_eq(ensure_for(SHORT_MS), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "does not answer"), "%s", local_error.text);
    send_signal(server, SIGCONT);
    ensure();
    cr_assert_eq(server_pid(), server);
}

Test(local, path_must_fit_a_socket)
{
    char longer[128];
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    setenv("HASPLOCK_LOCAL_DIR", longer, 1);
    refused(HLK_E_INVALID, "too long for a socket's path: set HASPLOCK_LOCAL_DIR");
}

Test(local, folder_must_be_an_absolute_path)
{
    setenv("HASPLOCK_LOCAL_DIR", "relative", 1);
    refused(HLK_E_INVALID, "not an absolute path");
}

Test(local, says_when_the_folder_cannot_be_made)
{
    setenv("HASPLOCK_LOCAL_DIR", in_folder("not/there"), 1);
    refused(HLK_E_OS, "No such file or directory");
}

Test(local, does_not_enter_a_folder_that_others_can)
{
    cr_assert_eq(mkdir(in_folder("hasplock-default"), 0700), 0);
    cr_assert_eq(chmod(in_folder("hasplock-default"), 0750), 0);
    refused(HLK_E_OS, "mode 700");
}

Test(local, does_not_follow_a_link_to_a_folder)
{
    char target[256];
    snprintf(target, sizeof target, "%s", in_folder("elsewhere"));
    cr_assert_eq(mkdir(target, 0700), 0);
    cr_assert_eq(symlink(target, in_folder("hasplock-default")), 0);
    refused(HLK_E_OS, "must be a folder of user");
}

Test(local, does_not_enter_a_folder_of_somebody_elses)
{
    cr_assert_eq(geteuid(), 0, "only root can make one: ./dev test runs as root");
    cr_assert_eq(mkdir(in_folder("hasplock-default"), 0700), 0);
    cr_assert_eq(chown(in_folder("hasplock-default"), 65534, 65534), 0);
    refused(HLK_E_OS, "must be a folder of user");
}

Test(local, needs_room_for_the_path)
{
    char small[8];
    cr_assert_eq(hlk_local_ensure("default", RECONNECT_MS, small, sizeof small, &local_error), HLK_E_INVALID);
}
