#include "net/pipeline_link.h"

#include "net/pipeline_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "net/pipeline.h"
#include "net/pipeline_lead.h"
#include "net/pipeline_up.h"
#include "net/pipeline_wait.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REDIAL_FIRST_MS 10
#define REDIAL_MOST_MS 250  /* a caller with a second of reconnect timeout is to meet a few attempts */
#define REDIAL_REST_MS 5000 /* between attempts to connect to a server that no command needs */

/* --- dialling: loop thread --- */

static void link_dial_after(struct hlk_pipeline *pipeline, int64_t ms)
{
    hlk_loop_assert_here(pipeline->loop);
    HLK_DEBUG_ASSERT(ms > 0);
    pipeline->redial.repeat = (double)ms / 1000.0;
    ev_timer_again(hlk_loop_ev(pipeline->loop), &pipeline->redial);
}

static void link_dial_again_later(struct hlk_pipeline *pipeline)
{
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_lock(&pipeline->mu);
    bool rests = pipeline->rests && hlk_list_empty(&pipeline->waiting_up) && hlk_list_empty(&pipeline->up_waiters);
    pipeline->resting = rests;
    hlk_mutex_unlock(&pipeline->mu);
    link_dial_after(pipeline, rests ? REDIAL_REST_MS : hlk_backoff_next(&pipeline->backoff));
}

static void link_on_redial(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_pipeline *pipeline = timer->data;
    hlk_loop_assert_here(pipeline->loop);
    ev_timer_stop(ev, timer);
    hlk_mutex_lock(&pipeline->mu);
    bool closed = pipeline->state == HLK_PIPELINE_CLOSED;
    pipeline->resting = false;
    hlk_mutex_unlock(&pipeline->mu);
    if (!closed && !pipeline->dial.active)
        hlk_dial_start(&pipeline->dial);
}

/* A write to the process before may have been in this very millisecond. */
void hlk_pipeline_begin_epoch(struct hlk_pipeline *pipeline, uint64_t server, int64_t uptime_ms)
{
    hlk_mutex_assert_held(&pipeline->mu);
    int64_t sent_ms = pipeline->sent_ns / 1000000;
    pipeline->epoch++;
    pipeline->up_ms = hlk_clock_ms();
    if (!server || server != pipeline->server) {
        pipeline->since_ms = sent_ms < pipeline->up_ms ? pipeline->up_ms : sent_ms + 1;
        /* If another process was known before, this one's uptime is not used: the server's clock may be wrong. */
        pipeline->started_ms = pipeline->up_ms - (pipeline->server || uptime_ms < 0 ? 0 : uptime_ms);
        pipeline->start_told = uptime_ms >= 0;
    }
    pipeline->server = server;
}

uint64_t hlk_pipeline_server(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    uint64_t server = pipeline->server;
    hlk_mutex_unlock(&pipeline->mu);
    return server;
}

int64_t hlk_pipeline_server_started(hlk_pipeline *pipeline, bool *told)
{
    hlk_mutex_lock(&pipeline->mu);
    int64_t started = pipeline->started_ms;
    *told = pipeline->start_told;
    hlk_mutex_unlock(&pipeline->mu);
    return started;
}

int64_t hlk_pipeline_server_since(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    int64_t since = pipeline->since_ms;
    hlk_mutex_unlock(&pipeline->mu);
    return since;
}

static void came_up(struct hlk_pipeline *pipeline, struct hlk_conn *conn)
{
    hlk_loop_assert_here(pipeline->loop);
    HLK_DEBUG_ASSERT(conn->fd >= 0);
    hlk_mutex_lock(&pipeline->mu);
    if (pipeline->state == HLK_PIPELINE_CLOSED) {
        hlk_mutex_unlock(&pipeline->mu);
        hlk_conn_reset(conn);
        return;
    }
    pipeline->conn = *conn;
    pipeline->state = HLK_PIPELINE_READYING;
    pipeline->counts.reconnects += pipeline->epoch > 0;
    hlk_pipeline_begin_epoch(pipeline, pipeline->dial.server, pipeline->dial.uptime_ms);
    bool moved = pipeline->moving;
    pipeline->moving = pipeline->hung_up = false;
    hlk_mutex_unlock(&pipeline->mu);
    hlk_backoff_reset(&pipeline->backoff);
    pipeline->owner.on_up(pipeline->owner.ctx);
    if (moved && pipeline->owner.on_moved)
        pipeline->owner.on_moved(pipeline->owner.ctx);
    hlk_mutex_lock(&pipeline->mu);
    if (pipeline->state == HLK_PIPELINE_READYING)
        pipeline->state = HLK_PIPELINE_UP;
    memset(&pipeline->error, 0, sizeof pipeline->error);
    hlk_pipeline_flush(pipeline);
    hlk_pipeline_report_up(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
    hlk_loop_post(pipeline->loop, &pipeline->adopt);
    hlk_pipeline_run_up_waiters(pipeline);
}

static void link_on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct hlk_pipeline *pipeline = ctx;
    hlk_loop_assert_here(pipeline->loop);
    HLK_DEBUG_ASSERT(conn || error);
    if (conn) {
        came_up(pipeline, conn);
        return;
    }
    hlk_mutex_lock(&pipeline->mu);
    pipeline->error = *error;
    hlk_pipeline_report_up(pipeline);
    bool give_up = hlk_pipeline_is_refused(pipeline), closed = pipeline->state == HLK_PIPELINE_CLOSED;
    hlk_mutex_unlock(&pipeline->mu);
    if (closed)
        return;
    pipeline->owner.on_down(pipeline->owner.ctx, error);
    if (give_up)
        hlk_pipeline_run_up_waiters(pipeline);
    link_dial_again_later(pipeline);
}

