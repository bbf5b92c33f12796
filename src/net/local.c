/* local.c - see local.h. The client side: folder, lock, check, start. A process checks or changes whether the server
 * runs only under the flock of the file `lock`. It starts no server while another process has the flock of the
 * folder. */
#include "net/local.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mutex.h"
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
#define SILENT_MS 100   /* the shortest silence that counts as such */
#define GIVE_UP_MS 1000 /* how long a guard may take to cancel a start */
#define IDLE_LONGEST_S (365 * 24 * 3600)
#define LOG_TAIL 2048

struct place {
    char dir[PATH_MAX], socket[PATH_MAX + 16], lock[PATH_MAX + 16], log[PATH_MAX + 16];
    char program[PATH_MAX];
};

/* --- folder and program */

/* False: too long. The result is the same in every process of the user: it depends on no variable that cron jobs lack,
 * and on no folder that is removed with a session. */
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
    snprintf(place->socket, sizeof place->socket, "%s/" HLK_LOCAL_SOCKET, place->dir);
    snprintf(place->lock, sizeof place->lock, "%s/" HLK_LOCAL_LOCK, place->dir);
    snprintf(place->log, sizeof place->log, "%s/" HLK_LOCAL_LOG, place->dir);
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

/* The folder must belong to this user alone: a process that could write there could put a socket of its own there. */
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

/* One try. Returns the descriptor of the lock. -1: see errno; EWOULDBLOCK: another process has it, or has just replaced
 * the file. */
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

/* A child that was forked meanwhile may have the descriptor too, so closing ours would not unlock it. */
static void unlock(int fd)
{
    HLK_DEBUG_ASSERT(fd >= 0);
    (void)flock(fd, LOCK_UN);
    close(fd);
}

/* --- is it running? */

/* 0: connected. Else errno; EAGAIN (its backlog is full) only after the deadline. */
static int connect_until(int fd, const struct sockaddr_un *address, int64_t deadline)
{
    HLK_DEBUG_ASSERT(fd >= 0);
    while (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (hlk_clock_ms() >= deadline)
            return EAGAIN;
        (void)poll(NULL, 0, LOCK_RETRY_MS);
    }
    return 0;
}

/* 0: it has answered, in any way. ECONNRESET: it hangs up. EAGAIN: silent. */
static int ping(int fd, int64_t deadline)
{
    HLK_DEBUG_ASSERT(fd >= 0);
    static const char question[] = "PING\r\n";
    struct pollfd answer = { .fd = fd, .events = POLLIN };
    char byte;
    if (deadline < hlk_clock_ms() + SILENT_MS)
        deadline = hlk_clock_ms() + SILENT_MS;
    (void)send(fd, question, sizeof question - 1, MSG_NOSIGNAL); /* a full server has already answered and hung up */
    for (;;) {
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n > 0)
            return 0;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return ECONNRESET;
        if (hlk_clock_ms() >= deadline)
            return EAGAIN;
        (void)poll(&answer, 1, hlk_clock_poll_ms(deadline));
    }
}

/* 0: a server runs. ENOENT, ECONNREFUSED: no server listens. ECONNRESET: it is about to end, or similar. EAGAIN: it
 * accepts connections and does not answer. */
static int local_ask(const struct sockaddr_un *address, int64_t deadline)
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

/* 0: no server of this folder is left. EWOULDBLOCK: one is. Called only under the lock. */
static int folder_is_free(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno;
    int fault = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    unlock(fd);
    return fault;
}

/* --- starting it */

/* The last non-empty line of the server's log, or "". */
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

/* False: no input, and the stream has not ended. */
static bool readable_until(int fd, int64_t deadline)
{
    HLK_DEBUG_ASSERT(fd >= 0);
    struct pollfd on = { .fd = fd, .events = POLLIN };
    int ready;
    do
        ready = poll(&on, 1, hlk_clock_poll_ms(deadline));
    while (ready < 0 || (ready == 0 && hlk_clock_ms() < deadline));
    return ready > 0;
}

/* The guard reports the outcome by a message and by the end of the stream. A guard that is stopped, or whose stream
 * another process keeps open, is left behind: it ends its server when it sees our shutdown, and keeps the folder locked
 * until then. */
static enum hlk_status await_guard(const struct place *place, int fd, int64_t deadline, struct hlk_error *error)
{
    char word[1 + sizeof(int)];
    ssize_t len = -1;
    bool in_time = readable_until(fd, deadline);
    if (!in_time)
        shutdown(fd, SHUT_WR); /* it cancels the start, unless it has just succeeded */
    if (in_time || readable_until(fd, hlk_clock_ms() + GIVE_UP_MS))
        len = recv(fd, word, sizeof word, MSG_DONTWAIT);
    if (len > 0 && word[0] == HLK_LOCAL_READY)
        return HLK_OK;
    if (len == sizeof word && word[0] == HLK_LOCAL_NO_EXEC) {
        int why;
        memcpy(&why, word + 1, sizeof why);
        return hlk_error_set(error, HLK_E_OS, "local server: cannot run %s: %s", place->program, strerror(why));
    }
    return did_not_start(place, in_time ? "ended at once" : "did not come up in time", error);
}

