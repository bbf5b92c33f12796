/* The acquire state machine of a kind that polls: when it sends again. It joins no channel. */
/* Shows: P25 */
#include "wait/acquire_machine.h"

#include "acquire_machine_fixture.h"

static void polls(int64_t deadline_ms, bool once, int64_t min_ms, int64_t max_ms, unsigned seed)
{
    init();
    hlk_acquire_machine_init(&a, deadline_ms, once, 0);
    hlk_acquire_machine_pauses(&a, min_ms, max_ms, seed);
    a.polls = true;
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
}

static void polls_for_ever(int64_t min_ms, int64_t max_ms)
{
    polls(INT64_MAX, false, min_ms, max_ms, 7);
}

/* After a reply "busy" it parks, and sends again in time. Returns how long it parked. */
static int64_t pauses(int64_t *now_ms, int64_t ttl_ms)
{
    cr_assert_eq(busy(*now_ms, ttl_ms), HLK_ACQUIRE_DO_PARK);
    int64_t length = a.until_ms - *now_ms;
    *now_ms = a.until_ms;
    cr_assert_eq(at(*now_ms, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_TIME);
    return length;
}

Test(acquire_poll, asks_after_pauses_that_double_up_to_the_longest)
{
    int64_t now = NOW;
    polls_for_ever(1, 128);
    int64_t backoff = 1;
    for (int i = 1; i < 40; i++) {
        int64_t length = pauses(&now, 30000);
        cr_assert_geq(length, backoff);
        cr_assert_lt(length, backoff + (i < HLK_POLL_JITTER_MS ? i : HLK_POLL_JITTER_MS), "the %dth", i);
        backoff = backoff < 128 ? 2 * backoff : 128;
    }
}

Test(acquire_poll, varies_pauses_of_one_length_by_their_jitter)
{
    int64_t now = NOW;
    bool differs = false;
    polls_for_ever(64, 64);
    cr_assert_eq(pauses(&now, 30000), 64, "the first one has none");
    for (int i = 0; i < 100; i++) {
        int64_t length = pauses(&now, 30000);
        cr_assert(length >= 64 && length < 64 + HLK_POLL_JITTER_MS);
        differs |= length != 64;
    }
    cr_assert(differs);
}

Test(acquire_poll, the_longest_pause_need_be_no_power_of_two)
{
    int64_t now = NOW;
    polls_for_ever(3, 10);
    int64_t expected[] = { 3, 6, 10, 10 };
    for (int i = 0; i < 4; i++) {
        int64_t length = pauses(&now, 30000);
        cr_assert(length >= expected[i] && length <= expected[i] + i);
    }
}

Test(acquire_poll, waiters_who_came_together_do_not_ask_together)
{
    int64_t first[8];
    for (unsigned seed = 0; seed < 2; seed++) {
        int64_t now = NOW;
        polls(INT64_MAX, false, 1, 128, seed * 2654435761u);
        int differ = 0;
        for (int i = 0; i < 8; i++) {
            int64_t length = pauses(&now, 30000);
            differ += seed && length != first[i];
            first[i] = length;
        }
        cr_assert(!seed || differ > 0);
    }
}

Test(acquire_poll, joins_nothing_and_subscribes_to_nothing)
{
    int64_t now = NOW;
    polls_for_ever(1, 128);
    foreign = mixed = true;
    for (int i = 0; i < 20; i++)
        (void)pauses(&now, 30000); /* asserts a pause after each reply */
    cr_assert_not(a.joined || a.subscribes);
}

Test(acquire_poll, a_pause_ends_with_the_holders_ttl)
{
    int64_t now = NOW;
    polls_for_ever(1000, 1000);
    cr_assert_eq(pauses(&now, 30), 30);
    cr_assert_leq(pauses(&now, 30), 31);
    cr_assert_eq(pauses(&now, 0) / 4, 0, "a moment, and not at once");
    polls_for_ever(1000, 1000);
    cr_assert_eq(pauses(&now, 0), 1);
    cr_assert_geq(pauses(&now, -1), 1000, "a key without end");
}

Test(acquire_poll, no_pause_is_longer_than_the_wait)
{
    polls(DEADLINE, false, 60000, 60000, 0);
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire_poll, busy_at_the_deadline_is_a_timeout)
{
    polls(DEADLINE, false, 1, 128, 0);
    cr_assert_eq(busy(DEADLINE, 30000), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire_poll, one_try_is_one_command)
{
    polls(DEADLINE, true, 1, 128, 0);
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

/* The release is repeated behind the command, so a pause until the end of the holder's ttl would be too long. */
Test(acquire_poll, behind_its_own_release_asks_at_once_and_then_soon)
{
    int64_t now = NOW;
    polls_for_ever(60000, 60000);
    cr_assert_eq(at(now, HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_SEND);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(at(now, HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_PARK);
        cr_assert(a.until_ms > now && a.until_ms <= now + HLK_POLL_OWN_MS + HLK_POLL_JITTER_MS);
        now = a.until_ms;
        cr_assert_eq(at(now, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    }
    cr_assert_eq(at(now, HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
}

Test(acquire_poll, behind_its_own_release_keeps_backoff_and_deadline)
{
    int64_t now = NOW;
    polls(DEADLINE, false, 1, 128, 0);
    cr_assert_eq(at(now, HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(at(now, HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, now + 1);
    cr_assert_eq(at(now + 1, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(at(DEADLINE - 1, HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

/* It may have taken over the ticket of a waiter that does not poll. */
Test(acquire_poll, a_message_ends_a_pause)
{
    polls(DEADLINE, false, 1000, 1000, 0);
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(at(NOW + 1, HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(at(NOW + 1, HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(busy(NOW + 2, 30000), HLK_ACQUIRE_DO_SEND, "it may be younger than the answer");
}

Test(acquire_poll, a_cancel_ends_a_pause)
{
    polls(DEADLINE, false, 1000, 1000, 0);
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(hlk_acquire_machine_step(&a, HLK_ACQUIRE_ON_ABORT, NOW, NULL, HLK_INTERRUPTED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_INTERRUPTED);
}

/* Whenever the lock becomes free, a command follows within a pause and the jitter. */
Test(acquire_poll, sleeps_past_a_release_by_no_more_than_a_pause)
{
    for (unsigned i = 0; i < 2000; i++) {
        int64_t now = NOW, free_at = NOW + (int64_t)(i * 7919 % 5000), ttl = (int64_t)(i * 104729 % 3000);
        polls(INT64_MAX, false, 1 + i % 50, 200, i);
        while (now < free_at)
            (void)pauses(&now, ttl);
        cr_assert_lt(now, free_at + 200 + HLK_POLL_JITTER_MS);
        cr_assert_eq(at(now, HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    }
}

/* --- behind a holder that sends no message, by a kind that does not poll else --- */

/* It has a ticket, `rank` others are before it, and the holder is silent. */
static void waits_behind_silent(int64_t rank)
{
    init();
    hlk_acquire_machine_init(&a, INT64_MAX, false, 0);
    hlk_acquire_machine_pauses(&a, 1, 128, 7);
    a.joined = silent = true;
    position = rank;
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
}

Test(acquire_poll, the_first_waiter_pauses_behind_a_silent_holder)
{
    int64_t now = NOW, backoff = 1;
    waits_behind_silent(0);
    for (int i = 1; i < 40; i++) {
        int64_t length = pauses(&now, 30000);
        cr_assert_geq(length, backoff);
        cr_assert_lt(length, backoff + (i < HLK_POLL_JITTER_MS ? i : HLK_POLL_JITTER_MS), "the %dth", i);
        backoff = backoff < 128 ? 2 * backoff : 128;
    }
}

Test(acquire_poll, behind_a_silent_holder_joins_and_asks_on_a_message)
{
    waits_behind_silent(-1);
    a.joined = false;
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_JOIN);
    cr_assert_eq(a.until_ms, NOW + 1, "it pauses meanwhile");
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    position = 0;
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
}

/* The first one will hold it, and hand it over. */
Test(acquire_poll, the_others_do_not_pause_behind_a_silent_holder)
{
    waits_behind_silent(1);
    cr_assert_eq(busy(NOW, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_geq(a.until_ms, NOW + HLK_POLL_NEAR_MS);
}

Test(acquire_poll, behind_the_next_silent_holder_begins_pauses_anew)
{
    int64_t now = NOW;
    waits_behind_silent(0);
    for (int i = 0; i < 20; i++)
        pauses(&now, 30000);
    silent = false;
    cr_assert_eq(busy(now, 30000), HLK_ACQUIRE_DO_PARK);
    cr_assert_geq(a.until_ms, now + HLK_POLL_NEAR_MS, "a holder that hands over");
    cr_assert_eq(at(now, HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    silent = true;
    cr_assert_lt(pauses(&now, 30000), 1 + HLK_POLL_JITTER_MS);
}
