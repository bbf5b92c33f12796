#include "multilock/multilock_plan.h"

#include "base/clock.h"
#include "base/debug.h"
#include "hasplock/async.h"
#include "lease/entry_table.h"
#include "lease/holding.h"

/* A caller that holds members waits so long for the next member, whose holder may wait for these. The random part lets
 * two such callers give up at different times. */
enum { SLICE_MS = 1000, SLICE_JITTER_MS = 500 };

/* --- what is not kept --- */

void hlk_multilock_plan_give_back(const struct hlk_multilock_plan *plan, hlk_lock *member)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!member->members);
    if (hlk_lock_release_async(member, NULL, NULL) != HLK_E_NOMEM || hlk_lock_group(member))
        return;
    uint64_t holder = hlk_lock_holder(member, plan->self).id;
    struct hlk_entry *e = hlk_lock_find_entry(member, holder);
    if (!e)
        return;
    hlk_entry_give_back(e, holder);
    hlk_entry_unref(e);
}

void hlk_multilock_plan_give_all_back(struct hlk_multilock_plan *plan)
{
    while (plan->held > 0)
        hlk_multilock_plan_give_back(plan, plan->order[--plan->held]);
}

/* --- what is next --- */

/* While members are held, the next one is waited for in the order of names only. Otherwise callers would wait for each
 * other. */
static bool may_wait(const struct hlk_multilock_plan *plan)
{
    return plan->held == 0 || !plan->first;
}

static enum hlk_multilock_todo next(const struct hlk_multilock_plan *plan)
{
    HLK_DEBUG_ASSERT(plan->count > 0 && plan->held <= plan->count);
    size_t lacking = plan->count - plan->held;
    if (lacking == 0)
        return plan->waited ? HLK_MULTILOCK_COMPLETE : HLK_MULTILOCK_DONE;
    bool waits_first = plan->first ? plan->held == 0 : lacking == 1;
    return plan->one_by_one || waits_first ? HLK_MULTILOCK_NEXT : HLK_MULTILOCK_TRY;
}

static enum hlk_multilock_todo end(struct hlk_multilock_plan *plan, enum hlk_status status, const char *why)
{
    HLK_DEBUG_ASSERT(status != HLK_OK);
    (void)hlk_error_set(&plan->error, status, "multilock of %zu: %s", plan->count, why);
    hlk_multilock_plan_give_all_back(plan);
    return HLK_MULTILOCK_DONE;
}

/* first: that member is waited for while none is held. NULL: all are tried, in the order of names. */
static enum hlk_multilock_todo begin(struct hlk_multilock_plan *plan, hlk_lock *first)
{
    size_t n = 0;
    hlk_multilock_plan_give_all_back(plan);
    plan->first = first;
    plan->waited = false;
    if (first)
        plan->order[n++] = first;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->members->locks[i] != first)
            plan->order[n++] = plan->members->locks[i];
    return next(plan);
}

/* Members over several masters are asked by many commands each: they are waited for. */
static bool has_groups(const struct hlk_members *members)
{
    for (size_t i = 0; i < members->count; i++)
        if (hlk_lock_group(members->locks[i]))
            return true;
    return false;
}

enum hlk_multilock_todo hlk_multilock_plan_start(struct hlk_multilock_plan *plan, const hlk_lock *multilock,
                                                 const struct hlk_acquire_opts *opts, struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self && multilock->members && multilock->members->count > 0);
    int64_t now = hlk_clock_ms();
    plan->members = multilock->members;
    plan->self = self;
    plan->opts = *opts;
    if (plan->opts.lease_ms == 0)
        plan->opts.lease_ms = multilock->defaults->lease_ms;
    plan->deadline_ms = hlk_clock_after(now, opts->wait_ms);
    plan->count = plan->members->count;
    plan->held = 0;
    plan->one_by_one = opts->wait_ms == 0 || has_groups(plan->members);
    plan->random = (unsigned)now ^ (unsigned)(uintptr_t)plan;
    plan->error.status = HLK_OK;
    return begin(plan, NULL);
}

