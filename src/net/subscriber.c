#include "net/subscriber_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "net/subscriber_read.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PING_S 1.0
#define PINGS_MISSED 2
#define REDIAL_FIRST_MS 10
#define REDIAL_MOST_MS 1000

static void broke(struct hlk_subscriber *ps, const struct hlk_error *why);

static void subscriber_dial_again_later(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    ps->redial.repeat = (double)hlk_backoff_next(&ps->backoff) / 1000.0;
    ev_timer_again(hlk_loop_ev(ps->loop), &ps->redial);
}

static void subscriber_on_redial(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_subscriber *ps = timer->data;
    hlk_loop_assert_here(ps->loop);
    ev_timer_stop(ev, timer);
    if (!ps->closed && !ps->up && !ps->dial.active)
        hlk_dial_start(&ps->dial);
}

static void subscriber_watch(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    HLK_DEBUG_ASSERT(ps->up);
    struct hlk_error error;
    unsigned events = (hlk_subscriber_loop_reads(ps) ? EPOLLIN : 0u) | (hlk_buffer_empty(&ps->out) ? 0u : EPOLLOUT);
    if (!events)
        hlk_loop_unwatch(ps->loop, &ps->io);
    else if (hlk_loop_watch(ps->loop, &ps->io, ps->conn.fd, events, &error) != HLK_OK)
        broke(ps, &error);
}

static void subscriber_flush(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    HLK_DEBUG_ASSERT(ps->up);
    struct hlk_error error;
    if (hlk_conn_send(&ps->conn, &ps->out, &error))
        subscriber_watch(ps);
    else
        broke(ps, &error);
}

static void subscriber_ask(struct hlk_subscriber *ps, enum what what, const char *channel, size_t len)
{
    hlk_loop_assert_here(ps->loop);
    HLK_DEBUG_ASSERT(ps->up && (what == PING || channel));
    static const char *const all[][3] = { { "SUBSCRIBE", "UNSUBSCRIBE", "PING" },
                                          { "SSUBSCRIBE", "SUNSUBSCRIBE", "PING" } };
    const char *const *words = all[ps->sharded];
    struct asked *asked = hlk_mem_zalloc(sizeof *asked + len + 1);
    size_t lens[2] = { strlen(words[what]), len };
    bool ok =
        asked && hlk_buffer_add_command(&ps->out, what == PING ? 1 : 2, (const char *[]){ words[what], channel }, lens);
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
    subscriber_flush(ps);
}

void hlk_subscriber_subscribe(struct hlk_subscriber *ps, const char *channel, size_t len)
{
    hlk_loop_assert_here(ps->loop);
    if (ps->closed)
        return;
    if (ps->up) {
        atomic_fetch_add(&ps->subscribed, 1);
        if (!ev_is_active(&ps->ping))
            ev_timer_again(hlk_loop_ev(ps->loop), &ps->ping);
        subscriber_ask(ps, SUBSCRIBE, channel, len);
    } else if (!ps->wanted) {
        ps->wanted = true;
        hlk_dial_start(&ps->dial);
    }
}

void hlk_subscriber_unsubscribe(struct hlk_subscriber *ps, const char *channel, size_t len)
{
    hlk_loop_assert_here(ps->loop);
    if (!ps->up)
        return;
    if (atomic_fetch_sub(&ps->subscribed, 1) == 1)
        ev_timer_stop(hlk_loop_ev(ps->loop), &ps->ping);
    atomic_store(&ps->silent_pings, 0);
    subscriber_ask(ps, UNSUBSCRIBE, channel, len);
}

static void on_ping(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_subscriber *ps = timer->data;
    hlk_loop_assert_here(ps->loop);
    HLK_DEBUG_ASSERT(ps->up);
    if (atomic_load(&ps->subscribed) == 0) { /* the last one was refused */
        ev_timer_stop(ev, timer);
        return;
    }
    if (atomic_fetch_add(&ps->silent_pings, 1) >= PINGS_MISSED) {
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_CONNECT, "subscriber connection: no answer to %d pings", PINGS_MISSED);
        broke(ps, &error);
        return;
    }
    subscriber_ask(ps, PING, NULL, 0);
}

/* --- input and output --- */

static void subscriber_on_io(struct hlk_watch *io, unsigned events)
{
    struct hlk_subscriber *ps = HLK_CONTAINER(io, struct hlk_subscriber, io);
    hlk_loop_assert_here(ps->loop);
    struct hlk_error error;
    if ((events & ~(unsigned)EPOLLOUT) && hlk_subscriber_loop_begins(ps)) {
        bool whole = hlk_subscriber_read(ps, &error);
        hlk_subscriber_loop_ends(ps);
        if (!whole) {
            broke(ps, &error);
            return;
        }
    }
    if (ps->up && !hlk_buffer_empty(&ps->out))
        subscriber_flush(ps);
    else if (ps->up)
        subscriber_watch(ps);
}

/* --- up and down --- */

