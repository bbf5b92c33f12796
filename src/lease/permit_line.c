/* The line of leased permits: which holders of a process ask Redis for one, and which wait for that of another holder
 * (pass_holds.c).
 *
 * Each holder of permits has an entry of its own. Those of one client that wait for permits of one name, with the same
 * number of them, share a line: an entry that is never held. Its `waiters` are those that wait without asking Redis,
 * linked by `in_line`, and its `count` is how many entries ask. All of them have one mutex.
 *
 * Waiting in line pays while holds are brief and permits are short. Then one entry asks at a time; when it has its
 * permit or leaves, the first in line asks. After a hold that was not brief all ask: several permits that come free
 * elsewhere would be fetched one after the other. */
#include "lease/entry_internal.h"

#include "base/clock.h"
#include "lease/entry_table.h"

#include <assert.h>

/* --- waiting in line --- */

void hlk_permit_line_begin(struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    if (!waiter->line || !hlk_entry_make_ticket(e) || hlk_entry_line(e))
        return;
    assert(e->mu == waiter->line->mu);
    hlk_entry_own_ticket(e)->line = waiter->line;
    hlk_entry_ref(waiter->line);
}

/* Redis has said BUSY just now, and holds are brief. */
static bool is_contended(const struct hlk_entry *line)
{
    const struct hlk_own_ticket *own = hlk_entry_own_ticket(line);
    int64_t now = hlk_clock_ms();
    return own && hlk_ticket_is_contended(&own->ticket, now) && now - own->brief_ms < HLK_CONTENDED_MS;
}

/* Somebody asks, who is before this one. */
static bool is_line_open(const struct hlk_entry *line)
{
    return line->count > 0 && (!hlk_list_empty(&line->waiters) || is_contended(line));
}

bool hlk_permit_line_join(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    if (!line || waiter->line != line || waiter->once || !is_line_open(line))
        return false;
    waiter->entry = e;
    e->in_line = true;
    hlk_list_push_back(&line->waiters, &waiter->in_line);
    return true;
}

void hlk_permit_line_leave(struct hlk_local_waiter *waiter)
{
    if (!hlk_list_linked(&waiter->in_line))
        return;
    hlk_mutex_assert_held(waiter->entry->mu);
    hlk_list_remove(&waiter->in_line);
    waiter->entry->in_line = false;
}

struct hlk_local_waiter *hlk_permit_line_first(const struct hlk_entry *line)
{
    struct hlk_list *node = hlk_list_first(&line->waiters);
    return node ? HLK_CONTAINER(node, struct hlk_local_waiter, in_line) : NULL;
}

static void let_ask(struct hlk_local_waiter *waiter)
{
    hlk_permit_line_leave(waiter);
    hlk_entry_promote(waiter->entry);
}

void hlk_permit_line_count(struct hlk_entry *line, bool asks)
{
    hlk_mutex_assert_held(line->mu);
    line->count += asks ? 1 : -1u;
    struct hlk_local_waiter *first = line->count == 0 ? hlk_permit_line_first(line) : NULL;
    if (first)
        let_ask(first);
    assert(line->count > 0 || !hlk_permit_line_first(line));
}

void hlk_permit_line_ask_all(const struct hlk_entry *line)
{
    struct hlk_local_waiter *first;
    while ((first = hlk_permit_line_first(line)))
        let_ask(first);
}

/* --- what Redis says --- */

void hlk_permit_line_busy(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    if (line && hlk_entry_make_ticket(line))
        line->hold.ticket->busy_ms = hlk_clock_ms();
}

void hlk_permit_line_got(struct hlk_entry *e, const struct hlk_local_waiter *waiter, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    e->hold.shown = false;
    e->hold.passes = line && waiter->line == line;
    if (e->hold.passes)
        hlk_entry_own_ticket(e)->since_ms = now_ms;
}
