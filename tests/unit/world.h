/* world.h - a client's table of sessions with all it borrows, on a connection in the test's hands (peer.h), with a
 * played clock and no thread: alarms are fired, ticks are run and events are told when the test says so. */
#ifndef HLK_TEST_WORLD_H
#define HLK_TEST_WORLD_H

#include "hasplock/client.h"
#include "lease/holder.h"
#include "lease/table.h"
#include "peer.h"

#include <stdio.h>

struct world {
    struct peer peer;
    struct hlk_undos undos;
    struct hlk_events events;
    struct hlk_log log;
    struct hlk_table table;
    char told[4096];            /* "LOST a;" and so on, in order */
    char why[128];              /* of the last */
};

static struct world world;

static inline void world_on_event(const struct hlk_event *event, void *ctx)
{
    static const char *const names[] = { [HLK_EVENT_AT_RISK] = "AT_RISK", [HLK_EVENT_SAFE] = "SAFE",
                                         [HLK_EVENT_LOST] = "LOST",       [HLK_EVENT_ORPHANED] = "ORPHANED" };
    size_t len = strlen(world.told);
    (void)snprintf(world.told + len, sizeof world.told - len, "%s%s %s;", (const char *)ctx, names[event->kind],
                   event->lock);
    (void)snprintf(world.why, sizeof world.why, "%s", event->why);
}

static inline void world_no_log(int level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

static inline void world_open(void)
{
    memset(&world, 0, sizeof world);
    peer_open(&world.peer);
    world.log = (struct hlk_log){ .fn = world_no_log, .level = HLK_LOG_WARN };
    hlk_events_init(&world.events, &world.log);
    hlk_undos_init(&world.undos, world.peer.loop, "hlk-t-1-a");
    world.undos.mux = world.peer.mux;
    world.table.client_id = "hlk-t-1-a";
    world.table.loop = world.peer.loop;
    world.table.events = &world.events;
    world.table.undos = &world.undos;
    world.table.log = &world.log;
    world.table.hook = (struct hlk_hook){ world_on_event, "" };
    world.table.watchdog_ms = 30000;
    hlk_table_init(&world.table);
    world.table.watchdog.mux = world.peer.mux;
}

/* What the events thread would do; returns what was told since the last time. */
static inline const char *world_tells(void)
{
    static char told[sizeof world.told];
    struct hlk_list *node;
    world.told[0] = '\0';
    for (;;) {
        hlk_mutex_lock(&world.events.mu);
        node = hlk_list_pop(&world.events.jobs);
        hlk_mutex_unlock(&world.events.mu);
        if (!node)
            break;
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
    }
    memcpy(told, world.told, sizeof told);
    return told;
}

/* Every session that was made is given back: what is left is a reference that was lost. */
static inline void world_close(void)
{
    (void)world_tells();
    peer_close(&world.peer);
    hlk_undos_settle_all(&world.undos);
    (void)world_tells();
    cr_assert_eq(world.table.map.count, 0u, "%zu sessions are left", world.table.map.count);
    hlk_table_fini(&world.table);
    hlk_undos_fini(&world.undos);
    hlk_events_fini(&world.events);
    peer_free(&world.peer);
}

static inline struct hlk_session *world_session(const char *name)
{
    struct hlk_session *s = hlk_session_get(&world.table, name, strlen(name));
    cr_assert_not_null(s);
    return s;
}

static inline int64_t world_now_ms(void)
{
    return hlk_clock_ms();
}

#endif
