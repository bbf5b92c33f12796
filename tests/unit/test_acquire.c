/* The acquire loop as a pure machine: every schedule of messages, answers and deadlines, without clock or socket. */
#include "sync/acquire.h"

#include "asking.h"

TestSuite(acquire, .init = init);

Test(acquire, a_free_lock_costs_one_question)
{
    cr_assert_eq(happens(HLK_HAS_TURN), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_FIRST);
    cr_assert_eq(happens(HLK_IS_YOURS), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, the_wait_is_busy_join_confirm_ask_park)
{
    cr_assert_eq(happens(HLK_HAS_TURN), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_JOIN);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_HEARING);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_MESSAGE);
    cr_assert_eq(happens(HLK_IS_YOURS), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, a_channel_that_is_confirmed_already_is_asked_through_at_once)
{
    happens(HLK_HAS_TURN);
    busy(NOW, TTL);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert(a.joined);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

/* --- messages --- */

Test(acquire, a_message_while_asking_is_not_lost)
{
    park(TTL);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_ASK);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_PARK); /* goes on waiting for the answer */
    cr_assert_eq(busy(NOW, TTL), HLK_DO_ASK);      /* which may be older than the message */
    cr_assert_eq(a.cause, HLK_ASKED_BY_MESSAGE);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire, many_messages_while_asking_are_one_question_more)
{
    park(TTL);
    happens(HLK_HEARD);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(happens(HLK_HEARD), HLK_DO_PARK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire, a_message_from_before_the_question_asks_nothing_more)
{
    park(TTL);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire, a_confirmation_anew_asks_again)
{
    park(TTL);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_HEARING);
}

Test(acquire, a_confirmation_anew_while_asking_asks_again_after_the_answer)
{
    park(TTL);
    happens(HLK_HEARD);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_PARK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_ASK);
}

Test(acquire, a_confirmation_during_the_first_question_does_not_replace_joining)
{
    happens(HLK_HAS_TURN);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_PARK); /* as if: nothing is joined yet */
    cr_assert_eq(busy(NOW, TTL), HLK_DO_JOIN);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(happens(HLK_HEARS), HLK_DO_ASK);
}

/* --- without messages --- */

Test(acquire, a_lost_message_costs_the_rest_of_the_ttl)
{
    park(TTL);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(a.until_ms, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_TIME);
}

Test(acquire, a_ttl_of_0_asks_a_moment_later)
{
    park(0);
    cr_assert_eq(a.until_ms, NOW + 1);
    cr_assert_eq(at(NOW + 1, HLK_IS_TIME), HLK_DO_ASK);
}

Test(acquire, without_a_ttl_it_asks_every_30_s)
{
    hlk_acquire_init(&a, INT64_MAX, false, 0);
    park(-1);
    cr_assert_eq(a.until_ms, NOW + HLK_POLL_MOST_MS + 1);
}

Test(acquire, a_long_ttl_is_asked_about_every_30_s)
{
    hlk_acquire_init(&a, INT64_MAX, false, 0);
    park(INT64_MAX);
    cr_assert_eq(a.until_ms, NOW + HLK_POLL_MOST_MS + 1);
}

Test(acquire, jitter_is_1_to_20_ms)
{
    for (unsigned jitter = 0; jitter < 1000; jitter++) {
        hlk_acquire_init(&a, DEADLINE, false, jitter);
        cr_assert(a.jitter_ms >= 1 && a.jitter_ms <= HLK_POLL_JITTER_MS);
    }
    hlk_acquire_init(&a, DEADLINE, false, 19);
    park(TTL);
    cr_assert_eq(a.until_ms, NOW + TTL + 20);
}

Test(acquire, polls_go_on_until_it_is_free)
{
    int64_t now = NOW;
    hlk_acquire_init(&a, INT64_MAX, false, 7);
    park(TTL);
    for (int i = 0; i < 100; i++) {
        cr_assert_gt(a.until_ms, now);
        now = a.until_ms;
        cr_assert_eq(at(now, HLK_IS_TIME), HLK_DO_ASK);
        cr_assert_eq(busy(now, TTL), HLK_DO_PARK);
    }
}

