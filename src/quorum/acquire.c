/* Acquire, blocking: rounds until one has a majority, and what it waits for between them. */
#include "base/clock.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "lease/lease.h"
#include "quorum/tally.h"

#include <pthread.h>
#include <string.h>

#define LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)
#define LATE_MOST 3  /* rounds that took longer than the ttl */
#define LOOK_MS 10   /* between two looks whether enough masters are connected */
#define YIELD_MS 2   /* what a process that has had its share leaves to others, at least */
#define SPLIT_MOST 5 /* doublings of the pause after a split vote */
#define SPLIT_FEW 2  /* more of them in a row, and it waits for messages besides */

struct channel_listener { /* at the lock's channel of one master */
    struct hlk_listener listener;
    struct acquire *op;
    unsigned i;
};

struct acquire { /* on its caller's stack. Its sleeps are cancellation points of an hlk_lock's acquire */
    struct hlk_quorum *quorum;
    const struct hlk_quorum_terms *terms;
    hlk_client *client;
    struct hlk_thread *self;
    struct hlk_cancel *cancel;
    struct hlk_wait_entry closing_wait;
    struct hlk_cancel_wait cancel_wait;
    struct hlk_quorum_waiter waiter;
    struct hlk_quorum_queue *queue;
    struct channel_listener listeners[HLK_QUORUM_MAX];
    bool once, joined, eintr;
    bool waits;  /* counted in `waiting` */
    bool nested; /* a thread of its owner has it: one hold more */
    int64_t began_ms, deadline_ms;
    int64_t unreachable_ms; /* since when too few masters can be asked; 0: enough can */
    int tries_left;         /* < 0: any number */
    unsigned late, splits;
    unsigned blocked;     /* a bit for each master that others hold, or that cannot be asked */
    atomic_uint messaged; /* a bit for each one on whose channel a message has come since the last round */
    uint64_t seed;
    struct hlk_error error;
};

/* --- wake-ups: any thread, under a mutex --- */

static void acquire_on_closing(struct hlk_wait_entry *entry)
{
    hlk_park_wake(&HLK_CONTAINER(entry, struct acquire, closing_wait)->self->park, HLK_WAKE_CLOSED);
}

static void acquire_on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_park_wake(&HLK_CONTAINER(wait, struct acquire, cancel_wait)->self->park, HLK_WAKE_CANCEL);
}

static void acquire_on_message(struct hlk_listener *listener, unsigned bit)
{
    struct channel_listener *from = HLK_CONTAINER(listener, struct channel_listener, listener);
    if (bit == HLK_WAKE_SUBSCRIBE_FAILED)
        return; /* it polls */
    atomic_fetch_or(&from->op->messaged, 1u << from->i);
    hlk_park_wake(&from->op->self->park, HLK_WAKE_MESSAGE);
}

static bool must_leave(struct acquire *op)
{
    (void)hlk_park_take(&op->self->park, LEAVE);
    if (atomic_load(&op->client->closing))
        (void)hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    else if (op->cancel && hlk_cancel_triggered(op->cancel))
        (void)hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

static uint64_t acquire_random(struct acquire *op)
{
    op->seed ^= op->seed << 13;
    op->seed ^= op->seed >> 7;
    op->seed ^= op->seed << 17;
    return op->seed;
}

/* 0 to max */
static int64_t acquire_jitter(struct acquire *op, int64_t max)
{
    return max > 0 ? (int64_t)(acquire_random(op) % (uint64_t)(max + 1)) : 0;
}

/* --- the masters' channels --- */

static void join_channels(struct acquire *op)
{
    char name[HLK_KEY_MAX];
    size_t len = hlk_key_channel(name, op->quorum->name, op->quorum->name_len);
    op->joined = true;
    for (unsigned i = 0; i < op->client->node_count; i++) {
        struct hlk_channels *channels = &op->client->nodes[i].channels;
        op->listeners[i] =
            (struct channel_listener){ .listener = { .on_event = acquire_on_message }, .op = op, .i = i };
        hlk_subscriber_eager(&channels->pubsub, true);
        if (hlk_channel_join(channels, name, len, &op->listeners[i].listener) == HLK_OK)
            acquire_on_message(&op->listeners[i].listener, HLK_WAKE_SUBSCRIBED);
    }
}

static void leave_channels(struct acquire *op)
{
    for (unsigned i = 0; op->joined && i < op->client->node_count; i++) {
        struct hlk_channels *channels = &op->client->nodes[i].channels;
        hlk_channel_leave(channels, &op->listeners[i].listener);
        hlk_subscriber_eager(&channels->pubsub, false);
    }
}

/* --- waiting --- */

/* HLK_OK: `at_ms` has come, or a bit of `bits` was set. */
static enum hlk_status acquire_sleep(struct acquire *op, unsigned bits, int64_t at_ms)
{
    bool signalled = false;
    if (must_leave(op))
        return op->error.status;
    if (!op->waits)
        HLK_COUNT(&op->client->table, waiting);
    op->waits = true;
    hlk_thread_allow_cancel(op->self);
    (void)hlk_park_until(&op->self->park, bits | LEAVE, at_ms < op->deadline_ms ? at_ms : op->deadline_ms,
                         op->self->event_fd, op->eintr ? &signalled : NULL);
    hlk_thread_forbid_cancel(op->self);
    if (signalled)
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "interrupted by a signal");
    return must_leave(op) ? op->error.status : HLK_OK;
}

