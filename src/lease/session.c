#include "lease/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "lease/past.h"
#include "lease/session_inner.h"
#include "lease/table.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

/* One setter. */
void hlk_session_move(struct hlk_session *s, enum hlk_session_state to)
{
    static const unsigned next[] = {
        [HLK_SESSION_NONE] = 1u << HLK_SESSION_ASKING,
        [HLK_SESSION_ASKING] =
            1u << HLK_SESSION_HELD | 1u << HLK_SESSION_WAITING | 1u << HLK_SESSION_ENDING | 1u << HLK_SESSION_NONE,
        [HLK_SESSION_WAITING] =
            1u << HLK_SESSION_HELD | 1u << HLK_SESSION_ASKING | 1u << HLK_SESSION_ENDING | 1u << HLK_SESSION_NONE,
        [HLK_SESSION_HELD] = 1u << HLK_SESSION_ENDING,
        [HLK_SESSION_ENDING] = 1u << HLK_SESSION_NONE | 1u << HLK_SESSION_HELD,
    };
    hlk_mutex_assert_held(s->mu);
    assert(next[s->state] & 1u << to);
    (void)next;
    s->state = (uint8_t)to & 0xfu;
}

static void tell(struct hlk_session *s, int kind, const char *why);
static void part(struct hlk_session *s, struct hlk_parting *out);

void hlk_session_may_last(struct hlk_session *s, uint64_t h, int64_t ends_ms)
{
    hlk_mutex_lock(s->mu);
    if (s->state == HLK_SESSION_HELD && s->h == h && s->lease.ends_ms < ends_ms)
        s->lease.ends_ms = ends_ms;
    hlk_mutex_unlock(s->mu);
}

bool hlk_session_raised(struct hlk_session *s, uint64_t h, unsigned count, int64_t sent_ms, int64_t lease_ms,
                        bool watchdog)
{
    hlk_mutex_lock(s->mu);
    bool live = s->state == HLK_SESSION_HELD && s->h == h && hlk_lease_live(&s->lease);
    if (live) {
        s->written = count;
        if (watchdog) {
            s->lease.fixed = false;
            s->lease.lease_ms = lease_ms;
        }
        if (lease_ms > 0 && hlk_lease_renewed(&s->lease, sent_ms, lease_ms, s->table->at_risk_ms))
            tell(s, HLK_EVENT_SAFE, "extended");
        if (!s->lease.fixed)
            s->lease.lease_ms = s->table->watchdog_ms; /* the rhythm of its renewals */
        hlk_watchdog_arm(s);
    }
    hlk_mutex_unlock(s->mu);
    return live;
}

/* Locks it at a moment when no renewal of it is on its way into the stream: after end(h) none is ever sent. The loop is
 * in there for a write that does not block. */
static void lock_between_renewals(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    while (s->batched) {
        hlk_mutex_unlock(s->mu);
        sched_yield();
        hlk_mutex_lock(s->mu);
    }
}

/* Lost, and there was no memory to put it aside: so it is held by its holder until that is off the account. */
static bool is_unnoted(const struct hlk_session *s)
{
    return s->state == HLK_SESSION_HELD && s->lease.state == HLK_LEASE_LOST;
}

/* True: no release of it is due any more, hlk_session_ended is. */
static bool lower_unnoted(struct hlk_session *s, unsigned releases)
{
    s->count -= releases;
    if (s->count > 0)
        return false;
    hlk_via_lost(s->via, false);
    hlk_session_move(s, HLK_SESSION_ENDING);
    hlk_lease_move(&s->lease, HLK_LEASE_NONE);
    return true;
}

