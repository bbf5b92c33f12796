/* local_guard.c - see local_guard.h: async-signal-safe calls only, and all memory on the stack. */
#include "net/local_guard.h"

#include "net/title.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MS 5           /* while the server starts */
#define LOOK_LONGEST_MS 5000 /* between two checks of its clients */
#define RECONNECT_MS 50
#define RECONNECT_TRIES 100
#define REPLY_LONGEST 16384 /* the three INFO sections together have about 2 KiB */

struct facts {
    int64_t clients, total; /* connected now; ever */
    bool keys;
};

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- becoming a separate process */

static void reset_signals(void)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_range_of(const struct hlk_local_plan *plan, unsigned first, unsigned last)
{
    if (first > last)
        return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0) == 0)
        return;
#endif
    for (unsigned fd = first; fd <= last && fd < (unsigned)plan->descriptors; fd++)
        close((int)fd);
}

static void keep_starter_only(const struct hlk_local_plan *plan)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++)
        (void)dup2(null, fd);
    close_range_of(plan, 3, (unsigned)plan->starter - 1);
    close_range_of(plan, (unsigned)plan->starter + 1, ~0u);
}

/* Held by the guard and, after the fork, by the server, because it is not close-on-exec. -1: another server still
 * runs. */
static int flock_folder(const struct hlk_local_plan *plan)
{
    int folder = open(plan->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0)
        return folder;
    return -1;
}

/* `starter` is close-on-exec, so a successful exec closes it. The server is killed if its guard dies. */
_Noreturn static void become_server(const struct hlk_local_plan *plan, pid_t guard)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard)
        _exit(127); /* the guard died before prctl */
    int log = open(plan->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log >= 0) {
        (void)dup2(log, 1);
        (void)dup2(log, 2);
    }
    (void)execve(plan->program, plan->argv, plan->envp);
    int why = errno;
    char word[1 + sizeof why] = { HLK_LOCAL_NO_EXEC };
    memcpy(word + 1, &why, sizeof why);
    (void)send(plan->starter, word, sizeof word, MSG_NOSIGNAL);
    _exit(127);
}

/* --- commands to the server */

/* A connection to the process `server`, or -1. */
static int reach(const struct hlk_local_plan *plan, pid_t server)
{
    struct ucred peer = { .pid = -1 };
    socklen_t len = sizeof peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&plan->address, sizeof plan->address) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == server)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool has_ended(pid_t server)
{
    pid_t got = waitpid(server, NULL, WNOHANG);
    return got == server || (got < 0 && errno == ECHILD);
}

/* It has nothing to save. On SIGTERM it would remove its socket by path, which may be another server's by now. */
static void end_guard(int folder, pid_t server)
{
    kill(server, SIGKILL);
    while (waitpid(server, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)unlinkat(folder, HLK_LOCAL_SOCKET, 0);
    (void)unlinkat(folder, HLK_LOCAL_PID, 0);
}

/* The end of the bulk string that begins at `at`; NULL: incomplete. Any other reply counts as one line. */
static const char *behind_reply(const char *at, const char *end)
{
    const char *line = memchr(at, '\n', (size_t)(end - at));
    int64_t len = 0;
    if (!line)
        return NULL;
    if (*at != '$')
        return line + 1;
    for (at++; *at >= '0' && *at <= '9' && len <= REPLY_LONGEST; at++)
        len = len * 10 + (*at - '0');
    return len + 2 > end - (line + 1) ? NULL : line + 1 + len + 2;
}

static bool all_there(const char *at, const char *end, int replies)
{
    while (at && replies-- > 0)
        at = behind_reply(at, end);
    return at != NULL;
}

/* The number after `name`; -1: not found. */
static int64_t field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    int64_t n = 0;
    if (!at)
        return -1;
    for (at += strlen(name); *at >= '0' && *at <= '9'; at++)
        n = n * 10 + (*at - '0');
    return n;
}

/* Its socket is not at its path, so no process can connect. Its keys, such as token counters, are of no use then. */
static bool is_beyond_reach(const struct hlk_local_plan *plan, int folder)
{
    struct stat there, own;
    if (stat(plan->address.sun_path, &there) != 0)
        return errno == ENOENT;
    return fstatat(folder, HLK_LOCAL_SOCKET, &own, AT_SYMLINK_NOFOLLOW) != 0 || there.st_ino != own.st_ino ||
           there.st_dev != own.st_dev;
}

/* False: the connection is lost. Waits as long as the server takes, because a stopped server is not idle. A value that
 * is missing (the server requires a password meanwhile) is -1 and counts as busy. */
