#include "lease/line.h"

#include "lease/entry_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"

#include <assert.h>

struct hlk_local_waiter *hlk_line_first(const struct hlk_entry *line)
{
    hlk_mutex_assert_held(line->mu);
    struct hlk_list *node = hlk_list_first(&line->waiters);
    return node ? HLK_CONTAINER(node, struct hlk_local_waiter, in_line) : NULL;
}

void hlk_line_leave(struct hlk_local_waiter *waiter)
{
    if (!hlk_list_linked(&waiter->in_line))
        return;
    hlk_mutex_assert_held(waiter->entry->mu);
    hlk_list_remove(&waiter->in_line);
    waiter->line->hold.ticket->passing.waits--;
    waiter->entry->in_line = false;
}

/* --- which waiter asks Redis, and when --- */

static bool are_holds_brief(const struct hlk_entry *line, int64_t now_ms)
{
    hlk_mutex_assert_held(line->mu);
    return now_ms - hlk_entry_own_ticket(line)->short_hold_ended_ms < HLK_CONTENDED_MS;
}

static bool is_contended(const struct hlk_entry *line, int64_t now_ms)
{
    hlk_mutex_assert_held(line->mu);
    return hlk_passing_is_contended(&line->hold.ticket->passing, now_ms) && are_holds_brief(line, now_ms);
}

static bool is_pass_likely(const struct hlk_entry *line, int64_t now_ms)
{
    hlk_mutex_assert_held(line->mu);
    return hlk_passing_is_likely(&line->hold.ticket->passing, now_ms) && are_holds_brief(line, now_ms);
}

static void let_ask(struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(waiter->entry->mu);
    HLK_DEBUG_ASSERT(hlk_list_linked(&waiter->in_line));
    hlk_line_leave(waiter);
    hlk_entry_promote(waiter->entry);
}

void hlk_line_ask(struct hlk_entry *line, bool at_once)
{
    hlk_mutex_assert_held(line->mu);
    struct hlk_local_waiter *first = line->count == 0 ? hlk_line_first(line) : NULL;
    if (!first)
        return;
    if (at_once || !is_pass_likely(line, hlk_clock_ms()))
        let_ask(first);
    else
        hlk_entry_ask_by(line, line->hold.ticket->passing.passed_ms + HLK_PASS_MS);
}

void hlk_line_ask_all(const struct hlk_entry *line)
{
    hlk_mutex_assert_held(line->mu);
    HLK_DEBUG_ASSERT(line->is_line);
    struct hlk_local_waiter *first;
    while ((first = hlk_line_first(line)))
        let_ask(first);
}

void hlk_line_on_alarm(struct hlk_entry *line)
{
    hlk_mutex_assert_held(line->mu);
    HLK_DEBUG_ASSERT(line->is_line);
    line->hold.ticket->passing.asks_ms = 0;
    hlk_line_ask(line, false);
}

/* --- which waiters are in it --- */

void hlk_line_moved(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    if (line)
        hlk_line_ask(line, false);
}

void hlk_line_begin(struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    if (!waiter->line || hlk_entry_line(e) || !hlk_entry_make_ticket(e) || !hlk_entry_make_ticket(waiter->line))
        return;
    assert(e->mu == waiter->line->mu);
    waiter->line->is_line = true;
    hlk_entry_own_ticket(e)->line = waiter->line;
    hlk_entry_ref(waiter->line);
    waiter->line->count += hlk_entry_asks(e); /* for another thread of its owner, without the line */
    waiter->line->hold.ticket->passing.in_use += e->state == HLK_ENTRY_HELD;
    hlk_line_moved(e);
}

/* A new one would not be the first in it, or need not ask. */
static bool is_line_open(const struct hlk_entry *line, int64_t now_ms)
{
    hlk_mutex_assert_held(line->mu);
    if (!hlk_list_empty(&line->waiters))
        return true;
    return line->count > 0 ? is_contended(line, now_ms) : is_pass_likely(line, now_ms);
}

bool hlk_line_join(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    int64_t now = hlk_clock_ms();
    if (!line || waiter->line != line || waiter->once || !is_line_open(line, now))
        return false;
    waiter->entry = e;
    e->in_line = true;
    hlk_list_push_back(&line->waiters, &waiter->in_line);
    line->hold.ticket->passing.waits++;
    hlk_line_ask(line, false);
    return true;
}

/* --- what Redis says --- */

void hlk_line_busy(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    if (line)
        line->hold.ticket->passing.busy_ms = hlk_clock_ms();
}

void hlk_line_got(struct hlk_entry *e, const struct hlk_local_waiter *waiter, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    e->hold.id_exposed = false;
    e->hold.passes = line && waiter->line == line;
    if (e->hold.passes)
        hlk_entry_own_ticket(e)->since_ms = now_ms;
}
