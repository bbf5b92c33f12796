/* Acquire without a blocked thread, on one server. */
#include "acquire/async_acquire.h"
#include "acquire/acquire_step.h"

#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_table.h"
#include "lease/local_queue.h"
#include "net/pipeline_up.h"

static struct hlk_acquiring *acquiring_of(struct hlk_async *async)
{
    return HLK_CONTAINER(async, struct hlk_acquiring, async);
}

/* --- events --- */

static void acquiring_on_up(struct hlk_up *up)
{
    hlk_loop_assert_here(HLK_CONTAINER(up, struct hlk_acquiring, up)->async.lock->client->loop);
    hlk_mutex_assert_none();
    struct hlk_async *async = &HLK_CONTAINER(up, struct hlk_acquiring, up)->async;
    if (atomic_load(&async->refs) > 0)
        hlk_async_step(async, HLK_WAKE_UP);
}

static void acquiring_on_answer(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct hlk_async *async = HLK_CONTAINER(call, struct hlk_acquire_op, cmd.call)->driver;
    hlk_async_step(async, HLK_WAKE_REPLY);
    hlk_async_unref(async); /* the attempt's reference */
}

/* Two references while an attempt is in flight, because its reply may arrive before send returns. */
static enum hlk_progress acquiring_send(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->driver && !op->in_flight);
    struct hlk_async *async = op->driver;
    op->cmd.call.waiter = NULL;
    op->cmd.call.done = acquiring_on_answer;
    op->cmd.call.lazy = acquiring_of(async)->lazy && op->cmd.attempts == 0;
    op->in_flight = true;
    hlk_async_ref(async);
    enum hlk_progress progress = hlk_command_send(&op->cmd, &op->error);
    if (progress == HLK_COMMAND_IN_FLIGHT)
        return progress;
    op->in_flight = false;
    atomic_fetch_sub(&async->refs, 1);
    return progress;
}

/* Makes sure that what the operation waits for sets a bit. */
static struct hlk_wait_for acquiring_wait_for(struct hlk_acquiring *acquiring, struct hlk_wait_for next)
{
    struct hlk_acquire_op *op = acquiring->op;
    acquiring->async.touched |= op->shared;
    if (next.what == HLK_WAIT_REPLY && op->machine.once && !op->cmd.doubt)
        next.until_ms = INT64_MAX; /* one try ends with its connection's reply_timeout_ms */
    if (next.what != HLK_WAIT_CONNECTION)
        return next;
    acquiring->async.touched = true;
    if (!hlk_pipeline_when_up(op->cmd.pipeline, &acquiring->up, op->cmd.reroutes))
        atomic_fetch_or(&acquiring->async.bits, HLK_WAKE_UP);
    return next;
}

static struct hlk_wait_for acquiring_step(struct hlk_async *async, unsigned events)
{
    struct hlk_acquiring *acquiring = acquiring_of(async);
    return acquiring_wait_for(acquiring, hlk_acquire_step(acquiring->op, events));
}

/* --- the end --- */

static void acquiring_complete(void *ctx)
{
    struct hlk_async *async = ctx;
    hlk_client_complete(async->lock->client, &async->job);
}

/* Later operations of the same owner complete after it. */
static void acquiring_end(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    struct hlk_acquiring *acquiring = acquiring_of(async);
    struct hlk_acquire_op *op = acquiring->op;
    struct hlk_entry *e = op->entry;
    hlk_client *client = op->lock->client;
    if (async->touched)
        (void)hlk_pipeline_forget_up(op->cmd.pipeline, &acquiring->up);
    async->status = hlk_acquire_finish(op);
    if (async->status != HLK_OK)
        (void)hlk_error_set(&async->error, async->status, "%s", hlk_last_error());
    hlk_client_ref(client); /* the completion may run at once and destroy the handle; then these references keep them */
    hlk_entry_ref(e);
    if (op->won && !op->raising) /* a nested hold reports nothing: the holder may be another one by now */
        hlk_entry_report_acquired(e, op->waiter.holder.id, acquiring->complete, async);
    else
        acquiring->complete(async);
    hlk_entry_unref(e);
    hlk_client_op_end(client);
    hlk_client_unref(client);
}

