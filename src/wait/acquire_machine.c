#include "wait/acquire_machine.h"

#include "base/debug.h"
#include "base/min.h"

#include <string.h>

void hlk_acquire_machine_init(struct hlk_acquire_machine *a, int64_t deadline_ms, bool once, unsigned jitter_ms)
{
    memset(a, 0, sizeof *a);
    a->deadline_ms = deadline_ms;
    a->once = once;
    a->jitter_ms = jitter_ms % HLK_POLL_JITTER_MS + 1;
    a->until_ms = deadline_ms;
}

static enum hlk_acquire_action finish(struct hlk_acquire_machine *a, enum hlk_status status)
{
    a->status = status;
    return HLK_ACQUIRE_DO_FINISH;
}

static enum hlk_acquire_action machine_ask(struct hlk_acquire_machine *a, enum hlk_cause cause)
{
    a->asking = true;
    a->message_pending = false;
    a->cause = cause;
    return HLK_ACQUIRE_DO_SEND;
}

/* When the holder's lease is over and the waiters before this one had time to send. Without a message until then, one
 * of them has died or is stopped, or a message was lost. */
static int64_t poll_at(const struct hlk_acquire_machine *a, int64_t now_ms, const struct hlk_busy *busy)
{
    HLK_DEBUG_ASSERT(busy && a->jitter_ms > 0);
    int64_t position = busy->position > 0 ? busy->position : 0;
    int64_t length = busy->ttl_ms < 0 ? HLK_POLL_MAX_MS : hlk_min_ms(busy->ttl_ms, HLK_POLL_MAX_MS);
    if (busy->position >= 0 && (position < HLK_POLL_RANKS || busy->mixed))
        length = hlk_min_ms(length, HLK_POLL_NEAR_MS);
    bool soon = position == 0 && length <= HLK_POLL_JITTER_MS; /* the first one, during a yield window */
    return now_ms + length + hlk_min_ms(position, HLK_POLL_RANKS) * HLK_POLL_RANK_MS + (soon ? 1 : a->jitter_ms);
}

void hlk_acquire_machine_pauses(struct hlk_acquire_machine *a, int64_t min_ms, int64_t max_ms, unsigned seed)
{
    HLK_DEBUG_ASSERT(min_ms > 0 && min_ms <= max_ms);
    a->backoff_ms = a->backoff_min_ms = min_ms;
    a->backoff_max_ms = max_ms;
    a->random = seed;
}

/* The jitter grows with the number of pauses: waiters that poll at the same time have polled often. */
static int64_t pause_until(struct hlk_acquire_machine *a, int64_t now_ms, const struct hlk_busy *busy)
{
    HLK_DEBUG_ASSERT(busy && a->backoff_ms > 0);
    int64_t length = busy->ttl_ms < 0 ? a->backoff_ms : hlk_min_ms(busy->ttl_ms, a->backoff_ms);
    a->backoff_ms = hlk_min_ms(2 * a->backoff_ms, a->backoff_max_ms);
    a->pauses += a->pauses < HLK_POLL_JITTER_MS;
    a->random = a->random * 1664525u + 1013904223u;
    return now_ms + (length > 0 ? length : 1) + (a->random >> 16) % a->pauses;
}

static enum hlk_acquire_action park_or_ask(struct hlk_acquire_machine *a)
{
    return a->message_pending ? machine_ask(a, HLK_CAUSE_MESSAGE) : HLK_ACQUIRE_DO_PARK;
}

static enum hlk_acquire_action busy_answer(struct hlk_acquire_machine *a, int64_t now_ms, const struct hlk_busy *busy)
{
    HLK_DEBUG_ASSERT(busy && !a->confirming && !a->leaving);
    a->asking = false;
    a->answered = true;
    if (a->once)
        return finish(a, HLK_BUSY);
    if (now_ms >= a->deadline_ms)
        return finish(a, HLK_TIMEOUT);
    bool pauses = a->polls || (busy->silent && busy->position <= 0);
    if (!pauses)
        a->backoff_ms = a->backoff_min_ms;
    a->until_ms = hlk_min_ms(a->deadline_ms, pauses ? pause_until(a, now_ms, busy) : poll_at(a, now_ms, busy));
    if (a->polls)
        return park_or_ask(a);
    if (!a->joined) {
        a->joined = true;
        return HLK_ACQUIRE_DO_JOIN;
    }
    bool subscribe = busy->foreign && !a->subscribes;
    a->subscribes = busy->foreign;
    if (subscribe)
        return HLK_ACQUIRE_DO_SUBSCRIBE;
    return park_or_ask(a);
}

/* The release was in the stream before this command, or was sent again after it (NOSCRIPT). If it runs, sending once
 * more at once succeeds. If the server refuses it, it is repeated from time to time. */
static enum hlk_acquire_action own_release(struct hlk_acquire_machine *a, int64_t now_ms)
{
    bool first = !a->saw_end;
    a->saw_end = a->answered = true;
    if (first)
        return machine_ask(a, a->cause);
    a->asking = false;
    const struct hlk_busy soon = { .ttl_ms = HLK_POLL_OWN_MS };
    a->until_ms = hlk_min_ms(a->deadline_ms, a->polls ? pause_until(a, now_ms, &soon) : now_ms + HLK_POLL_OWN_MS);
    return HLK_ACQUIRE_DO_PARK;
}