static bool out_of_time(struct acquire *op)
{
    if (hlk_clock_ms() < op->deadline_ms)
        return false;
    (void)hlk_error_set(&op->error, HLK_TIMEOUT, "not acquired in %lld ms%s%s",
                        (long long)(op->deadline_ms - op->began_ms), op->error.text[0] ? "; " : "", op->error.text);
    return true;
}

/* all->mu held. It was not the head. */
static void leave_queue(struct acquire *op)
{
    if (op->queue)
        hlk_quorum_queue_leave(op->quorum->all, op->queue, &op->waiter);
    op->queue = NULL;
}

/* What the holder has of it. HLK_OK: nothing; or one hold more (nested). */
static enum hlk_status look_at_hold(struct acquire *op)
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
    leave_queue(op);
    return HLK_OK;
}

/* HLK_OK: it is the head, or nested. */
static enum hlk_status wait_in_queue(struct acquire *op)
{
    for (;;) {
        (void)hlk_park_take(&op->self->park, HLK_WAKE_QUEUE);
        hlk_mutex_lock(&op->quorum->all->mu);
        bool head = op->waiter.head;
        enum hlk_status found = look_at_hold(op);
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

static bool enough_are_free(const struct acquire *op)
{
    unsigned n = op->client->node_count, blocked = op->blocked & ~atomic_load(&op->messaged);
    return n - (unsigned)__builtin_popcount(blocked) >= n / 2 + 1;
}

/* Until as many masters have said something as a majority takes, or at_ms comes. */
static enum hlk_status wait_for_messages(struct acquire *op, int64_t at_ms)
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

static enum hlk_status pause_for(struct acquire *op, int64_t ms)
{
    int64_t at_ms = hlk_clock_after(hlk_clock_ms(), ms);
    enum hlk_status status = HLK_OK;
    while (status == HLK_OK && hlk_clock_ms() < at_ms && !out_of_time(op))
        status = acquire_sleep(op, 0, at_ms);
    return status == HLK_OK && hlk_clock_ms() >= op->deadline_ms ? HLK_TIMEOUT : status;
}

/* --- after a round without a majority --- */

/* Too few masters can be asked. HLK_OK: they may come back, ask again. */
static enum hlk_status unreachable(struct acquire *op, enum hlk_status failure, bool waits)
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

/* HLK_OK: the next round. */
static enum hlk_status acquire_wait_after(struct acquire *op, const struct hlk_tally *t)
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
    int64_t delay = opts->retry_delay_ms + acquire_jitter(op, opts->retry_jitter_ms);
    /* Nobody has a majority, as far as is known: whoever asks first in a moment gets it. A holder that has another name
     * on each master looks the same: one of Redisson's. */
    bool split = t->largest < need && !few && t->failed + t->largest <= n - need;
    op->splits = split ? op->splits + (op->splits < SPLIT_MOST) : 0;
    if (split) {
        int64_t max_ms = (int64_t)1 << op->splits;
        status = pause_for(op, 1 + acquire_jitter(op, max_ms < delay ? max_ms : delay));
        if (status != HLK_OK || op->splits <= SPLIT_FEW)
            return status;
    }
    if (!op->joined && op->client->pubsub)
        join_channels(op);
    if (!few)
        return wait_for_messages(op, hlk_clock_after(hlk_clock_ms(), delay));
    status = pause_for(op, delay);
    return status == HLK_TIMEOUT ? t->failure : status;
}

/* --- rounds --- */

/* The client is new, and what it has not reached may be a moment away. A hold without that master would not survive
 * the loss of another one. */
static bool is_new(const struct acquire *op)
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

/* HLK_OK: enough masters are connected. Nothing is sent as long as no majority can come of it. */
static enum hlk_status wait_for_masters(struct acquire *op)
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

/* HLK_OK: held. HLK_BUSY: not; *t says why. */
static enum hlk_status acquire_round(struct acquire *op, struct hlk_tally *t)
{
    struct hlk_quorum *quorum = op->quorum;
    uint64_t hold = atomic_fetch_add(&op->client->table.last_h, 1) + 1;
    struct hlk_round *round = hlk_round_make(quorum, true, hold, op->terms->ttl_ms);
    if (!round)
        return hlk_error_set(&op->error, HLK_E_NOMEM, "no memory");
    atomic_store(&op->messaged, 0);
    atomic_store(&round->waiter, op->self);
    hlk_round_send(round);
    hlk_round_wait(round, LEAVE, round->sent_ms + quorum->opts.node_timeout_ms);
    bool leaves = hlk_park_peek(&op->self->park, LEAVE) && must_leave(op);
    bool won = !leaves && hlk_round_won(round);
    if (won && hlk_quorum_begin(quorum, round, op->queue, op->terms))
        return HLK_OK;
    *t = hlk_tally_count(round, op->client->nodes, quorum->opts.node_timeout_ms, op->error.text, sizeof op->error.text);
    op->blocked = t->blocked;
    hlk_round_release(round);
    hlk_round_unref(round);
    if (leaves || must_leave(op)) /* the second sets its text anew */
        return must_leave(op) ? op->error.status : HLK_INTERRUPTED;
    if (!won)
        return HLK_BUSY;
    if (++op->late < LATE_MOST)
        return HLK_BUSY;
    return hlk_error_set(&op->error, HLK_E_CONNECT,
                         "each of %d majorities came when the ttl of %lld ms was over; given "
                         "back",
                         LATE_MOST, (long long)op->terms->ttl_ms);
}

static enum hlk_status run_rounds(struct acquire *op)
{
    for (;;) {
        struct hlk_tally t = { 0 };
        enum hlk_status status = wait_for_masters(op);
        if (status == HLK_OK)
            status = acquire_round(op, &t);
        if (status != HLK_BUSY)
            return status;
        if ((status = acquire_wait_after(op, &t)) != HLK_OK)
            return status;
    }
}

/* --- the call --- */

static enum hlk_status enter_queue(struct acquire *op)
{
    struct hlk_quorums *all = op->quorum->all;
    op->waiter.thread = op->self;
    op->waiter.quorum = op->quorum;
    hlk_mutex_lock(&all->mu);
    enum hlk_status status = look_at_hold(op);
    bool decided = status != HLK_OK || op->nested;
    if (!decided)
        status = hlk_quorum_queue_enter(all, op->quorum->name, op->quorum->name_len, op->once ? NULL : &op->waiter,
                                        &op->queue);
    hlk_mutex_unlock(&all->mu);
    if (decided)
        return status;
    if (status == HLK_E_NOMEM)
        return hlk_error_set(&op->error, status, "no memory; nothing was sent");
    if (status == HLK_BUSY && op->once)
        return hlk_error_set(&op->error, status, "another holder of this process has it, or waits for it");
    if (status == HLK_OK)
        return status;
    status = wait_in_queue(op);
    if (status == HLK_OK && !op->nested && op->waiter.yields)
        status = pause_for(op, YIELD_MS + acquire_jitter(op, YIELD_MS));
    return status;
}

static enum hlk_status begin_acquire(struct acquire *op)
{
    if (op->cancel && !hlk_cancel_join(op->cancel, &op->cancel_wait))
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    return must_leave(op) ? op->error.status : HLK_OK;
}

static void end_acquire(struct acquire *op, bool held)
{
    struct hlk_quorums *all = op->quorum->all;
    leave_channels(op);
    if (op->waits)
        HLK_UNCOUNT(&op->client->table, waiting);
    hlk_cancel_leave(op->cancel, &op->cancel_wait);
    hlk_client_wait_remove(op->client, &op->closing_wait);
    hlk_mutex_lock(&all->mu);
    if (!held) {
        if (hlk_list_linked(&op->waiter.link))
            leave_queue(op);
        else if (op->queue)
            hlk_quorum_queue_pass(all, op->queue, hlk_clock_ms());
        if (op->quorum->state == HLK_QUORUM_ACQUIRING)
            op->quorum->state = HLK_QUORUM_FREE;
    }
    hlk_mutex_unlock(&all->mu);
}

static void count_acquired(const struct acquire *op, enum hlk_status status)
{
    struct hlk_entry_table *table = &op->client->table;
    if (status == HLK_OK && op->nested)
        HLK_COUNT(table, reentered);
    else if (status == HLK_OK)
        HLK_COUNT(table, acquired);
    else if (status == HLK_BUSY)
        HLK_COUNT(table, busy);
    else if (status == HLK_TIMEOUT)
        HLK_COUNT(table, timeouts);
    else if (status == HLK_INTERRUPTED)
        HLK_COUNT(table, interrupted);
}

/* A public handle is ACQUIRING from here on, or the call is over. */
static enum hlk_status occupy(struct hlk_quorum *quorum)
{
    hlk_quorum_look(quorum);
    hlk_mutex_lock(&quorum->all->mu);
    enum hlk_quorum_state state = quorum->state;
    const char *why = quorum->why;
    if (state == HLK_QUORUM_FREE)
        quorum->state = HLK_QUORUM_ACQUIRING;
    hlk_mutex_unlock(&quorum->all->mu);
    if (state == HLK_QUORUM_FREE)
        return HLK_OK;
    if (state == HLK_QUORUM_LOST)
        return hlk_quorum_fail(quorum, "acquire", HLK_LOST, "this handle lost a hold (%s) and has not released it yet",
                               why);
    return hlk_quorum_fail(quorum, "acquire", HLK_DEADLOCK,
                           "this handle has it, or another call by it is under way; nothing was sent");
}

static void acquire_on_thread_cancel(void *arg)
{
    struct acquire *op = arg;
    HLK_COUNT(&op->client->table, interrupted);
    end_acquire(op, false);
    hlk_client_op_end(op->client);
}

static enum hlk_status run_acquire(struct acquire *op)
{
    enum hlk_status status = begin_acquire(op);
    if (status == HLK_OK)
        status = enter_queue(op);
    return status == HLK_OK && !op->nested ? run_rounds(op) : status;
}

enum hlk_status hlk_quorum_acquire_as(struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                                      const struct hlk_quorum_terms *terms, struct hlk_thread *self, bool *nested)
{
    int64_t now = hlk_clock_ms();
    enum hlk_status status;
    struct acquire op = { .quorum = quorum,
                          .terms = terms,
                          .client = quorum->client,
                          .self = self,
                          .cancel = opts->cancel,
                          .once = opts->wait_ms == 0,
                          .eintr = opts->flags & HLK_ACQUIRE_EINTR,
                          .began_ms = now,
                          .deadline_ms = opts->wait_ms == 0 ? INT64_MAX : hlk_clock_after(now + 1, opts->wait_ms),
                          .tries_left = quorum->opts.retry_count < 0   ? 0
                                        : quorum->opts.retry_count > 0 ? quorum->opts.retry_count
                                                                       : -1,
                          .seed = (uint64_t)hlk_clock_ns() ^ (self->id * UINT64_C(0x9e3779b97f4a7c15)) ^
                                  (uint64_t)(uintptr_t)quorum->client };
    op.closing_wait.wake = acquire_on_closing;
    op.cancel_wait.wake = acquire_on_cancel;
    if (op.eintr && hlk_thread_event_fd(self) < 0)
        return hlk_quorum_fail(quorum, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    hlk_client_op_begin(op.client);
    hlk_client_wait_add(op.client, &op.closing_wait);
    pthread_cleanup_push(acquire_on_thread_cancel, &op);
    status = run_acquire(&op);
    pthread_cleanup_pop(0);
    end_acquire(&op, status == HLK_OK);
    count_acquired(&op, status);
    hlk_client_op_end(op.client);
    *nested = op.nested;
    return status == HLK_OK ? status : hlk_quorum_fail(quorum, "acquire", status, "%s", op.error.text);
}

static enum hlk_status read_acquire_opts(const struct hlk_quorum *quorum, const struct hlk_acquire_opts *given,
                                         struct hlk_acquire_opts *opts)
{
    struct hlk_acquire_opts defaults = HLK_ACQUIRE_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID, "options of size %zu are not known", given->size);
    if (opts->flags || opts->reserved)
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID, "flags or reserved are not 0");
    if (opts->lease_ms > 0 && (opts->lease_ms < HLK_LEASE_MIN_MS || opts->lease_ms > HLK_LEASE_MAX_MS))
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID, "lease_ms is not between %d and a year",
                               HLK_LEASE_MIN_MS);
    return HLK_OK;
}

enum hlk_status hlk_quorum_acquire_with(hlk_quorum *quorum, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_quorum_check(quorum, "acquire");
    if (status == HLK_OK)
        status = read_acquire_opts(quorum, given, &opts);
    if (status != HLK_OK)
        return status;
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_quorum_fail(quorum, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    if ((status = occupy(quorum)) != HLK_OK)
        return status;
    const struct hlk_quorum_terms terms = { .renewed = opts.lease_ms <= 0,
                                            .ttl_ms = opts.lease_ms > 0 ? opts.lease_ms : quorum->opts.ttl_ms,
                                            .max_hold_ms = quorum->opts.max_hold_ms };
    bool nested;
    int old = hlk_nocancel_begin();
    status = hlk_quorum_acquire_as(quorum, &opts, &terms, self, &nested);
    hlk_nocancel_end(old);
    return status;
}

enum hlk_status hlk_quorum_acquire(hlk_quorum *quorum, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_quorum_acquire_with(quorum, &opts);
}
