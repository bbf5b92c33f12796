/* The life of a shared connection: dialling, coming up, breaking, closing, and the loop's turn as leader. */
#include "net/mux_inner.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REDIAL_FIRST_MS 10
#define REDIAL_MOST_MS 250 /* a caller with a second of patience is to meet a few attempts */
#define LOOK_MS 250 /* while locks are held and nothing is said: has the server hung up? Then all holds are verified */

/* --- those who wait for it --- */

void hlk_mux_wake_up(struct hlk_mux *mux)
{
    hlk_mutex_assert_held(&mux->mu);
    struct hlk_list *node;
    while ((node = hlk_list_pop(&mux->waiting_up)))
        hlk_park_wake(&HLK_CONTAINER(node, struct hlk_self, link)->park, HLK_WAKE_UP);
}

/* Those who wait now. It may be down again by the time it is their turn, and they wait anew: for the next one. */
static void run_whens(struct hlk_mux *mux)
{
    struct hlk_list *node, mine;
    hlk_list_init(&mine);
    hlk_mutex_lock(&mux->mu);
    hlk_list_splice(&mine, &mux->whens);
    hlk_mutex_unlock(&mux->mu);
    for (;;) {
        hlk_mutex_lock(&mux->mu); /* hlk_mux_forget_up takes out of `mine` too */
        node = hlk_list_pop(&mine);
        hlk_mutex_unlock(&mux->mu);
        if (!node)
            return;
        struct hlk_up *up = HLK_CONTAINER(node, struct hlk_up, link);
        up->run(up);
    }
}

/* Waiting for the next attempt would not help. What this process lacks may come back: who was connected once rides it
 * out like a server that is away, and who opens a client is told at once. */
static bool refused(const struct hlk_mux *mux)
{
    bool lack = mux->error.status == HLK_E_OS || mux->error.status == HLK_E_NOMEM;
    return mux->error.status != HLK_OK && mux->error.status != HLK_E_CONNECT && !(lack && mux->epoch > 0);
}

static enum hlk_status health(const struct hlk_mux *mux, struct hlk_error *error)
{
    if (mux->state == HLK_MUX_UP)
        return HLK_OK;
    if (mux->state == HLK_MUX_CLOSED)
        return hlk_error_set(error, HLK_E_CLOSED, "the client is being closed");
    if (mux->error.status == HLK_OK)
        return hlk_error_set(error, HLK_E_CONNECT, "not connected yet");
    *error = mux->error;
    return refused(mux) ? mux->error.status : (error->status = HLK_E_CONNECT);
}

enum hlk_status hlk_mux_health(hlk_mux *mux, struct hlk_error *error)
{
    hlk_mutex_lock(&mux->mu);
    enum hlk_status status = health(mux, error);
    hlk_mutex_unlock(&mux->mu);
    return status;
}

struct up_wait {
    struct hlk_mux *mux;
    struct hlk_self *self;
};

static void stop_up_wait(void *arg)
{
    struct up_wait *w = arg;
    hlk_mutex_lock(&w->mux->mu);
    hlk_list_remove(&w->self->link);
    hlk_mutex_unlock(&w->mux->mu);
}

enum hlk_status hlk_mux_wait_up(hlk_mux *mux, struct hlk_self *self, int64_t at_ms, unsigned mask,
                                struct hlk_error *error)
{
    struct up_wait w = { mux, self };
    enum hlk_status status;
    hlk_mux_link_dial(mux);
    for (;;) {
        (void)hlk_park_take(&self->park, HLK_WAKE_UP);
        hlk_mutex_lock(&mux->mu);
        status = health(mux, error);
        bool wait = status != HLK_OK && status != HLK_E_CLOSED && !refused(mux) && hlk_clock_ms() < at_ms;
        if (wait)
            hlk_list_push_back(&mux->waiting_up, &self->link);
        hlk_mutex_unlock(&mux->mu);
        if (!wait)
            return status;
        pthread_cleanup_push(stop_up_wait, &w);
        hlk_self_allow_cancel(self);
        (void)hlk_park_until(&self->park, HLK_WAKE_UP | mask, at_ms, -1, NULL);
        hlk_self_forbid_cancel(self);
        pthread_cleanup_pop(0);
        stop_up_wait(&w);
        if (hlk_park_peek(&self->park, mask))
            return HLK_INTERRUPTED;
    }
}

