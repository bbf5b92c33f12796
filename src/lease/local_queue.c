#include "lease/local_queue.h"

#include "lease/entry_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/ended_hold.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/line.h"

#include <assert.h>

/* --- entering --- */

void hlk_entry_wake_informed(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    for (struct hlk_list *n = e->waiters.next; n != &e->waiters; n = n->next) {
        struct hlk_local_waiter *waiter = HLK_CONTAINER(n, struct hlk_local_waiter, link);
        if ((waiter->once || waiter->holder.id == e->holder.id) && !waiter->h)
            hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_QUEUE));
    }
}

/* Held by this holder, and reported to it: calls of one owner complete in the order they were made. */
static bool may_nest(const struct hlk_entry *e, uint64_t holder)
{
    hlk_mutex_assert_held(e->mu);
    return e->state == HLK_ENTRY_HELD && hlk_entry_is_held_by(e, holder) && !e->unreported;
}

/* One try need not queue while another holder has the lock or waits for it. */
static bool is_busy(const struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    bool own = e->state == HLK_ENTRY_HELD && hlk_entry_is_held_by(e, waiter->holder.id);
    return waiter->once && !own && (e->state == HLK_ENTRY_HELD || e->state == HLK_ENTRY_WAITING || e->in_line);
}

/* Held by this holder. fixed: a lease of its own was requested. */
static enum hlk_enter nest(struct hlk_entry *e, bool fixed)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD && e->count > 0);
    if (!hlk_lease_live(&e->hold.lease) || hlk_clock_ms() >= e->hold.lease.until_ms)
        return HLK_ENTER_LOST;
    e->count++;
    return fixed || e->hold.lease.fixed ? HLK_ENTER_RAISE : HLK_ENTER_NESTED;
}

static enum hlk_enter nest_waiter(struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    if (waiter->no_nesting && hlk_lease_live(&e->hold.lease) && hlk_clock_ms() < e->hold.lease.until_ms)
        return HLK_ENTER_DEADLOCK;
    return nest(e, waiter->fixed);
}

enum hlk_enter hlk_entry_nest(struct hlk_entry *e, uint64_t holder, int64_t fixed_lease_ms, unsigned *count,
                              uint64_t *h)
{
    enum hlk_enter enter = HLK_ENTER_QUEUED;
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, holder) : NULL;
    if (ended_hold && ended_hold->releases)
        enter = HLK_ENTER_LOST;
    else if (may_nest(e, holder))
        enter = nest(e, fixed_lease_ms > 0);
    *count = e->count;
    *h = e->hold.id;
    hlk_mutex_unlock(e->mu);
    return enter;
}

static void count_waiter(struct hlk_entry *e, int64_t permits)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(permits == 0 || e->hold.ticket);
    if (permits != 0)
        e->hold.ticket->passing.waits += permits;
}

static enum hlk_enter enqueue_waiter(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(!hlk_list_linked(&waiter->link) && !waiter->h);
    if (is_busy(e, waiter))
        return HLK_ENTER_BUSY;
    if ((waiter->fenced || waiter->permits) && !hlk_entry_make_ticket(e))
        return HLK_ENTER_NOMEM;
    if (waiter->tried)
        e->hold.ticket->passing.busy_ms = hlk_clock_ms();
    hlk_list_push_back(&e->waiters, &waiter->link);
    count_waiter(e, waiter->permits);
    hlk_line_begin(e, waiter);
    if (e->state != HLK_ENTRY_NONE || e->in_line || hlk_line_join(e, waiter))
        return HLK_ENTER_QUEUED;
    if (hlk_entry_head(e) != waiter) { /* the first one was postponed */
        hlk_entry_promote(e);
        return HLK_ENTER_QUEUED;
    }
    if (hlk_entry_postpone(e))
        return HLK_ENTER_QUEUED;
    hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
    hlk_entry_new_hold_id(e, waiter);
    return HLK_ENTER_HEAD;
}

