/* Short questions about a lock, each one script: nested holds with a fixed lease, extend, break. */
#include "sync/handle.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct asked { /* heap: its call may outlive its caller */
    struct hlk_question q;
    hlk_lock *lock;
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

enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *operation, const struct hlk_question *question,
                             int64_t most_ms, bool once, void (*read)(const struct hlk_question *q, void *ctx),
                             void *ctx)
{
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
    hlk_via_ref(&lock->via);
    int64_t now = hlk_clock_ms();
    struct hlk_limits limits = { .at_ms = now + client->patience_ms + client->reply_ms,
                                 .up_by_ms = hlk_clock_after(now, client->patience_ms),
                                 .once = once };
    if (client->patience_ms < 0)
        limits.at_ms = INT64_MAX;
    if (most_ms > 0)
        limits.at_ms = now + most_ms;
    struct hlk_error error;
    bool flies = false;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old); /* a short question: no cancellation point */
    enum hlk_status status = hlk_question_ask(&asked->q, client->mux, self, &limits, &flies, &error);
    if (status == HLK_OK)
        read(&asked->q, ctx);
    else
        status = hlk_lock_fails(lock, operation, status, "%s", error.text);
    if (!flies || !hlk_mux_leave(client->mux, &asked->q.call, on_left))
        free_asked(asked);
    pthread_setcancelstate(old, &old);
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
                                   bool watchdog, int64_t most_ms)
{
    struct hlk_question q = { .script = HLK_SCRIPT_LOCK_REACQUIRE, .hold = h, .count = count, .lease_ms = lease_ms };
    struct reacquired got = { 0, 0 };
    enum hlk_status status = hlk_lock_ask(lock, operation, &q, most_ms, false, read_reacquired, &got);
    if (status != HLK_OK)
        return status;
    if (got.answer == 1) {
        hlk_session_raised(lock->session, h, (unsigned)count, got.sent_ms, lease_ms, watchdog);
        return HLK_OK;
    }
    hlk_table_lose(lock->session, h, "unknown to the server: expired, broken, or its data was lost");
    return hlk_lock_fails(lock, operation, HLK_LOST, "the server does not know this hold any more");
}

static enum hlk_status extend(hlk_lock *lock, struct hlk_self *self, int64_t lease_ms)
{
    struct hlk_view view;
    hlk_session_view(lock->session, hlk_lock_holder(lock, self).id, &view);
    if (view.lost)
        return hlk_lock_fails(lock, "extend", HLK_LOST, "the hold was lost");
    if (view.count == 0)
        return hlk_lock_not_held(lock, "extend");
    if (hlk_clock_ms() >= view.until_ms) { /* the loop has not come round to saying so: nothing is revived */
        hlk_table_lose(lock->session, view.h, "the lease is over");
        return hlk_lock_fails(lock, "extend", HLK_LOST, "the lease is over");
    }
    return hlk_lock_reacquire(lock, "extend", view.h, view.count, lease_ms, false, 0);
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
        status = hlk_lock_ask(lock, "break", &q, 0, true, read_broken, &broken);
    if (status == HLK_OK)
        tell_if_ours(lock, broken.holder);
    if (status == HLK_OK && !broken.held)
        return hlk_lock_fails(lock, "break", HLK_NOT_HOLDER, "nobody held it; nothing was changed");
    return status;
}
