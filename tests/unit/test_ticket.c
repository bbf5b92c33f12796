/* The entry's ticket in Redis' queue: its content, its grant, and which waiter has it after another has left. No
 * server; the clock is played. */
/* Shows: P10 */
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/entry_state.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

#include "entry_fixture.h"

TestSuite(ticket, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- the ticket in Redis' queue --- */

/* Shows: S20 */
Test(ticket, a_watchdogs_ticket_is_granted_for_a_short_time)
{
    enter(&ann);
    cr_assert_eq(queue(&ann).ttl_ms, HLK_GRANT_MS);
    hlk_entry_renumber(e, &ann.waiter);
    ann.waiter.lease_ms = 2000;
    cr_assert_eq(queue(&ann).ttl_ms, 2000);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

Test(ticket, a_ticket_of_a_fixed_lease_is_granted_for_that)
{
    ann.waiter.fixed = true;
    enter(&ann);
    cr_assert_eq(queue(&ann).ttl_ms, LEASE);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

Test(ticket, a_ticket_is_the_same_in_all_attempts)
{
    unit.table.local_passes = 64;
    ann.waiter.fenced = true;
    enter(&ann);
    struct hlk_member first = queue(&ann);
    enter(&bob);
    peer_passes(&unit.peer, 1000);
    struct hlk_member second = queue(&ann);
    cr_assert_eq(memcmp(&first, &second, sizeof first), 0);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(ticket, takes_tokens_for_those_that_stand_behind_it)
{
    unit.table.local_passes = 64;
    ann.waiter.fenced = bob.waiter.fenced = true;
    ann.waiter.floor = 17;
    enter(&ann);
    cr_assert_eq(queue(&ann).tokens, 1);
    enter(&bob);
    hlk_entry_renumber(e, &ann.waiter);
    cr_assert_eq(queue(&ann).tokens, 65);
    cr_assert_eq(queue(&ann).floor, 17);
    ann.waiter.fenced = false;
    hlk_entry_renumber(e, &ann.waiter);
    cr_assert_eq(queue(&ann).tokens, 0);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(ticket, without_memory_for_a_ticket_nobody_gets_in_queue)
{
    struct hlk_member member;
    ann.waiter.fenced = true;
    hlk_mem_fail_after(1);
    cr_assert_eq(enter(&ann), HLK_ENTER_NOMEM);
    cr_assert_not(hlk_list_linked(&ann.waiter.link));
    cr_assert_eq(enter(&bob), HLK_ENTER_HEAD);
    cr_assert_eq(hlk_entry_queue(e, &bob.waiter, true, &member), HLK_ENTER_NOMEM);
    hlk_mem_fail_after(-1);
    cr_assert_not(hlk_entry_leave(e, &bob.waiter, false)); /* nothing was sent, nothing is owed */
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

/* --- grants --- */

Test(ticket, a_grant_is_a_hold)
{
    struct hlk_view view;
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&unit.peer, 1000);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(ann.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_not(hlk_list_linked(&ann.waiter.link));
    hlk_entry_view(e, ann.waiter.holder.id, &view);
    cr_assert_eq(view.count, 1u);
    cr_assert_eq(view.h, h);
    cr_assert_eq(view.until_ms, hlk_lease_until(unit_now_ms() - 1000, HLK_GRANT_MS)); /* since its first attempt */
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert_eq(atomic_load(&unit.table.counts.granted), 1u);
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    release(&ann);
}

Test(ticket, a_grant_wakes_who_sleeps)
{
    struct hlk_park park;
    uint64_t h = wait_in_queue(&ann);
    fall_asleep(&ann, &park);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(wakes_of(&ann), 1);
    release(&ann);
}

/* The completion of an earlier release is pending, and its reply arrives on another connection than the grant. */
Test(ticket, a_completions_grant_waits_until_the_end_is_told)
{
    hlk_entry_release_unreported(e);
    ann.waiter.completes = true;
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(ann.woken, 0);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_HEAD);
    hlk_entry_release_reported(e);
    cr_assert_eq(ann.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    hlk_entry_report_acquired(e, ann.waiter.holder.id, NULL, NULL);
    release(&ann);
}

Test(ticket, a_grant_before_the_answer_waits_for_the_end_too)
{
    hlk_entry_release_unreported(e);
    ann.waiter.completes = true;
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    (void)queue(&ann);
    cr_assert(hlk_entry_grant(e, e->hold.id, HLK_GRANT_MS, 0, 0));
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    hlk_entry_release_reported(e);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    hlk_entry_report_acquired(e, ann.waiter.holder.id, NULL, NULL);
    release(&ann);
}

Test(ticket, a_grant_to_a_thread_does_not_wait_for_ends)
{
    hlk_entry_release_unreported(e);
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    hlk_entry_release_reported(e);
    release(&ann);
}

Test(ticket, a_grant_counts_from_the_attempt_that_took_a_ticket)
{
    struct hlk_member member;
    enter(&ann);
    cr_assert_eq(hlk_entry_queue(e, &ann.waiter, false, &member), HLK_ENTER_HEAD);
    peer_passes(&unit.peer, 500); /* that attempt took no ticket */
    (void)queue(&ann);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 500);
    (void)queue(&ann);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first, HLK_GRANT_MS));
    release(&ann);
}

/* By the server's clock, which may run faster than ours: 2 % and 2 ms less. */
Test(ticket, a_grant_counts_from_its_tickets_time_in_queue)
{
    uint64_t h = wait_in_queue(&ann);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 10000);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 9900, 0));
    cr_assert_eq(ann.asked, 0);
    cr_assert_eq(ann.woken, 1);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first + 9900 - 200, HLK_GRANT_MS));
    release(&ann);
}

