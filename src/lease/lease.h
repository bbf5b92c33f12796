/* lease.h - pure: one held lease, from when to when it is ours, and what is to be done about it at which moment.
 *
 * A good answer makes it ours until  send time of the answered copy + lease - drift - notice.  Drift is what the
 * server's clock may run faster than ours (2 % + 2 ms); notice is the time by which we tell a loss before anybody
 * else can hold the lock (a tenth of the lease, at least 50 ms, at most half of it). That moment, `until`, is the
 * one that callers see.
 *
 *        sent                renew         at risk              until   drift   server's ttl ends
 *         |--------------------|--------------|-------------------|--------|------|
 *         0                lease/3      until - at_risk          LOST told   notice + drift */
#ifndef HLK_LEASE_LEASE_H
#define HLK_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define HLK_LEASE_MIN_MS 100                        /* below it drift and notice leave next to nothing */
#define HLK_LEASE_MAX_MS (366LL * 24 * 3600 * 1000)

/* Renewals are due on a grid of a sixtieth of the lease (500 ms for 30 s), rounded down: what falls due at about the
 * same time leaves in the same few scripts, not in one for each tick. */
#define HLK_LEASE_GRID 60

enum hlk_lease_state {
    HLK_LEASE_NONE,         /* no hold.                            Next: HELD */
    HLK_LEASE_HELD,         /* ours until `until`.                 Next: AT_RISK, ORPHANED, LOST, NONE (released) */
    HLK_LEASE_AT_RISK,      /* ours, and told that it ends soon.   Next: HELD (renewed), ORPHANED, LOST, NONE */
    HLK_LEASE_ORPHANED,     /* ours, but nobody can release it.    Next: LOST (nobody is told), NONE */
    HLK_LEASE_LOST          /* not ours any more.                  Next: NONE */
};

enum hlk_lease_act { HLK_LEASE_WAIT, HLK_LEASE_RENEW, HLK_LEASE_TELL_RISK, HLK_LEASE_LOSE };

struct hlk_lease {
    int64_t lease_ms;
    int64_t sent_ms;        /* of the copy that the last good answer answered */
    int64_t ends_ms;        /* Redis' ttl is over then, at the latest, by all good answers */
    int64_t until_ms;       /* counts as lost from then on */
    int64_t cap_ms;         /* INT64_MAX, or where max_hold ends it */
    int64_t asked_ms;       /* when a renewal was sent last; 0: since the last good answer none */
    uint8_t state;          /* enum hlk_lease_state; written by hlk_lease_move only */
    bool fixed;             /* runs out by itself */
    bool capped;            /* the cap has shortened a renewal: it ends for good */
    bool granted;           /* lease_ms is what a grant gave; the first renewal makes it the watchdog's */
};

int64_t hlk_lease_drift_ms(int64_t lease_ms);
int64_t hlk_lease_notice_ms(int64_t lease_ms);
int64_t hlk_lease_until(int64_t sent_ms, int64_t lease_ms);

void hlk_lease_move(struct hlk_lease *lease, enum hlk_lease_state to);     /* asserts that it may */
static inline bool hlk_lease_live(const struct hlk_lease *lease)
{
    return lease->state == HLK_LEASE_HELD || lease->state == HLK_LEASE_AT_RISK;
}

/* A good answer to the acquire. False: it came too late, nothing is held by it: ask again. */
bool hlk_lease_begin(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms);
/* A grant of ttl_ms to a wait whose first copy was sent at first_ms. It may be old: if less than half of it is left,
 * false: nothing is held by it, ask. */
bool hlk_lease_grant(struct hlk_lease *lease, int64_t first_ms, int64_t ttl_ms, bool fixed, int64_t cap_ms,
                     int64_t now_ms);
/* A good answer to a renewal or an extension by lease_ms. True: it was AT_RISK and is safe again. */
bool hlk_lease_renewed(struct hlk_lease *lease, int64_t sent_ms, int64_t lease_ms, int64_t at_risk_ms);

/* The server would not answer the renewal now: the next is due a tenth of the lease from here. */
void hlk_lease_refused(struct hlk_lease *lease, int64_t now_ms);

/* How long the next renewal may make it: the watchdog's lease, or less towards the cap. A fixed one is only asked for,
 * after a reconnect: what is left of it, less than Redis' ttl, which no renewal shortens. */
int64_t hlk_lease_renewal_ms(const struct hlk_lease *lease, int64_t watchdog_ms, int64_t now_ms);

/* What is due now, and when to look again (*next_ms). at_risk_ms 0: a third of the lease. */
enum hlk_lease_act hlk_lease_due(const struct hlk_lease *lease, int64_t now_ms, int64_t at_risk_ms, int64_t *next_ms);

/* For people: why it is at risk, or over. It tells a process that stood still from a server that is silent. */
const char *hlk_lease_why_at_risk(const struct hlk_lease *lease, int64_t at_risk_ms, int64_t now_ms);
const char *hlk_lease_why_over(const struct hlk_lease *lease, int64_t now_ms);
extern const char hlk_lease_why_unknown[];      /* lost by the server's answer, to whatever question */

#endif
