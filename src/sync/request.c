#include "sync/request.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/opts.h"
#include "sync/async.h"
#include "sync/fair.h"

#include <stdlib.h>
#include <string.h>

#define LATE_MOST 3

/* --- options --- */

static bool lease_ok(int64_t lease_ms)
{
    return lease_ms <= 0 || (lease_ms >= HLK_LEASE_MIN_MS && lease_ms <= HLK_LEASE_MAX_MS);
}

enum hlk_status hlk_request_read_opts(hlk_lock *lock, const char *operation, const struct hlk_acquire_opts *given,
                                      struct hlk_acquire_opts *opts)
{
    struct hlk_acquire_opts defaults = HLK_ACQUIRE_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_lock_fails(lock, operation, HLK_E_INVALID, "acquire options of size %zu are not known", given->size);
    if (!lease_ok(opts->lease_ms))
        return hlk_lock_fails(lock, operation, HLK_E_INVALID, "lease_ms %lld is not between %d and a year",
                              (long long)opts->lease_ms, HLK_LEASE_MIN_MS);
    if (opts->flags & ~HLK_ACQUIRE_EINTR)
        return hlk_lock_fails(lock, operation, HLK_E_INVALID, "unknown flags 0x%x", opts->flags);
    return HLK_OK;
}

/* --- wake-ups: only wake --- */

static void wake(struct hlk_request *r, unsigned bit)
{
    if (r->self)
        hlk_park_wake(&r->self->park, bit);
    else
        hlk_async_wake(r->async, bit);
}

static struct hlk_park *on_turn(struct hlk_turn *turn, unsigned bit)
{
    struct hlk_request *r = HLK_CONTAINER(turn, struct hlk_request, turn);
    if (r->self)
        return hlk_park_set(&r->self->park, bit);
    hlk_async_wake(r->async, bit);
    return NULL;
}

static void on_hear(struct hlk_listener *ear, unsigned bit)
{
    wake(HLK_CONTAINER(ear, struct hlk_request, ear), bit);
}

static void on_inbox(struct hlk_listener *ear, unsigned bit)
{
    wake(HLK_CONTAINER(ear, struct hlk_request, inbox_ear), bit);
}

static void on_cancel(struct hlk_cancel_wait *wait)
{
    wake(HLK_CONTAINER(wait, struct hlk_request, cancel_wait), HLK_WAKE_CANCEL);
}

static void on_closing(struct hlk_wait_entry *entry)
{
    wake(HLK_CONTAINER(entry, struct hlk_request, closing_wait), HLK_WAKE_CLOSED);
}

/* --- making --- */

struct hlk_request *hlk_request_make(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder)
{
    struct hlk_request *r = hlk_mem_zalloc(sizeof *r);
    if (!r)
        return NULL;
    int64_t now_ns = hlk_clock_ns(), now = now_ns / 1000000;
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    int64_t begun = now + 1; /* rounded up: no wait ends early by a part of a millisecond */
    hlk_acquire_init(&r->machine,
                     opts->wait_ms == 0 ? hlk_clock_after(now, lock->client->reply_ms)
                                        : hlk_clock_after(begun, opts->wait_ms),
                     opts->wait_ms == 0, (unsigned)((uint64_t)now ^ holder.id * 2654435761u));
    r->machine.fair = lock->fair;
    r->lock = lock;
    hlk_via_ref(&lock->via);
    hlk_client_request_begins(lock->client);
    r->cancel = opts->cancel;
    r->eintr = opts->flags & HLK_ACQUIRE_EINTR;
    r->started_ns = now_ns;
    r->fixed = lease > 0;
    r->lease_ms = r->fixed ? lease : lock->client->table.watchdog_ms;
    r->turn.holder = holder;
    r->turn.via = &lock->via;
    r->turn.once = r->machine.once;
    r->turn.lease_ms = r->lease_ms;
    r->turn.fixed = r->fixed;
    r->turn.max_hold_ms = lock->max_hold_ms;
    r->turn.fenced = lock->fenced;
    r->turn.floor = lock->token_floor;
    r->turn.wake = on_turn;
    r->inbox_ear.hear = on_inbox;
    r->ear.hear = on_hear;
    r->cancel_wait.wake = on_cancel;
    r->closing_wait.wake = on_closing;
    r->q.script = lock->fair ? HLK_SCRIPT_FAIR_ACQUIRE : HLK_SCRIPT_LOCK_ACQUIRE;
    r->q.client_id = lock->client->id;
    r->q.name = hlk_session_name(lock->session);
    r->q.name_len = hlk_session_len(lock->session);
    r->q.lease_ms = r->lease_ms;
    r->q.fenced = lock->fenced;
    return r;
}

