/* Acquire, blocking: the calling thread runs the steps, reads the answers, and sleeps between them. */
#include "quorum/acquire.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "lease/lease.h"
#include "quorum/acquire_op.h"
#include "quorum/acquire_step.h"
#include "quorum/hold.h"

#include <pthread.h>

/* --- the sleeps: cancellation points of an hlk_lock's acquire --- */

static void sleep_for_event(struct hlk_quorum_op *op, struct hlk_thread *self, unsigned mask)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    bool signalled = false;
    mask |= HLK_WAKE_LEAVE;
    hlk_thread_allow_cancel(self);
    (void)hlk_park_until(&self->park, mask, op->wait_for.until_ms, self->event_fd, op->eintr ? &signalled : NULL);
    hlk_thread_forbid_cancel(self);
    (void)hlk_park_take(&self->park, mask);
    if (signalled)
        (void)hlk_quorum_acquire_abort(op, HLK_INTERRUPTED, "interrupted by a signal");
}

static void wait_for_event(struct hlk_quorum_op *op, struct hlk_thread *self)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->wait_for.what != HLK_WAIT_DONE);
    switch (op->wait_for.what) {
    case HLK_WAIT_REPLY:
        hlk_round_wait(op->round, self, HLK_WAKE_LEAVE, op->wait_for.until_ms);
        (void)hlk_park_take(&self->park, HLK_WAKE_LEAVE);
        break;
    case HLK_WAIT_QUEUE:
        sleep_for_event(op, self, HLK_WAKE_QUEUE);
        break;
    case HLK_WAIT_MESSAGES:
        sleep_for_event(op, self, HLK_WAKE_MESSAGE);
        break;
    default:
        sleep_for_event(op, self, 0);
    }
}

/* --- the call --- */

static void acquire_on_thread_cancel(void *arg)
{
    hlk_mutex_assert_none();
    struct hlk_quorum_op *op = arg;
    (void)hlk_quorum_acquire_finish(op);
    hlk_client_op_end(op->client);
}

enum hlk_status hlk_quorum_acquire_as(struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                                      const struct hlk_quorum_terms *terms, struct hlk_thread *self)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self && terms->ttl_ms > 0);
    enum hlk_status status;
    struct hlk_waker waker = { .thread = self };
    struct hlk_quorum_op op = { .quorum = quorum };
    hlk_quorum_op_init(&op, quorum, opts, terms, &waker);
    if (op.eintr && hlk_thread_event_fd(self) < 0)
        return hlk_quorum_fail(quorum, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    hlk_client_op_begin(op.client);
    pthread_cleanup_push(acquire_on_thread_cancel, &op);
    struct hlk_wait_for next = hlk_quorum_acquire_start(&op);
    while (next.what != HLK_WAIT_DONE) {
        wait_for_event(&op, self);
        next = hlk_quorum_acquire_step(&op);
    }
    pthread_cleanup_pop(0);
    status = hlk_quorum_acquire_finish(&op);
    hlk_client_op_end(op.client);
    return status == HLK_OK ? status : hlk_quorum_fail(quorum, "acquire", status, "%s", op.error.text);
}

/* A public handle is ACQUIRING from here on, or the call is over. */
static enum hlk_status occupy(struct hlk_quorum *quorum)
{
    hlk_quorum_expire(quorum);
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

static enum hlk_status read_acquire_opts(const struct hlk_quorum *quorum, const struct hlk_acquire_opts *given,
                                         struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(opts && opts != given);
    struct hlk_acquire_opts defaults = HLK_ACQUIRE_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID, "options of size %zu are not known", given->size);
    if (opts->flags || opts->reserved)
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID, "flags or reserved are not 0");
    if (opts->lease_ms != 0 && opts->lease_ms != HLK_RENEWED &&
        (opts->lease_ms < HLK_LEASE_MIN_MS || opts->lease_ms > HLK_LEASE_MAX_MS))
        return hlk_quorum_fail(quorum, "acquire", HLK_E_INVALID,
                               "lease_ms %lld is not HLK_RENEWED, nor between %d and a year", (long long)opts->lease_ms,
                               HLK_LEASE_MIN_MS);
    opts->wait_ms = hlk_opts_wait_ms(opts->wait_ms);
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
    int old = hlk_nocancel_begin();
    status = hlk_quorum_acquire_as(quorum, &opts, &terms, self);
    hlk_nocancel_end(old);
    return status;
}

enum hlk_status hlk_quorum_acquire(hlk_quorum *quorum, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_quorum_acquire_with(quorum, &opts);
}
