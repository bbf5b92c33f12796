#include "local_server.h"

#include "support/wait.h"

char folder[] = "/tmp/hlk-local-XXXXXX";
char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
struct hlk_error local_error;

const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

long number_in(const char *path)
{
    long number = -1;
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%ld", &number) != 1)
        number = -1;
    if (file)
        fclose(file);
    return number;
}

pid_t server_pid_in(const char *path)
{
    long pid = number_in(in_folder(path));
    if (pid <= 1)
        test_give_up("no server's pid in %s", path);
    return (pid_t)pid;
}

pid_t server_pid(void)
{
    return server_pid_in("hasplock-default/pid");
}

void send_signal(pid_t pid, int sig)
{
    if (pid <= 1)
        test_give_up("signal %d for pid %ld", sig, (long)pid);
    kill(pid, sig);
}

const char *status_of(pid_t pid, const char *field)
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

pid_t parent_of(pid_t pid)
{
    return (pid_t)atol(status_of(pid, "PPid"));
}

bool is_gone(pid_t pid)
{
    const char *state = status_of(pid, "State");
    return !*state || strchr(state, 'Z');
}

enum hlk_status ensure_for(int64_t reconnect_timeout_ms)
{
    return hlk_local_ensure("default", reconnect_timeout_ms, socket_path, sizeof socket_path, &local_error);
}

void ensure(void)
{
    cr_assert_eq(ensure_for(RECONNECT_MS), HLK_OK, "%s", local_error.text);
}

int connected_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

const char *asked(int fd, const char *question)
{
    static char answer[8192];
    ssize_t n = -1;
    if (send(fd, question, strlen(question), MSG_NOSIGNAL) > 0)
        n = recv(fd, answer, sizeof answer - 1, 0);
    answer[n > 0 ? n : 0] = '\0';
    return answer;
}

const char *ask_once(const char *question)
{
    int fd = connected_to(socket_path);
    const char *answer = fd >= 0 ? asked(fd, question) : "";
    if (fd >= 0)
        close(fd);
    return answer;
}

void end_server(int sig)
{
    long pid = number_in(in_folder("hasplock-default/pid"));
    if (pid <= 1)
        return; /* read once: the guard of a server that has just ended removes the file at any moment */
    pid_t server = (pid_t)pid, guard = parent_of(server);
    if (!strstr(status_of(server, "Name"), "-server"))
        return; /* killed before: the file is still there, and its pid may belong to another process */
    send_signal(server, SIGCONT);
    send_signal(server, sig);
    WAIT_FOR(is_gone(server) && (guard <= 1 || is_gone(guard))); /* 1: its guard had ended before */
}

void local_begin(void)
{
    cr_assert_not_null(mkdtemp(folder));
    setenv("HASPLOCK_LOCAL_DIR", folder, 1);
    setenv("HASPLOCK_LOCAL_IDLE_S", "1", 1);
    unsetenv("HASPLOCK_SERVER");
}

void local_end(void)
{
    char command[sizeof folder + 16];
    end_server(SIGTERM);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    TEARDOWN_ASSERT(system(command) == 0);
}
