/* Leased permits that are passed on: who gets the hold, who asks Redis, and when nothing is passed (permit_line.c). */
#include "lease/entry.h"

#include "entry_fixture.h"
#include "support/wait.h"

#define PASSES 3
#define NUMBER 8

static struct hlk_entry *entries[4], *line;

static struct fake_waiter *const all[] = { &ann, &bob, &cid, &dan };

/* The helpers of the fixture are about `e`: from now on p's. */
static struct fake_waiter *of(struct fake_waiter *p)
{
    for (int i = 0; i < 4; i++)
        if (all[i] == p)
            e = entries[i];
    return p;
}

static struct hlk_entry *entry_of_holder(uint64_t holder)
{
    return hlk_entry_get_own(&unit.node, &hlk_format_permit, "a", 1, holder, true);
}

static void init(void)
{
    unit_open();
    unit.table.local_passes = PASSES;
    line = entry_of_holder(UINT64_MAX - NUMBER);
    for (int i = 0; i < 4; i++) {
        born(all[i]);
        entries[i] = entry_of_holder(all[i]->waiter.holder.id);
        all[i]->waiter.line = line;
    }
    peer_up(&unit.peer);
    hold(of(&dan)); /* holds are brief */
    release(&dan);
}

static void leaves(struct fake_waiter *p)
{
    of(p);
    if (hlk_entry_leave(e, &p->waiter, false))
        hlk_entry_leave_finish(e);
}

static void fini(void)
{
    for (int i = 0; i < 4; i++)
        leaves(all[i]);
    for (int i = 0; i < 4; i++) {
        of(all[i]);
        if (e->state == HLK_ENTRY_HELD)
            release(all[i]);
    }
    TEARDOWN_ASSERT(line->count == 0);
    TEARDOWN_ASSERT(hlk_list_empty(&line->waiters));
    TEARDOWN_ASSERT(!line->hold.ticket || line->hold.ticket->in_use == 0);
    for (int i = 0; i < 4; i++)
        hlk_entry_unref(entries[i]);
    hlk_entry_unref(line);
    unit_close();
}

TestSuite(pass_holds, .init = init, .fini = fini, .timeout = 20);

/* dan holds a permit, ann asks Redis, and bob and cid are in line. Returns dan's hold. */
static uint64_t stand(void)
{
    hold(of(&dan));
    uint64_t h = e->hold.id;
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_QUEUED);
    return h;
}

static void has(struct fake_waiter *p, uint64_t h)
{
    struct hlk_view view;
    of(p);
    cr_assert_eq(p->woken, 1);
    cr_assert_eq(hlk_entry_check(e, &p->waiter), HLK_ENTER_ACQUIRED);
    hlk_entry_view(e, p->waiter.holder.id, &view);
    cr_assert_eq(view.count, 1);
    cr_assert_eq(view.h, h);
    cr_assert_gt(view.until_ms, unit_now_ms());
    cr_assert_eq(p->holds, 1);
    cr_assert_eq(held_count(), 1u);
}

static bool passed(struct fake_waiter *p)
{
    enum hlk_let_go verdict = let_go(of(p));
    if (verdict != HLK_LET_PASSED) {
        cr_assert_eq(verdict, HLK_LET_LAST);
        hlk_entry_release_finish(e);
    }
    cr_assert_eq(p->holds, 0);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    return verdict == HLK_LET_PASSED;
}

Test(pass_holds, those_in_line_have_it_in_their_order)
{
    uint64_t h = stand();
    uint64_t asks = ann.waiter.h;
    cr_assert(passed(&dan));
    has(&bob, h);
    cr_assert_eq(cid.woken, 0);
    cr_assert(passed(&bob));
    has(&cid, h);
    cr_assert_eq(ann.waiter.h, asks, "it keeps its place in Redis' queue");
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert_eq(atomic_load(&unit.table.counts.passed), 2u);
    cr_assert_not(passed(&cid), "who asks has nothing from others of its process");
}

Test(pass_holds, one_asks_at_a_time)
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

