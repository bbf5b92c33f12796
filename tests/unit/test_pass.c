/* Passing a hold on to the next holder of the process without Redis: when that is allowed, and what is passed along. */
/* Shows: P10 */
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

#include "watchdog_fixture.h"

#define PASSES 64

static void init(void)
{
    waiters_begin();
    unit.table.local_passes = PASSES;
    peer_up(&unit.peer);
}

TestSuite(pass, .init = init, .fini = waiters_end, .timeout = 20);

static bool passes(struct fake_waiter *from, struct fake_waiter *to)
{
    return let_go(from) == HLK_VERDICT_PASSED && hlk_entry_check(e, &to->waiter) == HLK_ENTER_ACQUIRED;
}

/* The holder releases in Redis, and the next one must send a command. */
static bool ends(struct fake_waiter *from, struct fake_waiter *next)
{
    if (let_go(from) != HLK_VERDICT_LAST)
        return false;
    hlk_entry_release_finish(e);
    return hlk_entry_check(e, &next->waiter) == HLK_ENTER_HEAD;
}

static bool ends_and_leaves(struct fake_waiter *from, struct fake_waiter *next)
{
    bool ended = ends(from, next);
    hlk_entry_leave(e, &next->waiter, false);
    return ended;
}

/* ann holds, bob is queued. */
static void hold_before_bob(void)
{
    hold(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
}

Test(pass, the_next_in_queue_holds_it_and_nothing_is_sent)
{
    hold_before_bob();
    uint64_t h = e->hold.id;
    int64_t until = e->hold.lease.until_ms;
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(e->state, HLK_ENTRY_HELD);
    cr_assert_eq(e->hold.id, h);
    cr_assert_eq(e->hold.lease.until_ms, until);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(count_of(&bob), 1u);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(atomic_load(&bob.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert_eq(atomic_load(&unit.table.counts.passed), 1u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_str_eq(peer_hears(&unit.peer), "");
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LAST);
    cr_assert_eq(record.h, h);
    hlk_entry_release_finish(e);
    cr_assert_eq(held_count(), 0u);
}

Test(pass, who_sleeps_is_woken)
{
    struct hlk_park park;
    hold_before_bob();
    fall_asleep(&bob, &park);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(wakes_of(&bob), 1);
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LAST);
    hlk_entry_release_finish(e);
}

Test(pass, the_queue_keeps_its_order)
{
    hold_before_bob();
    enter(&cid);
    enter(&dan);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(cid.woken + dan.woken, 0);
    cr_assert(passes(&bob, &cid));
    cr_assert(passes(&cid, &dan));
    release(&dan);
}

/* --- how often, and how long --- */

static unsigned passes_in_a_row(int64_t ms_each)
{
    struct fake_waiter *now = &ann, *next = &bob, *was;
    unsigned n = 0;
    hold(now);
    for (;;) {
        enter(next);
        peer_passes(&unit.peer, ms_each);
        if (!passes(now, next))
            break;
        n++;
        was = now, now = next, next = was;
    }
    cr_assert_eq(e->state, HLK_ENTRY_RELEASING);
    hlk_entry_release_finish(e);
    cr_assert_eq(hlk_entry_check(e, &next->waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &next->waiter, false);
    return n;
}

/* Shows: S19 */
Test(pass, no_more_often_than_local_passes)
{
    cr_assert_eq(passes_in_a_row(0), PASSES);
    cr_assert_eq(passes_in_a_row(0), PASSES); /* and as often after the next acquire */
    unit.table.local_passes = 1;
    cr_assert_eq(passes_in_a_row(0), 1u);
    unit.table.local_passes = 0;
    cr_assert_eq(passes_in_a_row(0), 0u);
}

/* Shows: S19 */
Test(pass, no_longer_than_its_time)
{
    cr_assert_eq(passes_in_a_row(1), HLK_PASS_MS - 1u);
    cr_assert_eq(passes_in_a_row(1), HLK_PASS_MS - 1u);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS - 1), 1u);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS), 0u);
}

