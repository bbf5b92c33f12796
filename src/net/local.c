/* local.c - see local.h. This is the asking side: folder, lock, is it there, start it. Its rule: whether the server
 * runs is asked, and changed, only under the flock. */
#include "net/local.h"

#include "base/clock.h"
#include "base/text.h"
#include "net/local_guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCK_RETRY_MS 5
#define IDLE_LONGEST_S (365 * 24 * 3600)
#define LOG_TAIL 2048

struct place {
    char dir[PATH_MAX], socket[PATH_MAX + 16], lock[PATH_MAX + 16], log[PATH_MAX + 16], pid[PATH_MAX + 16];
    char program[PATH_MAX];
};

/* --- where, and what */

/* False: too long. The same for every process of the user: no variable that a login session has and a job of cron has
 * not, and no folder that goes with the session. */
static bool find_folder(char *dir, size_t size, const char *name)
{
    const char *given = secure_getenv("HASPLOCK_LOCAL_DIR");
    int len = given && *given ? snprintf(dir, size, "%s/hasplock-%s", given, name)
                              : snprintf(dir, size, "/tmp/hasplock-%lu-%s", (unsigned long)geteuid(), name);
    return (size_t)len < size;
}

static enum hlk_status find_place(struct place *place, const char *name, struct hlk_error *error)
{
    bool fits = find_folder(place->dir, sizeof place->dir, name);
    snprintf(place->socket, sizeof place->socket, "%s/redis.sock", place->dir);
    snprintf(place->lock, sizeof place->lock, "%s/lock", place->dir);
    snprintf(place->log, sizeof place->log, "%s/redis.log", place->dir);
    snprintf(place->pid, sizeof place->pid, "%s/pid", place->dir);
    if (!fits || strlen(place->socket) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return hlk_error_set(error, HLK_E_INVALID,
                             "local server: %.200s is too long for a socket's path: set HASPLOCK_LOCAL_DIR",
                             place->dir);
    if (place->dir[0] != '/')
        return hlk_error_set(error, HLK_E_INVALID, "local server: HASPLOCK_LOCAL_DIR is not an absolute path");
    return HLK_OK;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char *out, size_t size)
{
    const char *dir = secure_getenv("PATH");
    if (!dir)
        dir = "/usr/local/bin:/usr/bin:/bin";
    for (;; dir++) {
        int len = (int)strcspn(dir, ":");
        int made = snprintf(out, size, "%.*s/%s", len ? len : 1, len ? dir : ".", name);
        if ((size_t)made < size && is_program(out))
            return true;
        dir += len;
        if (!*dir)
            return false;
    }
}

static enum hlk_status find_program(char *out, size_t size, struct hlk_error *error)
{
    const char *given = secure_getenv("HASPLOCK_SERVER");
    if (given && *given) {
        bool found = strchr(given, '/') ? (size_t)snprintf(out, size, "%s", given) < size && is_program(out)
                                        : find_in_path(given, out, size);
        return found ? HLK_OK
                     : hlk_error_set(error, HLK_E_INVALID,
                                     "local server: HASPLOCK_SERVER is \"%.200s\", which is no program", given);
    }
    if (find_in_path("redis-server", out, size) || find_in_path("valkey-server", out, size))
        return HLK_OK;
    return hlk_error_set(error, HLK_E_INVALID,
                         "local server: no redis-server or valkey-server in PATH: install one "
                         "(Debian, Ubuntu: apt-get install redis-server) or set HASPLOCK_SERVER");
}

static int64_t idle_ms(void)
{
    const char *given = secure_getenv("HASPLOCK_LOCAL_IDLE_S");
    long seconds = given ? strtol(given, NULL, 10) : 0;
    if (seconds < 1)
        seconds = HLK_LOCAL_IDLE_S;
    return (int64_t)(seconds < IDLE_LONGEST_S ? seconds : IDLE_LONGEST_S) * 1000;
}

/* Ours alone, or nothing is put into it: who could write there could lay a socket of his own. */
static enum hlk_status make_folder(const char *dir, struct hlk_error *error)
{
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return hlk_error_set(error, HLK_E_OS, "local server: cannot make %s: %s", dir, strerror(errno));
    if (lstat(dir, &st) != 0)
        return hlk_error_set(error, HLK_E_OS, "local server: %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return hlk_error_set(error, HLK_E_OS, "local server: %s must be a folder of user %lu with mode 700", dir,
                             (unsigned long)geteuid());
    return HLK_OK;
}

/* --- the lock file */

static bool is_still_the_file(int fd, const char *path)
{
    struct stat mine, now;
    return fstat(fd, &mine) == 0 && stat(path, &now) == 0 && mine.st_ino == now.st_ino && mine.st_dev == now.st_dev;
}

/* One try. The lock's descriptor; -1: see errno, EWOULDBLOCK when another has it (or has just replaced the file). */
static int try_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (is_still_the_file(fd, path))
            return fd;
        errno = EWOULDBLOCK;
    }
    int why = errno == EINTR ? EWOULDBLOCK : errno;
    close(fd);
    errno = why;
    return -1;
}