void hlk_session_lower(struct hlk_session *s, uint64_t holder, uint64_t h)
{
    bool unref = false, ended = false;
    lock_between_renewals(s);
    if (s->state == HLK_SESSION_HELD && hlk_session_is_held_by(s, holder) && s->h == h) {
        if (is_unnoted(s)) {
            ended = lower_unnoted(s, 1);
        } else if (--s->count == 0) { /* the owner's other thread has released meanwhile: this was the last */
            struct hlk_parting parting;
            part(s, &parting);
            hlk_mutex_unlock(s->mu);
            hlk_table_end(s, &parting);
            hlk_session_ended(s);
            return;
        }
    } else {
        struct hlk_past *past = hlk_past_find(s, holder);
        if (past && past->h == h && past->releases > 1) {
            past->releases--;
        } else if (past && past->h == h && past->releases) { /* the outer hold was released before the loss */
            hlk_past_drop(s, past, true);
            unref = true;
        }
    }
    hlk_mutex_unlock(s->mu);
    if (ended)
        hlk_session_ended(s);
    if (unref)
        hlk_session_unref(s);
}

/* --- letting go --- */

static void fill_parting(const struct hlk_session *s, struct hlk_parting *out)
{
    out->h = s->h;
    out->doubt = s->doubt;
    out->until_ms = s->lease.ends_ms;
    out->fenced = s->place && s->place->token > 0;
    bool waited = s->place && s->place->h == s->h && s->place->queued;
    out->place = s->doubt && waited ? s->place->member : (struct hlk_member){ 0, 0, 0, 0 };
}

/* HELD -> ENDING: from here on nothing is renewed and nobody gets in. */
static void part(struct hlk_session *s, struct hlk_parting *out)
{
    fill_parting(s, out);
    hlk_session_move(s, HLK_SESSION_ENDING);
    hlk_lease_move(&s->lease, HLK_LEASE_NONE);
    HLK_UNCOUNT(s->table, held);
    hlk_loop_cancel(s->table->loop, &s->alarm);
}

/* The hold's own references, given back once; the session may be freed by the caller's unref only. */
void hlk_session_forget_hold(struct hlk_session *s, bool holder_lives)
{
    if (holder_lives && s->holder.holds)
        atomic_fetch_sub(s->holder.holds, 1);
    hlk_via_unref(s->via);
    s->via = NULL;
    s->holder.id = 0;
    s->holder.holds = NULL;
    s->count = 0;
}

static enum hlk_let_go let_go_past(struct hlk_session *s, struct hlk_past *past, struct hlk_parting *out, bool *unref)
{
    if (!past->releases)
        return HLK_LET_OWED;
    out->why = past->why;
    if (--past->releases == 0) {
        past->releases = 1; /* so hlk_past_drop counts it as a loss */
        hlk_past_drop(s, past, true);
        *unref = true;
    }
    return HLK_LET_LOST;
}

static enum hlk_let_go let_go_held(struct hlk_session *s, struct hlk_parting *out, struct hlk_park **woken)
{
    if (s->count > 1) {
        out->count = --s->count;
        out->h = s->h;
        if (s->written <= s->count)
            return HLK_LET_NESTED;
        s->written = s->count;
        return HLK_LET_WRITE;
    }
    if (hlk_session_pass(s, woken))
        return HLK_LET_PASSED;
    part(s, out);
    return HLK_LET_LAST;
}

static const char unnoted[] = "no memory was left to note why";

static enum hlk_let_go let_go_unnoted(struct hlk_session *s, struct hlk_parting *out, bool *ended)
{
    out->why = unnoted;
    *ended = lower_unnoted(s, 1);
    return HLK_LET_LOST;
}