static bool guard_ask(int fd, struct facts *facts)
{
    static const char question[] = "INFO clients\r\nINFO stats\r\nINFO keyspace\r\n";
    char text[REPLY_LONGEST + 1];
    size_t len = 0;
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) != (ssize_t)sizeof question - 1)
        return false;
    do {
        ssize_t n = recv(fd, text + len, REPLY_LONGEST - len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        len += (size_t)n;
    } while (!all_there(text, text + len, 3));

    text[len] = '\0';
    facts->clients = field(text, "\nconnected_clients:");
    facts->total = field(text, "\ntotal_connections_received:");
    facts->keys = !strstr(text, "# Keyspace") || strstr(text, "\ndb");
    return true;
}

static bool is_idle(const struct facts *facts)
{
    return facts->clients == 1 && facts->total >= 0 && !facts->keys;
}

/* Idle at both checks, and no client connected in between. */
static bool stayed_idle(const struct facts *before, const struct facts *now)
{
    return is_idle(before) && is_idle(now) && before->total == now->total;
}

/* --- the guard's life */

/* A connection on which PING was sent; or -1. */
static int guard_knock(const struct hlk_local_plan *plan, pid_t server)
{
    static const char ping[] = "PING\r\n";
    int fd = reach(plan, server);
    if (fd >= 0)
        (void)send(fd, ping, sizeof ping - 1, MSG_NOSIGNAL);
    return fd;
}

static bool has_answered(int fd)
{
    char pong[64];
    return recv(fd, pong, sizeof pong, 0) > 0;
}

/* Until the server answers. When its timeout is over, the starter shuts down its end and waits for our exit, so no
 * half-started server is left. */
static int wait_until_up(const struct hlk_local_plan *plan, int folder, pid_t server)
{
    struct pollfd on[] = { { .fd = plan->starter, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
    for (;;) {
        (void)poll(on, 2, RETRY_MS);
        if (on[0].revents) {
            end_guard(folder, server);
            _exit(1);
        }
        if (on[1].revents) {
            if (has_answered(on[1].fd))
                return on[1].fd;
            close(on[1].fd);
            on[1].fd = -1;
        }
        if (has_ended(server))
            _exit(1);
        if (on[1].fd < 0)
            on[1].fd = guard_knock(plan, server);
    }
}

/* The guard's connection was lost while the server may live: its clients were killed, or its socket removed. An
 * unreachable server is ended. */
static int find_again(const struct hlk_local_plan *plan, int folder, pid_t server)
{
    for (int i = 0; i < RECONNECT_TRIES; i++) {
        if (has_ended(server))
            _exit(0);
        int fd = reach(plan, server);
        if (fd >= 0)
            return fd;
        pause_ms(RECONNECT_MS);
    }
    end_guard(folder, server);
    _exit(0);
}

/* Under the lock no process is between checking for the server and connecting to it. If the lock is taken, the server
 * is in use. If the file was removed, for example by a cleanup of /tmp, it is made again. If that is impossible, the
 * folder is gone and no process can connect. */
static void end_if_idle(int folder, int fd, pid_t server, const struct facts *before)
{
    struct facts now;
    int lock = openat(folder, HLK_LOCAL_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool alone = lock >= 0 ? flock(lock, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT;
    if (alone && guard_ask(fd, &now) && stayed_idle(before, &now)) {
        end_guard(folder, server);
        _exit(0);
    }
    if (lock >= 0)
        close(lock);
}

_Noreturn static void watch(const struct hlk_local_plan *plan, int folder, int fd, pid_t server)
{
    struct facts before = { .total = -1 };
    int64_t idle_since = now_ms();
    int look_ms = plan->idle_ms / 4 < LOOK_LONGEST_MS ? (int)(plan->idle_ms / 4) : LOOK_LONGEST_MS;
    for (;;) {
        struct pollfd gone = { .fd = fd, .events = POLLIN };
        struct facts now;
        if (poll(&gone, 1, look_ms) != 0 || !guard_ask(fd, &now)) {
            close(fd);
            fd = find_again(plan, folder, server);
            continue;
        }
        if (now.clients == 1 && is_beyond_reach(plan, folder)) { /* a new server waits for its end */
            end_guard(folder, server);
            _exit(0);
        }
        if (!stayed_idle(&before, &now))
            idle_since = now_ms();
        else if (now_ms() - idle_since >= plan->idle_ms)
            end_if_idle(folder, fd, server, &before);
        before = now;
    }
}

void hlk_local_guard(const struct hlk_local_plan *plan)
{
    reset_signals();
    if (fork() != 0)
        _exit(0);
    (void)setsid();
    (void)umask(077);
    keep_starter_only(plan);
    int folder = flock_folder(plan);
    pid_t guard = getpid(), server = folder < 0 ? -1 : fork();
    if (server == 0)
        become_server(plan, guard);
    hlk_title_set("hasplock-local", plan->dir); /* after the fork: this erases the environment, which the server uses */
    if (server < 0 || chdir("/") != 0)
        _exit(1);
    int fd = wait_until_up(plan, folder, server);
    char ready = HLK_LOCAL_READY;
    (void)send(plan->starter, &ready, 1, MSG_NOSIGNAL);
    close(plan->starter);
    watch(plan, folder, fd, server);
}