enum hlk_enter hlk_entry_enter(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    HLK_DEBUG_ASSERT(waiter->wake && !waiter->got);
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, waiter->holder.id) : NULL;
    enum hlk_enter enter;
    if (ended_hold && ended_hold->releases) {
        enter = HLK_ENTER_LOST;
    } else if (may_nest(e, waiter->holder.id)) {
        enter = nest_waiter(e, waiter);
    } else {
        if (ended_hold && !ended_hold->waiter) { /* its next acquire settles it: the release goes before this acquire */
            hlk_ended_hold_drop(e, ended_hold, true);
            hlk_entry_unref(e); /* not the last reference: the caller has one */
        }
        enter = enqueue_waiter(e, waiter);
    }
    hlk_mutex_unlock(e->mu);
    return enter;
}

void hlk_entry_unlink(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    if (hlk_list_linked(&waiter->link))
        count_waiter(e, -waiter->permits);
    hlk_list_remove(&waiter->link);
    hlk_line_leave(waiter);
    waiter->h = 0;
}

enum hlk_enter hlk_entry_check(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_lock(e->mu);
    if (waiter->got) {
        hlk_mutex_unlock(e->mu);
        return HLK_ENTER_ACQUIRED;
    }
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, waiter->holder.id) : NULL;
    enum hlk_enter enter = ended_hold && ended_hold->releases ? HLK_ENTER_LOST
                           : waiter->h                        ? HLK_ENTER_HEAD
                                                              : HLK_ENTER_QUEUED;
    if (enter == HLK_ENTER_QUEUED && may_nest(e, waiter->holder.id)) {
        hlk_entry_unlink(e, waiter);
        enter = nest_waiter(e, waiter);
    }
    if (enter == HLK_ENTER_QUEUED && is_busy(e, waiter)) {
        hlk_entry_unlink(e, waiter);
        enter = HLK_ENTER_BUSY;
    }
    hlk_mutex_unlock(e->mu);
    return enter;
}

/* --- sending --- */

/* How many of what is counted: permits; or a block of tokens for the waiters to which it will be passed on, one when no
 * waiter is behind this one. */
static int64_t tokens_for(const struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    if (!waiter->fenced)
        return waiter->permits;
    return waiter->link.next == &e->waiters ? 1 : 1 + (int64_t)e->node->table->local_passes;
}

static void fill_ticket(struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    bool short_grant = !waiter->fixed && waiter->lease_ms > HLK_GRANT_MS;
    const struct hlk_ticket *old = e->hold.ticket;
    *e->hold.ticket = (struct hlk_ticket){ .h = waiter->h,
                                           .member = { .ttl_ms = short_grant ? HLK_GRANT_MS : waiter->lease_ms,
                                                       .tokens = tokens_for(e, waiter),
                                                       .floor = waiter->floor,
                                                       .since_ms = hlk_clock_wall_ms() },
                                           .lease_ms = waiter->lease_ms,
                                           .fixed = waiter->fixed,
                                           .fenced = waiter->fenced,
                                           .passing = old->passing };
}

enum hlk_enter hlk_entry_queue(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool queues,
                               struct hlk_member *out)
{
    hlk_mutex_lock(e->mu);
    bool ok = hlk_entry_make_ticket(e);
    if (ok && e->hold.ticket->h != waiter->h)
        fill_ticket(e, waiter);
    bool first = ok && queues && !e->hold.ticket->queued;
    if (first) {
        e->hold.ticket->queued = true;
        e->hold.ticket->first_ms = hlk_clock_ms();
    }
    if (ok)
        *out = e->hold.ticket->member;
    uint64_t h = waiter->h;
    hlk_mutex_unlock(e->mu);
    if (first && e->per_holder)
        ok = hlk_entry_table_note_hold(e, h);
    return ok ? HLK_ENTER_HEAD : HLK_ENTER_NOMEM;
}

bool hlk_entry_resend(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_lock(e->mu);
    bool asks = waiter->h != 0;
    if (asks && e->state == HLK_ENTRY_WAITING)
        hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
    hlk_mutex_unlock(e->mu);
    return asks;
}

