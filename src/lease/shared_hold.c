#include "lease/shared_hold.h"

#include "lease/entry_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/ended_hold.h"
#include "lease/entry_state.h"
#include "lease/hold_end.h"
#include "lease/local_queue.h"

#include <string.h>

struct hlk_shared_hold {
    struct hlk_list link;             /* in its stripe, until it is freed */
    struct hlk_alarm alarm;           /* set while no holder has it. It fires on the loop, which frees it */
    struct hlk_entry *entry;          /* of its first holder, referenced: for the name, the format and the node */
    struct hlk_lease lease;           /* what a holder that enters gets */
    struct hlk_release_record record; /* of the last holder that left; until_ms is the latest of all */
    unsigned holders;
    bool open, over, armed;
    bool listens;          /* the client's inbox is kept subscribed for it */
    int64_t ends_ms;       /* no holder enters from then on */
    int64_t idle_ms;       /* since when no holder has it */
    int64_t kept_until_ms; /* one that has lost it may be at work until then */
    const char *why_lost;  /* a literal. NULL: it is not lost */
};

/* --- which hold is meant --- */

static struct hlk_shared_stripe *shared_stripe(const struct hlk_entry *e)
{
    return &e->node->table->shared[e->mu - e->node->table->stripes];
}

static struct hlk_shared_hold *shared_at(struct hlk_list *node)
{
    return HLK_CONTAINER(node, struct hlk_shared_hold, link);
}

/* Which locks are meant: one; with name NULL all of the node; with node NULL all. */
struct of_locks {
    const struct hlk_node *node;
    const struct hlk_format *format;
    const char *name;
    size_t len;
};

static bool is_of(const struct hlk_shared_hold *shared, const struct of_locks *of)
{
    const struct hlk_entry *e = shared->entry;
    if (!of->node || !of->name)
        return !of->node || e->node == of->node;
    return e->node == of->node && hlk_entry_format(e) == of->format && hlk_entry_len(e) == of->len &&
           memcmp(hlk_entry_name(e), of->name, of->len) == 0;
}

static struct hlk_shared_hold *shared_of(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->hold.is_shared);
    struct hlk_list *holds = &shared_stripe(e)->holds, *n = holds->next;
    while (shared_at(n)->over || shared_at(n)->entry->node != e->node || shared_at(n)->record.h != e->hold.id) {
        n = n->next;
        HLK_DEBUG_ASSERT(n != holds);
    }
    return shared_at(n);
}

/* Half of the lease at least is left for a holder that enters. */
static bool is_entered(const struct hlk_shared_hold *shared, int64_t now_ms)
{
    return shared->open && now_ms < shared->ends_ms && shared->lease.until_ms - now_ms > shared->lease.lease_ms / 2;
}

static uint32_t name_hash(const struct hlk_entry *e)
{
    return hlk_map_hash(hlk_entry_name(e), hlk_entry_len(e));
}

/* NULL: none. */
static struct hlk_shared_hold *shared_for(const struct hlk_entry *e, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_list *holds = &shared_stripe(e)->holds;
    const struct of_locks of = { e->node, hlk_entry_format(e), hlk_entry_name(e), hlk_entry_len(e) };
    for (struct hlk_list *n = holds->next; n != holds; n = n->next)
        if (is_entered(shared_at(n), now_ms) && is_of(shared_at(n), &of))
            return shared_at(n);
    return NULL;
}

/* --- while no holder has it --- */

static void arm_shared(struct hlk_shared_hold *shared, int64_t at_ms)
{
    hlk_mutex_assert_held(shared->entry->mu);
    shared->armed = true;
    hlk_loop_arm(shared->entry->node->table->loop, &shared->alarm, at_ms);
}

/* Until when it stays without a holder. */
static int64_t stays_until(const struct hlk_shared_hold *shared, int64_t now_ms)
{
    int64_t idle_ms = is_entered(shared, now_ms) ? shared->idle_ms + HLK_PASS_MS : 0;
    return idle_ms > shared->kept_until_ms ? idle_ms : shared->kept_until_ms;
}

