/* forwarder.c - distance: passes the bytes of each connection on, each way later by a fixed time.
 *
 *     hlk_bench_forwarder PORT DELAY_US    prints the port of 127.0.0.1 where it listens, and forwards to PORT
 *
 * One thread. What is read together is written together, when its time has come; the kernel's timer slack is off, so
 * that a delay is exact to a few microseconds. A connection's bytes keep their order, and the rate has no limit. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, EVENTS = 64 };

struct piece {
    struct piece *next;
    int64_t due_ns;
    size_t len;
    char bytes[];
};

struct side { /* one end of a connection, and what is on its way to it */
    int fd;
    struct side *other;
    struct side *next; /* of all sides */
    struct piece *first, **last;
};

static struct side *sides;
static int64_t delay_ns;
static uint16_t target;
static int events = -1;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static struct side *add_side(int fd)
{
    struct side *side = calloc(1, sizeof *side);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = side };
    int on = 1;
    if (!side)
        fail("calloc");
    side->fd = fd;
    side->last = &side->first;
    side->next = sides;
    sides = side;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl");
    return side;
}

static void take_connection(int listener)
{
    struct sockaddr_in address = loopback(target);
    int client = accept(listener, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connection");
    struct side *a = add_side(client), *b = add_side(server);
    a->other = b;
    b->other = a;
}

static void take_bytes(struct side *from)
{
    static char buffer[PIECE];
    struct side *to = from->other;
    ssize_t got = read(from->fd, buffer, sizeof buffer);
    size_t len = got > 0 ? (size_t)got : 0;
    struct piece *piece = malloc(sizeof *piece + len);
    if (!piece)
        fail("malloc");
    piece->next = NULL;
    piece->due_ns = now_ns() + delay_ns;
    piece->len = len; /* 0: the end */
    memcpy(piece->bytes, buffer, len);
    *to->last = piece;
    to->last = &piece->next;
    if (len == 0)
        (void)epoll_ctl(events, EPOLL_CTL_DEL, from->fd, NULL);
}

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return; /* it has hung up: its end comes too */
        bytes += put;
        len -= (size_t)put;
    }
}

/* Writes what is due. Returns when the next piece is; INT64_MAX: there is none. */
static int64_t give_bytes(void)
{
    int64_t now = now_ns(), next = INT64_MAX;
    for (struct side *side = sides; side; side = side->next) {
        while (side->first && side->first->due_ns <= now) {
            struct piece *piece = side->first;
            side->first = piece->next;
            if (!side->first)
                side->last = &side->first;
            if (piece->len > 0)
                write_all(side->fd, piece->bytes, piece->len);
            else
                (void)shutdown(side->fd, SHUT_WR); /* a few connections: the process closes them */
            free(piece);
        }
        if (side->first && side->first->due_ns < next)
            next = side->first->due_ns;
    }
    return next;
}

static void forward(int listener)
{
    struct epoll_event ready[EVENTS];
    for (;;) {
        int64_t due = give_bytes(), left = due == INT64_MAX ? 0 : due - now_ns();
        struct timespec pause = { .tv_sec = left > 0 ? left / 1000000000 : 0,
                                  .tv_nsec = left > 0 ? left % 1000000000 : 0 };
        int n = epoll_pwait2(events, ready, EVENTS, due == INT64_MAX ? NULL : &pause, NULL);
        if (n < 0 && errno != EINTR)
            fail("epoll_pwait2");
        for (int i = 0; i < n; i++) {
            if (ready[i].data.ptr)
                take_bytes(ready[i].data.ptr);
            else
                take_connection(listener);
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    if (argc != 3 || atoi(argv[1]) <= 0 || atoi(argv[2]) < 0) {
        fprintf(stderr, "usage: %s PORT DELAY_US\n", argv[0]);
        return 64;
    }
    target = (uint16_t)atoi(argv[1]);
    delay_ns = (int64_t)atoi(argv[2]) * 1000;
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, SOMAXCONN) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0)
        fail("listen");
    events = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    if (events < 0 || epoll_ctl(events, EPOLL_CTL_ADD, listener, &event) < 0)
        fail("epoll");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    forward(listener);
}
