/* Holds that are over and not fully reported, and the losses of a handle. */
#include "lease/ended_hold.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"

#include <sys/eventfd.h>

/* --- the losses of a handle --- */

void hlk_handle_count_lost(struct hlk_handle *handle, bool lost)
{
    if (!handle)
        return;
    while (!handle->mu)
        handle = handle->parent;
    int old = hlk_nocancel_begin();
    hlk_mutex_lock(handle->mu);
    handle->lost = lost ? handle->lost + 1 : handle->lost - 1;
    if (handle->lost_fd >= 0 && lost && handle->lost == 1)
        (void)eventfd_write(handle->lost_fd, 1);
    eventfd_t drained;
    if (handle->lost_fd >= 0 && handle->lost == 0)
        (void)eventfd_read(handle->lost_fd, &drained);
    hlk_mutex_unlock(handle->mu);
    hlk_nocancel_end(old);
}

/* --- ended holds --- */

struct hlk_ended_hold *hlk_ended_hold_find(const struct hlk_entry *e, uint64_t holder)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold;
    while (ended_hold && ended_hold->holder != holder)
        ended_hold = ended_hold->next;
    return ended_hold;
}

void hlk_ended_hold_drop(struct hlk_entry *e, struct hlk_ended_hold *ended_hold, bool holder_lives)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_ended_hold **at = &e->ended_hold;
    while (*at != ended_hold)
        at = &(*at)->next;
    *at = ended_hold->next;
    if (ended_hold->releases)
        hlk_handle_count_lost(ended_hold->handle, false);
    if (holder_lives)
        atomic_fetch_sub(ended_hold->counted.holds, 1);
    hlk_handle_release(ended_hold->handle);
    hlk_lost_end_unref(ended_hold->end);
    hlk_mem_free(ended_hold);
}

struct hlk_ended_hold *hlk_ended_hold_add(struct hlk_entry *e, struct hlk_holder holder, uint64_t h, unsigned releases)
{
    HLK_DEBUG_ASSERT(h && holder.id);
    hlk_mutex_assert_held(e->mu);
    struct hlk_ended_hold *ended_hold = hlk_mem_zalloc(sizeof *ended_hold);
    if (!ended_hold)
        return NULL;
    ended_hold->holder = holder.id;
    ended_hold->counted = holder;
    ended_hold->h = h;
    ended_hold->releases = releases;
    ended_hold->next = e->ended_hold;
    e->ended_hold = ended_hold;
    hlk_entry_ref(e);
    return ended_hold;
}

bool hlk_ended_hold_keep(struct hlk_entry *e, uint64_t h, struct hlk_lost_end *end)
{
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold;
    while (ended_hold && ended_hold->h != h)
        ended_hold = ended_hold->next;
    if (ended_hold)
        ended_hold->end = end;
    hlk_mutex_unlock(e->mu);
    return ended_hold;
}

/* --- unsure releases --- */

bool hlk_entry_note_unsure(struct hlk_entry *e, struct hlk_holder holder, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    bool ok = hlk_ended_hold_add(e, holder, h, 0) != NULL;
    if (ok)
        atomic_fetch_add(holder.holds, 1);
    hlk_mutex_unlock(e->mu);
    return ok;
}

bool hlk_entry_is_unsure(struct hlk_entry *e, uint64_t holder)
{
    hlk_mutex_lock(e->mu);
    const struct hlk_ended_hold *ended_hold = hlk_ended_hold_find(e, holder);
    bool unsure = ended_hold && !ended_hold->releases;
    hlk_mutex_unlock(e->mu);
    return unsure;
}

void hlk_entry_settle_unsure(struct hlk_entry *e, uint64_t h, enum hlk_status outcome)
{
    hlk_mutex_lock(e->mu);
    struct hlk_ended_hold *ended_hold = e->ended_hold;
    while (ended_hold && (ended_hold->h != h || ended_hold->releases))
        ended_hold = ended_hold->next;
    if (ended_hold) {
        ended_hold->settled = true;
        ended_hold->outcome = outcome;
        if (ended_hold->waiter)
            hlk_park_wake(&ended_hold->waiter->park, HLK_WAKE_SETTLED);
    }
    hlk_mutex_unlock(e->mu);
}

enum hlk_status hlk_entry_wait_unsure(struct hlk_entry *e, uint64_t holder, struct hlk_thread *self, int64_t at_ms,
                                      uint64_t *h)
{
    HLK_DEBUG_ASSERT(self && h);
    (void)hlk_park_take(&self->park, HLK_WAKE_CLOSED); /* set by another client, in an earlier call */
    for (;;) {
        (void)hlk_park_take(&self->park, HLK_WAKE_SETTLED);
        hlk_mutex_lock(e->mu);
        struct hlk_ended_hold *ended_hold = hlk_ended_hold_find(e, holder);
        enum hlk_status status = !ended_hold           ? HLK_NOT_HOLDER
                                 : ended_hold->settled ? ended_hold->outcome
                                                       : HLK_E_UNSURE;
        bool drop = ended_hold && ended_hold->settled;
        bool over = drop || status != HLK_E_UNSURE || hlk_clock_ms() >= at_ms;
        *h = ended_hold && !drop ? ended_hold->h : 0;
        if (ended_hold)
            ended_hold->waiter = over ? NULL : self;
        if (drop)
            hlk_ended_hold_drop(e, ended_hold, true);
        hlk_mutex_unlock(e->mu);
        if (drop)
            hlk_entry_unref(e);
        if (over)
            return status;
        (void)hlk_park_until(&self->park, HLK_WAKE_SETTLED | HLK_WAKE_CLOSED, at_ms, -1, NULL);
        if (hlk_park_peek(&self->park, HLK_WAKE_CLOSED))
            at_ms = 0;
    }
}

void hlk_entry_forget(struct hlk_entry *e)
{
    for (;;) {
        hlk_mutex_lock(e->mu);
        struct hlk_ended_hold *ended_hold = e->ended_hold;
        if (ended_hold)
            hlk_ended_hold_drop(e, ended_hold, false);
        hlk_mutex_unlock(e->mu);
        if (!ended_hold)
            return;
        hlk_entry_unref(e);
    }
}
