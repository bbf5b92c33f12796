/* The arithmetic of a lease: from when until when it counts as held, and what is due when. */
#include "lease_fixture.h"

#include <signal.h>

TestSuite(lease, .init = init);

/* --- how long it counts --- */

Test(lease, drift_is_2_percent_and_2_ms)
{
    cr_assert_eq(hlk_lease_drift_ms(100), 4);
    cr_assert_eq(hlk_lease_drift_ms(1000), 22);
    cr_assert_eq(hlk_lease_drift_ms(30000), 602);
}

Test(lease, notice_is_a_tenth_50_ms_at_least_half_at_most)
{
    cr_assert_eq(hlk_lease_margin_ms(30000), 3000);
    cr_assert_eq(hlk_lease_margin_ms(1000), 100);
    cr_assert_eq(hlk_lease_margin_ms(500), 50);
    cr_assert_eq(hlk_lease_margin_ms(200), 50);
    cr_assert_eq(hlk_lease_margin_ms(HLK_LEASE_MIN_MS), 50);
    cr_assert_eq(hlk_lease_margin_ms(60), 30);
}

Test(lease, is_ours_from_the_sending_on_less_drift_and_notice)
{
    cr_assert_eq(hlk_lease_until(SENT, 30000), SENT + 30000 - 602 - 3000);
    cr_assert_eq(hlk_lease_until(SENT, 1000), SENT + 1000 - 22 - 100);
    cr_assert_eq(hlk_lease_until(SENT, HLK_LEASE_MIN_MS), SENT + 100 - 4 - 50);
}

Test(lease, every_length_ends_before_a_servers_fast_clock_does)
{
    for (int64_t ms = HLK_LEASE_MIN_MS; ms < HLK_LEASE_MAX_MS; ms += ms / 7 + 1) {
        int64_t until = hlk_lease_until(0, ms);
        cr_assert_gt(until, 0);
        cr_assert_lt(until * 102 / 100, ms - hlk_lease_margin_ms(ms) * 98 / 100);
    }
}

Test(lease, the_longest_does_not_overflow)
{
    int64_t now = INT64_MAX / 1000000; /* the largest time that our clock can have in ns */
    cr_assert_gt(hlk_lease_until(now, HLK_LEASE_MAX_MS), now);
}

Test(lease, begins_held)
{
    held();
    cr_assert_eq(lease.state, HLK_LEASE_HELD);
    cr_assert_eq(lease.sent_ms, SENT);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT, LEASE));
    cr_assert_eq(lease.ends_ms, SENT + LEASE);
    cr_assert(hlk_lease_live(&lease));
    cr_assert_not(lease.capped);
}

Test(lease, an_answer_that_came_too_late_begins_nothing)
{
    int64_t until = hlk_lease_until(SENT, LEASE);
    cr_assert_not(hlk_lease_begin(&lease, SENT, LEASE, false, INT64_MAX, until));
    cr_assert_eq(lease.state, HLK_LEASE_NONE);
    cr_assert_not(hlk_lease_live(&lease));
    cr_assert(hlk_lease_begin(&lease, SENT, LEASE, false, INT64_MAX, until - 1));
}

Test(lease, counts_from_the_sending_not_from_the_answer)
{
    cr_assert(hlk_lease_begin(&lease, SENT, LEASE, false, INT64_MAX, SENT + 5000));
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT, LEASE));
}

/* --- for how long Redis keeps it after that --- */

Test(lease, has_the_margin_of_what_raised_it)
{
    begin(1000, true, INT64_MAX);
    cr_assert_eq(lease.margin_ms, 100);
    (void)hlk_lease_renewed(&lease, SENT + 10, 500, 0, SENT + 10);
    cr_assert_eq(lease.margin_ms, 100, "it ends no later than before");
    (void)hlk_lease_renewed(&lease, SENT + 20, 60000, 0, SENT + 20);
    cr_assert_eq(lease.margin_ms, 6000);
}

