#include "node/replicas.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "script/format.h"

#include <stdio.h>
#include <string.h>

/* Servers look for clients whose WAIT is over ten times a second: so much late, an answer is still in time. */
#define LATE_MS 110

/* --- outcomes --- */

static void unref(struct hlk_replica_wait *wait)
{
    hlk_mutex_assert_held(&wait->replicas->mu);
    HLK_DEBUG_ASSERT(wait->refs > 0);
    if (--wait->refs == 0)
        hlk_mem_free(wait);
}

static void settle_wait(struct hlk_replica_wait *wait, enum hlk_replicated outcome)
{
    hlk_mutex_assert_held(&wait->replicas->mu);
    hlk_list_remove(&wait->link);
    wait->outcome = outcome;
    if (wait->refs > 1)
        wait->wake(wait->ctx);
    unref(wait);
}

static void fail_all(struct hlk_replicas *r, const struct hlk_error *error)
{
    hlk_mutex_lock(&r->mu);
    while (!hlk_list_empty(&r->waiting)) {
        struct hlk_replica_wait *wait = HLK_CONTAINER(r->waiting.next, struct hlk_replica_wait, link);
        wait->error = *error;
        settle_wait(wait, HLK_REPLICATED_FAILED);
    }
    r->busy = false;
    hlk_mutex_unlock(&r->mu);
}

/* PENDING: it needs another round. */
static enum hlk_replicated judge_wait(const struct hlk_replicas *r, struct hlk_replica_wait *wait, int64_t now_ms)
{
    hlk_mutex_assert_held(&r->mu);
    if (wait->progress == HLK_COMMAND_ANSWERED && !wait->written)
        return HLK_REPLICATED_GONE;
    if (wait->progress == HLK_COMMAND_FAILED)
        return HLK_REPLICATED_FAILED;
    if (wait->written && r->acknowledged >= 0)
        wait->acknowledged = r->acknowledged;
    if (wait->written && r->acknowledged >= (int)r->need)
        return HLK_REPLICATED_DONE;
    if (r->error.status != HLK_OK) {
        wait->error = r->error;
        return HLK_REPLICATED_FAILED;
    }
    return now_ms >= wait->until_ms - LATE_MS && wait->acknowledged >= 0 ? HLK_REPLICATED_SHORT
                                                                         : HLK_REPLICATED_PENDING;
}

/* --- a round --- */

static void end_wait_round(struct hlk_replicas *r)
{
    struct hlk_list again;
    hlk_list_init(&again);
    int64_t now = hlk_clock_ms();
    /* broken, refused, or a server whose WAIT does not wait: not at once */
    bool soon = r->acknowledged >= 0 && (r->acknowledged >= (int)r->need || now - r->begun_ms >= r->wait_ms / 2);
    hlk_mutex_lock(&r->mu);
    HLK_DEBUG_ASSERT(r->busy && !hlk_list_empty(&r->in_flight));
    while (!hlk_list_empty(&r->in_flight)) {
        struct hlk_replica_wait *wait = HLK_CONTAINER(r->in_flight.next, struct hlk_replica_wait, link);
        enum hlk_replicated outcome = judge_wait(r, wait, now);
        if (outcome != HLK_REPLICATED_PENDING) {
            settle_wait(wait, outcome);
            continue;
        }
        soon &= wait->progress == HLK_COMMAND_ANSWERED;
        hlk_list_remove(&wait->link);
        hlk_list_push_back(&again, &wait->link);
        wait->in_flight = false;
    }
    hlk_list_splice(&r->waiting, &again);
    bool more = !hlk_list_empty(&r->waiting);
    r->busy = more;
    hlk_mutex_unlock(&r->mu);
    if (more && soon)
        hlk_loop_post(r->loop, &r->post);
    else if (more)
        hlk_loop_arm(r->loop, &r->alarm, now + HLK_PAUSE_MS);
}

static void call_ended(struct hlk_replicas *r)
{
    HLK_DEBUG_ASSERT(atomic_load(&r->calls) > 0);
    if (atomic_fetch_sub(&r->calls, 1) == 1)
        end_wait_round(r);
}

static void on_wait_written(struct hlk_call *call)
{
    struct hlk_replica_wait *wait = HLK_CONTAINER(call, struct hlk_replica_wait, cmd.call);
    const redisReply *reply = call->reply;
    enum hlk_reply_kind kind = reply ? hlk_reply_read(reply, NULL) : HLK_REPLY_FAULT;
    bool moved = kind == HLK_REPLY_MOVED || kind == HLK_REPLY_ASK; /* with its slot, away from this server */
    enum hlk_raised raised = hlk_answer_read_raised(&wait->cmd);
    wait->written = raised == HLK_RAISED_YES;
    if (raised == HLK_RAISED_NONE)
        hlk_pipeline_distrust(wait->cmd.pipeline, call->epoch);
    wait->progress = moved ? HLK_COMMAND_ANSWERED : hlk_command_end(&wait->cmd, &wait->error);
    hlk_command_drop_reply(&wait->cmd);
    call_ended(wait->replicas);
}