/* Held are now those before the first that is not free. */
enum hlk_multilock_todo hlk_multilock_plan_tried(struct hlk_multilock_plan *plan, const enum hlk_status *status,
                                                 const struct hlk_error *why)
{
    HLK_DEBUG_ASSERT(plan->held < plan->count);
    size_t begun = plan->held, i = 0;
    while (begun + i < plan->count && status[i] == HLK_OK)
        i++;
    plan->held += i;
    for (; begun + i < plan->count; i++)
        if (status[i] == HLK_OK)
            hlk_multilock_plan_give_back(plan, plan->order[begun + i]);
    if (why->status == HLK_OK)
        return next(plan);
    if (why->status != HLK_BUSY)
        return end(plan, why->status, why->text);
    if (hlk_clock_ms() >= plan->deadline_ms)
        return end(plan, HLK_TIMEOUT, why->text);
    return may_wait(plan) ? HLK_MULTILOCK_NEXT : begin(plan, NULL);
}

int64_t hlk_multilock_plan_left_ms(const struct hlk_multilock_plan *plan)
{
    if (plan->opts.wait_ms == HLK_NOWAIT || plan->opts.wait_ms == HLK_FOREVER)
        return plan->opts.wait_ms;
    int64_t left = plan->deadline_ms - hlk_clock_ms();
    return left > 1 ? left : 1;
}

static int64_t slice_ms(struct hlk_multilock_plan *plan)
{
    HLK_DEBUG_ASSERT(plan->held > 0);
    plan->random = plan->random * 1103515245u + 12345u;
    return SLICE_MS + (plan->random >> 16) % SLICE_JITTER_MS;
}

void hlk_multilock_plan_opts(struct hlk_multilock_plan *plan, struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(plan->held < plan->count);
    *opts = plan->opts;
    plan->waited = true;
    plan->slice = false;
    if (opts->wait_ms == 0)
        return;
    int64_t left = hlk_multilock_plan_left_ms(plan), max_ms = plan->held > 0 ? slice_ms(plan) : 0;
    plan->slice = max_ms > 0 && max_ms < left;
    opts->wait_ms = !may_wait(plan) ? 0 : plan->slice ? max_ms : left;
}

enum hlk_multilock_todo hlk_multilock_plan_acquired(struct hlk_multilock_plan *plan, enum hlk_status status,
                                                    const char *why)
{
    HLK_DEBUG_ASSERT(plan->held < plan->count);
    if (status == HLK_OK) {
        plan->held++;
        return next(plan);
    }
    if (!may_wait(plan))
        return begin(plan, NULL); /* a failure that lasts is found again, by a wait */
    return status == HLK_TIMEOUT && plan->slice ? begin(plan, plan->order[plan->held]) : end(plan, status, why);
}

/* While others were waited for, a hold may have been lost, and a fixed lease has become shorter. */
int64_t hlk_multilock_plan_lacks(const struct hlk_multilock_plan *plan, size_t i)
{
    HLK_DEBUG_ASSERT(i < plan->held);
    const hlk_lock *member = plan->order[i];
    int64_t lease = plan->opts.lease_ms ? plan->opts.lease_ms : member->defaults->lease_ms;
    int64_t left = hlk_lock_left_ms(member);
    if (left == 0)
        return -1;
    return lease > 0 && left < lease - lease / 8 ? lease : 0;
}

enum hlk_multilock_todo hlk_multilock_plan_completed(struct hlk_multilock_plan *plan, enum hlk_status status,
                                                     const char *why)
{
    HLK_DEBUG_ASSERT(plan->held == plan->count);
    if (status == HLK_OK)
        return HLK_MULTILOCK_DONE;
    bool unsure = status == HLK_E_UNSURE; /* of an extend. An acquire is not: what it took is given back */
    if (unsure && hlk_clock_ms() >= plan->deadline_ms)
        return end(plan, plan->opts.wait_ms == 0 ? HLK_BUSY : HLK_TIMEOUT, why);
    return unsure || status == HLK_LOST ? begin(plan, NULL) : end(plan, status, why);
}
