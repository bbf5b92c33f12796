/* Short questions about a lock, each one script: nested holds with a fixed lease, extend, break. */
#include "sync/handle.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

#include <stdlib.h>
#include <string.h>

struct asked { /* heap: its call may outlive its caller */
    struct hlk_question q;
    hlk_lock *lock;
    struct hlk_self *self;
    struct hlk_cancel_wait cancel_wait;
};

static void free_asked(struct asked *asked)
{
    hlk_question_drop_reply(&asked->q);
    hlk_via_unref(&asked->lock->via);
    hlk_mem_free(asked);
}

static void on_left(struct hlk_call *call)
{
    free_asked(HLK_CONTAINER(call, struct asked, q.call));
}

static void on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_park_wake(&HLK_CONTAINER(wait, struct asked, cancel_wait)->self->park, HLK_WAKE_CANCEL);
}

/* Until answered, or the cancel is triggered: bits are hints. */
static enum hlk_status ask(struct asked *asked, const struct hlk_patience *patience, bool *flies,
                           struct hlk_error *error)
{
    hlk_client *client = asked->lock->client;
    int64_t now = hlk_clock_ms(), up_by = hlk_clock_after(now, client->patience_ms);
    struct hlk_limits limits = { .at_ms = patience->most_ms > 0 ? hlk_clock_after(now, patience->most_ms)
                                                                : hlk_clock_after(up_by, client->reply_ms),
                                 .up_by_ms = up_by,
                                 .mask = patience->cancel ? HLK_WAKE_CANCEL : 0,
                                 .once = patience->once };
    enum hlk_status status;
    do {
        (void)hlk_park_take(&asked->self->park, limits.mask);
        if (patience->cancel && hlk_cancel_triggered(patience->cancel))
            return hlk_error_set(error, HLK_INTERRUPTED, "cancelled");
        status = hlk_question_ask(&asked->q, client->mux, asked->self, &limits, flies, error);
    } while (status == HLK_INTERRUPTED);
    return status;
}

enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *operation, const struct hlk_question *question,
                             const struct hlk_patience *patience, void (*read)(const struct hlk_question *q, void *ctx),
                             void *ctx)
{
    static const struct hlk_patience usual;
    struct hlk_self *self = hlk_self_get();
    struct asked *asked = self ? hlk_mem_zalloc(sizeof *asked) : NULL;
    if (!asked)
        return hlk_lock_fails(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_client *client = lock->client;
    asked->q = *question;
    asked->q.client_id = client->id;
    asked->q.name = hlk_lock_text(lock);
    asked->q.name_len = hlk_lock_text_len(lock);
    asked->lock = lock;
    asked->self = self;
    asked->cancel_wait.wake = on_cancel;
    hlk_via_ref(&lock->via);
    struct hlk_error error;
    bool flies = false;
    int old = hlk_nocancel_begin(); /* a short question: no cancellation point */
    if (!patience)
        patience = &usual;
    if (patience->cancel)
        (void)hlk_cancel_join(patience->cancel, &asked->cancel_wait);
    enum hlk_status status = ask(asked, patience, &flies, &error);
    hlk_cancel_leave(patience->cancel, &asked->cancel_wait);
    if (status == HLK_OK)
        read(&asked->q, ctx);
    else
        status = hlk_lock_fails(lock, operation, status, "%s", error.text);
    if (!flies || !hlk_mux_leave(client->mux, &asked->q.call, on_left))
        free_asked(asked);
    hlk_nocancel_end(old);
    return status;
}

struct reacquired {
    long long answer;
    int64_t sent_ms;
};

static void read_reacquired(const struct hlk_question *q, void *ctx)
{
    struct reacquired *out = ctx;
    out->answer = q->call.reply->type == REDIS_REPLY_INTEGER ? q->call.reply->integer : 0;
    out->sent_ms = hlk_question_sent_ms(q);
}

enum hlk_status hlk_lock_reacquire(hlk_lock *lock, const char *operation, uint64_t h, int64_t count, int64_t lease_ms,
                                   bool watchdog, const struct hlk_patience *patience)
{
    struct hlk_question q = { .script = HLK_SCRIPT_LOCK_REACQUIRE, .hold = h, .count = count, .lease_ms = lease_ms };
    struct reacquired got = { 0, 0 };
    enum hlk_status status = hlk_lock_ask(lock, operation, &q, patience, read_reacquired, &got);
    if (status != HLK_OK) {
        hlk_session_may_last(lock->session, h, hlk_clock_ms() + lock->client->reply_ms + lease_ms);
        return status;
    }
    if (got.answer == 1 && hlk_session_raised(lock->session, h, (unsigned)count, got.sent_ms, lease_ms, watchdog))
        return HLK_OK;
    hlk_table_lose(lock->session, h, hlk_lease_why_unknown);
    struct hlk_view view;
    hlk_session_view(lock->session, hlk_lock_holder(lock, hlk_self_get()).id, &view);
    if (view.h != h || (view.count == 0 && !view.lost)) /* its owner's other threads have released it, or hold anew */
        return hlk_lock_not_held(lock, operation);
    return hlk_lock_fails(lock, operation, HLK_LOST, "the hold was lost (%s)", hlk_lease_why_unknown);
}

/* --- a count that nobody waits for */

struct recount {
    struct hlk_question q;
    hlk_lock *lock;
};

static void on_recounted(struct hlk_call *call)
{
    struct recount *recount = HLK_CONTAINER(call, struct recount, q.call);
    const redisReply *reply = call->reply;
    if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer != 1)
        hlk_table_lose(recount->lock->session, recount->q.hold, hlk_lease_why_unknown);
    hlk_question_drop_reply(&recount->q);
    hlk_via_unref(&recount->lock->via);
    hlk_mem_free(recount);
}