/* A renewal near the cap is short, and has the margin of the whole lease: Redis has it for so long after the cap. */
Test(lease, has_the_whole_margin_after_a_renewal_near_the_cap)
{
    int64_t cap = SENT + LEASE + 5000, now = SENT + LEASE - 5000;
    begin(LEASE, false, cap);
    int64_t short_ms = hlk_lease_renewal_ms(&lease, LEASE, now);
    cr_assert_lt(short_ms, LEASE);
    (void)hlk_lease_renewed(&lease, now, short_ms, 0, now);
    cr_assert_eq(lease.until_ms, cap);
    cr_assert_eq(lease.margin_ms, LEASE / 10);
    cr_assert_leq(cap + lease.margin_ms + hlk_lease_drift_ms(short_ms), now + short_ms);
}

Test(lease, has_a_margin_within_what_redis_has_of_it)
{
    begin(LEASE, false, SENT + LEASE);
    (void)hlk_lease_renewed(&lease, SENT + 10000, LEASE - 10000 + 500, 0, SENT + 10000);
    cr_assert_eq(lease.until_ms + lease.margin_ms, SENT + LEASE + 500 - hlk_lease_drift_ms(LEASE - 9500));
}

/* --- the period of renewals --- */

Test(lease, is_renewed_after_a_third)
{
    held();
    cr_assert_eq(due(SENT), HLK_LEASE_WAIT);
    cr_assert_eq(next, SENT + LEASE / 3);
    cr_assert_eq(due(SENT + LEASE / 3 - 1), HLK_LEASE_WAIT);
    cr_assert_eq(due(SENT + LEASE / 3), HLK_LEASE_RENEW);
}

Test(lease, is_renewed_as_often_as_is_said)
{
    lease.renewals = 10;
    held();
    cr_assert_eq(due(SENT), HLK_LEASE_WAIT);
    cr_assert_eq(next, SENT + LEASE / 10);
    cr_assert_eq(due(SENT + LEASE / 10), HLK_LEASE_RENEW);
    cr_assert_not(hlk_lease_renewed(&lease, SENT + 3005, LEASE, 0, SENT + 3007));
    cr_assert_eq(due(SENT + 3010), HLK_LEASE_WAIT);
    cr_assert_eq(next, SENT + 6005 - (SENT + 6005) % (LEASE / HLK_LEASE_GRID));
}

Test(lease, one_renewal_is_asked_for_once)
{
    held();
    lease.asked_ms = SENT + 10000;
    cr_assert_eq(due(SENT + 10010), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms - LEASE / 3); /* at-risk is due before the next renewal */
    cr_assert_eq(due(SENT + 20000), HLK_LEASE_REPORT_RISK);
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert_eq(due(SENT + 20000), HLK_LEASE_RENEW);
}

Test(lease, a_good_answer_starts_the_next_third)
{
    held();
    lease.asked_ms = SENT + 10000;
    cr_assert_not(hlk_lease_renewed(&lease, SENT + 10005, LEASE, 0, SENT + 10005));
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT + 10005, LEASE));
    cr_assert_eq(due(SENT + 10006), HLK_LEASE_WAIT);
    cr_assert_eq(next, SENT + 10005 + LEASE / 3 - (SENT + 10005 + LEASE / 3) % (LEASE / HLK_LEASE_GRID));
}

Test(lease, an_answer_to_an_older_renewal_takes_nothing_away)
{
    held();
    hlk_lease_renewed(&lease, SENT + 20000, LEASE, 0, SENT + 20000);
    hlk_lease_renewed(&lease, SENT + 10000, LEASE, 0, SENT + 10000);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT + 20000, LEASE));
    cr_assert_eq(lease.sent_ms, SENT + 20000);
}

Test(lease, a_shorter_extension_takes_nothing_away)
{
    held();
    hlk_lease_renewed(&lease, SENT + 10, 500, 0, SENT + 10);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT, LEASE));
}

