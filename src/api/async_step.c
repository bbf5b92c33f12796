/* What a completion-driven acquire does for each event: the actions of the acquire state machine, without a waiting
 * thread. */
#include "api/async.h"

#include "api/acquire_listen.h"
#include "base/clock.h"

static enum hlk_acquire_event step_over(struct hlk_async *async, enum hlk_status status, const char *why)
{
    (void)hlk_error_set(&async->op->error, status, "%s", why);
    return HLK_ACQUIRE_ON_ABORT;
}

static void touch(struct hlk_async *async)
{
    async->touched = true;
}

static void wake_at(struct hlk_async *async, int64_t at_ms)
{
    if (at_ms == INT64_MAX)
        return;
    touch(async);
    hlk_loop_arm(async->op->lock->client->loop, &async->alarm, at_ms);
}

/* Two references while an attempt is in flight, because its reply may arrive before send returns. */
static enum hlk_progress send_attempt(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    op->cmd.call.waiter = NULL;
    op->cmd.call.done = async->on_answer;
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

/* Waits for a connection, as long as one can come up. */
static enum hlk_progress await_connection(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    enum hlk_status status = hlk_pipeline_health(op->cmd.pipeline, &op->error);
    if (status != HLK_OK && status != HLK_E_CONNECT)
        return HLK_COMMAND_FAILED;
    touch(async);
    wake_at(async, op->cmd.until_ms);
    return hlk_pipeline_when_up(op->cmd.pipeline, &async->up, op->cmd.reroutes) ? HLK_COMMAND_UNCONNECTED
                                                                                : HLK_COMMAND_RESEND;
}

static enum hlk_progress await_pause(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    touch(async);
    if (hlk_acquire_op_wait(op) != HLK_OK) /* so that close finds it */
        return HLK_COMMAND_FAILED;
    wake_at(async, op->cmd.until_ms);
    return HLK_COMMAND_PAUSED;
}

/* Does what the command needs. True: wait for events. False: it has failed, with *what and the reason in op->error. */
static bool step_drive(struct hlk_async *async, enum hlk_progress progress, enum hlk_acquire_event *what)
{
    while (progress == HLK_COMMAND_RESEND) {
        progress = send_attempt(async);
        if (progress == HLK_COMMAND_UNCONNECTED)
            progress = await_connection(async);
    }
    if (progress == HLK_COMMAND_PAUSED)
        progress = await_pause(async);
    async->progress = progress;
    if (progress == HLK_COMMAND_FAILED)
        *what = HLK_ACQUIRE_ON_ABORT;
    return progress != HLK_COMMAND_FAILED;
}

static bool step_send_attempt(struct hlk_async *async, enum hlk_acquire_event *what)
{
    return step_drive(async, HLK_COMMAND_RESEND, what);
}

static bool step_join(struct hlk_async *async, enum hlk_acquire_event (*how)(struct hlk_acquire_op *op),
                      enum hlk_acquire_event *what)
{
    struct hlk_acquire_op *op = async->op;
    touch(async);
    enum hlk_status status = hlk_acquire_op_wait(op);
    *what = status == HLK_OK ? how(op) : HLK_ACQUIRE_ON_ABORT;
    return false;
}

/* False: *what has happened instead. */
static bool step_ask(struct hlk_async *async, enum hlk_acquire_event *what)
{
    struct hlk_acquire_op *op = async->op;
    *what = hlk_acquire_op_prepare(op);
    if (op->inbox_listener.channel)
        touch(async); /* the loop may pass messages to it */
    if (*what != HLK_ACQUIRE_ON_HEAD)
        return false;
    /* one try ends with its connection's reply_timeout_ms */
    if (op->machine.deadline_ms != INT64_MAX && !op->machine.once)
        wake_at(async, op->machine.deadline_ms);
    return step_send_attempt(async, what);
}

/* False: the wait is over, and *what is its event. */
static bool wait_until(struct hlk_async *async, int64_t at_ms, enum hlk_acquire_event *what)
{
    touch(async);
    *what = HLK_ACQUIRE_ON_ABORT;
    if (hlk_acquire_op_wait(async->op) != HLK_OK)
        return false;
    wake_at(async, at_ms);
    return true;
}

static bool step_confirm(struct hlk_async *async, enum hlk_acquire_event *what)
{
    touch(async);
    *what = hlk_acquire_op_confirm(async->op);
    return *what == HLK_ACQUIRE_ON_JOINED && wait_until(async, async->op->machine.until_ms, what);
}

/* The command waits for a connection, or for the end of a pause. */
static bool awaits_server(const struct hlk_async *async)
{
    if (async->op->machine.confirming)
        return false;
    return async->progress == HLK_COMMAND_UNCONNECTED || async->progress == HLK_COMMAND_PAUSED;
}

/* Does the machine's next action. True: wait for events. False: *what is the next event. */
static bool act(struct hlk_async *async, enum hlk_acquire_action todo, enum hlk_acquire_event *what)
{
    struct hlk_acquire_op *op = async->op;
    switch (todo) {
    case HLK_ACQUIRE_DO_SEND:
        return step_ask(async, what);
    case HLK_ACQUIRE_DO_QUEUE:
        touch(async);
        *what = HLK_ACQUIRE_ON_ABORT;
        return hlk_acquire_op_queue(op) == HLK_OK && wait_until(async, op->machine.deadline_ms, what);
    case HLK_ACQUIRE_DO_JOIN:
        return step_join(async, hlk_acquire_listen_inbox, what);
    case HLK_ACQUIRE_DO_SUBSCRIBE:
        return step_join(async, hlk_acquire_listen_foreign, what);
    case HLK_ACQUIRE_DO_PARK:
        return wait_until(async, awaits_server(async) ? op->cmd.until_ms : op->machine.until_ms, what);
    case HLK_ACQUIRE_DO_CONFIRM:
        return step_confirm(async, what);
    case HLK_ACQUIRE_DO_FINISH:
        break;
    }
    async->over = true;
    return true;
}

static void feed(struct hlk_async *async, enum hlk_acquire_event what)
{
    struct hlk_acquire_op *op = async->op;
    while (
        !act(async, hlk_acquire_machine_step(&op->machine, what, hlk_clock_ms(), &op->busy, op->error.status), &what))
        ;
}

static void become_head(struct hlk_async *async)
{
    feed(async, hlk_acquire_op_become_head(async->op));
}

static void step_fail(struct hlk_async *async, enum hlk_status status)
{
    async->op->error.status = status;
    feed(async, HLK_ACQUIRE_ON_ABORT);
}

/* A reply to the acquire, or to the raise of a nested hold's lease. */
static void step_on_answer(struct hlk_async *async)
{
    async->progress = HLK_COMMAND_ANSWERED;
    if (!async->op->raising)
        feed(async, hlk_acquire_op_answer(async->op));
    else if (hlk_raise_answer(&async->raise, &async->op->cmd))
        feed(async, HLK_ACQUIRE_ON_ACQUIRED);
    else
        step_fail(async, HLK_LOST);
}

static enum hlk_acquire_event at_deadline(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    if (async->progress == HLK_COMMAND_PAUSED)
        return HLK_ACQUIRE_ON_ABORT; /* with the server's refusal as the error */
    return !async->op->raising && op->cmd.hold == 0 ? hlk_acquire_op_queue_timeout(op) : hlk_acquire_op_timeout(op);
}

/* The attempt broke, or must be sent in another form. False: no time is left. */
static bool may_resend(struct hlk_async *async)
{
    const struct hlk_acquire_op *op = async->op;
    if (op->machine.once && op->cmd.doubt) /* so far it would have ended with its connection's reply_timeout_ms */
        wake_at(async, op->machine.deadline_ms);
    return !op->machine.once || hlk_clock_ms() < op->machine.deadline_ms;
}

static void on_reply(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    enum hlk_acquire_event what;
    op->in_flight = false;
    if (op->machine.confirming) { /* acquired by a grant meanwhile */
        hlk_command_drop_reply(&op->cmd);
        return;
    }
    hlk_acquire_op_get_refused(op);
    enum hlk_progress progress = hlk_command_end(&op->cmd, &op->error);
    hlk_acquire_op_set_refused(op);
    if (progress == HLK_COMMAND_ANSWERED)
        step_on_answer(async);
    else if (progress == HLK_COMMAND_RESEND && !may_resend(async))
        feed(async, at_deadline(async));
    else if (!step_drive(async, progress, &what))
        feed(async, what);
}

static enum hlk_acquire_event raise_lease(struct hlk_async *async, uint64_t h, unsigned count)
{
    struct hlk_acquire_op *op = async->op;
    async->op->raising = true;
    op->won = true; /* only the count would have to be taken back */
    op->machine.asking = true;
    op->cmd.type = op->lock->kind->format->reacquire;
    op->cmd.hold = h;
    op->cmd.count = count;
    enum hlk_acquire_event what = HLK_ACQUIRE_ON_ABORT;
    if (hlk_acquire_op_begin(op) != HLK_OK)
        return what;
    if (!hlk_raise_begin(&async->raise, op->lock->entry, &op->cmd, !op->fixed)) {
        op->error.status = HLK_LOST;
        return what;
    }
    if (!op->machine.once) /* one try ends with its connection's reply_timeout_ms */
        wake_at(async, op->machine.deadline_ms);
    what = HLK_ACQUIRE_ON_QUEUED;
    (void)step_send_attempt(async, &what);
    return what;
}

/* Another thread of its owner was first: a nested hold whose lease must be raised. */
static void step_raise_nested(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    struct hlk_view view;
    hlk_entry_view(op->lock->entry, op->waiter.holder.id, &view);
    enum hlk_acquire_event what = raise_lease(async, view.h, view.count);
    if (what != HLK_ACQUIRE_ON_QUEUED)
        feed(async, what);
}

static void step_on_queue_wake(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    if (async->op->raising) /* it has left the queue already: a late wake-up */
        return;
    switch (hlk_entry_check(op->lock->entry, &op->waiter)) {
    case HLK_ENTER_HEAD:
        if (op->cmd.hold) /* not waiter.h, which a grant may change now */
            return;       /* known already: a late wake-up */
        become_head(async);
        return;
    case HLK_ENTER_ACQUIRED:
        feed(async, hlk_acquire_op_acquired(op));
        return;
    case HLK_ENTER_NESTED:
        feed(async, HLK_ACQUIRE_ON_ACQUIRED);
        return;
    case HLK_ENTER_RAISE:
        step_raise_nested(async);
        return;
    case HLK_ENTER_BUSY:
        step_fail(async, HLK_BUSY);
        return;
    case HLK_ENTER_LOST:
        step_fail(async, HLK_LOST);
        return;
    case HLK_ENTER_DEADLOCK:
        step_fail(async, HLK_DEADLOCK);
        return;
    default:
        return;
    }
}

/* The time that it may wait for a connection is over. */
static void step_on_unconnected(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    if (hlk_clock_ms() < op->cmd.until_ms)
        wake_at(async, op->cmd.until_ms);
    else if (hlk_pipeline_health(op->cmd.pipeline, &op->error) != HLK_OK)
        feed(async, HLK_ACQUIRE_ON_ABORT);
}

/* The server has refused it, for the reason in `error`. */
static void step_on_pause(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    enum hlk_acquire_event what = HLK_ACQUIRE_ON_ABORT;
    if (hlk_clock_ms() < op->cmd.until_ms)
        wake_at(async, op->cmd.until_ms);
    else if (!op->cmd.resends || !step_send_attempt(async, &what))
        feed(async, what);
    else if (op->in_flight)
        wake_at(async, op->machine.deadline_ms);
}

static void on_time(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    int64_t now = hlk_clock_ms();
    if (op->machine.confirming)
        feed(async, HLK_ACQUIRE_ON_TIME);
    else if (now >= op->machine.deadline_ms)
        feed(async, at_deadline(async));
    else if (async->progress == HLK_COMMAND_UNCONNECTED)
        step_on_unconnected(async);
    else if (async->progress == HLK_COMMAND_PAUSED)
        step_on_pause(async);
    else if (!op->machine.asking && op->cmd.hold && now >= op->machine.until_ms)
        feed(async, HLK_ACQUIRE_ON_TIME);
    else
        wake_at(async, op->machine.asking ? op->machine.deadline_ms : op->machine.until_ms);
}

static void on_closed(struct hlk_async *async)
{
    feed(async, step_over(async, HLK_E_CLOSED, "the client is being closed"));
}

static void step_on_cancel(struct hlk_async *async)
{
    if (hlk_cancel_triggered(async->op->cancel))
        feed(async, step_over(async, HLK_INTERRUPTED, "cancelled"));
}

static void on_subscribe_failed(struct hlk_async *async)
{
    hlk_acquire_listen_failed(async->op);
    feed(async, HLK_ACQUIRE_ON_ABORT);
}

static void on_subscribed_wake(struct hlk_async *async)
{
    feed(async, HLK_ACQUIRE_ON_SUBSCRIBED);
}

static void on_message_wake(struct hlk_async *async)
{
    feed(async, HLK_ACQUIRE_ON_MESSAGE);
}

static void step_on_outcome(struct hlk_async *async)
{
    enum hlk_acquire_event what = hlk_acquire_op_confirmed(async->op);
    if (what != HLK_ACQUIRE_ON_JOINED)
        feed(async, what);
}

static void step_on_connected(struct hlk_async *async)
{
    enum hlk_acquire_event what = HLK_ACQUIRE_ON_ABORT;
    if (async->progress == HLK_COMMAND_UNCONNECTED && !step_send_attempt(async, &what))
        feed(async, what);
}

/* What a hold that is being confirmed listens to. */
#define CONFIRMS (HLK_WAKE_REPLY | HLK_WAKE_CLOSED | HLK_WAKE_CANCEL | HLK_WAKE_SETTLED | HLK_WAKE_TIME)

/* In this order, because an earlier event may make a later one pointless. */
void hlk_async_step(struct hlk_async *async, unsigned bits)
{
    static const struct {
        unsigned bit;
        void (*run)(struct hlk_async *async);
    } steps[] = {
        { HLK_WAKE_REPLY, on_reply },
        { HLK_WAKE_UP, step_on_connected },
        { HLK_WAKE_QUEUE, step_on_queue_wake },
        { HLK_WAKE_CLOSED, on_closed },
        { HLK_WAKE_CANCEL, step_on_cancel },
        { HLK_WAKE_SUBSCRIBE_FAILED, on_subscribe_failed },
        { HLK_WAKE_SUBSCRIBED, on_subscribed_wake },
        { HLK_WAKE_MESSAGE, on_message_wake },
        { HLK_WAKE_SETTLED, step_on_outcome },
        { HLK_WAKE_TIME, on_time },
    };
    if (async->op->machine.confirming)
        bits &= CONFIRMS;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !async->over; i++)
        if (bits & steps[i].bit)
            steps[i].run(async);
}

