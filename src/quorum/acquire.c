/* Acquire, blocking: rounds until one has a majority. */
#include "quorum/acquire.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "lease/lease.h"

#include <pthread.h>
#include <string.h>

#define LATE_MOST 3 /* rounds that took longer than the ttl */
#define YIELD_MS 2  /* what a process that has had its share leaves to others, at least */

/* --- rounds --- */

/* HLK_OK: held. HLK_BUSY: not; *t says why. */
static enum hlk_status acquire_round(struct hlk_quorum_op *op, struct hlk_tally *t)
{
    struct hlk_quorum *quorum = op->quorum;
    uint64_t hold = atomic_fetch_add(&op->client->table.last_h, 1) + 1;
    struct hlk_round *round = hlk_round_make(quorum, true, hold, op->terms->ttl_ms);
    if (!round)
        return hlk_error_set(&op->error, HLK_E_NOMEM, "no memory");
    atomic_store(&op->messaged, 0);
    atomic_store(&round->waiter, op->self);
    hlk_round_send(round);
    hlk_round_wait(round, HLK_QUORUM_LEAVE, round->sent_ms + quorum->opts.node_timeout_ms);
    bool leaves = hlk_park_peek(&op->self->park, HLK_QUORUM_LEAVE) && hlk_quorum_op_must_leave(op);
    bool won = !leaves && hlk_round_won(round);
    if (won && hlk_quorum_begin(quorum, round, op->queue, op->terms))
        return HLK_OK;
    *t = hlk_tally_count(round, op->client->nodes, quorum->opts.node_timeout_ms, op->error.text, sizeof op->error.text);
    op->blocked = t->blocked;
    hlk_round_release(round);
    hlk_round_unref(round);
    if (leaves || hlk_quorum_op_must_leave(op)) /* the second sets its text anew */
        return hlk_quorum_op_must_leave(op) ? op->error.status : HLK_INTERRUPTED;
    if (!won)
        return HLK_BUSY;
    if (++op->late < LATE_MOST)
        return HLK_BUSY;
    return hlk_error_set(&op->error, HLK_E_CONNECT,
                         "each of %d majorities came when the ttl of %lld ms was over; given "
                         "back",
                         LATE_MOST, (long long)op->terms->ttl_ms);
}

static enum hlk_status run_rounds(struct hlk_quorum_op *op)
{
    for (;;) {
        struct hlk_tally t = { 0 };
        enum hlk_status status = hlk_quorum_op_wait_for_masters(op);
        if (status == HLK_OK)
            status = acquire_round(op, &t);
        if (status != HLK_BUSY)
            return status;
        if ((status = hlk_quorum_op_wait_after(op, &t)) != HLK_OK)
            return status;
    }
}

/* --- the call --- */

/* Wake-ups: any thread, under a mutex. */
static void acquire_on_closing(struct hlk_wait_entry *entry)
{
    hlk_park_wake(&HLK_CONTAINER(entry, struct hlk_quorum_op, closing_wait)->self->park, HLK_WAKE_CLOSED);
}

static void acquire_on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_park_wake(&HLK_CONTAINER(wait, struct hlk_quorum_op, cancel_wait)->self->park, HLK_WAKE_CANCEL);
}

static enum hlk_status enter_queue(struct hlk_quorum_op *op)
{
    struct hlk_quorums *all = op->quorum->all;
    op->waiter.thread = op->self;
    op->waiter.quorum = op->quorum;
    hlk_mutex_lock(&all->mu);
    enum hlk_status status = hlk_quorum_op_look_at_hold(op);
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
    status = hlk_quorum_op_wait_in_queue(op);
    if (status == HLK_OK && !op->nested && op->waiter.yields)
        status = hlk_quorum_op_pause(op, YIELD_MS + hlk_quorum_op_jitter(op, YIELD_MS));
    return status;
}

static enum hlk_status begin_acquire(struct hlk_quorum_op *op)
{
    if (op->cancel && !hlk_cancel_join(op->cancel, &op->cancel_wait))
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    return hlk_quorum_op_must_leave(op) ? op->error.status : HLK_OK;
}

static void end_acquire(struct hlk_quorum_op *op, bool held)
{
    struct hlk_quorums *all = op->quorum->all;
    hlk_quorum_op_leave_channels(op);
    if (op->waits)
        HLK_UNCOUNT(&op->client->table, waiting);
    hlk_cancel_leave(op->cancel, &op->cancel_wait);
    hlk_client_wait_remove(op->client, &op->closing_wait);
    hlk_mutex_lock(&all->mu);
    if (!held) {
        if (hlk_list_linked(&op->waiter.link))
            hlk_quorum_op_leave_queue(op);
        else if (op->queue)
            hlk_quorum_queue_pass(all, op->queue, hlk_clock_ms());
        if (op->quorum->state == HLK_QUORUM_ACQUIRING)
            op->quorum->state = HLK_QUORUM_FREE;
    }
    hlk_mutex_unlock(&all->mu);
}

static void count_acquired(const struct hlk_quorum_op *op, enum hlk_status status)
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
    struct hlk_quorum_op *op = arg;
    HLK_COUNT(&op->client->table, interrupted);
    end_acquire(op, false);
    hlk_client_op_end(op->client);
}

static enum hlk_status run_acquire(struct hlk_quorum_op *op)
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
    struct hlk_quorum_op op = { .quorum = quorum,
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
