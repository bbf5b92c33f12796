/* Waiters in Redis' queue die or are stopped. The next live one is served: at once if the server can know it, else when
 * it sends after the grant is over. A grant that comes too late never counts. */
#include "waiter.h"

#include <signal.h>
#include <stdio.h>

static void start(void)
{
    fixture_begin(0);
    server_allow(fixture.server, SERVER_QUEUE);
}

TestSuite(handoff, .init = start, .fini = fixture_end, .timeout = 90);

enum { G_MS = 5000, AT_ONCE_MS = 1500, LATE_MS = 1500 }; /* tolerances for a slow machine; every lease is longer */

static hlk_lock *held_by(hlk_client *client)
{
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return lock;
}

/* Queues them one after the other; `before` are queued already. */
static void line_up(struct waiter *waiters, int n, int64_t before)
{
    for (int i = 0; i < n; i++) {
        waiter_acquire(&waiters[i]);
        WAIT_FOR(in_queue("t") == before + i + 1);
    }
}

/* --- killed */

/* All k dead waiters are before the live one, and the server knows that their connections are gone. */
static void killed(int k)
{
    struct history *history = history_create(64);
    struct waiter *waiters = waiters_fork(k, "t", NULL, history);
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = held_by(client);
    line_up(waiters, k, 0);
    struct actor *live = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(in_queue("t") == k + 1);
    WAIT_FOR_WAITERS(other, 1);
    for (int i = 0; i < k; i++)
        kill(waiters[i].pid, SIGKILL);
    for (int i = 0; i < k; i++)
        waiter_signal(&waiters[i], SIGKILL);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(live), HLK_OK, "%s", actor_error(live));
    cr_log_info("%d killed: %d ms", k, (int)(actor_answered_at_ms(live) - released_at));
    cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(live)), AT_ONCE_MS);
    cr_assert_eq(in_queue("t"), 0, "the dead ones are forgotten");
    cr_assert_eq(actor_end(live), HLK_OK);
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert_eq(fixture_counters(other).granted, 1u);
    waiters_end(waiters, k);
    history_destroy(history);
}

Test(handoff, passes_over_a_waiter_that_was_killed)
{
    killed(1);
}

Test(handoff, passes_over_five_waiters_that_were_killed_at_once)
{
    killed(5);
}

/* By raw connections, because only their state in Redis matters. */
Test(handoff, passes_over_130_waiters_that_were_killed_at_once)
{
    enum { DEAD = 130 };
    redisContext *dead[DEAD];
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = held_by(client);
    for (int i = 0; i < DEAD; i++) {
        char member[64];
        snprintf(member, sizeof member, "hlk-dead-1-%d:1 5000 0 0 1", i);
        dead[i] = raw_open(fixture.server);
        raw(dead[i], "SUBSCRIBE hasplock_inbox:hlk-dead-1-%d", i);
        raw(fixture.redis, "ZADD hasplock_queue:{t} %d %s", i + 1, member);
    }
    struct actor *live = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(in_queue("t") == DEAD + 1);
    WAIT_FOR_WAITERS(other, 1);
    for (int i = 0; i < DEAD; i++)
        redisFree(dead[i]);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(in_queue("t"), 0);
    cr_assert_eq(actor_status(live), HLK_OK, "%s", actor_error(live));
    cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(live)), AT_ONCE_MS);
    cr_assert_eq(actor_end(live), HLK_OK);
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert(is_free("t"));
}

/* Jobs that were killed one after the other while they waited, for as long as the lock is held. */
Test(handoff, passes_over_thousands_of_waiters_that_are_dead)
{
    static const int numbers[] = { 1500, 5000 };
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        hlk_lock *lock = held_by(client);
        struct actor *live = actor_start(fixture_lock(other, "t", NULL), NULL);
        WAIT_FOR(in_queue("t") == 1);
        WAIT_FOR_WAITERS(other, 1);
        for (int i = 0; i < numbers[k]; i++) {
            char member[64];
            snprintf(member, sizeof member, "hlk-dead-1-x:%d 5000 0 0 1", i + 1);
            redisAppendCommand(fixture.redis, "ZADD hasplock_queue:{t} 0 %s", member);
        }
        for (int i = 0; i < numbers[k]; i++) {
            redisReply *reply = NULL;
            cr_assert_eq(redisGetReply(fixture.redis, (void **)&reply), REDIS_OK);
            freeReplyObject(reply);
        }
        int64_t released_at = test_now_ms();
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(actor_status(live), HLK_OK, "%s", actor_error(live));
        int64_t took = actor_answered_at_ms(live) - released_at;
        cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(live)), AT_ONCE_MS, "behind %d: %d ms",
                     numbers[k], (int)took);
        cr_assert_eq(actor_end(live), HLK_OK);
    }
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert_eq(fixture_counters(other).granted, 2u);
    cr_assert(is_free("t"));
}

/* --- stopped */

/* The first waiter is stopped with the lock granted to it. The next one has it after the grant's ttl, `over_ms`. The
 * rest is the same for all: what happens when the first one continues. */