static void on_broken(struct hlk_post *post)
{
    struct hlk_pipeline *pipeline = HLK_CONTAINER(post, struct hlk_pipeline, broken);
    hlk_loop_assert_here(pipeline->loop);
    struct ev_loop *ev = hlk_loop_ev(pipeline->loop);
    hlk_mutex_lock(&pipeline->mu);
    bool dead = pipeline->dead.fd >= 0;
    if (dead) {
        hlk_loop_unwatch(pipeline->loop, &pipeline->io);
        ev_timer_stop(ev, &pipeline->silence);
        hlk_conn_reset(&pipeline->dead);
    }
    struct hlk_error error = pipeline->error;
    bool dial = pipeline->state == HLK_PIPELINE_DOWN && !pipeline->dial.active && !ev_is_active(&pipeline->redial);
    bool closed = pipeline->state == HLK_PIPELINE_CLOSED;
    bool needed = pipeline->needed && ev_is_active(&pipeline->redial);
    pipeline->needed = false;
    hlk_mutex_unlock(&pipeline->mu);
    if (closed) {
        hlk_dial_stop(&pipeline->dial);
        ev_timer_stop(ev, &pipeline->redial);
        hlk_pipeline_run_up_waiters(pipeline);
        return;
    }
    if (dead)
        pipeline->owner.on_down(pipeline->owner.ctx, &error);
    if (dial)
        hlk_dial_start(&pipeline->dial);
    else if (needed)
        link_dial_after(pipeline, hlk_backoff_next(&pipeline->backoff));
}

/* --- making and ending --- */

enum hlk_status hlk_pipeline_create(hlk_pipeline **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_greeting *greeting, const struct hlk_pipeline_owner *owner,
                                    bool no_spin, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(loop && endpoint && owner);
    hlk_pipeline *pipeline = hlk_mem_zalloc(sizeof *pipeline);
    *out = NULL;
    if (!pipeline)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    pipeline->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pipeline->kick_fd < 0) {
        hlk_mem_free(pipeline);
        return hlk_error_set(error, HLK_E_OS, "no file descriptor");
    }
    pipeline->loop = loop;
    pipeline->endpoint = endpoint;
    pipeline->greeting = greeting;
    pipeline->owner = *owner;
    hlk_mutex_init(&pipeline->mu, HLK_RANK_PIPELINE);
    pthread_cond_init(&pipeline->changed, NULL);
    hlk_list_init(&pipeline->flight);
    hlk_list_init(&pipeline->followers);
    hlk_list_init(&pipeline->waiting_up);
    hlk_list_init(&pipeline->up_waiters);
    hlk_spin_init(&pipeline->spin, no_spin);
    hlk_conn_init(&pipeline->conn);
    hlk_conn_init(&pipeline->dead);
    hlk_dial_init(&pipeline->dial, loop, endpoint, greeting, link_on_dialled, pipeline);
    hlk_backoff_init(&pipeline->backoff, REDIAL_FIRST_MS, REDIAL_MOST_MS, (uint64_t)hlk_clock_ns());
    ev_init(&pipeline->redial, link_on_redial);
    pipeline->redial.data = pipeline;
    pipeline->broken.run = on_broken;
    hlk_pipeline_lead_init(pipeline);
    *out = pipeline;
    return HLK_OK;
}