bool hlk_mux_when_up(hlk_mux *mux, struct hlk_up *up)
{
    hlk_mux_link_dial(mux);
    hlk_mutex_lock(&mux->mu);
    bool wait = mux->state != HLK_MUX_UP && mux->state != HLK_MUX_CLOSED && !refused(mux);
    if (wait && !hlk_list_linked(&up->link))
        hlk_list_push_back(&mux->whens, &up->link);
    hlk_mutex_unlock(&mux->mu);
    return wait;
}

bool hlk_mux_forget_up(hlk_mux *mux, struct hlk_up *up)
{
    hlk_mutex_lock(&mux->mu);
    bool queued = hlk_list_linked(&up->link);
    hlk_list_remove(&up->link);
    hlk_mutex_unlock(&mux->mu);
    return queued;
}

/* --- dialling: loop thread --- */

static void dial_again_later(struct hlk_mux *mux)
{
    mux->redial.repeat = (double)hlk_backoff_next(&mux->backoff) / 1000.0;
    ev_timer_again(hlk_loop_ev(mux->loop), &mux->redial);
}

static void on_redial(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_mux *mux = timer->data;
    ev_timer_stop(ev, timer);
    hlk_mutex_lock(&mux->mu);
    bool closed = mux->state == HLK_MUX_CLOSED;
    hlk_mutex_unlock(&mux->mu);
    if (!closed && !mux->dial.active)
        hlk_dial_start(&mux->dial);
}

static void came_up(struct hlk_mux *mux, struct hlk_conn *conn)
{
    hlk_mutex_lock(&mux->mu);
    if (mux->state == HLK_MUX_CLOSED) {
        hlk_mutex_unlock(&mux->mu);
        hlk_conn_reset(conn);
        return;
    }
    mux->conn = *conn;
    mux->state = HLK_MUX_READYING;
    mux->counts.reconnects += mux->epoch > 0;
    mux->epoch++;
    mux->heard_ns = hlk_clock_ns();
    mux->up_ms = mux->heard_ns / 1000000;
    bool moved = mux->moving;
    mux->moving = false;
    hlk_mutex_unlock(&mux->mu);
    hlk_backoff_reset(&mux->backoff);
    mux->owner.on_up(mux->owner.ctx);
    if (moved && mux->owner.on_moved)
        mux->owner.on_moved(mux->owner.ctx);
    hlk_mutex_lock(&mux->mu);
    if (mux->state == HLK_MUX_READYING)
        mux->state = HLK_MUX_UP;
    memset(&mux->error, 0, sizeof mux->error);
    hlk_mux_flush(mux);
    hlk_mux_wake_up(mux);
    hlk_mutex_unlock(&mux->mu);
    hlk_loop_post(mux->loop, &mux->adopt);
    run_whens(mux);
}

static void on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct hlk_mux *mux = ctx;
    if (conn) {
        came_up(mux, conn);
        return;
    }
    hlk_mutex_lock(&mux->mu);
    mux->error = *error;
    hlk_mux_wake_up(mux);
    bool give_up = refused(mux), closed = mux->state == HLK_MUX_CLOSED;
    hlk_mutex_unlock(&mux->mu);
    if (closed)
        return;
    mux->owner.on_down(mux->owner.ctx, error);
    if (give_up)
        run_whens(mux);
    dial_again_later(mux);
}

