#include "net/pubsub.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PING_S 1.0
#define PINGS_MISSED 2
#define REDIAL_FIRST_MS 10
#define REDIAL_MOST_MS 1000

enum what { SUBSCRIBE, UNSUBSCRIBE, PING };

struct asked { /* a command on its way */
    struct hlk_list link;
    enum what what;
    size_t len;
    char channel[];
};

static void broke(struct hlk_pubsub *ps, const struct hlk_error *why);

static void dial_again_later(struct hlk_pubsub *ps)
{
    ps->redial.repeat = (double)hlk_backoff_next(&ps->backoff) / 1000.0;
    ev_timer_again(hlk_loop_ev(ps->loop), &ps->redial);
}

static void on_redial(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_pubsub *ps = timer->data;
    ev_timer_stop(ev, timer);
    if (!ps->closed && !ps->up && !ps->dial.active)
        hlk_dial_start(&ps->dial);
}

static void watch(struct hlk_pubsub *ps)
{
    struct ev_loop *ev = hlk_loop_ev(ps->loop);
    int events = (hlk_pubsub_loop_reads(ps) ? EV_READ : 0) | (hlk_buffer_empty(&ps->out) ? 0 : EV_WRITE);
    if (ev_is_active(&ps->io) && (ps->io.events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(ev, &ps->io);
    ev_io_set(&ps->io, ps->conn.fd, events);
    if (events)
        ev_io_start(ev, &ps->io);
}

static void flush(struct hlk_pubsub *ps)
{
    struct hlk_error error;
    if (hlk_conn_send(&ps->conn, &ps->out, &error))
        watch(ps);
    else
        broke(ps, &error);
}

static void ask(struct hlk_pubsub *ps, enum what what, const char *channel, size_t len)
{
    static const char *const words[] = { "SUBSCRIBE", "UNSUBSCRIBE", "PING" };
    struct asked *asked = hlk_mem_zalloc(sizeof *asked + len + 1);
    size_t lens[2] = { strlen(words[what]), len };
    bool ok = asked && hlk_command_add(&ps->out, what == PING ? 1 : 2, (const char *[]){ words[what], channel }, lens);
    if (!ok) { /* a connection that forgets a subscription is worth nothing */
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_NOMEM, "no memory");
        hlk_mem_free(asked);
        broke(ps, &error);
        return;
    }
    asked->what = what;
    asked->len = len;
    if (channel)
        memcpy(asked->channel, channel, len);
    hlk_mutex_lock(&ps->mu);
    hlk_list_push_back(&ps->asked, &asked->link);
    hlk_mutex_unlock(&ps->mu);
    flush(ps);
}

void hlk_pubsub_subscribe(struct hlk_pubsub *ps, const char *channel, size_t len)
{
    hlk_loop_assert_here(ps->loop);
    if (ps->closed)
        return;
    if (ps->up) {
        if (ps->subscribed++ == 0)
            ev_timer_again(hlk_loop_ev(ps->loop), &ps->ping);
        ask(ps, SUBSCRIBE, channel, len);
    } else if (!ps->wanted) {
        ps->wanted = true;
        hlk_dial_start(&ps->dial);
    }
}

void hlk_pubsub_unsubscribe(struct hlk_pubsub *ps, const char *channel, size_t len)
{
    hlk_loop_assert_here(ps->loop);
    if (!ps->up)
        return;
    if (--ps->subscribed == 0)
        ev_timer_stop(hlk_loop_ev(ps->loop), &ps->ping);
    atomic_store(&ps->silent_pings, 0);
    ask(ps, UNSUBSCRIBE, channel, len);
}

static void on_ping(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)ev, (void)revents;
    struct hlk_pubsub *ps = timer->data;
    if (atomic_fetch_add(&ps->silent_pings, 1) >= PINGS_MISSED) {
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_CONNECT, "subscriber connection: no answer to %d pings", PINGS_MISSED);
        broke(ps, &error);
        return;
    }
    ask(ps, PING, NULL, 0);
}