Test(pass_holds, who_leaves_the_line_has_nothing)
{
    uint64_t h = stand();
    leaves(&bob);
    cr_assert(passed(&dan));
    cr_assert_not(bob.waiter.got);
    has(&cid, h);
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

Test(pass_holds, the_next_thread_of_who_leaves_asks)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, false), HLK_ENTER_QUEUED);
    cr_assert_not(hlk_entry_leave(e, &bob.waiter, false));
    cr_assert_neq(eve.waiter.h, 0u);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
}

Test(pass_holds, one_try_does_not_wait_behind_the_line)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, true), HLK_ENTER_BUSY);
}

Test(pass_holds, the_next_thread_of_who_passes_its_hold_on_asks)
{
    (void)stand();
    cr_assert_eq(eve_enters(&bob, false), HLK_ENTER_QUEUED);
    cr_assert(passed(&dan));
    cr_assert_eq(eve.woken, 1); /* bob's owner has it: eve would nest, but is slow */
    cr_assert_eq(let_go(of(&bob)), HLK_LET_PASSED);
    cr_assert_neq(eve.waiter.h, 0u);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
}

/* --- who asks */

Test(pass_holds, a_wait_asks_while_nobody_knows_whether_there_are_permits)
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

Test(pass_holds, a_wait_asks_while_there_are_permits)
{
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    hold(of(&dan));
    release(&dan);
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_HEAD);
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_HEAD, "no answer was BUSY");
}

Test(pass_holds, one_try_asks)
{
    (void)stand();
    leaves(&cid);
    cid.waiter.once = true;
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(pass_holds, who_comes_later_does_not_overtake_the_line)
{
    (void)stand();
    leaves(&cid);
    peer_passes(&unit.peer, HLK_CONTENDED_MS);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_QUEUED);
    leaves(&ann);
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_eq(cid.waiter.h, 0u);
}

Test(pass_holds, all_ask_after_a_hold_that_was_not_brief)
{
    (void)stand();
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_not(passed(&dan));
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_neq(cid.waiter.h, 0u);
}

Test(pass_holds, all_ask_after_a_hold_that_could_not_be_passed_on)
{
    uint64_t h = stand();
    cr_assert(hlk_entry_show_hold(entries[3], dan.waiter.holder.id, h));
    cr_assert_not(passed(&dan));
    cr_assert_neq(bob.waiter.h, 0u);
    cr_assert_neq(cid.waiter.h, 0u);
}

Test(pass_holds, the_line_stays_after_a_brief_hold_whose_turn_is_over)
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
    hlk_permit_line_on_alarm(line);
    hlk_mutex_unlock(line->mu);
}

static bool alarm_is_set(void)
{
    return hlk_list_linked(&line->hold.alarm.timer.link) && line->hold.ticket->asks_ms > 0;
}