enum hlk_let_go hlk_session_let_go(struct hlk_session *s, uint64_t holder, struct hlk_parting *out)
{
    bool unref = false, ended = false;
    lock_between_renewals(s);
    enum hlk_let_go verdict = HLK_LET_NOT_HOLDER;
    struct hlk_park *woken = NULL;
    struct hlk_past *past = s->past ? hlk_past_find(s, holder) : NULL;
    if (s->state == HLK_SESSION_HELD && s->holder.id == holder) {
        int64_t now = hlk_clock_ms();
        if (hlk_lease_live(&s->lease) && now >= s->lease.until_ms) {
            /* over, and the loop has not come round to saying so: it is said now */
            hlk_table_lose_locked(s, hlk_lease_why_over(&s->lease, now));
            return hlk_session_let_go(s, holder, out);
        }
        verdict = is_unnoted(s) ? let_go_unnoted(s, out, &ended) : let_go_held(s, out, &woken);
    } else if (past) {
        verdict = let_go_past(s, past, out, &unref);
    }
    hlk_mutex_unlock(s->mu);
    hlk_park_pay(woken);
    if (ended)
        hlk_session_ended(s);
    if (unref)
        hlk_session_unref(s);
    return verdict;
}

void hlk_session_keep(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    hlk_session_move(s, HLK_SESSION_HELD);
    hlk_lease_move(&s->lease, HLK_LEASE_HELD);
    HLK_COUNT(s->table, held);
    s->count = 1;
    hlk_watchdog_arm(s);
    hlk_session_wake_knowing(s);
    hlk_mutex_unlock(s->mu);
}

void hlk_session_ended(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    hlk_session_forget_hold(s, s->holder.id != 0);
    hlk_session_move(s, HLK_SESSION_NONE);
    hlk_session_promote(s);
    hlk_mutex_unlock(s->mu);
    hlk_session_unref(s);
}

/* --- losing --- */

static void tell_of(struct hlk_session *s, uint64_t h, const struct hlk_via *via, int kind, int64_t until_ms,
                    const char *why)
{
    struct hlk_table *table = s->table;
    char field[HLK_FIELD_MAX];
    (void)hlk_field(field, table->client_id, h);
    struct hlk_hook hooks[2] = { via ? via->hook : (struct hlk_hook){ NULL, NULL }, table->hook };
    if (!hlk_events_tell(table->events, kind, hlk_session_name(s), field, until_ms, why, hooks,
                         via && !via->mu ? via->parent : via))
        atomic_fetch_add(&table->untold, 1); /* the watchdog's tick logs it: no user code under a mutex */
}

/* A lost one may be another's by now, whatever its lease said. */
static void tell(struct hlk_session *s, int kind, const char *why)
{
    int64_t until = s->lease.until_ms, now = hlk_clock_ms();
    tell_of(s, s->h, s->via, kind, kind == HLK_EVENT_LOST && now < until ? now : until, why);
}

struct hlk_via *hlk_session_via(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    struct hlk_via *via = s->via;
    hlk_via_ref(via);
    hlk_mutex_unlock(s->mu);
    return via;
}

void hlk_session_tell_gone(struct hlk_session *s, uint64_t h, const struct hlk_via *via)
{
    tell_of(s, h, via, HLK_EVENT_LOST, hlk_clock_ms(), hlk_lease_why_unknown);
}

bool hlk_session_lose_locked(struct hlk_session *s, const char *why, struct hlk_parting *out)
{
    hlk_mutex_assert_held(s->mu);
    bool orphan = s->lease.state == HLK_LEASE_ORPHANED;
    fill_parting(s, out);
    hlk_lease_move(&s->lease, HLK_LEASE_LOST);
    HLK_UNCOUNT(s->table, held);
    hlk_loop_cancel(s->table->loop, &s->alarm);
    struct hlk_past *past = NULL;
    if (!orphan) {
        HLK_COUNT(s->table, lost);
        hlk_via_lost(s->via, true); /* before the callback can ask for the descriptor */
        tell(s, HLK_EVENT_LOST, why);
        past = hlk_past_add(s, s->holder, s->h, s->count);
    }
    bool aside = orphan || past;
    if (past) { /* the hold's account moves to the past record */
        past->why = why;
        past->via = s->via;
        s->via = NULL;
        s->holder.id = 0;
    }
    if (aside) {
        hlk_session_move(s, HLK_SESSION_ENDING);
        hlk_lease_move(&s->lease, HLK_LEASE_NONE);
    }
    hlk_mutex_unlock(s->mu);
    return aside;
}

