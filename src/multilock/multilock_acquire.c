#include "multilock/multilock_acquire.h"

#include "multilock/multilock_plan.h"
#include "multilock/try_all.h"

#include "base/debug.h"
#include "base/nocancel.h"

#include <pthread.h>

_Static_assert(HLK_MULTILOCK_MAX <= HLK_MULTI_WAIT_MAX, "all members may be on connections of their own");

struct attempt {
    struct hlk_multilock_plan plan;
    struct hlk_try_all tries;
};

static void on_multilock_thread_cancel(void *arg)
{
    hlk_mutex_assert_none();
    struct attempt *a = arg;
    hlk_try_all_end(&a->tries);
    for (size_t i = a->tries.count; i-- > 0;)
        if (a->tries.status[i] == HLK_OK)
            hlk_multilock_plan_give_back(&a->plan, a->plan.order[a->plan.held + i]);
    hlk_multilock_plan_give_all_back(&a->plan);
}

static enum hlk_multilock_todo try_all(struct attempt *a)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(a->plan.held < a->plan.count);
    struct hlk_multilock_plan *plan = &a->plan;
    struct hlk_acquire_opts opts = plan->opts;
    opts.wait_ms = 0;
    int old = hlk_nocancel_begin();
    hlk_try_all_start(&a->tries, plan->self, &plan->order[plan->held], (unsigned)(plan->count - plan->held), &opts,
                      plan->deadline_ms);
    plan->self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    hlk_try_all_wait(&a->tries);
    plan->self->cancellable = false;
    hlk_try_all_end(&a->tries);
    a->tries.count = 0; /* they are the plan's from here on */
    hlk_nocancel_end(old);
    return hlk_multilock_plan_tried(plan, a->tries.status, &a->tries.error);
}

static enum hlk_multilock_todo acquire_next(struct hlk_multilock_plan *plan)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(plan->held < plan->count);
    struct hlk_acquire_opts opts;
    hlk_multilock_plan_opts(plan, &opts);
    enum hlk_status status = hlk_lock_acquire_with(plan->order[plan->held], &opts);
    return hlk_multilock_plan_acquired(plan, status, hlk_last_error());
}

static enum hlk_multilock_todo complete(struct hlk_multilock_plan *plan)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(plan->held == plan->count);
    enum hlk_status status = HLK_OK;
    for (size_t i = 0; i < plan->held && status == HLK_OK; i++) {
        int64_t lease = hlk_multilock_plan_lacks(plan, i);
        status = lease < 0 ? HLK_LOST : lease > 0 ? hlk_lock_extend(plan->order[i], lease) : HLK_OK;
    }
    return hlk_multilock_plan_completed(plan, status, hlk_last_error());
}

static void acquire_all(struct attempt *a, const hlk_lock *multilock, const struct hlk_acquire_opts *opts)
{
    enum hlk_multilock_todo todo = hlk_multilock_plan_start(&a->plan, multilock, opts, a->tries.wait.self);
    while (todo != HLK_MULTILOCK_DONE)
        todo = todo == HLK_MULTILOCK_TRY    ? try_all(a)
               : todo == HLK_MULTILOCK_NEXT ? acquire_next(&a->plan)
                                            : complete(&a->plan);
}

enum hlk_status hlk_multilock_acquire(hlk_lock *multilock, const struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(multilock->members);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(multilock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    struct attempt a;
    a.plan.held = 0;
    a.tries.count = 0;
    atomic_init(&a.tries.pending, 0);
    a.tries.wait.self = self;
    a.tries.wait.asleep = a.tries.asleep = false;
    a.tries.client_count = 0;
    pthread_cleanup_push(on_multilock_thread_cancel, &a);
    acquire_all(&a, multilock, opts);
    pthread_cleanup_pop(0);
    return a.plan.error.status == HLK_OK ? HLK_OK : hlk_last_set(a.plan.error.status, "%s", a.plan.error.text);
}
