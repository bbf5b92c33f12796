#include "lease/pass_holds.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/line.h"
#include "lease/local_queue.h"

#include <assert.h>

/* It is never passed on: its lease is fixed or capped, or its id was told to a caller. */
static bool is_kept(const struct hlk_hold *hold)
{
    return !hold->passes || hold->id_exposed || hold->lease.capped;
}

/* Nothing about it is on its way to this entry: not a grant beside the reply that gave it (busy), not the answer to a
 * renewal, and no walk over all entries looks for it. */
static bool may_pass_now(const struct hlk_entry *e, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    const struct hlk_lease *lease = &e->hold.lease;
    return !e->busy && !e->hold.doubt && lease->state == HLK_LEASE_HELD && lease->raising_ms == 0 &&
           lease->asked_ms == 0 && lease->until_ms - now_ms > lease->lease_ms / 3 &&
           atomic_load(&e->node->table->walks) == 0;
}

/* NULL: none, or one whose completion would come before that of its owner's earlier release. */
static struct hlk_local_waiter *next_in(const struct hlk_entry *line)
{
    hlk_mutex_assert_held(line->mu);
    HLK_DEBUG_ASSERT(line->is_line);
    struct hlk_local_waiter *next = hlk_line_first(line);
    return next && next->completes && next->entry->releases_unreported > 0 ? NULL : next;
}

/* As after the answer to a release. */
static void leave_hold(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    hlk_entry_forget_hold(e, e->holder.id != 0);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_NONE);
    hlk_loop_cancel(e->node->table->loop, &e->hold.alarm);
    hlk_entry_move(e, HLK_ENTRY_RELEASING);
    hlk_line_moved(e);
    hlk_entry_move(e, HLK_ENTRY_NONE);
}

/* As after a grant. The turn goes on. */
static void get_hold(struct hlk_entry *e, struct hlk_local_waiter *waiter, const struct hlk_hold *from, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(hlk_entry_own_ticket(e) && from->ticket);
    HLK_DEBUG_ASSERT(waiter->entry == e && !waiter->got);
    struct hlk_own_ticket *own = hlk_entry_own_ticket(e);
    own->ticket.passing.got_ms = from->ticket->passing.got_ms;
    own->ticket.passing.passes = from->ticket->passing.passes + 1;
    own->since_ms = now_ms;
    hlk_line_leave(waiter); /* else it might be let ask, as the first in line, when its entry asks no more */
    e->hold.id = from->id;
    e->hold.lease = from->lease;
    e->hold.replicated = from->replicated;
    e->hold.passes = true;
    e->hold.drops = waiter->drops;
    e->hold.doubt = e->hold.broken = e->hold.id_exposed = e->busy = false;
    hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
    hlk_entry_move(e, HLK_ENTRY_HELD);
    hlk_line_moved(e);
    hlk_entry_ref(e); /* a held entry outlives its handles */
    (void)hlk_entry_take_over(e, waiter, now_ms);
    hlk_entry_arm(e);
}

bool hlk_entry_pass_hold(struct hlk_entry *e, struct hlk_park **woken)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry *line = hlk_entry_line(e);
    if (!line)
        return false;
    int64_t now = hlk_clock_ms();
    if (is_kept(&e->hold) || now - hlk_entry_own_ticket(e)->since_ms >= HLK_PASS_MS) {
        hlk_line_ask_all(line);
        return false;
    }
    hlk_entry_own_ticket(line)->short_hold_ended_ms = now;
    struct hlk_local_waiter *next = may_pass_now(e, now) && hlk_entry_has_turn(e, now) ? next_in(line) : NULL;
    if (!next) {
        hlk_line_ask(line, true);
        return false;
    }
    struct hlk_entry *to = next->entry;
    assert(to->state == HLK_ENTRY_NONE);
    line->hold.ticket->passing.passed_ms = now;
    get_hold(to, next, &e->hold, now);
    leave_hold(e);
    *woken = next->wake(next, HLK_WAKE_QUEUE);
    hlk_entry_wake_informed(to);
    hlk_entry_promote(e);
    return true;
}
