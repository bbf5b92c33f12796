#include "lease/watchdog.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_internal.h"
#include "lease/entry_lose.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/line.h"
#include "lease/pass_permits.h"
#include "lease/shared_hold.h"
#include "net/pipeline_link.h"
#include "node/cluster_servers.h"
#include "node/topology.h"
#include "script/engine.h"
#include "script/format.h"

#include <string.h>

/* One script in flight. */
struct batch {
    struct hlk_command cmd;
    struct hlk_node *node;
    unsigned n;
    int64_t lease_ms[HLK_RENEWALS_A_SCRIPT];
    uint64_t h[HLK_RENEWALS_A_SCRIPT];
    struct hlk_entry *entries[HLK_RENEWALS_A_SCRIPT]; /* referenced */
};

/* --- sending --- */

/* Marks the entries that are still held and removes the others from the batch. A marked entry is not released until it
 * is unmarked. */
static void mark(struct batch *batch, struct hlk_entry **marked)
{
    HLK_DEBUG_ASSERT(batch->n <= HLK_RENEWALS_A_SCRIPT);
    unsigned n = 0;
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_entry *e = batch->entries[i];
        if (!hlk_entry_lock_held(e, batch->h[i])) {
            hlk_entry_unref(e);
            continue;
        }
        hlk_entry_batch(e, true);
        e->hold.lease.raising_ms += batch->lease_ms[i];
        hlk_mutex_unlock(e->mu);
        batch->h[n] = batch->h[i];
        batch->lease_ms[n] = batch->lease_ms[i];
        batch->entries[n] = marked[n] = e;
        hlk_entry_ref(e); /* the batch may be answered and freed before it is unmarked here */
        n++;
    }
    batch->n = n;
}

static void unmark(struct hlk_entry **marked, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        hlk_mutex_lock(marked[i]->mu);
        hlk_entry_batch(marked[i], false);
        hlk_mutex_unlock(marked[i]->mu);
        hlk_entry_unref(marked[i]);
    }
}

/* It did not run and will not. */
static void forget_raises(struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++)
        hlk_entry_raise_settle(batch->entries[i], batch->h[i], batch->lease_ms[i], false);
}

/* False: not sent; the caller frees the batch. */
static bool send_batch(struct batch *batch)
{
    hlk_mutex_assert_none();
    struct hlk_renewal renewals[HLK_RENEWALS_A_SCRIPT];
    struct hlk_entry *marked[HLK_RENEWALS_A_SCRIPT];
    mark(batch, marked);
    unsigned n = batch->n;
    for (unsigned i = 0; i < n; i++)
        renewals[i] = (struct hlk_renewal){ hlk_entry_name(marked[i]), hlk_entry_len(marked[i]), batch->h[i],
                                            batch->lease_ms[i] };
    struct hlk_error error;
    batch->cmd.renewals = renewals;
    batch->cmd.count = n;
    bool sent = n > 0 && hlk_command_send(&batch->cmd, &error) == HLK_COMMAND_IN_FLIGHT;
    unmark(marked, n);
    if (!sent)
        forget_raises(batch);
    return sent;
}

static void free_batch(struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++)
        hlk_entry_unref(batch->entries[i]);
    hlk_command_drop_reply(&batch->cmd);
    hlk_mem_free(batch);
}

/* --- answers --- */

