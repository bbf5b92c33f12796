/* Permits of a semaphore that are passed to the next call in line: who gets them, and when it is the turn of Redis'
 * queue. */
/* Shows: P49 */
#include "lease/entry.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/local_queue.h"
#include "lease/pass_permits.h"

#include "entry_fixture.h"

#define PASSES 3

static void init(void)
{
    waiters_begin();
    unit.table.local_passes = PASSES;
    peer_up(&unit.peer);
    ann.waiter.permits = bob.waiter.permits = cid.waiter.permits = dan.waiter.permits = 1;
}

TestSuite(pass_permits, .init = init, .fini = waiters_end, .timeout = 20);

/* Of Redis, by the head waiter. The turn begins. */
static void take(struct fake_waiter *p)
{
    cr_assert_eq(enter(p), HLK_ENTER_HEAD);
    (void)queue(p);
    win(p);
    release(p);
}

/* dan has taken, ann has the line's ticket, and bob and cid are behind it. */
static uint64_t line(void)
{
    take(&dan);
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    enter(&cid);
    return h;
}

static void leaves(struct fake_waiter *p)
{
    if (hlk_entry_leave(e, &p->waiter, false))
        hlk_entry_leave_finish(e);
}

static void end_line(void)
{
    leaves(&cid);
    leaves(&bob);
    leaves(&ann);
}

static void has_them(struct fake_waiter *p)
{
    cr_assert_eq(p->woken, 1);
    cr_assert(p->waiter.passed);
    cr_assert_eq(hlk_entry_check(e, &p->waiter), HLK_ENTER_ACQUIRED);
}

static bool refused(int64_t permits)
{
    return !hlk_entry_pass_permits(e, permits) && !ann.waiter.passed && !bob.waiter.passed && !cid.waiter.passed;
}

Test(pass_permits, those_behind_the_head_waiter_get_them_in_order)
{
    uint64_t h = line();
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&bob);
    cr_assert_not(cid.waiter.passed);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&cid);
    cr_assert_eq(ann.waiter.h, h, "it keeps its place in Redis' queue");
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    cr_assert_eq(atomic_load(&unit.table.counts.passed), 2u);
    cr_assert_eq(held_count(), 0u, "it is no hold of the entry");
    leaves(&ann);
}

Test(pass_permits, alone_the_head_waiter_has_them_and_ends_its_ticket)
{
    struct hlk_release_record end;
    take(&dan);
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&ann);
    cr_assert(ann.waiter.owes);
    hlk_entry_release_record(e, &end);
    cr_assert_eq(end.h, h);
    cr_assert_eq(end.permits, 1);
    cr_assert_neq(end.member.since_ms, 0);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED, "behind the end");
    hlk_entry_leave_finish(e);
    cr_assert_eq(bob.woken, 1);
    cr_assert_gt(bob.waiter.h, h);
    leaves(&bob);
}

Test(pass_permits, without_a_ticket_it_owes_nothing)
{
    take(&dan);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&ann);
    cr_assert_not(ann.waiter.owes);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(pass_permits, with_an_attempt_in_doubt_it_has_none)
{
    take(&dan);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    (void)queue(&ann);
    hlk_entry_wait(e, &ann.waiter, true);
    cr_assert(refused(1));
    leaves(&ann);
}

Test(pass_permits, one_whose_command_is_on_its_way_has_none)
{
    take(&dan);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    (void)queue(&ann);
    cr_assert(refused(1));
    enter(&bob);
    cr_assert(hlk_entry_pass_permits(e, 1), "but the next one has");
    has_them(&bob);
    hlk_entry_wait(e, &ann.waiter, false);
    leaves(&ann);
}

Test(pass_permits, the_first_has_them_while_the_entry_ends_a_hold)
{
    cr_assert_eq(enter(&dan), HLK_ENTER_HEAD);
    (void)queue(&dan);
    enter(&ann);
    win(&dan);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&ann);
    release(&dan);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(pass_permits, another_number_goes_to_redis)
{
    line();
    cr_assert(refused(2));
    bob.waiter.permits = 2;
    cr_assert(refused(1), "nor to those behind");
    cr_assert(hlk_entry_pass_permits(e, 2));
    has_them(&bob);
    end_line();
}

