/* The reentrant lock, blocking: the calling thread does its own I/O. */
#include "api/acquire_listen.h"

#include "api/acquire_report.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- acquire --- */

#define LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)
#define HEAR (HLK_WAKE_QUEUE | HLK_WAKE_MESSAGE | HLK_WAKE_SUBSCRIBED | HLK_WAKE_SUBSCRIBE_FAILED)

static void on_orphan(struct hlk_call *call)
{
    hlk_acquire_op_free(HLK_CONTAINER(call, struct hlk_acquire_op, cmd.call));
}

/* Leaves for good: everything is rolled back. The memory is freed, or left to the attempt that is still in flight. */
static void drop(struct hlk_acquire_op *op)
{
    hlk_acquire_op_leave(op);
    if (!op->in_flight || !hlk_pipeline_leave(op->cmd.pipeline, &op->cmd.call, on_orphan))
        hlk_acquire_op_free(op);
}

static void on_thread_cancel(void *arg)
{
    struct hlk_acquire_op *op = arg;
    HLK_COUNT(&op->lock->client->table, interrupted);
    if (op->won)
        hlk_entry_report_acquired(op->lock->entry, op->waiter.holder.id, NULL, NULL);
    drop(op);
}

static enum hlk_acquire_event lock_over(struct hlk_acquire_op *op, enum hlk_status status)
{
    op->error.status = status;
    return HLK_ACQUIRE_ON_ABORT;
}