Test(pass, the_first_hold_of_an_entry_has_its_time_too)
{
    cr_assert_null(e->hold.ticket);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS), 0u);
}

Test(pass, a_grant_begins_a_new_time)
{
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&unit.peer, 100);
    enter(&bob);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(e->hold.id, h);
    enter(&ann);
    peer_passes(&unit.peer, 1);
    cr_assert(ends_and_leaves(&bob, &ann));
}

/* --- waiters that do not get it --- */

Test(pass, nobody_in_queue_is_an_end)
{
    hold(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    hlk_entry_release_finish(e);
}

Test(pass, an_inner_release_passes_nothing)
{
    hold_before_bob();
    enter(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    cr_assert_eq(bob.woken, 0);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, a_fixed_lease_is_not_passed)
{
    hold_fixed(&ann, LEASE);
    enter(&bob);
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, who_wants_a_fixed_lease_asks)
{
    bob.waiter.fixed = true;
    hold_before_bob();
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* ann acquires by a reply to an attempt that was sent long ago; bob is queued. */
static void hold_by_an_old_attempt(int64_t age_ms)
{
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    (void)queue(&ann);
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms() - age_ms, 0, false));
    enter(&bob);
}

Test(pass, a_lease_that_is_short_is_not_passed)
{
    int64_t age = hlk_lease_until(0, LEASE) - LEASE / 3;
    hold_by_an_old_attempt(age);
    cr_assert(ends_and_leaves(&ann, &bob));
    hold_by_an_old_attempt(age - 1);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, a_lease_at_risk_is_not_passed)
{
    hold_before_bob();
    hlk_lease_move(&e->hold.lease, HLK_LEASE_AT_RISK);
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, what_redis_counts_more_often_is_not_passed)
{
    hold_before_bob();
    hlk_entry_raise_done(e, e->hold.id, 2, unit_now_ms(), 0, false); /* too late: released meanwhile */
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* --- max_hold --- */

Test(pass, the_next_ones_max_hold_caps_it)
{
    bob.waiter.max_hold_ms = 20000;
    hold_before_bob();
    peer_passes(&unit.peer, 2);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(e->hold.lease.until_ms, unit_now_ms() + 20000);
    enter(&cid); /* it is not passed on from there either */
    cr_assert(ends_and_leaves(&bob, &cid));
}

Test(pass, the_alarm_is_for_the_next_ones_max_hold)
{
    bob.waiter.max_hold_ms = 1000;
    hold_before_bob();
    cr_assert_eq(e->hold.alarm.timer.due_ms, unit_now_ms() + LEASE / 3);
    cr_assert(passes(&ann, &bob));
    cr_assert_leq(e->hold.alarm.timer.due_ms, unit_now_ms() + 1000);
    release(&bob);
}

Test(pass, a_max_hold_is_its_holders_only)
{
    ann.waiter.max_hold_ms = 60000;
    hold_before_bob();
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(e->hold.lease.cap_ms, INT64_MAX);
    cr_assert_eq(hlk_lease_renewal_ms(&e->hold.lease, LEASE, unit_now_ms() + 59000), LEASE);
    release(&bob);
}

Test(pass, what_max_hold_has_shortened_is_not_passed)
{
    ann.waiter.max_hold_ms = 20000;
    hold_before_bob();
    cr_assert(e->hold.lease.capped);
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* --- tokens --- */

/* ann holds with the tokens 101 to 103, bob is queued. */
static void hold_fenced(void)
{
    unit.table.local_passes = 2;
    ann.waiter.fenced = true;
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(queue(&ann).tokens, 3);
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 103, false));
    unit.table.local_passes = PASSES;
}

Test(pass, each_has_the_next_token_of_the_block)
{
    bob.waiter.fenced = cid.waiter.fenced = dan.waiter.fenced = true;
    hold_fenced();
    enter(&cid);
    enter(&dan);
    cr_assert_eq(token_of(&ann), 101);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(token_of(&bob), 102);
    cr_assert(passes(&bob, &cid));
    cr_assert_eq(token_of(&cid), 103);
    cr_assert(ends_and_leaves(&cid, &dan)); /* the block is used up */
}

Test(pass, who_is_not_fenced_takes_no_token)
{
    cid.waiter.fenced = true;
    hold_fenced();
    enter(&cid);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(token_of(&bob), 0); /* ann's token is not bob's */
    cr_assert(passes(&bob, &cid));
    cr_assert_eq(token_of(&cid), 102);
    release(&cid);
}

Test(pass, who_is_fenced_gets_none_without_a_token)
{
    bob.waiter.fenced = true;
    hold_before_bob();
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, who_wants_higher_tokens_asks)
{
    bob.waiter.fenced = cid.waiter.fenced = true;
    bob.waiter.floor = 101;
    cid.waiter.floor = 103;
    hold_fenced();
    enter(&cid);
    cr_assert(passes(&ann, &bob)); /* 102 */
    cr_assert(ends_and_leaves(&bob, &cid));
}

/* --- other waiters --- */

Test(pass, one_try_that_is_in_queue_gets_it_too)
{
    enter(&ann);
    bob.waiter.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    win(&ann);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, the_same_owner_gets_it_or_is_in_it)
{
    same_owner(&bob, &ann);
    same_owner(&cid, &ann);
    enter(&ann);
    enter(&bob);
    enter(&cid);
    win(&ann);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_NESTED);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(let_go(&cid), HLK_VERDICT_NESTED);
    release(&bob);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(pass, those_of_the_new_holder_look_again)
{
    hold_before_bob();
    same_owner(&dan, &bob);
    enter(&cid);
    enter(&dan);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(dan.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_entry_check(e, &dan.waiter), HLK_ENTER_NESTED);
    let_go(&dan);
    cr_assert(passes(&bob, &cid));
    release(&cid);
}

/* --- other ends --- */

Test(pass, a_loss_is_the_new_holders)
{
    hold_before_bob();
    enter(&cid);
    uint64_t h = e->hold.id;
    cr_assert(passes(&ann, &bob));
    lose();
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_not(is_lost(&ann));
    cr_assert(is_lost(&bob));
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_HEAD);
    cr_assert_gt(cid.waiter.h, h);
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LOST);
    cr_assert_eq(atomic_load(&bob.holds), 0u);
    hlk_entry_leave(e, &cid.waiter, false);
}

