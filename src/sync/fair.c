/* The fair lock's wait, Redisson's RFairLock as far as Redis sees it:
 *
 *   ask (no place yet) -> join our own channel -> it is confirmed: ask for a place -> park -> ask -> ...
 *
 * until the answer is "yours". A place is asked for only when we listen: who is in the queue and does not listen is
 * dead to everybody else. We park until our channel speaks, or as long as the last answer said: the holder's ttl, or
 * the time that the first in the queue of a free lock is given. Each ask keeps our score ahead of the clock, so that
 * no client of Redisson's takes us for dead however long we wait. Who leaves takes its place along (fair_end, by
 * hlk_request_leave), whatever made it leave. */
#include "sync/fair.h"

#include "base/clock.h"
#include "sync/blocked.h"

#define HEAR (HLK_WAKE_MESSAGE | HLK_WAKE_HEARING | HLK_WAKE_DEAF)

/* HLK_OK: look; else leave with it. */
static enum hlk_status sleep_until(struct hlk_request *r, unsigned bits, int64_t at_ms, bool reads)
{
    if (hlk_blocked_must_leave(r))
        return r->error.status;
    enum hlk_status status = hlk_blocked_sleep(r, bits, at_ms, reads);
    return status == HLK_OK && hlk_blocked_must_leave(r) ? r->error.status : status;
}

/* --- threads of the same owner: one of them asks */

static enum hlk_status wait_for_turn(struct hlk_request *r, bool *nested)
{
    enum hlk_status status = r->machine.once ? HLK_OK : hlk_request_waits(r);
    while (status == HLK_OK) {
        (void)hlk_park_take(&r->self->park, HLK_WAKE_TURN);
        switch (hlk_session_look(r->lock->session, &r->turn)) {
        case HLK_ENTER_TURN:
            return HLK_OK;
        case HLK_ENTER_NESTED:
            *nested = true;
            return HLK_OK;
        case HLK_ENTER_BUSY:
            return HLK_BUSY;
        case HLK_ENTER_LOST:
            return HLK_LOST;
        default:
            break;
        }
        if (hlk_clock_ms() >= r->machine.deadline_ms)
            return r->machine.once ? HLK_BUSY : HLK_TIMEOUT;
        status = sleep_until(r, HLK_WAKE_TURN, r->machine.deadline_ms, false);
    }
    return status;
}

/* --- asking */

static bool hears(const struct hlk_request *r)
{
    return hlk_channel_confirmed(&r->lock->client->channels, &r->ear);
}

static enum hlk_status ask(struct hlk_request *r, enum hlk_cause cause)
{
    r->machine.cause = cause;
    (void)hlk_session_asks(r->lock->session, &r->turn);
    (void)hlk_park_take(&r->self->park, HLK_WAKE_MESSAGE | HLK_WAKE_HEARING); /* what comes from here on counts */
    r->q.join = !r->machine.once && (r->queued || hears(r));
    r->queued |= r->q.join;
    return hlk_blocked_ask(r);
}

static void leave_channel(struct hlk_request *r)
{
    hlk_channel_leave(&r->lock->client->channels, &r->ear);
}

/* What the answer means: IS_YOURS, IS_BUSY, or IS_STALE: ask again. */
static enum hlk_happened answer(struct hlk_request *r)
{
    const redisReply *reply = r->q.call.reply;
    struct hlk_session *s = r->lock->session;
    enum hlk_happened what = HLK_IS_STALE;
    if (reply->type == REDIS_REPLY_NIL) {
        r->won = hlk_session_won(s, &r->turn, hlk_question_sent_ms(&r->q), 0, r->q.doubt);
        what = r->won ? HLK_IS_YOURS : HLK_IS_STALE;
    } else if (hlk_request_read_busy(r, reply)) {
        (void)hlk_session_waits(s, &r->turn, r->q.doubt); /* nobody grants us anything: we are not in that queue */
        r->machine.answered = true;
        what = HLK_IS_BUSY;
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == -1) {
        hlk_session_renumber(s, &r->turn); /* this hold has ended: another number, and so another channel */
        r->q.hold = r->turn.h;
        r->queued = false;
        leave_channel(r);
    } else {
        hlk_mux_distrust(r->lock->client->mux, r->q.call.epoch);
        r->q.doubt = true; /* nobody knows what became of ours: asked again, by the same hold id, on a new stream */
    }
    hlk_question_drop_reply(&r->q);
    return what;
}

