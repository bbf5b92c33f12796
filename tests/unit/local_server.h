/* local_server.h - private servers of `local:` in a folder of the test's own, real ones. Each ends when it has been
 * idle for a second, also when a test breaks off. */
#ifndef HLK_TEST_LOCAL_SERVER_H
#define HLK_TEST_LOCAL_SERVER_H

#include "net/local.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_MS = WAIT_MS, SHORT_MS = 300, IDLE_MS = 1000 };

static char folder[] = "/tmp/hlk-local-XXXXXX";
static char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
static struct hlk_error error;

static inline const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline long number_in(const char *path)
{
    long number = -1;
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%ld", &number) != 1)
        number = -1;
    if (file)
        fclose(file);
    return number;
}

static inline pid_t server_pid_in(const char *path)
{
    long pid = number_in(in_folder(path));
    if (pid <= 1)
        test_give_up("no server's pid in %s", path);
    return (pid_t)pid;
}

static inline pid_t server_pid(void)
{
    return server_pid_in("hasplock-default/pid");
}

/* The only place that sends signals: a pid of -1 or 0 would reach everybody. */
static inline void send_signal(pid_t pid, int sig)
{
    if (pid <= 1)
        test_give_up("signal %d for pid %ld", sig, (long)pid);
    kill(pid, sig);
}

/* Of /proc/PID/status, "" when there is no such process. */
static inline const char *status_of(pid_t pid, const char *field)
{
    static char line[256];
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    size_t len = strlen(field);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, len) == 0 && line[len] == ':') {
            fclose(file);
            line[strcspn(line, "\n")] = '\0';
            return line + len + 1;
        }
    if (file)
        fclose(file);
    return "";
}

static inline pid_t parent_of(pid_t pid)
{
    return (pid_t)atol(status_of(pid, "PPid"));
}

static inline bool is_gone(pid_t pid)
{
    const char *state = status_of(pid, "State");
    return !*state || strchr(state, 'Z');
}

static inline enum hlk_status ensure_for(int64_t patience_ms)
{
    return hlk_local_ensure("default", patience_ms, socket_path, sizeof socket_path, &error);
}

static inline void ensure(void)
{
    cr_assert_eq(ensure_for(PATIENCE_MS), HLK_OK, "%s", error.text);
}

static inline int connected_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* One short question; its answer, cut at the end of what came at once. */
static inline const char *asked(int fd, const char *question)
{
    static char answer[8192];
    ssize_t n = -1;
    if (send(fd, question, strlen(question), MSG_NOSIGNAL) > 0)
        n = recv(fd, answer, sizeof answer - 1, 0);
    answer[n > 0 ? n : 0] = '\0';
    return answer;
}

static inline const char *ask_once(const char *question)
{
    int fd = connected_to(socket_path);
    const char *answer = fd >= 0 ? asked(fd, question) : "";
    if (fd >= 0)
        close(fd);
    return answer;
}

static inline void end_server(int sig)
{
    if (access(in_folder("hasplock-default/pid"), F_OK) != 0)
        return;
    pid_t server = server_pid(), guard = parent_of(server);
    if (!strstr(status_of(server, "Name"), "-server"))
        return; /* killed before: the file outlived it, and its pid may be somebody else's */
    send_signal(server, SIGCONT);
    send_signal(server, sig);
    WAIT_FOR(is_gone(server) && is_gone(guard));
}

static inline void local_begin(void)
{
    cr_assert_not_null(mkdtemp(folder));
    setenv("HASPLOCK_LOCAL_DIR", folder, 1);
    setenv("HASPLOCK_LOCAL_IDLE_S", "1", 1);
    unsetenv("HASPLOCK_SERVER");
}

static inline void local_end(void)
{
    char command[sizeof folder + 16];
    end_server(SIGTERM);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

#endif
