/* Which holds and leases share a script of the watchdog, and what is released meanwhile. */
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "watchdog_fixture.h"

#include <stdio.h>

static bool ending; /* of hlk_entry_close */

TestSuite(watchdog_batch, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

enum { MANY = 250 };
static struct hlk_entry *many[MANY];
static struct fake_waiter waiters[MANY];

static void hold_many(void)
{
    for (int i = 0; i < MANY; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "many:%d", i);
        many[i] = unit_entry(name);
        born(&waiters[i]);
        cr_assert_eq(hlk_entry_enter(many[i], &waiters[i].waiter), HLK_ENTER_HEAD);
        cr_assert(hlk_entry_acquired(many[i], &waiters[i].waiter, unit_now_ms(), 0, false));
    }
}

static void release_many(void)
{
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(hlk_entry_release(many[i], waiters[i].waiter.holder.id, &record), HLK_VERDICT_LAST);
        hlk_entry_release_finish(many[i]);
        hlk_entry_unref(many[i]);
    }
}

/* The script that begins with many[from]. */
static void answer_many(int from, int n)
{
    char numbers[4 * HLK_RENEWALS_A_SCRIPT + 1] = "", first[HLK_FIELD_MAX];
    for (int i = 0; i < n; i++)
        strcat(numbers, ":1\r\n");
    (void)hlk_field(first, unit.table.client_id, many[from]->hold.id);
    peer_answers(&unit.peer, renewal_answer(numbers, first));
}

Test(watchdog_batch, what_is_due_in_a_tick_leaves_in_few_scripts)
{
    peer_up(&unit.peer);
    hold_many();
    pass(LEASE / 3);
    for (int i = 0; i < MANY; i++)
        hlk_watchdog_fire(&many[i]->hold.alarm);
    flush();
    cr_assert_eq(hear(), MANY);
    cr_assert_eq(commands, 3);
    answer_many(0, HLK_RENEWALS_A_SCRIPT);
    answer_many(HLK_RENEWALS_A_SCRIPT, HLK_RENEWALS_A_SCRIPT);
    answer_many(2 * HLK_RENEWALS_A_SCRIPT, 50);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(many[i]->hold.lease.sent_ms, unit_now_ms());
    release_many();
}

Test(watchdog_batch, after_a_reconnect_every_hold_is_verified)
{
    hold_many();
    hold(&ann);
    pass(1000);
    peer_up(&unit.peer);
    hlk_watchdog_verify_all(&unit.node);
    cr_assert_eq(hear(), MANY + 1);
    cr_assert_eq(commands, 3);
    peer_breaks(&unit.peer);
    release(&ann);
    release_many();
}

Test(watchdog_batch, what_is_not_renewed_is_not_lost_by_a_verification)
{
    peer_up(&unit.peer);
    hold(&ann);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    hlk_watchdog_verify_all(&unit.node); /* an orphan's lease must run out */
    cr_assert_eq(hear(), 0);
    cr_assert(hlk_entry_close(e, &record, &ending));
    hlk_entry_release_finish(e);
    hlk_watchdog_verify_all(&unit.node);
    cr_assert_eq(hear(), 0);
}

Test(watchdog_batch, omits_what_is_released_before_it_is_sent)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    release(&ann);
    flush();
    cr_assert_eq(hear(), 0);
}

Test(watchdog_batch, the_next_hold_is_not_renewed_for_the_one_before)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold(&bob);
    int64_t until = e->hold.lease.until_ms;
    pass(10);
    answer_renewal(":0\r\n"); /* ann's reply */
    cr_assert_eq(count_of(&bob), 1u);
    cr_assert_eq(e->hold.lease.until_ms, until);
    cr_assert_str_eq(unit_tells(), "");
    release(&bob);
}

Test(watchdog_batch, an_answer_to_the_hold_before_is_not_the_next_ones)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold_fixed(&bob, 1000);
    int64_t until = e->hold.lease.until_ms;
    answer_renewal(":1\r\n"); /* 30 s, for ann */
    cr_assert_eq(e->hold.lease.until_ms, until);
    cr_assert_eq(atomic_load(&unit.table.counts.renewals), 0u);
    release(&bob);
}

Test(watchdog_batch, a_batch_that_is_sent_again_renews_no_later_hold)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold(&bob);
    peer_answers(&unit.peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_eq(hear(), 0);
    release(&bob);
}

