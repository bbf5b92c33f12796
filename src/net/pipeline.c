/* The stream of a shared connection: writing and reading. The ends of calls are in pipeline_ends.c; waiting for an
 * answer, and leads meanwhile, in pipeline_wait.c; the connection's life (dialling, states, the loop's turn) in
 * pipeline_link.c.
 * Windows that are easy to get wrong, each with a test in tests/race: a reply that arrives while its owner is still
 * in send(); a leader that leaves; a call whose caller left; a follower that leaves while it is being made leader. */
#include "net/pipeline_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "net/pipeline_batch.h"
#include "net/pipeline_ends.h"

/* --- waiting for a thread that is inside: asleep, so that one of lower priority gets to run --- */

static void changed(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    if (pipeline->awaiting)
        pthread_cond_broadcast(&pipeline->changed);
}

void hlk_pipeline_await_change(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    int old = hlk_nocancel_begin();
    pipeline->awaiting++;
    pthread_cond_wait(&pipeline->changed, &pipeline->mu.mu);
    pipeline->awaiting--;
    hlk_nocancel_end(old);
}

void hlk_pipeline_set_lead(struct hlk_pipeline *pipeline, enum hlk_lead lead, struct hlk_thread *leader)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(!leader || lead == HLK_LEAD_TAKEN);
    pipeline->lead = lead;
    pipeline->leader = leader;
    if (lead != HLK_LEAD_TAKEN)
        changed(pipeline);
}

static void sent(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->sending);
    pipeline->sending = false;
    changed(pipeline);
}

/* --- writing --- */

static bool may_write(const struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    return (pipeline->state == HLK_PIPELINE_UP || pipeline->state == HLK_PIPELINE_READYING) && !pipeline->sending &&
           !pipeline->write_blocked && !pipeline->held_back && !hlk_buffer_empty(&pipeline->queued) &&
           (pipeline->callers <= HLK_PIPELINE_FEW || pipeline->writes < HLK_PIPELINE_WRITES);
}

/* True: neighbours among them may be combined. */
static bool stamp_unsent(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->first_unsent);
    /* each write has its own */
    int64_t clock = hlk_clock_ns(), now = clock > pipeline->sent_ns ? clock : pipeline->sent_ns + 1;
    pipeline->sent_ns = now;
    struct hlk_list *node = &pipeline->first_unsent->link;
    struct hlk_call *call = NULL;
    bool was_batched = false, neighbours = false;
    for (; node != &pipeline->flight; node = node->next) {
        call = HLK_CONTAINER(node, struct hlk_call, link);
        call->sent_ns = now;
        pipeline->counts.commands++;
        neighbours |= was_batched && call->batch_letter;
        was_batched = call->batch_letter;
    }
    call->last_of_write = true;
    pipeline->writes++;
    pipeline->counts.writes++;
    return neighbours;
}

/* Not a byte of the write that began at sent_ns was taken, so its calls never went. */
static void unstamp(struct hlk_pipeline *pipeline, int64_t sent_ns)
{
    hlk_mutex_assert_held(&pipeline->mu);
    for (struct hlk_list *node = pipeline->flight.prev; node != &pipeline->flight; node = node->prev) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        if (call->sent_ns == sent_ns)
            call->sent_ns = 0;
        else if (call->sent_ns)
            return;
    }
}

void hlk_pipeline_flush(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    while (may_write(pipeline)) {
        if (!stamp_unsent(pipeline) || !hlk_pipeline_batch(pipeline)) {
            struct hlk_buffer empty = pipeline->wire;
            pipeline->wire = pipeline->queued;
            pipeline->queued = empty;
        }
        int64_t sent_ns = pipeline->sent_ns;
        pipeline->first_unsent = NULL;
        pipeline->sending = true;
        hlk_mutex_unlock(&pipeline->mu);
        struct hlk_error ignored;
        bool ok = hlk_conn_send(&pipeline->conn, &pipeline->wire, &ignored);
        if (!ok)
            shutdown(pipeline->conn.fd, SHUT_RDWR); /* the leader reads the end of it, and ends the calls */
        hlk_mutex_lock(&pipeline->mu);
        if (!ok && pipeline->wire.off == 0)
            unstamp(pipeline, sent_ns);
        sent(pipeline);
        if (!ok)
            pipeline->wire.len = pipeline->wire.off = 0;
        if (ok && !hlk_buffer_empty(&pipeline->wire)) {
            pipeline->write_blocked = true;
            if (pipeline->leader)
                hlk_park_wake(&pipeline->leader->park, HLK_WAKE_UP); /* poll for writing too */
            else if (pipeline->lead == HLK_LEAD_LOOP)
                hlk_loop_post(pipeline->loop, &pipeline->adopt);
        }
    }
}