static int64_t cap_of(int64_t now_ms, int64_t max_hold_ms)
{
    return max_hold_ms > 0 ? hlk_clock_after(now_ms, max_hold_ms) : INT64_MAX;
}

static void take_holder(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD && !e->handle);
    hlk_entry_unlink(e, waiter);
    waiter->got = true;
    e->unreported = waiter->completes;
    e->holder = waiter->holder;
    e->count = e->hold.written = 1;
    e->handle = waiter->handle;
    hlk_handle_retain(e->handle);
    atomic_fetch_add(e->holder.holds, 1);
}

/* The lease has begun: h is held, first by this waiter. */
static void take_over(struct hlk_entry *e, struct hlk_local_waiter *waiter, int64_t last_token, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    hlk_entry_move(e, HLK_ENTRY_HELD);
    hlk_line_moved(e);
    take_holder(e, waiter);
    hlk_entry_ref(e); /* a held entry outlives its handles */
    HLK_COUNT(e->node->table, held);
    hlk_line_got(e, waiter, now_ms);
    e->hold.lease.shared = hlk_entry_format(e)->shares_ttl;
    struct hlk_ticket *p = e->hold.ticket;
    if (p) {
        p->fenced = waiter->fenced;
        p->last_token = last_token;
        p->token = waiter->fenced ? last_token - p->member.tokens + 1 : 0;
        p->passing.got_ms = now_ms;
        p->passing.passes = 0;
        p->passing.asks_ms = 0;
    }
    hlk_entry_arm(e);
}

bool hlk_entry_acquired(struct hlk_entry *e, struct hlk_local_waiter *waiter, int64_t sent_ms, int64_t token,
                        bool doubt)
{
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(e->mu);
    assert(waiter->h && waiter->h == e->hold.id);
    bool held = !e->hold.broken && hlk_lease_begin(&e->hold.lease, sent_ms, waiter->lease_ms, waiter->fixed,
                                                   cap_of(now, waiter->max_hold_ms), now);
    e->hold.broken = false;
    if (held) {
        e->hold.doubt = doubt;
        take_over(e, waiter, token, now);
    }
    hlk_mutex_unlock(e->mu);
    return held;
}

/* Uses the grant that was noted for the head waiter. False: it is too old to count on, or lacks the token that is
 * needed; the waiter has to send. */
static bool take_noted(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_ticket *p = e->hold.ticket;
    int64_t now = hlk_clock_ms(), ttl_ms = p->noted_ttl_ms;
    p->noted_ttl_ms = 0;
    if (waiter->fenced && p->noted_token == 0)
        return false;
    if (e->per_holder && waiter->fixed && now - p->noted_granted_ms > hlk_lease_margin_ms(ttl_ms))
        return false; /* this grant does not say how long its ticket was queued; a reply gives the whole lease */
    if (!hlk_lease_grant(&e->hold.lease, p->noted_granted_ms, ttl_ms, waiter->fixed, cap_of(now, waiter->max_hold_ms),
                         now))
        return false;
    HLK_COUNT(e->node->table, granted);
    e->busy = false;
    take_over(e, waiter, p->noted_token, now);
    return true;
}

static bool is_noted(const struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    return waiter && waiter->h && hlk_hold_noted(&e->hold, waiter->h);
}

/* Its completion would come before that of an earlier release. */
static bool is_too_soon(const struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    return waiter->completes && e->releases_unreported > 0;
}

/* It is WAITING, and nothing else will wake it for the grant. The result is for hlk_park_wake_signalled. */
static struct hlk_park *wake_for_noted(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(waiter->h && e->state == HLK_ENTRY_WAITING);
    struct hlk_park *woken = waiter->wake(waiter, take_noted(e, waiter) ? HLK_WAKE_QUEUE : HLK_WAKE_MESSAGE);
    hlk_entry_wake_informed(e);
    return woken;
}