static void stop_listening(struct hlk_shared_hold *shared)
{
    if (shared->listens)
        hlk_channel_release_inbox(&shared->entry->node->channels);
    shared->listens = false;
}

static void free_shared(struct hlk_shared_hold *shared)
{
    hlk_mutex_assert_none();
    stop_listening(shared);
    hlk_entry_unref(shared->entry);
    hlk_mem_free(shared);
}

static void shared_on_alarm(struct hlk_alarm *alarm)
{
    struct hlk_shared_hold *shared = HLK_CONTAINER(alarm, struct hlk_shared_hold, alarm);
    struct hlk_entry *e = shared->entry;
    hlk_loop_assert_here(e->node->table->loop);
    hlk_mutex_lock(e->mu);
    int64_t now = hlk_clock_ms();
    bool stays = !shared->over && (shared->holders > 0 || now < stays_until(shared, now));
    shared->armed = false;
    if (stays && shared->holders == 0)
        arm_shared(shared, stays_until(shared, now));
    if (!stays) {
        hlk_list_remove(&shared->link);
        hlk_loop_cancel(e->node->table->loop, alarm);
    }
    hlk_mutex_unlock(e->mu);
    if (stays)
        return;
    if (!shared->over)
        hlk_hold_end(e, &shared->record);
    free_shared(shared);
}

/* --- it begins --- */

bool hlk_shared_is_wanted(struct hlk_entry *e, const struct hlk_local_waiter *waiter, uint64_t *closings)
{
    if (!waiter->shares)
        return false;
    hlk_mutex_lock(e->mu);
    const struct hlk_shared_stripe *stripe = shared_stripe(e);
    bool wanted = hlk_clock_ms() - stripe->left_ms < HLK_PASS_MS && stripe->left_by != waiter->holder.id &&
                  stripe->left_of == name_hash(e);
    *closings = stripe->closings;
    hlk_mutex_unlock(e->mu);
    return wanted;
}

/* No memory: it is not shared. */
static void make_shared(struct hlk_entry *e, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    struct hlk_shared_hold *shared = hlk_mem_zalloc(sizeof *shared);
    if (!shared)
        return;
    shared->alarm.fire = shared_on_alarm;
    shared->entry = e;
    hlk_entry_ref(e);
    shared->lease = e->hold.lease;
    hlk_entry_fill_record(e, &shared->record);
    shared->holders = 1;
    shared->open = shared->listens = true;
    shared->ends_ms = hlk_clock_after(now_ms, HLK_SHARED_MS);
    hlk_list_push_back(&shared_stripe(e)->holds, &shared->link);
    e->hold.is_shared = true;
    hlk_channel_retain_inbox(&e->node->channels);
}

void hlk_shared_begin(struct hlk_entry *e, uint64_t h, uint64_t closings)
{
    HLK_DEBUG_ASSERT(hlk_entry_format(e)->shares_holds);
    hlk_mutex_lock(e->mu);
    int64_t now = hlk_clock_ms();
    const struct hlk_shared_stripe *stripe = shared_stripe(e);
    bool held = e->state == HLK_ENTRY_HELD && e->hold.id == h && e->hold.lease.state == HLK_LEASE_HELD;
    if (held && !e->hold.is_shared && !e->hold.doubt && !stripe->closed && stripe->closings == closings &&
        !shared_for(e, now))
        make_shared(e, now);
    hlk_mutex_unlock(e->mu);
}

/* --- a holder enters --- */

/* It was not reported everything that is over, or a wait of its owner comes first. */
static bool comes_later(const struct hlk_entry *e, const struct hlk_local_waiter *waiter)
{
    hlk_mutex_assert_held(e->mu);
    return e->state != HLK_ENTRY_NONE || !hlk_list_empty(&e->waiters) || e->releases_unreported > 0 ||
           (e->ended_hold && hlk_ended_hold_find(e, waiter->holder.id));
}

