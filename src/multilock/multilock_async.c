#include "multilock/multilock_async.h"

#include "acquire/async_acquire.h"
#include "acquire/outcome.h"
#include "multilock/multilock_plan.h"

#include "base/debug.h"
#include "base/mem.h"

#include <string.h>

struct operation;

/* A call of one member's. */
struct call {
    struct operation *op;
    hlk_lock *member; /* its handle is referenced, as its owner is: the multilock may be destroyed meanwhile */
    hlk_owner *owner;
    bool begun; /* it is one of those that are under way, or were */
    struct hlk_error error;
};

struct operation {
    struct hlk_multilock_plan plan; /* of an acquire */
    enum hlk_multilock_todo todo;   /* what is under way */
    struct hlk_job job;
    hlk_lock *multilock; /* its handle is referenced */
    hlk_done_fn *done;
    void *ctx;
    atomic_uint pending; /* completions, and the thread that starts the calls */
    size_t count;
    struct call calls[]; /* of members->locks */
};

/* --- making --- */

static struct operation *make_operation(hlk_lock *multilock, hlk_done_fn *done, void *ctx)
{
    HLK_DEBUG_ASSERT(multilock->members->count > 0);
    const struct hlk_members *members = multilock->members;
    struct operation *op = hlk_mem_zalloc(sizeof *op + members->count * sizeof op->calls[0]);
    if (!op)
        return NULL;
    op->multilock = multilock;
    hlk_handle_retain(&multilock->handle);
    op->done = done;
    op->ctx = ctx;
    op->count = members->count;
    for (size_t i = 0; i < op->count; i++) {
        hlk_lock *member = members->locks[i];
        hlk_owner *owner = hlk_lock_owner(member);
        op->calls[i] = (struct call){ .op = op, .member = member, .owner = owner };
        hlk_handle_retain(&member->handle);
        if (owner)
            atomic_fetch_add(&owner->refs, 1);
    }
    return op;
}

static void free_operation(struct operation *op)
{
    for (size_t i = 0; i < op->count; i++) {
        hlk_owner_destroy(op->calls[i].owner);
        hlk_handle_release(&op->calls[i].member->handle);
    }
    hlk_handle_release(&op->multilock->handle);
    hlk_mem_free(op);
}

static void finish_operation(struct operation *op, enum hlk_status status, const char *why)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->done);
    if (status != HLK_OK)
        (void)hlk_last_set(status, "%s", why);
    op->done(op->multilock, status, op->ctx);
    free_operation(op);
}

static struct call *member_call_of(struct operation *op, const hlk_lock *member)
{
    size_t i = 0;
    while (op->calls[i].member != member)
        i++;
    return &op->calls[i];
}

static void note_call(struct call *call, enum hlk_status status)
{
    call->error.status = HLK_OK;
    if (status != HLK_OK)
        (void)hlk_error_set(&call->error, status, "%s", hlk_last_error());
}

/* --- acquire: what is to be done, one after the other --- */

static void go_on(struct operation *op);

/* True: that completion was the last one. */
static bool is_last(struct operation *op)
{
    HLK_DEBUG_ASSERT(atomic_load(&op->pending) > 0);
    return atomic_fetch_sub(&op->pending, 1) == 1;
}

static void on_member_acquired(hlk_lock *member, enum hlk_status status, void *ctx)
{
    struct call *call = ctx;
    (void)member;
    note_call(call, status);
    if (is_last(call->op))
        go_on(call->op);
}

static void start_call(struct operation *op, const hlk_lock *member, const struct hlk_acquire_opts *opts)
{
    hlk_mutex_assert_none();
    struct call *call = member_call_of(op, member);
    call->begun = true;
    atomic_fetch_add(&op->pending, 1);
    enum hlk_status status = hlk_lock_acquire_async_as(call->member, opts, call->owner, on_member_acquired, call);
    if (status == HLK_OK)
        return;
    note_call(call, status);
    atomic_fetch_sub(&op->pending, 1); /* not the last one: that of this thread is left */
}