/* A subscription that never is confirmed (its connection is down) must not cost the polls. */
Test(acquire, joined_and_never_confirmed_it_polls)
{
    happens(HLK_HAS_TURN);
    busy(NOW, TTL);
    cr_assert_eq(happens(HLK_JOINED), HLK_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(NOW + TTL + 1, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(busy(NOW + TTL + 1, TTL), HLK_DO_PARK);
}

Test(acquire, time_while_asking_goes_on_with_the_same_question)
{
    park(TTL);
    happens(HLK_HEARD);
    happens(HLK_HEARD);
    cr_assert_eq(at(NOW + 10, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_MESSAGE);
    cr_assert(a.heard); /* and what was heard meanwhile is not forgotten */
}

/* --- the deadline --- */

Test(acquire, sleeps_no_longer_than_the_deadline)
{
    park(60000);
    cr_assert_eq(a.until_ms, DEADLINE);
}

Test(acquire, is_never_over_before_the_deadline)
{
    park(60000);
    cr_assert_eq(at(DEADLINE - 1, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(busy(DEADLINE - 1, TTL), HLK_DO_PARK);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_IS_TIME), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, an_answer_at_the_deadline_still_counts)
{
    park(TTL);
    happens(HLK_HEARD);
    cr_assert_eq(at(DEADLINE + 1, HLK_IS_YOURS), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, busy_at_the_deadline_is_a_timeout)
{
    park(TTL);
    happens(HLK_HEARD);
    happens(HLK_HEARD);
    cr_assert_eq(busy(DEADLINE, TTL), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, the_deadline_ends_a_question_without_an_answer)
{
    happens(HLK_HAS_TURN);
    cr_assert_eq(at(DEADLINE, HLK_IS_TIME), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, the_deadline_ends_a_wait_in_line)
{
    cr_assert_eq(happens(HLK_IS_LINED), HLK_DO_LINE);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_IS_TIME), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, without_a_deadline_no_time_ends_it)
{
    hlk_acquire_init(&a, INT64_MAX, false, 0);
    park(TTL);
    cr_assert_eq(at(INT64_MAX / 2, HLK_IS_TIME), HLK_DO_ASK);
    cr_assert_eq(busy(INT64_MAX / 2, TTL), HLK_DO_PARK);
}

/* --- one try --- */

Test(acquire, once_is_busy_after_one_answer)
{
    hlk_acquire_init(&a, DEADLINE, true, 0);
    cr_assert_eq(happens(HLK_HAS_TURN), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_is_busy_whatever_is_heard)
{
    hlk_acquire_init(&a, DEADLINE, true, 0);
    happens(HLK_HAS_TURN);
    cr_assert_eq(happens(HLK_HEARD), HLK_DO_PARK);
    cr_assert_eq(busy(NOW, 0), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_in_line_until_its_time_is_busy)
{
    hlk_acquire_init(&a, DEADLINE, true, 0);
    happens(HLK_IS_LINED);
    cr_assert_eq(at(DEADLINE, HLK_IS_TIME), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_asks_again_for_a_stale_answer)
{
    hlk_acquire_init(&a, DEADLINE, true, 0);
    happens(HLK_HAS_TURN);
    cr_assert_eq(happens(HLK_IS_STALE), HLK_DO_ASK);
    cr_assert_eq(happens(HLK_IS_YOURS), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

/* --- the process's line --- */

Test(acquire, the_turn_after_the_line_asks)
{
    cr_assert_eq(happens(HLK_IS_LINED), HLK_DO_LINE);
    cr_assert_eq(happens(HLK_IS_LINED), HLK_DO_LINE); /* woken for nothing */
    cr_assert_eq(at(NOW + 3000, HLK_HAS_TURN), HLK_DO_ASK);
    cr_assert_eq(busy(NOW + 3000, TTL), HLK_DO_JOIN);
}

Test(acquire, the_line_waits_for_the_deadline_not_for_a_ttl)
{
    happens(HLK_IS_LINED);
    cr_assert_eq(a.until_ms, DEADLINE);
}

/* --- answers that do not count --- */

Test(acquire, a_stale_answer_asks_again)
{
    park(TTL);
    happens(HLK_HEARD);
    cr_assert_eq(happens(HLK_IS_STALE), HLK_DO_ASK);
    cr_assert_eq(a.cause, HLK_ASKED_BY_MESSAGE); /* the same question, for the same reason */
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK);
}

Test(acquire, a_void_answer_asks_again)
{
    happens(HLK_HAS_TURN);
    cr_assert_eq(happens(HLK_IS_VOID), HLK_DO_ASK);
    cr_assert_eq(happens(HLK_IS_YOURS), HLK_DO_FINISH);
}

Test(acquire, what_was_heard_before_a_stale_answer_is_in_the_next_one)
{
    park(TTL);
    happens(HLK_HEARD);
    happens(HLK_HEARD);
    cr_assert_eq(happens(HLK_IS_STALE), HLK_DO_ASK);
    cr_assert_eq(busy(NOW, TTL), HLK_DO_PARK); /* the copy was sent after the message */
}

/* --- leaving --- */

Test(acquire, over_leaves_from_anywhere_with_its_status)
{
    static const enum hlk_happened before[] = { HLK_HAS_TURN, HLK_IS_LINED, HLK_IS_STALE,
                                                HLK_JOINED,   HLK_HEARS,    HLK_HEARD };
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        hlk_acquire_init(&a, DEADLINE, i % 2, 0);
        happens(before[i]);
        cr_assert_eq(hlk_acquire_step(&a, HLK_IS_OVER, NOW, NULL, HLK_INTERRUPTED), HLK_DO_FINISH);
        cr_assert_eq(a.status, HLK_INTERRUPTED);
    }
    cr_assert_eq(hlk_acquire_step(&a, HLK_IS_OVER, NOW, NULL, HLK_E_CONNECT), HLK_DO_FINISH);
    cr_assert_eq(a.status, HLK_E_CONNECT);
}

/* --- all schedules: a lock that is free from some moment on is asked for after it --- */

static uint64_t random_state = 88172645463325252u;

static unsigned below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

/* Plays one wait against a lock whose holder releases at some moment, with a server that answers questions by its state
 * at the time it runs them, and a channel that loses every message sent before the subscription is confirmed. */
static int64_t play(bool lose_messages, int64_t release_at)
{
    int64_t now = NOW, runs_at = INT64_MAX, answer_at = INT64_MAX, confirmed_at = INT64_MAX, message_at = INT64_MAX;
    bool yours = false, subscribed = false;
    enum hlk_do todo = at(now, HLK_HAS_TURN);
    for (;;) {
        if (todo == HLK_DO_FINISH)
            return a.status == HLK_OK ? now : -1;
        if (todo == HLK_DO_ASK) {
            runs_at = now + below(20);
            answer_at = runs_at + below(20);
            yours = runs_at >= release_at;
        } else if (todo == HLK_DO_JOIN) {
            confirmed_at = now + 1 + below(50);
            todo = at(now, HLK_JOINED);
            continue;
        }
        if (confirmed_at != INT64_MAX && !subscribed && release_at >= confirmed_at && !lose_messages)
            message_at = release_at + below(10);
        int64_t next = a.until_ms < DEADLINE ? a.until_ms : DEADLINE;
        if (a.asking)
            next = DEADLINE;
        enum hlk_happened what = HLK_IS_TIME;
        if (answer_at <= next) {
            next = answer_at;
            what = yours ? HLK_IS_YOURS : HLK_IS_BUSY;
        }
        if (!subscribed && confirmed_at <= next) {
            next = confirmed_at;
            what = HLK_HEARS;
        }
        if (message_at <= next) {
            next = message_at;
            what = HLK_HEARD;
        }
        now = next > now ? next : now;
        if (what == HLK_IS_BUSY || what == HLK_IS_YOURS)
            answer_at = INT64_MAX;
        subscribed |= what == HLK_HEARS;
        if (what == HLK_HEARD)
            message_at = INT64_MAX;
        int64_t ttl = release_at > now ? 3000 : 0;
        todo = what == HLK_IS_BUSY ? busy(now, ttl) : at(now, what);
    }
}

Test(acquire, no_schedule_sleeps_past_a_release)
{
    for (int i = 0; i < 20000; i++) {
        int64_t release_at = NOW + below(200);
        init();
        int64_t got = play(false, release_at);
        cr_assert(got >= release_at && got <= release_at + 200, "released at %d, got at %d", (int)(release_at - NOW),
                  (int)(got - NOW));
    }
}

Test(acquire, without_messages_waits_grow_to_the_ttl_only)
{
    for (int i = 0; i < 20000; i++) {
        int64_t release_at = NOW + below(1000);
        init();
        int64_t got = play(true, release_at);
        cr_assert(got >= release_at && got <= release_at + 3000 + 200);
    }
}