enum hlk_status hlk_request_waits(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    if (r->waits)
        return HLK_OK;
    r->waits = true;
    HLK_COUNT(&client->table, waiting);
    if (r->async || r->eintr)
        hlk_pubsub_eager(&client->channels.pubsub, true);
    hlk_client_waits(client, &r->closing_wait);
    if (atomic_load(&client->closing))
        return hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    if (r->cancel && !hlk_cancel_join(r->cancel, &r->cancel_wait))
        return hlk_error_set(&r->error, HLK_INTERRUPTED, "cancelled");
    return HLK_OK;
}

enum hlk_status hlk_request_lines_up(struct hlk_request *r)
{
    if (!r->machine.once && !r->attends) {
        r->attends = true;
        hlk_channel_attend_inbox(&r->lock->client->channels);
    }
    return hlk_request_waits(r);
}

enum hlk_status hlk_request_begins(struct hlk_request *r)
{
    if (atomic_load(&r->lock->client->closing)) /* made before this look, or close has seen it */
        return hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    return r->cancel ? hlk_request_waits(r) : HLK_OK;
}

enum hlk_happened hlk_request_takes_turn(struct hlk_request *r)
{
    r->q.hold = r->turn.h;
    r->q.place.since_ms = 0;
    return HLK_HAS_TURN;
}

enum hlk_happened hlk_request_got(struct hlk_request *r)
{
    r->won = true;
    r->machine.cause = HLK_ASKED_BY_MESSAGE;
    return HLK_IS_YOURS;
}

/* Does this client hear what its inbox is told? Where it does already the first question takes a place at once, and is
 * enough. */
static bool hears_inbox(struct hlk_request *r)
{
    struct hlk_channels *channels = &r->lock->client->channels;
    if (r->inbox_ear.channel)
        return hlk_channel_confirmed(channels, &r->inbox_ear);
    if (atomic_load(&channels->known) == 0)
        return false;
    r->machine.joined = hlk_channel_join_live(channels, channels->inbox, channels->inbox_len, &r->inbox_ear) == HLK_OK;
    return r->machine.joined;
}

enum hlk_happened hlk_request_asks(struct hlk_request *r)
{
    struct hlk_session *s = r->lock->session;
    if (r->machine.answered && !hlk_session_asks(s, &r->turn))
        return hlk_request_got(r);
    if (r->lock->fair) {
        hlk_fair_asks(r);
        return HLK_HAS_TURN;
    }
    if (r->q.place.since_ms)
        return HLK_HAS_TURN; /* in the queue, as far as we know: asks by the same place */
    bool hears = !r->machine.once && hears_inbox(r);
    if (!hears && !r->q.fenced)
        return HLK_HAS_TURN;
    if (hlk_session_queue(s, &r->turn, hears, &r->q.place) == HLK_ENTER_NOMEM) {
        (void)hlk_error_set(&r->error, HLK_E_NOMEM, "no memory for a place in line");
        return HLK_IS_OVER;
    }
    if (!hears)
        r->q.place.since_ms = 0;
    return HLK_HAS_TURN;
}

/* --- answers --- */

/* Is it "somebody else's"? Then holder, busy.ttl_ms and busy.place are what it says. */
static bool read_busy(struct hlk_request *r, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[0]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->type != REDIS_REPLY_STRING || reply->element[2]->type != REDIS_REPLY_INTEGER)
        return false;
    const redisReply *field = reply->element[1];
    size_t len = field->len < sizeof r->holder - 1 ? field->len : sizeof r->holder - 1;
    memcpy(r->holder, field->str, len);
    r->holder[len] = '\0';
    r->told_ms = hlk_question_sent_ms(&r->q);
    r->busy.ttl_ms = reply->element[0]->integer;
    r->busy.place = reply->element[2]->integer;
    return true;
}

/* One try, and our own process's end was still on its way to Redis (it may have been sent again, NOSCRIPT): it comes
 * before another question does. If it has been answered meanwhile one more question is enough. */
static bool held_by_our_own_end(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    if (!r->machine.once || !hlk_field_is_of(r->holder, strlen(r->holder), client->id))
        return false;
    uint64_t hold = strtoull(strrchr(r->holder, ':') + 1, NULL, 10);
    if (hlk_undos_owe(&client->undos, hold))
        return true;
    bool again = !r->asked_again; /* the end may have been settled after this answer was written */
    r->asked_again = true;
    return again;
}

static bool is_yours(const struct hlk_request *r, const redisReply *reply)
{
    return r->q.fenced ? reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
                             reply->element[0]->type == REDIS_REPLY_INTEGER
                       : reply->type == REDIS_REPLY_NIL;
}