/* Returns the time since the last renewal if it is more than half of the lease, else 0. */
static int64_t renewed(struct hlk_entry *e, uint64_t h, int64_t sent_ms, int64_t lease_ms)
{
    struct hlk_entry_table *table = e->node->table;
    int64_t gap_ms = 0;
    if (!hlk_entry_lock_held(e, h))
        return 0;
    e->hold.lease.raising_ms -= lease_ms;
    if (sent_ms - e->hold.lease.sent_ms > e->hold.lease.lease_ms / 2)
        gap_ms = sent_ms - e->hold.lease.sent_ms;
    HLK_COUNT(table, renewals);
    if (gap_ms)
        HLK_COUNT(table, renewals_late);
    if (e->hold.lease.fixed)
        hlk_lease_verified(&e->hold.lease, sent_ms);
    else if (hlk_lease_renewed(&e->hold.lease, sent_ms, lease_ms, table->at_risk_ms, hlk_clock_ms()))
        hlk_entry_notify(e, HLK_EVENT_SAFE, "renewed");
    hlk_entry_arm(e);
    hlk_mutex_unlock(e->mu);
    return gap_ms;
}

/* One log line for the whole batch, naming the first lock. */
static void log_gaps(const struct batch *batch, unsigned late, unsigned first, int64_t gap_ms)
{
    if (late)
        hlk_log(batch->node->table->log, HLK_LOG_WARN,
                "%u of %u locks renewed later than half of their lease, \"%.64s\" %lld ms after the time before; the "
                "server took %lld ms to answer",
                late, batch->n, hlk_entry_name(batch->entries[first]), (long long)gap_ms,
                (long long)(hlk_clock_ms() - hlk_command_sent_ms(&batch->cmd)));
}

static bool answers(const struct batch *batch, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == batch->n + 1 &&
           hlk_answer_names(reply->element[batch->n], batch->cmd.client_id, batch->h[0]);
}

static void read_answers(struct batch *batch)
{
    hlk_mutex_assert_none();
    const redisReply *reply = batch->cmd.call.reply;
    unsigned late = 0, first = 0;
    int64_t first_ms = 0;
    if (!answers(batch, reply)) {
        hlk_pipeline_distrust(batch->cmd.pipeline, batch->cmd.call.epoch);
        return;
    }
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_entry *e = batch->entries[i];
        long long answer = reply->element[i]->type == REDIS_REPLY_INTEGER ? reply->element[i]->integer : -1;
        if (answer == 1) {
            int64_t gap_ms = renewed(e, batch->h[i], hlk_command_sent_ms(&batch->cmd), batch->lease_ms[i]);
            if (gap_ms && late++ == 0) {
                first = i;
                first_ms = gap_ms;
            }
            continue;
        }
        hlk_entry_lose(e, batch->h[i], answer == 0 ? hlk_lease_why_unknown : "broken: somebody else holds it");
    }
    log_gaps(batch, late, first, first_ms);
}

static void renew_again_soon(struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_entry *e = batch->entries[i];
        if (!hlk_entry_lock_held(e, batch->h[i]))
            continue;
        hlk_lease_refused(&e->hold.lease, hlk_clock_ms());
        hlk_entry_arm(e);
        hlk_mutex_unlock(e->mu);
    }
}

/* A batch on a broken connection is not repeated, because a reconnect verifies all holds. The entries of a refused
 * batch renew again a tenth of their lease later. */
static void watchdog_on_end(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct batch *batch = HLK_CONTAINER(call, struct batch, cmd.call);
    struct hlk_error error;
    int end = atomic_load(&call->end);
    enum hlk_progress progress = hlk_command_end(&batch->cmd, &error);
    if (progress == HLK_COMMAND_ANSWERED) {
        read_answers(batch);
    } else if (end != HLK_CALL_BROKEN) {
        forget_raises(batch); /* it did not run */
        if (end == HLK_CALL_ANSWERED && progress == HLK_COMMAND_RESEND && send_batch(batch))
            return;
        if (end == HLK_CALL_ANSWERED && progress != HLK_COMMAND_RESEND) {
            hlk_log(batch->node->table->log, HLK_LOG_WARN, "renewal of %u locks refused: %s", batch->n, error.text);
            renew_again_soon(batch);
        }
    }
    free_batch(batch);
}

/* --- collecting: loop thread --- */