Test(ticket, a_kept_grant_counts_from_its_time_in_queue_too)
{
    enter(&ann);
    (void)queue(&ann);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 10000);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 9900, 0));
    cr_assert(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first + 9900 - 200, HLK_GRANT_MS));
    release(&ann);
}

/* When the grant came, its time in the queue was too long already. That more time passes until it is used proves
 * nothing. */
Test(ticket, a_kept_future_grant_counts_from_the_first_attempt)
{
    enter(&ann);
    (void)queue(&ann);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 1000);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 1500, 0));
    peer_passes(&unit.peer, 600);
    cr_assert(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first, HLK_GRANT_MS));
    release(&ann);
}

Test(ticket, a_grant_while_asking_is_kept_until_the_answer)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_HEAD);
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
    enter(&ann); /* it is used only once */
    (void)queue(&ann);
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

/* A late attempt may have taken the ticket again: tests/model/handoff_time.pml, NO_MEMBER. */
Test(ticket, the_end_of_a_hold_in_doubt_takes_its_ticket_along)
{
    for (int doubt = 0; doubt < 2; doubt++) {
        enter(&ann);
        struct hlk_member member = queue(&ann);
        hlk_entry_wait(e, &ann.waiter, doubt);
        cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
        cr_assert_eq(hlk_entry_release(e, ann.waiter.holder.id, &record), HLK_VERDICT_LAST);
        cr_assert_eq(record.doubt, doubt);
        cr_assert_eq(record.member.since_ms, doubt ? member.since_ms : 0);
        hlk_entry_release_finish(e);
    }
}

Test(ticket, who_was_granted_it_asks_no_more)
{
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_not(hlk_entry_resend(e, &ann.waiter)); /* it was about to send when the grant came */
    cr_assert_eq(e->state, HLK_ENTRY_HELD);
    cr_assert_not(hlk_entry_leave(e, &ann.waiter, false)); /* it is not queued either */
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(ticket, a_grant_and_the_answer_yours_are_one_hold)
{
    enter(&ann);
    (void)queue(&ann);
    uint64_t h = ann.waiter.h;
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    win(&ann);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0)); /* a late grant has no effect either */
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), LEASE));
    cr_assert_eq(atomic_load(&unit.table.counts.granted), 0u);
    release(&ann);
}

Test(ticket, a_hold_that_was_broken_is_no_kept_grant)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
    cr_assert_not(hlk_entry_lose_begin(e, ann.waiter.h, "broken", &record));
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

Test(ticket, a_grant_that_is_too_old_asks)
{
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&unit.peer, HLK_GRANT_MS / 2);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(ann.woken, 0);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_HEAD);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    win(&ann);
    release(&ann);
}

Test(ticket, a_kept_grant_that_is_too_old_asks)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
    peer_passes(&unit.peer, HLK_GRANT_MS / 2);
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(ann.asked, 1); /* it was woken only for that */
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