static enum hlk_status lock(const struct place *place, int64_t deadline, int *out, struct hlk_error *error)
{
    while ((*out = try_lock(place->lock)) < 0) {
        if (errno != EWOULDBLOCK)
            return hlk_error_set(error, HLK_E_OS, "local server: cannot lock %s: %s", place->lock, strerror(errno));
        if (hlk_clock_ms() >= deadline)
            return hlk_error_set(error, HLK_E_CONNECT, "local server: another process keeps %s locked", place->lock);
        (void)poll(NULL, 0, LOCK_RETRY_MS);
    }
    return HLK_OK;
}

/* A child that somebody else forked meanwhile may have the descriptor too: closing ours would not unlock it. */
static void unlock(int fd)
{
    (void)flock(fd, LOCK_UN);
    close(fd);
}

/* --- is it there? */

/* 0: connected. Else errno; EAGAIN (its backlog is full) only once the deadline is over. */
static int connect_until(int fd, const struct sockaddr_un *address, int64_t deadline)
{
    while (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (hlk_clock_ms() >= deadline)
            return EAGAIN;
        (void)poll(NULL, 0, LOCK_RETRY_MS);
    }
    return 0;
}

/* 0: it answers, with whatever. ENOENT, ECONNREFUSED, ECONNRESET: it is not there. EAGAIN: silent. */
static int ping(int fd, int64_t deadline)
{
    static const char question[] = "PING\r\n";
    struct pollfd answer = { .fd = fd, .events = POLLIN };
    char byte;
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) < 0)
        return errno == EPIPE ? ECONNRESET : errno;
    for (;;) {
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n >= 0)
            return n ? 0 : ECONNRESET;
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (hlk_clock_ms() >= deadline)
            return EAGAIN;
        (void)poll(&answer, 1, hlk_clock_poll_ms(deadline));
    }
}

static int ask(const struct sockaddr_un *address, int64_t deadline)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int fault = connect_until(fd, address, deadline);
    if (!fault)
        fault = ping(fd, deadline);
    close(fd);
    return fault;
}

/* --- starting it */

/* The last line of the server's log that says something, or "". */
static void last_words(const char *path, char *out, size_t size)
{
    char tail[LOG_TAIL + 1];
    struct hlk_text words;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    ssize_t len = end > 0 ? pread(fd, tail, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0) : 0;
    if (fd >= 0)
        close(fd);
    while (len > 0 && (tail[len - 1] == '\n' || tail[len - 1] == ' '))
        len--;
    tail[len > 0 ? len : 0] = '\0';
    const char *line = strrchr(tail, '\n');
    hlk_text_init(&words, out, size);
    hlk_text_add(&words, "%s", line ? line + 1 : tail);
}

static enum hlk_status did_not_start(const struct place *place, const char *what, struct hlk_error *error)
{
    char words[240];
    last_words(place->log, words, sizeof words);
    return hlk_error_set(error, HLK_E_CONNECT, "local server: %s %s%s%s", place->program, what,
                         *words ? "; its log ends with: " : "", words);
}

/* The guard tells how it went, by its word and then by the end of the stream. */
static enum hlk_status await_guard(const struct place *place, int fd, int64_t deadline, struct hlk_error *error)
{
    struct pollfd guard = { .fd = fd, .events = POLLIN };
    char word[1 + sizeof(int)];
    ssize_t len;
    int ready;
    do
        ready = poll(&guard, 1, hlk_clock_poll_ms(deadline));
    while (ready < 0 || (ready == 0 && hlk_clock_ms() < deadline));