static void on_broken(struct hlk_post *post)
{
    struct hlk_mux *mux = HLK_CONTAINER(post, struct hlk_mux, broken);
    struct ev_loop *ev = hlk_loop_ev(mux->loop);
    hlk_mutex_lock(&mux->mu);
    bool dead = mux->dead.fd >= 0;
    if (dead || mux->lead != HLK_LEAD_LOOP)
        ev_io_stop(ev, &mux->io);
    if (dead)
        hlk_conn_reset(&mux->dead);
    struct hlk_error error = mux->error;
    bool dial = mux->state == HLK_MUX_DOWN && !mux->dial.active && !ev_is_active(&mux->redial);
    bool closed = mux->state == HLK_MUX_CLOSED;
    hlk_mutex_unlock(&mux->mu);
    if (closed) {
        hlk_dial_stop(&mux->dial);
        ev_timer_stop(ev, &mux->redial);
        run_whens(mux);
        return;
    }
    if (dead)
        mux->owner.on_down(mux->owner.ctx, &error);
    if (dial)
        hlk_dial_start(&mux->dial);
}

void hlk_mux_link_dial(struct hlk_mux *mux)
{
    hlk_mutex_lock(&mux->mu);
    bool first = mux->state == HLK_MUX_IDLE;
    if (first)
        mux->state = HLK_MUX_DOWN;
    hlk_mutex_unlock(&mux->mu);
    if (first)
        hlk_loop_post(mux->loop, &mux->broken);
}

/* --- leading for those who do not wait --- */

static bool lives(const struct hlk_mux *mux) /* there is something to read */
{
    return mux->state == HLK_MUX_UP || mux->state == HLK_MUX_LEAVING;
}

