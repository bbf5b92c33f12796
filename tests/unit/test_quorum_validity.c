/* Until when a hold by majority counts, and what is due at which moment. */
/* Shows: P32 */
#include "quorum/validity.h"

#include <criterion/criterion.h>

enum { SENT = 1000000, TTL = 9000 };

static struct hlk_validity v;

static void begin(void)
{
    v = (struct hlk_validity){
        .ttl_ms = TTL, .drift_factor = 0.01, .cap_ms = INT64_MAX, .renewals = 3, .renewals_left = -1
    };
    cr_assert(hlk_validity_begin(&v, SENT, SENT + 5));
}

TestSuite(quorum_validity, .init = begin);

Test(quorum_validity, drift_is_its_part_of_the_ttl_rounded_up_and_2_ms)
{
    cr_assert_eq(hlk_validity_drift_ms(10000, 0.01), 102);
    cr_assert_eq(hlk_validity_drift_ms(101, 0.01), 4);
    cr_assert_eq(hlk_validity_drift_ms(10000, 0), 2);
}

Test(quorum_validity, counts_from_before_the_first_send)
{
    cr_assert_eq(v.until_ms, SENT + TTL - 92);
    cr_assert_not(hlk_validity_begin(&v, SENT, SENT + TTL - 92));
    cr_assert(hlk_validity_begin(&v, SENT, SENT + TTL - 93));
}

static void expect(int64_t now, enum hlk_validity_act act, int64_t next)
{
    int64_t at;
    cr_assert_eq(hlk_validity_due(&v, now, 0, &at), act);
    cr_assert_eq(at, next, "%lld", (long long)(at - SENT));
}

Test(quorum_validity, is_renewed_reported_at_risk_and_lost_in_this_order)
{
    int64_t until = v.until_ms, renew = until - TTL * 2 / 3, risk = until - TTL / 3;
    expect(renew - 1, HLK_VALIDITY_WAIT, renew);
    expect(renew, HLK_VALIDITY_RENEW, renew);
    hlk_validity_ask(&v, renew);
    expect(renew, HLK_VALIDITY_WAIT, renew + TTL / 10);
    expect(renew + TTL / 10, HLK_VALIDITY_RENEW, renew + TTL / 10);
    hlk_validity_ask(&v, risk);
    expect(risk, HLK_VALIDITY_REPORT_RISK, risk);
    v.at_risk = true;
    expect(risk, HLK_VALIDITY_WAIT, risk + TTL / 10);
    expect(until, HLK_VALIDITY_LOSE, risk + TTL / 10);
}

Test(quorum_validity, is_renewed_as_often_as_is_said)
{
    v.renewals = 9;
    expect(SENT + 1, HLK_VALIDITY_WAIT, v.until_ms - TTL + TTL / 9);
    expect(v.until_ms - TTL + TTL / 9, HLK_VALIDITY_RENEW, v.until_ms - TTL + TTL / 9);
}

Test(quorum_validity, a_renewal_makes_it_safe_again)
{
    bool safe;
    v.at_risk = true;
    cr_assert(hlk_validity_extend(&v, SENT + 7000, TTL, 0, SENT + 7010, &safe));
    cr_assert(safe);
    cr_assert_not(v.at_risk);
    cr_assert_eq(v.until_ms, SENT + 7000 + TTL - 92);
}

Test(quorum_validity, is_neither_revived_once_over_nor_ever_shortened)
{
    bool safe;
    int64_t until = v.until_ms;
    cr_assert_not(hlk_validity_extend(&v, until - 10, TTL, 0, until, &safe));
    cr_assert_eq(v.until_ms, until);
    cr_assert(hlk_validity_extend(&v, SENT + 10, 100, 0, SENT + 20, &safe));
    cr_assert_eq(v.until_ms, until);
}

Test(quorum_validity, renewals_end_when_none_is_left)
{
    v.renewals_left = 1;
    hlk_validity_ask(&v, SENT + 3000);
    cr_assert_eq(v.renewals_left, 0);
    hlk_validity_ask(&v, SENT + 3000);
    cr_assert_eq(v.renewals_left, 0);
    expect(SENT + 5000, HLK_VALIDITY_WAIT, v.until_ms - TTL / 3);
    cr_assert_str_eq(hlk_validity_why_over(&v), "its ttl is over, and no renewal is left");
}

Test(quorum_validity, ends_at_its_cap)
{
    bool safe;
    v.cap_ms = SENT + TTL + 1000;
    cr_assert(hlk_validity_begin(&v, SENT, SENT));
    cr_assert_eq(v.until_ms, SENT + TTL - 92);
    cr_assert(hlk_validity_extend(&v, SENT + 3000, TTL, 0, SENT + 3000, &safe));
    cr_assert_eq(v.until_ms, v.cap_ms);
    expect(SENT + 5000, HLK_VALIDITY_WAIT, v.cap_ms - TTL / 3);
    cr_assert_str_eq(hlk_validity_why_over(&v), "max_hold_ms is over");
}

Test(quorum_validity, a_master_asked_again_keeps_it_as_long_as_others)
{
    cr_assert_eq(hlk_validity_lease_ms(&v, v.until_ms - 1000), 1000 + 12);
    cr_assert_leq(hlk_validity_lease_ms(&v, SENT), TTL);
    cr_assert_eq(hlk_validity_lease_ms(&v, v.until_ms), 0);
}

Test(quorum_validity, a_renewal_is_unanswered_until_a_majority_confirms)
{
    bool safe;
    cr_assert_not(hlk_validity_is_unanswered(&v));
    hlk_validity_ask(&v, SENT + 3000);
    cr_assert(hlk_validity_is_unanswered(&v));
    cr_assert(hlk_validity_extend(&v, SENT + 3000, TTL, 0, SENT + 3010, &safe));
    cr_assert_not(hlk_validity_is_unanswered(&v));
}