/* A bit that ends the wait was set. Bits are hints, so this checks the cause; op->error has the reason to leave. */
static bool must_leave(struct hlk_acquire_op *op)
{
    unsigned bits = hlk_park_take(&op->self->park, LEAVE);
    if ((bits & HLK_WAKE_CLOSED) && atomic_load(&op->lock->client->closing))
        (void)hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    else if ((bits & HLK_WAKE_CANCEL) && hlk_cancel_triggered(op->cancel))
        (void)hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

/* Sends until answered. */
static enum hlk_acquire_event lock_ask(struct hlk_acquire_op *op)
{
    enum hlk_status status;
    hlk_acquire_op_get_refused(op);
    do {
        status = hlk_command_run(&op->cmd, op->self, LEAVE, &op->in_flight, &op->error);
        if (status == HLK_INTERRUPTED && must_leave(op))
            return HLK_ACQUIRE_ON_ABORT;
    } while (status == HLK_INTERRUPTED);
    hlk_acquire_op_set_refused(op);
    if (status == HLK_OK)
        return hlk_acquire_op_answer(op);
    bool late = status == HLK_E_UNSURE || status == HLK_E_CONNECT;
    return late && hlk_clock_ms() >= op->machine.deadline_ms ? hlk_acquire_op_timeout(op) : HLK_ACQUIRE_ON_ABORT;
}

/* Sleeps until a bit of `bits`, or one that may end the wait, is set, or until at_ms. reads: also reads the subscriber
 * connection meanwhile, unless signals may end the sleep. HLK_OK: check the state. HLK_INTERRUPTED: a signal
 * (op->error). */
static enum hlk_status sleep_until(struct hlk_acquire_op *op, unsigned bits, int64_t at_ms, bool reads)
{
    bool signalled = false;
    if (reads && !op->eintr) {
        hlk_subscriber_park(&op->server->channels.pubsub, op->self, bits | LEAVE, at_ms);
        return HLK_OK;
    }
    hlk_thread_allow_cancel(op->self);
    (void)hlk_park_until(&op->self->park, bits | LEAVE, at_ms, op->self->event_fd, op->eintr ? &signalled : NULL);
    hlk_thread_forbid_cancel(op->self);
    return signalled ? hlk_error_set(&op->error, HLK_INTERRUPTED, "interrupted by a signal") : HLK_OK;
}

static enum hlk_acquire_event do_ask(struct hlk_acquire_op *op)
{
    enum hlk_acquire_event what = hlk_acquire_op_prepare(op);
    return what == HLK_ACQUIRE_ON_HEAD ? lock_ask(op) : what;
}

static enum hlk_acquire_event do_line(struct hlk_acquire_op *op)
{
    for (;;) {
        (void)hlk_park_take(&op->self->park, HLK_WAKE_QUEUE);
        switch (hlk_entry_check(op->lock->entry, &op->waiter)) {
        case HLK_ENTER_HEAD:
            return hlk_acquire_op_become_head(op);
        case HLK_ENTER_ACQUIRED:
            return hlk_acquire_op_acquired(op);
        case HLK_ENTER_BUSY:
            return lock_over(op, HLK_BUSY);
        case HLK_ENTER_LOST:
            return lock_over(op, HLK_LOST);
        case HLK_ENTER_DEADLOCK:
            return lock_over(op, HLK_DEADLOCK);
        case HLK_ENTER_RAISE:
            op->raises = true;
            return HLK_ACQUIRE_ON_ACQUIRED;
        case HLK_ENTER_NESTED:
            return HLK_ACQUIRE_ON_ACQUIRED; /* another thread of its owner has acquired it meanwhile */
        default:
            break;
        }
        if (must_leave(op))
            return HLK_ACQUIRE_ON_ABORT;
        if (hlk_clock_ms() >= op->machine.deadline_ms)
            return hlk_acquire_op_queue_timeout(op);
        if (sleep_until(op, HLK_WAKE_QUEUE, op->machine.deadline_ms, false) != HLK_OK)
            return lock_over(op, HLK_INTERRUPTED);
    }
}

static enum hlk_acquire_event do_park(struct hlk_acquire_op *op)
{
    for (;;) {
        unsigned bits = hlk_park_take(&op->self->park, HEAR);
        if ((bits & HLK_WAKE_QUEUE) && hlk_entry_check(op->lock->entry, &op->waiter) == HLK_ENTER_ACQUIRED)
            return hlk_acquire_op_acquired(op);
        if (bits & HLK_WAKE_SUBSCRIBE_FAILED) {
            hlk_acquire_listen_failed(op);
            return HLK_ACQUIRE_ON_ABORT;
        }
        if (bits & HLK_WAKE_SUBSCRIBED)
            return HLK_ACQUIRE_ON_SUBSCRIBED;
        if (bits & HLK_WAKE_MESSAGE)
            return HLK_ACQUIRE_ON_MESSAGE;
        if (must_leave(op))
            return HLK_ACQUIRE_ON_ABORT;
        if (hlk_clock_ms() >= op->machine.until_ms)
            return HLK_ACQUIRE_ON_TIME;
        if (sleep_until(op, HEAR, op->machine.until_ms, !op->lock->kind->polls) != HLK_OK)
            return lock_over(op, HLK_INTERRUPTED);
    }
}

static enum hlk_acquire_event do_confirm(struct hlk_acquire_op *op)
{
    enum hlk_acquire_event what = hlk_acquire_op_confirm(op);
    while (what == HLK_ACQUIRE_ON_JOINED) {
        (void)hlk_park_take(&op->self->park, HLK_WAKE_SETTLED);
        what = hlk_acquire_op_confirmed(op);
        if (what != HLK_ACQUIRE_ON_JOINED)
            break;
        if (must_leave(op))
            return HLK_ACQUIRE_ON_ABORT;
        if (hlk_clock_ms() >= op->machine.until_ms)
            return HLK_ACQUIRE_ON_TIME;
        if (sleep_until(op, HLK_WAKE_SETTLED, op->machine.until_ms, false) != HLK_OK)
            return lock_over(op, HLK_INTERRUPTED);
    }
    return what;
}

/* From here on the wait may last: close and cancel must find it. */
static bool settle_in(struct hlk_acquire_op *op)
{
    return op->machine.once || hlk_acquire_op_wait(op) == HLK_OK;
}

static enum hlk_status lock_run(struct hlk_acquire_op *op, enum hlk_acquire_event what)
{
    for (;;) {
        switch (hlk_acquire_machine_step(&op->machine, what, hlk_clock_ms(), &op->busy, op->error.status)) {
        case HLK_ACQUIRE_DO_SEND:
            what = do_ask(op);
            break;
        case HLK_ACQUIRE_DO_QUEUE:
            what = op->machine.once || hlk_acquire_op_queue(op) == HLK_OK ? do_line(op) : HLK_ACQUIRE_ON_ABORT;
            break;
        case HLK_ACQUIRE_DO_JOIN:
            what = settle_in(op) ? hlk_acquire_listen_inbox(op) : HLK_ACQUIRE_ON_ABORT;
            break;
        case HLK_ACQUIRE_DO_SUBSCRIBE:
            what = hlk_acquire_listen_foreign(op);
            break;
        case HLK_ACQUIRE_DO_PARK:
            what = settle_in(op) ? do_park(op) : HLK_ACQUIRE_ON_ABORT;
            break;
        case HLK_ACQUIRE_DO_CONFIRM:
            what = do_confirm(op);
            break;
        case HLK_ACQUIRE_DO_FINISH:
            return op->machine.status;
        }
    }
}

/* *raises: it became a nested hold whose lease must be raised. */
static enum hlk_status acquire_first(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_thread *self,
                                     struct hlk_holder holder, bool *raises)
{
    struct hlk_acquire_op *op = hlk_acquire_op_make(lock, opts, holder);
    if (!op)
        return hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    if (op->eintr && hlk_thread_event_fd(self) < 0) {
        drop(op);
        return hlk_lock_fail(lock, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    }
    op->self = self;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    enum hlk_status status;
    pthread_cleanup_push(on_thread_cancel, op);
    status = hlk_acquire_op_begin(op);
    if (status == HLK_OK) {
        switch (hlk_entry_enter(lock->entry, &op->waiter)) {
        case HLK_ENTER_HEAD:
            status = lock_run(op, hlk_acquire_op_become_head(op));
            break;
        case HLK_ENTER_QUEUED:
            status = lock_run(op, HLK_ACQUIRE_ON_QUEUED);
            break;
        case HLK_ENTER_BUSY:
            status = HLK_BUSY;
            break;
        case HLK_ENTER_LOST:
            status = HLK_LOST;
            break;
        case HLK_ENTER_DEADLOCK:
            status = HLK_DEADLOCK;
            break;
        case HLK_ENTER_NOMEM:
            status = hlk_error_set(&op->error, HLK_E_NOMEM, "no memory for a token");
            break;
        case HLK_ENTER_RAISE:
            op->raises = true;
            break;
        default:
            break; /* nested since the check, by its owner's other thread */
        }
    }
    pthread_cleanup_pop(0);
    if (op->won)
        hlk_entry_report_acquired(lock->entry, holder.id, NULL, NULL);
    if (status == HLK_OK && !lock->kind->format->holds_nothing && atomic_load(&lock->client->closing)) {
        /* close has walked the holds already, or does so now */
        hlk_entry_give_back(lock->entry, holder.id);
        status = hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    }
    status = hlk_acquire_op_report(op, status);
    *raises = status == HLK_OK && op->raises;
    drop(op);
    return status;
}

/* --- nested holds --- */

/* A nested hold whose lease must be longer, or under the watchdog from now on: a round trip. */
static enum hlk_status lock_raise_nested(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder,
                                         uint64_t h, unsigned count)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    int64_t raised = lease > 0 ? lease : lock->client->table.watchdog_ms;
    struct hlk_send_limits patience = { .max_ms = opts->wait_ms > 0    ? opts->wait_ms
                                                  : opts->wait_ms == 0 ? lock->client->reply_timeout_ms
                                                                       : 0,
                                        .cancel = opts->cancel,
                                        .acquires = true };
    enum hlk_status status = hlk_lock_reacquire(lock, "acquire", h, count, raised, lease <= 0, &patience);
    if (status == HLK_OK)
        HLK_COUNT(&lock->client->table, reentered);
    else
        hlk_entry_raise_undo(lock->entry, holder.id, h);
    if (status == HLK_TIMEOUT && opts->wait_ms == 0)
        status = hlk_last_set(HLK_BUSY, "%s", hlk_last_error());
    return status;
}

static enum hlk_status acquire_nested(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder,
                                      bool *nested)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    unsigned count;
    uint64_t h;
    *nested = !lock->kind->non_reentrant;
    if (!*nested)
        return HLK_OK;
    switch (hlk_entry_nest(lock->entry, holder.id, lease > 0 ? lease : 0, &count, &h)) {
    case HLK_ENTER_NESTED:
        HLK_COUNT(&lock->client->table, reentered);
        return HLK_OK;
    case HLK_ENTER_LOST:
        return hlk_lock_lost_before(lock, holder);
    case HLK_ENTER_RAISE:
        return lock_raise_nested(lock, opts, holder, h, count);
    default:
        *nested = false;
        return HLK_OK;
    }
}

