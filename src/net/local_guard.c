/* local_guard.c - see local_guard.h: async-signal-safe calls only, and all memory on the stack. */
#include "net/local_guard.h"

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
#define LOOK_LONGEST_MS 5000 /* between two looks at its clients */
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

/* --- becoming a process of its own */

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

/* `starter` is close-on-exec: it ends here when exec works. */
_Noreturn static void become_server(const struct hlk_local_plan *plan)
{
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

/* --- talking to the server */

/* Connected to `server` itself, or -1. */
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

static void end(pid_t server, int sig)
{
    kill(server, sig);
    while (waitpid(server, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Behind the bulk string that begins at `at`; NULL: not all there yet. A reply of another kind counts as its line. */
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

/* The number behind `name` at the beginning of a line; -1: not there. */
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

/* Its socket is not where it was: nobody can come, and what it keeps, such as counters of tokens, is for nobody. */
static bool is_beyond_reach(const struct hlk_local_plan *plan)
{
    return access(plan->address.sun_path, F_OK) != 0 && errno == ENOENT;
}

/* False: the connection is gone. Waits as long as the server takes: a stopped one is not idle. What cannot be told (the
 * server asks for a password meanwhile) stays -1 and counts as busy. */
static bool ask(const struct hlk_local_plan *plan, int fd, struct facts *facts)
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
    facts->keys = (!strstr(text, "# Keyspace") || strstr(text, "\ndb")) && !is_beyond_reach(plan);
    return true;
}

static bool is_idle(const struct facts *facts)
{
    return facts->clients == 1 && facts->total >= 0 && !facts->keys;
}

/* Idle at both looks, and nobody came and went in between. */
static bool stayed_idle(const struct facts *before, const struct facts *now)
{
    return is_idle(before) && is_idle(now) && before->total == now->total;
}

/* --- the guard's life */

/* Connected and asked for a sign of life; or -1. */
static int knock(const struct hlk_local_plan *plan, pid_t server)
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

/* Until the server answers. The starter shuts its end when its patience is over; it waits for our exit then, so that no
 * half-started server is left behind its back. */
static int wait_until_up(const struct hlk_local_plan *plan, pid_t server)
{
    struct pollfd on[] = { { .fd = plan->starter, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
    for (;;) {
        (void)poll(on, 2, RETRY_MS);
        if (on[0].revents) {
            end(server, SIGKILL);
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
            on[1].fd = knock(plan, server);
    }
}

/* Our connection was lost while the server may live: somebody killed its clients, or removed its socket. A server whom
 * nobody can reach any more is ended. */
static int find_again(const struct hlk_local_plan *plan, pid_t server)
{
    for (int i = 0; i < RECONNECT_TRIES; i++) {
        if (has_ended(server))
            _exit(0);
        int fd = reach(plan, server);
        if (fd >= 0)
            return fd;
        pause_ms(RECONNECT_MS);
    }
    end(server, SIGTERM);
    _exit(0);
}

/* Under the lock nobody is between asking for the server and being told that it runs. A lock that is taken is a sign of
 * life; one that was removed, as who tidies /tmp may do, is made anew; where none can be made the whole folder is gone:
 * nobody can come. */
static void end_if_idle(const struct hlk_local_plan *plan, int fd, pid_t server, const struct facts *before)
{
    struct facts now;
    int lock = open(plan->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool alone = lock >= 0 ? flock(lock, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT;
    if (alone && ask(plan, fd, &now) && stayed_idle(before, &now)) {
        end(server, SIGTERM);
        _exit(0);
    }
    if (lock >= 0)
        close(lock);
}

_Noreturn static void watch(const struct hlk_local_plan *plan, int fd, pid_t server)
{
    struct facts before = { .total = -1 };
    int64_t idle_since = now_ms();
    int look_ms = plan->idle_ms / 4 < LOOK_LONGEST_MS ? (int)(plan->idle_ms / 4) : LOOK_LONGEST_MS;
    for (;;) {
        struct pollfd gone = { .fd = fd, .events = POLLIN };
        struct facts now;
        if (poll(&gone, 1, look_ms) != 0 || !ask(plan, fd, &now)) {
            close(fd);
            fd = find_again(plan, server);
            continue;
        }
        if (!stayed_idle(&before, &now))
            idle_since = now_ms();
        else if (now_ms() - idle_since >= plan->idle_ms)
            end_if_idle(plan, fd, server, &before);
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
    (void)prctl(PR_SET_NAME, "hasplock-local");

    pid_t server = fork();
    if (server == 0)
        become_server(plan);
    if (server < 0 || chdir("/") != 0)
        _exit(1);
    int fd = wait_until_up(plan, server);
    char ready = HLK_LOCAL_READY;
    (void)send(plan->starter, &ready, 1, MSG_NOSIGNAL);
    close(plan->starter);
    watch(plan, fd, server);
}