static void watch(struct hlk_mux *mux) /* mu held */
{
    struct ev_loop *ev = hlk_loop_ev(mux->loop);
    int events = mux->stuffed ? EV_READ | EV_WRITE : EV_READ;
    if (ev_is_active(&mux->io) && mux->io.fd == mux->conn.fd && (mux->io.events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(ev, &mux->io);
    ev_io_set(&mux->io, mux->conn.fd, events);
    ev_io_start(ev, &mux->io);
}

/* One round as leader, on the loop or a dispatching thread. False: it broke, and the lead is not ours any more. */
static bool lead_once(struct hlk_mux *mux)
{
    struct hlk_error error;
    int got = hlk_mux_read(mux, &error);
    while (got > 0)
        got = hlk_mux_read(mux, &error);
    hlk_mutex_lock(&mux->mu);
    int64_t dead_ns;
    bool overdue = got == 0 && hlk_mux_overdue(mux, hlk_clock_ns(), &dead_ns);
    hlk_mutex_unlock(&mux->mu);
    if (overdue)
        (void)hlk_error_set(&error, HLK_E_CONNECT, "no answer for %lld ms", (long long)mux->endpoint->reply_ms);
    bool broke = got < 0 || overdue || !hlk_mux_unstuff(mux, &error);
    if (broke)
        hlk_mux_broke(mux, &error);
    return !broke;
}

static bool take_lead(struct hlk_mux *mux)
{
    hlk_mutex_lock(&mux->mu);
    bool mine = lives(mux) && mux->lead != HLK_LEAD_TAKEN;
    if (mine) {
        mux->lead = HLK_LEAD_TAKEN;
        mux->leader = NULL;
        hlk_mux_flush(mux);
    }
    hlk_mutex_unlock(&mux->mu);
    return mine;
}

/* The loop's round. It stays leader, weakly, while answers are due; any caller may take the lead from it. */
static void loop_leads(struct hlk_mux *mux)
{
    hlk_loop_assert_here(mux->loop);
    if (take_lead(mux) && lead_once(mux)) {
        hlk_mutex_lock(&mux->mu);
        if (!lives(mux) || !hlk_list_empty(&mux->followers) || mux->owner.on_work || hlk_list_empty(&mux->flight))
            hlk_mux_give_lead(mux);
        else
            mux->lead = HLK_LEAD_LOOP;
        hlk_mutex_unlock(&mux->mu);
    }
    hlk_mutex_lock(&mux->mu);
    if (mux->lead == HLK_LEAD_LOOP)
        watch(mux);
    else
        ev_io_stop(hlk_loop_ev(mux->loop), &mux->io);
    hlk_mutex_unlock(&mux->mu);
}

static void on_adopt(struct hlk_post *post)
{
    loop_leads(HLK_CONTAINER(post, struct hlk_mux, adopt));
}

static void on_io(struct ev_loop *ev, struct ev_io *io, int revents)
{
    (void)ev, (void)revents;
    loop_leads(io->data);
}

/* Answers of calls that nobody waits for, and a server that is silent while nobody leads. */
static void on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_mux *mux = HLK_CONTAINER(tick, struct hlk_mux, tick);
    hlk_mutex_lock(&mux->mu);
    int64_t dead_ns;
    bool idle = hlk_list_empty(&mux->flight);
    bool look = idle && mux->lead == HLK_LEAD_FREE && now_ms - mux->looked_ms >= LOOK_MS;
    bool due = lives(mux) && (!idle || mux->state == HLK_MUX_LEAVING) &&
               (mux->lead == HLK_LEAD_FREE ||
                (mux->lead == HLK_LEAD_LOOP && hlk_mux_overdue(mux, now_ms * 1000000, &dead_ns)));
    if (look) {
        mux->looked_ms = now_ms;
        due = lives(mux);
    }
    hlk_mutex_unlock(&mux->mu);
    if (due)
        loop_leads(mux);
}

static bool tick_idle(struct hlk_tick *tick)
{
    struct hlk_mux *mux = HLK_CONTAINER(tick, struct hlk_mux, tick);
    hlk_mutex_lock(&mux->mu);
    bool idle = hlk_list_empty(&mux->flight) && mux->state != HLK_MUX_LEAVING;
    hlk_mutex_unlock(&mux->mu);
    return idle;
}

void hlk_mux_dispatch(hlk_mux *mux)
{
    if (!take_lead(mux) || !lead_once(mux))
        return;
    hlk_mutex_lock(&mux->mu);
    mux->lead = HLK_LEAD_FREE;
    if (!hlk_list_empty(&mux->followers))
        hlk_mux_give_lead(mux);
    hlk_mutex_unlock(&mux->mu);
}

void hlk_mux_batch(hlk_mux *mux, bool on)
{
    hlk_mutex_lock(&mux->mu);
    mux->batching = on;
    if (!on)
        hlk_mux_flush(mux);
    hlk_mutex_unlock(&mux->mu);
}

void hlk_mux_push(hlk_mux *mux)
{
    hlk_mutex_lock(&mux->mu);
    hlk_mux_flush(mux);
    hlk_mutex_unlock(&mux->mu);
}

bool hlk_mux_arm(hlk_mux *mux, int epfd)
{
    hlk_mutex_lock(&mux->mu);
    bool unsent = mux->state == HLK_MUX_UP && mux->lead != HLK_LEAD_TAKEN && !mux->sending && !mux->stuffed &&
                  !hlk_buffer_empty(&mux->queued);
    if (mux->eager && mux->lead != HLK_LEAD_TAKEN && mux->conn.fd >= 0) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT | (mux->stuffed ? EPOLLOUT : 0u) };
        if (epoll_ctl(epfd, EPOLL_CTL_MOD, mux->conn.fd, &event) != 0)
            (void)epoll_ctl(epfd, EPOLL_CTL_ADD, mux->conn.fd, &event);
    }
    hlk_mutex_unlock(&mux->mu);
    return unsent;
}

/* --- making and ending --- */

