/* The acquire loop in Redis' queue: its place, the lock's channel behind foreign holders, and when it polls. */
#include "sync/acquire.h"

#include "asking.h"

TestSuite(acquire_queue, .init = init);

/* --- the queue --- */

Test(acquire_queue, takes_its_place_once_the_inbox_is_confirmed)
{
    happens(HLK_HAS_TURN);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_JOIN);
    cr_assert(a.joined);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    place = 3;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_IS_YOURS), HLK_DO_FINISH); /* granted */
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire_queue, who_is_in_the_inbox_already_waits_after_one_question)
{
    a.joined = true;
    happens(HLK_HAS_TURN);
    place = 0;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

/* Redisson's clients tell the lock's channel only. */
Test(acquire_queue, behind_a_foreign_holder_it_harks_and_asks_once_more)
{
    park(TTL);
    happens(HLK_HEARD);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK); /* at the channel still */
}

Test(acquire_queue, behind_a_foreign_holder_it_joins_the_inbox_first)
{
    foreign = true;
    happens(HLK_HAS_TURN);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_JOIN);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK); /* the channel was confirmed already */
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire_queue, it_harks_again_after_a_holder_of_ours)
{
    foreign = true;
    a.joined = true;
    happens(HLK_HAS_TURN);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    foreign = false;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK); /* the caller has left the channel */
    cr_assert_not(a.harks);
    happens(HLK_HEARD);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
}

Test(acquire_queue, a_message_while_asking_is_not_lost_by_harking)
{
    a.joined = true;
    happens(HLK_HAS_TURN);
    happens(HLK_HEARD);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire_queue, a_channel_that_is_never_confirmed_costs_no_poll)
{
    a.joined = foreign = true;
    happens(HLK_HAS_TURN);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_HARK);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(a.until_ms, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_TIME);
}

Test(acquire_queue, once_harks_to_nothing)
{
    hlk_acquire_init(&a, DEADLINE, true, 0);
    happens(HLK_HAS_TURN);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

/* --- when it polls --- */

static int64_t polls_after(int64_t ttl_ms, int64_t my_place)
{
    hlk_acquire_init(&a, INT64_MAX, false, 0); /* a jitter of 1 */
    place = my_place;
    park(ttl_ms);
    return a.until_ms - NOW;
}

Test(acquire_queue, the_first_in_line_polls_by_the_holders_lease)
{
    cr_assert_eq(polls_after(2000, 0), 2000 + 1);
    cr_assert_eq(polls_after(HLK_POLL_NEAR_MS, 0), HLK_POLL_NEAR_MS + 1);
    cr_assert_eq(polls_after(30000, 0), HLK_POLL_NEAR_MS + 1); /* a grantee before it may have been stopped */
    cr_assert_eq(polls_after(-1, 0), HLK_POLL_NEAR_MS + 1);
}

/* So a grantee that stands still costs the next one a grant, whoever that is. */
Test(acquire_queue, those_near_the_front_poll_once_a_grant)
{
    for (int64_t p = 0; p < HLK_POLL_RANKS; p++)
        cr_assert_eq(polls_after(30000, p), HLK_POLL_NEAR_MS + p * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(30000, HLK_POLL_RANKS), 30000 + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
}

Test(acquire_queue, the_line_asks_in_its_order_when_a_lease_runs_out)
{
    for (int64_t p = 0; p <= HLK_POLL_RANKS; p++)
        cr_assert_eq(polls_after(1000, p), 1000 + p * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(1000, HLK_POLL_RANKS + 7), 1000 + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(INT64_MAX, INT64_MAX), HLK_POLL_MOST_MS + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
}

Test(acquire_queue, who_is_not_in_line_polls_by_the_ttl)
{
    cr_assert_eq(polls_after(20000, -1), 20000 + 1);
}

/* A fair lock's queue: no grant that may be over, no open window. */
Test(acquire_queue, of_a_fair_lock_polls_as_the_answer_said)
{
    const int64_t ttls[] = { 0, 1, HLK_POLL_JITTER_MS, 1000, HLK_POLL_NEAR_MS, 20000, HLK_POLL_MOST_MS };
    for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++)
        for (int64_t p = 0; p <= HLK_POLL_RANKS; p++) {
            hlk_acquire_init(&a, INT64_MAX, false, 19); /* a jitter of 20 */
            a.fair = true;
            place = p;
            park(ttls[i]);
            cr_assert_eq(a.until_ms - NOW, ttls[i] + p * HLK_POLL_RANK_MS + 20);
        }
}

Test(acquire_queue, after_an_open_window_the_first_in_line_asks_at_once)
{
    foreign = true;
    hlk_acquire_init(&a, DEADLINE, false, 19); /* a jitter of 20 */
    a.joined = a.harks = true;
    place = 0;
    happens(HLK_HAS_TURN);
    cr_assert_eq(busy(NOW, 3), HLK_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + 3 + 1);
    cr_assert_eq(at(a.until_ms, HLK_IS_TIME), HLK_DO_ASK);
    place = 1;
    cr_assert_eq(busy(NOW, 3), HLK_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + 3 + HLK_POLL_RANK_MS + 20);
}