static enum hlk_happened busy(struct hlk_request *r)
{
    /* In an open window nobody is the holder: who listened for it would be taken for one whom the next one is for. */
    r->busy.foreign = !r->lock->fair && r->holder[0] && !hlk_field_is_ours(r->holder);
    if (!r->lock->fair && !r->busy.foreign)
        hlk_channel_leave(&r->lock->client->channels, &r->ear);
    if (held_by_our_own_end(r))
        return HLK_IS_STALE;
    return hlk_session_waits(r->lock->session, &r->turn, r->q.doubt) ? hlk_request_got(r) : HLK_IS_BUSY;
}

/* Ours when it was written, and over when it was read. By the next copy it may be ours in time; but one whose lease is
 * shorter than the way there and back would keep it from everybody. */
static enum hlk_happened too_late(struct hlk_request *r)
{
    if (++r->late < LATE_MOST)
        return HLK_IS_STALE;
    (void)hlk_error_set(&r->error, HLK_E_UNSURE,
                        "got, but each of %d answers came when its lease of %lld ms was over; given back", LATE_MOST,
                        (long long)r->lease_ms);
    return HLK_IS_OVER;
}

enum hlk_happened hlk_request_answer(struct hlk_request *r)
{
    redisReply *reply = r->q.call.reply;
    struct hlk_session *s = r->lock->session;
    enum hlk_happened what = HLK_IS_OVER;
    if (is_yours(r, reply)) {
        r->won = hlk_session_won(s, &r->turn, hlk_question_sent_ms(&r->q), r->q.fenced ? reply->element[0]->integer : 0,
                                 r->q.doubt);
        what = r->won ? HLK_IS_YOURS : too_late(r);
    } else if (read_busy(r, reply)) {
        what = busy(r);
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == -1) {
        hlk_session_renumber(s, &r->turn);
        (void)hlk_request_takes_turn(r);
        if (r->lock->fair)
            hlk_fair_renumbered(r);
        what = HLK_IS_VOID;
    } else {
        hlk_mux_distrust(r->lock->client->mux, r->q.call.epoch);
        r->q.doubt = true; /* nobody knows what became of ours: asked again, by the same hold id, on a new stream */
        what = HLK_IS_STALE;
    }
    hlk_question_drop_reply(&r->q);
    return what;
}

static enum hlk_happened join(struct hlk_request *r, const char *channel, size_t len, struct hlk_listener *ear)
{
    enum hlk_status status = hlk_channel_join(&r->lock->client->channels, channel, len, ear);
    if (status == HLK_E_NOMEM)
        (void)hlk_error_set(&r->error, status, "no memory for a subscription");
    return status == HLK_OK ? HLK_HEARS : status == HLK_BUSY ? HLK_JOINED : HLK_IS_OVER;
}

enum hlk_happened hlk_request_join(struct hlk_request *r)
{
    struct hlk_channels *channels = &r->lock->client->channels;
    char own[HLK_KEY_MAX + HLK_FIELD_MAX];
    if (r->lock->fair)
        return join(r, own, hlk_key_waiter(own, r->q.name, r->q.name_len, r->q.client_id, r->q.hold), &r->ear);
    return join(r, channels->inbox, channels->inbox_len, &r->inbox_ear);
}

enum hlk_happened hlk_request_hark(struct hlk_request *r)
{
    char channel[HLK_KEY_MAX];
    return join(r, channel, hlk_key_channel(channel, r->q.name, r->q.name_len), &r->ear);
}

void hlk_request_deaf(struct hlk_request *r)
{
    hlk_channel_refusal(&r->lock->client->channels, &r->error);
}

/* --- leaving --- */

/* The hold that we asked for may come to be, or be already: it is ended in the background. */
static void undo_acquire(struct hlk_request *r)
{
    struct hlk_undo *undo = hlk_mem_zalloc(sizeof *undo);
    struct hlk_session *s = r->lock->session;
    if (!undo) {
        hlk_log_write(&r->lock->client->endpoint.log, HLK_LOG_ERROR,
                      "lock \"%s\": no memory to take back an acquire; "
                      "it may stay held for %lld ms",
                      hlk_session_name(s), (long long)r->lease_ms);
        return;
    }
    struct hlk_parting parting;
    hlk_session_leaving(s, &parting);
    bool placed = parting.place.since_ms && r->lease_ms < HLK_PLACE_MS;
    parting.until_ms = hlk_clock_ms() + (placed ? HLK_PLACE_MS : r->lease_ms);
    parting.fenced = r->q.fenced;
    parting.doubt = r->q.doubt;
    hlk_table_fill_end(undo, s, &parting);
    undo->acquire_epoch = r->flies ? r->q.call.epoch : 0;
    hlk_table_start_end(undo, s);
}

