/* The line of leased permits: who asks Redis, and when (src/lease/line.c). */
/* Shows: P50 */
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/line.h"
#include "lease/local_queue.h"
#include "permit_fixture.h"

TestSuite(line, .init = permits_begin, .fini = permits_end, .timeout = 20);

Test(line, one_asks_at_a_time)
{
    (void)stand();
    win(of(&ann));
    cr_assert_eq(bob.woken, 1);
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_eq(hlk_entry_check(entries[1], &bob.waiter), HLK_ENTER_HEAD);
    cr_assert_eq(cid.woken, 0);
    (void)queue(of(&bob));
    (void)hlk_entry_wait(e, &bob.waiter, false);
    leaves(&bob);
    cr_assert_neq(cid.waiter.h, 0u);
    release(of(&ann));
}

/* --- eve, another thread of somebody's owner */

static struct fake_waiter eve;

static enum hlk_enter eve_enters(struct fake_waiter *as, bool once)
{
    born(&eve);
    same_owner(&eve, as);
    eve.waiter.line = line;
    eve.waiter.once = once;
    of(as);
    return enter(&eve);
}

Test(line, the_next_thread_of_who_leaves_asks)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, false), HLK_ENTER_QUEUED);
    cr_assert_not(hlk_entry_leave(e, &bob.waiter, false));
    cr_assert_neq(eve.waiter.h, 0u);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
}

Test(line, one_try_does_not_wait_behind_the_line)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, true), HLK_ENTER_BUSY);
}

Test(line, the_next_thread_of_who_passes_its_hold_on_asks)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, false), HLK_ENTER_QUEUED);
    cr_assert(passed(&dan));
    cr_assert_eq(eve.woken, 1); /* bob's owner has it: eve would nest, but is slow */
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_PASSED);
    cr_assert_neq(eve.waiter.h, 0u);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
}

/* --- who asks */

Test(line, a_wait_asks_while_it_is_unknown_if_there_are_any)
{
    hold(of(&dan));
    (void)wait_in_queue(of(&ann));
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
    (void)queue(of(&cid));
    leaves(&ann);
    of(&cid);
    (void)hlk_entry_wait(e, &cid.waiter, false);
    release(of(&dan));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_HEAD, "dan's hold was not brief");
}

Test(line, a_wait_asks_while_there_are_permits)
{
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    hold(of(&dan));
    release(&dan);
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_HEAD);
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_HEAD, "no answer was BUSY");
}

Test(line, one_try_asks)
{
    (void)stand();
    leaves(&cid);
    cid.waiter.once = true;
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(line, who_comes_later_does_not_overtake_the_line)
{
    (void)stand();
    leaves(&cid);
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_QUEUED);
    leaves(&ann);
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_eq(cid.waiter.h, 0u);
}

Test(line, all_ask_after_a_hold_that_was_not_brief)
{
    (void)stand();
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_not(passed(&dan));
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_neq(cid.waiter.h, 0u);
}

Test(line, all_ask_after_a_hold_that_could_not_be_passed_on)
{
    uint64_t h = stand();
    cr_assert(hlk_entry_show_hold(entries[3], dan.waiter.holder.id, h));
    cr_assert_not(passed(&dan));
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_neq(cid.waiter.h, 0u);
}

Test(line, the_line_stays_after_a_brief_hold_beyond_its_turn)
{
    (void)stand();
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    cr_assert(passed(&dan));
    peer_passes(&unit.peer, 1);
    cr_assert_not(passed(&bob));
    cr_assert_eq(cid.waiter.h, 0u);
}

/* --- who need not ask yet */

static bool waits_for_a_pass(struct fake_waiter *p)
{
    return of(p) && e->state == HLK_ENTRY_NONE && e->in_line && p->woken == 0;
}

static bool asks(struct fake_waiter *p)
{
    return of(p) && e->state == HLK_ENTRY_ACQUIRING && p->waiter.h != 0 && p->woken == 1;
}

/* Two holds: ann's, and dan's that bob has now. cid is the first in line, and nobody asks. */
static void circulate(void)
{
    (void)stand();
    cr_assert(passed(&dan));
    cr_assert(hlk_entry_grant(entries[0], ann.waiter.h, LEASE, 0, 0));
    ann.woken = 0;
    cr_assert(waits_for_a_pass(&cid));
}

static void alarm_fires(void)
{
    hlk_mutex_lock(line->mu);
    hlk_line_on_alarm(line);
    hlk_mutex_unlock(line->mu);
}

static bool alarm_is_set(void)
{
    return hlk_list_linked(&line->hold.alarm.timer.link) && line->hold.ticket->passing.asks_ms > 0;
}