Test(pass_permits, nobody_waits)
{
    cr_assert(refused(1));
    take(&dan);
    cr_assert(refused(1));
}

/* --- calls that need not wait in line */

Test(pass_permits, a_call_tries_while_it_is_unknown_if_there_are_any)
{
    cr_assert_not(hlk_entry_may_try_permits(e), "it is the first one");
    take(&dan);
    cr_assert_not(hlk_entry_may_try_permits(e));
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    cr_assert(hlk_entry_may_try_permits(e));
    (void)queue(&ann);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert_not(hlk_entry_may_try_permits(e), "there are none");
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert_not(hlk_entry_may_try_permits(e), "there were none just now");
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    cr_assert(hlk_entry_may_try_permits(e));
    (void)hlk_entry_leave(e, &ann.waiter, true);
    hlk_entry_leave_finish(e);
}

Test(pass_permits, one_who_tried_in_vain_knows_that_there_are_none)
{
    take(&dan);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    bob.waiter.tried = true;
    enter(&bob);
    cr_assert_not(hlk_entry_may_try_permits(e));
    leaves(&bob);
    leaves(&ann);
}

/* --- the turn */

static void comes_again(struct fake_waiter *p)
{
    p->waiter.passed = false;
    p->woken = 0;
    enter(p);
}

Test(pass_permits, no_more_often_than_local_passes)
{
    line();
    for (int i = 0; i < PASSES; i++) {
        cr_assert(hlk_entry_pass_permits(e, 1), "%d", i);
        comes_again(i % 2 ? &cid : &bob);
    }
    cr_assert(refused(1));
    end_line();
    line();
    cr_assert(hlk_entry_pass_permits(e, 1), "another turn");
    end_line();
}

Test(pass_permits, a_new_ticket_is_no_new_turn)
{
    line();
    for (int i = 0; i < PASSES; i++) {
        cr_assert(hlk_entry_pass_permits(e, 1));
        end_line();
        wait_in_queue(&ann);
        comes_again(&bob);
        comes_again(&cid);
    }
    cr_assert(refused(1));
    end_line();
}

Test(pass_permits, no_longer_than_their_time)
{
    line();
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert(refused(1));
    end_line();
}

Test(pass_permits, none_without_local_passes)
{
    unit.table.local_passes = 0;
    line();
    cr_assert(refused(1));
    end_line();
}

Test(pass_permits, none_before_the_first_permits_from_redis)
{
    wait_in_queue(&ann);
    enter(&bob);
    cr_assert(refused(1));
    end_line();
}

/* --- who need not ask */

static struct fake_waiter eve;

/* dan has one from Redis and one was passed on, so that the next one waits for another pass. */
static void circulate(void)
{
    hlk_entry_note_permits(e, 1); /* without a ticket it is not noted */
    line();
    hlk_entry_note_permits(e, 2);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&bob);
    end_line();
    comes_again(&bob);
}

static bool asks(const struct fake_waiter *p)
{
    return e->state == HLK_ENTRY_ACQUIRING && p->waiter.h != 0;
}

static bool waits_for_a_pass(const struct fake_waiter *p)
{
    return e->state == HLK_ENTRY_NONE && p->waiter.h == 0 && p->woken == 0;
}

Test(pass_permits, who_will_be_passed_some_need_not_ask)
{
    circulate();
    cr_assert(waits_for_a_pass(&bob));
    comes_again(&cid);
    cr_assert_not(hlk_entry_may_try_permits(e));
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&bob);
    cr_assert_not(bob.waiter.owes);
    cr_assert(waits_for_a_pass(&cid));
    leaves(&cid);
}

Test(pass_permits, the_next_need_not_ask_when_the_head_waiter_left)
{
    line();
    hlk_entry_note_permits(e, 2);
    cr_assert(hlk_entry_pass_permits(e, 1));
    cr_assert(hlk_entry_leave(e, &ann.waiter, true));
    hlk_entry_leave_finish(e);
    cr_assert(waits_for_a_pass(&cid));
    leaves(&cid);
}

static void alarm_fires(void)
{
    hlk_mutex_lock(e->mu);
    hlk_entry_ask_at_last(e);
    hlk_mutex_unlock(e->mu);
}

