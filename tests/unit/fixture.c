#include "fixture.h"

#include "kinds/kinds.h"
#include "lease/entry_table.h"
#include "support/wait.h"

struct unit unit;

void unit_on_event(const struct hlk_event *event, void *ctx)
{
    static const char *const names[] = { [HLK_EVENT_AT_RISK] = "AT_RISK",
                                         [HLK_EVENT_SAFE] = "SAFE",
                                         [HLK_EVENT_LOST] = "LOST",
                                         [HLK_EVENT_ORPHANED] = "ORPHANED" };
    size_t len = strlen(unit.reported);
    (void)snprintf(unit.reported + len, sizeof unit.reported - len, "%s%s %s;", (const char *)ctx, names[event->kind],
                   event->lock);
    (void)snprintf(unit.why, sizeof unit.why, "%s", event->why);
}

static void unit_no_log(int level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

void unit_open(void)
{
    memset(&unit, 0, sizeof unit);
    peer_open(&unit.peer);
    unit.log = (struct hlk_log){ .fn = unit_no_log, .level = HLK_LOG_WARN };
    hlk_events_init(&unit.events, &unit.log);
    hlk_releases_init(&unit.node.releases, unit.peer.loop, "hlk-t-1-a");
    unit.node.pipeline = unit.node.releases.pipeline = unit.peer.pipeline;
    unit.table.client_id = "hlk-t-1-a";
    unit.table.loop = unit.peer.loop;
    unit.table.events = &unit.events;
    unit.table.nodes = &unit.node;
    unit.table.node_count = 1;
    unit.table.log = &unit.log;
    unit.table.callback = (struct hlk_callback){ unit_on_event, "" };
    unit.table.watchdog_ms = 30000;
    hlk_kind_formats(unit.table.formats);
    hlk_entry_table_init(&unit.table);
    hlk_watchdog_start(&unit.table);
}

const char *unit_tells(void)
{
    static char reported[sizeof unit.reported];
    struct hlk_list *node;
    unit.reported[0] = '\0';
    for (;;) {
        hlk_mutex_lock(&unit.events.mu);
        node = hlk_list_pop(&unit.events.jobs);
        hlk_mutex_unlock(&unit.events.mu);
        if (!node)
            break;
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
    }
    memcpy(reported, unit.reported, sizeof reported);
    return reported;
}

void unit_close(void)
{
    (void)unit_tells();
    peer_close(&unit.peer);
    hlk_releases_settle_all(&unit.node.releases);
    (void)unit_tells();
    hlk_loop_tick(unit.peer.loop);
    TEARDOWN_ASSERT(unit.node.entries.count == 0);
    hlk_entry_table_fini(&unit.table);
    hlk_map_fini(&unit.node.entries);
    hlk_map_fini(&unit.node.holds);
    hlk_releases_fini(&unit.node.releases);
    hlk_events_fini(&unit.events);
    peer_free(&unit.peer);
}

struct hlk_entry *unit_entry(const char *name)
{
    struct hlk_entry *e = hlk_entry_get(&unit.node, unit.table.formats[0], name, strlen(name));
    cr_assert_not_null(e);
    return e;
}

int64_t unit_now_ms(void)
{
    return hlk_clock_ms();
}
