#include "acquire/acquire_blocking.h"

#include "acquire/acquire_step.h"
#include "base/debug.h"
#include "base/nocancel.h"
#include "lease/local_queue.h"
#include "lease/shared_hold.h"
#include "net/pipeline_up.h"
#include "net/pipeline_wait.h"
#include "net/subscriber_read.h"

#include <pthread.h>

#define NEWS (HLK_WAKE_QUEUE | HLK_WAKE_MESSAGE | HLK_WAKE_SUBSCRIBED | HLK_WAKE_SUBSCRIBE_FAILED)

static void on_orphan(struct hlk_call *call)
{
    hlk_acquire_op_free(HLK_CONTAINER(call, struct hlk_acquire_op, cmd.call));
}

/* The operation has left. Its memory is freed, or belongs to the attempt that is still in flight. */
static void drop(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    if (!op->in_flight || !hlk_pipeline_leave(op->cmd.pipeline, &op->cmd.call, on_orphan))
        hlk_acquire_op_free(op);
}

static void report_acquired(struct hlk_acquire_op *op)
{
    if (op->won && !op->raising)
        hlk_entry_report_acquired(op->entry, op->waiter.holder.id, NULL, NULL);
}

static void on_thread_cancel(void *arg)
{
    hlk_mutex_assert_none();
    struct hlk_acquire_op *op = arg;
    HLK_COUNT(&op->lock->client->table, interrupted);
    report_acquired(op);
    hlk_acquire_abandon(op);
    drop(op);
}

static enum hlk_progress lock_send(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->in_flight);
    op->cmd.call.waiter = op->waker->thread;
    enum hlk_progress progress = hlk_command_send(&op->cmd, &op->error);
    op->in_flight = progress == HLK_COMMAND_IN_FLIGHT;
    return progress;
}

/* --- the sleeps: the events that end them --- */

static unsigned take_bits(struct hlk_acquire_op *op, unsigned mask)
{
    unsigned bits = hlk_park_take(&op->waker->thread->park, mask);
    return bits ? bits : HLK_WAKE_TIME;
}

static unsigned await_reply(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    bool ended = hlk_pipeline_wait(op->cmd.pipeline, &op->cmd.call, op->wait_for.until_ms, HLK_WAKE_LEAVE);
    return ended ? HLK_WAKE_REPLY : take_bits(op, HLK_WAKE_LEAVE);
}

static unsigned await_connection(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    struct hlk_command *cmd = &op->cmd;
    struct hlk_error error;
    enum hlk_status status =
        cmd->router
            ? hlk_pipeline_wait_since(cmd->pipeline, op->waker->thread, op->wait_for.until_ms, HLK_WAKE_LEAVE,
                                      cmd->reroutes, &error)
            : hlk_pipeline_wait_up(cmd->pipeline, op->waker->thread, op->wait_for.until_ms, HLK_WAKE_LEAVE, &error);
    if (status == HLK_INTERRUPTED || status == HLK_E_CONNECT)
        return take_bits(op, HLK_WAKE_LEAVE);
    return HLK_WAKE_UP; /* or the connection will never be up: the next attempt says why */
}

/* signals: a signal that was handled ends the sleep, if the caller asked for that. reads: the thread reads the
 * subscriber connection meanwhile, unless signals may end the sleep. */
static unsigned sleep_for(struct hlk_acquire_op *op, unsigned mask, bool signals, bool reads)
{
    hlk_mutex_assert_none();
    bool signalled = false;
    mask |= HLK_WAKE_LEAVE;
    if (reads && !op->eintr) {
        hlk_subscriber_park(&op->server->channels.pubsub, op->waker->thread, mask, op->wait_for.until_ms);
        return take_bits(op, mask);
    }
    hlk_thread_allow_cancel(op->waker->thread);
    (void)hlk_park_until(&op->waker->thread->park, mask, op->wait_for.until_ms, op->waker->thread->event_fd,
                         signals && op->eintr ? &signalled : NULL);
    hlk_thread_forbid_cancel(op->waker->thread);
    if (signalled)
        (void)hlk_acquire_abort(op, HLK_INTERRUPTED, "interrupted by a signal");
    return take_bits(op, mask);
}

