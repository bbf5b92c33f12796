/* The acquire state machine: every schedule of messages, replies and deadlines, without clock or socket. */
/* Shows: P15 */
#include "wait/acquire_machine.h"

#include "acquire_machine_fixture.h"

TestSuite(acquire, .init = init);

Test(acquire, a_free_lock_costs_one_command)
{
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_FIRST);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, the_wait_is_busy_join_confirm_ask_park)
{
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_JOIN);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_SUBSCRIBED);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_MESSAGE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, asks_at_once_when_its_channel_is_confirmed_already)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    busy(NOW, TTL);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert(a.joined);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

/* --- messages --- */

Test(acquire, a_message_while_asking_is_not_lost)
{
    park(TTL);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_PARK); /* waits for the reply */
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SEND);                  /* the reply may be older than the message */
    cr_assert_eq(a.cause, HLK_CAUSE_MESSAGE);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire, many_messages_while_asking_are_one_command_more)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire, a_message_from_before_the_command_asks_no_more)
{
    park(TTL);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire, a_confirmation_anew_asks_again)
{
    park(TTL);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_SUBSCRIBED);
}

Test(acquire, a_confirmation_while_asking_asks_after_the_answer)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_SEND);
}

Test(acquire, a_confirmation_at_the_first_command_still_joins)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_PARK); /* as if it were one: nothing is joined yet */
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_JOIN);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_SUBSCRIBED), HLK_ACQUIRE_DO_SEND);
}

/* --- without messages --- */

Test(acquire, a_lost_message_costs_the_rest_of_the_ttl)
{
    park(TTL);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(a.until_ms, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_TIME);
}

Test(acquire, a_ttl_of_0_asks_a_moment_later)
{
    park(0);
    cr_assert_eq(a.until_ms, NOW + 1);
    cr_assert_eq(at(NOW + 1, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
}

Test(acquire, without_a_ttl_it_asks_every_30_s)
{
    hlk_acquire_machine_init(&a, INT64_MAX, false, 0);
    park(-1);
    cr_assert_eq(a.until_ms, NOW + HLK_POLL_MAX_MS + 1);
}

Test(acquire, a_long_ttl_is_asked_about_every_30_s)
{
    hlk_acquire_machine_init(&a, INT64_MAX, false, 0);
    park(INT64_MAX);
    cr_assert_eq(a.until_ms, NOW + HLK_POLL_MAX_MS + 1);
}

Test(acquire, jitter_is_1_to_20_ms)
{
    for (unsigned jitter = 0; jitter < 1000; jitter++) {
        hlk_acquire_machine_init(&a, DEADLINE, false, jitter);
        cr_assert(a.jitter_ms >= 1 && a.jitter_ms <= HLK_POLL_JITTER_MS);
    }
    hlk_acquire_machine_init(&a, DEADLINE, false, 19);
    park(TTL);
    cr_assert_eq(a.until_ms, NOW + TTL + 20);
}

Test(acquire, polls_go_on_until_it_is_free)
{
    int64_t now = NOW;
    hlk_acquire_machine_init(&a, INT64_MAX, false, 7);
    park(TTL);
    for (int i = 0; i < 100; i++) {
        cr_assert_gt(a.until_ms, now);
        now = a.until_ms;
        cr_assert_eq(at(now, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
        cr_assert_eq(busy(now, TTL), HLK_ACQUIRE_DO_PARK);
    }
}

/* A subscription that is never confirmed, because its connection is down, must not stop the polls. */
Test(acquire, joined_and_never_confirmed_it_polls)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    busy(NOW, TTL);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_JOINED), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, NOW + TTL + 1);
    cr_assert_eq(at(NOW + TTL + 1, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW + TTL + 1, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire, time_while_asking_goes_on_with_the_same_command)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(at(NOW + 10, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_MESSAGE);
    cr_assert(a.message_pending); /* and a message that arrived meanwhile is remembered */
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
    cr_assert_eq(at(DEADLINE - 1, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(DEADLINE - 1, TTL), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, an_answer_at_the_deadline_still_counts)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(at(DEADLINE + 1, HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, busy_at_the_deadline_is_a_timeout)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(busy(DEADLINE, TTL), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, the_deadline_ends_a_command_without_an_answer)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, the_deadline_ends_a_wait_in_queue)
{
    cr_assert_eq(happens(HLK_ACQUIRE_ON_QUEUED), HLK_ACQUIRE_DO_QUEUE);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_TIMEOUT);
}

Test(acquire, without_a_deadline_no_time_ends_it)
{
    hlk_acquire_machine_init(&a, INT64_MAX, false, 0);
    park(TTL);
    cr_assert_eq(at(INT64_MAX / 2, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(INT64_MAX / 2, TTL), HLK_ACQUIRE_DO_PARK);
}

/* --- one try --- */

Test(acquire, once_is_busy_after_one_answer)
{
    hlk_acquire_machine_init(&a, DEADLINE, true, 0);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_is_busy_whatever_is_heard)
{
    hlk_acquire_machine_init(&a, DEADLINE, true, 0);
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_MESSAGE), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(busy(NOW, 0), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_in_queue_until_its_time_is_busy)
{
    hlk_acquire_machine_init(&a, DEADLINE, true, 0);
    happens(HLK_ACQUIRE_ON_QUEUED);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_BUSY);
}

Test(acquire, once_asks_again_for_a_stale_answer)
{
    hlk_acquire_machine_init(&a, DEADLINE, true, 0);
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_STALE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

/* --- the local queue --- */

Test(acquire, the_turn_after_the_queue_asks)
{
    cr_assert_eq(happens(HLK_ACQUIRE_ON_QUEUED), HLK_ACQUIRE_DO_QUEUE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_QUEUED), HLK_ACQUIRE_DO_QUEUE); /* woken for nothing */
    cr_assert_eq(at(NOW + 3000, HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW + 3000, TTL), HLK_ACQUIRE_DO_JOIN);
}

Test(acquire, the_queue_waits_for_the_deadline_not_for_a_ttl)
{
    happens(HLK_ACQUIRE_ON_QUEUED);
    cr_assert_eq(a.until_ms, DEADLINE);
}

/* --- replies that do not count --- */

Test(acquire, a_stale_answer_asks_again)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_STALE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(a.cause, HLK_CAUSE_MESSAGE); /* the same command, for the same reason */
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK);
}

Test(acquire, a_void_answer_asks_again)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_TOMBSTONE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
}

Test(acquire, messages_before_a_stale_answer_are_in_the_next)
{
    park(TTL);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    happens(HLK_ACQUIRE_ON_MESSAGE);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_STALE), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(busy(NOW, TTL), HLK_ACQUIRE_DO_PARK); /* the attempt was sent after the message */
}