/* --- the first step --- */

/* False: its holder does not hold the lock, or may not nest. */
static bool start_nested(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    unsigned count;
    uint64_t h;
    enum hlk_acquire_event what;
    if (op->waiter.no_nesting)
        return false;
    switch (hlk_entry_nest(op->lock->entry, op->waiter.holder.id, op->fixed ? op->lease_ms : 0, &count, &h)) {
    case HLK_ENTER_NESTED:
        feed(async, HLK_ACQUIRE_ON_ACQUIRED);
        return true;
    case HLK_ENTER_RAISE:
        what = raise_lease(async, h, count);
        if (what != HLK_ACQUIRE_ON_QUEUED)
            feed(async, what);
        return true;
    case HLK_ENTER_LOST:
        step_fail(async, HLK_LOST);
        return true;
    default:
        return false;
    }
}

/* Runs as a step: events that arrive meanwhile are handled after it. */
void hlk_async_start(struct hlk_async *async)
{
    struct hlk_acquire_op *op = async->op;
    struct hlk_entry *e = op->lock->entry;
    if (op->cancel)
        touch(async);
    if (start_nested(async))
        return;
    if (hlk_acquire_op_begin(op) != HLK_OK) {
        feed(async, HLK_ACQUIRE_ON_ABORT);
        return;
    }
    switch (hlk_entry_enter(e, &op->waiter)) {
    case HLK_ENTER_HEAD:
        become_head(async);
        return;
    case HLK_ENTER_QUEUED:
        feed(async, HLK_ACQUIRE_ON_QUEUED);
        return;
    case HLK_ENTER_BUSY:
        step_fail(async, HLK_BUSY);
        return;
    case HLK_ENTER_LOST:
        step_fail(async, HLK_LOST);
        return;
    case HLK_ENTER_DEADLOCK:
        step_fail(async, HLK_DEADLOCK);
        return;
    case HLK_ENTER_RAISE:
        step_raise_nested(async);
        return;
    case HLK_ENTER_NOMEM:
        step_fail(async, hlk_error_set(&op->error, HLK_E_NOMEM, "no memory for a token"));
        return;
    default:
        feed(async, HLK_ACQUIRE_ON_ACQUIRED);
        return;
    }
}
