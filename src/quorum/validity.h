/* validity.h - pure: until when a hold by majority counts, and what is to be done about it at which moment.
 *
 *        first send          renew        at risk                until    drift   a master's ttl ends, at the earliest
 *         |--------------------|-------------|---------------------|--------|
 *         0                  ttl/3     until - at_risk            LOST */
#ifndef HLK_QUORUM_VALIDITY_H
#define HLK_QUORUM_VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

enum hlk_validity_act { HLK_VALIDITY_WAIT, HLK_VALIDITY_RENEW, HLK_VALIDITY_REPORT_RISK, HLK_VALIDITY_LOSE };

struct hlk_validity {
    int64_t ttl_ms;             /* of the hold, and of each renewal */
    double drift_factor;
    int64_t sent_ms;            /* before the first send of what made it valid last */
    int64_t until_ms;
    int64_t cap_ms;             /* max_hold_ms ends it; INT64_MAX: nothing does */
    int64_t asked_ms;           /* when a renewal was sent last */
    int renewals_left;          /* < 0: any number */
    int renewals;               /* in the time of a ttl */
    bool at_risk;               /* and reported */
};

/* What of `ttl_ms` may be missing on a master whose clock is fast. */
int64_t hlk_validity_drift_ms(int64_t ttl_ms, double drift_factor);

/* A majority has granted ttl_ms by commands of which the first was sent at sent_ms or later. ttl_ms, drift_factor,
 * cap_ms, renewals and renewals_left are set. False: nothing is left of it. */
bool hlk_validity_begin(struct hlk_validity *v, int64_t sent_ms, int64_t now_ms);

/* A majority has extended it by ttl_ms. False: it was over by then, and stays so. *safe: it was AT_RISK, and is not any
 * more. */
bool hlk_validity_extend(struct hlk_validity *v, int64_t sent_ms, int64_t ttl_ms, int64_t at_risk_ms, int64_t now_ms,
                         bool *safe);

/* A renewal is sent now. */
void hlk_validity_ask(struct hlk_validity *v, int64_t now_ms);

/* The last renewal that was sent has had no majority yet. */
bool hlk_validity_is_unanswered(const struct hlk_validity *v);

/* For how long a master must keep the hold if it grants it now: until the others end it, or a little longer. 0: it is
 * over. */
int64_t hlk_validity_lease_ms(const struct hlk_validity *v, int64_t now_ms);

/* What is due now, and when to look again. at_risk_ms 0: a third of the ttl. */
enum hlk_validity_act hlk_validity_due(const struct hlk_validity *v, int64_t now_ms, int64_t at_risk_ms,
                                       int64_t *next_ms);

/* For people: why it is over. */
const char *hlk_validity_why_over(const struct hlk_validity *v);

#endif