/* --- what it hears --- */

static void answered(struct hlk_pubsub *ps, const redisReply *reply)
{
    hlk_mutex_lock(&ps->mu);
    struct hlk_list *node = hlk_list_pop(&ps->asked);
    hlk_mutex_unlock(&ps->mu);
    if (!node)
        return;
    struct asked *asked = HLK_CONTAINER(node, struct asked, link);
    if (asked->what == SUBSCRIBE && reply->type == REDIS_REPLY_ERROR) {
        struct hlk_error error;
        bool right = strncmp(reply->str, "NOPERM", 6) == 0 || strncmp(reply->str, "NOAUTH", 6) == 0;
        (void)hlk_error_set(&error, right ? HLK_E_AUTH : HLK_E_SERVER, "SUBSCRIBE %.*s: %s", (int)asked->len,
                            asked->channel, reply->str);
        ps->owner.on_refused(ps->owner.ctx, asked->channel, asked->len, &error);
    } else if (asked->what == SUBSCRIBE) {
        ps->owner.on_subscribed(ps->owner.ctx, asked->channel, asked->len);
    }
    hlk_mem_free(asked);
}

static bool is_message(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "message") == 0 && reply->element[1]->type == REDIS_REPLY_STRING &&
           reply->element[2]->type == REDIS_REPLY_STRING;
}

static void heard(struct hlk_pubsub *ps, const redisReply *reply)
{
    atomic_store_explicit(&ps->silent_pings, 0, memory_order_relaxed);
    if (is_message(reply))
        ps->owner.on_message(ps->owner.ctx, reply->element[1]->str, reply->element[1]->len, reply->element[2]->str,
                             reply->element[2]->len);
    else
        answered(ps, reply);
}

bool hlk_pubsub_read(struct hlk_pubsub *ps, struct hlk_error *error)
{
    bool broken = false;
    int got = hlk_conn_recv(&ps->conn, error);
    if (got <= 0)
        return got == 0;
    redisReply *reply;
    while ((reply = hlk_conn_reply(&ps->conn, &broken, error))) {
        heard(ps, reply);
        freeReplyObject(reply);
    }
    return !broken;
}

static void on_io(struct ev_loop *ev, struct ev_io *io, int revents)
{
    (void)ev;
    struct hlk_pubsub *ps = io->data;
    struct hlk_error error;
    if ((revents & EV_READ) && hlk_pubsub_loop_begins(ps)) {
        bool whole = hlk_pubsub_read(ps, &error);
        hlk_pubsub_loop_ends(ps);
        if (!whole) {
            broke(ps, &error);
            return;
        }
    }
    if (ps->up && !hlk_buffer_empty(&ps->out))
        flush(ps);
    else if (ps->up)
        watch(ps);
}

/* --- up and down --- */

static void hang_up(struct hlk_pubsub *ps)
{
    struct ev_loop *ev = hlk_loop_ev(ps->loop);
    hlk_pubsub_reclaim(ps);
    ev_io_stop(ev, &ps->io);
    ev_timer_stop(ev, &ps->ping);
    hlk_conn_reset(&ps->conn);
    ps->out.len = ps->out.off = 0;
    ps->up = false;
    ps->subscribed = 0;
    atomic_store(&ps->silent_pings, 0);
    struct hlk_list *node;
    while ((node = hlk_list_pop(&ps->asked)))
        hlk_mem_free(HLK_CONTAINER(node, struct asked, link));
}

static void broke(struct hlk_pubsub *ps, const struct hlk_error *why)
{
    hang_up(ps);
    ps->owner.on_down(ps->owner.ctx, why);
    dial_again_later(ps);
}

