#include "acquire/acquire_step.h"

#include "acquire/acquire_confirm.h"
#include "acquire/acquire_listen.h"
#include "acquire/acquire_report.h"
#include "base/clock.h"
#include "base/debug.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "lease/shared_hold.h"
#include "net/pipeline_up.h"

#include <string.h>

/* --- what to wait for --- */

static void wait_as(struct hlk_acquire_op *op, enum hlk_wait_what what, int64_t until_ms)
{
    op->wait_for = (struct hlk_wait_for){ what, until_ms };
}

/* A wait that may last: close and cancel find it. False: one of them already has, and *event is its event. */
static bool wait_long(struct hlk_acquire_op *op, enum hlk_wait_what what, int64_t until_ms,
                      enum hlk_acquire_event *event)
{
    *event = HLK_ACQUIRE_ON_ABORT;
    if (hlk_acquire_op_wait(op) != HLK_OK)
        return false;
    wait_as(op, what, until_ms);
    return true;
}

/* --- the command --- */

static bool may_repeat(struct hlk_acquire_op *op)
{
    return !op->hooks->may_repeat || op->hooks->may_repeat(op);
}

/* Does what the command needs. False: the command has failed, and *event is the event. */
static bool drive(struct hlk_acquire_op *op, enum hlk_progress progress, enum hlk_acquire_event *event)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->send);
    *event = HLK_ACQUIRE_ON_ABORT;
    while (progress == HLK_COMMAND_RESEND && may_repeat(op))
        progress = op->send(op);
    enum hlk_status status;
    switch (progress) {
    case HLK_COMMAND_IN_FLIGHT:
        wait_as(op, HLK_WAIT_REPLY, op->machine.deadline_ms);
        return true;
    case HLK_COMMAND_UNCONNECTED:
        status = hlk_pipeline_health(op->cmd.pipeline, &op->error);
        if (status != HLK_OK && status != HLK_E_CONNECT)
            return false; /* refused for good */
        wait_as(op, HLK_WAIT_CONNECTION, op->cmd.until_ms);
        return true;
    case HLK_COMMAND_PAUSED:
        return wait_long(op, HLK_WAIT_PAUSE, op->cmd.until_ms, event);
    default: /* failed, or not repeated: op->error */
        return false;
    }
}

static bool send_command(struct hlk_acquire_op *op, enum hlk_acquire_event *event)
{
    *event = hlk_acquire_op_prepare(op);
    return *event == HLK_ACQUIRE_ON_HEAD && drive(op, HLK_COMMAND_RESEND, event);
}

/* --- the machine's actions --- */

static bool join(struct hlk_acquire_op *op, enum hlk_acquire_event (*how)(struct hlk_acquire_op *op),
                 enum hlk_acquire_event *event)
{
    *event = hlk_acquire_op_wait(op) == HLK_OK ? how(op) : HLK_ACQUIRE_ON_ABORT;
    return false;
}

/* The server has to be told that the wait is over. Until then the operation may still get what it waits for. */
static bool has_to_leave(const struct hlk_acquire_op *op)
{
    enum hlk_status status = op->machine.status;
    return op->lock->kind->format->leave.put && !op->machine.leaving && op->cmd.attempts > 0 &&
           (status == HLK_BUSY || status == HLK_TIMEOUT || status == HLK_INTERRUPTED || status == HLK_E_CLOSED);
}

static enum hlk_acquire_action begin_to_leave(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->lock->kind->format->leave.put && !op->machine.leaving);
    int64_t now = hlk_clock_ms();
    op->cmd.limits.at_ms = hlk_clock_after(now, op->lock->client->reply_timeout_ms);
    op->cmd.limits.began_ms = now;
    op->cmd.id = op->machine.status == HLK_INTERRUPTED ? "cancelled"
                 : op->machine.status == HLK_E_CLOSED  ? "left"
                                                       : "timeout";
    op->cmd.id_len = strlen(op->cmd.id);
    return hlk_acquire_machine_leave(&op->machine, op->cmd.limits.at_ms, op->in_flight);
}

