/* Acquire without a blocked thread: which thread runs the steps, and how long the operation lives. The steps are in
 * async_step.c. */
#include "api/async.h"

#include "api/acquire_report.h"
#include "base/clock.h"
#include "base/mem.h"

static void step_all(struct hlk_async *async);

/* --- wake-ups --- */

static void async_wake(struct hlk_acquire_op *op, unsigned bit)
{
    struct hlk_async *async = op->driver;
    atomic_fetch_or(&async->bits, bit);
    hlk_loop_post(op->lock->client->loop, &async->post);
}

static void free_async(struct hlk_async *async)
{
    hlk_owner *owner = async->owner;
    hlk_raise_end(&async->raise, &async->op->cmd);
    hlk_acquire_op_free(async->op);
    hlk_mem_free(async);
    hlk_owner_destroy(owner);
}

static void async_on_end(struct hlk_post *post)
{
    free_async(HLK_CONTAINER(post, struct hlk_async, end));
}

/* If the loop may have a pointer to it, it is freed on the loop. */
static void async_unref(struct hlk_async *async)
{
    if (atomic_fetch_sub(&async->refs, 1) != 1)
        return;
    hlk_loop *loop = async->op->lock->client->loop;
    if (!async->touched || !hlk_loop_try_post(loop, &async->end))
        free_async(async);
}

static void async_on_post(struct hlk_post *post)
{
    struct hlk_async *async = HLK_CONTAINER(post, struct hlk_async, post);
    if (atomic_load(&async->refs) > 0)
        step_all(async); /* else the post that frees it is queued */
}

static void on_alarm(struct hlk_alarm *alarm)
{
    struct hlk_async *async = HLK_CONTAINER(alarm, struct hlk_async, alarm);
    if (atomic_load(&async->refs) == 0)
        return; /* the post that frees it is queued */
    atomic_fetch_or(&async->bits, HLK_WAKE_TIME);
    step_all(async);
}

static void async_on_up(struct hlk_up *up)
{
    struct hlk_async *async = HLK_CONTAINER(up, struct hlk_async, up);
    if (atomic_load(&async->refs) == 0)
        return;
    atomic_fetch_or(&async->bits, HLK_WAKE_UP);
    step_all(async);
}

static void async_on_answer(struct hlk_call *call)
{
    struct hlk_acquire_op *op = HLK_CONTAINER(call, struct hlk_acquire_op, cmd.call);
    struct hlk_async *async = op->driver;
    atomic_fetch_or(&async->bits, HLK_WAKE_REPLY);
    step_all(async);
    async_unref(async); /* the attempt's reference */
}

/* --- the end --- */

static void run_done(struct hlk_job *job)
{
    struct hlk_async *async = HLK_CONTAINER(job, struct hlk_async, job);
    if (async->status != HLK_OK)
        (void)hlk_last_set(async->status, "%s", async->told.text);
    async->done(async->op->lock, async->status, async->ctx);
    async_unref(async);
}

/* The machine has its status. */
static void async_finish(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    hlk_client *client = op->lock->client;
    if (async->touched) {
        hlk_loop_cancel(client->loop, &async->alarm);
        (void)hlk_pipeline_forget_up(op->cmd.pipeline, &async->up);
    }
    bool held = op->machine.status == HLK_OK && !async->op->raising && !op->lock->kind->format->holds_nothing;
    if (held && atomic_load(&client->closing)) {
        hlk_entry_give_back(op->lock->entry, op->waiter.holder.id); /* as in api/lock.c */
        op->machine.status = hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    }
    if (async->op->raising && op->machine.status != HLK_OK)
        hlk_entry_raise_undo(op->lock->entry, op->waiter.holder.id, op->cmd.hold);
    hlk_acquire_op_leave(op);
    async->status = hlk_acquire_op_report(op, op->machine.status);
    if (async->status != HLK_OK)
        (void)hlk_error_set(&async->told, async->status, "%s", hlk_last_error());
}

static void async_complete(void *ctx)
{
    struct hlk_async *async = ctx;
    hlk_client_complete(async->op->lock->client, &async->job);
}

/* The last action of this thread on it. Later operations of the same owner complete after it. */
static void conclude(struct hlk_async *async)
{
    struct hlk_entry *e = async->op->lock->entry;
    hlk_client *client = async->op->lock->client;
    hlk_client_ref(client); /* the completion may run at once and destroy the handle; then these references keep them */
    hlk_entry_ref(e);
    if (async->op->won && !async->op->raising) /* a nested hold reports nothing: the holder may be another one by now */
        hlk_entry_report_acquired(e, async->op->waiter.holder.id, async_complete, async);
    else
        async_complete(async);
    hlk_entry_unref(e);
    hlk_client_op_end(client);
    hlk_client_unref(client);
}

/* Runs steps until no event is left. The caller has set HLK_ASYNC_RUNNING. After the end the bit stays set. */
static void async_run(struct hlk_async *async)
{
    for (;;) {
        unsigned bits = atomic_fetch_and(&async->bits, HLK_ASYNC_RUNNING) & ~HLK_ASYNC_RUNNING;
        if (bits && !async->over)
            hlk_async_step(async, bits);
        if (async->over) {
            async_finish(async);
            conclude(async);
            return;
        }
        unsigned running = HLK_ASYNC_RUNNING;
        if (!bits && atomic_compare_exchange_strong(&async->bits, &running, 0))
            return;
    }
}

static void step_all(struct hlk_async *async)
{
    if (!(atomic_fetch_or(&async->bits, HLK_ASYNC_RUNNING) & HLK_ASYNC_RUNNING))
        async_run(async);
}

/* --- acquire --- */

enum hlk_status hlk_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *given, hlk_done_fn *done,
                                       void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_acquire_op_read_opts(lock, "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    hlk_owner *owner = atomic_load(&lock->owner); /* in a completion, the handle may be destroyed and have no owner */
    if (!owner || !done)
        return hlk_lock_fail(lock, "acquire", HLK_E_INVALID,
                             done ? "an async acquire needs a lock made with an owner"
                                  : "an async acquire needs a completion");
    struct hlk_async *async = hlk_mem_zalloc(sizeof *async);
    struct hlk_acquire_op *op = async ? hlk_acquire_op_make(lock, &opts, lock->holder) : NULL;
    if (!op) {
        hlk_mem_free(async);
        return hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    }
    status = hlk_lock_check(lock, "acquire"); /* close waits for this call from here on, or has begun before */
    if (status != HLK_OK) {
        hlk_acquire_op_leave(op);
        hlk_acquire_op_free(op);
        hlk_mem_free(async);
        return status;
    }
    op->driver = async;
    op->wake = async_wake;
    op->waiter.completes = true;
    op->eintr = false;
    async->op = op;
    async->on_answer = async_on_answer;
    async->done = done;
    async->ctx = ctx;
    async->post.run = async_on_post;
    async->end.run = async_on_end;
    async->owner = owner;
    atomic_fetch_add(&owner->refs, 1);
    async->alarm.fire = on_alarm;
    async->up.run = async_on_up;
    async->job.run = run_done;
    atomic_init(&async->refs, 1);
    atomic_init(&async->bits, HLK_ASYNC_RUNNING);
    hlk_async_start(async);
    async_run(async);
    return HLK_OK;
}