bool hlk_pipeline_write_rest(struct hlk_pipeline *pipeline, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&pipeline->mu);
    bool mine = pipeline->write_blocked && !pipeline->sending;
    pipeline->sending = pipeline->sending || mine;
    hlk_mutex_unlock(&pipeline->mu);
    if (!mine)
        return true;
    bool ok = hlk_conn_send(&pipeline->conn, &pipeline->wire, error);
    hlk_mutex_lock(&pipeline->mu);
    sent(pipeline);
    pipeline->write_blocked = ok && !hlk_buffer_empty(&pipeline->wire);
    hlk_mutex_unlock(&pipeline->mu);
    return ok;
}

/* Its bytes are queued. */
static void enter_flight(struct hlk_pipeline *pipeline, struct hlk_call *call)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(call->waiter || call->done);
    call->epoch = pipeline->epoch;
    call->place = ++pipeline->places;
    if (call->text)
        pipeline->texts[call->text] = call->place;
    if (call->batch_letter && (!pipeline->owner.build_batch || pipeline->unbatched_left > 0)) {
        call->batch_letter = 0;
        pipeline->unbatched_left -= pipeline->unbatched_left > 0;
    }
    hlk_list_push_back(&pipeline->flight, &call->link);
    if (call->map)
        atomic_fetch_add(&pipeline->maps, 1);
    if (!pipeline->first_unsent)
        pipeline->first_unsent = call;
    pipeline->callers += call->waiter != NULL;
    pipeline->eager += !call->waiter && !call->lazy;
}

enum hlk_status hlk_pipeline_send(hlk_pipeline *pipeline, struct hlk_call *call, const char *bytes, size_t len)
{
    HLK_DEBUG_ASSERT(len > 0 && !hlk_list_linked(&call->link));
    HLK_DEBUG_ASSERT(call->text < HLK_TEXTS && (!call->batch_letter || call->args_end <= len));
    atomic_store(&call->end, HLK_CALL_IN_FLIGHT);
    call->reply = NULL;
    call->sent_ns = 0;
    call->last_of_write = false;
    call->len = (unsigned)len;
    call->batch_size = 0;
    hlk_mutex_lock(&pipeline->mu);
    bool ours = pipeline->state == HLK_PIPELINE_READYING && hlk_loop_here(pipeline->loop);
    enum hlk_status status = pipeline->state == HLK_PIPELINE_CLOSED          ? HLK_E_CLOSED
                             : pipeline->state != HLK_PIPELINE_UP && !ours   ? HLK_E_CONNECT
                             : hlk_buffer_add(&pipeline->queued, bytes, len) ? HLK_OK
                                                                             : HLK_E_NOMEM;
    if (status != HLK_OK) {
        hlk_mutex_unlock(&pipeline->mu);
        return status;
    }
    enter_flight(pipeline, call);
    bool eager = !call->waiter && !call->lazy;
    /* Without a leader thread the lead is free, or taken for a round that does not block and ends with on_work. */
    bool brief = pipeline->owner.on_work && !pipeline->leader;
    bool adopt = eager && (pipeline->lead != HLK_LEAD_TAKEN || brief) && !ours;
    bool lazy = !call->waiter && call->lazy, here = lazy && hlk_loop_here(pipeline->loop);
    if (!adopt && (call->waiter || !pipeline->batching))
        hlk_pipeline_flush(pipeline); /* a call with `done` may be over, and gone, after it */
    hlk_mutex_unlock(&pipeline->mu);
    if (adopt && pipeline->owner.on_work)
        pipeline->owner.on_work(pipeline->owner.ctx);
    else if (adopt || here)
        hlk_loop_post(pipeline->loop, &pipeline->adopt);
    if ((lazy && !here) || (eager && pipeline->owner.on_work)) /* if no other thread reads the answer, a tick does */
        hlk_loop_need_ticks(pipeline->loop);
    return HLK_OK;
}

bool hlk_pipeline_text_follows(hlk_pipeline *pipeline, const struct hlk_call *call, unsigned text)
{
    HLK_DEBUG_ASSERT(text > 0 && text < HLK_TEXTS);
    hlk_mutex_lock(&pipeline->mu);
    bool follows = pipeline->texts[text] > call->place;
    hlk_mutex_unlock(&pipeline->mu);
    return follows;
}

/* --- leaving for another server --- */

/* The leader, or the loop's next tick, reads the end of it. */
static void end_when_answered(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    const struct hlk_call *call = hlk_pipeline_first(pipeline);
    if (pipeline->state == HLK_PIPELINE_LEAVING && !(call && call->sent_ns))
        shutdown(pipeline->conn.fd, SHUT_RDWR);
}