/* True: wait for events. False: *event is the next event. */
static bool act(struct hlk_acquire_op *op, enum hlk_acquire_action action, enum hlk_acquire_event *event)
{
    if (action == HLK_ACQUIRE_DO_FINISH && has_to_leave(op))
        action = begin_to_leave(op);
    switch (action) {
    case HLK_ACQUIRE_DO_SEND:
        return send_command(op, event);
    case HLK_ACQUIRE_DO_QUEUE:
        *event = HLK_ACQUIRE_ON_ABORT;
        return hlk_acquire_op_queue(op) == HLK_OK && wait_long(op, HLK_WAIT_QUEUE, op->machine.deadline_ms, event);
    case HLK_ACQUIRE_DO_JOIN:
        return join(op, hlk_acquire_listen_inbox, event);
    case HLK_ACQUIRE_DO_SUBSCRIBE:
        return join(op, hlk_acquire_listen_foreign, event);
    case HLK_ACQUIRE_DO_PARK:
        if (op->machine.leaving)
            wait_as(op, HLK_WAIT_REPLY, op->machine.deadline_ms);
        if (op->machine.leaving || op->machine.asking || op->machine.confirming)
            return true; /* for the same as before */
        return wait_long(op, HLK_WAIT_MESSAGES, op->machine.until_ms, event);
    case HLK_ACQUIRE_DO_CONFIRM:
        *event = hlk_acquire_op_confirm(op);
        return *event == HLK_ACQUIRE_ON_JOINED && wait_long(op, HLK_WAIT_REPLICAS, op->machine.until_ms, event);
    case HLK_ACQUIRE_DO_LEAVE:
        op->cmd.type = &op->lock->kind->format->leave;
        return drive(op, HLK_COMMAND_RESEND, event);
    case HLK_ACQUIRE_DO_FINISH:
        break;
    }
    wait_as(op, HLK_WAIT_DONE, INT64_MAX);
    return true;
}

static void feed(struct hlk_acquire_op *op, enum hlk_acquire_event event)
{
    hlk_mutex_assert_none();
    while (!act(op, hlk_acquire_machine_step(&op->machine, event, hlk_clock_ms(), &op->busy, op->error.status), &event))
        ;
}

static void fail(struct hlk_acquire_op *op, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(status != HLK_OK);
    op->error.status = status;
    feed(op, HLK_ACQUIRE_ON_ABORT);
}

/* --- a nested hold whose lease is raised --- */

static void raise_lease(struct hlk_acquire_op *op, uint64_t h, unsigned count)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->lock->kind->format->reacquire);
    enum hlk_acquire_event event;
    op->raising = op->won = true; /* only the count would have to be taken back */
    op->machine.asking = true;
    op->cmd.type = op->lock->kind->format->reacquire;
    op->cmd.hold = h;
    op->cmd.count = count;
    if (hlk_acquire_op_begin(op) != HLK_OK)
        feed(op, HLK_ACQUIRE_ON_ABORT);
    else if (!hlk_raise_begin(&op->raise, op->entry, &op->cmd, !op->fixed))
        fail(op, HLK_LOST);
    else if (!drive(op, HLK_COMMAND_RESEND, &event))
        feed(op, event);
}

/* Another thread of the owner has acquired the lock before. */
static void raise_nested(struct hlk_acquire_op *op)
{
    struct hlk_view view;
    hlk_entry_view(op->entry, op->waiter.holder.id, &view);
    raise_lease(op, view.h, view.count);
}

/* --- the local queue --- */

