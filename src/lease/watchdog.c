#include "lease/watchdog.h"

#include "base/clock.h"
#include "base/mem.h"
#include "lease/table.h"
#include "script/call.h"

#include <string.h>

/* One script on its way. */
struct batch {
    struct hlk_call call;
    struct hlk_watchdog *dog;
    unsigned n;
    bool whole;
    int64_t lease_ms[HLK_RENEWALS_A_SCRIPT];
    uint64_t h[HLK_RENEWALS_A_SCRIPT];
    struct hlk_session *sessions[HLK_RENEWALS_A_SCRIPT]; /* referenced */
};

void hlk_watchdog_arm(struct hlk_session *s)
{
    hlk_mutex_assert_held(s->mu);
    int64_t next;
    (void)hlk_lease_due(&s->lease, hlk_clock_ms(), s->table->at_risk_ms, &next);
    hlk_loop_arm(s->table->loop, &s->alarm, next);
}

/* --- sending --- */

/* Marks what is held still; the rest leaves the batch. Marked ones cannot be released until they are unmarked. */
static void mark(struct batch *batch, struct hlk_session **marked)
{
    unsigned n = 0;
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_session *s = batch->sessions[i];
        hlk_mutex_lock(s->mu);
        bool live = s->state == HLK_SESSION_HELD && s->h == batch->h[i] && hlk_lease_live(&s->lease);
        s->batched = live;
        hlk_mutex_unlock(s->mu);
        if (!live) {
            hlk_session_unref(s);
            continue;
        }
        batch->h[n] = batch->h[i];
        batch->lease_ms[n] = batch->lease_ms[i];
        batch->sessions[n] = marked[n] = s;
        hlk_session_ref(s); /* the batch may be answered, and freed, before we unmark */
        n++;
    }
    batch->n = n;
}

static void unmark(struct hlk_session **marked, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        hlk_mutex_lock(marked[i]->mu);
        marked[i]->batched = false;
        hlk_mutex_unlock(marked[i]->mu);
        hlk_session_unref(marked[i]);
    }
}

/* False: not sent, the batch is the caller's to free. */
static bool send_batch(struct batch *batch)
{
    struct hlk_renewal renewals[HLK_RENEWALS_A_SCRIPT];
    struct hlk_session *marked[HLK_RENEWALS_A_SCRIPT];
    mark(batch, marked);
    unsigned n = batch->n;
    for (unsigned i = 0; i < n; i++)
        renewals[i] = (struct hlk_renewal){ hlk_session_name(marked[i]), hlk_session_len(marked[i]), batch->h[i],
                                            batch->lease_ms[i] };
    bool sent = n > 0 && hlk_renewals_send(batch->dog->mux, &batch->call, batch->dog->table->client_id, renewals, n,
                                           batch->whole) == HLK_OK;
    unmark(marked, n);
    return sent;
}

static void free_batch(struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++)
        hlk_session_unref(batch->sessions[i]);
    if (batch->call.reply)
        freeReplyObject(batch->call.reply);
    hlk_mem_free(batch);
}

/* --- answers --- */

/* Answers how long after the one before, if that is more than half of the lease; else 0. */
static int64_t renewed(struct hlk_session *s, uint64_t h, int64_t sent_ms, int64_t lease_ms)
{
    struct hlk_table *table = s->table;
    int64_t gap_ms = 0;
    hlk_mutex_lock(s->mu);
    if (s->state == HLK_SESSION_HELD && s->h == h && hlk_lease_live(&s->lease)) {
        if (sent_ms - s->lease.sent_ms > s->lease.lease_ms / 2)
            gap_ms = sent_ms - s->lease.sent_ms;
        HLK_COUNT(table, renewals);
        if (gap_ms)
            HLK_COUNT(table, renewals_late);
        if (hlk_lease_renewed(&s->lease, sent_ms, lease_ms, table->at_risk_ms))
            hlk_session_tell(s, HLK_EVENT_SAFE, "renewed");
        hlk_watchdog_arm(s);
    }
    hlk_mutex_unlock(s->mu);
    return gap_ms;
}

/* One line for all of a batch, with the first of them. */
static void log_gaps(const struct batch *batch, unsigned late, unsigned first, int64_t gap_ms)
{
    if (late)
        hlk_log(batch->dog->table->log, HLK_LOG_WARN,
                "%u of %u locks renewed later than half of their lease, \"%.64s\" %lld ms after the time before; the "
                "server took %lld ms to answer",
                late, batch->n, hlk_session_name(batch->sessions[first]), (long long)gap_ms,
                (long long)(hlk_clock_ms() - batch->call.sent_ns / 1000000));
}

static void read_answers(struct batch *batch)
{
    const redisReply *reply = batch->call.reply;
    unsigned late = 0, first = 0;
    int64_t first_ms = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->n) { /* not this script's: as good as none */
        hlk_mux_distrust(batch->dog->mux, batch->call.epoch);
        return;
    }
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_session *s = batch->sessions[i];
        long long answer = reply->element[i]->type == REDIS_REPLY_INTEGER ? reply->element[i]->integer : -1;
        if (answer == 1) {
            int64_t gap_ms = renewed(s, batch->h[i], batch->call.sent_ns / 1000000, batch->lease_ms[i]);
            if (gap_ms && late++ == 0) {
                first = i;
                first_ms = gap_ms;
            }
            continue;
        }
        hlk_table_lose(s, batch->h[i], answer == 0 ? hlk_lease_why_unknown : "broken: somebody else holds it");
    }
    log_gaps(batch, late, first, first_ms);
}

