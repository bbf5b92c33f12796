#include "acquire/multi_wait.h"

#include "base/clock.h"
#include "base/debug.h"
#include "net/pipeline_lead.h"

#include <sched.h>

bool hlk_multi_wait_add(struct hlk_multi_wait *wait, hlk_pipeline *pipeline)
{
    HLK_DEBUG_ASSERT(pipeline && wait->count <= HLK_MULTI_WAIT_MAX);
    for (unsigned i = 0; i < wait->count; i++)
        if (wait->pipelines[i] == pipeline)
            return false;
    wait->pipelines[wait->count++] = pipeline;
    return true;
}

void hlk_multi_wait_hold_back(struct hlk_multi_wait *wait, bool on)
{
    hlk_mutex_assert_none();
    for (unsigned i = 0; i < wait->count; i++)
        hlk_pipeline_hold_back(wait->pipelines[i], on);
}

int64_t hlk_multi_wait_spin_ns(const struct hlk_multi_wait *wait)
{
    int64_t most = 0;
    for (unsigned i = 0; i < wait->count; i++) {
        int64_t ns = hlk_pipeline_spin_ns(wait->pipelines[i]);
        most = ns > most ? ns : most;
    }
    return most;
}

static bool may_stop(struct hlk_multi_wait *wait)
{
    return wait->over(wait->ctx) || hlk_park_peek(&wait->self->park, wait->mask);
}

bool hlk_multi_wait_poll(struct hlk_multi_wait *wait, int64_t ns)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(wait->over);
    int64_t until_ns = hlk_clock_ns() + ns;
    while (ns > 0 && !may_stop(wait) && hlk_clock_ns() < until_ns) {
        for (unsigned i = 0; i < wait->count; i++)
            hlk_pipeline_poll_once(wait->pipelines[i]);
        if (!may_stop(wait))
            sched_yield();
    }
    return wait->over(wait->ctx);
}

static void expect(const struct hlk_multi_wait *wait, bool on)
{
    for (unsigned i = 0; i < wait->count; i++)
        hlk_pipeline_expect(wait->pipelines[i], on);
}

bool hlk_multi_wait_sleep(struct hlk_multi_wait *wait, int64_t at_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(wait->self);
    if (!wait->asleep)
        expect(wait, true);
    wait->asleep = true;
    if (hlk_clock_ms() >= at_ms)
        return false;
    if (wait->cancellable)
        hlk_thread_allow_cancel(wait->self);
    (void)hlk_park_until(&wait->self->park, HLK_WAKE_SETTLED | wait->mask, at_ms, -1, NULL);
    if (wait->cancellable)
        hlk_thread_forbid_cancel(wait->self);
    (void)hlk_park_take(&wait->self->park, HLK_WAKE_SETTLED);
    return true;
}

void hlk_multi_wait_end(struct hlk_multi_wait *wait)
{
    if (wait->asleep)
        expect(wait, false);
    wait->asleep = false;
}

void hlk_multi_wait_run(struct hlk_multi_wait *wait, int64_t ns, int64_t at_ms)
{
    hlk_mutex_assert_none();
    if (hlk_multi_wait_poll(wait, ns))
        return;
    while (!may_stop(wait) && hlk_multi_wait_sleep(wait, at_ms))
        ;
    hlk_multi_wait_end(wait);
}