/* What the entry says of its waiter. */
static void take_entered(struct hlk_acquire_op *op, enum hlk_enter entered)
{
    HLK_DEBUG_ASSERT(op->wait_for.what != HLK_WAIT_DONE);
    switch (entered) {
    case HLK_ENTER_HEAD:
        if (!op->cmd.hold) /* not waiter.h, which a grant may change now. Else it is known already: a late wake-up */
            feed(op, hlk_acquire_op_become_head(op));
        return;
    case HLK_ENTER_ACQUIRED:
        feed(op, hlk_acquire_op_acquired(op));
        return;
    case HLK_ENTER_NESTED: /* another thread of its owner was first */
        feed(op, HLK_ACQUIRE_ON_ACQUIRED);
        return;
    case HLK_ENTER_RAISE:
        raise_nested(op);
        return;
    case HLK_ENTER_BUSY:
        fail(op, HLK_BUSY);
        return;
    case HLK_ENTER_LOST:
        fail(op, HLK_LOST);
        return;
    case HLK_ENTER_DEADLOCK:
        fail(op, HLK_DEADLOCK);
        return;
    case HLK_ENTER_NOMEM:
        fail(op, hlk_error_set(&op->error, HLK_E_NOMEM, "no memory for a token"));
        return;
    case HLK_ENTER_QUEUED:
        if (op->wait_for.what == HLK_WAIT_START)
            feed(op, HLK_ACQUIRE_ON_QUEUED);
        return;
    }
}

/* --- events --- */

static void on_answer(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->cmd.call.reply);
    if (!op->raising)
        feed(op, hlk_acquire_op_answer(op));
    else if ((op->raised = hlk_raise_answer(&op->raise, &op->cmd)))
        feed(op, HLK_ACQUIRE_ON_ACQUIRED);
    else
        fail(op, HLK_LOST);
}

static enum hlk_acquire_event at_deadline(struct hlk_acquire_op *op)
{
    bool unsent = op->error.status == HLK_E_CONNECT && op->cmd.attempts == 0; /* a cluster without a map of its slots */
    if (op->wait_for.what == HLK_WAIT_PAUSE && (unsent || op->error.status != HLK_E_CONNECT))
        return HLK_ACQUIRE_ON_ABORT; /* with the reason for the pause */
    return op->wait_for.what == HLK_WAIT_QUEUE ? hlk_acquire_op_queue_timeout(op) : hlk_acquire_op_timeout(op);
}

static void step_on_reply(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    enum hlk_acquire_event event;
    op->in_flight = false;
    if (op->machine.confirming) { /* acquired by a grant meanwhile */
        hlk_command_drop_reply(&op->cmd);
        return;
    }
    hlk_acquire_op_get_refused(op);
    enum hlk_progress progress = hlk_command_end(&op->cmd, &op->error);
    hlk_acquire_op_set_refused(op);
    if (progress == HLK_COMMAND_ANSWERED)
        on_answer(op);
    else if (progress == HLK_COMMAND_RESEND && hlk_clock_ms() >= op->machine.deadline_ms)
        feed(op, at_deadline(op));
    else if (!drive(op, progress, &event))
        feed(op, event);
}

static void step_on_connected(struct hlk_acquire_op *op)
{
    enum hlk_acquire_event event;
    if (op->wait_for.what == HLK_WAIT_CONNECTION && !drive(op, HLK_COMMAND_RESEND, &event))
        feed(op, event);
}

static void step_on_queue(struct hlk_acquire_op *op)
{
    if (!op->raising) /* else the waiter has left the queue already: a late wake-up */
        take_entered(op, hlk_entry_check(op->entry, &op->waiter));
}

static void step_on_closed(struct hlk_acquire_op *op)
{
    if (atomic_load(&op->lock->client->closing))
        (void)hlk_acquire_abort(op, HLK_E_CLOSED, "the client is being closed");
}

static void step_on_cancel(struct hlk_acquire_op *op)
{
    if (atomic_load(&op->stopped) || (op->cancel && hlk_cancel_triggered(op->cancel)))
        (void)hlk_acquire_abort(op, HLK_INTERRUPTED, "cancelled");
}

