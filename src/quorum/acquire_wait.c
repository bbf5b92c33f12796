/* What an acquire over several masters waits for: the local queue, connections, messages, pauses. */
#include "quorum/acquire.h"

#include "base/clock.h"

#define LOOK_MS 10   /* between two looks whether enough masters are connected */
#define SPLIT_MOST 5 /* doublings of the pause after a split vote */
#define SPLIT_FEW 2  /* more of them in a row, and it waits for messages besides */

/* --- wake-ups --- */

/* Any thread, under a mutex. */
static void acquire_on_message(struct hlk_listener *listener, unsigned bit)
{
    struct hlk_quorum_listener *from = HLK_CONTAINER(listener, struct hlk_quorum_listener, listener);
    if (bit == HLK_WAKE_SUBSCRIBE_FAILED)
        return; /* it polls */
    atomic_fetch_or(&from->op->messaged, 1u << from->i);
    hlk_park_wake(&from->op->self->park, HLK_WAKE_MESSAGE);
}

bool hlk_quorum_op_must_leave(struct hlk_quorum_op *op)
{
    (void)hlk_park_take(&op->self->park, HLK_QUORUM_LEAVE);
    if (atomic_load(&op->client->closing))
        (void)hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    else if (op->cancel && hlk_cancel_triggered(op->cancel))
        (void)hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

static uint64_t acquire_random(struct hlk_quorum_op *op)
{
    op->seed ^= op->seed << 13;
    op->seed ^= op->seed >> 7;
    op->seed ^= op->seed << 17;
    return op->seed;
}

int64_t hlk_quorum_op_jitter(struct hlk_quorum_op *op, int64_t max)
{
    return max > 0 ? (int64_t)(acquire_random(op) % (uint64_t)(max + 1)) : 0;
}

/* --- the masters' channels --- */

static void join_channels(struct hlk_quorum_op *op)
{
    char name[HLK_KEY_MAX];
    size_t len = hlk_key_channel(name, op->quorum->name, op->quorum->name_len);
    op->joined = true;
    for (unsigned i = 0; i < op->client->node_count; i++) {
        struct hlk_channels *channels = &op->client->nodes[i].channels;
        op->listeners[i] =
            (struct hlk_quorum_listener){ .listener = { .on_event = acquire_on_message }, .op = op, .i = i };
        hlk_subscriber_eager(&channels->pubsub, true);
        if (hlk_channel_join(channels, name, len, &op->listeners[i].listener) == HLK_OK)
            acquire_on_message(&op->listeners[i].listener, HLK_WAKE_SUBSCRIBED);
    }
}

void hlk_quorum_op_leave_channels(struct hlk_quorum_op *op)
{
    for (unsigned i = 0; op->joined && i < op->client->node_count; i++) {
        struct hlk_channels *channels = &op->client->nodes[i].channels;
        hlk_channel_leave(channels, &op->listeners[i].listener);
        hlk_subscriber_eager(&channels->pubsub, false);
    }
}

/* --- waiting --- */

/* HLK_OK: `at_ms` has come, or a bit of `bits` was set. */
static enum hlk_status acquire_sleep(struct hlk_quorum_op *op, unsigned bits, int64_t at_ms)
{
    bool signalled = false;
    if (hlk_quorum_op_must_leave(op))
        return op->error.status;
    if (!op->waits)
        HLK_COUNT(&op->client->table, waiting);
    op->waits = true;
    hlk_thread_allow_cancel(op->self);
    (void)hlk_park_until(&op->self->park, bits | HLK_QUORUM_LEAVE, at_ms < op->deadline_ms ? at_ms : op->deadline_ms,
                         op->self->event_fd, op->eintr ? &signalled : NULL);
    hlk_thread_forbid_cancel(op->self);
    if (signalled)
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "interrupted by a signal");
    return hlk_quorum_op_must_leave(op) ? op->error.status : HLK_OK;
}

static bool out_of_time(struct hlk_quorum_op *op)
{
    if (hlk_clock_ms() < op->deadline_ms)
        return false;
    (void)hlk_error_set(&op->error, HLK_TIMEOUT, "not acquired in %lld ms%s%s",
                        (long long)(op->deadline_ms - op->began_ms), op->error.text[0] ? "; " : "", op->error.text);
    return true;
}

