#include "quorum/acquire_op.h"

#include "base/clock.h"
#include "base/debug.h"
#include "net/pipeline_up.h"
#include "net/subscriber_read.h"
#include "quorum/connect.h"
#include "quorum/queue.h"
#include "quorum/report.h"
#include "quorum/round_release.h"

/* --- wake-ups. Any thread, under a mutex --- */

static void acquire_on_closing(struct hlk_wait_entry *entry)
{
    hlk_mutex_assert_held(&HLK_CONTAINER(entry, struct hlk_quorum_op, closing_wait)->client->waits_mu);
    hlk_waker_wake(HLK_CONTAINER(entry, struct hlk_quorum_op, closing_wait)->waker, HLK_WAKE_CLOSED);
}

static void acquire_on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_mutex_assert_held(&HLK_CONTAINER(wait, struct hlk_quorum_op, cancel_wait)->cancel->mu);
    hlk_waker_wake(HLK_CONTAINER(wait, struct hlk_quorum_op, cancel_wait)->waker, HLK_WAKE_CANCEL);
}

static void acquire_on_message(struct hlk_listener *listener, unsigned bit)
{
    struct hlk_quorum_listener *from = HLK_CONTAINER(listener, struct hlk_quorum_listener, listener);
    if (bit == HLK_WAKE_SUBSCRIBE_FAILED)
        return; /* the operation polls */
    atomic_fetch_or(&from->op->messaged, 1u << from->i);
    hlk_waker_wake(from->op->waker, HLK_WAKE_MESSAGE);
}

/* --- the beginning and the end --- */

void hlk_quorum_op_init(struct hlk_quorum_op *op, struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                        const struct hlk_quorum_terms *terms, struct hlk_waker *waker)
{
    HLK_DEBUG_ASSERT(!op->waker && !op->round && waker);
    HLK_DEBUG_ASSERT(opts->wait_ms >= 0 && terms->ttl_ms > 0);
    int64_t now = hlk_clock_ms();
    int tries = quorum->opts.retry_count;
    op->quorum = quorum;
    op->terms = *terms;
    op->client = quorum->client;
    op->status = HLK_INTERRUPTED; /* until a step says something else */
    op->waker = waker;
    op->cancel = opts->cancel;
    op->once = opts->wait_ms == 0;
    op->eintr = opts->flags & HLK_ACQUIRE_EINTR;
    op->began_ms = now;
    op->deadline_ms = op->once ? INT64_MAX : hlk_clock_after(now + 1, opts->wait_ms);
    op->tries_left = tries < 0 ? 0 : tries > 0 ? tries : -1;
    op->seed = (uint64_t)hlk_clock_ns() ^ ((uint64_t)(uintptr_t)op * UINT64_C(0x9e3779b97f4a7c15)) ^
               (uint64_t)(uintptr_t)quorum->client;
    op->closing_wait.wake = acquire_on_closing;
    op->cancel_wait.wake = acquire_on_cancel;
    op->waiter.waker = waker;
    op->waiter.quorum = quorum;
}

enum hlk_status hlk_quorum_op_begin(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    hlk_client_wait_add(op->client, &op->closing_wait);
    if (op->cancel && !hlk_cancel_join(op->cancel, &op->cancel_wait))
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    return hlk_quorum_op_must_leave(op) ? op->error.status : HLK_OK;
}

/* The waiter is not the head of the queue. */
static void leave_queue(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_held(&op->quorum->all->mu);
    if (op->queue)
        hlk_quorum_queue_leave(op->quorum->all, op->queue, &op->waiter);
    op->queue = NULL;
}

static void leave_master_channels(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    for (unsigned i = 0; op->joined && i < op->client->node_count; i++) {
        struct hlk_channels *channels = &op->client->nodes[i].channels;
        hlk_channel_leave(channels, &op->listeners[i].listener);
        hlk_subscriber_eager(&channels->pubsub, false);
    }
}

static void give_back_round(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    if (!op->round)
        return;
    hlk_round_watch(op->round, NULL);
    if (!op->raising)
        hlk_round_release(op->round, false);
    hlk_round_unref(op->round);
    op->round = NULL;
}

void hlk_quorum_op_end(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    struct hlk_quorums *all = op->quorum->all;
    give_back_round(op);
    leave_master_channels(op);
    if (op->waits)
        HLK_UNCOUNT(&op->client->table, waiting);
    hlk_cancel_leave(op->cancel, &op->cancel_wait);
    hlk_client_wait_remove(op->client, &op->closing_wait);
    if (op->status == HLK_OK)
        return; /* the hold has the queue */
    hlk_mutex_lock(&all->mu);
    if (hlk_list_linked(&op->waiter.link))
        leave_queue(op);
    else if (op->queue)
        hlk_quorum_queue_pass(all, op->queue, hlk_clock_ms());
    if (op->quorum->state == HLK_QUORUM_ACQUIRING)
        op->quorum->state = HLK_QUORUM_FREE;
    hlk_mutex_unlock(&all->mu);
}

