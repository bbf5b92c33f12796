#include "lease/entry_state.h"

#include "lease/entry_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_table.h"

void hlk_entry_arm(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    int64_t next;
    (void)hlk_lease_due(&e->hold.lease, hlk_clock_ms(), e->node->table->at_risk_ms, &next);
    hlk_loop_arm(e->node->table->loop, &e->hold.alarm, next);
}

/* Waiters behind it came later, so they have waited no longer than since first_ms. */
static int64_t short_hold_ms(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    int64_t now = hlk_clock_ms();
    int64_t left_ms = hlk_clock_after(e->hold.lease.ends_ms, e->hold.lease.raising_ms) - now;
    bool brief = now - e->hold.ticket->first_ms < HLK_SHORT_HOLD_MS && left_ms <= e->hold.lease.lease_ms;
    return brief ? e->hold.lease.lease_ms : 0;
}

void hlk_entry_fill_record(const struct hlk_entry *e, struct hlk_release_record *out)
{
    hlk_mutex_assert_held(e->mu);
    out->h = e->hold.id;
    out->doubt = e->hold.doubt;
    out->known_ms = e->hold.lease.sent_ms;
    out->until_ms = hlk_clock_after(e->hold.lease.ends_ms, e->hold.lease.raising_ms);
    out->drops = e->hold.drops;
    out->fenced = e->hold.ticket && e->hold.ticket->token > 0;
    bool waited = hlk_hold_queued(&e->hold, e->hold.id);
    out->permits = e->hold.ticket ? e->hold.ticket->member.tokens : 0;
    out->short_hold_ms = waited ? short_hold_ms(e) : 0;
    out->member = e->hold.doubt && waited ? e->hold.ticket->member : (struct hlk_member){ 0, 0, 0, 0 };
}

void hlk_entry_forget_hold(struct hlk_entry *e, bool holder_lives)
{
    hlk_mutex_assert_held(e->mu);
    if (holder_lives && e->holder.holds)
        atomic_fetch_sub(e->holder.holds, 1);
    hlk_handle_release(e->handle);
    e->handle = NULL;
    e->holder.id = 0;
    e->holder.holds = NULL;
    e->count = 0;
}

bool hlk_entry_is_held_by(const struct hlk_entry *e, uint64_t holder)
{
    hlk_mutex_assert_held(e->mu);
    return (e->state == HLK_ENTRY_HELD || e->state == HLK_ENTRY_RELEASING) && e->holder.id == holder;
}

void hlk_entry_release_record(struct hlk_entry *e, struct hlk_release_record *out)
{
    hlk_mutex_lock(e->mu);
    bool queued = hlk_hold_queued(&e->hold, e->hold.id);
    *out = (struct hlk_release_record){ .h = e->hold.id,
                                        .drops = e->hold.drops,
                                        .permits = e->hold.ticket ? e->hold.ticket->member.tokens : 0,
                                        .member = queued ? e->hold.ticket->member : (struct hlk_member){ 0, 0, 0, 0 } };
    hlk_mutex_unlock(e->mu);
}

/* --- its first waiter --- */

struct hlk_local_waiter *hlk_entry_head(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_list *node = hlk_list_first(&e->waiters);
    return node ? HLK_CONTAINER(node, struct hlk_local_waiter, link) : NULL;
}

void hlk_entry_new_hold_id(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(waiter == hlk_entry_head(e));
    e->hold.id = waiter->h = atomic_fetch_add(&e->node->table->last_h, 1) + 1;
    e->hold.replicated = e->hold.doubt = e->hold.broken = e->busy = false;
    e->hold.drops = waiter->drops;
}

bool hlk_passing_is_contended(const struct hlk_passing *passing, int64_t now_ms)
{
    return now_ms - passing->busy_ms < HLK_CONTENDED_MS;
}

bool hlk_passing_is_likely(const struct hlk_passing *passing, int64_t now_ms)
{
    return passing->in_use > 0 && passing->in_use >= passing->waits && now_ms - passing->passed_ms < HLK_PASS_MS &&
           hlk_passing_is_contended(passing, now_ms);
}

bool hlk_entry_has_turn(const struct hlk_entry *e, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    const struct hlk_passing *passing = &e->hold.ticket->passing;
    return passing->passes < e->node->table->local_passes && now_ms - passing->got_ms < HLK_PASS_MS;
}

void hlk_entry_ask_by(struct hlk_entry *e, int64_t at_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->hold.ticket && at_ms > 0);
    struct hlk_passing *passing = &e->hold.ticket->passing;
    if (passing->asks_ms != 0)
        return;
    passing->asks_ms = at_ms;
    hlk_loop_arm(e->node->table->loop, &e->hold.alarm, at_ms);
}

bool hlk_entry_postpone(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    const struct hlk_ticket *ticket = e->hold.ticket;
    int64_t now = ticket ? hlk_clock_ms() : 0;
    if (!ticket || !hlk_passing_is_likely(&ticket->passing, now) || !hlk_entry_has_turn(e, now))
        return false;
    hlk_entry_ask_by(e, ticket->passing.got_ms + HLK_PASS_MS);
    return true;
}

void hlk_entry_promote(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_local_waiter *waiter = hlk_entry_head(e);
    e->hold.id = 0;
    if (!waiter || hlk_entry_postpone(e))
        return;
    hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
    hlk_entry_new_hold_id(e, waiter);
    hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_QUEUE));
}

bool hlk_entry_make_ticket(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    if (e->hold.ticket)
        return true;
    if (!e->per_holder)
        return (e->hold.ticket = hlk_mem_zalloc(sizeof *e->hold.ticket));
    struct hlk_own_ticket *own = hlk_mem_zalloc(sizeof *own);
    if (!own)
        return false;
    own->entry = e;
    e->hold.ticket = &own->ticket;
    return true;
}