static void on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct hlk_pubsub *ps = ctx;
    if (!conn) {
        ps->owner.on_down(ps->owner.ctx, error);
        dial_again_later(ps);
        return;
    }
    ps->conn = *conn;
    ps->up = true;
    hlk_pubsub_readable(ps);
    hlk_backoff_reset(&ps->backoff);
    watch(ps);
    ps->owner.on_up(ps->owner.ctx);
}

void hlk_pubsub_move(struct hlk_pubsub *ps)
{
    hlk_loop_assert_here(ps->loop);
    if (ps->up) {
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_CONNECT, "the server was a replica; connecting anew");
        broke(ps, &error);
    } else if (ps->dial.active) {
        hlk_dial_stop(&ps->dial);
        hlk_dial_start(&ps->dial);
    }
}

/* --- who reads: the loop's side --- */

static void resume(struct hlk_pubsub *ps)
{
    if (ps->up && hlk_pubsub_loop_takes(ps))
        watch(ps);
}

static void on_resume(struct hlk_post *post)
{
    resume(HLK_CONTAINER(post, struct hlk_pubsub, resume));
}

static void on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    (void)now_ms;
    resume(HLK_CONTAINER(tick, struct hlk_pubsub, tick));
}

static bool tick_idle(struct hlk_tick *tick)
{
    struct hlk_pubsub *ps = HLK_CONTAINER(tick, struct hlk_pubsub, tick);
    hlk_mutex_lock(&ps->mu);
    bool idle = ps->reader != HLK_READER_NOBODY || !ps->readable;
    hlk_mutex_unlock(&ps->mu);
    return idle;
}

static void on_broke(struct hlk_post *post)
{
    struct hlk_pubsub *ps = HLK_CONTAINER(post, struct hlk_pubsub, broke);
    hlk_mutex_lock(&ps->mu);
    bool is_so = ps->broken;
    struct hlk_error why = ps->why;
    hlk_mutex_unlock(&ps->mu);
    if (ps->up && is_so)
        broke(ps, &why);
}

enum hlk_status hlk_pubsub_init(struct hlk_pubsub *ps, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                const struct hlk_pubsub_owner *owner, struct hlk_error *error)
{
    memset(ps, 0, sizeof *ps);
    ps->loop = loop;
    hlk_mutex_init(&ps->mu, HLK_RANK_LEAF);
    hlk_list_init(&ps->parked);
    ps->resume.run = on_resume;
    ps->broke.run = on_broke;
    ps->tick.run = on_tick;
    ps->tick.idle = tick_idle;
    hlk_loop_add_tick(loop, &ps->tick);
    ps->owner = *owner;
    hlk_list_init(&ps->asked);
    hlk_conn_init(&ps->conn);
    hlk_dial_init(&ps->dial, loop, endpoint, NULL, on_dialled, ps);
    hlk_backoff_init(&ps->backoff, REDIAL_FIRST_MS, REDIAL_MOST_MS, (uint64_t)hlk_clock_ns());
    ev_init(&ps->redial, on_redial);
    ev_init(&ps->ping, on_ping);
    ps->ping.repeat = PING_S;
    ev_init(&ps->io, on_io);
    ps->redial.data = ps->ping.data = ps->io.data = ps;
    ps->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ps->kick_fd < 0 ? hlk_error_set(error, HLK_E_OS, "no descriptor: %s", strerror(errno)) : HLK_OK;
}

void hlk_pubsub_fini(struct hlk_pubsub *ps)
{
    hlk_pubsub_close(ps);
    if (ps->kick_fd >= 0)
        close(ps->kick_fd);
    ps->kick_fd = -1;
    hlk_mutex_fini(&ps->mu);
}

void hlk_pubsub_close(struct hlk_pubsub *ps)
{
    ps->closed = true;
    hlk_dial_stop(&ps->dial);
    ev_timer_stop(hlk_loop_ev(ps->loop), &ps->redial);
    hang_up(ps);
    hlk_buffer_fini(&ps->out);
}