bool hlk_session_lose(struct hlk_session *s, uint64_t h, const char *why, struct hlk_parting *out)
{
    hlk_mutex_lock(s->mu);
    if (s->state == HLK_SESSION_HELD && s->h == h && s->lease.state != HLK_LEASE_LOST)
        return hlk_session_lose_locked(s, why, out);
    if (s->place && s->place->h == h)
        s->place->noted_ttl_ms = 0; /* granted while asking, and broken before the answer */
    hlk_mutex_unlock(s->mu);
    return false;
}

void hlk_session_orphan(struct hlk_session *s, uint64_t holder)
{
    bool unref = false, ended = false;
    hlk_mutex_lock(s->mu);
    struct hlk_past *past = hlk_past_find(s, holder);
    if (past && !past->waiter) {
        hlk_past_drop(s, past, false);
        unref = true;
    }
    if (s->state == HLK_SESSION_HELD && s->holder.id == holder) {
        if (hlk_lease_live(&s->lease)) {
            HLK_COUNT(s->table, orphaned);
            tell(s, HLK_EVENT_ORPHANED, "its holder ended without releasing it: renewal has stopped");
            hlk_lease_move(&s->lease, HLK_LEASE_ORPHANED);
        } else if (is_unnoted(s)) {
            ended = lower_unnoted(s, s->count);
        }
    }
    if (s->holder.id == holder)
        s->holder.holds = NULL; /* the holder's memory may be another's soon; also while ENDING */
    hlk_mutex_unlock(s->mu);
    if (ended)
        hlk_session_ended(s);
    if (unref)
        hlk_session_unref(s);
}

void hlk_session_tell(struct hlk_session *s, int kind, const char *why)
{
    hlk_mutex_assert_held(s->mu);
    tell(s, kind, why);
}

bool hlk_session_close(struct hlk_session *s, struct hlk_parting *out, bool *ending)
{
    lock_between_renewals(s);
    *ending = s->state == HLK_SESSION_ENDING;
    bool ended = is_unnoted(s) && lower_unnoted(s, s->count);
    bool held = s->state == HLK_SESSION_HELD;
    if (held)
        part(s, out);
    hlk_mutex_unlock(s->mu);
    if (ended)
        hlk_session_ended(s);
    return held;
}

/* --- questions --- */

void hlk_session_view(struct hlk_session *s, uint64_t holder, struct hlk_view *out)
{
    memset(out, 0, sizeof *out);
    hlk_mutex_lock(s->mu);
    struct hlk_past *past = s->past ? hlk_past_find(s, holder) : NULL;
    if (s->state == HLK_SESSION_HELD && s->holder.id == holder) {
        out->count = s->count;
        out->h = s->h;
        out->until_ms = s->lease.until_ms;
        out->cap_ms = s->lease.cap_ms;
        out->token = s->place && s->place->fenced ? s->place->token : 0;
        out->lost = s->lease.state == HLK_LEASE_LOST;
        out->why = out->lost ? unnoted : NULL;
    } else if (past && past->releases) {
        out->count = past->releases;
        out->h = past->h;
        out->lost = true;
        out->why = past->why;
    }
    hlk_mutex_unlock(s->mu);
}

void hlk_session_neighbour(struct hlk_session *s, struct hlk_neighbour *out)
{
    hlk_mutex_lock(s->mu);
    *out = (struct hlk_neighbour){ .held = s->state == HLK_SESSION_HELD,
                                   .orphaned = s->lease.state == HLK_LEASE_ORPHANED,
                                   .until_ms = s->lease.until_ms,
                                   .via = s->state == HLK_SESSION_HELD ? s->via : NULL };
    hlk_via_ref(out->via);
    hlk_mutex_unlock(s->mu);
}
