/* The acquire state machine in Redis' queue: its ticket, the channel of foreign holders, and when it polls. */
/* Shows: P15 */
#include "wait/acquire_machine.h"

#include "acquire_machine_fixture.h"

TestSuite(acquire_queue, .init = init);

/* --- the queue --- */

Test(acquire_queue, takes_its_ticket_once_the_inbox_is_confirmed)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_JOIN);
    cr_assert(a.joined);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    position = 3;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH); /* granted */
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire_queue, with_its_inbox_joined_waits_after_one_command)
{
    a.joined = true;
    happens(HLK_ACQUIRE_ON_HEAD);
    position = 0;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

/* Redisson's clients publish only on the lock's channel. */
Test(acquire_queue, behind_a_foreign_holder_subscribes_and_asks_again)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK); /* still in the channel */
}

Test(acquire_queue, behind_a_foreign_holder_it_joins_the_inbox_first)
{
    foreign = true;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_JOIN);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND); /* the channel was confirmed already */
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire_queue, it_subscribes_again_after_a_holder_of_ours)
{
    foreign = true;
    a.joined = true;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    foreign = false;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK); /* the caller has left the channel */
    cr_assert_not(a.subscribes);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
}

Test(acquire_queue, a_message_while_asking_is_not_lost_by_harking)
{
    a.joined = true;
    happens(HLK_ACQUIRE_ON_HEAD);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire_queue, a_channel_that_is_never_confirmed_costs_no_poll)
{
    a.joined = foreign = true;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SUBSCRIBE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(a.until_ms, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_TIME);
}

Test(acquire_queue, once_subscribes_to_nothing)
{
    hlk_acquire_machine_init(&a, DEADLINE, true, 0);
    happens(HLK_ACQUIRE_ON_HEAD);
    foreign = true;
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

/* --- when it polls --- */

static int64_t polls_after(int64_t ttl_ms, int64_t my_position)
{
    hlk_acquire_machine_init(&a, INT64_MAX, false, 0); /* a jitter of 1 */
    position = my_position;
    park(ttl_ms);
    return a.until_ms - NOW;
}

/* Shows: S18 */
Test(acquire_queue, the_first_in_queue_polls_by_the_holders_lease)
{
    cr_assert_eq(polls_after(2000, 0), 2000 + 1);
    cr_assert_eq(polls_after(HLK_POLL_NEAR_MS, 0), HLK_POLL_NEAR_MS + 1);
    cr_assert_eq(polls_after(30000, 0), HLK_POLL_NEAR_MS + 1); /* a grantee before it may be stopped */
    cr_assert_eq(polls_after(-1, 0), HLK_POLL_NEAR_MS + 1);
}

/* So a stopped grantee delays the next waiter by one grant, whichever waiter that is. */
/* Shows: S18 */
Test(acquire_queue, those_near_the_front_poll_once_a_grant)
{
    for (int64_t p = 0; p < HLK_POLL_RANKS; p++)
        cr_assert_eq(polls_after(30000, p), HLK_POLL_NEAR_MS + p * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(30000, HLK_POLL_RANKS), 30000 + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
}

Test(acquire_queue, the_queue_asks_in_its_order_when_a_lease_runs_out)
{
    for (int64_t p = 0; p <= HLK_POLL_RANKS; p++)
        cr_assert_eq(polls_after(1000, p), 1000 + p * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(1000, HLK_POLL_RANKS + 7), 1000 + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
    cr_assert_eq(polls_after(INT64_MAX, INT64_MAX), HLK_POLL_MAX_MS + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
}

Test(acquire_queue, who_is_not_in_queue_polls_by_the_ttl)
{
    cr_assert_eq(polls_after(20000, -1), 20000 + 1);
}

/* A release by that other kind wakes no waiter here. */
Test(acquire_queue, of_a_lock_of_mixed_kinds_polls_alike_in_any_place)
{
    mixed = true;
    cr_assert_eq(polls_after(30000, HLK_POLL_RANKS), HLK_POLL_NEAR_MS + HLK_POLL_RANKS * HLK_POLL_RANK_MS + 1);
}

Test(acquire_queue, after_a_yield_window_the_first_asks_at_once)
{
    foreign = true;
    hlk_acquire_machine_init(&a, DEADLINE, false, 19); /* a jitter of 20 */
    a.joined = a.subscribes = true;
    position = 0;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(busy(NOW, 3), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + 3 + 1);
    cr_assert_eq(at(a.until_ms, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    position = 1;
    cr_assert_eq(busy(NOW, 3), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + 3 + HLK_POLL_RANK_MS + 20);
}