/* Otherwise the release of the lost hold would release what its owner's other thread has just acquired. */
Test(pass, who_has_a_loss_to_release_gets_nothing)
{
    same_owner(&cid, &ann);
    enter(&ann);
    enter(&bob);
    enter(&cid);
    win(&ann); /* cid could nest, but has not run yet */
    lose();
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    win(&bob);
    cr_assert_eq(enter(&dan), HLK_ENTER_QUEUED);
    release(&bob);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_LOST);
    hlk_entry_leave(e, &cid.waiter, false);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(hlk_entry_check(e, &dan.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &dan.waiter, false);
}

Test(pass, what_is_over_is_not_passed_but_lost)
{
    hold_before_bob();
    peer_passes(&unit.peer, LEASE);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(pass, the_new_holder_may_end_without_letting_go)
{
    hold_before_bob();
    enter(&cid);
    cr_assert(passes(&ann, &bob));
    hlk_entry_orphan(e, ann.waiter.holder.id); /* the orphaned holder has no part in it any more */
    cr_assert_eq(e->hold.lease.state, HLK_LEASE_HELD);
    hlk_entry_orphan(e, bob.waiter.holder.id);
    cr_assert_eq(e->hold.lease.state, HLK_LEASE_ORPHANED);
    cr_assert_str_eq(unit_tells(), "ORPHANED a;");
    cr_assert_eq(cid.woken, 0);
    peer_passes(&unit.peer, LEASE);
    hlk_watchdog_fire(&e->hold.alarm);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &cid.waiter, false);
}

Test(pass, a_renewal_is_the_same_for_the_new_holder)
{
    hold_before_bob();
    cr_assert(passes(&ann, &bob));
    pass(LEASE / 3);
    renew();
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), LEASE));
    release(&bob);
}
