#include "net/pipeline_wait.h"

#include "net/pipeline_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "net/pipeline.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

/* Polls with yields while answers come quickly. True: try to read again. */
static bool spin_once(int64_t until_ns)
{
    if (hlk_clock_ns() >= until_ns)
        return false;
    sched_yield();
    return true;
}

/* Sleeps until the socket or a waker speaks. */
static void leader_sleeps(struct hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&pipeline->mu);
    bool write_blocked = pipeline->write_blocked;
    hlk_mutex_unlock(&pipeline->mu);
    hlk_thread_poll(self, pipeline->conn.fd, (short)(write_blocked ? POLLIN | POLLOUT : POLLIN), pipeline->kick_fd,
                    mask | HLK_WAKE_UP, at_ms);
}

/* Reads for all callers until `call` has ended, this thread must leave, or the connection breaks (then it leads no
 * more). */
static void lead_until(struct hlk_pipeline *pipeline, struct hlk_call *call, struct hlk_thread *self, int64_t at_ms,
                       unsigned mask)
{
    struct hlk_error error;
    int64_t spin_until = 0;
    hlk_mutex_lock(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->leader == self);
    /* With many callers one of them has work to do: polling only takes the CPU from it. */
    int64_t budget = pipeline->callers <= HLK_PIPELINE_FEW ? hlk_spin_budget_ns(&pipeline->spin) : 0;
    hlk_mutex_unlock(&pipeline->mu);
    bool sleep_first = budget == 0; /* a read right after a write would find nothing */
    while (atomic_load(&call->end) == HLK_CALL_IN_FLIGHT) {
        (void)hlk_park_take(&self->park, HLK_WAKE_UP);
        int got = sleep_first ? 0 : hlk_pipeline_read(pipeline, &error);
        sleep_first = false;
        if (got > 0 && atomic_load(&call->end) != HLK_CALL_IN_FLIGHT)
            continue;
        hlk_mutex_lock(&pipeline->mu);
        int64_t dead_ns = INT64_MAX, now = hlk_clock_ns();
        bool overdue = got >= 0 && hlk_pipeline_overdue(pipeline, now, &dead_ns);
        bool write_blocked = pipeline->write_blocked;
        if (spin_until == 0)
            spin_until = now + budget;
        hlk_mutex_unlock(&pipeline->mu);
        if (overdue)
            (void)hlk_error_set(&error, HLK_E_CONNECT, "no answer for %lld ms",
                                (long long)pipeline->endpoint->reply_timeout_ms);
        if (got < 0 || overdue || (write_blocked && !hlk_pipeline_write_rest(pipeline, &error))) {
            hlk_pipeline_broke(pipeline, &error);
            return;
        }
        if (hlk_park_peek(&self->park, mask) || now / 1000000 >= at_ms)
            return;
        if (got > 0 || spin_once(spin_until))
            continue;
        int64_t dead_ms = dead_ns == INT64_MAX ? INT64_MAX : dead_ns / 1000000 + 1;
        leader_sleeps(pipeline, self, dead_ms < at_ms ? dead_ms : at_ms, mask);
    }
}

/* --- waiting: leader or follower --- */

struct waiting {
    struct hlk_pipeline *pipeline;
    struct hlk_call *call;
    struct hlk_thread *self;
    bool led;
};

/* Leaves the connection as if the caller had never waited; the call is still in flight. */
static void stop_waiting(void *arg)
{
    struct waiting *w = arg;
    struct hlk_pipeline *pipeline = w->pipeline;
    hlk_mutex_lock(&pipeline->mu);
    if (pipeline->leader == w->self)
        hlk_pipeline_give_lead(pipeline);
    else
        hlk_list_remove(&w->self->link);
    hlk_mutex_unlock(&pipeline->mu);
    (void)hlk_park_take(&w->self->park, HLK_WAKE_LEAD | HLK_WAKE_REPLY | HLK_WAKE_UP);
}

static void follow(struct waiting *w, int64_t at_ms, unsigned mask, int64_t spin_until)
{
    unsigned wanted = HLK_WAKE_REPLY | HLK_WAKE_LEAD | mask;
    while (atomic_load(&w->call->end) == HLK_CALL_IN_FLIGHT && !hlk_park_peek(&w->self->park, wanted))
        if (!spin_once(spin_until))
            break;
    if (atomic_load(&w->call->end) != HLK_CALL_IN_FLIGHT)
        return;
    hlk_thread_allow_cancel(w->self);
    (void)hlk_park_until(&w->self->park, wanted, at_ms, -1, NULL);
    hlk_thread_forbid_cancel(w->self);
}

/* One turn as leader or follower. */
static void wait_turn(struct hlk_pipeline *pipeline, struct waiting *w, int64_t at_ms, unsigned mask)
{
    int64_t spin_until = 0;
    hlk_mutex_lock(&pipeline->mu);
    bool ended = atomic_load(&w->call->end) != HLK_CALL_IN_FLIGHT;
    if (!ended && pipeline->lead != HLK_LEAD_TAKEN)
        hlk_pipeline_set_lead(pipeline, HLK_LEAD_TAKEN, w->self);
    bool leads = pipeline->leader == w->self;
    if (!leads && !ended) {
        if (!hlk_list_linked(&w->self->link))
            hlk_list_push_back(&pipeline->followers, &w->self->link);
        if (pipeline->callers <= HLK_PIPELINE_FEW)
            spin_until = hlk_clock_ns() + hlk_spin_budget_ns(&pipeline->spin);
    }
    hlk_mutex_unlock(&pipeline->mu);
    if (ended)
        return;
    w->led |= leads;
    if (leads)
        lead_until(pipeline, w->call, w->self, at_ms, mask);
    else
        follow(w, at_ms, mask, spin_until);
}

bool hlk_pipeline_wait(hlk_pipeline *pipeline, struct hlk_call *call, int64_t at_ms, unsigned mask)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(call->waiter);
    struct waiting w = { pipeline, call, call->waiter, false };
    bool leave = false;
    pthread_cleanup_push(stop_waiting, &w);
    while (!leave && atomic_load(&call->end) == HLK_CALL_IN_FLIGHT) {
        (void)hlk_park_take(&w.self->park, HLK_WAKE_LEAD | HLK_WAKE_REPLY);
        wait_turn(pipeline, &w, at_ms, mask);
        leave = hlk_park_peek(&w.self->park, mask) || (at_ms != INT64_MAX && hlk_clock_ms() >= at_ms);
    }
    pthread_cleanup_pop(0);
    if (w.led || atomic_load(&call->end) == HLK_CALL_IN_FLIGHT) /* else it was unlinked when the call ended */
        stop_waiting(&w);
    return atomic_load(&call->end) != HLK_CALL_IN_FLIGHT;
}

bool hlk_pipeline_leave(hlk_pipeline *pipeline, struct hlk_call *call, void (*done)(struct hlk_call *call))
{
    HLK_DEBUG_ASSERT(done);
    hlk_mutex_lock(&pipeline->mu);
    bool in_flight = atomic_load(&call->end) == HLK_CALL_IN_FLIGHT;
    if (in_flight) {
        HLK_DEBUG_ASSERT(call->waiter && pipeline->callers > 0);
        call->waiter = NULL;
        call->done = done;
        call->lazy = true;
        pipeline->callers--; /* a blocking caller's; completions have no thread that could leave */
    }
    hlk_mutex_unlock(&pipeline->mu);
    if (in_flight)
        hlk_loop_need_ticks(pipeline->loop);
    return in_flight;
}
