/* helper.c - see helper.h: hasplock's side. The helper is a fork without exec (helper_process.c). Orders and reports
 * are packets in a socket; what both must see at once is in shared memory. */
#include "helper.h"

#include "descendants.h"
#include "helper_process.h"

#include <hasplock/status.h>

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (256 * 1024) /* for lines that are not written yet; the kernel may give less */
#define FINISH_MS 250
#define FLUSH_MS 200
#define ENV_ROOM ((size_t)1024 * 1024) /* for variables that hasplock sets, and pointers to them */

static struct {
    char *title;
    size_t title_room;
    struct helper_shared *shared; /* NULL: no helper */
    char *memory;                 /* shared too: for COMMAND's environment */
    size_t memory_size;
    pid_t pid;     /* 0: it has died */
    pid_t command; /* COMMAND's process; 0: not started */
    int lines;     /* a socket: a packet is a line */
    int orders;    /* a socket of packets; -1: the helper has died */
    bool stopped;  /* COMMAND */
} helper;

/* --- its start and its end */

void helper_argv(int argc, char **argv)
{
    helper.title = argv[0];
    helper.title_room = 0;
    for (int i = 0; i < argc && argv[i] == helper.title + helper.title_room; i++)
        helper.title_room += strlen(argv[i]) + 1;
}

static void set_title(void)
{
    static const char title[] = "hasplock-helper";
    prctl(PR_SET_NAME, title);
    if (helper.title_room < sizeof title)
        return;
    memset(helper.title, 0, helper.title_room);
    memcpy(helper.title, title, sizeof title);
}

/* The title is written where argv was. */
static char *const *copy(char *const words[])
{
    size_t n = 0;
    while (words[n])
        n++;
    char **all = calloc(n + 1, sizeof *all);
    for (size_t i = 0; all && i < n; i++)
        if (!(all[i] = strdup(words[i])))
            return NULL;
    return all;
}

static void *map_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int make_shared(void)
{
    size_t variables = 0;
    while (environ[variables])
        variables++;
    helper.memory_size = ENV_ROOM + variables * sizeof(char *);
    helper.memory = map_shared(helper.memory_size);
    struct helper_shared *shared = map_shared(sizeof *shared);
    if (!helper.memory || !shared)
        return errno;
    atomic_init(&shared->kill_at_ms, INT64_MAX);
    helper.shared = shared;
    return 0;
}

static _Noreturn void become_the_helper(char *const command[], int lines, int orders)
{
    char *const *words = copy(command);
    if (!words)
        _exit(1);
    set_title();
    helper_process(helper.shared, words, lines, orders);
}