static void start_tries(struct operation *op)
{
    HLK_DEBUG_ASSERT(op->todo == HLK_MULTILOCK_TRY && op->plan.held < op->plan.count);
    struct hlk_acquire_opts opts = op->plan.opts;
    opts.wait_ms = 0;
    for (size_t i = op->plan.held; i < op->plan.count; i++)
        start_call(op, op->plan.order[i], &opts);
}

/* A lease is made longer by a nested acquire, which is released again. */
static void start_completing(struct operation *op)
{
    HLK_DEBUG_ASSERT(op->todo == HLK_MULTILOCK_COMPLETE && op->plan.held == op->plan.count);
    struct hlk_acquire_opts opts = op->plan.opts;
    opts.wait_ms = hlk_multilock_plan_left_ms(&op->plan);
    for (size_t i = 0; i < op->plan.held; i++) {
        hlk_lock *member = op->plan.order[i];
        opts.lease_ms = hlk_multilock_plan_lacks(&op->plan, i);
        if (opts.lease_ms < 0)
            (void)hlk_error_set(&member_call_of(op, member)->error, HLK_LOST, "lost while others were waited for");
        else if (opts.lease_ms > 0 && !member->kind->non_reentrant)
            start_call(op, member, &opts);
    }
}

/* Starts what is to be done. True: all of it is over already. */
static bool start_todo(struct operation *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->todo != HLK_MULTILOCK_DONE);
    struct hlk_acquire_opts opts;
    atomic_store(&op->pending, 1);
    for (size_t i = 0; i < op->count; i++) {
        op->calls[i].begun = false;
        op->calls[i].error.status = HLK_OK;
    }
    if (op->todo == HLK_MULTILOCK_TRY) {
        start_tries(op);
    } else if (op->todo == HLK_MULTILOCK_NEXT) {
        hlk_multilock_plan_opts(&op->plan, &opts);
        start_call(op, op->plan.order[op->plan.held], &opts);
    } else {
        start_completing(op);
    }
    return is_last(op);
}

static const struct hlk_error *acquire_error(struct operation *op)
{
    const struct hlk_error *worst = &member_call_of(op, op->plan.order[0])->error;
    for (size_t i = 1; i < op->count; i++) {
        const struct hlk_error *error = &member_call_of(op, op->plan.order[i])->error;
        if (hlk_acquire_rank(error->status) > hlk_acquire_rank(worst->status))
            worst = error;
    }
    return worst;
}

/* A try without a server ends after reply_timeout_ms: that member is waited for then, as long as a wait may last. The
 * tries of a blocking acquire last as long by themselves (try_all.c). */
static enum hlk_multilock_todo tried(struct operation *op)
{
    HLK_DEBUG_ASSERT(op->todo == HLK_MULTILOCK_TRY);
    enum hlk_status status[HLK_MULTILOCK_MAX];
    for (size_t i = op->plan.held; i < op->count; i++)
        status[i - op->plan.held] = member_call_of(op, op->plan.order[i])->error.status;
    struct hlk_error error = *acquire_error(op);
    if (error.status == HLK_E_CONNECT)
        error.status = HLK_BUSY;
    return hlk_multilock_plan_tried(&op->plan, status, &error);
}

static enum hlk_multilock_todo completed(struct operation *op)
{
    HLK_DEBUG_ASSERT(op->todo == HLK_MULTILOCK_COMPLETE);
    for (size_t i = 0; i < op->count; i++)
        if (op->calls[i].begun && op->calls[i].error.status == HLK_OK)
            hlk_multilock_plan_give_back(&op->plan, op->calls[i].member);
    const struct hlk_error *error = acquire_error(op);
    return hlk_multilock_plan_completed(&op->plan, error->status, error->text);
}

/* What was to be done is over. In a completion. */
static void go_on(struct operation *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->todo != HLK_MULTILOCK_DONE);
    do {
        const struct hlk_error *error = acquire_error(op);
        op->todo = op->todo == HLK_MULTILOCK_TRY    ? tried(op)
                   : op->todo == HLK_MULTILOCK_NEXT ? hlk_multilock_plan_acquired(&op->plan, error->status, error->text)
                                                    : completed(op);
        if (op->todo == HLK_MULTILOCK_DONE) {
            finish_operation(op, op->plan.error.status, op->plan.error.text);
            return;
        }
    } while (start_todo(op));
}

