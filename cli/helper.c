/* helper.c - see helper.h. A fork without exec; its two threads share no data. hasplock's orders are in shared memory.
 * A byte in a socket says that they have changed; the end of the socket says that hasplock has ended. */
#include "helper.h"

#include <hasplock/status.h>

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LINE_MOST 16384
#define ROOM (256 * 1024) /* for lines that are not written yet; the kernel may give less */
#define FINISH_MS 250
#define FLUSH_MS 200

struct orders { /* written by hasplock, except `killed` */
    atomic_int group;
    _Atomic int64_t kill_at_ms;
    atomic_bool killed;
};

static struct {
    char *title;
    size_t title_room;
    struct orders *orders; /* NULL: no helper */
    int lines;             /* a socket: a packet is a line */
    int life;              /* a socket: orders have changed; its end is hasplock's */
} helper;

/* --- in the helper */

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

static void *write_lines(void *fd)
{
    static char line[LINE_MOST];
    for (;;) {
        ssize_t len = recv(*(int *)fd, line, sizeof line, 0);
        if (len == 1 && line[0] == '\0') /* helper_flush: everything before it is written */
            send(*(int *)fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (len > 0)
            write_all(line, (size_t)len);
        else if (len == 0 || errno != EINTR)
            return NULL;
    }
}

static void kill_command(struct orders *orders)
{
    int group = atomic_load(&orders->group);
    if (group <= 1)
        return;
    atomic_store(&orders->killed, true);
    kill(-group, SIGKILL);
}

/* An absolute time on the clock of hlk_now_ms. After a suspension of the host a past time fires at once. */
static void arm_timer(int timer, int64_t at_ms)
{
    struct itimerspec when = { 0 };
    if (at_ms < INT64_MAX)
        when.it_value = (struct timespec){ .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 };
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void watch_deadline(struct orders *orders, int life, int timer)
{
    char news[64];
    for (;;) {
        struct pollfd fds[] = { { .fd = life, .events = POLLIN }, { .fd = timer, .events = POLLIN } };
        int64_t at_ms = atomic_load(&orders->group) ? atomic_load(&orders->kill_at_ms) : INT64_MAX;
        if (at_ms <= hlk_now_ms()) {
            kill_command(orders);
            at_ms = INT64_MAX;
        }
        arm_timer(timer, at_ms);
        if (poll(fds, 2, -1) > 0 && fds[0].revents && read(life, news, sizeof news) == 0)
            return;
    }
}

/* Other processes may wait for the end of an inherited pipe, or for a lock on an inherited file. */
static void close_all_but(int a, int b)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    if (low > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0U, 0);
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

static _Noreturn void be_the_helper(struct orders *orders, int lines, int life)
{
    pthread_t writer;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    set_title();
    close_all_but(lines, life);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0 || chdir("/") != 0 || pthread_create(&writer, NULL, write_lines, &lines) != 0)
        _exit(1);
    watch_deadline(orders, life, timer);
    kill_command(orders); /* hasplock has died; otherwise it has disarmed the helper */
    pthread_join(writer, NULL);
    _exit(0);
}

/* --- in hasplock */

void helper_argv(int argc, char **argv)
{
    helper.title = argv[0];
    helper.title_room = 0;
    for (int i = 0; i < argc && argv[i] == helper.title + helper.title_room; i++)
        helper.title_room += strlen(argv[i]) + 1;
}

static struct orders *make_orders(void)
{
    void *memory = mmap(NULL, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    struct orders *orders = memory;
    atomic_init(&orders->group, 0);
    atomic_init(&orders->kill_at_ms, INT64_MAX);
    atomic_init(&orders->killed, false);
    return orders;
}

int helper_start(void)
{
    int lines[2], life[2], room = ROOM;
    struct orders *orders = make_orders();
    if (!orders || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) != 0)
        return errno; /* the caller ends */
    setsockopt(lines[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    pid_t pid = fork();
    if (pid == 0)
        be_the_helper(orders, lines[1], life[1]);
    int why = errno;
    close(lines[1]);
    close(life[1]);
    if (pid < 0)
        return why;
    helper.orders = orders;
    helper.lines = lines[0];
    helper.life = life[0];
    return 0;
}

bool helper_write(const char *line, size_t len, bool urgent)
{
    int waiting = 0;
    if (!helper.orders)
        return false;
    if (urgent || (ioctl(helper.lines, SIOCOUTQ, &waiting) == 0 && waiting < ROOM / 2))
        send(helper.lines, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

void helper_flush(void)
{
    char answer;
    struct pollfd answered = { .fd = helper.lines, .events = POLLIN };
    if (!helper.orders)
        return;
    while (recv(helper.lines, &answer, 1, MSG_DONTWAIT) > 0) /* the answer to a flush that timed out */
        ;
    if (send(helper.lines, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 && poll(&answered, 1, FLUSH_MS) > 0)
        (void)!recv(helper.lines, &answer, 1, MSG_DONTWAIT);
}

void helper_finish(void)
{
    struct pollfd end = { .fd = helper.lines, .events = 0 };
    if (!helper.orders)
        return;
    close(helper.life);
    shutdown(helper.lines, SHUT_WR);
    poll(&end, 1, FINISH_MS);
    close(helper.lines);
    helper.orders = NULL;
}

static void report_changes(void)
{
    send(helper.life, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* a full socket is enough of a message */
}

void helper_kill_at(int64_t at_ms)
{
    if (!helper.orders)
        return;
    int64_t before_ms = atomic_exchange(&helper.orders->kill_at_ms, at_ms);
    if (at_ms < before_ms)
        report_changes();
}

void helper_arm(void)
{
    if (!helper.orders)
        return;
    atomic_store(&helper.orders->group, getpid());
    report_changes();
    if (hlk_now_ms() >= atomic_load(&helper.orders->kill_at_ms))
        kill_command(helper.orders); /* it is too late to start COMMAND */
}

void helper_disarm(void)
{
    if (helper.orders)
        atomic_store(&helper.orders->group, 0);
}

bool helper_has_killed(void)
{
    return helper.orders && atomic_load(&helper.orders->killed);
}