/* Forks with all signals blocked: no handler of the application may run in the child. */
static int fork_guard(const struct hlk_local_plan *plan)
{
    HLK_DEBUG_ASSERT(plan->starter >= 3);
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

/* The variables that a program needs to be found, linked and run; none that an application may keep secrets in. */
static void pick_environment(char **picked, size_t max)
{
    HLK_DEBUG_ASSERT(max > 1);
    static const char *const names[] = { "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH" };
    size_t n = 0;
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof names / sizeof *names && n < max - 1; i++) {
            size_t len = strlen(names[i]);
            if (strncmp(*variable, names[i], len) == 0 && (*variable)[len] == '=' && secure_getenv(names[i]))
                picked[n++] = *variable;
        }
    picked[n] = NULL;
}

static enum hlk_status local_start(struct place *place, const struct sockaddr_un *address, int64_t deadline,
                                   struct hlk_error *error)
{
    enum hlk_status status = find_program(place->program, sizeof place->program, error);
    if (status)
        return status;
    char *picked[16];
    pick_environment(picked, sizeof picked / sizeof *picked);
    /* Redis changes to --dir before it makes its files, and removes them by these names. So it never removes files of
     * another folder that has taken its path. */
    char *argv[] = {
        place->program,     "--port",      "0",      "--dir", place->dir,     "--unixsocket", HLK_LOCAL_SOCKET,
        "--unixsocketperm", "700",         "--save", "",      "--appendonly", "no",           "--pidfile",
        HLK_LOCAL_PID,      "--daemonize", "no",     NULL
    };
    int pair[2];
    int fault = make_pair(pair);
    if (fault)
        return hlk_error_set(error, HLK_E_OS, "local server: socketpair: %s", strerror(fault));
    struct hlk_local_plan plan = {
        .program = place->program,
        .argv = argv,
        .envp = picked,
        .dir = place->dir,
        .log_path = place->log,
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

/* No server listens at the socket. */
static enum hlk_status start_if_free(struct place *place, const struct sockaddr_un *address, int64_t deadline,
                                     bool *again, struct hlk_error *error)
{
    int fault = folder_is_free(place->dir);
    if (fault == 0)
        return local_start(place, address, deadline, error);
    *again = fault == EWOULDBLOCK;
    if (*again)
        return hlk_error_set(error, HLK_E_CONNECT,
                             "local server: one has not ended, and cannot be reached at %s; its pid is in %s/%s, and "
                             "it ends by itself when its last client leaves",
                             place->socket, place->dir, HLK_LOCAL_PID);
    return hlk_error_set(error, HLK_E_OS, "local server: cannot lock %s: %s", place->dir, strerror(fault));
}

/* Under the lock. *again: the obstacle may go away. */
static enum hlk_status ensure_locked(struct place *place, int64_t deadline, bool *again, struct hlk_error *error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, place->socket, strlen(place->socket) + 1);
    int fault = local_ask(&address, deadline);
    switch (fault) {
    case 0:
        return HLK_OK;
    case ENOENT:
    case ECONNREFUSED:
        return start_if_free(place, &address, deadline, again, error);
    case ECONNRESET:
        *again = true;
        return hlk_error_set(error, HLK_E_CONNECT, "local server: %s closes connections at once", place->socket);
    case EAGAIN:
        return hlk_error_set(error, HLK_E_CONNECT, "local server: %s takes connections and does not answer",
                             place->socket);
    default:
        return hlk_error_set(error, HLK_E_OS, "local server: %s: %s", place->socket, strerror(fault));
    }
}

/* The lock is given back between two tries, because the guard of the old server needs it too. */
static enum hlk_status local_ensure(struct place *place, int64_t deadline, struct hlk_error *error)
{
    for (;;) {
        int fd;
        bool again = false;
        enum hlk_status status = lock(place, deadline, &fd, error);
        if (status)
            return status;
        status = ensure_locked(place, deadline, &again, error);
        unlock(fd);
        if (!again || hlk_clock_ms() >= deadline)
            return status;
        (void)poll(NULL, 0, LOCK_RETRY_MS);
    }
}

enum hlk_status hlk_local_ensure(const char *name, int64_t reconnect_timeout_ms, char *path, size_t path_size,
                                 struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct place place = { .dir = "" };
    int64_t deadline = hlk_clock_after(hlk_clock_ms(), reconnect_timeout_ms);
    assert(*name && !strchr(name, '/'));

    enum hlk_status status = find_place(&place, name, error);
    if (!status)
        status = make_folder(place.dir, error);
    if (!status)
        status = local_ensure(&place, deadline, error);
    if (!status && (size_t)snprintf(path, path_size, "%s", place.socket) >= path_size)
        status = hlk_error_set(error, HLK_E_INVALID, "local server: no room for the path of its socket");
    return status;
}