void hlk_pipeline_leave_server(struct hlk_pipeline *pipeline, const char *why)
{
    hlk_mutex_assert_held(&pipeline->mu);
    if (pipeline->state == HLK_PIPELINE_UP)
        pipeline->down_ms = hlk_clock_ms();
    pipeline->state = HLK_PIPELINE_LEAVING;
    (void)hlk_error_set(&pipeline->error, HLK_E_CONNECT, "%s", why);
}

void hlk_pipeline_look_again(hlk_pipeline *pipeline, uint64_t epoch)
{
    hlk_mutex_lock(&pipeline->mu);
    bool leaves = pipeline->state == HLK_PIPELINE_UP && pipeline->epoch == epoch &&
                  hlk_clock_ms() - pipeline->up_ms >= HLK_PIPELINE_REDIAL_MS;
    if (leaves) {
        pipeline->moving = true;
        hlk_pipeline_leave_server(pipeline, "the server has become a replica; connecting anew");
        end_when_answered(pipeline);
    }
    hlk_mutex_unlock(&pipeline->mu);
    if (leaves)
        hlk_loop_need_ticks(pipeline->loop);
}

/* --- reading: the leader --- */

/* False: one of them answers nothing that was asked. What comes behind it belongs to no call. */
static bool take_replies(struct hlk_pipeline *pipeline, redisReply **replies, unsigned n, struct hlk_ends *ends)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(n > 0 && n <= HLK_REPLIES);
    int64_t now = pipeline->conn.heard_ns, sent = 0;
    bool in_step = true;
    for (unsigned i = 0; i < n; i++) {
        struct hlk_call *call = hlk_pipeline_first(pipeline);
        in_step = in_step && call && call->sent_ns;
        if (!in_step) {
            freeReplyObject(replies[i]);
            continue;
        }
        sent = call->sent_ns;
        if (call->skips) {
            call->skips = false;
            freeReplyObject(replies[i]);
        } else if (call->batch_size) {
            in_step = hlk_pipeline_unbatch(pipeline, replies[i], ends);
        } else {
            call->reply = replies[i];
            hlk_pipeline_end_call(pipeline, call, HLK_CALL_ANSWERED, ends);
        }
    }
    if (sent)
        hlk_spin_saw(&pipeline->spin, now - sent);
    if (!in_step)
        shutdown(pipeline->conn.fd, SHUT_RDWR); /* what is sent until the leader has ended it is not run */
    return in_step;
}

int hlk_pipeline_read(struct hlk_pipeline *pipeline, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    int got = hlk_conn_recv(&pipeline->conn, error);
    if (got <= 0)
        return got;
    struct hlk_ends ends = { .waiting = 0 };
    hlk_list_init(&ends.calls);
    hlk_resp_expect_map(pipeline->conn.resp, atomic_load(&pipeline->maps) > 0);
    redisReply *replies[HLK_REPLIES];
    bool broken = false;
    unsigned n;
    do {
        for (n = 0; n < HLK_REPLIES; n++)
            if (!(replies[n] = hlk_conn_reply(&pipeline->conn, &broken, error)))
                break;
        if (n == 0)
            break;
        hlk_mutex_lock(&pipeline->mu);
        if (!take_replies(pipeline, replies, n, &ends)) {
            broken = true;
            (void)hlk_error_set(error, HLK_E_CONNECT, "connection closed: a reply came without a command");
        }
        end_when_answered(pipeline);
        bool dones = !hlk_list_empty(&ends.calls);
        if (!dones)
            hlk_pipeline_flush(pipeline);
        pipeline->held_back = dones; /* what the completions send leaves in one write */
        hlk_mutex_unlock(&pipeline->mu);
        hlk_pipeline_report_ends(&ends);
        if (dones) {
            hlk_mutex_lock(&pipeline->mu);
            pipeline->held_back = false;
            hlk_pipeline_flush(pipeline);
            hlk_mutex_unlock(&pipeline->mu);
        }
    } while (n == HLK_REPLIES && !broken);
    return broken ? -1 : 1;
}

bool hlk_pipeline_overdue(const struct hlk_pipeline *pipeline, int64_t now_ns, int64_t *dead_ns)
{
    hlk_mutex_assert_held(&pipeline->mu);
    const struct hlk_call *call = hlk_pipeline_first(pipeline);
    *dead_ns = INT64_MAX;
    if (!call || !call->sent_ns)
        return false;
    *dead_ns = hlk_conn_dead_ns(&pipeline->conn, call->sent_ns, pipeline->endpoint->reply_timeout_ms);
    return now_ns >= *dead_ns;
}