Test(pass_permits, they_ask_at_the_end_of_the_turn)
{
    circulate();
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    alarm_fires();
    cr_assert(waits_for_a_pass(&bob));
    cr_assert(hlk_list_linked(&e->hold.alarm.timer.link), "and it will fire again");
    peer_passes(&unit.peer, 1);
    alarm_fires();
    cr_assert(asks(&bob));
    cr_assert_eq(bob.woken, 1);
    leaves(&bob);
}

Test(pass_permits, the_first_asks_when_another_comes_after_the_turn)
{
    circulate();
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_eq(enter(&cid), HLK_ENTER_QUEUED);
    cr_assert(asks(&bob));
    cr_assert_eq(cid.waiter.h, 0u);
    leaves(&cid);
    leaves(&bob);
}

Test(pass_permits, the_first_asks_when_they_need_more_than_are_here)
{
    circulate();
    comes_again(&cid);
    cr_assert(waits_for_a_pass(&bob), "two wait, and two are here");
    born(&eve);
    eve.waiter.permits = 1;
    cr_assert_eq(enter(&eve), HLK_ENTER_QUEUED);
    cr_assert(asks(&bob));
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&cid);
    leaves(&bob);
    cr_assert(waits_for_a_pass(&eve));
    leaves(&eve);
}

Test(pass_permits, they_ask_if_all_go_back_to_redis)
{
    circulate();
    cr_assert_not(hlk_entry_pass_permits(e, 2));
    cr_assert(asks(&bob));
    leaves(&bob);
}

Test(pass_permits, they_ask_if_all_go_back_past_the_line)
{
    circulate();
    hlk_entry_note_given_back(e, 1);
    cr_assert(waits_for_a_pass(&bob), "one is left");
    hlk_entry_note_given_back(e, 1);
    cr_assert(asks(&bob));
    leaves(&bob);
}

Test(pass_permits, they_ask_if_none_are_in_use_here)
{
    circulate();
    leaves(&bob);
    cr_assert_not(hlk_entry_pass_permits(e, 1));
    comes_again(&bob);
    cr_assert(waits_for_a_pass(&bob));
    leaves(&bob);
    cr_assert_not(hlk_entry_pass_permits(e, 1));
    comes_again(&bob);
    cr_assert(asks(&bob));
    leaves(&bob);
}

Test(pass_permits, they_ask_if_nothing_was_passed_on)
{
    line();
    hlk_entry_note_permits(e, 2);
    end_line();
    comes_again(&bob);
    cr_assert(asks(&bob));
    leaves(&bob);
}

Test(pass_permits, they_ask_if_permits_are_not_short)
{
    take(&dan);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    (void)queue(&ann);
    enter(&bob);
    hlk_entry_note_permits(e, 2);
    cr_assert(hlk_entry_pass_permits(e, 1));
    has_them(&bob);
    win(&ann); /* Redis has not said BUSY */
    release(&ann);
    comes_again(&bob);
    cr_assert(asks(&bob));
    leaves(&bob);
}

/* The last handle of the semaphore is destroyed, and before the next tick there is one again. */
Test(pass_permits, they_ask_in_a_line_that_was_found_again)
{
    circulate();
    leaves(&bob);
    hlk_entry_unref(e);
    struct hlk_entry *again = unit_entry("a");
    cr_assert_eq(again, e);
    comes_again(&bob);
    cr_assert(waits_for_a_pass(&bob));
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    peer_passes(&unit.peer, HLK_PASS_MS);
    alarm_fires();
    cr_assert(asks(&bob));
    leaves(&bob);
}

/* --- leaving */

Test(pass_permits, the_next_takes_over_a_ticket_for_as_many_permits)
{
    uint64_t h = line();
    cr_assert_not(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert_eq(bob.waiter.h, h);
    cid.waiter.permits = 2;
    cr_assert_eq(hlk_entry_wait(e, &bob.waiter, false), false);
    cr_assert(hlk_entry_leave(e, &bob.waiter, false), "a ticket for another number is ended");
    hlk_entry_leave_finish(e);
    cr_assert_neq(cid.waiter.h, 0u);
    cr_assert_neq(cid.waiter.h, h);
    leaves(&cid);
}
