/* The private server of `local:`: which process gets which server, how long it lives, and what it inherits from the
 * process that started it. */
#include "local_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(local, .init = local_begin, .fini = local_end, .timeout = 120);

/* Shows: S33 */
Test(local, starts_a_server_that_answers)
{
    ensure();
    cr_assert_str_eq(socket_path, in_folder("hasplock-default/redis.sock"));
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

/* Shows: S31 */
Test(local, is_for_its_user_only)
{
    struct stat st;
    ensure();
    cr_assert_eq(stat(in_folder("hasplock-default"), &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700u);
    cr_assert_eq(stat(socket_path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700u);
    cr_assert_not_null(strstr(ask_once("CONFIG GET port\r\n"), "\r\n0\r\n"));
}

Test(local, saves_nothing)
{
    ensure();
    cr_assert_str_eq(ask_once("CONFIG GET save\r\n"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    cr_assert_str_eq(ask_once("CONFIG GET appendonly\r\n"), "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
}

Test(local, a_second_call_finds_the_same)
{
    ensure();
    pid_t first = server_pid();
    ensure();
    cr_assert_eq(server_pid(), first);
}

Test(local, each_name_is_a_server_of_its_own)
{
    char other[sizeof socket_path];
    ensure();
    setenv("HASPLOCK_LOCAL_IDLE_S", "1", 1);
    cr_assert_eq(hlk_local_ensure("other", RECONNECT_MS, other, sizeof other, &local_error), HLK_OK, "%s",
                 local_error.text);
    pid_t second = server_pid_in("hasplock-other/pid");
    cr_assert_str_eq(other, in_folder("hasplock-other/redis.sock"));
    cr_assert_neq(second, server_pid());
    send_signal(second, SIGTERM);
    WAIT_FOR(is_gone(second));
}

/* Runs in a session without HASPLOCK_LOCAL_DIR. Returns its server, and the folder, which may be removed at the end. */
static pid_t server_of_a_session(const char *runtime_dir, char *dir, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    unsetenv("HASPLOCK_LOCAL_DIR");
    if (runtime_dir)
        setenv("XDG_RUNTIME_DIR", runtime_dir, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    cr_assert_eq(hlk_local_ensure(name, RECONNECT_MS, socket_path, sizeof socket_path, &local_error), HLK_OK, "%s",
                 local_error.text);
    snprintf(dir, size, "/tmp/hasplock-%lu-%s", (unsigned long)geteuid(), name);
    cr_assert_eq(strncmp(socket_path, dir, strlen(dir)), 0, "%s", socket_path);
    return (pid_t)atol(strstr(ask_once("INFO server\r\n"), "process_id:") + strlen("process_id:"));
}

/* cron, at, sudo and services know nothing about the login session, and outlive it. */
/* Shows: S33 */
Test(local, is_one_for_all_sessions_of_a_user)
{
    char dir[sizeof socket_path], command[sizeof dir + 16];
    pid_t of_cron = server_of_a_session(NULL, dir, sizeof dir);
    pid_t of_login = server_of_a_session(folder, dir, sizeof dir);
    send_signal(of_cron, SIGTERM);
    WAIT_FOR(is_gone(of_cron));
    snprintf(command, sizeof command, "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(of_login, of_cron);
}

enum { CROWD = 8 };

/* Writes the pid of its server to `out`. */
_Noreturn static void ensure_at_once(int start, int out)
{
    char byte;
    pid_t got = -1;
    (void)!read(start, &byte, 1); /* the end of the stream starts all processes */
    if (ensure_for(RECONNECT_MS) == HLK_OK)
        got = (pid_t)atol(strstr(ask_once("INFO server\r\n"), "process_id:") + strlen("process_id:"));
    (void)!write(out, &got, sizeof got);
    _exit(0);
}

Test(local, many_processes_at_once_share_one)
{
    int start[2], out[2];
    pid_t children[CROWD], got[CROWD];
    cr_assert(pipe(start) == 0 && pipe(out) == 0);
    for (int i = 0; i < CROWD; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(start[1]);
            ensure_at_once(start[0], out[1]);
        }
    }
    close(start[1]);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(read(out[0], &got[i], sizeof got[i]), (ssize_t)sizeof got[i]);
    for (int i = 0; i < CROWD; i++) {
        waitpid(children[i], NULL, 0);
        cr_assert_gt(got[i], 0);
        cr_assert_eq(got[i], got[0]);
    }
}

static void *ensure_in_thread(void *status)
{
    char path[sizeof socket_path];
    *(enum hlk_status *)status = hlk_local_ensure("default", RECONNECT_MS, path, sizeof path, NULL);
    return NULL;
}

Test(local, many_threads_at_once_share_one)
{
    pthread_t threads[CROWD];
    enum hlk_status got[CROWD];
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ensure_in_thread, &got[i]), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(got[i], HLK_OK);
    ensure();
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, goes_when_idle_and_not_before)
{
    int64_t asked_at = test_now_ms();
    ensure();
    pid_t server = server_pid(), guard = parent_of(server);
    WAIT_FOR(is_gone(server) && is_gone(guard));
    cr_assert_geq(test_now_ms() - asked_at, IDLE_MS);
    cr_assert_neq(access(socket_path, F_OK), 0);
}

Test(local, can_be_had_again_after_it_went)
{
    ensure();
    pid_t first = server_pid();
    WAIT_FOR(is_gone(first));
    ensure();
    cr_assert_neq(server_pid(), first);
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, stays_while_somebody_is_connected)
{
    ensure();
    pid_t server = server_pid();
    int fd = connected_to(socket_path);
    struct pollfd end = { .fd = fd, .events = POLLIN };
    cr_assert_eq(poll(&end, 1, 3 * IDLE_MS), 0, "the server left while a client was there");
    int64_t left_at = test_now_ms();
    close(fd);
    WAIT_FOR(is_gone(server));
    cr_assert_geq(test_now_ms() - left_at, IDLE_MS);
}

Test(local, stays_while_a_lock_is_held)
{
    ensure();
    pid_t server = server_pid();
    int64_t held_at = test_now_ms();
    cr_assert_str_eq(ask_once("SET t 1 PX 2500\r\n"), "+OK\r\n");
    WAIT_FOR(is_gone(server));
    cr_assert_geq(test_now_ms() - held_at, 2500 + IDLE_MS);
}

Test(local, each_call_keeps_it_for_another_while)
{
    ensure();
    pid_t server = server_pid();
    int64_t last = 0;
    for (int64_t begun = test_now_ms(); test_now_ms() - begun < 3 * IDLE_MS; test_sleep_ms(IDLE_MS / 4)) {
        last = test_now_ms();
        ensure();
    }
    cr_assert_eq(server_pid(), server);
    WAIT_FOR(is_gone(server));
    cr_assert_geq(test_now_ms() - last, IDLE_MS);
}

static int take_lock_file(void)
{
    int lock = open(in_folder("hasplock-default/lock"), O_RDWR | O_CLOEXEC);
    cr_assert_eq(flock(lock, LOCK_EX), 0);
    return lock;
}

Test(local, does_not_go_while_somebody_is_just_coming)
{
    ensure();
    pid_t server = server_pid();
    int lock = take_lock_file();
    test_sleep_ms(3 * IDLE_MS);
    cr_assert_not(is_gone(server));
    close(lock);
    WAIT_FOR(is_gone(server));
}

Test(local, waits_for_somebody_who_is_just_coming)
{
    ensure();
    int lock = take_lock_file();
    cr_assert_eq(ensure_for(SHORT_MS), HLK_E_CONNECT);
    cr_assert_not_null(strstr(local_error.text, "another process keeps"), "%s", local_error.text);
    close(lock);
    ensure();
}

Test(local, one_that_was_killed_is_replaced)
{
    ensure();
    pid_t first = server_pid();
    end_server(SIGKILL);
    cr_assert_eq(access(socket_path, F_OK), 0, "there is no stale socket to stumble over");
    ensure();
    cr_assert_neq(server_pid(), first);
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, goes_when_its_folder_was_removed)
{
    char command[256];
    ensure();
    pid_t server = server_pid(), guard = parent_of(server);
    snprintf(command, sizeof command, "rm -rf %s/hasplock-default", folder);
    cr_assert_eq(system(command), 0);
    WAIT_FOR(is_gone(server) && is_gone(guard));
}

/* A token counter has no ttl, so it keeps the server running for ever, unless no process can reach it any more. */
Test(local, goes_without_its_folder_even_if_it_keeps_something)
{
    char command[256];
    ensure();
    pid_t server = server_pid(), guard = parent_of(server);
    cr_assert_str_eq(ask_once("SET t 1\r\n"), "+OK\r\n");
    snprintf(command, sizeof command, "rm -rf %s/hasplock-default", folder);
    cr_assert_eq(system(command), 0);
    WAIT_FOR(is_gone(server) && is_gone(guard));
}

Test(local, guard_comes_back_when_its_connection_is_killed)
{
    ensure();
    pid_t server = server_pid();
    int fd = connected_to(socket_path);
    cr_assert_str_eq(asked(fd, "CLIENT KILL TYPE normal SKIPME yes\r\n"), ":1\r\n");
    close(fd);
    WAIT_FOR(is_gone(server));
    cr_assert_not_null(strstr(status_of(getpid(), "State"), "running"));
}

Test(local, has_no_descriptor_of_ours)
{
    int ours[2];
    char byte;
    cr_assert_eq(pipe(ours), 0); /* not close-on-exec, as in a careless application */
    ensure();
    close(ours[1]);
    struct pollfd end = { .fd = ours[0], .events = POLLIN };
    cr_assert_eq(poll(&end, 1, 0), 1, "somebody else has the writing end");
    cr_assert_eq(read(ours[0], &byte, 1), 0);
}

Test(local, is_not_our_child)
{
    ensure();
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD);
}

/* The signals that an application can use: the C library reserves 32 and 33. */
static unsigned long long signals_of(pid_t pid, const char *field)
{
    return strtoull(status_of(pid, field), NULL, 16) & ~(3ull << 31);
}

static void ignore(int sig)
{
    (void)sig;
}

Test(local, has_no_signal_state_of_ours)
{
    sigset_t blocked;
    signal(SIGTERM, SIG_IGN);
    signal(SIGUSR1, ignore);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    ensure();
    pid_t guard = parent_of(server_pid());
    cr_assert_eq(signals_of(guard, "SigBlk"), 0u);
    cr_assert_eq(signals_of(guard, "SigIgn"), 0u);
    cr_assert_eq(signals_of(guard, "SigCgt"), 0u);
    cr_assert_eq(signals_of(server_pid(), "SigBlk"), 0u);
}

Test(local, leaves_the_signals_of_the_caller_alone)
{
    sigset_t before, after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    ensure();
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < SIGRTMIN; sig++)
        cr_assert_eq(sigismember(&before, sig), sigismember(&after, sig), "signal %d", sig);
}

Test(local, works_without_standard_streams)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        _exit(ensure_for(RECONNECT_MS) == HLK_OK ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(status, 0);
    ensure();
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, works_where_children_are_reaped_by_the_kernel)
{
    signal(SIGCHLD, SIG_IGN);
    ensure();
    signal(SIGCHLD, SIG_DFL);
    cr_assert_str_eq(ask_once("PING\r\n"), "+PONG\r\n");
}

Test(local, is_in_a_session_and_a_folder_of_its_own)
{
    char link[64], cwd[PATH_MAX] = "";
    ensure();
    pid_t server = server_pid(), guard = parent_of(server);
    cr_assert_eq(getsid(server), guard);
    cr_assert_neq(getsid(server), getsid(0));
    snprintf(link, sizeof link, "/proc/%ld/cwd", (long)guard);
    cr_assert_gt(readlink(link, cwd, sizeof cwd - 1), 0);
    cr_assert_str_eq(cwd, "/");
}
