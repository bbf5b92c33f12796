/* What a finished acquire counts, and the text of its error. */
#include "acquire/acquire_report.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/holding.h"

#include <stdio.h>
#include <string.h>

static void count_wait(struct hlk_entry_table *table, int64_t ns)
{
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    unsigned i = 0;
    while (i < 31 && us >= (uint64_t)1 << i)
        i++;
    HLK_COUNT(table, wait_us[i]);
}

/* It holds the lock: for the first time, or nested, which an async call or an owner's second thread may learn only
 * here. */
static void count_hold(struct hlk_entry_table *table, const struct hlk_acquire_op *op)
{
    bool holds = !op->lock->kind->format->holds_nothing;
    bool nested = holds && (!op->won || op->raising);
    if (nested) {
        HLK_COUNT(table, reentered);
        return;
    }
    if (holds)
        HLK_COUNT(table, acquired);
    count_wait(table, hlk_clock_ns() - op->started_ns);
    if (op->machine.cause == HLK_CAUSE_MESSAGE)
        HLK_COUNT(table, woken);
    else if (op->machine.cause == HLK_CAUSE_TIME)
        HLK_COUNT(table, woken_by_ttl);
}

static long long waited_ms(const struct hlk_acquire_op *op)
{
    return (hlk_clock_ns() - op->started_ns + 999999) / 1000000;
}

static const char *verb(const struct hlk_acquire_op *op)
{
    const char *verb = op->lock->kind->format->verb;
    return verb ? verb : "acquire";
}

/* For example: held by owner "order-4711" of this process, ttl 27.1 s */
static void add_local_holder(struct hlk_text *text, const struct hlk_acquire_op *op)
{
    struct hlk_local_holder near;
    char label[65];
    hlk_entry_local_holder(op->entry, &near);
    hlk_lock_owner_label(near.handle, label, sizeof label);
    if (!near.held)
        hlk_text_add(text, "another thread or owner of this process is before");
    else if (near.orphaned)
        hlk_text_add(text, "held by a thread or owner of this process that has ended");
    else if (label[0])
        hlk_text_add(text, "held by owner \"%s\" of this process", label);
    else
        hlk_text_add(text, "held by another thread or owner of this process");
    int64_t left = near.until_ms - hlk_clock_ms();
    if (near.held)
        hlk_text_add(text, ", ttl %.1f s", left > 0 ? (double)left / 1000.0 : 0.0);
    hlk_handle_release(near.handle);
}

static enum hlk_status busy_text(struct hlk_acquire_op *op, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(status == HLK_BUSY || status == HLK_TIMEOUT);
    char buf[320];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    const struct hlk_format *format = op->lock->kind->format;
    if (status == HLK_TIMEOUT)
        hlk_text_add(&text, format->holds_nothing ? "waited %lld ms; " : "not acquired in %lld ms; ", waited_ms(op));
    if (op->raising) {
        hlk_text_add(&text, "no answer came in time to the raise of its lease; held as before");
    } else if (format->describe && op->holder[0]) {
        format->describe(&text, op->holder);
    } else if (op->unanswered) {
        hlk_text_add(&text, "the server has not answered; what was sent is taken back");
    } else if (op->holder[0]) {
        int64_t ago_ms = hlk_clock_ms() - op->holder_ms;
        hlk_text_add(&text, "held by ");
        hlk_field_describe(&text, op->holder, strlen(op->holder));
        hlk_text_add(&text, op->busy.ttl_ms < 0 ? ", without end" : ", ttl %.1f s", (double)op->busy.ttl_ms / 1000.0);
        if (ago_ms >= 500) /* the holder may be another one by now; waiters get no message of that */
            hlk_text_add(&text, ", %.1f s ago", (double)ago_ms / 1000.0);
    } else if (op->waiter.permits) {
        hlk_text_add(&text, "too few permits are free, or others are before in its queue");
    } else if (format->per_holder) {
        hlk_text_add(&text, "others are before in its queue");
    } else {
        add_local_holder(&text, op);
    }
    return hlk_lock_fail(op->lock, verb(op), status, "%s", buf);
}

static enum hlk_status short_text(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->lock->client->wait_replicas > 0);
    const hlk_client *client = op->lock->client;
    char known[32] = "it is not known how many";
    if (op->acknowledged >= 0)
        (void)snprintf(known, sizeof known, "%d", op->acknowledged);
    return hlk_lock_fail(op->lock, "acquire", HLK_NOT_REPLICATED,
                         "acquired, but not confirmed by %u replicas (wait_replicas) in %lld ms: %s acknowledged it; "
                         "released. Are the replicas connected to this server?",
                         client->wait_replicas, waited_ms(op), known);
}

enum hlk_status hlk_acquire_op_report(struct hlk_acquire_op *op, enum hlk_status status)
{
    struct hlk_entry_table *table = &op->lock->client->table;
    switch (status) {
    case HLK_OK:
        count_hold(table, op);
        return HLK_OK;
    case HLK_BUSY:
        HLK_COUNT(table, busy);
        return busy_text(op, status);
    case HLK_TIMEOUT:
        HLK_COUNT(table, timeouts);
        return busy_text(op, status);
    case HLK_INTERRUPTED:
        HLK_COUNT(table, interrupted);
        return hlk_lock_fail(op->lock, verb(op), status, "interrupted after %lld ms; nothing is held or queued",
                             waited_ms(op));
    case HLK_LOST:
        if (op->lock->kind->format->holds_nothing)
            return hlk_lock_fail(op->lock, verb(op), status, "%s", op->error.text);
        return hlk_lock_lost_before(op->lock, op->entry, op->waiter.holder.id);
    case HLK_NOT_REPLICATED:
        return short_text(op);
    case HLK_DEADLOCK:
        return hlk_lock_fail(op->lock, "acquire", status, "%s; nothing was changed",
                             op->error.text[0] ? op->error.text
                                               : "the caller holds it already, and a lock of this kind does not nest");
    default:
        return hlk_lock_fail(op->lock, verb(op), status, "%s",
                             op->error.text[0] ? op->error.text : hlk_status_text(status));
    }
}