static void on_waited(struct hlk_call *call)
{
    struct hlk_replicas *r = HLK_CONTAINER(call, struct hlk_replicas, wait);
    redisReply *reply = call->reply;
    if (reply && hlk_reply_read(reply, &r->error) == HLK_REPLY_ANSWER) {
        r->error.status = HLK_OK;
        if (reply->type == REDIS_REPLY_INTEGER)
            r->acknowledged = (int)reply->integer;
    }
    if (reply)
        freeReplyObject(reply);
    call->reply = NULL;
    call_ended(r);
}

static void send_write(struct hlk_replica_wait *wait)
{
    wait->written = false;
    wait->cmd.call.done = on_wait_written;
    atomic_fetch_add(&wait->replicas->calls, 1);
    enum hlk_progress progress = hlk_command_send(&wait->cmd, &wait->error);
    if (progress == HLK_COMMAND_IN_FLIGHT)
        return;
    wait->progress = progress == HLK_COMMAND_FAILED ? progress : HLK_COMMAND_RESEND;
    atomic_fetch_sub(&wait->replicas->calls, 1);
}

static void send_wait(struct hlk_replicas *r)
{
    HLK_DEBUG_ASSERT(r->wait_ms > 0 && r->need > 0);
    char bytes[96], need[16], ms[24];
    int needs = snprintf(need, sizeof need, "%u", r->need);
    int mss = snprintf(ms, sizeof ms, "%lld", (long long)r->wait_ms);
    int len = snprintf(bytes, sizeof bytes, "*3\r\n$4\r\nWAIT\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", needs, need, mss, ms);
    memset(&r->wait, 0, sizeof r->wait);
    r->wait.done = on_waited;
    atomic_fetch_add(&r->calls, 1);
    if (hlk_pipeline_send(r->pipeline, &r->wait, bytes, (size_t)len) != HLK_OK)
        atomic_fetch_sub(&r->calls, 1);
}

/* Those whose callers have left stay behind. The first of the others to be over says how long WAIT may take; it is
 * shorter, for an answer that comes late is in time then. */
static bool take_waiting(struct hlk_replicas *r)
{
    int64_t now = hlk_clock_ms(), until = INT64_MAX;
    hlk_mutex_lock(&r->mu);
    HLK_DEBUG_ASSERT(hlk_list_empty(&r->in_flight));
    while (!hlk_list_empty(&r->waiting)) {
        struct hlk_replica_wait *wait = HLK_CONTAINER(r->waiting.next, struct hlk_replica_wait, link);
        hlk_list_remove(&wait->link);
        if (wait->refs == 1) {
            unref(wait);
            continue;
        }
        hlk_list_push_back(&r->in_flight, &wait->link);
        wait->in_flight = true;
        until = wait->until_ms < until ? wait->until_ms : until;
    }
    r->busy = !hlk_list_empty(&r->in_flight);
    bool any = r->busy;
    hlk_mutex_unlock(&r->mu);
    int64_t left = until - now, max_ms = r->reply_timeout_ms / 2;
    left = left > 2 * LATE_MS ? left - LATE_MS : left / 2;
    r->wait_ms = left > max_ms ? max_ms : left;
    if (r->wait_ms < 1)
        r->wait_ms = 1; /* 0 is without limit */
    return any;
}

static void send_wait_round(struct hlk_replicas *r)
{
    if (!take_waiting(r))
        return;
    r->begun_ms = hlk_clock_ms();
    r->acknowledged = -1;
    r->error.status = HLK_OK;
    atomic_store(&r->calls, 1);
    for (struct hlk_list *n = r->in_flight.next; n != &r->in_flight; n = n->next)
        send_write(HLK_CONTAINER(n, struct hlk_replica_wait, link));
    send_wait(r);
    call_ended(r);
}

/* r->busy is the caller's. Without a connection: when there is one, or it is known why not. */
static void next_round(struct hlk_replicas *r)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    if (hlk_pipeline_when_up(r->pipeline, &r->up, hlk_pipeline_reroutes(r->pipeline)))
        return;
    enum hlk_status status = hlk_pipeline_health(r->pipeline, &error);
    if (status == HLK_OK)
        send_wait_round(r);
    else if (status == HLK_E_CONNECT)
        hlk_loop_arm(r->loop, &r->alarm, hlk_clock_ms() + HLK_PAUSE_MS);
    else
        fail_all(r, &error);
}

static void on_replicas_post(struct hlk_post *post)
{
    next_round(HLK_CONTAINER(post, struct hlk_replicas, post));
}

static void on_replicas_alarm(struct hlk_alarm *alarm)
{
    next_round(HLK_CONTAINER(alarm, struct hlk_replicas, alarm));
}