static void hang_up(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_subscriber_reclaim(ps);
    hlk_loop_unwatch(ps->loop, &ps->io);
    ev_timer_stop(hlk_loop_ev(ps->loop), &ps->ping);
    hlk_conn_reset(&ps->conn);
    ps->out.len = ps->out.off = 0;
    ps->up = false;
    atomic_store(&ps->subscribed, 0);
    atomic_store(&ps->silent_pings, 0);
    struct hlk_list *node;
    while ((node = hlk_list_pop(&ps->asked)))
        hlk_mem_free(HLK_CONTAINER(node, struct asked, link));
}

static void broke(struct hlk_subscriber *ps, const struct hlk_error *why)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_assert_none();
    hang_up(ps);
    ps->owner.on_down(ps->owner.ctx, why);
    subscriber_dial_again_later(ps);
}

static void subscriber_on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct hlk_subscriber *ps = ctx;
    hlk_loop_assert_here(ps->loop);
    if (!conn) {
        ps->owner.on_down(ps->owner.ctx, error);
        subscriber_dial_again_later(ps);
        return;
    }
    ps->conn = *conn;
    ps->up = true;
    hlk_subscriber_readable(ps);
    hlk_backoff_reset(&ps->backoff);
    subscriber_watch(ps);
    if (ps->up)
        ps->owner.on_up(ps->owner.ctx);
}

void hlk_subscriber_move(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    if (ps->up) {
        struct hlk_error error;
        (void)hlk_error_set(&error, HLK_E_CONNECT, "the server is not the master; connecting anew");
        broke(ps, &error);
    } else if (ps->dial.active) {
        hlk_dial_stop(&ps->dial);
        hlk_dial_start(&ps->dial);
    }
}

/* --- which thread reads: the loop's side --- */

static void resume(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    if (ps->up && hlk_subscriber_loop_takes(ps))
        subscriber_watch(ps);
}

static void on_resume(struct hlk_post *post)
{
    resume(HLK_CONTAINER(post, struct hlk_subscriber, resume));
}

static void subscriber_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    (void)now_ms;
    resume(HLK_CONTAINER(tick, struct hlk_subscriber, tick));
}

static int64_t subscriber_tick_due_ms(struct hlk_tick *tick)
{
    struct hlk_subscriber *ps = HLK_CONTAINER(tick, struct hlk_subscriber, tick);
    hlk_mutex_lock(&ps->mu);
    bool unread = ps->readable && ps->reader == HLK_READER_NOBODY;
    hlk_mutex_unlock(&ps->mu);
    return unread ? 0 : INT64_MAX;
}

static void on_broke(struct hlk_post *post)
{
    struct hlk_subscriber *ps = HLK_CONTAINER(post, struct hlk_subscriber, broke);
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    bool is_so = ps->broken;
    struct hlk_error why = ps->why;
    hlk_mutex_unlock(&ps->mu);
    if (ps->up && is_so)
        broke(ps, &why);
}

enum hlk_status hlk_subscriber_init(struct hlk_subscriber *ps, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_subscriber_owner *owner, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(owner->on_up && owner->on_down);
    memset(ps, 0, sizeof *ps);
    ps->loop = loop;
    hlk_mutex_init(&ps->mu, HLK_RANK_LEAF);
    pthread_cond_init(&ps->given_up, NULL);
    hlk_list_init(&ps->parked);
    ps->resume.run = on_resume;
    ps->broke.run = on_broke;
    ps->tick.run = subscriber_on_tick;
    ps->tick.due_ms = subscriber_tick_due_ms;
    hlk_loop_add_tick(loop, &ps->tick);
    ps->owner = *owner;
    hlk_list_init(&ps->asked);
    hlk_conn_init(&ps->conn);
    hlk_dial_init(&ps->dial, loop, endpoint, NULL, subscriber_on_dialled, ps);
    hlk_backoff_init(&ps->backoff, REDIAL_FIRST_MS, REDIAL_MOST_MS, (uint64_t)hlk_clock_ns());
    ev_init(&ps->redial, subscriber_on_redial);
    ev_init(&ps->ping, on_ping);
    ps->ping.repeat = PING_S;
    ps->io.ready = subscriber_on_io;
    ps->redial.data = ps->ping.data = ps;
    ps->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ps->kick_fd < 0 ? hlk_error_set(error, HLK_E_OS, "no descriptor: %s", strerror(errno)) : HLK_OK;
}

void hlk_subscriber_fini(struct hlk_subscriber *ps)
{
    hlk_subscriber_close(ps);
    hlk_loop_remove_tick(ps->loop, &ps->tick);
    if (ps->kick_fd >= 0)
        close(ps->kick_fd);
    ps->kick_fd = -1;
    pthread_cond_destroy(&ps->given_up);
    hlk_mutex_fini(&ps->mu);
}

void hlk_subscriber_close(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    ps->closed = true;
    hlk_dial_stop(&ps->dial);
    ev_timer_stop(hlk_loop_ev(ps->loop), &ps->redial);
    hang_up(ps);
    hlk_buffer_fini(&ps->out);
}