/* A release that cannot be sent is repeated until then. */
Test(lease, the_servers_ttl_counts_from_the_longest_renewal)
{
    begin(1000, true, INT64_MAX);
    hlk_lease_renewed(&lease, SENT + 10, 60000, 0, SENT + 10);
    cr_assert_eq(lease.ends_ms, SENT + 10 + 60000);
    hlk_lease_renewed(&lease, SENT + 500, 1000, 0, SENT + 500);
    cr_assert_eq(lease.ends_ms, SENT + 10 + 60000);
}

Test(lease, a_refused_renewal_is_asked_for_a_tenth_later)
{
    held();
    lease.asked_ms = SENT + 10000;
    hlk_lease_refused(&lease, SENT + 10100);
    int64_t at = SENT + 10100 + LEASE / 10;
    at -= at % (LEASE / HLK_LEASE_GRID);
    cr_assert_eq(due(SENT + 10101), HLK_LEASE_WAIT);
    cr_assert_eq(next, at);
    cr_assert_eq(due(at - 1), HLK_LEASE_WAIT);
    cr_assert_eq(due(at), HLK_LEASE_RENEW);
}

Test(lease, a_fixed_one_is_never_renewed)
{
    begin(LEASE, true, INT64_MAX);
    cr_assert_eq(due(SENT + LEASE / 3), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms - LEASE / 3);
}

Test(lease, an_orphaned_one_is_never_renewed)
{
    held();
    hlk_lease_move(&lease, HLK_LEASE_ORPHANED);
    cr_assert_eq(due(SENT + LEASE / 3), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms);
    cr_assert_eq(due(lease.until_ms), HLK_LEASE_LOSE);
}

/* --- at risk, safe, lost --- */

Test(lease, is_at_risk_a_third_before_the_end)
{
    held();
    lease.asked_ms = SENT + 10000;
    int64_t risk = lease.until_ms - LEASE / 3;
    cr_assert_eq(due(risk - 1), HLK_LEASE_WAIT);
    cr_assert_eq(next, risk);
    cr_assert_eq(due(risk), HLK_LEASE_REPORT_RISK);
}

Test(lease, is_at_risk_when_the_client_says_so)
{
    held();
    lease.asked_ms = SENT + 25000;
    cr_assert_eq(hlk_lease_due(&lease, lease.until_ms - 501, 500, &next), HLK_LEASE_WAIT);
    cr_assert_eq(hlk_lease_due(&lease, lease.until_ms - 500, 500, &next), HLK_LEASE_REPORT_RISK);
}

Test(lease, risk_is_told_once)
{
    begin(LEASE, true, INT64_MAX);
    cr_assert_eq(due(lease.until_ms - 100), HLK_LEASE_REPORT_RISK);
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert_eq(due(lease.until_ms - 100), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms);
    cr_assert(hlk_lease_live(&lease));
}

Test(lease, is_renewed_while_at_risk)
{
    held();
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert_eq(due(SENT + 25000), HLK_LEASE_RENEW);
}

Test(lease, a_renewal_makes_it_safe_again)
{
    held();
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert(hlk_lease_renewed(&lease, SENT + 20000, LEASE, 0, SENT + 20000));
    cr_assert_eq(lease.state, HLK_LEASE_HELD);
    cr_assert_not(hlk_lease_renewed(&lease, SENT + 21000, LEASE, 0, SENT + 21000)); /* safe is reported once */
}

Test(lease, a_renewal_that_does_not_last_is_not_safe)
{
    held();
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert_not(hlk_lease_renewed(&lease, SENT + 20000, 11000, 0, SENT + 20000)); /* at risk as soon as it was sent */
    cr_assert_eq(lease.state, HLK_LEASE_AT_RISK);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT + 20000, 11000));
}

Test(lease, is_lost_at_until_and_not_before)
{
    held();
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    lease.asked_ms = lease.until_ms - 1;
    cr_assert_eq(due(lease.until_ms - 1), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms);
    cr_assert_eq(due(lease.until_ms), HLK_LEASE_LOSE);
}