void hlk_quorum_op_leave_queue(struct hlk_quorum_op *op)
{
    if (op->queue)
        hlk_quorum_queue_leave(op->quorum->all, op->queue, &op->waiter);
    op->queue = NULL;
}

enum hlk_status hlk_quorum_op_look_at_hold(struct hlk_quorum_op *op)
{
    struct hlk_quorum *quorum = op->quorum;
    hlk_mutex_assert_held(&quorum->all->mu);
    if (!quorum->holder.id)
        return HLK_OK; /* a public handle is one call's, from FREE to ACQUIRING */
    if (quorum->state == HLK_QUORUM_LOST)
        return hlk_error_set(&op->error, HLK_LOST, "this holder lost an earlier hold (%s) that it has not released yet",
                             quorum->why);
    if (quorum->state != HLK_QUORUM_HELD)
        return HLK_OK;
    if (op->terms->no_nesting)
        return hlk_error_set(&op->error, HLK_DEADLOCK,
                             "this holder has the lock, which is of a kind that is not reentrant; nothing was sent");
    quorum->count++;
    op->nested = true;
    hlk_quorum_op_leave_queue(op);
    return HLK_OK;
}

enum hlk_status hlk_quorum_op_wait_in_queue(struct hlk_quorum_op *op)
{
    for (;;) {
        (void)hlk_park_take(&op->self->park, HLK_WAKE_QUEUE);
        hlk_mutex_lock(&op->quorum->all->mu);
        bool head = op->waiter.head;
        enum hlk_status found = hlk_quorum_op_look_at_hold(op);
        hlk_mutex_unlock(&op->quorum->all->mu);
        if (found != HLK_OK || head || op->nested)
            return found;
        (void)hlk_error_set(&op->error, HLK_BUSY, "another holder of this process has it, or waits for it");
        if (out_of_time(op))
            return HLK_TIMEOUT;
        enum hlk_status status = acquire_sleep(op, HLK_WAKE_QUEUE, INT64_MAX);
        if (status != HLK_OK)
            return status;
    }
}

static bool enough_are_free(const struct hlk_quorum_op *op)
{
    unsigned n = op->client->node_count, blocked = op->blocked & ~atomic_load(&op->messaged);
    return n - (unsigned)__builtin_popcount(blocked) >= n / 2 + 1;
}

/* Until as many masters have said something as a majority takes, or at_ms comes. */
static enum hlk_status wait_for_messages(struct hlk_quorum_op *op, int64_t at_ms)
{
    for (;;) {
        (void)hlk_park_take(&op->self->park, HLK_WAKE_MESSAGE);
        if (enough_are_free(op) || hlk_clock_ms() >= at_ms)
            return HLK_OK;
        if (out_of_time(op))
            return HLK_TIMEOUT;
        enum hlk_status status = acquire_sleep(op, HLK_WAKE_MESSAGE, at_ms);
        if (status != HLK_OK)
            return status;
    }
}

enum hlk_status hlk_quorum_op_pause(struct hlk_quorum_op *op, int64_t ms)
{
    int64_t at_ms = hlk_clock_after(hlk_clock_ms(), ms);
    enum hlk_status status = HLK_OK;
    while (status == HLK_OK && hlk_clock_ms() < at_ms && !out_of_time(op))
        status = acquire_sleep(op, 0, at_ms);
    return status == HLK_OK && hlk_clock_ms() >= op->deadline_ms ? HLK_TIMEOUT : status;
}

/* --- after a round without a majority --- */

/* Too few masters can be asked. HLK_OK: they may come back, ask again. */
static enum hlk_status unreachable(struct hlk_quorum_op *op, enum hlk_status failure, bool waits)
{
    int64_t now = hlk_clock_ms(), timeout = op->client->reconnect_timeout_ms;
    if (!op->unreachable_ms)
        op->unreachable_ms = now;
    bool over = timeout >= 0 && now - op->unreachable_ms >= timeout;
    if (waits && !over)
        return HLK_OK;
    op->error.status = failure;
    return failure;
}