/* --- waiting */

/* HLK_OK: we listen, ask again. HLK_BUSY: the confirmation will come. */
static enum hlk_status join_channel(struct hlk_request *r)
{
    char channel[HLK_KEY_MAX + HLK_FIELD_MAX];
    size_t len = hlk_key_waiter(channel, r->q.name, r->q.name_len, r->q.client_id, r->q.hold);
    enum hlk_status status = hlk_request_waits(r);
    if (status == HLK_OK)
        status = hlk_channel_join(&r->lock->client->channels, channel, len, &r->ear);
    if (status == HLK_E_NOMEM)
        (void)hlk_error_set(&r->error, status, "no memory for a subscription");
    return status;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t poll_at(const struct hlk_request *r, int64_t now_ms)
{
    int64_t ms = r->busy.ttl_ms < 0 ? HLK_POLL_MOST_MS : least(r->busy.ttl_ms, HLK_POLL_MOST_MS);
    if (r->busy.place > 0)
        ms += least(r->busy.place, HLK_POLL_RANKS) * HLK_POLL_RANK_MS;
    return now_ms + ms + r->machine.jitter_ms;
}

/* Parks until it is worth asking: *cause says why. */
static enum hlk_status park(struct hlk_request *r, int64_t until_ms, enum hlk_cause *cause)
{
    for (;;) {
        unsigned bits = hlk_park_take(&r->self->park, HEAR);
        if (bits & HLK_WAKE_DEAF) {
            hlk_request_deaf(r);
            return r->error.status;
        }
        *cause = bits & HLK_WAKE_HEARING ? HLK_ASKED_BY_HEARING : HLK_ASKED_BY_MESSAGE;
        if (bits)
            return HLK_OK;
        int64_t now = hlk_clock_ms();
        if (now >= r->machine.deadline_ms)
            return HLK_TIMEOUT;
        *cause = HLK_ASKED_BY_TIME;
        if (now >= until_ms)
            return HLK_OK;
        enum hlk_status status = sleep_until(r, HEAR, until_ms, true);
        if (status != HLK_OK)
            return status;
    }
}

/* The answer was "not yet". HLK_OK: ask again, *cause says why; else it is over. */
static enum hlk_status wait_on(struct hlk_request *r, enum hlk_cause *cause)
{
    if (r->machine.once)
        return HLK_BUSY;
    int64_t now = hlk_clock_ms();
    if (now >= r->machine.deadline_ms)
        return HLK_TIMEOUT;
    if (!r->ear.channel) {
        enum hlk_status status = join_channel(r);
        *cause = HLK_ASKED_BY_HEARING;
        if (status != HLK_BUSY)
            return status;
    }
    return park(r, least(poll_at(r, now), r->machine.deadline_ms), cause);
}

enum hlk_status hlk_fair_run(struct hlk_request *r, bool lined)
{
    bool nested = false;
    enum hlk_cause cause = HLK_ASKED_FIRST;
    enum hlk_status status = lined ? wait_for_turn(r, &nested) : HLK_OK;
    if (nested)
        return HLK_OK;
    r->q.hold = r->turn.h;
    while (status == HLK_OK) {
        status = ask(r, cause);
        if (status != HLK_OK)
            break;
        switch (answer(r)) {
        case HLK_IS_YOURS:
            return HLK_OK;
        case HLK_IS_BUSY:
            status = wait_on(r, &cause);
            break;
        default:
            break;
        }
    }
    return status;
}