static void step_on_subscribe_failed(struct hlk_acquire_op *op)
{
    hlk_acquire_listen_failed(op);
    feed(op, HLK_ACQUIRE_ON_ABORT);
}

static void step_on_subscribed(struct hlk_acquire_op *op)
{
    feed(op, HLK_ACQUIRE_ON_SUBSCRIBED);
}

static void step_on_message(struct hlk_acquire_op *op)
{
    const struct hlk_seen *seen = &op->cmd.seen;
    if (seen->mark && !op->machine.asking && atomic_load(&op->listener.number) == seen->mark) {
        op->machine.cause = HLK_CAUSE_MESSAGE;
        feed(op, HLK_ACQUIRE_ON_ACQUIRED);
        return;
    }
    feed(op, HLK_ACQUIRE_ON_MESSAGE);
}

static void step_on_settled(struct hlk_acquire_op *op)
{
    enum hlk_acquire_event event = op->confirmation ? hlk_acquire_op_confirmed(op) : HLK_ACQUIRE_ON_JOINED;
    if (event != HLK_ACQUIRE_ON_JOINED)
        feed(op, event);
}

/* The pause is over: the command is sent again, or the refusal is the outcome. */
static void end_pause(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->wait_for.what == HLK_WAIT_PAUSE);
    enum hlk_acquire_event event = HLK_ACQUIRE_ON_ABORT;
    if (!op->cmd.resends || !drive(op, HLK_COMMAND_RESEND, &event))
        feed(op, event);
}

static void step_on_time(struct hlk_acquire_op *op)
{
    int64_t now = hlk_clock_ms();
    if (now < op->wait_for.until_ms)
        return;
    if (op->machine.confirming)
        feed(op, HLK_ACQUIRE_ON_TIME);
    else if (now >= op->machine.deadline_ms)
        feed(op, at_deadline(op));
    else if (op->wait_for.what == HLK_WAIT_PAUSE)
        end_pause(op);
    else if (op->wait_for.what == HLK_WAIT_MESSAGES)
        feed(op, HLK_ACQUIRE_ON_TIME);
    else if (op->wait_for.what == HLK_WAIT_CONNECTION &&
             hlk_pipeline_health(op->cmd.pipeline, &op->error) != HLK_OK) /* else the connection is up this moment */
        feed(op, HLK_ACQUIRE_ON_ABORT);
}

/* What a hold that is being confirmed by replicas waits for. */
#define CONFIRMS (HLK_WAKE_REPLY | HLK_WAKE_LEAVE | HLK_WAKE_SETTLED | HLK_WAKE_TIME)

/* What a wait that leaves waits for. */
#define LEAVES (HLK_WAKE_REPLY | HLK_WAKE_UP | HLK_WAKE_TIME)

/* In this order, because an earlier event may make a later one pointless. */
struct hlk_wait_for hlk_acquire_step(struct hlk_acquire_op *op, unsigned events)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->waker && op->send);
    static const struct {
        unsigned bit;
        void (*run)(struct hlk_acquire_op *op);
    } steps[] = {
        { HLK_WAKE_REPLY, step_on_reply },           { HLK_WAKE_UP, step_on_connected },
        { HLK_WAKE_QUEUE, step_on_queue },           { HLK_WAKE_CLOSED, step_on_closed },
        { HLK_WAKE_CANCEL, step_on_cancel },         { HLK_WAKE_SUBSCRIBE_FAILED, step_on_subscribe_failed },
        { HLK_WAKE_SUBSCRIBED, step_on_subscribed }, { HLK_WAKE_MESSAGE, step_on_message },
        { HLK_WAKE_SETTLED, step_on_settled },       { HLK_WAKE_TIME, step_on_time },
    };
    if (events & HLK_WAKE_SUBSCRIBED)
        events &= ~HLK_WAKE_MESSAGE; /* one command answers both */
    for (size_t i = 0; i < sizeof steps / sizeof *steps && op->wait_for.what != HLK_WAIT_DONE; i++)
        if (events & steps[i].bit & (op->machine.confirming ? CONFIRMS : op->machine.leaving ? LEAVES : ~0u))
            steps[i].run(op);
    return op->wait_for;
}

