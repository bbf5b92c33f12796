#include "lease/lease.h"

#include "base/debug.h"
#include "base/min.h"

#include <assert.h>

#define NOTICE_LEAST_MS 50

const char hlk_lease_why_broken[] = "broken by this process";
const char hlk_lease_why_unknown[] = "unknown to the server: expired, broken, or its data was lost";

int64_t hlk_lease_drift_ms(int64_t lease_ms)
{
    HLK_DEBUG_ASSERT(lease_ms >= 0);
    return lease_ms / 50 + 2;
}

int64_t hlk_lease_margin_ms(int64_t lease_ms)
{
    HLK_DEBUG_ASSERT(lease_ms >= 0);
    int64_t notice = lease_ms / 10 > NOTICE_LEAST_MS ? lease_ms / 10 : NOTICE_LEAST_MS;
    return notice < lease_ms / 2 ? notice : lease_ms / 2;
}

int64_t hlk_lease_until(int64_t sent_ms, int64_t lease_ms)
{
    return sent_ms + lease_ms - hlk_lease_drift_ms(lease_ms) - hlk_lease_margin_ms(lease_ms);
}

static bool may_move(enum hlk_lease_state from, enum hlk_lease_state to)
{
    static const unsigned next[] = {
        [HLK_LEASE_NONE] = 1u << HLK_LEASE_HELD,
        [HLK_LEASE_HELD] =
            1u << HLK_LEASE_AT_RISK | 1u << HLK_LEASE_ORPHANED | 1u << HLK_LEASE_LOST | 1u << HLK_LEASE_NONE,
        [HLK_LEASE_AT_RISK] =
            1u << HLK_LEASE_HELD | 1u << HLK_LEASE_ORPHANED | 1u << HLK_LEASE_LOST | 1u << HLK_LEASE_NONE,
        [HLK_LEASE_ORPHANED] = 1u << HLK_LEASE_LOST | 1u << HLK_LEASE_NONE,
        [HLK_LEASE_LOST] = 1u << HLK_LEASE_NONE,
    };
    return next[from] & 1u << to;
}

void hlk_lease_move(struct hlk_lease *lease, enum hlk_lease_state to)
{
    assert(may_move(lease->state, to));
    lease->state = (uint8_t)to;
}

/* A good reply to a command that was sent at sent_ms, with this lease. A cap ends the hold while Redis has more of it
 * than the margin. A renewal near a cap is short, and has the margin of the lease that it renews. */
static void raise_until(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms)
{
    HLK_DEBUG_ASSERT(lease_ms > 0 && sent_ms > 0);
    int64_t until = hlk_min_ms(hlk_lease_until(sent_ms, lease_ms), lease->cap_ms);
    if (until <= lease->until_ms)
        return;
    int64_t longer = lease_ms > lease->lease_ms ? lease_ms : lease->lease_ms;
    int64_t room = sent_ms + lease_ms - hlk_lease_drift_ms(lease_ms) - until;
    lease->until_ms = until;
    lease->margin_ms = (uint32_t)hlk_min_ms(hlk_lease_margin_ms(longer), room);
}

bool hlk_lease_begin(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms)
{
    HLK_DEBUG_ASSERT(lease_ms > 0 && lease->state == HLK_LEASE_NONE);
    int64_t until = hlk_min_ms(hlk_lease_until(sent_ms, lease_ms), cap_ms);
    if (now_ms >= until)
        return false;
    lease->lease_ms = lease_ms;
    lease->sent_ms = sent_ms;
    lease->until_ms = until;
    lease->margin_ms = (uint32_t)hlk_lease_margin_ms(lease_ms);
    lease->ends_ms = now_ms + lease_ms; /* the attempt may have run just now */
    lease->raising_ms = 0;
    lease->cap_ms = cap_ms;
    lease->asked_ms = 0;
    lease->shared = false;
    lease->fixed = fixed;
    lease->capped = until == cap_ms;
    lease->granted = false;
    hlk_lease_move(lease, HLK_LEASE_HELD);
    return true;
}

int64_t hlk_lease_granted_ms(int64_t first_ms, int64_t waited_ms, int64_t now_ms)
{
    HLK_DEBUG_ASSERT(waited_ms >= 0 && first_ms <= now_ms);
    int64_t after = waited_ms - hlk_lease_drift_ms(waited_ms);
    return after > 0 && after <= now_ms - first_ms ? first_ms + after : first_ms;
}

bool hlk_lease_grant(struct hlk_lease *lease, int64_t granted_ms, int64_t ttl_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms)
{
    HLK_DEBUG_ASSERT(granted_ms <= now_ms);
    if (hlk_lease_until(granted_ms, ttl_ms) - now_ms < ttl_ms / 2 ||
        !hlk_lease_begin(lease, granted_ms, ttl_ms, fixed, cap_ms, now_ms))
        return false;
    lease->ends_ms = now_ms + ttl_ms; /* it was written before now; when is not known */
    lease->granted = !fixed;
    return true;
}

static int64_t risk_ms(const struct hlk_lease *lease, int64_t at_risk_ms)
{
    HLK_DEBUG_ASSERT(at_risk_ms >= 0);
    int64_t third = lease->lease_ms / 3;
    return at_risk_ms > 0 && !(lease->granted && at_risk_ms > third) ? at_risk_ms : third;
}

