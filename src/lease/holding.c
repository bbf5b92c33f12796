#include "lease/holding.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "lease/ended_hold.h"
#include "lease/entry_internal.h"
#include "lease/entry_lose.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/line.h"
#include "lease/local_queue.h"
#include "lease/pass_holds.h"
#include "lease/shared_hold.h"

#include <assert.h>
#include <string.h>

static void stop_lease(struct hlk_entry *e, struct hlk_release_record *out);

bool hlk_entry_raise_begin(struct hlk_entry *e, uint64_t h, int64_t lease_ms, struct hlk_release_record *end)
{
    HLK_DEBUG_ASSERT(lease_ms >= 0);
    if (!hlk_entry_lock_held(e, h))
        return false;
    hlk_entry_fill_record(e, end);
    e->hold.lease.raising_ms += lease_ms;
    hlk_mutex_unlock(e->mu);
    return true;
}

void hlk_entry_raise_settle(struct hlk_entry *e, uint64_t h, int64_t lease_ms, bool ran)
{
    hlk_mutex_lock(e->mu);
    if (e->state == HLK_ENTRY_HELD && e->hold.id == h) {
        int64_t ends = hlk_clock_after(hlk_clock_ms(), lease_ms);
        e->hold.lease.raising_ms -= lease_ms;
        if (ran && ends > e->hold.lease.ends_ms)
            e->hold.lease.ends_ms = ends;
    }
    hlk_mutex_unlock(e->mu);
}

bool hlk_entry_has_hold(struct hlk_entry *e, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    bool is_about = e->hold.id == h;
    hlk_mutex_unlock(e->mu);
    return is_about;
}

bool hlk_entry_raise_done(struct hlk_entry *e, uint64_t h, unsigned count, int64_t sent_ms, int64_t lease_ms,
                          bool watchdog)
{
    if (!hlk_entry_lock_held(e, h))
        return false;
    e->hold.written = count;
    if (watchdog) {
        e->hold.lease.fixed = false;
        e->hold.lease.lease_ms = lease_ms;
    }
    if (lease_ms > 0 &&
        hlk_lease_renewed(&e->hold.lease, sent_ms, lease_ms, e->node->table->at_risk_ms, hlk_clock_ms()))
        hlk_entry_notify(e, HLK_EVENT_SAFE, "extended");
    if (!e->hold.lease.fixed)
        e->hold.lease.lease_ms = e->node->table->watchdog_ms; /* the period of its renewals */
    hlk_entry_arm(e);
    hlk_mutex_unlock(e->mu);
    return true;
}

static pthread_cond_t *unbatched(const struct hlk_entry *e)
{
    return &e->node->table->unbatched[e->mu - e->node->table->stripes];
}

void hlk_entry_batch(struct hlk_entry *e, bool batched)
{
    hlk_mutex_assert_held(e->mu);
    e->hold.batched = batched;
    if (!batched)
        pthread_cond_broadcast(unbatched(e));
}

/* Locks the mutex while no renewal of the entry is being written: none may be sent after release(h). The loop writes
 * without blocking, so the wait is short. It sleeps, because the loop may have a lower priority. */
static void lock_between_renewals(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    while (e->hold.batched) {
        int old = hlk_nocancel_begin();
        pthread_cond_wait(unbatched(e), &e->mu->mu);
        hlk_nocancel_end(old);
    }
}

/* It is lost, and there was no memory for an ended hold. Then its holder keeps it until all releases are counted
 * off. */
static bool is_unnoted(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    return e->state == HLK_ENTRY_HELD && e->hold.lease.state == HLK_LEASE_LOST;
}

/* True: that was the last one; call hlk_entry_release_finish. */
static bool undo_raise_unnoted(struct hlk_entry *e, unsigned releases)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->count >= releases && is_unnoted(e));
    e->count -= releases;
    if (e->count > 0)
        return false;
    hlk_handle_count_lost(e->handle, false);
    hlk_entry_move(e, HLK_ENTRY_RELEASING);
    hlk_line_moved(e);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_NONE);
    return true;
}

/* The holder has released each of its lost holds. The result is for hlk_lost_end_start_now. */
static struct hlk_lost_end *drop_released(struct hlk_entry *e, struct hlk_ended_hold *ended_hold)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_lost_end *end = ended_hold->end;
    ended_hold->end = NULL;
    ended_hold->releases = 1; /* hlk_ended_hold_drop then counts it as a loss */
    hlk_ended_hold_drop(e, ended_hold, true);
    return end;
}

