#include "sync/acquire.h"

#include <string.h>

void hlk_acquire_init(struct hlk_acquire *a, int64_t deadline_ms, bool once, unsigned jitter_ms)
{
    memset(a, 0, sizeof *a);
    a->deadline_ms = deadline_ms;
    a->once = once;
    a->jitter_ms = jitter_ms % HLK_POLL_JITTER_MS + 1;
    a->until_ms = deadline_ms;
}

static enum hlk_do finish(struct hlk_acquire *a, enum hlk_status status)
{
    a->status = status;
    return HLK_DO_FINISH;
}

static enum hlk_do ask(struct hlk_acquire *a, enum hlk_cause cause)
{
    a->asking = true;
    a->heard = false;
    a->cause = cause;
    return HLK_DO_ASK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Until the holder's lease is over, or those before us had their chance: if nobody says anything one of them has died
 * or stands still, or a message was lost. */
static int64_t poll_at(const struct hlk_acquire *a, int64_t now_ms, const struct hlk_busy *busy)
{
    int64_t place = busy->place > 0 ? busy->place : 0;
    int64_t length = busy->ttl_ms < 0 ? HLK_POLL_MOST_MS : least(busy->ttl_ms, HLK_POLL_MOST_MS);
    if (!a->fair && busy->place >= 0 && place < HLK_POLL_RANKS)
        length = least(length, HLK_POLL_NEAR_MS);
    bool soon = !a->fair && place == 0 && length <= HLK_POLL_JITTER_MS; /* the first, behind an open window */
    return now_ms + length + least(place, HLK_POLL_RANKS) * HLK_POLL_RANK_MS + (soon ? 1 : a->jitter_ms);
}

static enum hlk_do busy_answer(struct hlk_acquire *a, int64_t now_ms, const struct hlk_busy *busy)
{
    a->asking = false;
    a->answered = true;
    if (a->once)
        return finish(a, HLK_BUSY);
    if (now_ms >= a->deadline_ms)
        return finish(a, HLK_TIMEOUT);
    a->until_ms = least(a->deadline_ms, poll_at(a, now_ms, busy));
    if (!a->joined) {
        a->joined = true;
        return HLK_DO_JOIN;
    }
    bool hark = busy->foreign && !a->harks;
    a->harks = busy->foreign;
    if (hark)
        return HLK_DO_HARK;
    return a->heard ? ask(a, HLK_ASKED_BY_MESSAGE) : HLK_DO_PARK;
}

static enum hlk_do time_came(struct hlk_acquire *a, int64_t now_ms)
{
    if (now_ms >= a->deadline_ms)
        return finish(a, a->once ? HLK_BUSY : HLK_TIMEOUT);
    return a->asking ? HLK_DO_ASK : ask(a, a->answered && a->joined ? HLK_ASKED_BY_TIME : a->cause);
}

/* Something was heard. While the question is on its way it is remembered: the answer may be older than the message. */
static enum hlk_do hear(struct hlk_acquire *a, enum hlk_cause cause)
{
    a->heard = true;
    return a->asking ? HLK_DO_PARK : ask(a, cause);
}

enum hlk_do hlk_acquire_step(struct hlk_acquire *a, enum hlk_happened what, int64_t now_ms, const struct hlk_busy *busy,
                             enum hlk_status status)
{
    switch (what) {
    case HLK_IS_LINED:
        a->answered = true; /* others of this process are before: held, as far as this wait knows */
        return HLK_DO_LINE;
    case HLK_HAS_TURN:
    case HLK_IS_STALE:
    case HLK_IS_VOID:
        return ask(a, a->cause);
    case HLK_IS_YOURS:
        return finish(a, HLK_OK);
    case HLK_IS_BUSY:
        return busy_answer(a, now_ms, busy);
    case HLK_JOINED:
        return HLK_DO_PARK;
    case HLK_HEARS:
        return hear(a, HLK_ASKED_BY_HEARING);
    case HLK_HEARD:
        return hear(a, HLK_ASKED_BY_MESSAGE);
    case HLK_IS_TIME:
        return time_came(a, now_ms);
    case HLK_IS_OVER:
        break;
    }
    return finish(a, status);
}