Test(pass_holds, who_will_be_passed_one_need_not_ask)
{
    circulate();
    cr_assert(passed(&ann));
    cr_assert_eq(hlk_entry_check(entries[2], &cid.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_QUEUED, "nor a new one");
    cr_assert(waits_for_a_pass(&ann));
    cr_assert(alarm_is_set());
}

Test(pass_holds, it_asks_when_none_was_passed_on_for_a_while)
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

Test(pass_holds, it_asks_when_more_wait_than_have_one)
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

Test(pass_holds, it_asks_when_a_hold_goes_to_redis)
{
    circulate();
    entries[0]->hold.lease.asked_ms = unit_now_ms();
    cr_assert_not(passed(&ann));
    cr_assert(asks(&cid));
}

Test(pass_holds, it_asks_when_the_last_hold_is_lost)
{
    circulate();
    of(&ann);
    lose();
    cr_assert(waits_for_a_pass(&cid), "bob has one");
    of(&bob);
    lose();
    cr_assert(asks(&cid));
    cr_assert_eq(let_go(of(&ann)), HLK_LET_LOST);
    cr_assert_eq(let_go(of(&bob)), HLK_LET_LOST);
}

Test(pass_holds, the_next_one_waits_when_it_leaves)
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

Test(pass_holds, who_is_passed_one_does_not_ask_though_permits_are_not_short_now)
{
    circulate();
    line->hold.ticket->busy_ms -= HLK_CONTENDED_MS;
    cr_assert(passed(&bob));
    cr_assert_eq(hlk_entry_check(entries[2], &cid.waiter), HLK_ENTER_ACQUIRED);
}

Test(pass_holds, a_new_one_asks_if_no_hold_is_here)
{
    circulate();
    leaves(&cid);
    release(of(&bob));
    release(of(&ann));
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(pass_holds, a_new_one_asks_if_none_was_passed_on)
{
    circulate();
    leaves(&cid);
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

Test(pass_holds, a_new_one_asks_if_permits_are_not_short)
{
    circulate();
    leaves(&cid);
    line->hold.ticket->busy_ms -= HLK_CONTENDED_MS;
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_HEAD);
}

/* Its entry had no line when it began to ask, or was acquired. */
Test(pass_holds, a_hold_with_a_fixed_lease_counts_when_another_thread_of_its_owner_waits)
{
    ann.waiter.line = NULL;
    hold_fixed(of(&ann), LEASE);
    e->unreported = true;
    cr_assert_eq(eve_enters(&ann, false), HLK_ENTER_QUEUED);
    cr_assert_eq(line->hold.ticket->in_use, 1);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
    release(&ann);
    cr_assert_eq(line->hold.ticket->in_use, 0);
}

Test(pass_holds, one_with_a_fixed_lease_counts_when_another_thread_of_its_owner_waits)
{
    ann.waiter.line = NULL;
    cr_assert_eq(enter(of(&ann)), HLK_ENTER_HEAD);
    cr_assert_eq(eve_enters(&ann, false), HLK_ENTER_QUEUED);
    cr_assert_eq(line->count, 1u);
    win(&ann);
    cr_assert_eq(line->count, 0u);
    cr_assert_eq(line->hold.ticket->in_use, 1);
    cr_assert_not(hlk_entry_leave(e, &eve.waiter, false));
    release(&ann);
    cr_assert_eq(line->hold.ticket->in_use, 0);
}

/* --- what is not passed on */

Test(pass_holds, another_number_goes_to_redis)
{
    struct hlk_entry *other = entry_of_holder(UINT64_MAX - NUMBER - 1);
    dan.waiter.line = other;
    hold(of(&dan));
    hlk_entry_unref(other);
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_whose_id_was_told_stays_its_holders)
{
    uint64_t h = stand();
    cr_assert(hlk_entry_show_hold(entries[3], dan.waiter.holder.id, h));
    cr_assert_not(passed(&dan));
}

Test(pass_holds, the_id_of_one_that_was_passed_on_is_not_told_to_its_old_holder)
{
    uint64_t h = stand();
    cr_assert(passed(&dan));
    cr_assert_not(hlk_entry_show_hold(entries[3], dan.waiter.holder.id, h));
    cr_assert_not(hlk_entry_show_hold(entries[1], dan.waiter.holder.id, h));
    cr_assert(passed(&bob));
}

Test(pass_holds, one_that_an_event_was_about_stays_its_holders)
{
    (void)stand();
    hlk_mutex_lock(entries[3]->mu);
    hlk_entry_notify(entries[3], HLK_EVENT_SAFE, "renewed");
    hlk_mutex_unlock(entries[3]->mu);
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_in_doubt_goes_to_redis)
{
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_HEAD);
    cr_assert(hlk_entry_acquired(e, &dan.waiter, unit_now_ms(), 0, true));
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_not(passed(&dan));
}

/* The message would find that its hold is not dan's any more, and hand it back. */
Test(pass_holds, one_that_redis_may_have_granted_too_goes_to_redis)
{
    (void)wait_in_queue(of(&dan));
    cr_assert(hlk_entry_resend(e, &dan.waiter));
    win(&dan);
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_that_was_free_is_passed_on_even_if_it_might_have_had_a_ticket)
{
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_HEAD);
    (void)queue(&dan);
    win(&dan);
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert(passed(&dan));
}