/* The locks of one script have one format, and their keys are in one slot. */
static bool fits_batch(struct batch *batch, struct hlk_entry *e)
{
    hlk_loop_assert_here(e->node->table->loop);
    const struct hlk_command_type *renew = hlk_entry_format(e)->renew;
    struct hlk_command to = { .name = hlk_entry_name(e), .name_len = hlk_entry_len(e) };
    if (batch->n > 0 && (batch->cmd.type != renew || !e->node->cluster))
        return batch->cmd.type == renew;
    hlk_node_direct(e->node, &to);
    if (batch->n > 0)
        return batch->cmd.slot == to.slot;
    batch->cmd.type = renew;
    batch->cmd.pipeline = to.pipeline;
    batch->cmd.router = to.router;
    batch->cmd.slot = to.slot;
    return true;
}

/* *at: node->due, or the `next` of the one before it. Its reference is the caller's. */
static struct hlk_entry *take_due(struct hlk_node *node, struct hlk_entry **at)
{
    hlk_loop_assert_here(node->table->loop);
    HLK_DEBUG_ASSERT(*at && (*at)->is_due);
    struct hlk_entry *e = *at;
    *at = e->next;
    if (node->due_end == &e->next)
        node->due_end = at;
    e->is_due = false;
    return e;
}

/* Takes the first that is due, and those after it that fit. Some that do not may be between them. */
static void fill_batch(struct batch *batch)
{
    hlk_loop_assert_here(batch->node->table->loop);
    HLK_DEBUG_ASSERT(batch->n == 0);
    struct hlk_entry **at = &batch->node->due;
    int64_t now = hlk_clock_ms();
    for (unsigned looks = 4 * HLK_RENEWALS_A_SCRIPT; *at && looks > 0 && batch->n < HLK_RENEWALS_A_SCRIPT; looks--) {
        if (!fits_batch(batch, *at)) {
            at = &(*at)->next;
            continue;
        }
        struct hlk_entry *e = take_due(batch->node, at);
        hlk_mutex_lock(e->mu);
        batch->h[batch->n] = e->hold.id;
        batch->lease_ms[batch->n] = hlk_lease_renewal_ms(&e->hold.lease, e->node->table->watchdog_ms, now);
        hlk_mutex_unlock(e->mu);
        batch->entries[batch->n++] = e;
    }
}

void hlk_watchdog_flush(struct hlk_node *node)
{
    hlk_loop_assert_here(node->table->loop);
    while (node->due) {
        struct batch *batch = hlk_mem_zalloc(sizeof *batch);
        if (!batch)
            break;
        batch->node = node;
        batch->cmd.client_id = node->table->client_id;
        batch->cmd.limits = (struct hlk_limits){ .at_ms = INT64_MAX, .reconnect_timeout_ms = -1, .once = true };
        batch->cmd.call.done = watchdog_on_end;
        batch->cmd.call.lazy = true; /* the loop's next tick reads the reply at the latest */
        fill_batch(batch);
        if (!send_batch(batch))
            free_batch(batch); /* no connection: a reconnect verifies it */
    }
    while (node->due) /* no memory: repeated at each entry's next alarm */
        hlk_entry_unref(take_due(node, &node->due));
}

static void collect_due(struct hlk_entry *e)
{
    hlk_loop_assert_here(e->node->table->loop);
    hlk_mutex_assert_held(e->mu);
    struct hlk_node *node = e->node;
    if (e->is_due)
        return;
    hlk_entry_ref(e);
    if (!node->due)
        node->due_end = &node->due;
    *node->due_end = e;
    node->due_end = &e->next;
    e->next = NULL;
    e->is_due = true;
}

