/* Who of the process gets the lock: its line, its place in Redis' queue, grants, and passing on without Redis. */
#include "lease/session_inner.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/park.h"
#include "lease/past.h"
#include "lease/table.h"

#include <assert.h>

static struct hlk_turn *first_turn(const struct hlk_session *s)
{
    struct hlk_list *node = hlk_list_first(&s->line);
    return node ? HLK_CONTAINER(node, struct hlk_turn, link) : NULL;
}

/* --- entering --- */

void hlk_session_wake_knowing(struct hlk_session *s)
{
    for (struct hlk_list *n = s->line.next; n != &s->line; n = n->next) {
        struct hlk_turn *turn = HLK_CONTAINER(n, struct hlk_turn, link);
        if ((turn->once || turn->holder.id == s->holder.id) && !turn->h)
            hlk_park_pay(turn->wake(turn, HLK_WAKE_TURN));
    }
}

bool hlk_session_is_held_by(const struct hlk_session *s, uint64_t holder)
{
    return (s->state == HLK_SESSION_HELD || s->state == HLK_SESSION_ENDING) && s->holder.id == holder;
}

/* Held by this holder, and told so: calls of one owner complete in the order they were made. */
static bool may_nest(const struct hlk_session *s, uint64_t holder)
{
    return s->state == HLK_SESSION_HELD && hlk_session_is_held_by(s, holder) && !s->untold;
}

/* Is it no use for one try to stand in line? Others have it, or wait for it. */
static bool is_busy(const struct hlk_session *s, const struct hlk_turn *turn)
{
    bool own = s->state == HLK_SESSION_HELD && hlk_session_is_held_by(s, turn->holder.id);
    return turn->once && !own && (s->state == HLK_SESSION_HELD || s->state == HLK_SESSION_WAITING);
}

/* Held by this holder. fixed: a lease of its own is asked for. */
static enum hlk_enter nest(struct hlk_session *s, bool fixed)
{
    if (!hlk_lease_live(&s->lease) || hlk_clock_ms() >= s->lease.until_ms)
        return HLK_ENTER_LOST;
    s->count++;
    return fixed || s->lease.fixed ? HLK_ENTER_RAISE : HLK_ENTER_NESTED;
}

enum hlk_enter hlk_session_nest(struct hlk_session *s, uint64_t holder, int64_t fixed_lease_ms, unsigned *count,
                                uint64_t *h)
{
    enum hlk_enter enter = HLK_ENTER_LINE;
    hlk_mutex_lock(s->mu);
    struct hlk_past *past = s->past ? hlk_past_find(s, holder) : NULL;
    if (past && past->releases)
        enter = HLK_ENTER_LOST;
    else if (may_nest(s, holder))
        enter = nest(s, fixed_lease_ms > 0);
    *count = s->count;
    *h = s->h;
    hlk_mutex_unlock(s->mu);
    return enter;
}

static void new_hold_id(struct hlk_session *s, struct hlk_turn *turn)
{
    s->h = turn->h = atomic_fetch_add(&s->table->last_h, 1) + 1;
    s->doubt = false;
}

/* False: no memory. */
static bool make_place(struct hlk_session *s)
{
    if (!s->place)
        s->place = hlk_mem_zalloc(sizeof *s->place);
    return s->place;
}

static enum hlk_enter place(struct hlk_session *s, struct hlk_turn *turn)
{
    if (is_busy(s, turn))
        return HLK_ENTER_BUSY;
    if (turn->fenced && !make_place(s))
        return HLK_ENTER_NOMEM;
    hlk_list_push_back(&s->line, &turn->link);
    if (s->state != HLK_SESSION_NONE)
        return HLK_ENTER_LINE;
    hlk_session_move(s, HLK_SESSION_ASKING);
    new_hold_id(s, turn);
    return HLK_ENTER_TURN;
}

enum hlk_enter hlk_session_enter(struct hlk_session *s, struct hlk_turn *turn)
{
    hlk_mutex_lock(s->mu);
    struct hlk_past *past = s->past ? hlk_past_find(s, turn->holder.id) : NULL;
    enum hlk_enter enter;
    if (past && past->releases) {
        enter = HLK_ENTER_LOST;
    } else if (may_nest(s, turn->holder.id)) {
        enter = nest(s, turn->fixed);
    } else {
        if (past && !past->waiter) { /* asking again settles it: the end goes before this acquire */
            hlk_past_drop(s, past, true);
            hlk_session_unref(s); /* not the last: the caller has one */
        }
        enter = place(s, turn);
    }
    hlk_mutex_unlock(s->mu);
    return enter;
}

static void unlink_turn(struct hlk_turn *turn)
{
    hlk_list_remove(&turn->link);
    turn->h = 0;
}

