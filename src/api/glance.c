#include "api/glance.h"

#include "base/clock.h"

#include <sched.h>

static void on_closing(struct hlk_wait_entry *entry)
{
    hlk_park_wake(&HLK_CONTAINER(entry, struct hlk_glance_client, closing)->self->park, HLK_WAKE_CLOSED);
}

static void add_client(struct hlk_glance *glance, hlk_client *client)
{
    for (unsigned i = 0; i < glance->client_count; i++)
        if (glance->clients[i].client == client)
            return;
    struct hlk_glance_client *own = &glance->clients[glance->client_count++];
    own->client = client;
    own->closing.wake = on_closing;
    own->self = glance->self;
}

static void add_pipeline(struct hlk_glance *glance, hlk_pipeline *pipeline)
{
    for (unsigned i = 0; i < glance->pipeline_count; i++)
        if (glance->pipelines[i] == pipeline)
            return;
    glance->pipelines[glance->pipeline_count++] = pipeline;
    hlk_pipeline_hold_back(pipeline, true);
}

void hlk_glance_add(struct hlk_glance *glance, hlk_client *client, hlk_pipeline *pipeline)
{
    add_client(glance, client);
    add_pipeline(glance, pipeline);
}

void hlk_glance_send(struct hlk_glance *glance)
{
    for (unsigned i = 0; i < glance->pipeline_count; i++)
        hlk_pipeline_hold_back(glance->pipelines[i], false);
}

/* --- the wait --- */

/* While answers come quickly, on the slowest of the connections. */
static int64_t spin_ns(const struct hlk_glance *glance)
{
    int64_t most = 0;
    for (unsigned i = 0; i < glance->pipeline_count; i++) {
        int64_t ns = hlk_pipeline_spin_ns(glance->pipelines[i]);
        most = ns > most ? ns : most;
    }
    return most;
}

bool hlk_glance_poll(struct hlk_glance *glance)
{
    int64_t until_ns = hlk_clock_ns() + spin_ns(glance);
    while (!glance->over(glance->ctx) && hlk_clock_ns() < until_ns) {
        for (unsigned i = 0; i < glance->pipeline_count && !glance->over(glance->ctx); i++)
            hlk_pipeline_glance(glance->pipelines[i]);
        if (!glance->over(glance->ctx))
            sched_yield();
    }
    return glance->over(glance->ctx);
}

static void fall_asleep(struct hlk_glance *glance)
{
    glance->asleep = true;
    for (unsigned i = 0; i < glance->client_count; i++)
        hlk_client_wait_add(glance->clients[i].client, &glance->clients[i].closing);
    for (unsigned i = 0; i < glance->pipeline_count; i++)
        hlk_pipeline_expect(glance->pipelines[i], true);
}

bool hlk_glance_sleep(struct hlk_glance *glance, int64_t at_ms)
{
    if (!glance->asleep) { /* what came before close would wake us is seen by the caller */
        fall_asleep(glance);
        return true;
    }
    if (hlk_clock_ms() >= at_ms)
        return false;
    hlk_thread_allow_cancel(glance->self);
    (void)hlk_park_until(&glance->self->park, HLK_WAKE_SETTLED | HLK_WAKE_CLOSED, at_ms, -1, NULL);
    hlk_thread_forbid_cancel(glance->self);
    (void)hlk_park_take(&glance->self->park, HLK_WAKE_SETTLED | HLK_WAKE_CLOSED);
    return true;
}

bool hlk_glance_closing(const struct hlk_glance *glance)
{
    for (unsigned i = 0; i < glance->client_count; i++)
        if (atomic_load(&glance->clients[i].client->closing))
            return true;
    return false;
}

void hlk_glance_end(struct hlk_glance *glance)
{
    if (!glance->asleep)
        return;
    glance->asleep = false;
    for (unsigned i = 0; i < glance->pipeline_count; i++)
        hlk_pipeline_expect(glance->pipelines[i], false);
    for (unsigned i = 0; i < glance->client_count; i++)
        hlk_client_wait_remove(glance->clients[i].client, &glance->clients[i].closing);
}