/* --- leaving --- */

Test(acquire, over_leaves_from_anywhere_with_its_status)
{
    static const enum hlk_acquire_event before[] = { HLK_ACQUIRE_ON_HEAD,       HLK_ACQUIRE_ON_QUEUED,
                                                     HLK_ACQUIRE_ON_STALE,      HLK_ACQUIRE_ON_JOINED,
                                                     HLK_ACQUIRE_ON_SUBSCRIBED, HLK_ACQUIRE_ON_MESSAGE };
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        hlk_acquire_machine_init(&a, DEADLINE, i % 2, 0);
        happens(before[i]);
        cr_assert_eq(hlk_acquire_machine_step(&a, HLK_ACQUIRE_ON_ABORT, NOW, NULL, HLK_INTERRUPTED),
                     HLK_ACQUIRE_DO_FINISH);
        cr_assert_eq(a.status, HLK_INTERRUPTED);
    }
    cr_assert_eq(hlk_acquire_machine_step(&a, HLK_ACQUIRE_ON_ABORT, NOW, NULL, HLK_E_CONNECT), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_E_CONNECT);
}

/* --- all schedules: a free lock is tried after the moment at which it becomes free --- */

static uint64_t random_state = 88172645463325252u;

static unsigned below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

/* Plays one wait for a lock that its holder releases at some moment. The server's reply depends on the state at the
 * time of the command. The channel loses every message sent before the subscription is confirmed. */