static void on_replicas_up(struct hlk_up *up)
{
    next_round(HLK_CONTAINER(up, struct hlk_replicas, up));
}

/* --- callers --- */

struct hlk_replica_wait *hlk_replicas_begin(struct hlk_replicas *r, const struct hlk_command_type *reacquire,
                                            const char *name, size_t len, uint64_t hold, int64_t until_ms,
                                            void (*wake)(void *ctx), void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(wake);
    struct hlk_replica_wait *wait = hlk_mem_zalloc(sizeof *wait + len + 1);
    if (!wait)
        return NULL;
    memcpy(wait->name, name, len);
    wait->replicas = r;
    wait->refs = 2;
    wait->acknowledged = -1;
    wait->wake = wake;
    wait->ctx = ctx;
    wait->until_ms = until_ms;
    wait->cmd = (struct hlk_command){ .type = reacquire,
                                      .pipeline = r->pipeline,
                                      .client_id = r->client_id,
                                      .name = wait->name,
                                      .name_len = len,
                                      .hold = hold,
                                      .count = 1,
                                      .limits = { .at_ms = until_ms, .began_ms = hlk_clock_ms() } };
    hlk_mutex_lock(&r->mu);
    hlk_list_push_back(&r->waiting, &wait->link);
    bool first = !r->busy;
    r->busy = true;
    hlk_mutex_unlock(&r->mu);
    if (first)
        next_round(r);
    return wait;
}

enum hlk_replicated hlk_replicas_outcome(struct hlk_replica_wait *wait, int *acknowledged, struct hlk_error *error)
{
    hlk_mutex_lock(&wait->replicas->mu);
    enum hlk_replicated outcome = wait->outcome;
    *acknowledged = wait->acknowledged;
    if (outcome == HLK_REPLICATED_FAILED)
        *error = wait->error;
    hlk_mutex_unlock(&wait->replicas->mu);
    return outcome;
}

void hlk_replicas_end(struct hlk_replica_wait *wait)
{
    struct hlk_replicas *r = wait->replicas;
    hlk_mutex_lock(&r->mu);
    if (hlk_list_linked(&wait->link) && !wait->in_flight) {
        hlk_list_remove(&wait->link);
        unref(wait);
    }
    unref(wait);
    hlk_mutex_unlock(&r->mu);
}

/* --- open, close --- */

static void nothing(void *ctx)
{
    (void)ctx;
}

static void nothing_down(void *ctx, const struct hlk_error *why)
{
    (void)ctx;
    (void)why; /* the shared connection's fate is logged, and each acquire says why it failed */
}

enum hlk_status hlk_replicas_open(struct hlk_replicas **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                  const struct hlk_greeting *greeting, const char *client_id, unsigned need,
                                  struct hlk_error *error)
{
    hlk_loop_assert_here(loop);
    HLK_DEBUG_ASSERT(need > 0);
    struct hlk_replicas *r = hlk_mem_zalloc(sizeof *r);
    if (!r)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    struct hlk_pipeline_owner owner = { .ctx = r, .on_up = nothing, .on_down = nothing_down, .on_moved = nothing };
    enum hlk_status status = hlk_pipeline_create(&r->pipeline, loop, endpoint, greeting, &owner, true, error);
    if (status != HLK_OK) {
        hlk_mem_free(r);
        return status;
    }
    r->loop = loop;
    r->client_id = client_id;
    r->need = need;
    r->reply_timeout_ms = endpoint->reply_timeout_ms;
    hlk_mutex_init(&r->mu, HLK_RANK_RELEASES);
    hlk_list_init(&r->waiting);
    hlk_list_init(&r->in_flight);
    r->post.run = on_replicas_post;
    r->alarm.fire = on_replicas_alarm;
    r->up.run = on_replicas_up;
    hlk_pipeline_link_dial(r->pipeline);
    *out = r;
    return HLK_OK;
}

void hlk_replicas_move(struct hlk_replicas *replicas)
{
    if (replicas)
        hlk_pipeline_move(replicas->pipeline);
}

void hlk_replicas_disconnect(struct hlk_replicas *replicas)
{
    if (replicas)
        hlk_pipeline_close(replicas->pipeline);
}

static void free_waits(struct hlk_list *waits)
{
    while (!hlk_list_empty(waits))
        hlk_mem_free(HLK_CONTAINER(hlk_list_pop(waits), struct hlk_replica_wait, link));
}

void hlk_replicas_free(struct hlk_replicas *replicas)
{
    if (!replicas)
        return;
    hlk_loop_assert_here(replicas->loop);
    free_waits(&replicas->waiting);
    free_waits(&replicas->in_flight);
    hlk_pipeline_destroy(replicas->pipeline);
    hlk_mutex_fini(&replicas->mu);
    hlk_mem_free(replicas);
}
