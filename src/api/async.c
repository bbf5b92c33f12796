/* Acquire without a blocked thread: which thread runs the steps, and how long the operation lives. */
#include "api/acquire_step.h"

#include "base/mem.h"

#define ASYNC_RUNNING 0x40000000u /* a thread runs the steps, and will see events that arrive meanwhile */

/* Events come from the loop, from the leader of the connection and from a cancel. They are bits. The thread that sets a
 * bit runs the steps, unless another one does. So steps never overlap, and no mutex is held during their I/O. */
struct hlk_async {
    atomic_uint bits;
    atomic_int refs; /* the completion's, and one for an attempt in flight */
    bool touched;    /* the loop may have a pointer to it: free it on the loop thread */
    bool over;       /* no further steps */
    struct hlk_acquire_op *op;
    hlk_owner *owner; /* referenced: the handle may be destroyed while this waits */
    struct hlk_post post;
    struct hlk_post end; /* frees it: posted once, with the last reference */
    struct hlk_alarm alarm;
    int64_t alarm_ms; /* when it is due; 0: it is not armed */
    struct hlk_up up;
    struct hlk_job job;
    hlk_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error error; /* the thread's error, for the thread of the callback */
};

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

/* --- the driver --- */

/* Two references while an attempt is in flight, because its reply may arrive before send returns. */
static enum hlk_progress async_send(struct hlk_acquire_op *op)
{
    struct hlk_async *async = op->driver;
    op->cmd.call.waiter = NULL;
    op->cmd.call.done = async_on_answer;
    op->cmd.call.lazy = false;
    op->in_flight = true;
    atomic_fetch_add(&async->refs, 1);
    enum hlk_progress progress = hlk_command_send(&op->cmd, &op->error);
    if (progress == HLK_COMMAND_IN_FLIGHT)
        return progress;
    op->in_flight = false;
    atomic_fetch_sub(&async->refs, 1);
    return progress;
}

/* One try ends with its connection's reply_timeout_ms. */
static bool needs_alarm(const struct hlk_async *async, struct hlk_wait_for next)
{
    const struct hlk_acquire_op *op = async->op;
    bool ends_by_itself = next.what == HLK_WAIT_REPLY && op->machine.once && !op->cmd.doubt;
    return next.until_ms != INT64_MAX && next.until_ms != async->alarm_ms && !ends_by_itself;
}

/* Makes sure that what the operation waits for sets a bit. */
static void async_wait_for(struct hlk_async *async, struct hlk_wait_for next)
{
    struct hlk_acquire_op *op = async->op;
    async->over = next.what == HLK_WAIT_DONE;
    async->touched |= op->shared;
    if (async->over)
        return;
    if (needs_alarm(async, next)) {
        async->touched = true;
        async->alarm_ms = next.until_ms;
        hlk_loop_arm(op->lock->client->loop, &async->alarm, next.until_ms);
    }
    if (next.what != HLK_WAIT_CONNECTION)
        return;
    async->touched = true;
    if (!hlk_pipeline_when_up(op->cmd.pipeline, &async->up, op->cmd.reroutes))
        atomic_fetch_or(&async->bits, HLK_WAKE_UP);
}

/* --- the end --- */

static void run_done(struct hlk_job *job)
{
    struct hlk_async *async = HLK_CONTAINER(job, struct hlk_async, job);
    if (async->status != HLK_OK)
        (void)hlk_last_set(async->status, "%s", async->error.text);
    async->done(async->op->lock, async->status, async->ctx);
    async_unref(async);
}

static void async_finish(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    if (async->touched) {
        hlk_loop_cancel(op->lock->client->loop, &async->alarm);
        (void)hlk_pipeline_forget_up(op->cmd.pipeline, &async->up);
    }
    async->status = hlk_acquire_finish(op);
    if (async->status != HLK_OK)
        (void)hlk_error_set(&async->error, async->status, "%s", hlk_last_error());
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

/* Runs steps until no event is left. The caller has set ASYNC_RUNNING. After the end the bit stays set. */
static void async_run(struct hlk_async *async)
{
    for (;;) {
        unsigned bits = atomic_fetch_and(&async->bits, ASYNC_RUNNING) & ~ASYNC_RUNNING;
        if (bits & HLK_WAKE_TIME)
            async->alarm_ms = 0;
        if (bits && !async->over)
            async_wait_for(async, hlk_acquire_step(async->op, bits));
        if (async->over) {
            async_finish(async);
            conclude(async);
            return;
        }
        unsigned running = ASYNC_RUNNING;
        if (!bits && atomic_compare_exchange_strong(&async->bits, &running, 0))
            return;
    }
}

static void step_all(struct hlk_async *async)
{
    if (!(atomic_fetch_or(&async->bits, ASYNC_RUNNING) & ASYNC_RUNNING))
        async_run(async);
}

/* --- acquire --- */

/* NULL: no memory. */
static struct hlk_async *make_async(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_done_fn *done, void *ctx)
{
    struct hlk_async *async = hlk_mem_zalloc(sizeof *async);
    struct hlk_acquire_op *op = async ? hlk_acquire_op_make(lock, opts, lock->holder) : NULL;
    if (!op) {
        hlk_mem_free(async);
        return NULL;
    }
    op->driver = async;
    op->wake = async_wake;
    op->send = async_send;
    op->waiter.completes = true;
    op->eintr = false;
    async->op = op;
    async->done = done;
    async->ctx = ctx;
    async->post.run = async_on_post;
    async->end.run = async_on_end;
    async->alarm.fire = on_alarm;
    async->up.run = async_on_up;
    async->job.run = run_done;
    atomic_init(&async->refs, 1);
    atomic_init(&async->bits, ASYNC_RUNNING);
    return async;
}

enum hlk_status hlk_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *given, hlk_done_fn *done,
                                       void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_enter nested;
    unsigned count = 0;
    uint64_t h = 0;
    enum hlk_status status = hlk_lock_check_single(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_acquire_op_read_opts(lock, "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    hlk_owner *owner = atomic_load(&lock->owner); /* in a completion, the handle may be destroyed and have no owner */
    if (!owner || !done)
        return hlk_lock_fail(lock, "acquire", HLK_E_INVALID,
                             done ? "an async acquire needs a lock made with an owner"
                                  : "an async acquire needs a completion");
    struct hlk_async *async = make_async(lock, &opts, done, ctx);
    if (!async)
        return hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    status = hlk_lock_check(lock, "acquire"); /* close waits for this call from here on, or has begun before */
    if (status != HLK_OK) {
        hlk_acquire_op_leave(async->op);
        hlk_acquire_op_free(async->op);
        hlk_mem_free(async);
        return status;
    }
    async->owner = owner;
    atomic_fetch_add(&owner->refs, 1);
    nested = hlk_acquire_nest(lock, &opts, lock->holder, &count, &h);
    async_wait_for(async,
                   hlk_acquire_start(async->op, nested, count, h)); /* events that arrive meanwhile: in async_run */
    async_run(async);
    return HLK_OK;
}
