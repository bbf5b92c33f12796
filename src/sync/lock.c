/* The reentrant lock, blocking: each call's own thread does its I/O. */
#include "sync/request.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- acquire --- */

#define LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)
#define HEAR (HLK_WAKE_MESSAGE | HLK_WAKE_HEARING | HLK_WAKE_DEAF)

static void on_orphan(struct hlk_call *call)
{
    hlk_request_free(HLK_CONTAINER(call, struct hlk_request, q.call));
}

/* Leaves for good: everything undone, the memory given back, or left to the call that still flies. */
static void drop(struct hlk_request *r)
{
    hlk_request_leave(r);
    if (!r->flies || !hlk_mux_leave(r->lock->client->mux, &r->q.call, on_orphan))
        hlk_request_free(r);
}

static void on_thread_cancel(void *arg)
{
    struct hlk_request *r = arg;
    HLK_COUNT(&r->lock->client->table, interrupted);
    drop(r);
}

static enum hlk_happened over(struct hlk_request *r, enum hlk_status status)
{
    r->error.status = status;
    return HLK_IS_OVER;
}

/* A bit that ends the wait was set; is it true? Bits are hints. */
static bool must_leave(struct hlk_request *r)
{
    unsigned bits = hlk_park_take(&r->self->park, LEAVE);
    if ((bits & HLK_WAKE_CLOSED) && atomic_load(&r->lock->client->closing))
        (void)hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    else if ((bits & HLK_WAKE_CANCEL) && hlk_cancel_triggered(r->cancel))
        (void)hlk_error_set(&r->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

static enum hlk_happened do_ask(struct hlk_request *r, int64_t *ttl_ms)
{
    hlk_client *client = r->lock->client;
    struct hlk_limits limits = { .at_ms = r->machine.deadline_ms, .mask = LEAVE, .refusals_pass = !r->machine.once,
                                 .up_by_ms = hlk_clock_after(hlk_clock_ms(), client->patience_ms) };
    enum hlk_status status;
    do {
        status = hlk_question_ask(&r->q, client->mux, r->self, &limits, &r->flies, &r->error);
        if (status == HLK_INTERRUPTED && must_leave(r))
            return HLK_IS_OVER;
    } while (status == HLK_INTERRUPTED);
    if (status == HLK_OK)
        return hlk_request_answer(r, ttl_ms);
    bool late = status == HLK_E_UNSURE || status == HLK_E_CONNECT;
    if (late && r->machine.answered && hlk_clock_ms() >= r->machine.deadline_ms)
        status = HLK_TIMEOUT;
    return over(r, status);
}

/* Sleeps in line or at the channel until something is worth a look. */
static bool sleep_until(struct hlk_request *r, unsigned bits, int64_t at_ms)
{
    bool signalled = false;
    hlk_self_allow_cancel(r->self);
    (void)hlk_park_until(&r->self->park, bits | LEAVE, at_ms, r->self->event_fd, r->eintr ? &signalled : NULL);
    hlk_self_forbid_cancel(r->self);
    if (signalled)
        (void)hlk_error_set(&r->error, HLK_INTERRUPTED, "interrupted by a signal");
    return signalled;
}

static enum hlk_happened do_line(struct hlk_request *r)
{
    for (;;) {
        (void)hlk_park_take(&r->self->park, HLK_WAKE_TURN);
        switch (hlk_session_look(r->lock->session, &r->turn)) {
        case HLK_ENTER_TURN:
            return hlk_request_takes_turn(r);
        case HLK_ENTER_BUSY:
            return over(r, HLK_BUSY);
        case HLK_ENTER_LOST:
            return over(r, HLK_LOST);
        case HLK_ENTER_NESTED:
            return HLK_IS_YOURS;        /* another thread of this owner has got it meanwhile */
        default:
            break;
        }
        if (must_leave(r))
            return HLK_IS_OVER;
        if (hlk_clock_ms() >= r->machine.deadline_ms)
            return HLK_IS_TIME;
        if (sleep_until(r, HLK_WAKE_TURN, r->machine.deadline_ms))
            return over(r, HLK_INTERRUPTED);
    }
}

static enum hlk_happened do_park(struct hlk_request *r)
{
    for (;;) {
        unsigned bits = hlk_park_take(&r->self->park, HEAR);
        if (bits & HLK_WAKE_DEAF) {
            hlk_request_deaf(r);
            return HLK_IS_OVER;
        }
        if (bits & HLK_WAKE_HEARING)
            return HLK_HEARS;
        if (bits & HLK_WAKE_MESSAGE)
            return HLK_HEARD;
        if (must_leave(r))
            return HLK_IS_OVER;
        if (hlk_clock_ms() >= r->machine.until_ms)
            return HLK_IS_TIME;
        if (sleep_until(r, HEAR, r->machine.until_ms))
            return over(r, HLK_INTERRUPTED);
    }
}

/* Waiting may last from here on: close and cancel must find us. */
static bool settle_in(struct hlk_request *r)
{
    return r->machine.once || hlk_request_waits(r) == HLK_OK;
}

static enum hlk_status run(struct hlk_request *r, enum hlk_happened what)
{
    for (;;) {
        int64_t ttl_ms = 0;
        switch (hlk_acquire_step(&r->machine, what, hlk_clock_ms(), r->holder_ttl_ms, r->error.status)) {
        case HLK_DO_ASK:
            what = do_ask(r, &ttl_ms);
            break;
        case HLK_DO_LINE:
            what = settle_in(r) ? do_line(r) : HLK_IS_OVER;
            break;
        case HLK_DO_JOIN:
            what = settle_in(r) ? hlk_request_join(r) : HLK_IS_OVER;
            break;
        case HLK_DO_PARK:
            what = settle_in(r) ? do_park(r) : HLK_IS_OVER;
            break;
        case HLK_DO_FINISH:
            return r->machine.status;
        }
    }
}

/* Got while the client is being closed: close has looked through the holds already, or does so now. */
static void give_back(hlk_lock *lock, struct hlk_holder holder)
{
    struct hlk_parting parting;
    if (hlk_session_let_go(lock->session, holder.id, &parting) != HLK_LET_LAST)
        return;
    hlk_table_end(&lock->client->table, lock->session, &parting);
    hlk_session_ended(lock->session);
}

static enum hlk_status acquire_first(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_self *self,
                                     struct hlk_holder holder)
{
    struct hlk_request *r = hlk_request_make(lock, opts, holder);
    if (!r)
        return hlk_lock_fails(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    if (r->eintr && hlk_self_event_fd(self) < 0) {
        drop(r);
        return hlk_lock_fails(lock, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    }
    r->self = self;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    enum hlk_status status = HLK_OK;
    pthread_cleanup_push(on_thread_cancel, r);
    if (r->cancel)
        status = hlk_request_waits(r);
    if (status == HLK_OK) {
        switch (hlk_session_enter(lock->session, &r->turn)) {
        case HLK_ENTER_TURN:
            status = run(r, hlk_request_takes_turn(r));
            break;
        case HLK_ENTER_LINE:
            status = run(r, HLK_IS_LINED);
            break;
        case HLK_ENTER_BUSY:
            status = HLK_BUSY;
            break;
        case HLK_ENTER_LOST:
            status = HLK_LOST;
            break;
        default:
            break;                      /* nested since we looked: an owner's other thread */
        }
    }
    pthread_cleanup_pop(0);
    if (r->won)
        hlk_session_tell_line(lock->session);
    if (status == HLK_OK && atomic_load(&lock->client->closing)) {
        give_back(lock, holder);
        status = hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    }
    status = hlk_request_report(r, status);
    drop(r);
    return status;
}

/* --- nested holds --- */

/* Writes count and lease of a held lock. HLK_OK, HLK_LOST (told), or a fault. */
static enum hlk_status reacquire(hlk_lock *lock, const char *operation, uint64_t h, int64_t count,
                                 int64_t lease_ms, bool watchdog, int64_t most_ms);

static enum hlk_status acquire_nested(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder,
                                      bool *nested)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    unsigned count;
    uint64_t h;
    *nested = true;
    switch (hlk_session_nest(lock->session, holder.id, lease > 0 ? lease : 0, &count, &h)) {
    case HLK_ENTER_NESTED:
        HLK_COUNT(&lock->client->table, reentered);
        return HLK_OK;
    case HLK_ENTER_LOST:
        return hlk_lock_fails(lock, "acquire", HLK_LOST, "this holder lost an earlier hold that it has not released yet");
    case HLK_ENTER_RAISE: {
        enum hlk_status status = reacquire(lock, "acquire", h, count, lease > 0 ? lease : lock->client->table.watchdog_ms, lease <= 0,
                                           opts->wait_ms >= 0 ? lock->client->reply_ms + opts->wait_ms : 0);
        if (status == HLK_OK)
            HLK_COUNT(&lock->client->table, reentered);
        else
            hlk_session_lower(lock->session, holder.id, h);
        return status;
    }
    default:
        *nested = false;
        return HLK_OK;
    }
}

/* Cancellation is off in here but for the sleeps of a first hold. Nested holds do not come near it: they are nanoseconds. */
static enum hlk_status acquire(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_lock_fails(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    bool nested;
    enum hlk_status status = acquire_nested(lock, opts, holder, &nested);
    if (nested)
        return status;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    status = acquire_first(lock, opts, self, holder);
    self->cancellable = false;
    pthread_setcancelstate(old, &old);
    return status;
}

enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_request_read_opts(lock, "acquire", given, &opts);
    return status == HLK_OK ? acquire(lock, &opts) : status;
}

enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    return status == HLK_OK ? acquire(lock, &opts) : status;
}

/* --- short questions: extend, break, query, nested holds --- */

struct asked {                          /* heap: its call may outlive its caller */
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

enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *operation, const struct hlk_question *question, int64_t most_ms, bool once,
                             void (*read)(const struct hlk_question *q, void *ctx), void *ctx)
{
    struct hlk_self *self = hlk_self_get();
    struct asked *asked = self ? hlk_mem_zalloc(sizeof *asked) : NULL;
    if (!asked)
        return hlk_lock_fails(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_client *client = lock->client;
    asked->q = *question;
    asked->q.client_id = client->id;
    asked->q.name = hlk_session_name(lock->session);
    asked->q.name_len = hlk_session_len(lock->session);
    asked->lock = lock;
    hlk_via_ref(&lock->via);
    int64_t now = hlk_clock_ms();
    struct hlk_limits limits = { .at_ms = now + client->patience_ms + client->reply_ms,
                                 .up_by_ms = hlk_clock_after(now, client->patience_ms), .once = once };
    if (client->patience_ms < 0)
        limits.at_ms = INT64_MAX;
    if (most_ms > 0)
        limits.at_ms = now + most_ms;
    struct hlk_error error;
    bool flies = false;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);       /* a short question: no cancellation point */
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

struct reacquired { long long answer; int64_t sent_ms; };

static void read_reacquired(const struct hlk_question *q, void *ctx)
{
    struct reacquired *out = ctx;
    out->answer = q->call.reply->type == REDIS_REPLY_INTEGER ? q->call.reply->integer : 0;
    out->sent_ms = hlk_question_sent_ms(q);
}

static enum hlk_status reacquire(hlk_lock *lock, const char *operation, uint64_t h, int64_t count,
                                 int64_t lease_ms, bool watchdog, int64_t most_ms)
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
    struct hlk_parting parting;
    if (hlk_session_lose(lock->session, h, "unknown to the server: expired, broken, or its data was lost", &parting)) {
        hlk_table_end_lost(&lock->client->table, lock->session, &parting);
        hlk_session_ended(lock->session);
    }
    return hlk_lock_fails(lock, operation, HLK_LOST, "the server does not know this hold any more");
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
    struct hlk_view view;
    hlk_session_view(lock->session, hlk_lock_holder(lock, self).id, &view);
    if (view.lost)
        return hlk_lock_fails(lock, "extend", HLK_LOST, "the hold was lost");
    if (view.count == 0)
        return hlk_lock_fails(lock, "extend", HLK_NOT_HOLDER, "not held by this holder; nothing was changed");
    return reacquire(lock, "extend", view.h, view.count, lease_ms, false, 0);
}

struct broken { bool held; char holder[HLK_FIELD_MAX]; };

static void read_broken(const struct hlk_question *q, void *ctx)
{
    const redisReply *reply = q->call.reply;
    struct broken *out = ctx;
    out->held = reply->type == REDIS_REPLY_STRING;
    if (out->held && reply->len < sizeof out->holder)
        memcpy(out->holder, reply->str, reply->len + 1);
}

/* Taken from a holder of this very client: it need not wait for its next renewal to learn it. */
static void tell_if_ours(hlk_lock *lock, const char *holder)
{
    struct hlk_parting parting;
    if (!hlk_field_is_of(holder, strlen(holder), lock->client->id))
        return;
    uint64_t h = strtoull(strrchr(holder, ':') + 1, NULL, 10);
    if (!hlk_session_lose(lock->session, h, "broken by this process", &parting))
        return;
    hlk_table_end_lost(&lock->client->table, lock->session, &parting);
    hlk_session_ended(lock->session);
}

enum hlk_status hlk_lock_break(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_check(lock, "break");
    struct hlk_question q = { .script = HLK_SCRIPT_LOCK_BREAK };
    struct broken broken = { false, "" };
    if (status == HLK_OK)
        status = hlk_lock_ask(lock, "break", &q, 0, true, read_broken, &broken);
    if (status == HLK_OK)
        tell_if_ours(lock, broken.holder);
    if (status == HLK_OK && !broken.held)
        return hlk_lock_fails(lock, "break", HLK_NOT_HOLDER, "nobody held it; nothing was changed");
    return status;
}

/* --- release --- */

struct release {                        /* what the undo tells its waiter */
    struct hlk_session *s;
    hlk_client *client;                 /* lives as long as its undos */
    uint64_t h;
    atomic_int refs;                    /* the waiter's and the undo's */
    atomic_bool settled;                /* the two below are there */
    enum hlk_status status;
    struct hlk_error error;
};

static void unref_release(struct release *release)
{
    if (atomic_fetch_sub(&release->refs, 1) != 1)
        return;
    hlk_session_unref(release->s);
    hlk_mem_free(release);
}

static enum hlk_status outcome_status(enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    switch (outcome) {
    case HLK_UNDO_DONE:
    case HLK_UNDO_ABSENT_REPEATED:
        return HLK_OK;
    case HLK_UNDO_ABSENT:
        return HLK_LOST;
    case HLK_UNDO_REFUSED:
        return error->status;
    default:
        return HLK_E_UNSURE;
    }
}

static void on_released(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct release *release = undo->ctx;
    release->status = outcome_status(outcome, error);
    if (release->status == HLK_E_UNSURE)        /* given up: its lease is over, nobody holds by it any more */
        release->status = HLK_LOST;
    if (error)
        release->error = *error;
    if (release->status == HLK_LOST)
        HLK_COUNT(&release->client->table, lost);
    else if (release->status == HLK_OK)
        HLK_COUNT(&release->client->table, released);
    hlk_lock_heard_by(release->client, release->s, undo->listeners);
    atomic_store(&release->settled, true);
    hlk_session_settle(release->s, release->h, release->status);
    unref_release(release);
    hlk_mem_free(undo);
}

static struct hlk_undo *make_release(hlk_lock *lock, struct release **out)
{
    struct release *release = hlk_mem_zalloc(sizeof *release);
    struct hlk_undo *undo = release ? hlk_mem_zalloc(sizeof *undo) : NULL;
    if (!undo) {
        hlk_mem_free(release);
        return NULL;
    }
    release->s = lock->session;
    release->client = lock->client;
    atomic_init(&release->refs, 2);
    hlk_session_ref(release->s);
    undo->q.name = hlk_session_name(lock->session);
    undo->q.name_len = hlk_session_len(lock->session);
    undo->settled = on_released;
    undo->ctx = release;
    *out = release;
    return undo;
}

/* Not answered in time: it goes on in the background, and the holder may come back for the outcome. */
static enum hlk_status release_unsure(hlk_lock *lock, struct hlk_holder holder, struct release *release, bool sent)
{
    HLK_COUNT(&lock->client->table, release_unsure);
    if (hlk_session_owe(lock->session, holder, release->h) && atomic_load(&release->settled))
        hlk_session_settle(lock->session, release->h, release->status);
    if (atomic_load(&lock->client->closing))
        return hlk_lock_fails(lock, "release", HLK_E_CLOSED, "the client is being closed");
    if (!sent)
        return hlk_lock_fails(lock, "release", HLK_E_CONNECT, "no connection for %lld ms; not held any more, never renewed, "
                              "and repeated in the background", (long long)lock->client->reply_ms);
    return hlk_lock_fails(lock, "release", HLK_E_UNSURE, "sent, not answered in %lld ms; not held any more, never renewed, "
                          "and repeated in the background", (long long)lock->client->reply_ms);
}

static enum hlk_status release_last(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder,
                                    const struct hlk_parting *parting)
{
    struct release *release;
    struct hlk_undo *undo = make_release(lock, &release);
    if (!undo) {
        hlk_session_keep(lock->session);
        return hlk_lock_fails(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    }
    hlk_client *client = lock->client;
    release->h = undo->q.hold = parting->h;
    undo->doubt = parting->doubt;
    undo->until_ms = parting->until_ms;
    hlk_undo_start(&client->undos, undo, self, false);
    hlk_session_ended(lock->session);
    bool sent;
    bool settled = hlk_undo_wait(&client->undos, undo, self, hlk_clock_ms() + client->reply_ms, &sent);
    enum hlk_status status = settled ? release->status : release_unsure(lock, holder, release, sent);
    if (settled && status == HLK_LOST)
        status = hlk_lock_fails(lock, "release", status, "the server did not know this hold any more: expired, broken, or its "
                                "data was lost");
    else if (settled && status != HLK_OK)
        status = hlk_lock_fails(lock, "release", status, "%s", release->error.text);
    unref_release(release);
    return status;
}

/* One hold less in Redis' count too: a nested hold with a fixed lease. The outer hold remains whatever becomes of it. */
static enum hlk_status release_write(hlk_lock *lock, const struct hlk_parting *parting)
{
    enum hlk_status status = reacquire(lock, "release", parting->h, parting->count, 0, false, lock->client->reply_ms);
    return status == HLK_LOST ? status : HLK_OK;
}

static enum hlk_status release_again(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder)
{
    enum hlk_status status = hlk_session_wait_owed(lock->session, holder.id, self,
                                                   hlk_clock_ms() + lock->client->reply_ms);
    if (status == HLK_OK)
        return status;
    return hlk_lock_fails(lock, "release", status, status == HLK_E_UNSURE ? "still not answered; repeated in the background"
                                                                          : "the earlier release found nothing to release");
}

static enum hlk_status release_by_asking(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder,
                                         enum hlk_let_go verdict, const struct hlk_parting *parting)
{
    int old;
    enum hlk_status status;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);       /* a release is no cancellation point */
    if (verdict == HLK_LET_WRITE)
        status = release_write(lock, parting);
    else if (verdict == HLK_LET_OWED)
        status = release_again(lock, self, holder);
    else
        status = release_last(lock, self, holder, parting);
    pthread_setcancelstate(old, &old);
    return status;
}

enum hlk_status hlk_lock_release(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_check(lock, "release");
    if (status != HLK_OK)
        return status;
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_lock_fails(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    struct hlk_parting parting;
    enum hlk_let_go verdict = hlk_session_let_go(lock->session, holder.id, &parting);
    switch (verdict) {
    case HLK_LET_NOT_HOLDER:
        return hlk_lock_fails(lock, "release", HLK_NOT_HOLDER, "not held by this holder; nothing was changed");
    case HLK_LET_LOST:
        return hlk_lock_fails(lock, "release", HLK_LOST, "the hold was lost; it is off this holder's account now");
    case HLK_LET_NESTED:
        return HLK_OK;
    default:
        return release_by_asking(lock, self, holder, verdict, &parting);
    }
}