void hlk_lock_write_count(hlk_lock *lock, uint64_t h, int64_t count)
{
    struct recount *recount = hlk_mem_zalloc(sizeof *recount);
    if (!recount)
        return;
    recount->lock = lock;
    hlk_via_ref(&lock->via);
    recount->q = (struct hlk_question){ .script = HLK_SCRIPT_LOCK_REACQUIRE,
                                        .client_id = lock->client->id,
                                        .name = hlk_session_name(lock->session),
                                        .name_len = hlk_session_len(lock->session),
                                        .hold = h,
                                        .count = count };
    recount->q.call.done = on_recounted;
    recount->q.call.lazy = true;
    if (hlk_question_send(&recount->q, lock->client->mux) != HLK_OK)
        on_recounted(&recount->q.call);
}

static enum hlk_status extend(hlk_lock *lock, struct hlk_self *self, int64_t lease_ms)
{
    struct hlk_view view;
    hlk_session_view(lock->session, hlk_lock_holder(lock, self).id, &view);
    if (view.lost)
        return hlk_lock_fails(lock, "extend", HLK_LOST, "the hold was lost (%s)", view.why);
    if (view.count == 0)
        return hlk_lock_not_held(lock, "extend");
    int64_t now = hlk_clock_ms();
    if (now >= view.until_ms) { /* the loop has not come round to saying so: nothing is revived */
        hlk_table_lose(lock->session, view.h, "the lease is over");
        return hlk_lock_fails(lock, "extend", HLK_LOST, "the lease is over");
    }
    if (hlk_clock_after(now, lease_ms) > view.cap_ms)
        return hlk_lock_fails(lock, "extend", HLK_E_INVALID,
                              "lease_ms %lld is more than the %lld ms that max_hold_ms leaves", (long long)lease_ms,
                              (long long)(view.cap_ms > now ? view.cap_ms - now : 0));
    return hlk_lock_reacquire(lock, "extend", view.h, view.count, lease_ms, false, NULL);
}

enum hlk_status hlk_lock_extend(hlk_lock *lock, int64_t lease_ms)
{
    enum hlk_status status = hlk_lock_check(lock, "extend");
    if (status != HLK_OK)
        return status;
    if (lease_ms < HLK_LEASE_MIN_MS || lease_ms > HLK_LEASE_MAX_MS)
        return hlk_lock_fails(lock, "extend", HLK_E_INVALID, "lease_ms %lld is not between %d and a year",
                              (long long)lease_ms, HLK_LEASE_MIN_MS);
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_lock_fails(lock, "extend", HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_lock *seat = hlk_lock_seat(lock, "extend");
    status = seat ? extend(seat, self, lease_ms) : HLK_E_NOMEM;
    hlk_lock_unseat(lock, seat);
    return status;
}

struct broken {
    bool held;
    char holder[HLK_FIELD_MAX];
};

static void read_broken(const struct hlk_question *q, void *ctx)
{
    const redisReply *reply = q->call.reply;
    struct broken *out = ctx;
    out->held = reply->type == REDIS_REPLY_STRING;
    if (out->held && reply->len < sizeof out->holder)
        memcpy(out->holder, reply->str, reply->len + 1);
}

static const char broken_by_us[] = "broken by this process";

struct broken_seat {
    const hlk_lock *lock;
    uint64_t h;
};

static void look_for_seat(struct hlk_session *s, void *ctx)
{
    const struct broken_seat *seat = ctx;
    if (s->fair && strcmp(hlk_session_name(s), hlk_lock_text(seat->lock)) == 0)
        hlk_table_lose(s, seat->h, broken_by_us);
}

/* Taken from a holder of this very client: it need not wait for its next renewal to learn it. */
static void tell_if_ours(hlk_lock *lock, const char *holder)
{
    if (!hlk_field_is_of(holder, strlen(holder), lock->client->id))
        return;
    struct broken_seat seat = { lock, strtoull(strrchr(holder, ':') + 1, NULL, 10) };
    if (lock->fair)
        hlk_table_each(&lock->client->table, look_for_seat, &seat);
    else
        hlk_table_lose(lock->session, seat.h, broken_by_us);
}

enum hlk_status hlk_lock_break(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_check(lock, "break");
    struct hlk_question q = { .script = HLK_SCRIPT_LOCK_BREAK };
    if (status == HLK_OK && lock->fair)
        q.script = HLK_SCRIPT_FAIR_BREAK;
    struct broken broken = { false, "" };
    if (status == HLK_OK)
        status = hlk_lock_ask(lock, "break", &q, &(struct hlk_patience){ .once = true }, read_broken, &broken);
    if (status == HLK_OK)
        tell_if_ours(lock, broken.holder);
    if (status == HLK_OK && !broken.held)
        return hlk_lock_fails(lock, "break", HLK_NOT_HOLDER, "nobody held it; nothing was changed");
    return status;
}
