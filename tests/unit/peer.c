#include "peer.h"
#include "net/pipeline_lead.h"
#include "net/pipeline_link.h"

/* Later than any machine has been up: no timer of the kernel expires by itself, whatever the uptime is. */
#define PLAYED_FROM_NS (INT64_C(1000000000) * 1000000000)

static struct peer *peer_playing;

static int64_t peer_now_ns(void)
{
    return peer_playing->now_ns;
}

static void peer_on_up(void *ctx)
{
    (void)ctx;
}

static void peer_on_down(void *ctx, const struct hlk_error *why)
{
    (void)ctx, (void)why;
}

void peer_open(struct peer *p)
{
    struct hlk_error error;
    memset(p, 0, sizeof *p);
    p->fd = -1;
    p->now_ns = PLAYED_FROM_NS;
    peer_playing = p;
    hlk_clock_play(peer_now_ns);
    p->endpoint.reply_timeout_ms = 3000;
    p->owner = (struct hlk_pipeline_owner){ .ctx = p, .on_up = peer_on_up, .on_down = peer_on_down };
    cr_assert_eq(hlk_loop_create(&p->loop, &error), HLK_OK);
    cr_assert_eq(hlk_pipeline_create(&p->pipeline, p->loop, &p->endpoint, &p->greeting, &p->owner, true, &error),
                 HLK_OK);
}

void peer_passes(struct peer *p, int64_t ms)
{
    p->now_ns += ms * 1000000;
}

void peer_up(struct peer *p)
{
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    p->fd = fds[1];
    hlk_mutex_lock(&p->pipeline->mu);
    hlk_conn_reset(&p->pipeline->dead);
    cr_assert(hlk_conn_adopt(&p->pipeline->conn, fds[0]));
    p->pipeline->up_ms = hlk_clock_ms();
    p->pipeline->epoch++;
    p->pipeline->state = HLK_PIPELINE_UP;
    hlk_mutex_unlock(&p->pipeline->mu);
}

void peer_reads(struct peer *p)
{
    hlk_pipeline_dispatch(p->pipeline);
}

void peer_says(struct peer *p, const char *bytes)
{
    cr_assert_eq(write(p->fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

void peer_answers(struct peer *p, const char *bytes)
{
    peer_says(p, bytes);
    peer_reads(p);
}

const char *peer_hears(struct peer *p)
{
    ssize_t n = recv(p->fd, p->message_pending, sizeof p->message_pending - 1, MSG_DONTWAIT);
    p->message_pending[n > 0 ? n : 0] = '\0';
    return p->message_pending;
}

void peer_breaks(struct peer *p)
{
    close(p->fd);
    p->fd = -1;
    peer_reads(p);
}

void peer_close(struct peer *p)
{
    hlk_pipeline_close(p->pipeline);
}

void peer_free(struct peer *p)
{
    hlk_pipeline_destroy(p->pipeline);
    hlk_loop_destroy(p->loop);
    if (p->fd >= 0)
        close(p->fd);
    hlk_clock_play(NULL);
}