void hlk_pipeline_end_all(struct hlk_pipeline *pipeline, enum hlk_pipeline_state state)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(state == HLK_PIPELINE_DOWN || state == HLK_PIPELINE_CLOSED);
    struct hlk_ends ends = { .waiting = 0 };
    hlk_list_init(&ends.calls);
    /* First of all, so that no thread begins to lead or to write while this one waits for the sender. The lead counts
     * as taken, by no thread: there is nothing to read, and a leader would not be woken below. */
    hlk_pipeline_set_lead(pipeline, HLK_LEAD_TAKEN, NULL);
    pipeline->held_back = true;
    while (pipeline->sending)
        hlk_pipeline_await_change(pipeline);
    if (pipeline->state == HLK_PIPELINE_UP)
        pipeline->down_ms = hlk_clock_ms();
    pipeline->state = state;
    pipeline->reporters++;
    pipeline->epoch++;
    pipeline->write_blocked = pipeline->held_back = pipeline->hung_up = false;
    pipeline->first_unsent = NULL;
    pipeline->queued.len = pipeline->queued.off = pipeline->wire.len = pipeline->wire.off = 0;
    if (pipeline->conn.fd >= 0 && pipeline->dead.fd < 0) {
        pipeline->dead = pipeline->conn;
        hlk_conn_init(&pipeline->conn);
    }
    struct hlk_call *call;
    while ((call = hlk_pipeline_first(pipeline))) {
        hlk_pipeline_end_call(pipeline, call, call->sent_ns ? HLK_CALL_BROKEN : HLK_CALL_UNSENT, &ends);
        if (ends.waiting < HLK_ENDS_MAX && !hlk_list_empty(&pipeline->flight))
            continue;
        hlk_mutex_unlock(&pipeline->mu);
        hlk_pipeline_report_ends(&ends);
        hlk_mutex_lock(&pipeline->mu);
    }
    pipeline->writes = 0;
    pipeline->reporters--;
    hlk_pipeline_set_lead(pipeline, HLK_LEAD_FREE, NULL);
    hlk_mutex_unlock(&pipeline->mu);
    hlk_loop_post(pipeline->loop, &pipeline->broken);
}

void hlk_pipeline_broke(struct hlk_pipeline *pipeline, const struct hlk_error *why)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(why->status != HLK_OK);
    hlk_mutex_lock(&pipeline->mu);
    if (pipeline->state != HLK_PIPELINE_LEAVING)
        pipeline->error = *why;
    hlk_pipeline_end_all(pipeline, pipeline->state == HLK_PIPELINE_CLOSED ? HLK_PIPELINE_CLOSED : HLK_PIPELINE_DOWN);
}

void hlk_pipeline_give_lead(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->lead == HLK_LEAD_TAKEN);
    if (!hlk_list_empty(&pipeline->followers)) { /* the newest: the others' replies come before its own */
        hlk_pipeline_set_lead(pipeline, HLK_LEAD_TAKEN,
                              HLK_CONTAINER(pipeline->followers.prev, struct hlk_thread, link));
        hlk_list_remove(&pipeline->leader->link);
        hlk_park_wake(&pipeline->leader->park, HLK_WAKE_LEAD);
        return;
    }
    hlk_pipeline_set_lead(pipeline, HLK_LEAD_FREE, NULL);
    if (pipeline->eager && pipeline->owner.on_work)
        pipeline->owner.on_work(pipeline->owner.ctx);
    else if (pipeline->eager || pipeline->hung_up || (pipeline->expecting && !hlk_list_empty(&pipeline->flight)))
        hlk_loop_post(pipeline->loop, &pipeline->adopt);
    else if (!hlk_list_empty(&pipeline->flight))
        hlk_loop_need_ticks(pipeline->loop);
}

uint64_t hlk_pipeline_epoch(hlk_pipeline *pipeline)
{
    hlk_mutex_lock(&pipeline->mu);
    uint64_t epoch = pipeline->epoch;
    hlk_mutex_unlock(&pipeline->mu);
    return epoch;
}

void hlk_pipeline_counts(hlk_pipeline *pipeline, struct hlk_pipeline_counts *sum)
{
    hlk_mutex_lock(&pipeline->mu);
    sum->commands += pipeline->counts.commands;
    sum->writes += pipeline->counts.writes;
    sum->reconnects += pipeline->counts.reconnects;
    sum->connected += pipeline->state == HLK_PIPELINE_UP;
    hlk_mutex_unlock(&pipeline->mu);
}
