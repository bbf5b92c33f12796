/* There is only one private server of `local:` at a time. None is started beside a living one, and one that ends does
 * not remove the files of its successor. Two servers would mean two holders. */
#include "local_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(local_one, .init = local_begin, .fini = local_end, .timeout = 120);

/* The test's own server, which closes each connection at once, as a full server does. */
static void *close_each(void *listening)
{
    for (;;) {
        int fd = accept4(*(int *)listening, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        close(fd);
    }
}

static int listen_at_the_socket(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in_folder("hasplock-default/redis.sock"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(mkdir(in_folder("hasplock-default"), 0700), 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 64), 0);
    return fd;
}

Test(local_one, a_server_that_closes_connections_is_not_replaced)
{
    pthread_t thread;
    int listening = listen_at_the_socket();
    cr_assert_eq(pthread_create(&thread, NULL, close_each, &listening), 0);
    cr_assert_eq(ensure_for(SHORT_MS), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "closes connections at once"), "%s", local_error.text);
    cr_assert_neq(access(in_folder("hasplock-default/redis.log"), F_OK), 0, "another server was started");
    shutdown(listening, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listening);
}

/* maxclients: only the guard's own connection fits. */
Test(local_one, a_full_server_is_not_replaced)
{
    ensure();
    pid_t server = server_pid();
    cr_assert_str_eq(ask_once("SET t 1 PX 60000\r\n"), "+OK\r\n");
    cr_assert_str_eq(ask_once("CONFIG SET maxclients 1\r\n"), "+OK\r\n");
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(ensure_for(SHORT_MS), HLK_OK, "%s", local_error.text);
        cr_assert_eq(server_pid(), server);
    }
    cr_assert_not(is_gone(server));
}

/* The server holds the flock of its folder. Without a socket it cannot be reached, but it lives. */
Test(local_one, none_is_started_while_the_one_before_has_not_ended)
{
    cr_assert_eq(mkdir(in_folder("hasplock-default"), 0700), 0);
    int living = open(in_folder("hasplock-default"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(flock(living, LOCK_EX), 0);
    cr_assert_eq(ensure_for(SHORT_MS), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "has not ended"), "%s", local_error.text);
    cr_assert_neq(access(in_folder("hasplock-default/redis.log"), F_OK), 0, "another server was started");
    close(living);
    ensure();
}

Test(local_one, a_server_without_socket_is_ended_before_the_next)
{
    ensure();
    pid_t first = server_pid();
    cr_assert_eq(unlink(socket_path), 0);
    ensure();
    cr_assert(is_gone(first));
    cr_assert_neq(server_pid(), first);
}

Test(local_one, a_server_without_socket_stays_while_it_has_clients)
{
    ensure();
    pid_t first = server_pid();
    int client = connected_to(socket_path);
    cr_assert_str_eq(asked(client, "SET t 1 PX 60000\r\n"), "+OK\r\n");
    cr_assert_eq(unlink(socket_path), 0);
    cr_assert_eq(ensure_for(3 * IDLE_MS), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "has not ended"), "%s", local_error.text);
    cr_assert_not(is_gone(first));
    close(client);
    ensure();
}

/* Removes the folder under a living server and makes it again. */
static pid_t succeed(pid_t *first)
{
    char command[256];
    ensure();
    *first = server_pid();
    snprintf(command, sizeof command, "rm -rf %s/hasplock-default", folder);
    cr_assert_eq(system(command), 0);
    ensure();
    cr_assert_neq(server_pid(), *first);
    return server_pid();
}

Test(local_one, a_terminated_server_leaves_its_successor_alone)
{
    pid_t first, second = succeed(&first);
    send_signal(first, SIGTERM);
    WAIT_FOR(is_gone(first));
    cr_assert_eq(access(socket_path, F_OK), 0, "the socket is gone");
    cr_assert_eq(server_pid(), second);
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local_one, an_idle_servers_end_leaves_its_successor_alone)
{
    pid_t first, second = succeed(&first);
    int client = connected_to(socket_path); /* keeps the second server running */
    cr_assert(client >= 0);
    WAIT_FOR(is_gone(first));
    cr_assert_eq(access(socket_path, F_OK), 0, "the socket is gone");
    cr_assert_eq(server_pid(), second);
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
    close(client);
}

/* --- everything at the same time */

/* Counts the living servers that work in the folder. */
static int count_servers(void)
{
    char path[300], cwd[300], dir[300];
    int n = 0;
    DIR *proc = opendir("/proc");
    snprintf(dir, sizeof dir, "%s", in_folder("hasplock-default"));
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%.32s/cwd", entry->d_name);
        ssize_t len = readlink(path, cwd, sizeof cwd - 1);
        cwd[len > 0 ? len : 0] = '\0';
        n += strcmp(cwd, dir) == 0 && strstr(status_of((pid_t)atol(entry->d_name), "Name"), "-server");
    }
    closedir(proc);
    return n;
}

static _Noreturn void ask_again_and_again(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        (void)ensure_for(SHORT_MS);
        (void)ask_once("PING\r\n");
    }
}