enum hlk_enter hlk_session_look(struct hlk_session *s, struct hlk_turn *turn)
{
    hlk_mutex_lock(s->mu);
    if (turn->got) {
        hlk_mutex_unlock(s->mu);
        return HLK_ENTER_GOT;
    }
    struct hlk_past *past = s->past ? hlk_past_find(s, turn->holder.id) : NULL;
    enum hlk_enter enter = past && past->releases ? HLK_ENTER_LOST : turn->h ? HLK_ENTER_TURN : HLK_ENTER_LINE;
    if (enter == HLK_ENTER_LINE && may_nest(s, turn->holder.id)) {
        unlink_turn(turn);
        enter = nest(s, turn->fixed);
    }
    if (enter == HLK_ENTER_LINE && is_busy(s, turn)) {
        unlink_turn(turn);
        enter = HLK_ENTER_BUSY;
    }
    hlk_mutex_unlock(s->mu);
    return enter;
}

/* --- asking --- */

/* A block for those who will get it from this turn without Redis; one token when nobody stands behind it. */
static int64_t tokens_for(const struct hlk_session *s, const struct hlk_turn *turn)
{
    if (!turn->fenced)
        return 0;
    return turn->link.next == &s->line ? 1 : 1 + (int64_t)s->table->local_passes;
}

static void fill_place(struct hlk_session *s, const struct hlk_turn *turn)
{
    bool short_grant = !turn->fixed && turn->lease_ms > HLK_GRANT_MS;
    *s->place = (struct hlk_place){ .h = turn->h,
                                    .member = { .ttl_ms = short_grant ? HLK_GRANT_MS : turn->lease_ms,
                                                .tokens = tokens_for(s, turn),
                                                .floor = turn->floor,
                                                .since_ms = hlk_clock_wall_ms() },
                                    .lease_ms = turn->lease_ms,
                                    .fixed = turn->fixed,
                                    .fenced = turn->fenced };
}

enum hlk_enter hlk_session_queue(struct hlk_session *s, struct hlk_turn *turn, bool queues, struct hlk_member *out)
{
    hlk_mutex_lock(s->mu);
    bool ok = make_place(s);
    if (ok && s->place->h != turn->h)
        fill_place(s, turn);
    if (ok && queues && !s->place->queued) {
        s->place->queued = true;
        s->place->first_ms = hlk_clock_ms();
    }
    if (ok)
        *out = s->place->member;
    hlk_mutex_unlock(s->mu);
    return ok ? HLK_ENTER_TURN : HLK_ENTER_NOMEM;
}

bool hlk_session_asks(struct hlk_session *s, struct hlk_turn *turn)
{
    hlk_mutex_lock(s->mu);
    bool asks = turn->h != 0;
    if (asks && s->state == HLK_SESSION_WAITING)
        hlk_session_move(s, HLK_SESSION_ASKING);
    hlk_mutex_unlock(s->mu);
    return asks;
}

static int64_t cap_of(int64_t now_ms, int64_t max_hold_ms)
{
    return max_hold_ms > 0 ? hlk_clock_after(now_ms, max_hold_ms) : INT64_MAX;
}

static void take_holder(struct hlk_session *s, struct hlk_turn *turn)
{
    unlink_turn(turn);
    turn->got = true;
    s->untold = turn->completes;
    s->holder = turn->holder;
    s->count = s->written = 1;
    s->via = turn->via;
    hlk_via_ref(s->via);
    atomic_fetch_add(s->holder.holds, 1);
}

/* The lease has begun: h is held, by this turn first. */
static void take(struct hlk_session *s, struct hlk_turn *turn, int64_t last_token, int64_t now_ms)
{
    hlk_session_move(s, HLK_SESSION_HELD);
    take_holder(s, turn);
    hlk_session_ref(s); /* held sessions outlive their handles */
    HLK_COUNT(s->table, held);
    struct hlk_place *p = s->place;
    if (p) {
        p->fenced = turn->fenced;
        p->last_token = last_token;
        p->token = turn->fenced ? last_token - p->member.tokens + 1 : 0;
        p->got_ms = now_ms;
        p->passes = 0;
    }
    hlk_watchdog_arm(s);
}

bool hlk_session_won(struct hlk_session *s, struct hlk_turn *turn, int64_t sent_ms, int64_t token, bool doubt)
{
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(s->mu);
    assert(turn->h && turn->h == s->h);
    bool held = hlk_lease_begin(&s->lease, sent_ms, turn->lease_ms, turn->fixed, cap_of(now, turn->max_hold_ms), now);
    if (held) {
        s->doubt = doubt;
        take(s, turn, token, now);
    }
    hlk_mutex_unlock(s->mu);
    return held;
}

