#include "lease/entry_lose.h"

#include "base/clock.h"
#include "base/min.h"
#include "lease/ended_hold.h"
#include "lease/entry_internal.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/line.h"
#include "lease/local_queue.h"
#include "lease/shared_hold.h"

void hlk_entry_release_finish(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    hlk_entry_forget_hold(e, e->holder.id != 0);
    hlk_entry_move(e, HLK_ENTRY_NONE);
    hlk_entry_promote(e);
    hlk_mutex_unlock(e->mu);
    hlk_entry_unref(e);
}

static void notify_of(struct hlk_entry *e, uint64_t h, const struct hlk_handle *handle, int kind, int64_t until_ms,
                      const char *why)
{
    struct hlk_entry_table *table = e->node->table;
    char field[HLK_FIELD_MAX];
    (void)hlk_field(field, table->client_id, h);
    struct hlk_callback callbacks[2] = { handle ? handle->callback : (struct hlk_callback){ NULL, NULL },
                                         table->callback };
    if (!hlk_events_notify(table->events, kind, hlk_entry_name(e), field, until_ms, why, callbacks,
                           hlk_handle_root(handle)))
        atomic_fetch_add(&table->unreported, 1); /* the watchdog's tick logs it: no user code under a mutex */
}

/* A lost lock may be held by another client already, whatever its lease said. */
void hlk_entry_notify(struct hlk_entry *e, int kind, const char *why)
{
    hlk_mutex_assert_held(e->mu);
    int64_t until = e->hold.lease.until_ms, now = hlk_clock_ms();
    e->hold.id_exposed = true;
    notify_of(e, e->hold.id, e->handle, kind, kind == HLK_EVENT_LOST && now < until ? now : until, why);
}

struct hlk_handle *hlk_entry_handle(struct hlk_entry *e)
{
    hlk_mutex_lock(e->mu);
    struct hlk_handle *handle = e->handle;
    hlk_handle_retain(handle);
    hlk_mutex_unlock(e->mu);
    return handle;
}

void hlk_entry_report_gone(struct hlk_entry *e, uint64_t h, const struct hlk_handle *handle, const char *why)
{
    notify_of(e, h, handle, HLK_EVENT_LOST, hlk_clock_ms(), why);
}

/* Unlocks the mutex. True: the caller must start the release. */
static bool lose_hold(struct hlk_entry *e, const char *why, struct hlk_release_record *out)
{
    hlk_mutex_assert_held(e->mu);
    bool orphan = e->hold.lease.state == HLK_LEASE_ORPHANED;
    hlk_entry_fill_record(e, out);
    out->kept_until_ms = hlk_min_ms(e->hold.lease.until_ms, hlk_clock_ms()) + e->hold.lease.margin_ms;
    out->orphan = orphan;
    out->was_shared = out->has_others = out->spreads = false;
    hlk_shared_lose(e, why, out);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_LOST);
    HLK_UNCOUNT(e->node->table, held);
    hlk_loop_cancel(e->node->table->loop, &e->hold.alarm);
    struct hlk_ended_hold *ended_hold = NULL;
    if (!orphan) {
        HLK_COUNT(e->node->table, lost);
        hlk_handle_count_lost(e->handle, true); /* before the callback can ask for the descriptor */
        hlk_entry_notify(e, HLK_EVENT_LOST, why);
        ended_hold = hlk_ended_hold_add(e, e->holder, e->hold.id, e->count);
    }
    bool releases = orphan || ended_hold;
    if (ended_hold) { /* the ended hold takes over what the hold was counted in */
        ended_hold->why = why;
        ended_hold->handle = e->handle;
        e->handle = NULL;
        e->holder.id = 0;
    }
    if (releases) {
        hlk_entry_move(e, HLK_ENTRY_RELEASING);
        hlk_line_moved(e);
        hlk_lease_move(&e->hold.lease, HLK_LEASE_NONE);
    }
    hlk_mutex_unlock(e->mu);
    return releases;
}

bool hlk_entry_lose_begin(struct hlk_entry *e, uint64_t h, const char *why, struct hlk_release_record *out)
{
    hlk_mutex_lock(e->mu);
    if (e->state == HLK_ENTRY_HELD && e->hold.id == h && e->hold.lease.state != HLK_LEASE_LOST)
        return lose_hold(e, why, out);
    if (e->hold.id == h)
        hlk_entry_note_break(e);
    hlk_mutex_unlock(e->mu);
    return false;
}

static void end_lost_hold(struct hlk_entry *e, const struct hlk_release_record *record)
{
    struct hlk_lost_end *end = record->has_others ? NULL : hlk_lost_end_make(e, record);
    if (record->orphan || record->was_shared)
        hlk_lost_end_unref(end);
    else if (end && !hlk_ended_hold_keep(e, record->h, end))
        hlk_lost_end_start_now(e, end); /* its holder has released it meanwhile */
    hlk_entry_release_finish(e);
}

struct broken {
    uint64_t h;
    const char *why;
};

static void lose_if_own(struct hlk_entry *e, void *ctx)
{
    const struct broken *broken = ctx;
    struct hlk_release_record record;
    if (e->per_holder && hlk_entry_lose_begin(e, broken->h, broken->why, &record))
        end_lost_hold(e, &record);
}

void hlk_entry_lose_own(struct hlk_node *node, uint64_t h, const char *why)
{
    hlk_entry_table_each_of(node, lose_if_own, &(struct broken){ h, why });
}

/* Those that share the hold lose it too. The caller has a reference to the entry, or is the loop, which frees it. */
static void lost(struct hlk_entry *e, const struct hlk_release_record *record, const char *why)
{
    struct hlk_node *node = e->node;
    end_lost_hold(e, record);
    if (record->spreads)
        hlk_entry_lose_own(node, record->h, why);
}

void hlk_entry_lose(struct hlk_entry *e, uint64_t h, const char *why)
{
    struct hlk_release_record record;
    if (hlk_entry_lose_begin(e, h, why, &record))
        lost(e, &record, why);
}

static void ask_if_held(struct hlk_entry *e, void *ctx)
{
    const uint64_t *h = ctx;
    hlk_mutex_lock(e->mu);
    if (e->state == HLK_ENTRY_HELD && e->hold.id == *h && hlk_lease_live(&e->hold.lease))
        hlk_entry_notify(e, HLK_EVENT_ASKED, "an operator asks for its release");
    hlk_mutex_unlock(e->mu);
}

void hlk_entry_ask_holder(struct hlk_node *node, uint64_t h)
{
    hlk_entry_table_each_of(node, ask_if_held, &h);
}

void hlk_entry_lose_locked(struct hlk_entry *e, const char *why)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_release_record record;
    if (lose_hold(e, why, &record))
        lost(e, &record, why);
}

bool hlk_entry_lock_held(struct hlk_entry *e, uint64_t h)
{
    hlk_mutex_lock(e->mu);
    int64_t now = hlk_clock_ms();
    bool live = e->state == HLK_ENTRY_HELD && e->hold.id == h && hlk_lease_live(&e->hold.lease);
    if (live && now < e->hold.lease.until_ms)
        return true;
    if (live)
        hlk_entry_lose_locked(e, hlk_lease_why_over(&e->hold.lease, now));
    else
        hlk_mutex_unlock(e->mu);
    return false;
}