static void acquiring_free(struct hlk_async *async)
{
    struct hlk_acquiring *acquiring = acquiring_of(async);
    hlk_acquire_op_free(acquiring->op);
    hlk_mem_free(acquiring);
}

/* --- acquire --- */

static const struct hlk_async_type type = { acquiring_step, acquiring_end, acquiring_free };

struct hlk_acquiring *hlk_acquiring_make(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                         hlk_owner *owner, void (*complete)(void *async))
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(complete);
    struct hlk_acquiring *acquiring = hlk_mem_zalloc(sizeof *acquiring);
    if (!acquiring) {
        hlk_acquire_terms_drop(terms);
        return NULL;
    }
    struct hlk_acquire_op *op = hlk_acquire_op_make(terms, opts);
    if (!op) {
        hlk_mem_free(acquiring);
        return NULL;
    }
    hlk_async_init(&acquiring->async, &type, terms->lock, owner);
    op->driver = &acquiring->async;
    op->waker = &acquiring->async.waker;
    op->send = acquiring_send;
    op->waiter.completes = true;
    op->eintr = false;
    acquiring->op = op;
    acquiring->up.run = acquiring_on_up;
    acquiring->complete = complete;
    return acquiring;
}

enum hlk_status hlk_acquiring_start(struct hlk_acquiring *acquiring, const struct hlk_acquire_opts *opts)
{
    hlk_mutex_assert_none();
    struct hlk_acquire_op *op = acquiring->op;
    hlk_lock *lock = op->lock;
    const struct hlk_acquire_terms terms = { .lock = lock, .entry = op->entry, .holder = op->waiter.holder };
    unsigned count = 0;
    uint64_t h = 0;
    enum hlk_status status =
        hlk_lock_check(lock, "acquire"); /* close waits for this call from here on, or has begun before */
    if (status != HLK_OK) {
        hlk_acquire_op_leave(op);
        hlk_client_op_end(lock->client);
        hlk_async_drop(&acquiring->async);
        return status;
    }
    enum hlk_enter nested = hlk_acquire_nest(&terms, opts, &count, &h);
    hlk_async_start(&acquiring->async, acquiring_wait_for(acquiring, hlk_acquire_start(op, nested, count, h)));
    return HLK_OK;
}

void hlk_acquiring_limit(struct hlk_acquiring *acquiring, int64_t at_ms)
{
    HLK_DEBUG_ASSERT(acquiring->op->wait_for.what == HLK_WAIT_START);
    struct hlk_acquire_op *op = acquiring->op;
    op->machine.deadline_ms = op->machine.until_ms = op->cmd.limits.at_ms = at_ms;
}

void hlk_acquiring_stop(struct hlk_acquiring *acquiring)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&acquiring->async.refs) > 0);
    atomic_store(&acquiring->op->stopped, true);
    hlk_async_step(&acquiring->async, HLK_WAKE_CANCEL);
}

enum hlk_status hlk_lock_acquire_async_as(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                          hlk_done_fn *done, void *ctx)
{
    if (hlk_lock_group(lock))
        return hlk_lock_group(lock)->acquire_async(lock, opts, owner, done, ctx);
    const struct hlk_acquire_terms terms = { .lock = lock, .entry = lock->entry, .holder = lock->holder };
    return hlk_acquire_async_on(&terms, opts, owner, done, ctx);
}

enum hlk_status hlk_acquire_async_on(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                     hlk_owner *owner, hlk_done_fn *done, void *ctx)
{
    HLK_DEBUG_ASSERT(done && terms->entry && terms->holder.id);
    struct hlk_acquiring *acquiring = hlk_acquiring_make(terms, opts, owner, acquiring_complete);
    if (!acquiring)
        return hlk_lock_fail(terms->lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    acquiring->async.done = done;
    acquiring->async.ctx = ctx;
    return hlk_acquiring_start(acquiring, opts);
}

enum hlk_status hlk_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *given, hlk_done_fn *done,
                                       void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(lock, "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    hlk_owner *owner = hlk_lock_owner(lock); /* in a completion, the handle may be destroyed and have no owner */
    if (!owner || !done)
        return hlk_lock_fail(lock, "acquire", HLK_E_INVALID,
                             done ? "an async acquire needs a lock made with an owner"
                                  : "an async acquire needs a completion");
    return hlk_lock_acquire_async_as(lock, &opts, owner, done, ctx);
}