/* A grant for the first in line. False: too old to hold anything by it, it has to ask. */
static bool take_grant(struct hlk_session *s, struct hlk_turn *turn, int64_t ttl_ms, int64_t token)
{
    int64_t now = hlk_clock_ms();
    if (!hlk_lease_grant(&s->lease, s->place->first_ms, ttl_ms, turn->fixed, cap_of(now, turn->max_hold_ms), now))
        return false;
    HLK_COUNT(s->table, granted);
    take(s, turn, token, now);
    return true;
}

/* Was a grant noted for the first in line? */
static bool is_noted(const struct hlk_session *s, const struct hlk_turn *turn)
{
    return turn && turn->h && s->place && s->place->h == turn->h && s->place->noted_ttl_ms > 0;
}

/* Would its completion come before that of an end? */
static bool is_too_soon(const struct hlk_session *s, const struct hlk_turn *turn)
{
    return turn->completes && s->ends_untold > 0;
}

static bool take_noted(struct hlk_session *s, struct hlk_turn *turn)
{
    int64_t ttl_ms = s->place->noted_ttl_ms;
    s->place->noted_ttl_ms = 0;
    return take_grant(s, turn, ttl_ms, s->place->noted_token);
}

/* It is WAITING, and nothing else will wake it for the grant. What it answers is to be paid. */
static struct hlk_park *wake_for_noted(struct hlk_session *s, struct hlk_turn *turn)
{
    struct hlk_park *woken = turn->wake(turn, take_noted(s, turn) ? HLK_WAKE_TURN : HLK_WAKE_MESSAGE);
    hlk_session_wake_knowing(s);
    return woken;
}

bool hlk_session_waits(struct hlk_session *s, struct hlk_turn *turn, bool doubt)
{
    bool got = false;
    hlk_mutex_lock(s->mu);
    if (turn->h && s->state == HLK_SESSION_ASKING && !turn->once) {
        hlk_session_move(s, HLK_SESSION_WAITING);
        s->doubt = doubt;
        if (is_noted(s, turn) && !is_too_soon(s, turn)) {
            got = take_noted(s, turn);
            if (!got)
                hlk_park_pay(turn->wake(turn, HLK_WAKE_MESSAGE));
        }
        hlk_session_wake_knowing(s);
    }
    hlk_mutex_unlock(s->mu);
    return got;
}

/* The session's state says whether h is anything to us: while the answer to acquire(h) is on its way the grant is kept
 * until it is there, for the stream may hold a copy of it still. */
bool hlk_session_grant(struct hlk_session *s, uint64_t h, int64_t ttl_ms, int64_t token)
{
    hlk_mutex_lock(s->mu);
    bool known = s->h == h && s->state != HLK_SESSION_NONE;
    struct hlk_park *woken = NULL;
    struct hlk_turn *turn = known ? first_turn(s) : NULL;
    if (turn && turn->h == h && s->place && s->place->h == h && s->place->queued) {
        s->place->noted_ttl_ms = ttl_ms;
        s->place->noted_token = token;
        if (s->state == HLK_SESSION_WAITING && !is_too_soon(s, turn))
            woken = wake_for_noted(s, turn);
    }
    hlk_mutex_unlock(s->mu);
    hlk_park_pay(woken);
    return known;
}

void hlk_session_end_untold(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    s->ends_untold++;
    hlk_mutex_unlock(s->mu);
}

void hlk_session_end_told(struct hlk_session *s)
{
    struct hlk_park *woken = NULL;
    hlk_mutex_lock(s->mu);
    struct hlk_turn *turn = --s->ends_untold == 0 && s->state == HLK_SESSION_WAITING ? first_turn(s) : NULL;
    if (is_noted(s, turn))
        woken = wake_for_noted(s, turn);
    hlk_mutex_unlock(s->mu);
    hlk_park_pay(woken);
}

void hlk_session_open(struct hlk_session *s, uint64_t h)
{
    hlk_mutex_lock(s->mu);
    struct hlk_turn *turn = s->h == h ? first_turn(s) : NULL;
    if (turn && turn->h == h)
        hlk_park_pay(turn->wake(turn, HLK_WAKE_MESSAGE));
    hlk_mutex_unlock(s->mu);
}

void hlk_session_tell_line(struct hlk_session *s, uint64_t winner, void (*tell)(void *ctx), void *ctx)
{
    hlk_mutex_lock(s->mu);
    if (tell)
        tell(ctx);
    if (s->holder.id == winner) /* it may have lost it meanwhile, and another be its holder */
        s->untold = false;
    hlk_session_wake_knowing(s);
    hlk_mutex_unlock(s->mu);
}

