#include "net/pipeline_up.h"

#include "net/pipeline_internal.h"

#include "base/clock.h"
#include "base/debug.h"

#include <pthread.h>

void hlk_pipeline_report_up(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    struct hlk_list *node;
    while ((node = hlk_list_pop(&pipeline->waiting_up)))
        hlk_park_wake(&HLK_CONTAINER(node, struct hlk_thread, link)->park, HLK_WAKE_UP);
}

/* The waits of now. It may be down again by the time it is their turn, and they wait anew: for the next one. */
void hlk_pipeline_run_up_waiters(struct hlk_pipeline *pipeline)
{
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_assert_none();
    struct hlk_list *node, mine;
    hlk_list_init(&mine);
    hlk_mutex_lock(&pipeline->mu);
    hlk_list_splice(&mine, &pipeline->up_waiters);
    hlk_mutex_unlock(&pipeline->mu);
    for (;;) {
        hlk_mutex_lock(&pipeline->mu); /* hlk_pipeline_forget_up takes out of `mine` too */
        node = hlk_list_pop(&mine);
        hlk_mutex_unlock(&pipeline->mu);
        if (!node)
            return;
        struct hlk_up *up = HLK_CONTAINER(node, struct hlk_up, link);
        up->run(up);
    }
}

/* Waiting for the next attempt would not help. What this process lacks may come back: a client that was connected once
 * rides it out like a server that is away, and a client that is being opened reports it at once. */
bool hlk_pipeline_is_refused(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    bool lack = pipeline->error.status == HLK_E_OS || pipeline->error.status == HLK_E_NOMEM;
    return pipeline->error.status != HLK_OK && pipeline->error.status != HLK_E_CONNECT &&
           !(lack && pipeline->epoch > 0);
}

static enum hlk_status health(const struct hlk_pipeline *pipeline, struct hlk_error *error)
{
    hlk_mutex_assert_held(&pipeline->mu);
    if (pipeline->state == HLK_PIPELINE_UP)
        return HLK_OK;
    if (pipeline->state == HLK_PIPELINE_CLOSED)
        return hlk_error_set(error, HLK_E_CLOSED, "the client is being closed");
    if (pipeline->error.status == HLK_OK)
        return hlk_error_set(error, HLK_E_CONNECT, "not connected yet");
    *error = pipeline->error;
    return hlk_pipeline_is_refused(pipeline) ? pipeline->error.status : (error->status = HLK_E_CONNECT);
}

enum hlk_status hlk_pipeline_health(hlk_pipeline *pipeline, struct hlk_error *error)
{
    hlk_mutex_lock(&pipeline->mu);
    enum hlk_status status = health(pipeline, error);
    hlk_mutex_unlock(&pipeline->mu);
    return status;
}

bool hlk_pipeline_tried(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    bool tried = pipeline->state == HLK_PIPELINE_UP || pipeline->error.status != HLK_OK;
    hlk_mutex_unlock(&pipeline->mu);
    return tried;
}

bool hlk_pipeline_was_up(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    bool was_up = pipeline->epoch > 0;
    hlk_mutex_unlock(&pipeline->mu);
    return was_up;
}

int64_t hlk_pipeline_reconnect_until(hlk_pipeline *pipeline, int64_t began_ms, int64_t reconnect_timeout_ms)
{
    hlk_mutex_lock(&pipeline->mu);
    int64_t since = pipeline->state == HLK_PIPELINE_UP ? hlk_clock_ms() : pipeline->down_ms;
    hlk_mutex_unlock(&pipeline->mu);
    return hlk_clock_after(since > began_ms ? since : began_ms, reconnect_timeout_ms);
}

/* A caller needs the connection. True: it posts `broken` when it has unlocked mu. */
static bool is_needed_now(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    bool first = pipeline->state == HLK_PIPELINE_IDLE, hurry = pipeline->resting;
    if (first)
        pipeline->state = HLK_PIPELINE_DOWN;
    pipeline->needed |= hurry;
    pipeline->resting = false;
    return first || hurry;
}

static void dial_if(struct hlk_pipeline *pipeline, bool needed)
{
    if (needed)
        hlk_loop_post(pipeline->loop, &pipeline->broken);
}