Test(lease, what_slept_through_everything_is_lost_first)
{
    held();
    cr_assert_eq(due(lease.until_ms + 1000), HLK_LEASE_LOSE);
}

Test(lease, next_is_never_in_the_past_of_what_is_due)
{
    for (int64_t now = SENT; now < SENT + LEASE; now += 7) {
        init();
        held();
        if (due(now) == HLK_LEASE_WAIT)
            cr_assert_gt(next, now);
        else
            cr_assert_leq(next, now);
    }
}

/* --- the cap: max_hold --- */

Test(lease, the_cap_shortens_it)
{
    begin(LEASE, false, SENT + 1000);
    cr_assert_eq(lease.until_ms, SENT + 1000);
    cr_assert(lease.capped);
    cr_assert_eq(due(SENT + 999), HLK_LEASE_REPORT_RISK);
    cr_assert_eq(due(SENT + 1000), HLK_LEASE_LOSE);
}

Test(lease, nothing_begins_beyond_the_cap)
{
    cr_assert_not(hlk_lease_begin(&lease, SENT, LEASE, false, SENT, SENT));
}

/* The attempt ran at some time between its sending and its reply. */
Test(lease, may_last_in_redis_until_a_lease_after_the_answer)
{
    cr_assert(hlk_lease_begin(&lease, SENT, LEASE, false, INT64_MAX, SENT + 700));
    cr_assert_eq(lease.ends_ms, SENT + 700 + LEASE);
    hlk_lease_renewed(&lease, SENT + 10000, LEASE, 0, SENT + 10300);
    cr_assert_eq(lease.ends_ms, SENT + 10300 + LEASE);
}

Test(lease, far_from_the_cap_renewals_are_whole)
{
    begin(LEASE, false, SENT + 3600000);
    cr_assert_not(lease.capped);
    cr_assert_eq(hlk_lease_renewal_ms(&lease, LEASE, SENT + 10000), LEASE);
}

Test(lease, that_is_fixed_is_asked_for_and_not_renewed)
{
    begin(LEASE, true, INT64_MAX);
    int64_t sent = SENT + 10000, until = lease.until_ms, ends = lease.ends_ms;
    int64_t ms = hlk_lease_renewal_ms(&lease, 20 * LEASE, sent);
    cr_assert_eq(ms, until - sent + lease.margin_ms);
    hlk_lease_verified(&lease, sent);
    cr_assert_eq(lease.until_ms, until);
    cr_assert_eq(lease.ends_ms, ends);
    cr_assert_eq(lease.state, HLK_LEASE_HELD);
    cr_assert_eq(hlk_lease_renewal_ms(&lease, 20 * LEASE, until), 1 + lease.margin_ms);
}

Test(lease, that_is_fixed_and_may_be_shortened_is_asked_for)
{
    begin(10 * LEASE, true, INT64_MAX);
    cr_assert_eq(due(SENT + HLK_LEASE_VERIFY_MS), HLK_LEASE_WAIT);
    lease.shared = true;
    cr_assert_eq(due(SENT + HLK_LEASE_VERIFY_MS), HLK_LEASE_RENEW);
    hlk_lease_verified(&lease, SENT + HLK_LEASE_VERIFY_MS);
    cr_assert_eq(due(SENT + HLK_LEASE_VERIFY_MS), HLK_LEASE_WAIT);
    cr_assert_eq(due(SENT + 2 * HLK_LEASE_VERIFY_MS), HLK_LEASE_RENEW);
    hlk_lease_refused(&lease, SENT + 2 * HLK_LEASE_VERIFY_MS);
    cr_assert_eq(due(SENT + 2 * HLK_LEASE_VERIFY_MS + HLK_LEASE_VERIFY_MS / 5), HLK_LEASE_WAIT);
    cr_assert_eq(due(SENT + 2 * HLK_LEASE_VERIFY_MS + HLK_LEASE_VERIFY_MS / 3), HLK_LEASE_RENEW);
}