enum hlk_status hlk_quorum_op_wait_after(struct hlk_quorum_op *op, const struct hlk_tally *t)
{
    const struct hlk_quorum_opts *opts = &op->quorum->opts;
    unsigned n = op->client->node_count, need = n / 2 + 1;
    if (n - t->for_good < need)
        return op->error.status = t->failure;
    bool few = n - t->failed - t->silent < need && t->failure != HLK_OK;
    enum hlk_status status = few ? unreachable(op, t->failure, !op->once) : HLK_OK;
    if (!few)
        op->unreachable_ms = 0;
    if (status != HLK_OK)
        return status;
    if (op->once)
        return op->error.status = HLK_BUSY;
    if (op->tries_left == 0 || hlk_clock_ms() >= op->deadline_ms)
        return few ? t->failure : out_of_time(op) ? HLK_TIMEOUT : (op->error.status = HLK_TIMEOUT);
    op->tries_left -= op->tries_left > 0;
    int64_t delay = opts->retry_delay_ms + hlk_quorum_op_jitter(op, opts->retry_jitter_ms);
    /* Nobody has a majority, as far as is known: whoever asks first in a moment gets it. A holder that has another name
     * on each master looks the same: one of Redisson's. */
    bool split = t->largest < need && !few && t->failed + t->largest <= n - need;
    op->splits = split ? op->splits + (op->splits < SPLIT_MOST) : 0;
    if (split) {
        int64_t max_ms = (int64_t)1 << op->splits;
        status = hlk_quorum_op_pause(op, 1 + hlk_quorum_op_jitter(op, max_ms < delay ? max_ms : delay));
        if (status != HLK_OK || op->splits <= SPLIT_FEW)
            return status;
    }
    if (!op->joined && op->client->pubsub)
        join_channels(op);
    if (!few)
        return wait_for_messages(op, hlk_clock_after(hlk_clock_ms(), delay));
    status = hlk_quorum_op_pause(op, delay);
    return status == HLK_TIMEOUT ? t->failure : status;
}

/* --- before a round --- */

/* The client is new, and what it has not reached may be a moment away. A hold without that master would not survive
 * the loss of another one. */
static bool is_new(const struct hlk_quorum_op *op)
{
    struct hlk_quorums *all = op->quorum->all;
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(&all->mu);
    if (!all->first_ms)
        all->first_ms = now;
    bool fresh = now - all->first_ms < HLK_QUORUM_FIRST_MS && now < op->deadline_ms;
    hlk_mutex_unlock(&all->mu);
    return fresh;
}

enum hlk_status hlk_quorum_op_wait_for_masters(struct hlk_quorum_op *op)
{
    unsigned n = op->client->node_count;
    for (;;) {
        struct hlk_text text;
        struct hlk_error error;
        unsigned up = 0, untried = 0;
        enum hlk_status failure = HLK_OK;
        char buf[HLK_ERROR_TEXT];
        hlk_text_init(&text, buf, sizeof buf);
        for (unsigned i = 0; i < n; i++) {
            struct hlk_pipeline *pipeline = op->client->nodes[i].pipeline;
            bool tried =
                hlk_pipeline_tried(pipeline); /* before the look, so that what comes up meanwhile is not away */
            /* 0: asks for a connection, and does not wait */
            enum hlk_status status = hlk_pipeline_wait_up(pipeline, op->self, 0, 0, &error);
            up += status == HLK_OK;
            if (status == HLK_OK)
                continue;
            untried += status == HLK_E_CONNECT && !tried;
            failure = failure == HLK_OK || failure == status ? status : HLK_E_CONNECT;
            hlk_tally_reason(&text, &op->client->nodes[i], error.text);
        }
        bool enough = up >= n / 2 + 1;
        if (enough && (untried == 0 || !is_new(op)))
            return HLK_OK;
        (void)hlk_error_set(&op->error, failure, "%u of %u masters are connected, %u are needed%s", up, n, n / 2 + 1,
                            buf);
        /* One try also waits for the first attempts to connect: the client may have been opened lazily. */
        enum hlk_status status = enough ? HLK_OK : unreachable(op, failure, !op->once || up + untried >= n / 2 + 1);
        if (status == HLK_OK && hlk_clock_ms() >= op->deadline_ms)
            status = failure;
        if (status == HLK_OK)
            status = acquire_sleep(op, 0, hlk_clock_ms() + LOOK_MS);
        if (status != HLK_OK)
            return status;
    }
}
