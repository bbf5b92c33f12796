#include "lease/pass_permits.h"

#include "lease/entry_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/local_queue.h"

/* --- which waiter asks Redis, and when --- */

void hlk_entry_ask_at_last(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_ticket *ticket = e->hold.ticket;
    if (!ticket || ticket->passing.asks_ms == 0)
        return;
    ticket->passing.asks_ms = 0;
    if (e->state == HLK_ENTRY_NONE)
        hlk_entry_promote(e);
}

void hlk_entry_note_permits(struct hlk_entry *e, int64_t permits)
{
    HLK_DEBUG_ASSERT(permits > 0);
    hlk_mutex_lock(e->mu);
    if (e->hold.ticket)
        e->hold.ticket->passing.in_use += permits;
    hlk_mutex_unlock(e->mu);
}

/* The first waiter asks now, unless others are in use here. */
static void note_given_back(struct hlk_entry *e, int64_t permits)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(permits > 0);
    struct hlk_ticket *ticket = e->hold.ticket;
    if (!ticket)
        return;
    ticket->passing.in_use = ticket->passing.in_use > permits ? ticket->passing.in_use - permits : 0;
    if (e->state == HLK_ENTRY_NONE)
        hlk_entry_promote(e);
}

void hlk_entry_note_given_back(struct hlk_entry *e, int64_t permits)
{
    hlk_mutex_lock(e->mu);
    note_given_back(e, permits);
    hlk_mutex_unlock(e->mu);
}

/* --- passing on --- */

/* The first one behind the head waiter. Or the head waiter, if no command of it is on its way. NULL: none. */
static struct hlk_local_waiter *next_in_line(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_local_waiter *first = hlk_entry_head(e);
    if (!first || !first->h)
        return first;
    if (first->link.next != &e->waiters)
        return HLK_CONTAINER(first->link.next, struct hlk_local_waiter, link);
    return e->state == HLK_ENTRY_WAITING && !e->hold.doubt ? first : NULL;
}

/* The head waiter has permits, and leaves. No waiter is behind it that could take its ticket over. */
static void end_ticket_of(struct hlk_entry *e, struct hlk_local_waiter *head)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(head->h && head == hlk_entry_head(e));
    head->owes = hlk_hold_queued(&e->hold, head->h);
    hlk_entry_move(e, head->owes ? HLK_ENTRY_RELEASING : HLK_ENTRY_NONE);
}

bool hlk_entry_pass_permits(struct hlk_entry *e, int64_t permits)
{
    HLK_DEBUG_ASSERT(permits > 0);
    struct hlk_park *woken = NULL;
    hlk_mutex_lock(e->mu);
    struct hlk_local_waiter *waiter = next_in_line(e);
    int64_t now = waiter ? hlk_clock_ms() : 0;
    bool passes = waiter && waiter->permits == permits && hlk_entry_has_turn(e, now);
    if (passes) {
        e->hold.ticket->passing.passes++;
        e->hold.ticket->passing.passed_ms = now;
        HLK_COUNT(e->node->table, passed);
        if (waiter->h)
            end_ticket_of(e, waiter);
        hlk_entry_unlink(e, waiter);
        waiter->got = waiter->passed = true;
        woken = waiter->wake(waiter, HLK_WAKE_QUEUE);
    } else {
        note_given_back(e, permits);
    }
    hlk_mutex_unlock(e->mu);
    hlk_park_wake_signalled(woken);
    return passes;
}

bool hlk_entry_may_try_permits(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    const struct hlk_ticket *ticket = e->hold.ticket;
    bool may = e->state == HLK_ENTRY_ACQUIRING && ticket && !hlk_passing_is_contended(&ticket->passing, hlk_clock_ms());
    hlk_mutex_unlock(e->mu);
    return may;
}
