/* lease.h - pure: the lease of one hold. From when until when it counts as held, and what is due at which time.
 *
 * After a good reply the hold counts until  send time of the answered attempt + lease - drift - margin.  Drift is how
 * much faster the server's clock may run than ours (2 % + 2 ms). The expiry margin is how much earlier a loss is
 * reported than another client can hold the lock: a tenth of the lease, at least 50 ms, at most half of it. The result,
 * `until`, is what callers see.
 *
 *        sent                renew         at risk              until   drift   server's ttl ends
 *         |--------------------|--------------|-------------------|--------|------|
 *         0             a third of it  until - at_risk      LOST reported   margin + drift */
#ifndef HLK_LEASE_LEASE_H
#define HLK_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define HLK_LEASE_MIN_MS 100                        /* a shorter lease would be used up by drift and margin */
#define HLK_LEASE_MAX_MS (366LL * 24 * 3600 * 1000)

#define HLK_LEASE_RENEWALS 3                        /* in the time of a lease */
#define HLK_LEASE_RENEWALS_MOST 20

/* Renewals are due on a grid of a sixtieth of the lease (500 ms for 30 s), rounded down. Renewals that are due at about
 * the same time then share a few scripts. */
#define HLK_LEASE_GRID 60
/* A third of the lease that Redisson's readers set for all readers of a lock (lockWatchdogTimeout, by default). */
#define HLK_LEASE_VERIFY_MS 10000

enum hlk_lease_state {
    HLK_LEASE_NONE,         /* no hold.                            Next: HELD */
    HLK_LEASE_HELD,         /* counts as held until `until`.      Next: AT_RISK, ORPHANED, LOST, NONE (released) */
    HLK_LEASE_AT_RISK,      /* held, AT_RISK was reported.        Next: HELD (renewed), ORPHANED, LOST, NONE */
    HLK_LEASE_ORPHANED,     /* held, but its thread has ended.    Next: LOST (not reported), NONE */
    HLK_LEASE_LOST          /* no longer held.                    Next: NONE */
};

enum hlk_lease_act { HLK_LEASE_WAIT, HLK_LEASE_RENEW, HLK_LEASE_REPORT_RISK, HLK_LEASE_LOSE };

struct hlk_lease {
    int64_t lease_ms;
    int64_t sent_ms;        /* send time of the attempt whose good reply came last */
    int64_t ends_ms;        /* Redis' ttl ends by then, according to all good replies; */
    int64_t raising_ms;     /* later by so much, through renewals and raises that were sent and not answered: each may
                             * run at the last moment */
    int64_t until_ms;       /* from then on it counts as lost */
    int64_t cap_ms;         /* when max_hold ends the hold; INT64_MAX: never */
    int64_t asked_ms;       /* when the last renewal was sent; 0: none since the last good reply */
    uint8_t state;          /* enum hlk_lease_state; written by hlk_lease_move only */
    bool fixed : 1;         /* never renewed, only verified: after a reconnect, */
    bool shared : 1;        /* and each HLK_LEASE_VERIFY_MS, because others may shorten it in Redis */
    bool capped : 1;        /* the cap has shortened a renewal: no further renewals */
    bool granted : 1;       /* lease_ms comes from a grant; the first renewal replaces it by the watchdog's */
    uint8_t renewals;       /* in the time of a lease; 0: three. Set when the entry is made */
    uint32_t margin_ms;     /* for so long after until_ms Redis keeps the hold, on any clock within the drift */
};

int64_t hlk_lease_drift_ms(int64_t lease_ms);
int64_t hlk_lease_margin_ms(int64_t lease_ms);
int64_t hlk_lease_until(int64_t sent_ms, int64_t lease_ms);

void hlk_lease_move(struct hlk_lease *lease, enum hlk_lease_state to);     /* asserts that the transition is allowed */
static inline bool hlk_lease_live(const struct hlk_lease *lease)
{
    return lease->state == HLK_LEASE_HELD || lease->state == HLK_LEASE_AT_RISK;
}

/* A good reply to the acquire. False: it came too late to count on, send again. */
bool hlk_lease_begin(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms);
/* The latest time that is known to be before the grant. first_ms: when the first attempt was sent that could take the
 * ticket. waited_ms: how long the ticket was queued, by the server's clock, which may run faster than ours. now_ms:
 * when the grant was read. A result after now_ms means that the server's clock was set forward; then first_ms is
 * returned. */
int64_t hlk_lease_granted_ms(int64_t first_ms, int64_t waited_ms, int64_t now_ms);
/* A grant of ttl_ms, written at granted_ms or later. It may be old. False: less than half of it is left, so it does not
 * count; send again. */
bool hlk_lease_grant(struct hlk_lease *lease, int64_t granted_ms, int64_t ttl_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms);
/* A good reply to a renewal, or to an extension by lease_ms. True: it was AT_RISK and no longer is. */
bool hlk_lease_renewed(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, int64_t at_risk_ms, int64_t now_ms);

/* A good reply to the verification of a fixed lease. Nothing ends later by it. */
void hlk_lease_verified(struct hlk_lease *lease, int64_t sent_ms);
/* The server has refused the renewal for now: the next one is due three tenths of the period later. */
void hlk_lease_refused(struct hlk_lease *lease, int64_t now_ms);

/* The length of the next renewal: the watchdog's lease, or less when the cap is near. A fixed lease is only verified:
 * the length is what is left of it, with the expiry margin. Redis' ttl is longer unless another client has shortened
 * it. */
int64_t hlk_lease_renewal_ms(const struct hlk_lease *lease, int64_t watchdog_ms, int64_t now_ms);

/* What is due now, and when to call again (*next_ms). at_risk_ms 0: a third of the lease. */
enum hlk_lease_act hlk_lease_due(const struct hlk_lease *lease, int64_t now_ms, int64_t at_risk_ms, int64_t *next_ms);

/* For messages: why it is at risk, or over. It distinguishes a stopped process from a silent server. */
const char *hlk_lease_why_at_risk(const struct hlk_lease *lease, int64_t at_risk_ms, int64_t now_ms);
const char *hlk_lease_why_over(const struct hlk_lease *lease, int64_t now_ms);
extern const char hlk_lease_why_broken[];       /* by hlk_lock_break of this client */
extern const char hlk_lease_why_unknown[];      /* lost according to the server's reply to any command */

#endif