Test(ticket, a_grant_that_nobody_waits_for_is_unknown)
{
    cr_assert_not(hlk_entry_grant(e, 1, HLK_GRANT_MS, 0, 0));
    cr_assert_not(hlk_entry_grant(e, 0, HLK_GRANT_MS, 0, 0));
    uint64_t h = wait_in_queue(&ann);
    cr_assert_not(hlk_entry_grant(e, h + 1, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0)); /* its release is being started, and hands the lock on */
    cr_assert_eq(e->state, HLK_ENTRY_RELEASING);
    hlk_entry_leave_finish(e);
    cr_assert_not(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
}

Test(ticket, a_grant_has_the_first_token_of_its_block)
{
    unit.table.local_passes = 64;
    ann.waiter.fenced = bob.waiter.fenced = true;
    enter(&ann);
    enter(&bob);
    (void)queue(&ann);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 165));
    cr_assert_eq(token_of(&ann), 101);
    hlk_entry_leave(e, &bob.waiter, false);
    release(&ann);
    cr_assert(record.fenced);
}

Test(ticket, a_kept_grant_has_its_token)
{
    ann.waiter.fenced = true;
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 4711));
    cr_assert(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(token_of(&ann), 4711);
    release(&ann);
}

/* The message was late, however long the wait was. */
Test(ticket, a_grant_delayed_for_half_of_its_time_asks)
{
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&unit.peer, 10000);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 10000 - HLK_GRANT_MS / 2, 0));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
}

/* A script without the counter among its keys granted it. The waiter holds the lock, and the next reply has the
 * token. */
Test(ticket, a_grant_without_the_token_that_it_needs_asks)
{
    ann.waiter.fenced = true;
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(ann.woken, 0);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0)); /* another grant, while the command is in flight */
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(ann.asked, 2);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 17, false));
    cr_assert_eq(token_of(&ann), 17);
    release(&ann);
}

Test(ticket, max_hold_caps_a_grant)
{
    ann.waiter.max_hold_ms = 700;
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(e->hold.lease.until_ms, unit_now_ms() + 700);
    release(&ann);
}

Test(ticket, a_grant_tells_those_who_need_not_wait)
{
    enter(&ann);
    (void)queue(&ann);
    bob.waiter.once = true;
    same_owner(&cid, &ann);
    enter(&bob);
    enter(&cid);
    hlk_entry_wait(e, &ann.waiter, false); /* bob may check: busy */
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_BUSY);
    cr_assert_eq(cid.woken, 0);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(cid.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_NESTED);
    let_go(&cid);
    release(&ann);
}

/* --- what a release says about a hold acquired through the queue --- */

static int64_t short_hold_ms(void)
{
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    hlk_entry_release_finish(e);
    return record.short_hold_ms;
}

Test(ticket, the_end_of_a_brief_granted_hold_names_its_lease)
{
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    peer_passes(&unit.peer, HLK_SHORT_HOLD_MS - 1);
    cr_assert_eq(short_hold_ms(), HLK_GRANT_MS);
}

/* Other waiters may have waited as long. */
Test(ticket, the_end_of_a_long_hold_or_wait_names_no_lease)
{
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    peer_passes(&unit.peer, HLK_SHORT_HOLD_MS);
    cr_assert_eq(short_hold_ms(), 0);
    h = wait_in_queue(&ann);
    peer_passes(&unit.peer, HLK_SHORT_HOLD_MS);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert_eq(short_hold_ms(), 0);
}

Test(ticket, the_end_of_a_hold_that_never_waited_says_nothing)
{
    wait_in_queue(&ann);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    win(&ann);
    release(&ann);
    hold(&ann);
    cr_assert_eq(short_hold_ms(), 0);
}

/* Then Redis' ttl is longer than the lease. */
Test(ticket, the_end_of_an_extended_brief_hold_names_no_lease)
{
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    cr_assert(hlk_entry_raise_done(e, h, 1, unit_now_ms(), 600000, false));
    cr_assert_eq(short_hold_ms(), 0);
    h = wait_in_queue(&ann);
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0));
    struct hlk_release_record end;
    cr_assert(hlk_entry_raise_begin(e, h, 600000, &end));
    cr_assert_eq(short_hold_ms(), 0);
}

Test(ticket, the_end_of_a_brief_answered_hold_names_its_lease)
{
    wait_in_queue(&ann);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    win(&ann);
    cr_assert_eq(short_hold_ms(), LEASE);
}