void hlk_pipeline_link_dial(struct hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    bool needed = is_needed_now(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
    dial_if(pipeline, needed);
}

void hlk_pipeline_rest(struct hlk_pipeline *pipeline, bool rests)
{
    hlk_mutex_lock(&pipeline->mu);
    bool needed = !rests && pipeline->resting && is_needed_now(pipeline);
    pipeline->rests = rests;
    hlk_mutex_unlock(&pipeline->mu);
    dial_if(pipeline, needed);
}

unsigned hlk_pipeline_reroutes(hlk_pipeline *pipeline)
{
    return atomic_load(&pipeline->reroutes);
}

void hlk_pipeline_reroute(hlk_pipeline *pipeline)
{
    hlk_loop_assert_here(pipeline->loop);
    hlk_mutex_assert_none();
    hlk_mutex_lock(&pipeline->mu);
    atomic_fetch_add(&pipeline->reroutes, 1);
    hlk_pipeline_report_up(pipeline);
    hlk_mutex_unlock(&pipeline->mu);
    hlk_pipeline_run_up_waiters(pipeline);
}

struct up_wait {
    struct hlk_pipeline *pipeline;
    struct hlk_thread *self;
};

static void stop_up_wait(void *arg)
{
    struct up_wait *w = arg;
    hlk_mutex_lock(&w->pipeline->mu);
    hlk_list_remove(&w->self->link);
    hlk_mutex_unlock(&w->pipeline->mu);
}

enum hlk_status hlk_pipeline_wait_up(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                     struct hlk_error *error)
{
    return hlk_pipeline_wait_since(pipeline, self, at_ms, mask, hlk_pipeline_reroutes(pipeline), error);
}

enum hlk_status hlk_pipeline_wait_since(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                        unsigned reroutes, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct up_wait w = { pipeline, self };
    enum hlk_status status;
    for (;;) {
        (void)hlk_park_take(&self->park, HLK_WAKE_UP);
        hlk_mutex_lock(&pipeline->mu);
        bool needed = is_needed_now(pipeline);
        status = hlk_pipeline_reroutes(pipeline) != reroutes ? HLK_OK : health(pipeline, error);
        bool wait =
            status != HLK_OK && status != HLK_E_CLOSED && !hlk_pipeline_is_refused(pipeline) && hlk_clock_ms() < at_ms;
        if (wait)
            hlk_list_push_back(&pipeline->waiting_up, &self->link);
        hlk_mutex_unlock(&pipeline->mu);
        dial_if(pipeline, needed);
        if (!wait)
            return status;
        pthread_cleanup_push(stop_up_wait, &w);
        hlk_thread_allow_cancel(self);
        (void)hlk_park_until(&self->park, HLK_WAKE_UP | mask, at_ms, -1, NULL);
        hlk_thread_forbid_cancel(self);
        pthread_cleanup_pop(0);
        stop_up_wait(&w);
        if (hlk_park_peek(&self->park, mask))
            return HLK_INTERRUPTED;
    }
}

bool hlk_pipeline_when_up(hlk_pipeline *pipeline, struct hlk_up *up, unsigned reroutes)
{
    HLK_DEBUG_ASSERT(up->run);
    hlk_mutex_lock(&pipeline->mu);
    bool needed = is_needed_now(pipeline);
    bool wait = pipeline->state != HLK_PIPELINE_UP && pipeline->state != HLK_PIPELINE_CLOSED &&
                !hlk_pipeline_is_refused(pipeline) && hlk_pipeline_reroutes(pipeline) == reroutes;
    if (wait && !hlk_list_linked(&up->link))
        hlk_list_push_back(&pipeline->up_waiters, &up->link);
    hlk_mutex_unlock(&pipeline->mu);
    dial_if(pipeline, needed);
    return wait;
}

bool hlk_pipeline_forget_up(hlk_pipeline *pipeline, struct hlk_up *up)
{
    hlk_mutex_lock(&pipeline->mu);
    bool queued = hlk_list_linked(&up->link);
    hlk_list_remove(&up->link);
    hlk_mutex_unlock(&pipeline->mu);
    return queued;
}
