/* One reply fails, for every k of every scenario: it comes late, its connection is cut before or after the server has
 * run the request, or it is swallowed and the connection stays open (then the reply timeout must reset it).
 *
 * asks A4 redisson 7367, PR 7368, 4178, 4109: a proxy drops exactly the k-th reply, for every k: counts and ownership
 * agree with the caller's view. A4 redisson 4706, 4822: any retry of acquire is the same acquire, the count rises by 1
 * at most. A4 redisson 4871, 6532 and redis-py 3847: a release that was not answered can be asked again, and tells the
 * outcome. A1 redisson 5019: every abandoned wait leaves zero keys within 2 leases. A10 hiredis 1128, 306: own
 * deadlines; after one the connection is discarded. */
/* Shows: S23 */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(replies, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(replies_async, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(replies_dispatched, .init = start, .fini = fixture_end, .timeout = 120);

/* One run with the k-th request struck. False: the scenario has fewer requests. */
static bool struck_at(struct scenario *s, scenario_play *play, enum scenario_mode mode, enum proxy_fault fault, int k)
{
    scenario_begin(s, mode, k);
    proxy_arm(fixture.proxy, fault, PROXY_ALL, (uint64_t)k);
    play(s);
    bool struck = proxy_struck(fixture.proxy);
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    scenario_is_over(s);
    if (struck)
        scenario_later_hold_is_safe(s, NULL);
    scenario_end(s);
    return struck;
}

/* `least`: a lower bound of the scenario's requests. */
static void for_every_k(scenario_play *play, enum scenario_mode mode, enum proxy_fault fault, int64_t lease_ms,
                        int least)
{
    struct scenario s = { .lease_ms = lease_ms };
    int k = 1;
    while (k < PLAYS_MOST_K && struck_at(&s, play, mode, fault, k))
        k++;
    cr_assert_gt(k, least, "only %d requests were struck; the last error: %s", k - 1, hlk_last_error());
    cr_assert_lt(k, PLAYS_MOST_K);
    cr_assert_geq(s.agreed, play == play_timeout ? 0 : 1);
}

/* Longer than three times REPLY_MS and a pause of the machine of 1 s. */
enum { RENEWED_LEASE_MS = 2400 };

#define EVERY_SCENE(suite, mode, fault)                                                                                \
    Test(suite, of_a_try_##fault)                                                                                      \
    {                                                                                                                  \
        for_every_k(play_try, mode, PROXY_##fault, 0, 2);                                                              \
    }                                                                                                                  \
    Test(suite, of_a_wait_##fault)                                                                                     \
    {                                                                                                                  \
        for_every_k(play_wait, mode, PROXY_##fault, 0, 6);                                                             \
    }                                                                                                                  \
    Test(suite, of_a_wait_that_times_out_##fault)                                                                      \
    {                                                                                                                  \
        for_every_k(play_timeout, mode, PROXY_##fault, 0, 3);                                                          \
    }                                                                                                                  \
    Test(suite, of_a_renewed_hold_##fault)                                                                             \
    {                                                                                                                  \
        for_every_k(play_renewed, mode, PROXY_##fault, RENEWED_LEASE_MS, 3);                                           \
    }                                                                                                                  \
    Test(suite, of_nested_holds_##fault)                                                                               \
    {                                                                                                                  \
        for_every_k(play_nested, mode, PROXY_##fault, 0, 5);                                                           \
    }

EVERY_SCENE(replies, BLOCKING, CUT_BEFORE)
EVERY_SCENE(replies, BLOCKING, CUT_AFTER)
EVERY_SCENE(replies, BLOCKING, SWALLOW)
EVERY_SCENE(replies_async, ASYNC, CUT_BEFORE)
EVERY_SCENE(replies_async, ASYNC, CUT_AFTER)
EVERY_SCENE(replies_async, ASYNC, SWALLOW)
EVERY_SCENE(replies_dispatched, DISPATCHED, CUT_BEFORE)
EVERY_SCENE(replies_dispatched, DISPATCHED, CUT_AFTER)
EVERY_SCENE(replies_dispatched, DISPATCHED, SWALLOW)

/* --- opening */

enum { GREETING_MOST_K = 200 }; /* more than the greeting has commands: it loads every script */

static void open_with(enum proxy_fault fault)
{
    struct hlk_client_opts opts = fault_opts();
    for (int k = 1;; k++) {
        proxy_arm(fixture.proxy, fault, PROXY_ALL, (uint64_t)k);
        hlk_client *client = fixture_open(&opts); /* must succeed: the reconnect timeout is longer than one fault */
        bool struck = proxy_struck(fixture.proxy);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
        hlk_lock *lock = fixture_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "k = %d: %s", k, hlk_last_error());
        cr_assert_eq(release_for_good(lock, "t"), HLK_OK, "k = %d: %s", k, hlk_last_error());
        fixture_close(client);
        cr_assert_lt(k, GREETING_MOST_K);
        if (struck)
            continue;
        cr_assert_gt(k, 5);
        return;
    }
}

Test(replies, of_opening_CUT_BEFORE)
{
    open_with(PROXY_CUT_BEFORE);
}

Test(replies, of_opening_CUT_AFTER)
{
    open_with(PROXY_CUT_AFTER);
}

Test(replies, of_opening_SWALLOW)
{
    open_with(PROXY_SWALLOW);
}

/* --- all replies late, by less than the deadline and by more */

static void delayed(enum scenario_mode mode, int64_t to_server_ms, int64_t to_client_ms)
{
    struct scenario s = { .lease_ms = RENEWED_LEASE_MS };
    scenario_play *plays[] = { play_try, play_wait, play_timeout, play_renewed, play_nested };
    for (int i = 0; i < (int)(sizeof plays / sizeof *plays); i++) {
        scenario_begin(&s, mode, i);
        proxy_delay(fixture.proxy, to_server_ms, to_client_ms);
        plays[i](&s);
        scenario_is_over(&s);
        scenario_later_hold_is_safe(&s, NULL);
        scenario_end(&s);
        proxy_delay(fixture.proxy, 0, 0);
    }
    cr_assert_geq(s.agreed, 3);
}

Test(replies, that_are_all_late_are_waited_for)
{
    delayed(BLOCKING, 0, REPLY_MS / 3);
    delayed(BLOCKING, REPLY_MS / 3, 0);
}

Test(replies_async, that_are_all_late_are_waited_for)
{
    delayed(ASYNC, 0, REPLY_MS / 3);
}

Test(replies_dispatched, that_are_all_late_are_waited_for)
{
    delayed(DISPATCHED, REPLY_MS / 3, 0);
}

/* All replies are later than every deadline for a while: nothing is acquired, nothing is left, and everything works at
 * once afterwards. */
static void too_late(enum scenario_mode mode, int64_t to_server_ms, int64_t to_client_ms)
{
    struct scenario s = { .lease_ms = 0 };
    for (int k = 0; k < 3; k++) {
        scenario_begin(&s, mode, k);
        proxy_delay(fixture.proxy, to_server_ms, to_client_ms);
        enum hlk_status status = scenario_acquire(&s, k == 2 ? 500 : HLK_NOWAIT, 0);
        scenario_assert(&s, NOT_GOT(status));
        scenario_assert(&s, hlk_lock_holds(s.lock) == 0);
        proxy_delay(fixture.proxy, 0, 0);
        scenario_is_over(&s);
        scenario_later_hold_is_safe(&s, NULL);
        scenario_assert(&s, scenario_got(&s, scenario_acquire(&s, 5000, 0)));
        scenario_release(&s);
        scenario_end(&s);
    }
}

Test(replies, that_come_after_the_deadline_are_not_waited_for)
{
    too_late(BLOCKING, 0, 2 * REPLY_MS);
    too_late(BLOCKING, 2 * REPLY_MS, 0);
}

Test(replies_async, that_come_after_the_deadline_are_not_waited_for)
{
    too_late(ASYNC, 0, 2 * REPLY_MS);
}

Test(replies_dispatched, that_come_after_the_deadline_are_not_waited_for)
{
    too_late(DISPATCHED, 2 * REPLY_MS, 0);
}

/* --- what an unsure answer means */

/* asks A4 redis-py 3847, PR 3900, PR 4258: releasing again is safe, and gives the outcome: here it was done. */
Test(replies, of_a_release_that_is_lost_are_asked_for_again)
{
    struct scenario s = { .lease_ms = 0 };
    const enum proxy_fault faults[] = { PROXY_SWALLOW, PROXY_CUT_AFTER, PROXY_CUT_BEFORE };
    for (int k = 0; k < 3; k++) {
        scenario_begin(&s, BLOCKING, k);
        scenario_assert(&s, scenario_got(&s, scenario_acquire(&s, HLK_NOWAIT, 0)));
        proxy_arm(fixture.proxy, faults[k], PROXY_SCRIPTS, 1);
        enum hlk_status status = hlk_lock_release(s.lock);
        scenario_assert(&s, ONE_OF(status, HLK_OK, HLK_E_UNSURE, HLK_E_CONNECT));
        while (UNKNOWN(status))
            status = hlk_lock_release(s.lock);
        scenario_assert(&s, status == HLK_OK);
        scenario_assert(&s, is_free(s.name));
        scenario_assert(&s, hlk_lock_release(s.lock) == HLK_NOT_HOLDER);
        scenario_end(&s);
    }
}

/* Acquiring after an unsure release settles it first: the release of the old hold does not affect the new one. */
Test(replies, of_a_release_that_is_lost_hinder_no_next_acquire)
{
    struct scenario s = { .lease_ms = 0 };
    scenario_begin(&s, BLOCKING, 0);
    scenario_assert(&s, scenario_got(&s, scenario_acquire(&s, HLK_NOWAIT, 0)));
    proxy_freeze(fixture.proxy, true);
    enum hlk_status status = hlk_lock_release(s.lock);
    scenario_assert(&s, UNKNOWN(status));
    scenario_assert(&s, hlk_lock_holds(s.lock) == 0 && hlk_lock_left_ms(s.lock) == 0);
    status = hlk_lock_release(s.lock);
    scenario_assert(&s, UNKNOWN(status));
    proxy_freeze(fixture.proxy, false);
    scenario_assert(&s, scenario_got(&s, scenario_acquire(&s, 5000, 0)));
    int64_t until = test_now_ms() + LEASE_MS;
    while (test_now_ms() < until) {
        scenario_agrees(&s, 1);
        test_sleep_ms(5);
    }
    scenario_assert(&s, release_for_good(s.lock, s.name) == HLK_OK);
    scenario_end(&s);
}

/* The lease was over before the release could be sent: LOST, not OK. The next holder keeps the lock. */
Test(replies, of_a_release_that_came_too_late_say_lost)
{
    struct scenario s = { .lease_ms = 0 };
    scenario_begin(&s, BLOCKING, 0);
    scenario_assert(&s, scenario_got(&s, scenario_acquire(&s, HLK_NOWAIT, 0)));
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    enum hlk_status status = hlk_lock_release(s.lock);
    scenario_assert(&s, UNKNOWN(status));
    WITHIN(FREE_MS, is_free(s.name));
    hlk_lock *theirs = held_by_bystander(s.bystander, s.name, 60000);
    proxy_refuse(fixture.proxy, false);
    WAIT_FOR((status = hlk_lock_release(s.lock), !UNKNOWN(status)));
    scenario_assert(&s, status == HLK_LOST);
    scenario_assert(&s, is_held(s.name, hold_of(theirs)));
    scenario_assert(&s, hlk_lock_release(theirs) == HLK_OK);
    scenario_end(&s);
}