void hlk_entry_raise_undo(struct hlk_entry *e, uint64_t holder, uint64_t h)
{
    bool unref = false, ended = false;
    struct hlk_lost_end *end = NULL;
    lock_between_renewals(e);
    if (e->state == HLK_ENTRY_HELD && hlk_entry_is_held_by(e, holder) && e->hold.id == h) {
        if (is_unnoted(e)) {
            ended = undo_raise_unnoted(e, 1);
        } else if (--e->count == 0 && hlk_shared_leave(e)) {
            unref = true;
        } else if (e->count == 0) { /* its owner's other thread has released meanwhile: this was the last hold */
            struct hlk_release_record record;
            stop_lease(e, &record);
            hlk_mutex_unlock(e->mu);
            hlk_hold_end(e, &record);
            hlk_entry_release_finish(e);
            return;
        }
    } else {
        struct hlk_ended_hold *ended_hold = hlk_ended_hold_find(e, holder);
        if (ended_hold && ended_hold->h == h && ended_hold->releases > 1) {
            ended_hold->releases--;
            /* the outer hold was released before the loss */
        } else if (ended_hold && ended_hold->h == h && ended_hold->releases) {
            end = drop_released(e, ended_hold);
            unref = true;
        }
    }
    hlk_mutex_unlock(e->mu);
    hlk_lost_end_start_now(e, end);
    if (ended)
        hlk_entry_release_finish(e);
    if (unref)
        hlk_entry_unref(e);
}

/* --- releasing --- */

/* HELD -> RELEASING: no renewal and no nesting from now on. */
static void stop_lease(struct hlk_entry *e, struct hlk_release_record *out)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD && !e->hold.batched);
    hlk_entry_fill_record(e, out);
    hlk_entry_move(e, HLK_ENTRY_RELEASING);
    hlk_line_moved(e);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_NONE);
    HLK_UNCOUNT(e->node->table, held);
    hlk_loop_cancel(e->node->table->loop, &e->hold.alarm);
}

static enum hlk_release_verdict release_ended(struct hlk_entry *e, struct hlk_ended_hold *ended_hold,
                                              struct hlk_release_record *out, struct hlk_lost_end **end, bool *unref)
{
    hlk_mutex_assert_held(e->mu);
    if (!ended_hold->releases)
        return HLK_VERDICT_UNSURE;
    out->why = ended_hold->why;
    if (--ended_hold->releases == 0) {
        *end = drop_released(e, ended_hold);
        *unref = true;
    }
    return HLK_VERDICT_LOST;
}

static enum hlk_release_verdict release_held(struct hlk_entry *e, struct hlk_release_record *out,
                                             struct hlk_park **woken, bool *unref)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD && e->count > 0 && !e->hold.batched);
    if (e->count > 1) {
        out->count = --e->count;
        out->h = e->hold.id;
        if (e->hold.written <= e->count)
            return HLK_VERDICT_NESTED;
        e->hold.written = e->count;
        return HLK_VERDICT_WRITE;
    }
    if (hlk_entry_pass_on(e, woken))
        return HLK_VERDICT_PASSED;
    *unref = hlk_entry_pass_hold(e, woken) || hlk_shared_leave(e);
    if (*unref)
        return HLK_VERDICT_PASSED;
    stop_lease(e, out);
    return HLK_VERDICT_LAST;
}

static const char unnoted[] = "no memory was left to note why";

static enum hlk_release_verdict release_unnoted(struct hlk_entry *e, struct hlk_release_record *out, bool *ended)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(is_unnoted(e));
    out->why = unnoted;
    *ended = undo_raise_unnoted(e, 1);
    return HLK_VERDICT_LOST;
}

enum hlk_release_verdict hlk_entry_release(struct hlk_entry *e, uint64_t holder, struct hlk_release_record *out)
{
    bool unref = false, ended = false;
    lock_between_renewals(e);
    enum hlk_release_verdict verdict = HLK_VERDICT_NOT_HOLDER;
    struct hlk_park *woken = NULL;
    struct hlk_lost_end *end = NULL;
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, holder) : NULL;
    if (e->state == HLK_ENTRY_HELD && e->holder.id == holder) {
        int64_t now = hlk_clock_ms();
        const char *why = hlk_shared_why_lost(e);
        if (hlk_lease_live(&e->hold.lease) && (why || now >= e->hold.lease.until_ms)) {
            /* the lease is over, or the hold was lost by others, and that is not reported yet */
            hlk_entry_lose_locked(e, why ? why : hlk_lease_why_over(&e->hold.lease, now));
            return hlk_entry_release(e, holder, out);
        }
        verdict = is_unnoted(e) ? release_unnoted(e, out, &ended) : release_held(e, out, &woken, &unref);
    } else if (ended_hold) {
        verdict = release_ended(e, ended_hold, out, &end, &unref);
    }
    hlk_mutex_unlock(e->mu);
    hlk_park_wake_signalled(woken);
    hlk_lost_end_start_now(e, end);
    if (ended)
        hlk_entry_release_finish(e);
    if (unref)
        hlk_entry_unref(e);
    return verdict;
}