struct hlk_wait_for hlk_acquire_abort(struct hlk_acquire_op *op, enum hlk_status status, const char *why)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(status != HLK_OK);
    (void)hlk_error_set(&op->error, status, "%s", why);
    feed(op, HLK_ACQUIRE_ON_ABORT);
    return op->wait_for;
}

/* --- the first step and the end --- */

enum hlk_enter hlk_acquire_nest(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                                unsigned *count, uint64_t *h)
{
    HLK_DEBUG_ASSERT(terms->entry && count && h);
    int64_t lease = opts->lease_ms ? opts->lease_ms : terms->lock->defaults->lease_ms;
    if (terms->lock->kind->non_reentrant)
        return HLK_ENTER_QUEUED;
    return hlk_entry_nest(terms->entry, terms->holder.id, lease > 0 ? lease : 0, count, h);
}

static enum hlk_enter enter(struct hlk_acquire_op *op)
{
    return hlk_shared_enter(op->entry, &op->waiter) ? HLK_ENTER_ACQUIRED : hlk_entry_enter(op->entry, &op->waiter);
}

struct hlk_wait_for hlk_acquire_start(struct hlk_acquire_op *op, enum hlk_enter nested, unsigned count, uint64_t h)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->waker && op->send && op->wait_for.what == HLK_WAIT_START);
    switch (nested) {
    case HLK_ENTER_NESTED:
        feed(op, HLK_ACQUIRE_ON_ACQUIRED);
        break;
    case HLK_ENTER_RAISE:
        raise_lease(op, h, count);
        break;
    case HLK_ENTER_LOST:
        fail(op, HLK_LOST);
        break;
    default:
        if (hlk_acquire_op_begin(op) == HLK_OK)
            take_entered(op, enter(op));
        else
            feed(op, HLK_ACQUIRE_ON_ABORT);
    }
    return op->wait_for;
}

void hlk_acquire_abandon(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    if (op->raising && !op->raised)
        hlk_entry_raise_undo(op->entry, op->waiter.holder.id, op->cmd.hold);
    hlk_acquire_op_leave(op);
}

/* This holder may wait for the read half too. Redis grants that beside the write half, but sends no message about it.
 * So that wait has to send again. */
static void wake_other_half(const struct hlk_acquire_op *op)
{
    const struct hlk_format *half = op->lock->kind->format, *other = half->excludes;
    const struct hlk_entry *own = op->entry;
    if (!other || other->beside != half)
        return;
    hlk_shared_close(op->node, other, hlk_entry_name(own), hlk_entry_len(own)); /* one that Redis has lost */
    struct hlk_entry *e =
        hlk_entry_get_own(op->node, other, hlk_entry_name(own), hlk_entry_len(own), op->waiter.holder.id, false);
    if (e) {
        hlk_entry_retry_head(e);
        hlk_entry_unref(e);
    }
}

enum hlk_status hlk_acquire_finish(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->wait_for.what == HLK_WAIT_DONE);
    hlk_client *client = op->lock->client;
    bool held = op->machine.status == HLK_OK && !op->raising && !op->lock->kind->format->holds_nothing;
    if (held && atomic_load(&client->closing)) { /* close has walked the holds already, or does so now */
        if (op->waiter.passed)
            op->won = false; /* leaving gives them back */
        else
            hlk_entry_give_back(op->entry, op->waiter.holder.id);
        op->machine.status = hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    }
    if (op->machine.status == HLK_OK)
        op->machine.status = op->hooks->keep ? op->hooks->keep(op) : HLK_OK;
    if (op->hooks->over)
        op->hooks->over(op);
    if (op->machine.status == HLK_OK)
        wake_other_half(op);
    hlk_acquire_abandon(op);
    return hlk_acquire_op_report(op, op->machine.status);
}