bool hlk_entry_wait(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool doubt)
{
    bool got = false;
    hlk_mutex_lock(e->mu);
    if (waiter->h && e->state == HLK_ENTRY_ACQUIRING && !waiter->once) {
        hlk_entry_move(e, HLK_ENTRY_WAITING);
        e->hold.doubt = doubt;
        e->busy = true;
        if (waiter->permits)
            e->hold.ticket->passing.busy_ms = hlk_clock_ms();
        hlk_line_busy(e);
        bool sends = e->hold.broken;
        e->hold.broken = false;
        if (is_noted(e, waiter) && !is_too_soon(e, waiter)) {
            got = take_noted(e, waiter);
            sends |= !got;
        }
        if (sends)
            hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_MESSAGE));
        hlk_entry_wake_informed(e);
    }
    hlk_mutex_unlock(e->mu);
    return got;
}

/* The entry's state decides what h means. While the reply to acquire(h) is pending, the grant is noted until it
 * arrives, because the stream may still contain an attempt. */
bool hlk_entry_grant(struct hlk_entry *e, uint64_t h, int64_t ttl_ms, int64_t waited_ms, int64_t token)
{
    hlk_mutex_lock(e->mu);
    bool known = e->hold.id == h && e->state != HLK_ENTRY_NONE;
    struct hlk_park *woken = NULL;
    struct hlk_local_waiter *waiter = known ? hlk_entry_head(e) : NULL;
    if (waiter && waiter->h == h && hlk_hold_queued(&e->hold, h)) {
        e->hold.ticket->noted_ttl_ms = ttl_ms;
        e->hold.ticket->noted_granted_ms = hlk_lease_granted_ms(e->hold.ticket->first_ms, waited_ms, hlk_clock_ms());
        e->hold.ticket->noted_token = token;
        if (e->state == HLK_ENTRY_WAITING && !is_too_soon(e, waiter))
            woken = wake_for_noted(e, waiter);
    }
    hlk_mutex_unlock(e->mu);
    hlk_park_wake_signalled(woken);
    return known;
}

void hlk_entry_note_break(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    bool noted = hlk_hold_noted(&e->hold, e->hold.id);
    struct hlk_local_waiter *waiter = hlk_entry_head(e);
    if (noted)
        e->hold.ticket->noted_ttl_ms = 0;
    e->hold.broken = e->state == HLK_ENTRY_ACQUIRING;
    if (e->state == HLK_ENTRY_WAITING && noted && waiter) /* it has no ticket any more */
        hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_MESSAGE));
}