static int64_t play(bool lose_messages, int64_t release_at)
{
    int64_t now = NOW, runs_at = INT64_MAX, answer_at = INT64_MAX, confirmed_at = INT64_MAX, message_at = INT64_MAX;
    bool yours = false, subscribed = false;
    enum hlk_acquire_action todo = at(now, HLK_ACQUIRE_ON_HEAD);
    for (;;) {
        if (todo == HLK_ACQUIRE_DO_FINISH)
            return a.status == HLK_OK ? now : -1;
        if (todo == HLK_ACQUIRE_DO_SEND) {
            runs_at = now + below(20);
            answer_at = runs_at + below(20);
            yours = runs_at >= release_at;
        } else if (todo == HLK_ACQUIRE_DO_JOIN) {
            confirmed_at = now + 1 + below(50);
            todo = at(now, HLK_ACQUIRE_ON_JOINED);
            continue;
        }
        if (confirmed_at != INT64_MAX && !subscribed && release_at >= confirmed_at && !lose_messages)
            message_at = release_at + below(10);
        int64_t next = a.until_ms < DEADLINE ? a.until_ms : DEADLINE;
        if (a.asking)
            next = DEADLINE;
        enum hlk_acquire_event what = HLK_ACQUIRE_ON_TIME;
        if (answer_at <= next) {
            next = answer_at;
            what = yours ? HLK_ACQUIRE_ON_ACQUIRED : HLK_ACQUIRE_ON_BUSY;
        }
        if (!subscribed && confirmed_at <= next) {
            next = confirmed_at;
            what = HLK_ACQUIRE_ON_SUBSCRIBED;
        }
        if (message_at <= next) {
            next = message_at;
            what = HLK_ACQUIRE_ON_MESSAGE;
        }
        now = next > now ? next : now;
        if (what == HLK_ACQUIRE_ON_BUSY || what == HLK_ACQUIRE_ON_ACQUIRED)
            answer_at = INT64_MAX;
        subscribed |= what == HLK_ACQUIRE_ON_SUBSCRIBED;
        if (what == HLK_ACQUIRE_ON_MESSAGE)
            message_at = INT64_MAX;
        int64_t ttl = release_at > now ? 3000 : 0;
        todo = what == HLK_ACQUIRE_ON_BUSY ? busy(now, ttl) : at(now, what);
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

/* --- one try after a release of its own process --- */

/* If the release was sent again behind the command (NOSCRIPT), the next command succeeds. If it was refused, it is
 * repeated from time to time. */
Test(acquire, a_try_behind_its_own_end_asks_at_once_then_pauses)
{
    hlk_acquire_machine_init(&a, NOW + 3000, true, 0);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_HEAD), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_SEND);
    int64_t now = NOW;
    int questions = 2;
    enum hlk_acquire_action todo = at(now, HLK_ACQUIRE_ON_RELEASING);
    while (todo != HLK_ACQUIRE_DO_FINISH) {
        cr_assert_eq(todo, HLK_ACQUIRE_DO_PARK);
        cr_assert_leq(a.until_ms, NOW + 3000);
        cr_assert(a.until_ms == now + 50 || a.until_ms == NOW + 3000);
        now = a.until_ms;
        todo = at(now, HLK_ACQUIRE_ON_TIME);
        if (todo == HLK_ACQUIRE_DO_SEND) {
            questions++;
            todo = at(now, HLK_ACQUIRE_ON_RELEASING);
        }
    }
    cr_assert_eq(a.status, HLK_BUSY);
    cr_assert_eq(now, NOW + 3000);
    cr_assert_eq(questions, 2 + 59);
}

Test(acquire, a_try_behind_its_own_end_has_it_when_that_is_done)
{
    hlk_acquire_machine_init(&a, NOW + 3000, true, 0);
    happens(HLK_ACQUIRE_ON_HEAD);
    happens(HLK_ACQUIRE_ON_RELEASING);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_RELEASING), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(at(NOW + 50, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_SEND);
    cr_assert_eq(at(NOW + 50, HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

/* --- wait_replicas --- */

static void held_and_confirming(void)
{
    a.confirm_ms = 1000;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(happens(HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_CONFIRM);
    cr_assert_eq(a.until_ms, NOW + 1000);
}

Test(acquire, a_hold_that_is_to_be_confirmed_counts_when_it_is)
{
    held_and_confirming();
    cr_assert_eq(happens(HLK_ACQUIRE_ON_CONFIRMED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_OK);
}

Test(acquire, a_hold_that_is_not_confirmed_is_not_replicated)
{
    held_and_confirming();
    cr_assert_eq(happens(HLK_ACQUIRE_ON_UNCONFIRMED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_NOT_REPLICATED);
}

Test(acquire, a_hold_is_confirmed_in_its_own_time_and_the_calls)
{
    held_and_confirming();
    cr_assert_eq(at(NOW + 999, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_PARK);
    cr_assert_eq(at(NOW + 1000, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_NOT_REPLICATED);
    init();
    a.confirm_ms = 1000;
    happens(HLK_ACQUIRE_ON_HEAD);
    cr_assert_eq(at(DEADLINE - 10, HLK_ACQUIRE_ON_ACQUIRED), HLK_ACQUIRE_DO_CONFIRM);
    cr_assert_eq(a.until_ms, DEADLINE);
    cr_assert_eq(at(DEADLINE, HLK_ACQUIRE_ON_TIME), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_NOT_REPLICATED);
}

Test(acquire, a_hold_being_confirmed_ignores_news_of_its_wait)
{
    static const enum hlk_acquire_event late[] = { HLK_ACQUIRE_ON_MESSAGE, HLK_ACQUIRE_ON_SUBSCRIBED,
                                                   HLK_ACQUIRE_ON_ACQUIRED, HLK_ACQUIRE_ON_JOINED,
                                                   HLK_ACQUIRE_ON_HEAD };
    held_and_confirming();
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        cr_assert_eq(happens(late[i]), HLK_ACQUIRE_DO_PARK, "%zu", i);
    cr_assert_eq(a.until_ms, NOW + 1000);
}

Test(acquire, a_cancel_ends_the_confirmation)
{
    held_and_confirming();
    cr_assert_eq(hlk_acquire_machine_step(&a, HLK_ACQUIRE_ON_ABORT, NOW, NULL, HLK_INTERRUPTED), HLK_ACQUIRE_DO_FINISH);
    cr_assert_eq(a.status, HLK_INTERRUPTED);
}