void hlk_pipeline_close(hlk_pipeline *pipeline)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&pipeline->mu);
    pipeline->state = HLK_PIPELINE_CLOSED;
    hlk_pipeline_report_up(pipeline);
    while (pipeline->lead == HLK_LEAD_TAKEN || pipeline->reporters > 0) { /* only the leader may touch the connection */
        if (pipeline->conn.fd >= 0)
            shutdown(pipeline->conn.fd, SHUT_RDWR); /* it reads the end of it */
        hlk_pipeline_await_change(pipeline);
    }
    hlk_pipeline_end_all(pipeline, HLK_PIPELINE_CLOSED);
}

void hlk_pipeline_destroy(hlk_pipeline *pipeline)
{
    if (!pipeline)
        return;
    hlk_loop_assert_here(pipeline->loop);
    HLK_DEBUG_ASSERT(hlk_list_empty(&pipeline->flight));
    hlk_dial_stop(&pipeline->dial);
    hlk_loop_remove_tick(pipeline->loop, &pipeline->tick);
    hlk_loop_unwatch(pipeline->loop, &pipeline->io);
    hlk_conn_reset(&pipeline->conn);
    hlk_conn_reset(&pipeline->dead);
    hlk_buffer_fini(&pipeline->queued);
    hlk_buffer_fini(&pipeline->wire);
    pthread_cond_destroy(&pipeline->changed);
    hlk_mutex_fini(&pipeline->mu);
    close(pipeline->kick_fd);
    hlk_mem_free(pipeline);
}

void hlk_pipeline_distrust(hlk_pipeline *pipeline, uint64_t epoch)
{
    hlk_mutex_lock(&pipeline->mu);
    bool lives = pipeline->epoch == epoch && pipeline->conn.fd >= 0;
    if (lives)
        shutdown(pipeline->conn.fd, SHUT_RDWR); /* the leader, or the next one, reads the end of it */
    hlk_mutex_unlock(&pipeline->mu);
    if (lives)
        hlk_log(&pipeline->endpoint->log, HLK_LOG_WARN, "%s: a reply was no answer to its command; connecting anew",
                pipeline->endpoint->url.shown);
}

void hlk_pipeline_move(hlk_pipeline *pipeline)
{
    struct ev_loop *ev = hlk_loop_ev(pipeline->loop);
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_lock(&pipeline->mu);
    bool leaves = hlk_pipeline_lives(pipeline);
    bool dials = pipeline->state == HLK_PIPELINE_DOWN && (pipeline->dial.active || ev_is_active(&pipeline->redial));
    if (leaves) {
        hlk_pipeline_leave_server(pipeline, "another server is the master now; connecting anew");
        shutdown(pipeline->conn.fd, SHUT_RDWR); /* the leader, or the next tick, reads the end of it */
    }
    hlk_mutex_unlock(&pipeline->mu);
    if (leaves)
        hlk_loop_need_ticks(pipeline->loop);
    if (!dials)
        return;
    ev_timer_stop(ev, &pipeline->redial);
    hlk_backoff_reset(&pipeline->backoff);
    hlk_dial_stop(&pipeline->dial);
    hlk_dial_start(&pipeline->dial);
}

static void ping_left(struct hlk_call *call)
{
    if (call->reply)
        freeReplyObject(call->reply);
    hlk_mem_free(call);
}

/* Nor does a thread report the end of a call: its callback might send another one. */
static bool is_at_rest(struct hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    bool rests = pipeline->state == HLK_PIPELINE_UP && hlk_list_empty(&pipeline->flight) &&
                 pipeline->lead != HLK_LEAD_TAKEN && pipeline->reporters == 0;
    hlk_mutex_unlock(&pipeline->mu);
    return rests;
}

bool hlk_pipeline_drain(hlk_pipeline *pipeline, int64_t at_ms)
{
    hlk_mutex_assert_none();
    if (is_at_rest(pipeline))
        return true;
    struct hlk_call *call = hlk_mem_zalloc(sizeof *call);
    struct hlk_thread *self = hlk_thread_get();
    bool answered = false;
    if (call && self) {
        call->waiter = self;
        if (hlk_pipeline_send(pipeline, call, "*1\r\n$4\r\nPING\r\n", 14) == HLK_OK) {
            answered = hlk_pipeline_wait(pipeline, call, at_ms, 0) && atomic_load(&call->end) == HLK_CALL_ANSWERED;
            if (!answered && hlk_pipeline_leave(pipeline, call, ping_left))
                return false;
        }
        if (call->reply)
            freeReplyObject(call->reply);
    }
    hlk_mem_free(call);
    return answered;
}