enum hlk_status hlk_mux_create(hlk_mux **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                               const struct hlk_greeting *greeting, const struct hlk_mux_owner *owner, bool no_spin,
                               struct hlk_error *error)
{
    hlk_mux *mux = hlk_mem_zalloc(sizeof *mux);
    *out = NULL;
    if (!mux)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    mux->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mux->kick_fd < 0) {
        hlk_mem_free(mux);
        return hlk_error_set(error, HLK_E_OS, "no file descriptor");
    }
    mux->loop = loop;
    mux->endpoint = endpoint;
    mux->greeting = greeting;
    mux->owner = *owner;
    hlk_mutex_init(&mux->mu, HLK_RANK_MUX);
    hlk_list_init(&mux->flight);
    hlk_list_init(&mux->followers);
    hlk_list_init(&mux->waiting_up);
    hlk_list_init(&mux->whens);
    hlk_spin_init(&mux->spin, no_spin);
    hlk_conn_init(&mux->conn);
    hlk_conn_init(&mux->dead);
    hlk_dial_init(&mux->dial, loop, endpoint, greeting, on_dialled, mux);
    hlk_backoff_init(&mux->backoff, REDIAL_FIRST_MS, REDIAL_MOST_MS, (uint64_t)hlk_clock_ns());
    ev_init(&mux->redial, on_redial);
    ev_init(&mux->io, on_io);
    mux->redial.data = mux->io.data = mux;
    mux->adopt.run = on_adopt;
    mux->broken.run = on_broken;
    mux->tick.run = on_tick;
    mux->tick.idle = tick_idle;
    hlk_loop_add_tick(loop, &mux->tick);
    *out = mux;
    return HLK_OK;
}

void hlk_mux_close(hlk_mux *mux)
{
    hlk_mutex_lock(&mux->mu);
    mux->state = HLK_MUX_CLOSED;
    hlk_mux_wake_up(mux);
    while (mux->lead == HLK_LEAD_TAKEN ||
           mux->telling > 0) { /* the leader reads the end of it; only it may touch the connection */
        if (mux->conn.fd >= 0)
            shutdown(mux->conn.fd, SHUT_RDWR);
        hlk_mutex_unlock(&mux->mu);
        sched_yield();
        hlk_mutex_lock(&mux->mu);
    }
    hlk_mux_end_all(mux, HLK_MUX_CLOSED);
}

void hlk_mux_destroy(hlk_mux *mux)
{
    if (!mux)
        return;
    hlk_dial_stop(&mux->dial);
    hlk_conn_reset(&mux->conn);
    hlk_conn_reset(&mux->dead);
    hlk_buffer_fini(&mux->queued);
    hlk_buffer_fini(&mux->wire);
    hlk_mutex_fini(&mux->mu);
    close(mux->kick_fd);
    hlk_mem_free(mux);
}

void hlk_mux_distrust(hlk_mux *mux, uint64_t epoch)
{
    hlk_mutex_lock(&mux->mu);
    if (mux->epoch == epoch && mux->conn.fd >= 0)
        shutdown(mux->conn.fd, SHUT_RDWR); /* the leader, or the next one, reads the end of it */
    hlk_mutex_unlock(&mux->mu);
}

static void ping_left(struct hlk_call *call)
{
    if (call->reply)
        freeReplyObject(call->reply);
    hlk_mem_free(call);
}

bool hlk_mux_drain(hlk_mux *mux, int64_t at_ms)
{
    struct hlk_call *call = hlk_mem_zalloc(sizeof *call);
    struct hlk_self *self = hlk_self_get();
    bool answered = false;
    if (call && self) {
        call->waiter = self;
        if (hlk_mux_send(mux, call, "*1\r\n$4\r\nPING\r\n", 14) == HLK_OK) {
            answered = hlk_mux_wait(mux, call, at_ms, 0) && atomic_load(&call->end) == HLK_CALL_ANSWERED;
            if (!answered && hlk_mux_leave(mux, call, ping_left))
                return false;
        }
        if (call->reply)
            freeReplyObject(call->reply);
    }
    hlk_mem_free(call);
    return answered;
}