static enum hlk_acquire_action time_came(struct hlk_acquire_machine *a, int64_t now_ms)
{
    if (now_ms >= a->deadline_ms)
        return finish(a, a->once ? HLK_BUSY : HLK_TIMEOUT);
    return a->asking ? HLK_ACQUIRE_DO_SEND
                     : machine_ask(a, a->answered && (a->joined || a->polls) ? HLK_CAUSE_TIME : a->cause);
}

/* A message. While the command is in flight it is remembered, because the reply may be older. */
static enum hlk_acquire_action on_news(struct hlk_acquire_machine *a, enum hlk_cause cause)
{
    a->message_pending = true;
    return a->asking ? HLK_ACQUIRE_DO_PARK : machine_ask(a, cause);
}

static enum hlk_acquire_action held(struct hlk_acquire_machine *a, int64_t now_ms)
{
    HLK_DEBUG_ASSERT(!a->confirming && !a->leaving);
    if (!a->confirm_ms)
        return finish(a, HLK_OK);
    a->confirming = true;
    a->asking = false;
    a->until_ms = hlk_min_ms(a->deadline_ms, now_ms + a->confirm_ms);
    return HLK_ACQUIRE_DO_CONFIRM;
}

static enum hlk_acquire_action confirm(struct hlk_acquire_machine *a, enum hlk_acquire_event what, int64_t now_ms,
                                       enum hlk_status status)
{
    HLK_DEBUG_ASSERT(a->confirming && a->confirm_ms > 0);
    switch (what) {
    case HLK_ACQUIRE_ON_CONFIRMED:
        return finish(a, HLK_OK);
    case HLK_ACQUIRE_ON_UNCONFIRMED:
        return finish(a, HLK_NOT_REPLICATED);
    case HLK_ACQUIRE_ON_ABORT:
        return finish(a, status);
    case HLK_ACQUIRE_ON_TIME:
        return now_ms >= a->until_ms ? finish(a, HLK_NOT_REPLICATED) : HLK_ACQUIRE_DO_PARK;
    default:
        return HLK_ACQUIRE_DO_PARK;
    }
}

enum hlk_acquire_action hlk_acquire_machine_leave(struct hlk_acquire_machine *a, int64_t at_ms, bool in_flight)
{
    HLK_DEBUG_ASSERT(!a->leaving && a->status != HLK_OK);
    a->leaving = true;
    a->deadline_ms = a->until_ms = at_ms;
    return in_flight ? HLK_ACQUIRE_DO_PARK : HLK_ACQUIRE_DO_LEAVE;
}

static enum hlk_acquire_action leave(struct hlk_acquire_machine *a, enum hlk_acquire_event what, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(a->leaving);
    switch (what) {
    case HLK_ACQUIRE_ON_ACQUIRED:
        return finish(a, HLK_OK);
    case HLK_ACQUIRE_ON_BUSY: /* the answer to an attempt before */
        return HLK_ACQUIRE_DO_LEAVE;
    case HLK_ACQUIRE_ON_ABORT:
        return finish(a, status == HLK_BROKEN ? status : a->status);
    case HLK_ACQUIRE_ON_JOINED:
    case HLK_ACQUIRE_ON_SUBSCRIBED:
    case HLK_ACQUIRE_ON_MESSAGE:
        return HLK_ACQUIRE_DO_PARK;
    default:
        return finish(a, a->status);
    }
}

enum hlk_acquire_action hlk_acquire_machine_step(struct hlk_acquire_machine *a, enum hlk_acquire_event what,
                                                 int64_t now_ms, const struct hlk_busy *busy, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(what != HLK_ACQUIRE_ON_BUSY || busy);
    if (a->confirming)
        return confirm(a, what, now_ms, status);
    if (a->leaving)
        return leave(a, what, status);
    switch (what) {
    case HLK_ACQUIRE_ON_QUEUED:
        a->queued_locally = true;
        a->asking = false;
        return HLK_ACQUIRE_DO_QUEUE;
    case HLK_ACQUIRE_ON_HEAD:
    case HLK_ACQUIRE_ON_STALE:
    case HLK_ACQUIRE_ON_TOMBSTONE:
        return machine_ask(a, a->cause);
    case HLK_ACQUIRE_ON_RELEASING:
        return own_release(a, now_ms);
    case HLK_ACQUIRE_ON_ACQUIRED:
        return held(a, now_ms);
    case HLK_ACQUIRE_ON_BUSY:
        return busy_answer(a, now_ms, busy);
    case HLK_ACQUIRE_ON_JOINED:
        return HLK_ACQUIRE_DO_PARK;
    case HLK_ACQUIRE_ON_SUBSCRIBED:
        return on_news(a, HLK_CAUSE_SUBSCRIBED);
    case HLK_ACQUIRE_ON_MESSAGE:
        return on_news(a, HLK_CAUSE_MESSAGE);
    case HLK_ACQUIRE_ON_TIME:
        return time_came(a, now_ms);
    case HLK_ACQUIRE_ON_CONFIRMED:
    case HLK_ACQUIRE_ON_UNCONFIRMED:
    case HLK_ACQUIRE_ON_ABORT:
        break;
    }
    return finish(a, status);
}
