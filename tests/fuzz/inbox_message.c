/* Any message in a client's inbox, where a hold and a wait may be concerned by it: nothing that whoever may publish
 * there can say overflows a number or costs more than so much memory. A first byte picks the hold id that the message
 * names, so that grants, windows and breaks of what there is are found. */
/* Shows: S26 */
#include "lease/entry_table.h"
#include "lease/watchdog.h"

#include "base/clock.h"
#include "kinds/kind.h"
#include "kinds/kinds.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/inbox.h"
#include "lease/local_queue.h"
#include "net/pipeline_link.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hlk_entry_table table;
static struct hlk_events events;
static struct hlk_node node;
static atomic_uint held, waiting;

static void log_nothing(int level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

static struct hlk_park *wake_nobody(struct hlk_local_waiter *turn, unsigned bit)
{
    (void)turn, (void)bit;
    return NULL;
}

static void make_table(void)
{
    static struct hlk_endpoint endpoint = { .reply_timeout_ms = 3000 };
    static struct hlk_greeting greeting;
    static struct hlk_log log = { .fn = log_nothing, .level = 4 };
    struct hlk_pipeline_owner owner = { .ctx = NULL };
    struct hlk_error error;
    if (hlk_loop_create(&table.loop, &error) != HLK_OK ||
        hlk_pipeline_create(&node.pipeline, table.loop, &endpoint, &greeting, &owner, true, &error) != HLK_OK)
        abort();
    hlk_events_init(&events, &log);
    hlk_releases_init(&node.releases, table.loop, "hlk-t-1-a");
    table.client_id = "hlk-t-1-a";
    table.events = &events;
    table.nodes = &node;
    table.node_count = 1;
    table.log = &log;
    table.watchdog_ms = 30000;
    hlk_kind_formats(table.formats);
    hlk_entry_table_init(&table);
    hlk_watchdog_start(&table);
    node.releases.pipeline = node.pipeline;
}

static void run_jobs(void)
{
    struct hlk_list *link;
    while ((link = hlk_list_pop(&events.jobs)))
        HLK_CONTAINER(link, struct hlk_job, link)->run(HLK_CONTAINER(link, struct hlk_job, link));
}

/* Who holds `name`, or is the first in its queue. */
static struct hlk_entry *begin(const char *name, struct hlk_local_waiter *turn, atomic_uint *holds, bool holder)
{
    struct hlk_entry *s = hlk_entry_get(&node, table.formats[0], name, strlen(name));
    memset(turn, 0, sizeof *turn);
    turn->holder.id = hlk_thread_next_id();
    turn->holder.holds = holds;
    turn->lease_ms = 30000;
    turn->wake = wake_nobody;
    if (!s || hlk_entry_enter(s, turn) != HLK_ENTER_HEAD)
        abort();
    if (holder && !hlk_entry_acquired(s, turn, hlk_clock_ms(), 0, false))
        abort();
    return s;
}

static void end(struct hlk_entry *s, struct hlk_local_waiter *turn)
{
    struct hlk_release_record record;
    if (hlk_entry_leave(s, turn, false))
        hlk_entry_leave_finish(s);
    while (hlk_entry_release(s, turn->holder.id, &record) == HLK_VERDICT_LAST)
        hlk_entry_release_finish(s);
    hlk_entry_unref(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hlk_local_waiter holder, waiter;
    char message[2048];
    if (size < 2 || size > 1024)
        return 0;
    if (!table.loop)
        make_table();
    struct hlk_entry *a = begin("a", &holder, &held, true), *b = begin("b", &waiter, &waiting, false);
    uint64_t h = data[0] % 3 == 0 ? a->hold.id : data[0] % 3 == 1 ? b->hold.id : 0;
    const uint8_t *blank = memchr(data + 1, ' ', size - 1);
    size_t word = blank ? (size_t)(blank - data) : 1;
    int len = h && blank ? snprintf(message, sizeof message, "%.*s %llu", (int)(word - 1), (const char *)data + 1,
                                    (unsigned long long)h)
                         : 0;
    size_t rest = h && blank ? word : 1;
    memcpy(message + len, data + rest, size - rest);
    hlk_inbox_receive(&node, message, (size_t)len + size - rest);
    run_jobs();
    end(a, &holder);
    end(b, &waiter);
    hlk_releases_settle_all(&node.releases);
    run_jobs();
    table.tick.run(&table.tick, hlk_clock_ms()); /* the loop's part, which runs here on no thread: frees entries */
    return 0;
}
