/* helper_process.c - see helper_process.h. Two threads, which share no data: one writes lines, and may stand still for
 * ever; the other one starts COMMAND, waits for children and kills. */
#include "helper_process.h"

#include "around.h"
#include "descendants.h"
#include "say.h"
#include "signals.h"
#include "terminal.h"

#include <hasplock/status.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_MS 20 /* until those that were forked during the last look are killed too */

static struct {
    struct helper_shared *shared;
    char *const *command;
    int lines, orders, children, timer, mark;
    pid_t pid; /* COMMAND's; 0: not started */
    struct descendants_refused refused;
} self;

/* --- lines */

static void write_all(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, len);
        if (n < 0 && errno == EAGAIN) { /* another process may have made it non-blocking */
            struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
            poll(&out, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return; /* there is nowhere to report it */
        } else if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
}

static void *write_lines(void *unused)
{
    static char line[HELPER_LINE_MOST];
    (void)unused;
    for (;;) {
        ssize_t len = recv(self.lines, line, sizeof line, 0);
        if (len == 1 && line[0] == '\0') /* helper_flush: everything before it is written */
            send(self.lines, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (len > 0)
            write_all(line, (size_t)len);
        else if (len == 0 || errno != EINTR)
            return NULL;
    }
}

/* --- COMMAND's start */

/* Other processes may wait for the end of an inherited pipe, or for a lock on an inherited file. */
static void let_go_of_the_rest(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    for (int fd = STDERR_FILENO + 1, next; fd >= 0; fd = next) {
        const int ours[] = { self.lines, self.orders, self.children, self.timer, self.mark };
        next = -1; /* the first of ours from `fd` on */
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
            if (ours[i] >= fd && (next < 0 || ours[i] < next))
                next = ours[i];
        if (next != fd)
            close_range((unsigned)fd, next < 0 ? ~0U : (unsigned)next - 1, 0);
        next += next >= 0;
    }
    (void)!chdir("/");
}

static void take_the_terminal(void)
{
    struct terminal terminal;
    terminal_open(&terminal);
    terminal_give(&terminal, getpid());
    terminal_close(&terminal);
}

/* Runs in the forked child of a process with threads, so it uses only async-signal-safe calls. (execvpe is one: glibc's
 * neither allocates nor locks since 2.24.) Signals stay blocked until the end, with their default actions. */
static _Noreturn void become_command(pid_t helper)
{
    struct helper_shared *shared = self.shared;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != helper)
        _exit(0); /* the helper died before prctl */
    setpgid(0, 0);
    if (hlk_now_ms() >= atomic_load(&shared->kill_at_ms)) { /* it is too late to start COMMAND */
        atomic_store(&shared->killed, true);
        kill(getpid(), SIGKILL);
    }
    if (shared->foreground)
        take_the_terminal();
    signals_restore();
    execvpe(self.command[0], self.command, shared->env);
    atomic_store(&shared->exec_errno, errno);
    _exit(127);
}

static void report(enum helper_word word, int value)
{
    struct helper_packet packet = { word, value };
    send(self.orders, &packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* For a run within COMMAND that has lost its environment. */
static void show_holder(void)
{
    static const char variable[] = "HASPLOCK_OWNER=";
    for (char *const *at = self.shared->env; *at; at++)
        if (strncmp(*at, variable, sizeof variable - 1) == 0 && (*at)[sizeof variable - 1])
            self.mark = around_mark(*at + sizeof variable - 1);
}

static void start_command(void)
{
    pid_t helper = getpid();
    show_holder();
    self.pid = fork();
    if (self.pid == 0)
        become_command(helper);
    int why = errno;
    if (self.pid < 0) {
        self.pid = 0;
        report(HELPER_NOT_STARTED, why);
        return;
    }
    setpgid(self.pid, self.pid); /* both processes call it, so the group exists from here on. Fails after exec */
    report(HELPER_STARTED, self.pid);
    let_go_of_the_rest();
}

/* --- its end, and that of all that it has started */

static void reap(void)
{
    pid_t pid;
    int status, end = -1;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != self.pid)
            continue;
        if (WIFSTOPPED(status))
            report(HELPER_STOPPED, WSTOPSIG(status));
        else if (WIFCONTINUED(status))
            report(HELPER_CONTINUED, 0);
        else
            end = status;
    }
    bool all = self.pid && (pid < 0 ? errno == ECHILD : descendants_are_gone());
    if (all)
        atomic_store(&self.shared->gone, true); /* before `ended`, so that nobody sees a rest that is none */
    if (end != -1) {
        atomic_store(&self.shared->status, end);
        atomic_store(&self.shared->ended, true);
    }
    if (all || end != -1)
        report(HELPER_LOOK, 0);
}