/* The caller ends after a failure. */
int helper_start(char *const command[])
{
    int lines[2], orders[2], room = ROOM;
    int why = make_shared();
    if (!why && (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines) != 0 ||
                 socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders) != 0))
        why = errno;
    if (why) {
        helper.shared = NULL;
        return why;
    }
    setsockopt(lines[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the helper's children become ours if it dies */
    helper.pid = fork();
    if (helper.pid == 0) {
        close(lines[0]);
        close(orders[0]);
        become_the_helper(command, lines[1], orders[1]);
    }
    why = errno;
    close(lines[1]);
    close(orders[1]);
    if (helper.pid < 0) {
        helper.shared = NULL;
        return why;
    }
    helper.lines = lines[0];
    helper.orders = orders[0];
    return 0;
}

static void let_go_of_orders(void)
{
    if (helper.orders >= 0)
        close(helper.orders);
    helper.orders = -1;
}

void helper_finish(void)
{
    struct pollfd end = { .fd = helper.lines, .events = 0 };
    if (!helper.shared)
        return;
    atomic_store(&helper.shared->disarmed, true);
    let_go_of_orders();
    shutdown(helper.lines, SHUT_WR);
    poll(&end, 1, FINISH_MS);
    close(helper.lines);
    helper.shared = NULL;
}

/* --- lines */

bool helper_write(const char *line, size_t len, bool urgent)
{
    int waiting = 0;
    ssize_t sent = 1;
    if (!helper.shared)
        return false;
    if (urgent || (ioctl(helper.lines, SIOCOUTQ, &waiting) == 0 && waiting < ROOM / 2))
        sent = send(helper.lines, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent >= 0 || errno != EPIPE; /* which says that the helper has died */
}

void helper_flush(void)
{
    char answer;
    struct pollfd answered = { .fd = helper.lines, .events = POLLIN };
    if (!helper.shared)
        return;
    while (recv(helper.lines, &answer, 1, MSG_DONTWAIT) > 0) /* the answer to a flush that timed out */
        ;
    if (send(helper.lines, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 && poll(&answered, 1, FLUSH_MS) > 0)
        (void)!recv(helper.lines, &answer, 1, MSG_DONTWAIT);
}

/* --- COMMAND */

void *helper_memory(size_t *size)
{
    *size = helper.memory_size;
    return helper.memory;
}

static bool send_order(enum helper_word word)
{
    struct helper_packet packet = { .word = word };
    return send(helper.orders, &packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

int helper_run(char *const env[], bool foreground, pid_t *pid)
{
    struct helper_packet answer;
    ssize_t n;
    helper.shared->env = env;
    helper.shared->foreground = foreground;
    if (!send_order(HELPER_RUN))
        return errno;
    while ((n = recv(helper.orders, &answer, sizeof answer, 0)) < 0 && errno == EINTR)
        ;
    if (n <= 0)
        return n < 0 ? errno : ECHILD; /* it has died */
    if (answer.word == HELPER_NOT_STARTED)
        return answer.value;
    helper.command = *pid = answer.value;
    return 0;
}

int helper_fd(void)
{
    return helper.orders;
}

pid_t helper_root(void)
{
    return helper.pid ? helper.pid : getpid();
}

/* Our own children: the helper, and what we have of it when it has died. Of others nothing is expected, except as
 * process 1 of a container, which gets the orphans of other processes. */
static void reap(void)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == helper.pid)
            helper.pid = 0;
        if (pid == helper.command) {
            atomic_store(&helper.shared->status, status);
            atomic_store(&helper.shared->ended, true);
        }
    }
    if (!helper.pid && (pid < 0 ? errno == ECHILD : descendants_are_gone()))
        atomic_store(&helper.shared->gone, true);
}

static void read_packets(struct helper_report *report)
{
    struct helper_packet packet;
    ssize_t n;
    while ((n = recv(helper.orders, &packet, sizeof packet, MSG_DONTWAIT)) > 0) {
        if (packet.word == HELPER_STOPPED || packet.word == HELPER_CONTINUED)
            helper.stopped = packet.word == HELPER_STOPPED;
        if (packet.word == HELPER_STOPPED)
            report->stopped_by = packet.value;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        let_go_of_orders();
}

/* COMMAND's own end may have been the helper's last report, which it did not make: SIGKILL came with its death. */
void helper_look(struct helper_report *report)
{
    struct helper_shared *shared = helper.shared;
    *report = (struct helper_report){ 0 };
    if (helper.orders >= 0)
        read_packets(report);
    reap();
    report->died = !helper.pid;
    report->gone = atomic_load(&shared->gone);
    report->ended = atomic_load(&shared->ended) || report->gone;
    report->status = atomic_load(&shared->ended) ? atomic_load(&shared->status) : SIGKILL;
    report->exec_errno = atomic_load(&shared->exec_errno);
    report->stopped = helper.stopped && !report->ended;
}

void helper_kill_at(int64_t at_ms)
{
    int64_t before_ms = atomic_exchange(&helper.shared->kill_at_ms, at_ms);
    if (at_ms < before_ms && helper.orders >= 0)
        send_order(HELPER_LOOK); /* a full socket is enough of a message */
}

bool helper_has_killed(void)
{
    return atomic_load(&helper.shared->killed);
}
