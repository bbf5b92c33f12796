/* What holders still have to hear about holds that are over, and the handles' view of losses. */
#include "lease/past.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

#include <sys/eventfd.h>

/* --- the handle's view of losses --- */

void hlk_via_ref(struct hlk_via *via)
{
    if (via)
        atomic_fetch_add(&via->refs, 1);
}

void hlk_via_unref(struct hlk_via *via)
{
    if (via && atomic_fetch_sub(&via->refs, 1) == 1)
        via->free(via);
}

void hlk_via_lost(struct hlk_via *via, bool lost)
{
    if (!via)
        return;
    if (!via->mu)
        via = via->parent;
    int old = hlk_nocancel_begin();
    hlk_mutex_lock(via->mu);
    via->lost = lost ? via->lost + 1 : via->lost - 1;
    if (via->lost_fd >= 0 && lost && via->lost == 1)
        (void)eventfd_write(via->lost_fd, 1);
    eventfd_t drained;
    if (via->lost_fd >= 0 && via->lost == 0)
        (void)eventfd_read(via->lost_fd, &drained);
    hlk_mutex_unlock(via->mu);
    hlk_nocancel_end(old);
}

/* --- past holds --- */

struct hlk_past *hlk_past_find(const struct hlk_session *s, uint64_t holder)
{
    struct hlk_past *past = s->past;
    while (past && past->holder != holder)
        past = past->next;
    return past;
}

void hlk_past_drop(struct hlk_session *s, struct hlk_past *past, bool holder_lives)
{
    struct hlk_past **at = &s->past;
    while (*at != past)
        at = &(*at)->next;
    *at = past->next;
    if (past->releases)
        hlk_via_lost(past->via, false);
    if (holder_lives)
        atomic_fetch_sub(past->counted.holds, 1);
    hlk_via_unref(past->via);
    hlk_mem_free(past);
}

struct hlk_past *hlk_past_add(struct hlk_session *s, struct hlk_holder holder, uint64_t h, unsigned releases)
{
    struct hlk_past *past = hlk_mem_zalloc(sizeof *past);
    if (!past)
        return NULL;
    past->holder = holder.id;
    past->counted = holder;
    past->h = h;
    past->releases = releases;
    past->next = s->past;
    s->past = past;
    hlk_session_ref(s);
    return past;
}

/* --- unsure releases --- */

bool hlk_session_owe(struct hlk_session *s, struct hlk_holder holder, uint64_t h)
{
    hlk_mutex_lock(s->mu);
    bool ok = hlk_past_add(s, holder, h, 0) != NULL;
    if (ok)
        atomic_fetch_add(holder.holds, 1);
    hlk_mutex_unlock(s->mu);
    return ok;
}

void hlk_session_settle(struct hlk_session *s, uint64_t h, enum hlk_status outcome)
{
    hlk_mutex_lock(s->mu);
    struct hlk_past *past = s->past;
    while (past && (past->h != h || past->releases))
        past = past->next;
    if (past) {
        past->settled = true;
        past->outcome = outcome;
        if (past->waiter)
            hlk_park_wake(&past->waiter->park, HLK_WAKE_SETTLED);
    }
    hlk_mutex_unlock(s->mu);
}

enum hlk_status hlk_session_wait_owed(struct hlk_session *s, uint64_t holder, struct hlk_self *self, int64_t at_ms)
{
    (void)hlk_park_take(&self->park, HLK_WAKE_CLOSED); /* another client's, from an earlier call */
    for (;;) {
        (void)hlk_park_take(&self->park, HLK_WAKE_SETTLED);
        hlk_mutex_lock(s->mu);
        struct hlk_past *past = hlk_past_find(s, holder);
        enum hlk_status status = !past ? HLK_NOT_HOLDER : past->settled ? past->outcome : HLK_E_UNSURE;
        bool over = status != HLK_E_UNSURE || hlk_clock_ms() >= at_ms;
        if (past)
            past->waiter = over ? NULL : self;
        bool drop = past && past->settled;
        if (drop)
            hlk_past_drop(s, past, true);
        hlk_mutex_unlock(s->mu);
        if (drop)
            hlk_session_unref(s);
        if (over)
            return status;
        (void)hlk_park_until(&self->park, HLK_WAKE_SETTLED | HLK_WAKE_CLOSED, at_ms, -1, NULL);
        if (hlk_park_peek(&self->park, HLK_WAKE_CLOSED))
            at_ms = 0;
    }
}

void hlk_session_forget(struct hlk_session *s)
{
    for (;;) {
        hlk_mutex_lock(s->mu);
        struct hlk_past *past = s->past;
        if (past)
            hlk_past_drop(s, past, false);
        hlk_mutex_unlock(s->mu);
        if (!past)
            return;
        hlk_session_unref(s);
    }
}