/* Does what is due for one entry, and unlocks its mutex. */
static void look_at(struct hlk_entry *e)
{
    hlk_loop_assert_here(e->node->table->loop);
    HLK_DEBUG_ASSERT(e->state == HLK_ENTRY_HELD);
    hlk_mutex_assert_held(e->mu);
    struct hlk_entry_table *table = e->node->table;
    int64_t now = hlk_clock_ms(), next;
    switch (hlk_lease_due(&e->hold.lease, now, table->at_risk_ms, &next)) {
    case HLK_LEASE_LOSE:
        hlk_entry_lose_locked(e, hlk_lease_why_over(&e->hold.lease, now));
        return;
    case HLK_LEASE_REPORT_RISK:
        hlk_lease_move(&e->hold.lease, HLK_LEASE_AT_RISK);
        hlk_entry_notify(e, HLK_EVENT_AT_RISK, hlk_lease_why_at_risk(&e->hold.lease, table->at_risk_ms, now));
        break;
    case HLK_LEASE_RENEW:
        e->hold.lease.asked_ms = now;
        collect_due(e);
        break;
    case HLK_LEASE_WAIT:
        break;
    }
    hlk_entry_arm(e);
    hlk_mutex_unlock(e->mu);
}

static void end_postponement(struct hlk_entry *e)
{
    hlk_mutex_assert_held(e->mu);
    if (e->is_line)
        hlk_line_on_alarm(e);
    else
        hlk_entry_ask_at_last(e);
    hlk_mutex_unlock(e->mu);
}

void hlk_watchdog_fire(struct hlk_alarm *alarm)
{
    struct hlk_entry *e = HLK_CONTAINER(alarm, struct hlk_entry, hold.alarm);
    if (!hlk_entry_try_ref(e))
        return;
    hlk_mutex_lock(e->mu);
    if (e->state == HLK_ENTRY_HELD && e->hold.lease.state != HLK_LEASE_LOST)
        look_at(e);
    else
        end_postponement(e);
    hlk_entry_unref(e);
}

/* Is the hold to be verified now? On one server each is; in a cluster those that `server` keeps, or, without one, those
 * whose slots have just moved. */
static bool concerns(struct hlk_entry *e, struct hlk_node *server)
{
    struct hlk_cluster *cluster = e->node->cluster;
    const char *name = hlk_entry_name(e);
    size_t len = hlk_entry_len(e);
    return !cluster || (server ? hlk_node_of(e->node, name, len) == server : hlk_cluster_moved(cluster, name, len));
}

static void verify(struct hlk_entry *e, void *server)
{
    if (!hlk_entry_format(e)->renew || !concerns(e, server))
        return;
    hlk_mutex_lock(e->mu);
    uint64_t h = e->hold.id;
    hlk_mutex_unlock(e->mu);
    if (!hlk_entry_lock_held(e, h))
        return;
    e->hold.lease.asked_ms = hlk_clock_ms();
    collect_due(e);
    hlk_mutex_unlock(e->mu);
}

void hlk_watchdog_verify_all(struct hlk_node *node)
{
    struct hlk_node *home = hlk_node_home(node);
    hlk_loop_assert_here(home->table->loop);
    hlk_shared_close_node(home);
    hlk_entry_table_each_of(home, verify, node);
    hlk_watchdog_flush(home);
}

void hlk_watchdog_verify_moved(struct hlk_node *home)
{
    hlk_loop_assert_here(home->table->loop);
    hlk_entry_table_each_of(home, verify, NULL);
    hlk_watchdog_flush(home);
}

static void watchdog_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_entry_table *table = HLK_CONTAINER(tick, struct hlk_entry_table, renew);
    (void)now_ms;
    for (unsigned i = 0; i < table->node_count; i++)
        hlk_watchdog_flush(&table->nodes[i]);
    unsigned unreported = atomic_exchange(&table->unreported, 0);
    if (unreported)
        hlk_log_write(table->log, HLK_LOG_ERROR, "%u events could not be reported: no memory", unreported);
}

void hlk_watchdog_start(struct hlk_entry_table *table)
{
    table->on_alarm = hlk_watchdog_fire;
    table->renew.run = watchdog_on_tick;
    hlk_loop_add_tick(table->loop, &table->renew);
}
