/* What a completion-driven acquire does about each event: the acquire machine's wishes, without a thread that waits. */
#include "sync/async.h"

#include "base/clock.h"

static enum hlk_happened over(struct hlk_async *async, enum hlk_status status, const char *why)
{
    (void)hlk_error_set(&async->r->error, status, "%s", why);
    (void)hlk_question_gives_up(&async->r->q, &async->r->error);
    return HLK_IS_OVER;
}

static const char late[] = "sent, but not answered in time";
static const char broke[] = "sent, and the connection broke before an answer came";

static void touch(struct hlk_async *async)
{
    async->touched = true;
}

static void wake_at(struct hlk_async *async, int64_t at_ms)
{
    if (at_ms == INT64_MAX)
        return;
    touch(async);
    hlk_loop_arm(async->r->lock->client->loop, &async->alarm, at_ms);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sends a copy, or waits for a connection. False: over, *what says how. */
static bool send_copy(struct hlk_async *async, enum hlk_happened *what)
{
    struct hlk_request *r = async->r;
    hlk_client *client = r->lock->client;
    for (;;) {
        r->q.call.waiter = NULL;
        r->q.call.done = hlk_async_on_answer;
        r->q.call.lazy = false;
        async->refused = false;
        r->flies = true; /* the answer may be here before send returns */
        atomic_fetch_add(&async->refs, 1);
        enum hlk_status status = hlk_question_send(&r->q, client->mux);
        if (status == HLK_OK) {
            async->patience_at_ms = INT64_MAX;
            return true;
        }
        r->flies = false;
        atomic_fetch_sub(&async->refs, 1);
        if (status != HLK_E_CONNECT) {
            *what = over(async, status,
                         status == HLK_E_CLOSED ? "the client is being closed" : "no memory for the command");
            return false;
        }
        struct hlk_error why;
        status = hlk_mux_health(client->mux, &why);
        if (status != HLK_OK && status != HLK_E_CONNECT) {
            *what = over(async, status, why.text);
            return false;
        }
        if (async->patience_at_ms == INT64_MAX)
            async->patience_at_ms = hlk_clock_after(hlk_clock_ms(), client->patience_ms);
        touch(async);
        wake_at(async, least(async->patience_at_ms, r->machine.deadline_ms));
        if (hlk_mux_when_up(client->mux, &async->up))
            return true;
    }
}

static bool join(struct hlk_async *async, enum hlk_happened (*how)(struct hlk_request *r), enum hlk_happened *what)
{
    struct hlk_request *r = async->r;
    touch(async);
    enum hlk_status status = hlk_request_waits(r);
    *what = status == HLK_OK ? how(r) : HLK_IS_OVER;
    return false;
}

/* False: *what has happened instead. */
static bool ask(struct hlk_async *async, enum hlk_happened *what)
{
    struct hlk_request *r = async->r;
    *what = hlk_request_asks(r);
    if (r->inbox_ear.channel)
        touch(async); /* the loop may tell it of messages */
    if (*what != HLK_HAS_TURN)
        return false;
    if (r->machine.deadline_ms != INT64_MAX && !r->machine.once) /* a try ends with its connection's reply_ms */
        wake_at(async, r->machine.deadline_ms);
    return send_copy(async, what);
}

/* False: the wait is over, *what says so. */
static bool wait_until(struct hlk_async *async, int64_t at_ms, enum hlk_happened *what)
{
    touch(async);
    *what = HLK_IS_OVER;
    if (hlk_request_waits(async->r) != HLK_OK)
        return false;
    wake_at(async, at_ms);
    return true;
}

/* Does what the machine wants. True: wait for events; false: *what has happened already. */
static bool act(struct hlk_async *async, enum hlk_do todo, enum hlk_happened *what)
{
    struct hlk_request *r = async->r;
    switch (todo) {
    case HLK_DO_ASK:
        return ask(async, what);
    case HLK_DO_LINE:
        touch(async);
        *what = HLK_IS_OVER;
        return hlk_request_lines_up(r) == HLK_OK && wait_until(async, r->machine.deadline_ms, what);
    case HLK_DO_JOIN:
        return join(async, hlk_request_join, what);
    case HLK_DO_HARK:
        return join(async, hlk_request_hark, what);
    case HLK_DO_PARK:
        return wait_until(async, async->refused ? async->pause_until_ms : r->machine.until_ms, what);
    case HLK_DO_FINISH:
        break;
    }
    hlk_async_finish(async);
    return true;
}

static void feed(struct hlk_async *async, enum hlk_happened what)
{
    struct hlk_request *r = async->r;
    while (!act(async, hlk_acquire_step(&r->machine, what, hlk_clock_ms(), &r->busy, r->error.status), &what))
        ;
}

static void take_turn(struct hlk_async *async)
{
    feed(async, hlk_request_takes_turn(async->r));
}

static void fail(struct hlk_async *async, enum hlk_status status)
{
    async->r->error.status = status;
    feed(async, HLK_IS_OVER);
}

/* The answer about a nested hold's lease. */
static void on_raised(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    struct hlk_session *s = r->lock->session;
    bool held = r->q.call.reply->type == REDIS_REPLY_INTEGER && r->q.call.reply->integer == 1;
    if (held &&
        hlk_session_raised(s, r->q.hold, (unsigned)r->q.count, hlk_question_sent_ms(&r->q), r->q.lease_ms, !r->fixed)) {
        feed(async, HLK_IS_YOURS);
        return;
    }
    hlk_table_lose(s, r->q.hold, hlk_lease_why_unknown);
    fail(async, HLK_LOST);
}

static void pause_until_later(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    int64_t now = hlk_clock_ms();
    touch(async);
    if (hlk_request_waits(r) != HLK_OK) { /* close must find it */
        feed(async, HLK_IS_OVER);
        return;
    }
    if (!async->refused_until_ms)
        async->refused_until_ms = hlk_clock_after(now, r->lock->client->patience_ms);
    int64_t limit = least(async->refused_until_ms, r->machine.deadline_ms);
    async->refused = true;
    async->asks_again = hlk_question_pauses(now, limit, &async->pause_until_ms);
    wake_at(async, async->pause_until_ms);
}

static void on_reply(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    enum hlk_happened what = HLK_IS_OVER;
    r->flies = false;
    switch (hlk_question_end(&r->q, r->lock->client->mux, !r->machine.once, &r->error)) {
    case HLK_STEP_ANSWER:
        async->refused_until_ms = 0;
        if (async->raising)
            on_raised(async);
        else
            feed(async, hlk_request_answer(r));
        return;
    case HLK_STEP_AGAIN:
        if (r->machine.once && r->q.doubt)
            what = over(async, HLK_E_UNSURE, broke);
        if ((r->machine.once && r->q.doubt) || !send_copy(async, &what))
            feed(async, what);
        return;
    case HLK_STEP_PAUSE:
        pause_until_later(async);
        return;
    case HLK_STEP_FAULT:
        (void)hlk_question_gives_up(&r->q, &r->error);
        break;
    }
    feed(async, HLK_IS_OVER);
}

static enum hlk_happened raise_lease(struct hlk_async *async, uint64_t h, unsigned count)
{
    struct hlk_request *r = async->r;
    async->raising = true;
    r->won = true; /* nothing to undo but the count */
    r->machine.asking = true;
    r->q.script = HLK_SCRIPT_LOCK_REACQUIRE;
    r->q.hold = h;
    r->q.count = count;
    enum hlk_happened what = HLK_IS_OVER;
    if (hlk_request_begins(r) != HLK_OK)
        return what;
    if (!r->machine.once) /* a try ends with its connection's reply_ms */
        wake_at(async, r->machine.deadline_ms);
    what = HLK_IS_LINED;
    (void)send_copy(async, &what);
    return what;
}

/* Another thread of its owner had it first: a nested hold, whose lease is to be raised. */
static void raise_nested(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    struct hlk_view view;
    hlk_session_view(r->lock->session, r->turn.holder.id, &view);
    enum hlk_happened what = raise_lease(async, view.h, view.count);
    if (what != HLK_IS_LINED)
        feed(async, what);
}

static void on_turn(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    if (async->raising) /* out of line already: a late wake-up */
        return;
    switch (hlk_session_look(r->lock->session, &r->turn)) {
    case HLK_ENTER_TURN:
        if (r->q.hold) /* not turn.h, which a grant may change now */
            return;    /* known: a late wake-up */
        take_turn(async);
        return;
    case HLK_ENTER_GOT:
        feed(async, hlk_request_got(r));
        return;
    case HLK_ENTER_NESTED:
        feed(async, HLK_IS_YOURS);
        return;
    case HLK_ENTER_RAISE:
        raise_nested(async);
        return;
    case HLK_ENTER_BUSY:
        fail(async, HLK_BUSY);
        return;
    case HLK_ENTER_LOST:
        fail(async, HLK_LOST);
        return;
    default:
        return;
    }
}

static enum hlk_happened at_deadline(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    struct hlk_error why;
    if (async->refused && hlk_question_gives_up(&r->q, &r->error) != HLK_E_UNSURE)
        return HLK_IS_OVER;
    if (!async->raising && (r->machine.answered || r->q.hold == 0))
        return over(async, r->machine.once ? HLK_BUSY : HLK_TIMEOUT, "");
    if (r->flies || r->q.doubt)
        return over(async, HLK_E_UNSURE, async->refused ? r->error.text : r->flies ? late : broke);
    return over(async, HLK_E_CONNECT,
                hlk_mux_health(r->lock->client->mux, &why) == HLK_OK ? "no connection" : why.text);
}

static void on_time(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    int64_t now = hlk_clock_ms();
    if (now >= r->machine.deadline_ms) {
        feed(async, at_deadline(async));
    } else if (now >= async->patience_at_ms) {
        struct hlk_error why;
        enum hlk_status status = hlk_mux_health(r->lock->client->mux, &why);
        if (status == HLK_OK)
            return;
        feed(async, over(async, status, why.text));
    } else if (async->refused && now < async->pause_until_ms) {
        wake_at(async, async->pause_until_ms);
    } else if (async->refused && !async->asks_again) {
        (void)hlk_question_gives_up(&r->q, &r->error);
        feed(async, HLK_IS_OVER); /* its patience is over */
    } else if (!r->machine.asking && r->q.hold && now >= r->machine.until_ms) {
        feed(async, HLK_IS_TIME);
    } else if (r->machine.asking && !r->flies) {
        enum hlk_happened what = HLK_IS_OVER; /* a pause is over */
        if (!send_copy(async, &what))
            feed(async, what);
        else if (r->flies)
            wake_at(async, r->machine.deadline_ms);
    } else {
        wake_at(async, r->machine.asking ? r->machine.deadline_ms : r->machine.until_ms);
    }
}

static void on_closed(struct hlk_async *async)
{
    feed(async, over(async, HLK_E_CLOSED, "the client is being closed"));
}

static void on_cancel(struct hlk_async *async)
{
    if (hlk_cancel_triggered(async->r->cancel))
        feed(async, over(async, HLK_INTERRUPTED, "cancelled"));
}

static void on_deaf(struct hlk_async *async)
{
    hlk_request_deaf(async->r);
    feed(async, HLK_IS_OVER);
}

static void on_hears(struct hlk_async *async)
{
    feed(async, HLK_HEARS);
}

static void on_heard(struct hlk_async *async)
{
    feed(async, HLK_HEARD);
}

static void on_connected(struct hlk_async *async)
{
    enum hlk_happened what = HLK_IS_OVER;
    if (async->r->machine.asking && !async->r->flies && !async->refused && !send_copy(async, &what))
        feed(async, what);
}

/* In the order of what they settle. */
void hlk_async_step(struct hlk_async *async, unsigned bits)
{
    static const struct {
        unsigned bit;
        void (*run)(struct hlk_async *async);
    } steps[] = {
        { HLK_WAKE_REPLY, on_reply },   { HLK_WAKE_UP, on_connected },  { HLK_WAKE_TURN, on_turn },
        { HLK_WAKE_CLOSED, on_closed }, { HLK_WAKE_CANCEL, on_cancel }, { HLK_WAKE_DEAF, on_deaf },
        { HLK_WAKE_HEARING, on_hears }, { HLK_WAKE_MESSAGE, on_heard }, { HLK_WAKE_TIME, on_time },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !async->over; i++)
        if (bits & steps[i].bit)
            steps[i].run(async);
}

/* --- the first step --- */

/* As if it had been in line: every event from here on finds it running. */
void hlk_async_start(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    struct hlk_session *s = r->lock->session;
    unsigned count;
    uint64_t h;
    enum hlk_happened what;
    if (r->cancel)
        touch(async);
    switch (hlk_session_nest(s, r->turn.holder.id, r->fixed ? r->lease_ms : 0, &count, &h)) {
    case HLK_ENTER_NESTED:
        feed(async, HLK_IS_YOURS);
        return;
    case HLK_ENTER_RAISE:
        what = raise_lease(async, h, count);
        if (what != HLK_IS_LINED)
            feed(async, what);
        return;
    case HLK_ENTER_LOST:
        fail(async, HLK_LOST);
        return;
    default:
        break;
    }
    if (hlk_request_begins(r) != HLK_OK) {
        feed(async, HLK_IS_OVER);
        return;
    }
    switch (hlk_session_enter(s, &r->turn)) {
    case HLK_ENTER_TURN:
        take_turn(async);
        return;
    case HLK_ENTER_LINE:
        feed(async, HLK_IS_LINED);
        return;
    case HLK_ENTER_BUSY:
        fail(async, HLK_BUSY);
        return;
    case HLK_ENTER_LOST:
        fail(async, HLK_LOST);
        return;
    case HLK_ENTER_RAISE:
        raise_nested(async);
        return;
    case HLK_ENTER_NOMEM:
        fail(async, hlk_error_set(&r->error, HLK_E_NOMEM, "no memory for a token"));
        return;
    default:
        feed(async, HLK_IS_YOURS);
        return;
    }
}
