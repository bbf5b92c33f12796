/* The lead without a waiting caller: the loop's turn, a dispatching thread's, and one round of a thread that waits for
 * several pipelines. */
#include "net/pipeline_lead.h"

#include "net/pipeline_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "net/pipeline.h"
#include "net/pipeline_wait.h"

#include <sys/epoll.h>

#define READS_MOST 64 /* bounds the reads of one round, so that an endless reply does not keep a thread */

bool hlk_pipeline_lives(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    return pipeline->state == HLK_PIPELINE_UP || pipeline->state == HLK_PIPELINE_LEAVING;
}

/* What the loop looks for at the socket: as leader, for all; else only whether the server hangs up, once. A connection
 * that is at rest is found broken at once so, and all holds are verified, though no thread reads. */
static unsigned events_of(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    if (pipeline->lead != HLK_LEAD_LOOP)
        return pipeline->hung_up ? 0u : EPOLLRDHUP | (unsigned)EPOLLONESHOT;
    return EPOLLIN | EPOLLRDHUP | (pipeline->write_blocked ? (unsigned)EPOLLOUT : 0u);
}

/* As leader it notices a silent server by itself: no other thread would. */
static void time_silence(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    hlk_loop_assert_here(pipeline->loop);
    int64_t now = hlk_clock_ns(), dead_ns = INT64_MAX;
    if (pipeline->lead == HLK_LEAD_LOOP)
        (void)hlk_pipeline_overdue(pipeline, now, &dead_ns);
    if (dead_ns == INT64_MAX) {
        ev_timer_stop(hlk_loop_ev(pipeline->loop), &pipeline->silence);
    } else if (!ev_is_active(&pipeline->silence)) { /* what it is set to only grows meanwhile */
        pipeline->silence.repeat = dead_ns > now ? (double)(dead_ns - now) / 1e9 + 0.001 : 0.001;
        ev_timer_again(hlk_loop_ev(pipeline->loop), &pipeline->silence);
    }
}

/* False: it cannot be watched, see error. */
static bool lead_watch(struct hlk_pipeline *pipeline, struct hlk_error *error)
{
    hlk_mutex_assert_held(&pipeline->mu);
    hlk_loop_assert_here(pipeline->loop);
    if (pipeline->conn.fd < 0)
        return true;
    unsigned events = events_of(pipeline);
    time_silence(pipeline);
    if (events)
        return hlk_loop_watch(pipeline->loop, &pipeline->io, pipeline->conn.fd, events, error) == HLK_OK;
    hlk_loop_unwatch(pipeline->loop, &pipeline->io);
    return true;
}

/* One round as leader, on the loop or a dispatching thread. False: it broke, and the lead is not ours any more. */
static bool lead_once(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    int got = 1;
    for (int i = 0; got > 0 && i < READS_MOST; i++)
        got = hlk_pipeline_read(pipeline, &error);
    hlk_mutex_lock(&pipeline->mu);
    int64_t dead_ns;
    bool overdue = got >= 0 && hlk_pipeline_overdue(pipeline, hlk_clock_ns(), &dead_ns);
    hlk_mutex_unlock(&pipeline->mu);
    if (overdue)
        (void)hlk_error_set(&error, HLK_E_CONNECT, "no answer for %lld ms",
                            (long long)pipeline->endpoint->reply_timeout_ms);
    bool broke = got < 0 || overdue || !hlk_pipeline_write_rest(pipeline, &error);
    if (broke)
        hlk_pipeline_broke(pipeline, &error);
    return !broke;
}

static bool take_lead(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&pipeline->mu);
    bool mine = hlk_pipeline_lives(pipeline) && pipeline->lead != HLK_LEAD_TAKEN;
    if (mine) {
        hlk_pipeline_set_lead(pipeline, HLK_LEAD_TAKEN, NULL);
        hlk_pipeline_flush(pipeline);
    }
    hlk_mutex_unlock(&pipeline->mu);
    return mine;
}

/* The loop's round. It stays leader, weakly, while answers are due; any caller may take the lead from it. */
static void loop_leads(struct hlk_pipeline *pipeline)
{
    hlk_loop_assert_here(pipeline->loop);
    if (take_lead(pipeline) && lead_once(pipeline)) {
        hlk_mutex_lock(&pipeline->mu);
        pipeline->hung_up = false;                               /* else the end of it would have been read */
        bool users = pipeline->owner.on_work && pipeline->eager; /* answers that the user's loop is to read */
        if (!hlk_pipeline_lives(pipeline) || !hlk_list_empty(&pipeline->followers) || users ||
            hlk_list_empty(&pipeline->flight))
            hlk_pipeline_give_lead(pipeline);
        else
            hlk_pipeline_set_lead(pipeline, HLK_LEAD_LOOP, NULL);
        hlk_mutex_unlock(&pipeline->mu);
    }
    struct hlk_error error;
    hlk_mutex_lock(&pipeline->mu);
    bool watched = lead_watch(pipeline, &error);
    hlk_mutex_unlock(&pipeline->mu);
    if (!watched && take_lead(pipeline))
        hlk_pipeline_broke(pipeline, &error);
}