void hlk_session_renumber(struct hlk_session *s, struct hlk_turn *turn)
{
    hlk_mutex_lock(s->mu);
    new_hold_id(s, turn);
    hlk_mutex_unlock(s->mu);
}

/* --- the next one --- */

void hlk_session_promote(struct hlk_session *s)
{
    struct hlk_turn *turn = first_turn(s);
    s->h = 0;
    if (!turn)
        return;
    hlk_session_move(s, HLK_SESSION_ASKING);
    new_hold_id(s, turn);
    hlk_park_pay(turn->wake(turn, HLK_WAKE_TURN));
}

/* May `next` have what was asked for by a place like this? */
static bool fits(const struct hlk_place *p, const struct hlk_turn *next)
{
    return next && !next->once && p->lease_ms == next->lease_ms && p->fixed == next->fixed &&
           p->fenced == next->fenced && p->member.floor >= next->floor;
}

bool hlk_session_leave(struct hlk_session *s, struct hlk_turn *turn, bool flies)
{
    bool owes = false;
    hlk_mutex_lock(s->mu);
    if (hlk_list_linked(&turn->link)) {
        bool asker = turn->h != 0, queued = asker && s->place && s->place->h == turn->h && s->place->queued;
        bool waits = s->state == HLK_SESSION_WAITING;
        unlink_turn(turn);
        struct hlk_turn *next = first_turn(s);
        if (asker && queued && waits && !flies && !s->doubt && fits(s->place, next)) {
            hlk_session_move(s, HLK_SESSION_ASKING);
            next->h = s->h;
            hlk_park_pay(next->wake(next, HLK_WAKE_TURN));
        } else if (asker) {
            owes = flies || queued;
            hlk_session_move(s, owes ? HLK_SESSION_ENDING : HLK_SESSION_NONE);
            if (!owes)
                hlk_session_promote(s);
        }
    }
    hlk_mutex_unlock(s->mu);
    return owes;
}

void hlk_session_leaving(struct hlk_session *s, struct hlk_parting *out)
{
    hlk_mutex_lock(s->mu);
    bool queued = s->place && s->place->h == s->h && s->place->queued;
    *out = (struct hlk_parting){ .h = s->h, .place = queued ? s->place->member : (struct hlk_member){ 0, 0, 0, 0 } };
    hlk_mutex_unlock(s->mu);
}

void hlk_session_left(struct hlk_session *s)
{
    hlk_mutex_lock(s->mu);
    hlk_session_move(s, HLK_SESSION_NONE);
    hlk_session_promote(s);
    hlk_mutex_unlock(s->mu);
}

/* Without Redis only what Redis would not tell from the hold before: a lease of the watchdog's, with time left. */
static bool may_pass(struct hlk_session *s, const struct hlk_turn *next, int64_t now_ms)
{
    const struct hlk_lease *lease = &s->lease;
    if (!next || s->fair || next->fixed || lease->fixed || lease->capped || lease->state != HLK_LEASE_HELD ||
        s->table->local_passes == 0 || !make_place(s))
        return false;
    struct hlk_past *past = s->past ? hlk_past_find(s, next->holder.id) : NULL;
    if (past && past->releases) /* has a loss to hear about first */
        return false;
    struct hlk_place *p = s->place;
    if (next->fenced && (p->token == 0 || p->token >= p->last_token || p->token < next->floor))
        return false;
    if (p->got_ms == 0) /* won before there was a place to note it in */
        p->got_ms = lease->sent_ms;
    return p->passes < s->table->local_passes && now_ms - p->got_ms < HLK_PASS_MS &&
           lease->until_ms - now_ms > lease->lease_ms / 3 && s->written == 1;
}

bool hlk_session_pass(struct hlk_session *s, struct hlk_park **woken)
{
    struct hlk_turn *next = first_turn(s);
    int64_t now = hlk_clock_ms();
    if (!may_pass(s, next, now))
        return false;
    hlk_session_forget_hold(s, s->holder.id != 0);
    s->place->passes++;
    s->place->fenced = next->fenced;
    if (next->fenced)
        s->place->token++;
    int64_t cap = cap_of(now, next->max_hold_ms);
    bool arm = cap != s->lease.cap_ms;
    s->lease.cap_ms = cap;
    if (cap < s->lease.until_ms) {
        s->lease.until_ms = cap;
        s->lease.capped = true;
    }
    HLK_COUNT(s->table, passed);
    take_holder(s, next);
    if (arm)
        hlk_watchdog_arm(s);
    *woken = next->wake(next, HLK_WAKE_TURN);
    hlk_session_wake_knowing(s);
    return true;
}