Test(lease, without_a_cap_renewals_are_whole)
{
    held();
    cr_assert_eq(hlk_lease_renewal_ms(&lease, LEASE, SENT + 10000), LEASE);
}

Test(lease, the_last_renewal_reaches_to_the_cap_and_not_beyond)
{
    begin(LEASE, false, SENT + 35000);
    int64_t sent = SENT + 10000, ms = hlk_lease_renewal_ms(&lease, LEASE, sent);
    cr_assert_lt(ms, LEASE);
    cr_assert_gt(ms, 25000);
    hlk_lease_renewed(&lease, sent, ms, 0, sent);
    cr_assert_eq(lease.until_ms, SENT + 35000);
    cr_assert(lease.capped);
}

Test(lease, what_reached_its_cap_is_renewed_no_more)
{
    begin(LEASE, false, SENT + 35000);
    hlk_lease_renewed(&lease, SENT + 10000, LEASE, 0, SENT + 10000);
    cr_assert_eq(due(SENT + 20000), HLK_LEASE_WAIT);
    cr_assert_eq(next, SENT + 35000 - LEASE / 3);
}

Test(lease, what_is_at_risk_by_its_cap_is_not_safe_again)
{
    begin(LEASE, false, SENT + 35000);
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert_not(hlk_lease_renewed(&lease, SENT + 10000, LEASE, 0, SENT + 10000));
    cr_assert_eq(lease.state, HLK_LEASE_AT_RISK);
}

/* --- states --- */

static bool may(enum hlk_lease_state from, enum hlk_lease_state to)
{
    static const char *const table[] = {
        /* to:               NONE, HELD, AT_RISK, ORPHANED, LOST */
        [HLK_LEASE_NONE] = "01000",     [HLK_LEASE_HELD] = "10111", [HLK_LEASE_AT_RISK] = "11011",
        [HLK_LEASE_ORPHANED] = "10001", [HLK_LEASE_LOST] = "10000",
    };
    return table[from][to] == '1';
}

Test(lease, moves_where_it_may)
{
    for (int from = HLK_LEASE_NONE; from <= HLK_LEASE_LOST; from++)
        for (int to = HLK_LEASE_NONE; to <= HLK_LEASE_LOST; to++)
            if (may((enum hlk_lease_state)from, (enum hlk_lease_state)to)) {
                lease.state = (uint8_t)from;
                hlk_lease_move(&lease, (enum hlk_lease_state)to);
                cr_assert_eq(lease.state, to);
            }
}

/* The 13 of 25 transitions that are not allowed. Each is a test of its own, because it ends its process. */
#define MAY_NOT(from, to)                                                                                              \
    Test(lease, does_not_move_from_##from##_to_##to, .signal = SIGABRT)                                                \
    {                                                                                                                  \
        cr_assert_not(may(HLK_LEASE_##from, HLK_LEASE_##to));                                                          \
        lease.state = HLK_LEASE_##from;                                                                                \
        hlk_lease_move(&lease, HLK_LEASE_##to);                                                                        \
    }                                                                                                                  \
    struct hlk_lease

MAY_NOT(NONE, NONE);
MAY_NOT(NONE, AT_RISK);
MAY_NOT(NONE, ORPHANED);
MAY_NOT(NONE, LOST);
MAY_NOT(HELD, HELD);
MAY_NOT(AT_RISK, AT_RISK);
MAY_NOT(ORPHANED, HELD);
MAY_NOT(ORPHANED, AT_RISK);
MAY_NOT(ORPHANED, ORPHANED);
MAY_NOT(LOST, HELD);
MAY_NOT(LOST, AT_RISK);
MAY_NOT(LOST, ORPHANED);
MAY_NOT(LOST, LOST);

Test(lease, only_held_and_at_risk_are_live)
{
    for (int state = HLK_LEASE_NONE; state <= HLK_LEASE_LOST; state++) {
        lease.state = (uint8_t)state;
        cr_assert_eq(hlk_lease_live(&lease), state == HLK_LEASE_HELD || state == HLK_LEASE_AT_RISK);
    }
}