static unsigned lock_wait(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->wait_for.what != HLK_WAIT_DONE);
    switch (op->wait_for.what) {
    case HLK_WAIT_REPLY:
        return await_reply(op);
    case HLK_WAIT_CONNECTION:
        return await_connection(op);
    case HLK_WAIT_QUEUE:
        return sleep_for(op, HLK_WAKE_QUEUE, true, false);
    case HLK_WAIT_MESSAGES:
        return sleep_for(op, NEWS, true, !op->lock->kind->polls);
    case HLK_WAIT_REPLICAS:
        return sleep_for(op, HLK_WAKE_SETTLED, true, false);
    default:
        return sleep_for(op, 0, false, false);
    }
}

/* --- acquire --- */

/* For a holder that has the lock and raises its lease, or that has to ask for the lock: a round trip at least, or a
 * wait. */
static enum hlk_status acquire_by_op(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                     struct hlk_thread *self, enum hlk_enter nested, unsigned count, uint64_t h)
{
    hlk_mutex_assert_none();
    hlk_lock *lock = terms->lock;
    if ((opts->flags & HLK_ACQUIRE_EINTR) && hlk_thread_event_fd(self) < 0) {
        hlk_acquire_terms_drop(terms);
        return hlk_lock_fail(lock, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    }
    struct hlk_waker waker = { .thread = self };
    struct hlk_acquire_op *op = hlk_acquire_op_make(terms, opts);
    if (!op)
        return hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    op->waker = &waker;
    op->send = lock_send;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    pthread_cleanup_push(on_thread_cancel, op);
    struct hlk_wait_for next = hlk_acquire_start(op, nested, count, h);
    while (next.what != HLK_WAIT_DONE)
        next = hlk_acquire_step(op, lock_wait(op));
    pthread_cleanup_pop(0);
    report_acquired(op);
    enum hlk_status status = hlk_acquire_finish(op);
    drop(op);
    return status;
}

/* The holder enters a hold that its process has: nothing is sent, and no operation is needed. Close ends shared holds
 * before it walks over the entries, so it finds this one. */
static bool enter_shared(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts)
{
    hlk_lock *lock = terms->lock;
    struct hlk_local_waiter waiter = { .holder = terms->holder, .handle = &lock->handle, .shares = true };
    if (opts->cancel || !hlk_acquire_shares(terms, opts) || !hlk_shared_enter(terms->entry, &waiter))
        return false;
    HLK_COUNT(&lock->client->table, acquired);
    HLK_COUNT(&lock->client->table, wait_us[0]);
    return true;
}

/* Cancellation is disabled in here except during the sleeps of the operation. Nested holds take only nanoseconds and
 * leave it as it is. */
enum hlk_status hlk_acquire_on(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                               struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self && terms->lock && terms->entry);
    hlk_lock *lock = terms->lock;
    unsigned count = 0;
    uint64_t h = 0;
    enum hlk_enter nested = hlk_acquire_nest(terms, opts, &count, &h);
    if (nested == HLK_ENTER_NESTED) {
        HLK_COUNT(&lock->client->table, reentered);
        return HLK_OK;
    }
    if (nested == HLK_ENTER_LOST)
        return hlk_lock_lost_before(lock, terms->entry, terms->holder.id);
    if (nested == HLK_ENTER_QUEUED && enter_shared(terms, opts))
        return HLK_OK;
    int old = hlk_nocancel_begin();
    self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    enum hlk_status status = acquire_by_op(terms, opts, self, nested, count, h);
    self->cancellable = false;
    hlk_nocancel_end(old);
    return status;
}