Test(watchdog_batch, what_is_due_and_verified_in_one_tick_is_sent_once)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    hlk_watchdog_verify_all(&unit.node);
    flush();
    cr_assert_eq(hear(), 1);
    cr_assert_eq(commands, 1);
    answer_renewal(":1\r\n");
    release(&ann);
}

Test(watchdog_batch, a_batch_leaves_nothing_marked)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    cr_assert_not(e->hold.batched);
    peer_breaks(&unit.peer);
    pass(LEASE / 10);
    hlk_watchdog_verify_all(&unit.node); /* cannot be sent */
    cr_assert_not(e->hold.batched);
    release(&ann);
}

/* --- the leases in a batch: equal ones after the last that differs are left out --- */

static struct hlk_entry *three[3];
static struct fake_waiter theirs[3];

/* Three holds of one batch, each with a cap or 0. */
static void renew_three(int64_t cap0, int64_t cap1, int64_t cap2)
{
    const int64_t caps[] = { cap0, cap1, cap2 };
    const char *const names[] = { "t1", "t2", "t3" };
    peer_up(&unit.peer);
    for (int i = 0; i < 3; i++) {
        three[i] = unit_entry(names[i]);
        born(&theirs[i]);
        theirs[i].waiter.max_hold_ms = caps[i];
        cr_assert_eq(hlk_entry_enter(three[i], &theirs[i].waiter), HLK_ENTER_HEAD);
        cr_assert(hlk_entry_acquired(three[i], &theirs[i].waiter, unit_now_ms(), 0, false));
    }
    pass(LEASE / 3);
    for (int i = 0; i < 3; i++)
        hlk_watchdog_fire(&three[i]->hold.alarm);
    flush();
    cr_assert_eq(hear(), 3);
    cr_assert_eq(commands, 1);
    answer_renewal(":1\r\n:1\r\n:1\r\n");
    for (int i = 0; i < 3; i++) {
        bool capped = caps[i] != 0;
        cr_assert_eq(three[i]->hold.lease.capped, capped);
        cr_assert_eq(hlk_entry_release(three[i], theirs[i].waiter.holder.id, &record), HLK_VERDICT_LAST);
        hlk_entry_release_finish(three[i]);
        hlk_entry_unref(three[i]);
    }
}

#define CAP 30000 /* 10 s later the renewal is for the rest, minus drift and margin: 23602 ms */

Test(watchdog_batch, a_lease_that_all_have_is_sent_once)
{
    renew_three(0, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n");
}

Test(watchdog_batch, a_shorter_lease_before_others_costs_one_more)
{
    renew_three(CAP, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n30000\r\n");
}

Test(watchdog_batch, a_shorter_lease_behind_others_has_each_sent)
{
    renew_three(0, 0, CAP);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n$5\r\n30000\r\n$5\r\n23602\r\n");
}

Test(watchdog_batch, leases_that_are_all_different_are_all_sent)
{
    renew_three(CAP, CAP - 1, CAP - 2);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n23601\r\n$5\r\n23600\r\n");
}

/* --- a client that only holds --- */

/* Runs the loop until all is done, with what was posted to it and what it reads. */
static void let_it_turn(void)
{
    for (int i = 0; i < 8; i++)
        ev_run(hlk_loop_ev(unit.peer.loop), EVRUN_NOWAIT);
}

/* It does not tick. Two wake-ups for each renewal: to send it, and when it would have been late. An answer moves that
 * alarm, and leaves the clock as it was set (hlk_loop_cancel). */
Test(watchdog_batch, a_client_that_only_holds_wakes_for_renewals_alone)
{
    int wakes = 0, renewals = 0;
    peer_up(&unit.peer);
    hold(&ann);
    for (int64_t until = unit_now_ms() + 10 * LEASE; hlk_loop_wakes_ms(unit.peer.loop) <= until; wakes++) {
        pass(hlk_loop_wakes_ms(unit.peer.loop) - unit_now_ms());
        hlk_loop_tick(unit.peer.loop);
        let_it_turn();
        if (hear() == 0)
            continue;
        renewals++;
        peer_says(&unit.peer, renewal_answer_heard(":1\r\n"));
        let_it_turn();
        cr_assert_eq(e->hold.lease.sent_ms, unit_now_ms(), "the loop has not read its answer");
    }
    cr_assert_geq(renewals, 30);
    cr_assert_leq(wakes, 2 * renewals, "%d of %d", wakes, renewals);
    release(&ann);
}