static bool is_over(void)
{
    return !self.pid || atomic_load(&self.shared->gone) || atomic_load(&self.shared->disarmed);
}

static void kill_all(void)
{
    if (is_over())
        return;
    atomic_store(&self.shared->killed, true);
    descendants_signal(getpid(), SIGKILL, &self.refused);
}

/* --- the loop */

/* An absolute time on the clock of hlk_now_ms. After a suspension of the host a past time fires at once. */
static void arm_timer(int64_t at_ms)
{
    struct itimerspec when = { 0 };
    if (at_ms < INT64_MAX)
        when.it_value = (struct timespec){ .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 };
    timerfd_settime(self.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* False: hasplock has ended. */
static bool read_orders(void)
{
    struct helper_packet packet;
    ssize_t n;
    while ((n = recv(self.orders, &packet, sizeof packet, MSG_DONTWAIT)) > 0)
        if (packet.word == HELPER_RUN)
            start_command();
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Waits for an order, a child, or the time. */
static bool turn(int64_t at_ms)
{
    struct signalfd_siginfo info;
    struct pollfd fds[] = { { .fd = self.orders, .events = POLLIN },
                            { .fd = self.children, .events = POLLIN },
                            { .fd = self.timer, .events = POLLIN } };
    arm_timer(at_ms);
    if (poll(fds, sizeof fds / sizeof fds[0], -1) <= 0)
        return true;
    if (fds[1].revents && read(self.children, &info, sizeof info) > 0)
        reap();
    return !fds[0].revents || read_orders();
}

static void serve(void)
{
    int64_t at_ms;
    do {
        at_ms = is_over() ? INT64_MAX : atomic_load(&self.shared->kill_at_ms);
        if (at_ms <= hlk_now_ms()) {
            kill_all();
            at_ms = hlk_now_ms() + AGAIN_MS;
        }
    } while (turn(at_ms));
}

/* hasplock has died, or has disarmed the helper. */
static void end_all(void)
{
    struct pollfd child = { .fd = self.children, .events = POLLIN };
    struct signalfd_siginfo info;
    while (!is_over()) {
        kill_all();
        if (poll(&child, 1, AGAIN_MS) > 0)
            (void)!read(self.children, &info, sizeof info);
        reap();
        if (self.refused.count > 0)
            return;
    }
}

static bool open_descriptors(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    self.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    self.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return self.children >= 0 && self.timer >= 0;
}

_Noreturn void helper_process(struct helper_shared *shared, char *const command[], int lines, int orders)
{
    pthread_t writer;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    self.shared = shared;
    self.command = command;
    self.lines = lines;
    self.orders = orders;
    self.mark = -1;
    if (!open_descriptors() || pthread_create(&writer, NULL, write_lines, NULL) != 0)
        _exit(1);
    serve();
    let_go_of_the_rest();
    end_all();
    pthread_join(writer, NULL);
    if (self.refused.count > 0)
        say(SAY_ERROR, "error",
            "hasplock was killed, and process %d (%s) may not be: %s; it works on, from the end of the lease without "
            "the lock",
            (int)self.refused.pid, self.refused.name, strerror(self.refused.why));
    _exit(0);
}