static void run_go_on(struct hlk_job *job)
{
    go_on(HLK_CONTAINER(job, struct operation, job));
}

static enum hlk_status check_clients(const hlk_lock *multilock, const char *operation)
{
    for (size_t i = 0; i < multilock->members->count; i++)
        if (multilock->members->locks[i]->client != multilock->client)
            return hlk_lock_fail(multilock, operation, HLK_E_INVALID,
                                 "async calls of a multilock need members of one client");
    return HLK_OK;
}

enum hlk_status hlk_multilock_acquire_async(hlk_lock *multilock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                            hlk_done_fn *done, void *ctx)
{
    HLK_DEBUG_ASSERT(multilock->members && done);
    (void)owner; /* of the first member, as each has its own */
    hlk_client *client = multilock->client;
    struct hlk_thread *self = hlk_thread_get();
    if (check_clients(multilock, "acquire") != HLK_OK)
        return HLK_E_INVALID;
    struct operation *op = self ? make_operation(multilock, done, ctx) : NULL;
    if (!op)
        return hlk_lock_fail(multilock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_client_ref(client); /* the completion may run before this function ends, and destroy the handle */
    hlk_client_op_begin(client);
    enum hlk_status status = hlk_lock_check(multilock, "acquire"); /* close waits from here on, or has begun before */
    if (status == HLK_OK) {
        op->job.run = run_go_on;
        op->todo = hlk_multilock_plan_start(&op->plan, multilock, opts, self);
        if (start_todo(op))
            hlk_client_complete(client, &op->job);
    } else {
        free_operation(op);
    }
    hlk_client_op_end(client);
    hlk_client_unref(client);
    return status;
}

/* --- release --- */

static const struct hlk_error *release_error(const struct operation *op)
{
    const struct hlk_error *worst = &op->calls[0].error;
    for (size_t i = 1; i < op->count; i++)
        if (hlk_release_rank(op->calls[i].error.status) > hlk_release_rank(worst->status))
            worst = &op->calls[i].error;
    return worst;
}

static void finish_release(struct operation *op)
{
    const struct hlk_error *worst = release_error(op);
    struct hlk_error error = { .status = HLK_OK };
    if (worst->status != HLK_OK)
        (void)hlk_error_set(&error, worst->status, "multilock of %zu: %s", op->count, worst->text);
    finish_operation(op, error.status, error.text);
}

static void run_finish_release(struct hlk_job *job)
{
    finish_release(HLK_CONTAINER(job, struct operation, job));
}

static void on_member_released(hlk_lock *member, enum hlk_status status, void *ctx)
{
    struct call *call = ctx;
    (void)member;
    note_call(call, status);
    if (is_last(call->op))
        finish_release(call->op);
}

/* True: one release at least is on its way. */
static bool start_releases(struct operation *op)
{
    hlk_mutex_assert_none();
    bool accepted = false;
    for (size_t i = op->count; i-- > 0;) {
        struct call *call = &op->calls[i];
        atomic_fetch_add(&op->pending, 1);
        enum hlk_status status = hlk_lock_release_async(call->member, op->done ? on_member_released : NULL, call);
        accepted |= status == HLK_OK;
        if (status != HLK_OK)
            note_call(call, status);
        if (status != HLK_OK || !op->done)
            atomic_fetch_sub(&op->pending, 1);
    }
    return accepted;
}

enum hlk_status hlk_multilock_release_async(hlk_lock *multilock, hlk_done_fn *done, void *ctx)
{
    if (done && check_clients(multilock, "release") != HLK_OK)
        return HLK_E_INVALID;
    struct operation *op = make_operation(multilock, done, ctx);
    if (!op)
        return hlk_lock_fail(multilock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    op->job.run = run_finish_release;
    atomic_store(&op->pending, 1);
    bool accepted = start_releases(op);
    if (!accepted || !done) {
        const struct hlk_error *worst = release_error(op);
        enum hlk_status status = worst->status;
        if (status != HLK_OK)
            (void)hlk_last_set(status, "multilock of %zu: %s", op->count, worst->text);
        free_operation(op);
        return status;
    }
    if (is_last(op))
        hlk_client_complete(multilock->client, &op->job);
    return HLK_OK;
}
