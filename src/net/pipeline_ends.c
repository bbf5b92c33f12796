#include "net/pipeline_ends.h"

#include "base/debug.h"

struct hlk_call *hlk_pipeline_first(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    struct hlk_list *node = hlk_list_first(&pipeline->flight);
    return node ? HLK_CONTAINER(node, struct hlk_call, link) : NULL;
}

void hlk_pipeline_end_call(struct hlk_pipeline *pipeline, struct hlk_call *call, enum hlk_call_end end,
                           struct hlk_ends *ends)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(hlk_list_linked(&call->link) && end != HLK_CALL_IN_FLIGHT);
    HLK_DEBUG_ASSERT(!call->last_of_write || pipeline->writes > 0);
    HLK_DEBUG_ASSERT(call->waiter ? pipeline->callers > 0 : call->lazy || pipeline->eager > 0);
    HLK_DEBUG_ASSERT(ends->waiting < HLK_ENDS_MAX);
    hlk_list_remove(&call->link);
    if (call->last_of_write)
        pipeline->writes--;
    if (call->map)
        atomic_fetch_sub(&pipeline->maps, 1);
    if (!call->waiter) {
        pipeline->eager -= !call->lazy;
        hlk_list_push_back(&ends->calls, &call->link);
        atomic_store(&call->end, end);
        return;
    }
    pipeline->callers--;
    if (call->waiter != pipeline->leader) {
        hlk_list_remove(&call->waiter->link);
        ends->waiters[ends->waiting++] = call->waiter;
    }
    atomic_store(&call->end, end); /* the caller may be polling for this: from here on the call is the caller's */
}

void hlk_pipeline_report_ends(struct hlk_ends *ends)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(ends->waiting <= HLK_ENDS_MAX);
    for (unsigned i = 0; i < ends->waiting; i++)
        hlk_park_wake(&ends->waiters[i]->park, HLK_WAKE_REPLY);
    ends->waiting = 0;
    struct hlk_list *node;
    while ((node = hlk_list_pop(&ends->calls))) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        call->done(call);
    }
}