static void stopped(const int64_t *lease_ms, int64_t over_ms)
{
    struct history *history = history_create(64);
    struct waiter *waiters = waiters_fork(2, "t", lease_ms, history);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held_by(client);
    line_up(waiters, 2, 0);
    waiter_signal(&waiters[0], SIGSTOP);
    char granted[192];
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    snprintf(granted, sizeof granted, "%s", raw_holder(fixture.redis, "t"));
    cr_assert_leq(raw_pttl(fixture.redis, "t"), over_ms);
    cr_assert(granted[0] != '\0', "the one that stands still was alive to the server");
    cr_assert_eq(waiter_answer(&waiters[1]), HLK_OK);
    int64_t took = waiters[1].answered_at_ms - released_at;
    cr_log_info("the next one had it after %d ms", (int)took);
    cr_assert_geq(took, over_ms - 50);
    cr_assert_lt(running_between_ms(released_at, waiters[1].answered_at_ms), G_MS + LATE_MS, "%d ms",
                 (int)took); /* the next ones send so often (wait/acquire_machine.h) */
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), waiters[1].hold);
    waiter_signal(&waiters[0], SIGCONT);
    WAIT_FOR(in_queue("t") == 1); /* it has sent again */
    cr_assert_not(atomic_load(&waiters[0].answered), "%s", waiters[0].hold);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), waiters[1].hold);
    cr_assert_eq(waiter_release(&waiters[1]), HLK_OK);
    cr_assert_eq(waiter_answer(&waiters[0]), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), waiters[0].hold);
    cr_assert_gt(waiters[0].left_ms, 0);
    cr_assert_eq(waiter_release(&waiters[0]), HLK_OK);
    cr_assert(history_check(history));
    cr_assert_eq(history_count(history), 2u);
    cr_assert(is_free("t"));
    waiters_end(waiters, 2);
    history_destroy(history);
}

Test(handoff, to_a_stopped_waiter_ends_after_5_s_never_believed, .disabled = STAGE_UNDER_TSAN)
{
    stopped(NULL, G_MS);
}

Test(handoff, to_a_stopped_waiter_ends_with_its_fixed_lease, .disabled = STAGE_UNDER_TSAN)
{
    stopped((const int64_t[]){ 1200, 0 }, 1200);
}

/* G for each, not G for each position before */
Test(handoff, to_two_stopped_waiters_costs_the_third_two_grants, .disabled = STAGE_UNDER_TSAN)
{
    struct history *history = history_create(64);
    struct waiter *waiters = waiters_fork(3, "t", NULL, history);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held_by(client);
    line_up(waiters, 3, 0);
    waiter_signal(&waiters[0], SIGSTOP);
    waiter_signal(&waiters[1], SIGSTOP);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(waiter_answer(&waiters[2]), HLK_OK);
    int64_t took = waiters[2].answered_at_ms - released_at;
    cr_assert_geq(took, 2 * G_MS - 100);
    cr_assert_lt(running_between_ms(released_at, waiters[2].answered_at_ms), 2 * G_MS + LATE_MS, "%d ms", (int)took);
    waiter_signal(&waiters[0], SIGCONT);
    waiter_signal(&waiters[1], SIGCONT);
    cr_assert_eq(waiter_release(&waiters[2]), HLK_OK);
    for (int i = 0; i < 2; i++) { /* in the order in which they sent again */
        WAIT_FOR(atomic_load(&waiters[0].answered) + atomic_load(&waiters[1].answered) == i + 1);
        struct waiter *next = &waiters[atomic_load(&waiters[1].answered) && !atomic_load(&waiters[1].let_go)];
        cr_assert_eq(waiter_release(next), HLK_OK);
    }
    cr_assert(history_check(history));
    cr_assert(is_free("t"));
    waiters_end(waiters, 3);
    history_destroy(history);
}

/* A plain client's release grants it the lock without a token. */
/* Shows: S20 */
Test(handoff, to_a_stopped_fenced_waiter_costs_the_next_no_more, .disabled = STAGE_UNDER_TSAN)
{
    struct history *history = history_create(64);
    struct waiter *waiters = waiters_fork(2, "t", NULL, history);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held_by(client);
    waiter_acquire_fenced(&waiters[0]);
    WAIT_FOR(in_queue("t") == 1);
    line_up(&waiters[1], 1, 1);
    waiter_signal(&waiters[0], SIGSTOP);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(waiter_answer(&waiters[1]), HLK_OK);
    int64_t took = waiters[1].answered_at_ms - released_at;
    cr_assert_geq(took, G_MS - 50);
    cr_assert_lt(running_between_ms(released_at, waiters[1].answered_at_ms), G_MS + LATE_MS, "%d ms", (int)took);
    waiter_signal(&waiters[0], SIGCONT);
    WAIT_FOR(in_queue("t") == 1); /* it has sent again */
    cr_assert_not(atomic_load(&waiters[0].answered), "%s", waiters[0].hold);
    cr_assert_eq(waiter_release(&waiters[1]), HLK_OK);
    cr_assert_eq(waiter_answer(&waiters[0]), HLK_OK);
    cr_assert_eq(waiters[0].token, raw_int(fixture.redis, "GET redisson_lock_token:{t}"));
    cr_assert_gt(waiters[0].token, 0);
    cr_assert_eq(waiter_release(&waiters[0]), HLK_OK);
    cr_assert(history_check(history));
    waiters_end(waiters, 2);
    history_destroy(history);
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
}