/* --- leaving Redis' queue --- */

Test(ticket, the_next_has_the_ticket_of_a_leaving_head_waiter)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    cr_assert_not(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(bob.waiter.h, h);
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 100);
    (void)queue(&bob);
    cr_assert_not(hlk_entry_wait(e, &bob.waiter, false));
    cr_assert(hlk_entry_grant(e, h, HLK_GRANT_MS, 0, 0)); /* for the head waiter of that time */
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first, HLK_GRANT_MS));
    cr_assert_eq(count_of(&ann), 0u);
    release(&bob);
}

/* bob's wait cannot use ann's ticket: a release is owed, then bob sends for itself. */
static bool owes_an_end(bool in_flight)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    bool owes = hlk_entry_leave(e, &ann.waiter, in_flight) && e->state == HLK_ENTRY_RELEASING && bob.woken == 0 &&
                bob.waiter.h == 0;
    if (owes)
        hlk_entry_leave_finish(e);
    owes = owes && bob.woken == 1 && bob.waiter.h > h && e->state == HLK_ENTRY_ACQUIRING;
    if (hlk_entry_leave(e, &bob.waiter, false))
        hlk_entry_leave_finish(e);
    return owes;
}

Test(ticket, a_wait_with_another_lease_has_no_others_ticket)
{
    cr_assert_not(owes_an_end(false));
    born(&bob);
    bob.waiter.lease_ms = LEASE + 1;
    cr_assert(owes_an_end(false));
    born(&bob);
    bob.waiter.fixed = true;
    cr_assert(owes_an_end(false));
    born(&bob);
    bob.waiter.fenced = true;
    cr_assert(owes_an_end(false));
}

Test(ticket, a_wait_for_higher_tokens_has_no_others_ticket)
{
    ann.waiter.fenced = bob.waiter.fenced = true;
    ann.waiter.floor = bob.waiter.floor = 5;
    cr_assert_not(owes_an_end(false));
    born(&bob);
    bob.waiter.fenced = true;
    bob.waiter.floor = 6;
    cr_assert(owes_an_end(false));
}

Test(ticket, one_try_has_no_others_ticket)
{
    enter(&ann);
    (void)queue(&ann);
    bob.waiter.once = true;
    enter(&bob);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false)); /* before bob has checked */
    hlk_entry_leave_finish(e);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

/* One cancel for all: the successor becomes the head waiter and is cancelled at the same time. */
Test(ticket, a_successor_leaving_before_asking_owes_the_end)
{
    uint64_t h = wait_in_queue(&ann);
    struct hlk_member member = e->hold.ticket->member;
    enter(&bob);
    cr_assert_not(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert_eq(bob.waiter.h, h);
    cr_assert(hlk_entry_leave(e, &bob.waiter, false));
    hlk_entry_release_record(e, &record);
    cr_assert_eq(record.h, h);
    cr_assert_eq(record.member.since_ms, member.since_ms);
    hlk_entry_leave_finish(e);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(ticket, a_head_waiter_leaving_in_an_attempt_owes_an_end)
{
    cr_assert(owes_an_end(true));
    born(&bob);
    enter(&ann); /* also if that attempt took no ticket */
    cr_assert(hlk_entry_leave(e, &ann.waiter, true));
    cr_assert_eq(e->state, HLK_ENTRY_RELEASING);
    hlk_entry_leave_finish(e);
}

Test(ticket, an_unanswered_head_waiter_that_leaves_owes_an_end)
{
    wait_in_queue(&ann);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    enter(&bob);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert_eq(bob.waiter.h, 0u);
    hlk_entry_leave_finish(e);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(ticket, a_head_waiter_in_doubt_that_leaves_owes_an_end)
{
    wait_in_queue(&ann);
    hlk_entry_resend(e, &ann.waiter);
    hlk_entry_wait(e, &ann.waiter, true);
    enter(&bob);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    hlk_entry_leave_finish(e);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(ticket, the_last_one_that_leaves_the_queue_owes_an_end)
{
    wait_in_queue(&ann);
    cr_assert(hlk_entry_leave(e, &ann.waiter, false));
    cr_assert_eq(e->state, HLK_ENTRY_RELEASING);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED); /* after the release */
    hlk_entry_leave_finish(e);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}