static void get_shared(struct hlk_entry *e, struct hlk_local_waiter *waiter, struct hlk_shared_hold *shared,
                       int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(!shared->over && e->state == HLK_ENTRY_NONE);
    shared->holders++;
    e->hold.id = shared->record.h;
    e->hold.lease = shared->lease;
    e->hold.replicated = e->hold.doubt = e->hold.broken = e->hold.id_exposed = e->busy = false;
    e->hold.is_shared = true;
    hlk_entry_move(e, HLK_ENTRY_ACQUIRING);
    hlk_entry_move(e, HLK_ENTRY_HELD);
    hlk_entry_ref(e); /* a held entry outlives its handles */
    HLK_COUNT(e->node->table, held);
    (void)hlk_entry_take_over(e, waiter, now_ms);
    hlk_entry_arm(e);
}

bool hlk_shared_enter(struct hlk_entry *e, struct hlk_local_waiter *waiter)
{
    HLK_DEBUG_ASSERT(!waiter->got && !hlk_list_linked(&waiter->link));
    if (!waiter->shares)
        return false;
    hlk_mutex_lock(e->mu);
    int64_t now = hlk_clock_ms();
    struct hlk_shared_hold *shared = comes_later(e, waiter) ? NULL : shared_for(e, now);
    if (shared)
        get_shared(e, waiter, shared, now);
    hlk_mutex_unlock(e->mu);
    return shared;
}

/* --- a holder leaves --- */

/* As after the answer to a release. */
static void drop_hold(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD && !e->hold.is_shared);
    hlk_entry_forget_hold(e, e->holder.id != 0);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_NONE);
    HLK_UNCOUNT(e->node->table, held);
    hlk_loop_cancel(e->node->table->loop, &e->hold.alarm);
    hlk_entry_move(e, HLK_ENTRY_RELEASING);
    hlk_entry_move(e, HLK_ENTRY_NONE);
    hlk_entry_promote(e);
}

/* The entry has it no more. A renewal or a raise of it that is not answered would be taken for one of the next hold, if
 * the same entry entered it again: so none enters. */
static void leave_shared(struct hlk_entry *e, struct hlk_shared_hold *shared)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(shared->holders > 0 && !shared->over);
    const struct hlk_lease *lease = &e->hold.lease;
    int64_t until_ms = shared->record.until_ms;
    hlk_entry_fill_record(e, &shared->record);
    if (shared->record.until_ms < until_ms)
        shared->record.until_ms = until_ms;
    if (lease->state != HLK_LEASE_HELD || lease->raising_ms != 0)
        shared->open = false;
    if (lease->sent_ms > shared->lease.sent_ms && lease->state == HLK_LEASE_HELD)
        shared->lease = *lease;
    shared->holders--;
    e->hold.is_shared = false;
}

/* The last holder releases it: for as long as any of them may have kept it in Redis. */
static void end_shared(struct hlk_shared_hold *shared, struct hlk_entry *e, int64_t now_ms)
{
    hlk_mutex_assert_held(e->mu);
    shared->over = true;
    if (e->hold.lease.ends_ms < shared->record.until_ms)
        e->hold.lease.ends_ms = shared->record.until_ms;
    arm_shared(shared, now_ms);
}

bool hlk_shared_leave(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    if (!hlk_entry_format(e)->shares_holds)
        return false;
    int64_t now = hlk_clock_ms();
    struct hlk_shared_stripe *stripe = shared_stripe(e);
    stripe->left_ms = now;
    stripe->left_by = e->holder.id;
    stripe->left_of = name_hash(e);
    if (!e->hold.is_shared)
        return false;
    struct hlk_shared_hold *shared = shared_of(e);
    leave_shared(e, shared);
    if (shared->holders == 0) {
        shared->idle_ms = now;
        if (now >= stays_until(shared, now)) {
            end_shared(shared, e, now);
            return false;
        }
        if (!shared->armed)
            arm_shared(shared, stays_until(shared, now));
    }
    drop_hold(e);
    return true;
}