Test(pass_holds, one_that_was_granted_is_passed_on)
{
    uint64_t h = wait_in_queue(of(&dan));
    cr_assert(hlk_entry_grant(e, h, LEASE, 0, 0));
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert(passed(&dan));
    has(&bob, h);
}

Test(pass_holds, one_with_a_fixed_lease_goes_to_redis)
{
    dan.waiter.line = NULL;
    hold_fixed(of(&dan), LEASE);
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_whose_lease_is_being_raised_goes_to_redis)
{
    uint64_t h = stand();
    cr_assert(hlk_entry_raise_begin(entries[3], h, LEASE, &record));
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_whose_renewal_is_about_to_be_sent_goes_to_redis)
{
    (void)stand();
    entries[3]->hold.lease.asked_ms = unit_now_ms();
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_whose_lease_is_nearly_over_goes_to_redis)
{
    cr_assert_eq(enter(of(&dan)), HLK_ENTER_HEAD);
    cr_assert(hlk_entry_acquired(e, &dan.waiter, unit_now_ms() - 2 * LEASE / 3, 0, false));
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_not(passed(&dan));
}

Test(pass_holds, one_that_was_lost_is_nobodys)
{
    (void)stand();
    of(&dan);
    lose();
    cr_assert_eq(let_go(&dan), HLK_LET_LOST);
    cr_assert_eq(bob.woken, 0);
}

Test(pass_holds, no_more_often_than_local_passes)
{
    struct fake_waiter *const order[] = { &dan, &bob, &cid };
    (void)stand();
    for (int i = 0; i < PASSES; i++) {
        struct fake_waiter *p = order[i % 3];
        cr_assert(passed(p), "%d", i);
        cr_assert_eq(enter(p), HLK_ENTER_QUEUED);
    }
    cr_assert_not(passed(order[PASSES % 3]));
}

Test(pass_holds, no_longer_than_their_time)
{
    (void)stand();
    peer_passes(&unit.peer, HLK_PASS_MS - 1);
    cr_assert(passed(&dan));
    of(&ann);
    cr_assert(hlk_entry_grant(e, ann.waiter.h, LEASE, 0, 0)); /* its time begins now, but not that of the other one */
    peer_passes(&unit.peer, 1);
    cr_assert_not(passed(&bob));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert(passed(&ann));
    leaves(&cid);
}

static void release_dans(struct hlk_entry *visited, void *ctx)
{
    bool *done = ctx;
    (void)visited;
    if (!*done)
        cr_assert_not(passed(&dan));
    *done = true;
}

/* A walk that has passed bob's entry and comes to dan's later would miss the hold. */
Test(pass_holds, none_while_all_entries_are_visited)
{
    bool done = false;
    (void)stand();
    hlk_entry_table_each(&unit.table, release_dans, &done);
    cr_assert(done);
}

Test(pass_holds, none_without_local_passes)
{
    unit.table.local_passes = 0;
    (void)stand();
    cr_assert_not(passed(&dan));
}

/* --- what changes with its holder */

Test(pass_holds, max_hold_is_that_of_the_new_holder)
{
    struct hlk_view view;
    (void)stand();
    bob.waiter.max_hold_ms = LEASE / 2;
    cr_assert(passed(&dan));
    hlk_entry_view(entries[1], bob.waiter.holder.id, &view);
    cr_assert_eq(view.cap_ms, unit_now_ms() + LEASE / 2);
    cr_assert_eq(view.until_ms, view.cap_ms);
    cr_assert_not(passed(&bob), "no renewal lengthens it");
}

/* Its completion would come before that of its owner's release. */
Test(pass_holds, a_completion_waits_for_that_of_the_release_before)
{
    (void)stand();
    bob.waiter.completes = true;
    hlk_entry_release_unreported(entries[1]);
    cr_assert_not(passed(&dan));
    hlk_entry_release_reported(entries[1]);
}