/* What is left of wait_ms for a wait that began at began_ms. */
static int64_t rest_of(int64_t wait_ms, int64_t began_ms)
{
    int64_t left = wait_ms - (hlk_clock_ms() - began_ms);
    return wait_ms <= 0 ? wait_ms : left > 0 ? left : 1;
}

/* Cancellation is disabled in here except during the sleeps of a first hold. Nested holds take only nanoseconds and
 * leave it as it is. */
static enum hlk_status acquire(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    bool nested;
    enum hlk_status status = acquire_nested(lock, opts, holder, &nested);
    if (nested)
        return status;
    int old = hlk_nocancel_begin();
    self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    bool raises = false;
    int64_t began = hlk_clock_ms();
    status = acquire_first(lock, opts, self, holder, &raises);
    self->cancellable = false;
    if (raises) {
        struct hlk_view view;
        hlk_entry_view(lock->entry, holder.id, &view);
        struct hlk_acquire_opts rest = *opts;
        rest.wait_ms = rest_of(opts->wait_ms, began);
        status = lock_raise_nested(lock, &rest, holder, view.h, view.count);
    }
    hlk_nocancel_end(old);
    return status;
}

static void unseat(void *own)
{
    hlk_handle_release(&((hlk_lock *)own)->handle);
}

static enum hlk_status acquire_by_thread_handle(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    if (lock->entry)
        return acquire(lock, opts);
    enum hlk_status status = HLK_E_NOMEM;
    hlk_lock *own = hlk_lock_thread_handle(lock, "acquire");
    if (own) {
        pthread_cleanup_push(unseat, own);
        status = acquire(own, opts);
        pthread_cleanup_pop(1);
    }
    return status;
}

enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_acquire_op_read_opts(lock, "acquire", given, &opts);
    return status == HLK_OK ? acquire_by_thread_handle(lock, &opts) : status;
}

enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    return status == HLK_OK ? acquire_by_thread_handle(lock, &opts) : status;
}