Test(line, who_will_be_passed_one_need_not_ask)
{
    circulate();
    cr_assert(passed(&ann));
    cr_assert_eq(hlk_entry_check(entries[2], &cid.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_QUEUED, "nor a new one");
    cr_assert(waits_for_a_pass(&ann));
    cr_assert(alarm_is_set());
}

Test(line, it_asks_when_none_was_passed_on_for_a_while)
{
    circulate();
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    cr_assert(passed(&bob));
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_QUEUED);
    peer_passes(&unit.peer, 1);
    alarm_fires();
    cr_assert(waits_for_a_pass(&dan), "one was just passed on");
    cr_assert(alarm_is_set());
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    alarm_fires();
    cr_assert(asks(&dan));
}

Test(line, it_asks_when_more_wait_than_have_one)
{
    circulate();
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_QUEUED);
    cr_assert(waits_for_a_pass(&cid), "two wait, and two have one");
    born(&eve);
    eve.waiter.line = line;
    e = entry_of_holder(eve.waiter.holder.id);
    cr_assert_eq(enter(&eve), HLK_ENTER_QUEUED);
    cr_assert(asks(&cid));
    cr_assert(waits_for_a_pass(&dan));
    e = hlk_entry_get_own(&unit.node, &hlk_format_permit, "a", 1, eve.waiter.holder.id, false);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
    hlk_entry_unref(e);
    hlk_entry_unref(e);
}

Test(line, it_asks_when_a_hold_goes_to_redis)
{
    circulate();
    entries[0]->hold.lease.asked_ms = unit_now_ms();
    cr_assert_not(passed(&ann));
    cr_assert(asks(&cid));
}

Test(line, it_asks_when_the_last_hold_is_lost)
{
    circulate();
    of(&ann);
    lose();
    cr_assert(waits_for_a_pass(&cid), "bob has one");
    of(&bob);
    lose();
    cr_assert(asks(&cid));
    cr_assert_eq(let_go(of(&ann)), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LOST);
}

Test(line, the_next_one_waits_when_it_leaves)
{
    circulate();
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_QUEUED);
    leaves(&cid);
    cr_assert(waits_for_a_pass(&dan));
    cr_assert(alarm_is_set());
    leaves(&dan);
    alarm_fires();
    cr_assert_not(alarm_is_set());
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_QUEUED);
    cr_assert(alarm_is_set());
}

/* All handles are destroyed, and before the next tick there are some again. */
static void lose_and_find_line(void)
{
    struct hlk_entry *gone = line;
    leaves(&cid);
    release(of(&bob));
    release(of(&ann));
    for (int i = 0; i < 4; i++)
        hlk_entry_unref(entries[i]);
    hlk_loop_tick(unit.peer.loop); /* frees them: the line is without a reference then */
    hlk_entry_unref(line);
    permits_open();
    cr_assert_eq(line, gone);
}

Test(line, it_asks_in_a_line_that_was_found_again)
{
    circulate();
    cr_assert(alarm_is_set());
    lose_and_find_line();
    hold(of(&dan));
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_QUEUED);
    cr_assert(waits_for_a_pass(&ann));
    cr_assert(hlk_timer_armed(&line->hold.alarm.timer));
    peer_passes(&unit.peer, HLK_PASS_MS);
    alarm_fires();
    cr_assert(asks(&ann));
}

Test(line, a_waiter_that_is_passed_one_does_not_ask_in_plenty)
{
    circulate();
    line->hold.ticket->passing.busy_ms -= HLK_CONTENDED_MS;
    cr_assert(passed(&bob));
    cr_assert_eq(hlk_entry_check(entries[2], &cid.waiter), HLK_ENTER_ACQUIRED);
}

Test(line, a_new_one_asks_if_no_hold_is_here)
{
    circulate();
    leaves(&cid);
    release(of(&bob));
    release(of(&ann));
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(line, a_new_one_asks_if_none_was_passed_on)
{
    circulate();
    leaves(&cid);
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(line, a_new_one_asks_if_permits_are_not_short)
{
    circulate();
    leaves(&cid);
    line->hold.ticket->passing.busy_ms -= HLK_CONTENDED_MS;
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

/* Its entry had no line when it began to ask, or was acquired. */
Test(line, a_fixed_hold_counts_when_its_owner_also_waits)
{
    ann.waiter.line = NULL;
    hold_fixed(of(&ann), LEASE);
    e->unreported = true;
    cr_assert_eq(eve_enters(&ann, false), HLK_ENTER_QUEUED);
    cr_assert_eq(line->hold.ticket->passing.in_use, 1);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
    release(&ann);
    cr_assert_eq(line->hold.ticket->passing.in_use, 0);
}

Test(line, a_fixed_acquire_counts_when_its_owner_also_waits)
{
    ann.waiter.line = NULL;
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_HEAD);
    cr_assert_eq(eve_enters(&ann, false), HLK_ENTER_QUEUED);
    cr_assert_eq(line->count, 1u);
    win(&ann);
    cr_assert_eq(line->count, 0u);
    cr_assert_eq(line->hold.ticket->passing.in_use, 1);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
    release(&ann);
    cr_assert_eq(line->hold.ticket->passing.in_use, 0);
}