bool hlk_quorum_op_must_leave(struct hlk_quorum_op *op)
{
    if (atomic_load(&op->client->closing))
        (void)hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    else if (op->cancel && hlk_cancel_triggered(op->cancel))
        (void)hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

int64_t hlk_quorum_op_jitter(struct hlk_quorum_op *op, int64_t max)
{
    HLK_DEBUG_ASSERT(max >= 0);
    op->seed ^= op->seed << 13;
    op->seed ^= op->seed >> 7;
    op->seed ^= op->seed << 17;
    return max > 0 ? (int64_t)(op->seed % (uint64_t)(max + 1)) : 0;
}

/* --- the masters' channels --- */

void hlk_quorum_op_join_channels(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    char name[HLK_KEY_MAX];
    size_t len = hlk_key_channel(name, op->quorum->name, op->quorum->name_len);
    if (op->joined || !op->client->pubsub)
        return;
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

bool hlk_quorum_op_enough_are_free(const struct hlk_quorum_op *op)
{
    unsigned n = op->client->node_count, blocked = op->blocked & ~atomic_load(&op->messaged);
    return n - (unsigned)__builtin_popcount(blocked) >= n / 2 + 1;
}

/* --- the local queue --- */

/* What the holder has of the lock. HLK_OK: nothing; or one hold more. */
static enum hlk_status look_at_hold(struct hlk_quorum_op *op)
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
    if (op->terms.no_nesting)
        return hlk_error_set(&op->error, HLK_DEADLOCK,
                             "this holder has the lock, which is of a kind that is not reentrant; nothing was sent");
    quorum->count++;
    op->nested = true;
    if (op->terms.report)
        hlk_quorum_report_add(quorum, op->terms.report);
    leave_queue(op);
    return HLK_OK;
}

static enum hlk_status behind_others(struct hlk_quorum_op *op)
{
    return hlk_error_set(&op->error, HLK_BUSY, "another holder of this process has it, or waits for it");
}

enum hlk_status hlk_quorum_op_enter_queue(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->queue && !op->nested);
    struct hlk_quorum *quorum = op->quorum;
    hlk_mutex_lock(&quorum->all->mu);
    enum hlk_status status = look_at_hold(op);
    if (status == HLK_OK && !op->nested)
        status = hlk_quorum_queue_enter(quorum->all, quorum->name, quorum->name_len, hlk_clock_ms(),
                                        op->once ? NULL : &op->waiter, &op->queue);
    hlk_mutex_unlock(&quorum->all->mu);
    if (status == HLK_E_NOMEM)
        return hlk_error_set(&op->error, status, "no memory; nothing was sent");
    return status == HLK_BUSY ? behind_others(op) : status;
}

enum hlk_status hlk_quorum_op_look_at_queue(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->queue && !op->once);
    hlk_mutex_lock(&op->quorum->all->mu);
    bool head = op->waiter.head;
    enum hlk_status status = look_at_hold(op);
    hlk_mutex_unlock(&op->quorum->all->mu);
    return status == HLK_OK && !head && !op->nested ? behind_others(op) : status;
}

bool hlk_quorum_op_must_raise(struct hlk_quorum_op *op)
{
    HLK_DEBUG_ASSERT(op->nested);
    hlk_mutex_lock(&op->quorum->all->mu);
    bool renewed = op->quorum->renewed;
    hlk_mutex_unlock(&op->quorum->all->mu);
    return !op->terms.renewed || !renewed;
}

/* --- connections --- */

static bool most_were_there(const struct hlk_quorum_op *op)
{
    unsigned n = op->client->node_count, were = 0;
    for (unsigned i = 0; i < n; i++)
        were += hlk_pipeline_was_up(op->client->nodes[i].pipeline);
    return were >= n / 2 + 1;
}

enum hlk_status hlk_quorum_op_unreachable(struct hlk_quorum_op *op, enum hlk_status failure, bool waits)
{
    HLK_DEBUG_ASSERT(failure != HLK_OK);
    int64_t now = hlk_clock_ms(), timeout = op->client->reconnect_timeout_ms;
    if (timeout < 0 && op->deadline_ms == INT64_MAX && !most_were_there(op))
        timeout = HLK_RECONNECT_TIMEOUT_MS;
    if (!op->unreachable_ms)
        op->unreachable_ms = now;
    bool over = timeout >= 0 && now - op->unreachable_ms >= timeout;
    return waits && !over ? HLK_OK : failure;
}

enum hlk_status hlk_quorum_op_look_at_masters(struct hlk_quorum_op *op, enum hlk_status *failure)
{
    HLK_DEBUG_ASSERT(!op->round);
    struct hlk_quorum_links links;
    int64_t now = hlk_clock_ms();
    hlk_quorum_links_look(op->client, &links);
    bool enough = links.up >= links.need, awaits = links.untried && now < op->complete_ms && now < op->deadline_ms;
    *failure = links.failure;
    op->untried = links.untried;
    if (enough && !awaits)
        return HLK_OK;
    (void)hlk_error_set(&op->error, *failure, "%u of %u masters are connected, %u are needed%s", links.up, links.n,
                        links.need, links.why);
    /* One try also waits for the first attempts to connect: the client may have been opened lazily. */
    bool waits = !op->once || links.up + links.untried >= links.need;
    enum hlk_status status = enough ? HLK_OK : hlk_quorum_op_unreachable(op, *failure, waits);
    return status == HLK_OK ? HLK_BUSY : status;
}