static void on_adopt(struct hlk_post *post)
{
    loop_leads(HLK_CONTAINER(post, struct hlk_pipeline, adopt));
}

/* The leader reads the end of it; or the next leader, or this thread. */
static void lead_on_io(struct hlk_watch *io, unsigned events)
{
    struct hlk_pipeline *pipeline = HLK_CONTAINER(io, struct hlk_pipeline, io);
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_lock(&pipeline->mu);
    pipeline->hung_up |= pipeline->lead == HLK_LEAD_TAKEN && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    hlk_mutex_unlock(&pipeline->mu);
    loop_leads(pipeline);
}

static void on_silence(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    ev_timer_stop(ev, timer);
    loop_leads(timer->data);
}

/* There are answers to come, and no thread reads them. */
static bool unread(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    return hlk_pipeline_lives(pipeline) && pipeline->lead == HLK_LEAD_FREE &&
           (!hlk_list_empty(&pipeline->flight) || pipeline->state == HLK_PIPELINE_LEAVING);
}

/* Answers of calls that no thread waits for, and a server that is silent while no thread leads. */
static void lead_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_pipeline *pipeline = HLK_CONTAINER(tick, struct hlk_pipeline, tick);
    hlk_loop_assert_here(pipeline->loop);
    (void)now_ms;
    hlk_mutex_lock(&pipeline->mu);
    bool due = unread(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
    if (due)
        loop_leads(pipeline);
}

static int64_t lead_tick_due_ms(struct hlk_tick *tick)
{
    struct hlk_pipeline *pipeline = HLK_CONTAINER(tick, struct hlk_pipeline, tick);
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_lock(&pipeline->mu);
    bool due = unread(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
    return due ? 0 : INT64_MAX;
}

void hlk_pipeline_lead_init(struct hlk_pipeline *pipeline)
{
    hlk_loop_assert_here(pipeline->loop);
    ev_init(&pipeline->silence, on_silence);
    pipeline->silence.data = pipeline;
    pipeline->io.ready = lead_on_io;
    pipeline->adopt.run = on_adopt;
    pipeline->tick.run = lead_on_tick;
    pipeline->tick.due_ms = lead_tick_due_ms;
    hlk_loop_add_tick(pipeline->loop, &pipeline->tick);
}

void hlk_pipeline_dispatch(hlk_pipeline *pipeline)
{
    hlk_mutex_assert_none();
    if (!take_lead(pipeline) || !lead_once(pipeline))
        return;
    hlk_mutex_lock(&pipeline->mu);
    if (hlk_list_empty(&pipeline->followers) && !pipeline->hung_up)
        hlk_pipeline_set_lead(pipeline, HLK_LEAD_FREE, NULL);
    else
        hlk_pipeline_give_lead(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
}

void hlk_pipeline_poll_once(hlk_pipeline *pipeline)
{
    hlk_mutex_assert_none();
    if (!take_lead(pipeline) || !lead_once(pipeline))
        return;
    hlk_mutex_lock(&pipeline->mu);
    hlk_pipeline_give_lead(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
}

int64_t hlk_pipeline_spin_ns(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    int64_t budget = pipeline->callers <= HLK_PIPELINE_FEW ? hlk_spin_budget_ns(&pipeline->spin) : 0;
    hlk_mutex_unlock(&pipeline->mu);
    return budget;
}

void hlk_pipeline_expect(hlk_pipeline *pipeline, bool on)
{
    hlk_mutex_lock(&pipeline->mu);
    HLK_DEBUG_ASSERT(on || pipeline->expecting > 0);
    pipeline->expecting += on ? 1u : -1u;
    bool adopt = on && pipeline->lead == HLK_LEAD_FREE && !hlk_list_empty(&pipeline->flight);
    hlk_mutex_unlock(&pipeline->mu);
    if (adopt)
        hlk_loop_post(pipeline->loop, &pipeline->adopt);
}

void hlk_pipeline_hold_back(hlk_pipeline *pipeline, bool on)
{
    hlk_mutex_lock(&pipeline->mu);
    pipeline->batching = on;
    if (!on)
        hlk_pipeline_flush(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
}

void hlk_pipeline_push(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    hlk_pipeline_flush(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
}

bool hlk_pipeline_arm(hlk_pipeline *pipeline, int epfd)
{
    HLK_DEBUG_ASSERT(epfd >= 0);
    hlk_mutex_lock(&pipeline->mu);
    bool unsent = pipeline->state == HLK_PIPELINE_UP && pipeline->lead != HLK_LEAD_TAKEN && !pipeline->sending &&
                  !pipeline->write_blocked && !hlk_buffer_empty(&pipeline->queued);
    if (pipeline->eager && pipeline->lead != HLK_LEAD_TAKEN && pipeline->conn.fd >= 0) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT | (pipeline->write_blocked ? EPOLLOUT : 0u) };
        if (epoll_ctl(epfd, EPOLL_CTL_MOD, pipeline->conn.fd, &event) != 0)
            (void)epoll_ctl(epfd, EPOLL_CTL_ADD, pipeline->conn.fd, &event);
    }
    hlk_mutex_unlock(&pipeline->mu);
    return unsent;
}
