#include "quorum/validity.h"

#include "base/debug.h"
#include "base/min.h"

#define DRIFT_MIN_MS 2 /* expiry in Redis is precise to 1 ms, and so is our clock */

int64_t hlk_validity_drift_ms(int64_t ttl_ms, double drift_factor)
{
    HLK_DEBUG_ASSERT(ttl_ms >= 0 && drift_factor >= 0);
    double drift = (double)ttl_ms * drift_factor;
    int64_t whole = (int64_t)drift;
    return whole + ((double)whole < drift) + DRIFT_MIN_MS;
}

static int64_t until(const struct hlk_validity *v, int64_t sent_ms, int64_t ttl_ms)
{
    HLK_DEBUG_ASSERT(ttl_ms > 0);
    return hlk_min_ms(sent_ms + ttl_ms - hlk_validity_drift_ms(ttl_ms, v->drift_factor), v->cap_ms);
}

bool hlk_validity_begin(struct hlk_validity *v, int64_t sent_ms, int64_t now_ms)
{
    HLK_DEBUG_ASSERT(v->ttl_ms > 0 && v->renewals > 0);
    v->sent_ms = v->asked_ms = sent_ms;
    v->until_ms = until(v, sent_ms, v->ttl_ms);
    v->at_risk = false;
    return now_ms < v->until_ms;
}

static int64_t validity_risk_ms(const struct hlk_validity *v, int64_t at_risk_ms)
{
    int64_t before = at_risk_ms > 0 ? hlk_min_ms(at_risk_ms, v->ttl_ms / 2) : v->ttl_ms / 3;
    return v->until_ms - before;
}

bool hlk_validity_extend(struct hlk_validity *v, int64_t sent_ms, int64_t ttl_ms, int64_t at_risk_ms, int64_t now_ms,
                         bool *safe)
{
    *safe = false;
    if (now_ms >= v->until_ms)
        return false;
    int64_t to = until(v, sent_ms, ttl_ms);
    if (to > v->until_ms) {
        v->until_ms = to;
        v->sent_ms = sent_ms;
    }
    *safe = v->at_risk && now_ms < validity_risk_ms(v, at_risk_ms);
    v->at_risk = v->at_risk && !*safe;
    return true;
}

void hlk_validity_ask(struct hlk_validity *v, int64_t now_ms)
{
    v->asked_ms = now_ms;
    v->renewals_left -= v->renewals_left > 0;
}

/* After a third of the ttl, or another part of it; after a failure sooner. INT64_MAX: never again. */
static int64_t renew_ms(const struct hlk_validity *v)
{
    HLK_DEBUG_ASSERT(v->renewals > 0);
    if (v->renewals_left == 0 || v->until_ms >= v->cap_ms)
        return INT64_MAX;
    int64_t regular = v->until_ms - v->ttl_ms + v->ttl_ms / v->renewals, again = v->asked_ms + v->ttl_ms / 10;
    return regular > again ? regular : again;
}

bool hlk_validity_is_unanswered(const struct hlk_validity *v)
{
    return v->asked_ms > v->sent_ms;
}

int64_t hlk_validity_lease_ms(const struct hlk_validity *v, int64_t now_ms)
{
    int64_t left = v->until_ms - now_ms;
    return left > 0 ? left + hlk_validity_drift_ms(left, v->drift_factor) : 0;
}

enum hlk_validity_act hlk_validity_due(const struct hlk_validity *v, int64_t now_ms, int64_t at_risk_ms,
                                       int64_t *next_ms)
{
    int64_t renew = renew_ms(v), risk = v->at_risk ? INT64_MAX : validity_risk_ms(v, at_risk_ms);
    *next_ms = hlk_min_ms(hlk_min_ms(renew, risk), v->until_ms);
    if (now_ms >= v->until_ms)
        return HLK_VALIDITY_LOSE;
    if (now_ms >= renew)
        return HLK_VALIDITY_RENEW;
    return now_ms >= risk ? HLK_VALIDITY_REPORT_RISK : HLK_VALIDITY_WAIT;
}

const char *hlk_validity_why_over(const struct hlk_validity *v)
{
    if (v->until_ms >= v->cap_ms)
        return "max_hold_ms is over";
    return v->renewals_left == 0 ? "its ttl is over, and no renewal is left" : "no majority answered its renewals";
}