bool hlk_lease_renewed(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, int64_t at_risk_ms, int64_t now_ms)
{
    HLK_DEBUG_ASSERT(lease->state != HLK_LEASE_NONE && lease->state != HLK_LEASE_LOST);
    raise_until(lease, sent_ms, lease_ms);
    lease->asked_ms = 0;
    if (lease->granted)
        lease->lease_ms = lease_ms;
    lease->granted = false;
    if (now_ms + lease_ms > lease->ends_ms)
        lease->ends_ms = now_ms + lease_ms;
    if (sent_ms > lease->sent_ms)
        lease->sent_ms = sent_ms;
    lease->capped = lease->until_ms == lease->cap_ms;
    if (lease->state != HLK_LEASE_AT_RISK || lease->capped || sent_ms >= lease->until_ms - risk_ms(lease, at_risk_ms))
        return false;
    hlk_lease_move(lease, HLK_LEASE_HELD);
    return true;
}

void hlk_lease_verified(struct hlk_lease *lease, int64_t sent_ms)
{
    HLK_DEBUG_ASSERT(lease->fixed);
    lease->asked_ms = 0;
    if (sent_ms > lease->sent_ms)
        lease->sent_ms = sent_ms;
}

/* Between two renewals; 0: there are none. */
static int64_t period_ms(const struct hlk_lease *lease)
{
    int renewals = lease->renewals ? lease->renewals : HLK_LEASE_RENEWALS;
    return lease->fixed ? lease->shared * HLK_LEASE_VERIFY_MS : lease->lease_ms / renewals;
}

void hlk_lease_refused(struct hlk_lease *lease, int64_t now_ms)
{
    int64_t period = period_ms(lease);
    lease->asked_ms = now_ms - period + period * 3 / 10;
}

int64_t hlk_lease_renewal_ms(const struct hlk_lease *lease, int64_t watchdog_ms, int64_t now_ms)
{
    if (lease->fixed)
        return (lease->until_ms > now_ms ? lease->until_ms - now_ms : 1) + lease->margin_ms;
    if (lease->cap_ms == INT64_MAX)
        return watchdog_ms;
    int64_t left = lease->cap_ms - now_ms;
    int64_t whole = left + hlk_lease_drift_ms(watchdog_ms) + hlk_lease_margin_ms(watchdog_ms);
    return hlk_min_ms(watchdog_ms, whole);
}

/* When the next renewal is to be sent; INT64_MAX: never again. After a broken connection the verification of all holds
 * repeats unanswered renewals, so only the period counts here. */
static int64_t renew_at(const struct hlk_lease *lease)
{
    int64_t period = period_ms(lease);
    if (!period || lease->capped || lease->state == HLK_LEASE_ORPHANED)
        return INT64_MAX;
    int64_t from = lease->asked_ms > lease->sent_ms ? lease->asked_ms : lease->sent_ms;
    int64_t at = from + period;
    int64_t grid = (lease->fixed ? 3 * period : lease->lease_ms) / HLK_LEASE_GRID;
    return at - (grid > 0 ? at % grid : 0);
}

enum hlk_lease_act hlk_lease_due(const struct hlk_lease *lease, int64_t now_ms, int64_t at_risk_ms, int64_t *next_ms)
{
    HLK_DEBUG_ASSERT(lease->state != HLK_LEASE_NONE && lease->state != HLK_LEASE_LOST);
    int64_t renew = renew_at(lease);
    int64_t risk = lease->state == HLK_LEASE_HELD ? lease->until_ms - risk_ms(lease, at_risk_ms) : INT64_MAX;
    *next_ms = hlk_min_ms(hlk_min_ms(renew, risk), lease->until_ms);
    if (now_ms >= lease->until_ms)
        return HLK_LEASE_LOSE;
    if (now_ms >= risk)
        return HLK_LEASE_REPORT_RISK;
    return now_ms >= renew ? HLK_LEASE_RENEW : HLK_LEASE_WAIT;
}

/* The hold was not examined when it was due, nor long after it: the process did not run. */
static bool stood_still(const struct hlk_lease *lease, int64_t due_ms, int64_t now_ms)
{
    return now_ms - due_ms > hlk_lease_margin_ms(lease->lease_ms);
}

const char *hlk_lease_why_at_risk(const struct hlk_lease *lease, int64_t at_risk_ms, int64_t now_ms)
{
    if (lease->capped)
        return "max_hold_ms is nearly over";
    if (lease->fixed)
        return "its fixed lease is nearly over";
    return stood_still(lease, lease->until_ms - risk_ms(lease, at_risk_ms), now_ms)
               ? "renewal is overdue: this process stood still"
               : "renewal is overdue: no answer from the server";
}

const char *hlk_lease_why_over(const struct hlk_lease *lease, int64_t now_ms)
{
    if (lease->capped)
        return lease->cap_ms == lease->until_ms ? "max_hold_ms is over" : "the lease is over";
    if (lease->fixed)
        return "its fixed lease is over";
    return stood_still(lease, lease->until_ms, now_ms) ? "this process stood still until its lease was over"
                                                       : "no answer to renewals from the server";
}