void hlk_entry_release_unreported(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    e->releases_unreported++;
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_release_reported(struct hlk_entry *e)
{
    struct hlk_park *woken = NULL;
    hlk_mutex_lock(e->mu);
    struct hlk_local_waiter *waiter =
        --e->releases_unreported == 0 && e->state == HLK_ENTRY_WAITING ? hlk_entry_head(e) : NULL;
    if (is_noted(e, waiter))
        woken = wake_for_noted(e, waiter);
    hlk_mutex_unlock(e->mu);
    hlk_park_wake_signalled(woken);
}

void hlk_entry_retry(struct hlk_entry *e, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    struct hlk_local_waiter *waiter = e->hold.id == h ? hlk_entry_head(e) : NULL;
    if (waiter && waiter->h == h)
        hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_MESSAGE));
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_retry_head(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    struct hlk_local_waiter *waiter = hlk_entry_head(e);
    if (waiter && waiter->h)
        hlk_park_wake_signalled(waiter->wake(waiter, HLK_WAKE_MESSAGE));
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_report_acquired(struct hlk_entry *e, uint64_t winner, void (*complete)(void *ctx), void *ctx)
{
    hlk_mutex_lock(e->mu);
    if (complete)
        complete(ctx);
    if (e->holder.id == winner) /* it may have lost the lock meanwhile to another holder */
        e->unreported = false;
    hlk_entry_wake_informed(e);
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_renumber(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    hlk_mutex_lock(e->mu);
    hlk_entry_new_hold_id(e, waiter);
    hlk_mutex_unlock(e->mu);
}

/* --- the next waiter --- */

/* May `next` use a ticket like this, or what was granted to it? */
static bool fits(const struct hlk_ticket *p, const struct hlk_local_waiter *next)
{
    return next && !next->once && p->lease_ms == next->lease_ms && p->fixed == next->fixed &&
           p->fenced == next->fenced && p->member.floor >= next->floor &&
           (next->permits == 0 || p->member.tokens == next->permits);
}

bool hlk_entry_leave(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool in_flight)
{
    bool owes = false;
    hlk_mutex_lock(e->mu);
    if (hlk_list_linked(&waiter->link)) {
        bool is_head = waiter->h != 0, queued = is_head && hlk_hold_queued(&e->hold, waiter->h);
        bool waits = e->state == HLK_ENTRY_WAITING, first_in_line = hlk_list_linked(&waiter->in_line);
        hlk_entry_unlink(e, waiter);
        struct hlk_local_waiter *next = hlk_entry_head(e);
        if (is_head && queued && waits && !in_flight && !e->hold.doubt && fits(e->hold.ticket, next)) {
            hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
            next->h = e->hold.id;
            hlk_park_wake_signalled(next->wake(next, HLK_WAKE_QUEUE));
        } else if (is_head) {
            owes = in_flight || queued;
            hlk_entry_move(e, owes ? HLK_ENTRY_RELEASING : HLK_ENTRY_NONE);
            hlk_line_moved(e);
            if (!owes)
                hlk_entry_promote(e);
        } else if (first_in_line) {
            hlk_entry_promote(e);
        }
    }
    hlk_mutex_unlock(e->mu);
    return owes;
}

void hlk_entry_leave_finish(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    hlk_entry_move(e, HLK_ENTRY_NONE);
    hlk_entry_promote(e);
    hlk_mutex_unlock(e->mu);
}

/* It is passed on without Redis only if Redis would see no difference: a lease of the watchdog's, with time left. */
static bool may_pass(struct hlk_entry *e, const struct hlk_local_waiter *next, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    const struct hlk_lease *lease = &e->hold.lease;
    if (!next || e->per_holder || next->fixed || lease->fixed || lease->capped || lease->state != HLK_LEASE_HELD ||
        e->node->table->local_passes == 0 || !hlk_entry_make_ticket(e))
        return false;
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, next->holder.id) : NULL;
    if (ended_hold && ended_hold->releases) /* its loss must be reported first */
        return false;
    struct hlk_ticket *p = e->hold.ticket;
    if (next->fenced && (p->token == 0 || p->token >= p->last_token || p->token < next->floor))
        return false;
    if (p->passing.got_ms == 0) /* acquired before the entry had a ticket */
        p->passing.got_ms = lease->sent_ms;
    return hlk_entry_has_turn(e, now_ms) && lease->until_ms - now_ms > lease->lease_ms / 3 && e->hold.written == 1;
}

bool hlk_entry_take_over(struct hlk_entry *e, struct hlk_local_waiter *next, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    int64_t cap = cap_of(now_ms, next->max_hold_ms);
    bool arm = cap != e->hold.lease.cap_ms;
    e->hold.lease.cap_ms = cap;
    if (cap < e->hold.lease.until_ms) {
        e->hold.lease.until_ms = cap;
        e->hold.lease.capped = true;
    }
    HLK_COUNT(e->node->table, passed);
    take_holder(e, next);
    return arm;
}

bool hlk_entry_pass_on(struct hlk_entry *e, struct hlk_park **woken)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_local_waiter *next = hlk_entry_head(e);
    int64_t now = hlk_clock_ms();
    if (!may_pass(e, next, now))
        return false;
    hlk_entry_forget_hold(e, e->holder.id != 0);
    e->hold.ticket->passing.passes++;
    e->hold.ticket->fenced = next->fenced;
    if (next->fenced)
        e->hold.ticket->token++;
    if (hlk_entry_take_over(e, next, now))
        hlk_entry_arm(e);
    *woken = next->wake(next, HLK_WAKE_QUEUE);
    hlk_entry_wake_informed(e);
    return true;
}