/* --- it is closed --- */

/* Returns the entry of one that no holder has, and whose release is the caller's, with a reference. NULL: none. */
static struct hlk_entry *close_one(struct hlk_entry_table *table, unsigned stripe, const struct of_locks *of,
                                   struct hlk_release_record *record)
{
    struct hlk_list *holds = &table->shared[stripe].holds;
    struct hlk_entry *idle = NULL;
    hlk_mutex_lock(&table->stripes[stripe]);
    table->shared[stripe].closings++;
    table->shared[stripe].closed |= !of->node;
    for (struct hlk_list *n = holds->next; n != holds && !idle; n = n->next) {
        struct hlk_shared_hold *shared = shared_at(n);
        if (!is_of(shared, of))
            continue;
        shared->open = false;
        if (!of->node)
            stop_listening(shared);
        if (shared->over || shared->holders > 0 || hlk_clock_ms() < shared->kept_until_ms)
            continue;
        shared->over = true;
        arm_shared(shared, hlk_clock_ms());
        *record = shared->record;
        idle = shared->entry;
        hlk_entry_ref(idle);
    }
    hlk_mutex_unlock(&table->stripes[stripe]);
    return idle;
}

static void close_in(struct hlk_entry_table *table, unsigned stripe, const struct of_locks *of)
{
    hlk_mutex_assert_none();
    struct hlk_release_record record;
    struct hlk_entry *e;
    while ((e = close_one(table, stripe, of, &record))) {
        hlk_hold_end(e, &record);
        hlk_entry_unref(e);
    }
}

void hlk_shared_close(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len)
{
    HLK_DEBUG_ASSERT(node && format && len > 0);
    if (format->shares_holds)
        close_in(node->table, hlk_entry_table_stripe(format, name, len), &(struct of_locks){ node, format, name, len });
}

void hlk_shared_close_node(struct hlk_node *node)
{
    for (unsigned i = 0; i < HLK_STRIPES; i++)
        close_in(node->table, i, &(struct of_locks){ .node = node });
}

void hlk_shared_close_all(struct hlk_entry_table *table)
{
    for (unsigned i = 0; i < HLK_STRIPES; i++)
        close_in(table, i, &(struct of_locks){ .node = NULL });
}

void hlk_shared_fini(struct hlk_entry_table *table)
{
    struct hlk_list *node;
    for (unsigned i = 0; i < HLK_STRIPES; i++)
        while ((node = hlk_list_pop(&table->shared[i].holds))) {
            hlk_loop_cancel(table->loop, &shared_at(node)->alarm);
            free_shared(shared_at(node));
        }
}

/* --- it is lost --- */

const char *hlk_shared_why_lost(const struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    return e->hold.is_shared ? shared_of(e)->why_lost : NULL;
}

/* One whose holder has ended takes none with it: the others are renewed. */
void hlk_shared_lose(struct hlk_entry *e, const char *why, struct hlk_release_record *record)
{
    hlk_mutex_assert_held(e->mu);
    if (!e->hold.is_shared)
        return;
    struct hlk_shared_hold *shared = shared_of(e);
    leave_shared(e, shared);
    shared->open = false;
    if (shared->kept_until_ms < record->kept_until_ms)
        shared->kept_until_ms = record->kept_until_ms;
    record->was_shared = true;
    record->has_others = shared->holders > 0;
    record->spreads = !record->orphan && !shared->why_lost && record->has_others;
    record->kept_until_ms = shared->kept_until_ms;
    record->until_ms = shared->record.until_ms;
    if (!record->orphan)
        shared->why_lost = why;
    if (record->has_others)
        return;
    shared->over = true;
    arm_shared(shared, hlk_clock_ms());
}