void hlk_request_leave(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    hlk_channel_leave(&client->channels, &r->ear);
    hlk_channel_leave(&client->channels, &r->inbox_ear);
    if (r->attends)
        hlk_channel_leave_inbox(&client->channels);
    r->attends = false;
    if (!r->won) {
        if (hlk_session_leave(r->lock->session, &r->turn, r->flies || r->q.doubt || r->queued || r->late)) {
            undo_acquire(r);
            hlk_session_left(r->lock->session);
        } else if (r->turn.got) {
            hlk_table_give_back(r->lock->session, r->turn.holder.id);
        }
    }
    if (r->waits) {
        hlk_cancel_leave(r->cancel, &r->cancel_wait);
        hlk_client_waits_no_more(client, &r->closing_wait);
        HLK_UNCOUNT(&client->table, waiting);
        if (r->async || r->eintr)
            hlk_pubsub_eager(&client->channels.pubsub, false);
        r->waits = false;
    }
    if (!r->async) /* else it ends with its completion on its way */
        hlk_client_request_ends(client);
}

void hlk_request_free(struct hlk_request *r)
{
    hlk_question_drop_reply(&r->q);
    hlk_via_unref(&r->lock->via);
    hlk_mem_free(r);
}

/* --- the outcome --- */

static void count_wait(struct hlk_table *table, int64_t ns)
{
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    unsigned i = 0;
    while (i < 31 && us >= (uint64_t)1 << i)
        i++;
    HLK_COUNT(table, wait_us[i]);
}

/* It holds: for the first time, or once more, as an async call or an owner's second thread may find out here only. */
static void count_hold(struct hlk_table *table, const struct hlk_request *r)
{
    bool nested = !r->won || (r->async && r->async->raising);
    if (nested && r->raises)
        return; /* its lease is to be raised yet, and it is counted then */
    if (nested) {
        HLK_COUNT(table, reentered);
        return;
    }
    HLK_COUNT(table, acquired);
    count_wait(table, hlk_clock_ns() - r->started_ns);
    if (r->machine.cause == HLK_ASKED_BY_MESSAGE)
        HLK_COUNT(table, woken);
    else if (r->machine.cause == HLK_ASKED_BY_TIME)
        HLK_COUNT(table, woken_by_ttl);
}

static long long waited_ms(const struct hlk_request *r)
{
    return (hlk_clock_ns() - r->started_ns + 999999) / 1000000;
}

/* "held by owner \"order-4711\" of this process, ttl 27.1 s" */
static void add_neighbour(struct hlk_text *text, const struct hlk_request *r)
{
    struct hlk_neighbour near;
    char label[65];
    hlk_session_neighbour(r->lock->session, &near);
    hlk_lock_owner_label(near.via, label, sizeof label);
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
    hlk_via_unref(near.via);
}

static enum hlk_status busy_text(struct hlk_request *r, enum hlk_status status)
{
    char buf[320];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    if (status == HLK_TIMEOUT)
        hlk_text_add(&text, "not got in %lld ms; ", waited_ms(r));
    if (r->holder[0]) {
        int64_t ago_ms = hlk_clock_ms() - r->told_ms;
        hlk_text_add(&text, "held by ");
        hlk_field_describe(&text, r->holder, strlen(r->holder));
        hlk_text_add(&text, r->busy.ttl_ms < 0 ? ", without end" : ", ttl %.1f s", (double)r->busy.ttl_ms / 1000.0);
        if (ago_ms >= 500) /* it may be another one by now: nobody tells who waits */
            hlk_text_add(&text, ", %.1f s ago", (double)ago_ms / 1000.0);
    } else if (r->lock->fair) {
        hlk_text_add(&text, "others are before in its queue");
    } else {
        add_neighbour(&text, r);
    }
    return hlk_lock_fails(r->lock, "acquire", status, "%s", buf);
}

enum hlk_status hlk_request_report(struct hlk_request *r, enum hlk_status status)
{
    struct hlk_table *table = &r->lock->client->table;
    switch (status) {
    case HLK_OK:
        count_hold(table, r);
        return HLK_OK;
    case HLK_BUSY:
        HLK_COUNT(table, busy);
        return busy_text(r, status);
    case HLK_TIMEOUT:
        HLK_COUNT(table, timeouts);
        return busy_text(r, status);
    case HLK_INTERRUPTED:
        HLK_COUNT(table, interrupted);
        return hlk_lock_fails(r->lock, "acquire", status, "interrupted after %lld ms; nothing is held or queued",
                              waited_ms(r));
    case HLK_LOST:
        return hlk_lock_lost_before(r->lock, r->turn.holder);
    default:
        return hlk_lock_fails(r->lock, "acquire", status, "%s",
                              r->error.text[0] ? r->error.text : hlk_status_text(status));
    }
}
