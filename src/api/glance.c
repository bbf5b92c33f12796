#include "api/glance.h"

#include "base/clock.h"

#include <sched.h>

bool hlk_glance_add(struct hlk_glance *glance, hlk_pipeline *pipeline)
{
    for (unsigned i = 0; i < glance->count; i++)
        if (glance->pipelines[i] == pipeline)
            return false;
    glance->pipelines[glance->count++] = pipeline;
    return true;
}

void hlk_glance_hold_back(struct hlk_glance *glance, bool on)
{
    for (unsigned i = 0; i < glance->count; i++)
        hlk_pipeline_hold_back(glance->pipelines[i], on);
}

int64_t hlk_glance_spin_ns(const struct hlk_glance *glance)
{
    int64_t most = 0;
    for (unsigned i = 0; i < glance->count; i++) {
        int64_t ns = hlk_pipeline_spin_ns(glance->pipelines[i]);
        most = ns > most ? ns : most;
    }
    return most;
}

static bool may_stop(struct hlk_glance *glance)
{
    return glance->over(glance->ctx) || hlk_park_peek(&glance->self->park, glance->mask);
}

bool hlk_glance_poll(struct hlk_glance *glance, int64_t ns)
{
    int64_t until_ns = hlk_clock_ns() + ns;
    while (ns > 0 && !may_stop(glance) && hlk_clock_ns() < until_ns) {
        for (unsigned i = 0; i < glance->count; i++)
            hlk_pipeline_glance(glance->pipelines[i]);
        if (!may_stop(glance))
            sched_yield();
    }
    return glance->over(glance->ctx);
}

static void expect(const struct hlk_glance *glance, bool on)
{
    for (unsigned i = 0; i < glance->count; i++)
        hlk_pipeline_expect(glance->pipelines[i], on);
}

bool hlk_glance_sleep(struct hlk_glance *glance, int64_t at_ms)
{
    if (!glance->asleep)
        expect(glance, true);
    glance->asleep = true;
    if (hlk_clock_ms() >= at_ms)
        return false;
    if (glance->cancellable)
        hlk_thread_allow_cancel(glance->self);
    (void)hlk_park_until(&glance->self->park, HLK_WAKE_SETTLED | glance->mask, at_ms, -1, NULL);
    if (glance->cancellable)
        hlk_thread_forbid_cancel(glance->self);
    (void)hlk_park_take(&glance->self->park, HLK_WAKE_SETTLED);
    return true;
}

void hlk_glance_end(struct hlk_glance *glance)
{
    if (glance->asleep)
        expect(glance, false);
    glance->asleep = false;
}

void hlk_glance_wait(struct hlk_glance *glance, int64_t ns, int64_t at_ms)
{
    if (hlk_glance_poll(glance, ns))
        return;
    while (!may_stop(glance) && hlk_glance_sleep(glance, at_ms))
        ;
    hlk_glance_end(glance);
}