static void ask_again_soon(struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++) {
        struct hlk_session *s = batch->sessions[i];
        hlk_mutex_lock(s->mu);
        if (s->state == HLK_SESSION_HELD && s->h == batch->h[i] && hlk_lease_live(&s->lease)) {
            hlk_lease_refused(&s->lease, hlk_clock_ms());
            hlk_watchdog_arm(s);
        }
        hlk_mutex_unlock(s->mu);
    }
}

/* A batch that broke is not repeated: all holds are verified when a connection is up again. One that was refused is
 * asked for again by each session's own rhythm, a tenth of the lease later. */
static void on_end(struct hlk_call *call)
{
    struct batch *batch = HLK_CONTAINER(call, struct batch, call);
    struct hlk_error error;
    if (atomic_load(&call->end) == HLK_CALL_ANSWERED) {
        enum hlk_reply_kind kind = hlk_call_read(call, batch->dog->mux, &error);
        if (kind == HLK_REPLY_NOSCRIPT && !batch->whole) {
            batch->whole = true;
            freeReplyObject(call->reply);
            call->reply = NULL;
            if (send_batch(batch))
                return;
        } else if (kind == HLK_REPLY_ANSWER) {
            read_answers(batch);
        } else {
            hlk_log(batch->dog->table->log, HLK_LOG_WARN, "renewal of %u locks refused: %s", batch->n, error.text);
            ask_again_soon(batch);
        }
    }
    free_batch(batch);
}

/* --- collecting: loop thread --- */

static void flush(struct hlk_watchdog *dog)
{
    while (!hlk_list_empty(&dog->due)) {
        struct batch *batch = hlk_mem_zalloc(sizeof *batch);
        if (!batch)
            break;
        batch->dog = dog;
        batch->call.done = on_end;
        batch->call.lazy = true; /* read by the loop's next tick at the latest, never by a user's loop alone */
        int64_t now = hlk_clock_ms();
        struct hlk_list *node;
        while (batch->n < HLK_RENEWALS_A_SCRIPT && (node = hlk_list_pop(&dog->due))) {
            struct hlk_session *s = HLK_CONTAINER(node, struct hlk_session, due);
            hlk_mutex_lock(s->mu);
            batch->h[batch->n] = s->h;
            batch->lease_ms[batch->n] = hlk_lease_renewal_ms(&s->lease, dog->table->watchdog_ms, now);
            hlk_mutex_unlock(s->mu);
            batch->sessions[batch->n++] = s;
        }
        if (!send_batch(batch))
            free_batch(batch); /* no connection: verified when there is one */
    }
    struct hlk_list *node;
    while ((node = hlk_list_pop(&dog->due))) /* no memory: asked again at each one's next alarm */
        hlk_session_unref(HLK_CONTAINER(node, struct hlk_session, due));
}

/* The session's mutex is held. */
static void collect(struct hlk_watchdog *dog, struct hlk_session *s)
{
    if (hlk_list_linked(&s->due))
        return;
    hlk_session_ref(s);
    hlk_list_push_back(&dog->due, &s->due);
}

/* What is due for one session; its mutex is held, and let go of. */
static void look_at(struct hlk_session *s)
{
    struct hlk_table *table = s->table;
    int64_t now = hlk_clock_ms(), next;
    switch (hlk_lease_due(&s->lease, now, table->at_risk_ms, &next)) {
    case HLK_LEASE_LOSE:
        hlk_table_lose_locked(s, hlk_lease_why_over(&s->lease, now));
        return;
    case HLK_LEASE_TELL_RISK:
        hlk_lease_move(&s->lease, HLK_LEASE_AT_RISK);
        hlk_session_tell(s, HLK_EVENT_AT_RISK, hlk_lease_why_at_risk(&s->lease, table->at_risk_ms, now));
        break;
    case HLK_LEASE_RENEW:
        s->lease.asked_ms = now;
        collect(&table->watchdog, s);
        break;
    case HLK_LEASE_WAIT:
        break;
    }
    hlk_watchdog_arm(s);
    hlk_mutex_unlock(s->mu);
}

void hlk_watchdog_fire(struct hlk_alarm *alarm)
{
    struct hlk_session *s = HLK_CONTAINER(alarm, struct hlk_session, alarm);
    if (!hlk_session_try_ref(s))
        return;
    hlk_mutex_lock(s->mu);
    if (s->state == HLK_SESSION_HELD && s->lease.state != HLK_LEASE_LOST)
        look_at(s);
    else
        hlk_mutex_unlock(s->mu);
    hlk_session_unref(s);
}

static void verify(struct hlk_session *s, void *ctx)
{
    struct hlk_watchdog *dog = ctx;
    hlk_mutex_lock(s->mu);
    if (s->state == HLK_SESSION_HELD && hlk_lease_live(&s->lease)) {
        s->lease.asked_ms = hlk_clock_ms();
        collect(dog, s);
    }
    hlk_mutex_unlock(s->mu);
}

void hlk_watchdog_verify_all(struct hlk_watchdog *dog)
{
    hlk_table_each(dog->table, verify, dog);
    flush(dog);
}

static void on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_watchdog *dog = HLK_CONTAINER(tick, struct hlk_watchdog, tick);
    (void)now_ms;
    flush(dog);
    unsigned untold = atomic_exchange(&dog->table->untold, 0);
    if (untold)
        hlk_log_write(dog->table->log, HLK_LOG_ERROR, "%u events could not be told: no memory", untold);
}

void hlk_watchdog_init(struct hlk_watchdog *dog, struct hlk_table *table)
{
    dog->table = table;
    dog->tick.run = on_tick;
    hlk_list_init(&dog->due);
    hlk_loop_add_tick(table->loop, &dog->tick);
}
