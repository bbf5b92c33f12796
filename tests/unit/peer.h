/* peer.h - a shared connection whose other end is in the test's hands: a pair of sockets within the process, no server,
 * no thread. Bytes are looked at and given by the test, one round at a time.
 *
 *     peer_open(&peer); peer_up(&peer);
 *     hlk_mux_send(peer.mux, &call, ...);
 *     cr_assert_str_eq(peer_hears(&peer), "...");
 *     peer_says(&peer, ":1\r\n");             the leader's round that reads it is peer_reads, or a waiting caller
 */
#ifndef HLK_TEST_PEER_H
#define HLK_TEST_PEER_H

#include "base/clock.h"
#include "net/mux_inner.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
    hlk_loop *loop;             /* never started */
    hlk_mux *mux;
    struct hlk_endpoint endpoint;
    struct hlk_greeting greeting;
    struct hlk_mux_owner owner;
    int fd;                     /* the other end; -1: down */
    char heard[65536];
    int64_t now_ns;
};

static struct peer *peer_playing;

static inline int64_t peer_now_ns(void)
{
    return peer_playing->now_ns;
}

static inline void peer_on_up(void *ctx)
{
    (void)ctx;
}

static inline void peer_on_down(void *ctx, const struct hlk_error *why)
{
    (void)ctx, (void)why;
}

static inline void peer_open(struct peer *p)
{
    struct hlk_error error;
    memset(p, 0, sizeof *p);
    p->fd = -1;
    p->now_ns = INT64_C(1000000) * 1000000;
    peer_playing = p;
    hlk_clock_play(peer_now_ns);
    p->endpoint.reply_ms = 3000;
    p->owner = (struct hlk_mux_owner){ .ctx = p, .on_up = peer_on_up, .on_down = peer_on_down };
    cr_assert_eq(hlk_loop_create(&p->loop, &error), HLK_OK);
    cr_assert_eq(hlk_mux_create(&p->mux, p->loop, &p->endpoint, &p->greeting, &p->owner, true, &error), HLK_OK);
}

static inline void peer_passes(struct peer *p, int64_t ms)
{
    p->now_ns += ms * 1000000;
}

/* As after a dial: a new stream. What the owner says first is the test's business. */
static inline void peer_up(struct peer *p)
{
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    p->fd = fds[1];
    hlk_mutex_lock(&p->mux->mu);
    hlk_conn_reset(&p->mux->dead);
    p->mux->conn.fd = fds[0];
    p->mux->conn.reader = redisReaderCreate();
    p->mux->heard_ns = hlk_clock_ns();
    p->mux->up_ms = hlk_clock_ms();
    p->mux->epoch++;
    p->mux->state = HLK_MUX_UP;
    hlk_mutex_unlock(&p->mux->mu);
}

/* A round of the leader, when no caller leads. */
static inline void peer_reads(struct peer *p)
{
    hlk_mux_dispatch(p->mux);
}

static inline void peer_says(struct peer *p, const char *bytes)
{
    cr_assert_eq(write(p->fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

static inline void peer_answers(struct peer *p, const char *bytes)
{
    peer_says(p, bytes);
    peer_reads(p);
}

/* What came since the last time; "" when nothing. */
static inline const char *peer_hears(struct peer *p)
{
    ssize_t n = recv(p->fd, p->heard, sizeof p->heard - 1, MSG_DONTWAIT);
    p->heard[n > 0 ? n : 0] = '\0';
    return p->heard;
}

/* The connection ends, and the leader sees it. */
static inline void peer_breaks(struct peer *p)
{
    close(p->fd);
    p->fd = -1;
    peer_reads(p);
}

static inline void peer_close(struct peer *p)
{
    hlk_mux_close(p->mux);
}

static inline void peer_free(struct peer *p)
{
    hlk_mux_destroy(p->mux);
    hlk_loop_destroy(p->loop);
    if (p->fd >= 0)
        close(p->fd);
    hlk_clock_play(NULL);
}

#endif
