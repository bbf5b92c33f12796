/* The arithmetic of a granted lease: how much of it is left, and what is due when. */
#include "lease_fixture.h"

TestSuite(lease, .init = init);

#define GRANT 5000

static bool grant(int64_t now_ms, bool fixed)
{
    return hlk_lease_grant(&lease, SENT, GRANT, fixed, INT64_MAX, now_ms);
}

Test(lease, a_grant_counts_from_the_first_sending)
{
    cr_assert(grant(SENT + 1000, false));
    cr_assert_eq(lease.state, HLK_LEASE_HELD);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT, GRANT));
    cr_assert_eq(lease.ends_ms, SENT + 1000 + GRANT, "Redis' ttl: it may have been written just now");
    cr_assert_eq(lease.sent_ms, SENT);
}

/* A grant was written at that time or earlier, if the server's clock was not set meanwhile. */
Test(lease, a_grant_is_dated_by_its_tickets_time_in_queue)
{
    cr_assert_eq(hlk_lease_granted_ms(SENT, 0, SENT + 1000), SENT);
    cr_assert_eq(hlk_lease_granted_ms(SENT, 1, SENT + 1000), SENT, "within the drift");
    cr_assert_eq(hlk_lease_granted_ms(SENT, 1000, SENT + 1000), SENT + 1000 - 22);
    cr_assert_eq(hlk_lease_granted_ms(SENT, 1020, SENT + 1000), SENT + 1020 - 22, "the server's clock is fast");
    cr_assert_eq(hlk_lease_granted_ms(SENT, 3600000, SENT + 3600001), SENT + 3600000 - 72002);
}

/* A time after the reading means that the server's clock was set forward. Then only the first sending is known. */
Test(lease, a_grant_from_the_future_counts_from_first_sending)
{
    cr_assert_eq(hlk_lease_granted_ms(SENT, 1022, SENT + 1000), SENT + 1000);
    cr_assert_eq(hlk_lease_granted_ms(SENT, 1025, SENT + 1000), SENT);
    cr_assert_eq(hlk_lease_granted_ms(SENT, INT64_MAX, SENT + 1000), SENT);
}

Test(lease, a_grant_with_less_than_half_of_it_left_is_refused)
{
    int64_t half = hlk_lease_until(SENT, GRANT) - GRANT / 2;
    cr_assert_not(grant(half + 1, false));
    cr_assert_eq(lease.state, HLK_LEASE_NONE);
    cr_assert_not(grant(SENT + 3600000, false));
    cr_assert(grant(half, false));
}

Test(lease, a_grant_is_renewed_after_a_third_of_it)
{
    cr_assert(grant(SENT, false));
    int64_t at = SENT + GRANT / 3;
    at -= at % (GRANT / HLK_LEASE_GRID);
    cr_assert_eq(due(at - 1), HLK_LEASE_WAIT);
    cr_assert_eq(due(at), HLK_LEASE_RENEW);
    init();
    cr_assert(grant(at + 1, false)); /* an old grant: at once */
    cr_assert_eq(due(at + 1), HLK_LEASE_RENEW);
}

Test(lease, a_grant_is_renewed_to_the_watchdogs_lease)
{
    cr_assert(grant(SENT, false));
    cr_assert_eq(hlk_lease_renewal_ms(&lease, LEASE, SENT + 1700), LEASE);
    hlk_lease_renewed(&lease, SENT + 1700, LEASE, 0, SENT + 1700);
    cr_assert_eq(lease.until_ms, hlk_lease_until(SENT + 1700, LEASE));
    cr_assert_eq(lease.lease_ms, LEASE);
    int64_t at = SENT + 1700 + LEASE / 3;
    at -= at % (LEASE / HLK_LEASE_GRID);
    cr_assert_eq(due(at - 1), HLK_LEASE_WAIT); /* from then on with the watchdog's period */
    cr_assert_eq(due(at), HLK_LEASE_RENEW);
}

Test(lease, a_refused_renewal_of_a_grant_waits_a_tenth_of_it)
{
    cr_assert(grant(SENT, false));
    lease.asked_ms = SENT + 1700;
    hlk_lease_refused(&lease, SENT + 1700);
    cr_assert_eq(due(SENT + 1700), HLK_LEASE_WAIT);
    cr_assert_eq(due(SENT + 1700 + GRANT / 10), HLK_LEASE_RENEW);
}

/* A warning 20 s before the end makes sense for 30 s, but not for 5 s. */
Test(lease, a_grant_is_at_risk_no_earlier_than_its_last_third)
{
    cr_assert(grant(SENT, false));
    int64_t risk = lease.until_ms - GRANT / 3;
    lease.asked_ms = risk;
    cr_assert_eq(hlk_lease_due(&lease, risk - 1, 20000, &next), HLK_LEASE_WAIT);
    cr_assert_eq(next, risk);
    cr_assert_eq(hlk_lease_due(&lease, risk, 20000, &next), HLK_LEASE_REPORT_RISK);
    cr_assert_eq(hlk_lease_due(&lease, lease.until_ms - 501, 500, &next), HLK_LEASE_WAIT);
    cr_assert_eq(hlk_lease_due(&lease, lease.until_ms - 500, 500, &next), HLK_LEASE_REPORT_RISK);
    hlk_lease_renewed(&lease, SENT + 1700, LEASE, 20000, SENT + 1700);
    cr_assert_eq(hlk_lease_due(&lease, lease.until_ms - 20000, 20000, &next), HLK_LEASE_REPORT_RISK);
}

Test(lease, a_grant_at_risk_is_safe_by_its_first_renewal)
{
    cr_assert(grant(SENT, false));
    hlk_lease_move(&lease, HLK_LEASE_AT_RISK);
    cr_assert(hlk_lease_renewed(&lease, SENT + 4000, LEASE, 20000, SENT + 4000));
    cr_assert_eq(lease.state, HLK_LEASE_HELD);
}

Test(lease, a_grant_of_a_fixed_lease_runs_out_by_itself)
{
    cr_assert(grant(SENT, true));
    cr_assert_eq(due(SENT + GRANT / 3), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms - GRANT / 3);
    cr_assert_eq(hlk_lease_due(&lease, SENT, 4000, &next), HLK_LEASE_WAIT);
    cr_assert_eq(next, lease.until_ms - 4000); /* the client's own at_risk_ms */
    hlk_lease_renewed(&lease, SENT + 100, 60000, 0, SENT + 100);
    cr_assert_eq(lease.lease_ms, GRANT);
}

Test(lease, a_grant_ends_at_its_cap)
{
    cr_assert(hlk_lease_grant(&lease, SENT, GRANT, false, SENT + 1200, SENT + 200));
    cr_assert_eq(lease.until_ms, SENT + 1200);
    cr_assert(lease.capped);
    init();
    cr_assert_not(hlk_lease_grant(&lease, SENT, GRANT, false, SENT + 200, SENT + 200));
}