    if (ready == 0)
        shutdown(fd, SHUT_WR); /* it gives up, unless it has made it in this moment */
    do
        len = recv(fd, word, sizeof word, 0);
    while (len < 0 && errno == EINTR);
    if (len > 0 && word[0] == HLK_LOCAL_READY)
        return HLK_OK;
    if (len == sizeof word && word[0] == HLK_LOCAL_NO_EXEC) {
        int why;
        memcpy(&why, word + 1, sizeof why);
        return hlk_error_set(error, HLK_E_OS, "local server: cannot run %s: %s", place->program, strerror(why));
    }
    return did_not_start(place, ready ? "ended at once" : "did not come up in time", error);
}

/* Forks with all signals blocked: none of the application's handlers may run in the child. */
static int fork_guard(const struct hlk_local_plan *plan)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        hlk_local_guard(plan);
    int fault = pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (!fault && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return fault;
}

/* Two connected sockets, close-on-exec, above the three standard ones. 0 or errno. */
static int make_pair(int pair[2])
{
    int low[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, low) != 0)
        return errno;
    int fault = 0;
    for (int i = 0; i < 2; i++) {
        pair[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 3);
        if (pair[i] < 0)
            fault = errno;
        close(low[i]);
    }
    for (int i = 0; fault && i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    return fault;
}

static enum hlk_status start(struct place *place, const struct sockaddr_un *address, int64_t deadline,
                             struct hlk_error *error)
{
    enum hlk_status status = find_program(place->program, sizeof place->program, error);
    if (status)
        return status;
    char *argv[] = { place->program, "--port",    "0",        "--unixsocket", place->socket, "--unixsocketperm",
                     "700",          "--save",    "",         "--appendonly", "no",          "--dir",
                     place->dir,     "--pidfile", place->pid, "--daemonize",  "no",          NULL };
    int pair[2];
    int fault = make_pair(pair);
    if (fault)
        return hlk_error_set(error, HLK_E_OS, "local server: socketpair: %s", strerror(fault));
    struct hlk_local_plan plan = {
        .program = place->program,
        .argv = argv,
        .envp = environ,
        .log_path = place->log,
        .lock_path = place->lock,
        .address = *address,
        .idle_ms = idle_ms(),
        .starter = pair[1],
        .descriptors = (int)sysconf(_SC_OPEN_MAX),
    };
    fault = fork_guard(&plan);
    close(pair[1]);
    status = fault ? hlk_error_set(error, HLK_E_OS, "local server: fork: %s", strerror(fault))
                   : await_guard(place, pair[0], deadline, error);
    close(pair[0]);
    return status;
}

static enum hlk_status ensure_locked(struct place *place, int64_t deadline, struct hlk_error *error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, place->socket, strlen(place->socket) + 1);
    int fault = ask(&address, deadline);
    switch (fault) {
    case 0:
        return HLK_OK;
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
        return start(place, &address, deadline, error);
    case EAGAIN:
        return hlk_error_set(error, HLK_E_CONNECT, "local server: %s takes connections and does not answer",
                             place->socket);
    default:
        return hlk_error_set(error, HLK_E_OS, "local server: %s: %s", place->socket, strerror(fault));
    }
}

enum hlk_status hlk_local_ensure(const char *name, int64_t patience_ms, char *path, size_t path_size,
                                 struct hlk_error *error)
{
    struct place place = { .dir = "" };
    int64_t deadline = hlk_clock_after(hlk_clock_ms(), patience_ms);
    int fd = -1;
    assert(*name && !strchr(name, '/'));

    enum hlk_status status = find_place(&place, name, error);
    if (!status)
        status = make_folder(place.dir, error);
    if (!status)
        status = lock(&place, deadline, &fd, error);
    if (!status)
        status = ensure_locked(&place, deadline, error);
    if (fd >= 0)
        unlock(fd);
    if (!status && (size_t)snprintf(path, path_size, "%s", place.socket) >= path_size)
        status = hlk_error_set(error, HLK_E_INVALID, "local server: no room for the path of its socket");
    return status;
}