void hlk_entry_keep(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    hlk_entry_move(e, HLK_ENTRY_HELD);
    hlk_line_moved(e);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_HELD);
    HLK_COUNT(e->node->table, held);
    e->count = 1;
    hlk_entry_arm(e);
    hlk_entry_wake_informed(e);
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_orphan(struct hlk_entry *e, uint64_t holder)
{
    bool unref = false, ended = false;
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = hlk_ended_hold_find(e, holder);
    if (ended_hold && !ended_hold->waiter) {
        hlk_ended_hold_drop(e, ended_hold, false);
        unref = true;
    }
    if (e->state == HLK_ENTRY_HELD && e->holder.id == holder) {
        if (hlk_lease_live(&e->hold.lease)) {
            HLK_COUNT(e->node->table, orphaned);
            hlk_entry_notify(e, HLK_EVENT_ORPHANED, "its holder ended without releasing it: renewal has stopped");
            hlk_lease_move(&e->hold.lease, HLK_LEASE_ORPHANED);
        } else if (is_unnoted(e)) {
            ended = undo_raise_unnoted(e, e->count);
        }
    }
    if (e->holder.id == holder)
        e->holder.holds = NULL; /* the holder's memory may be used by another one soon; also while RELEASING */
    hlk_mutex_unlock(e->mu);
    if (ended)
        hlk_entry_release_finish(e);
    if (unref)
        hlk_entry_unref(e);
}

bool hlk_entry_close(struct hlk_entry *e, struct hlk_release_record *out, bool *ending)
{
    lock_between_renewals(e);
    *ending = e->state == HLK_ENTRY_RELEASING;
    bool ended = is_unnoted(e) && undo_raise_unnoted(e, e->count);
    bool held = e->state == HLK_ENTRY_HELD, left = held && hlk_shared_leave(e);
    if (held && !left)
        stop_lease(e, out);
    hlk_mutex_unlock(e->mu);
    if (ended)
        hlk_entry_release_finish(e);
    if (left) /* not the last reference: the caller has one */
        hlk_entry_unref(e);
    return held && !left;
}

/* --- commands --- */

void hlk_entry_view(struct hlk_entry *e, uint64_t holder, struct hlk_view *out)
{
    memset(out, 0, sizeof *out);
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold ? hlk_ended_hold_find(e, holder) : NULL;
    if (e->state == HLK_ENTRY_HELD && e->holder.id == holder) {
        out->count = e->count;
        out->h = e->hold.id;
        out->until_ms = e->hold.lease.until_ms;
        out->cap_ms = e->hold.lease.cap_ms;
        out->lease_ms = e->hold.lease.fixed ? e->hold.lease.lease_ms : HLK_RENEWED;
        out->token = e->hold.ticket && e->hold.ticket->fenced ? e->hold.ticket->token : 0;
        out->lost = e->hold.lease.state == HLK_LEASE_LOST;
        out->replicated = e->hold.replicated;
        out->why = out->lost ? unnoted : NULL;
    } else if (ended_hold && ended_hold->releases) {
        out->count = ended_hold->releases;
        out->h = ended_hold->h;
        out->lost = true;
        out->why = ended_hold->why;
    }
    hlk_mutex_unlock(e->mu);
}

bool hlk_entry_show_hold(struct hlk_entry *e, uint64_t holder, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    bool held = e->state == HLK_ENTRY_HELD && e->holder.id == holder && e->hold.id == h;
    e->hold.id_exposed |= held;
    hlk_mutex_unlock(e->mu);
    return held;
}

void hlk_entry_note_replicated(struct hlk_entry *e, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    e->hold.replicated |= e->hold.id == h;
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_local_holder(struct hlk_entry *e, struct hlk_local_holder *out)
{
    hlk_mutex_lock(e->mu);
    *out = (struct hlk_local_holder){ .held = e->state == HLK_ENTRY_HELD,
                                      .orphaned = e->hold.lease.state == HLK_LEASE_ORPHANED,
                                      .busy = e->state != HLK_ENTRY_HELD && e->busy,
                                      .until_ms = e->hold.lease.until_ms,
                                      .handle = e->state == HLK_ENTRY_HELD ? e->handle : NULL };
    hlk_handle_retain(out->handle);
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_give_back(struct hlk_entry *e, uint64_t holder)
{
    struct hlk_release_record record;
    if (hlk_entry_release(e, holder, &record) != HLK_VERDICT_LAST)
        return;
    hlk_hold_end(e, &record);
    hlk_entry_release_finish(e);
}