static void disturb(int i)
{
    pid_t server = (pid_t)number_in(in_folder("hasplock-default/pid"));
    if (server <= 1 || !strstr(status_of(server, "Name"), "-server"))
        return;
    pid_t guard = parent_of(server);
    if (i % 4 == 0)
        send_signal(server, SIGTERM);
    else if (i % 4 == 1)
        send_signal(server, SIGKILL);
    else if (i % 4 == 2)
        unlink(in_folder("hasplock-default/redis.sock"));
    else if (strstr(status_of(guard, "Name"), "hasplock-local"))
        send_signal(guard, SIGKILL);
}

/* False: the server that answered has ended: what the last disturbance did was still on its way. */
static bool one_runs(void)
{
    ensure();
    int client = connected_to(socket_path); /* with a client it does not end as an idle one */
    int n = count_servers();
    if (client >= 0)
        close(client);
    cr_assert_leq(n, 1);
    return client >= 0 && n == 1;
}

/* Shows: S32 */
Test(local_one, there_are_never_two_however_they_end)
{
    enum { STARTERS = 3, ROUNDS = 24 };
    pid_t starters[STARTERS];
    for (int i = 0; i < STARTERS; i++)
        if ((starters[i] = fork()) == 0)
            ask_again_and_again();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t until = test_now_ms() + 80;
        while (test_now_ms() < until)
            cr_assert_leq(count_servers(), 1);
        disturb(i);
    }
    for (int i = 0; i < STARTERS; i++) {
        kill(starters[i], SIGKILL);
        waitpid(starters[i], NULL, 0);
    }
    WAIT_FOR(one_runs());
}

/* --- the guard */

/* Shows: S32 */
Test(local_one, ends_when_its_guard_is_killed)
{
    ensure();
    pid_t server = server_pid(), guard = parent_of(server);
    cr_assert_str_eq(ask_once("SET t 1\r\n"), "+OK\r\n"); /* not idle */
    send_signal(guard, SIGKILL);
    WAIT_FOR(is_gone(server));
    ensure();
    cr_assert_neq(server_pid(), server);
}

/* A whole file of /proc, with blanks for NULs. */
static const char *read_proc(pid_t pid, const char *name)
{
    static char bytes[65536];
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = 0, n;
    while (fd >= 0 && len < (ssize_t)sizeof bytes - 1 &&
           (n = read(fd, bytes + len, sizeof bytes - 1 - (size_t)len)) > 0)
        len += n;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < len; i++)
        if (bytes[i] == '\0')
            bytes[i] = ' ';
    bytes[len] = '\0';
    return bytes;
}

/* `pkill -f report.sh` must not find it, and its environment may contain secrets. */
Test(local_one, the_guard_shows_nothing_of_who_started_it)
{
    setenv("SECRET", "s3cret", 1);
    ensure();
    pid_t guard = parent_of(server_pid());
    cr_assert_eq(strncmp(read_proc(guard, "cmdline"), "hasplock-local ", 15), 0, "%s", read_proc(guard, "cmdline"));
    cr_assert_null(strchr(read_proc(guard, "environ"), '='), "%s", read_proc(guard, "environ"));
}

static void run_by_script(const char *format, ...)
{
    char text[512], path[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(path, sizeof path, "%s/script", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("HASPLOCK_SERVER", path, 1);
}

Test(local_one, the_server_gets_only_the_environment_it_needs)
{
    char bytes[4096] = "";
    setenv("SECRET", "s3cret", 1);
    setenv("TZ", "UTC", 1);
    run_by_script("#!/bin/sh\nenv > %s/env\nexec redis-server \"$@\"\n", folder); /* found by PATH */
    ensure();
    int fd = open(in_folder("env"), O_RDONLY | O_CLOEXEC);
    cr_assert(read(fd, bytes, sizeof bytes - 1) > 0);
    close(fd);
    cr_assert_not_null(strstr(bytes, "PATH="), "%s", bytes);
    cr_assert_not_null(strstr(bytes, "TZ=UTC\n"), "%s", bytes);
    cr_assert_null(strstr(bytes, "s3cret"), "%s", bytes);
    cr_assert_null(strstr(bytes, "HASPLOCK_"), "%s", bytes);
}

/* --- starting */

/* Long enough for the script to begin, however busy the machine is. */
static void *ensure_for_a_while(void *status)
{
    *(enum hlk_status *)status = ensure_for(STARTS_MS);
    return NULL;
}

/* The guard is stopped during the server's start: it sends nothing and does not end. */
Test(local_one, a_start_ends_in_time_when_the_guard_stands_still)
{
    enum hlk_status status = HLK_OK;
    pthread_t thread;
    run_by_script("#!/bin/sh\nkill -STOP $PPID\necho $$ > %s/script.pid\nexec sleep 600\n", folder);
    cr_assert_eq(pthread_create(&thread, NULL, ensure_for_a_while, &status), 0);
    WAIT_FOR(pthread_tryjoin_np(thread, NULL) == 0);
    cr_assert_eq(status, HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "did not come up in time"), "%s", local_error.text);
    pid_t server = server_pid_in("script.pid");
    cr_assert_not(is_gone(server));
    cr_assert_eq(ensure_for(SHORT_MS), HLK_E_CONNECT, "another was started beside it");
    cr_assert_not_null(strstr(local_error.text, "has not ended"), "%s", local_error.text);
    send_signal(parent_of(server), SIGCONT);
    WAIT_FOR(is_gone(server));
}
