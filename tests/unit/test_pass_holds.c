/* Leased permits that are passed on: who gets the hold, and when nothing is passed (src/lease/pass_holds.c). */
/* Shows: P50 */
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "permit_fixture.h"

TestSuite(pass_holds, .init = permits_begin, .fini = permits_end, .timeout = 20);

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

Test(pass_holds, who_leaves_the_line_has_nothing)
{
    uint64_t h = stand();
    leaves(&bob);
    cr_assert(passed(&dan));
    cr_assert_not(bob.waiter.got);
    has(&cid, h);
}

/* --- what is not passed on */

Test(pass_holds, another_number_goes_to_redis)
{
    struct hlk_entry *other = entry_of_holder(UINT64_MAX - PERMIT_NUMBER - 1);
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

Test(pass_holds, the_old_holder_is_not_told_the_id_after_the_pass)
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

Test(pass_holds, one_that_was_free_is_passed_on_despite_a_ticket)
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

Test(pass_holds, one_about_to_be_renewed_goes_to_redis)
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
    cr_assert_eq(let_go(&dan), HLK_VERDICT_LOST);
    cr_assert_eq(bob.woken, 0);
}

Test(pass_holds, no_more_often_than_local_passes)
{
    struct fake_waiter *const order[] = { &dan, &bob, &cid };
    (void)stand();
    for (int i = 0; i < PERMIT_PASSES; i++) {
        struct fake_waiter *p = order[i % 3];
        cr_assert(passed(p), "%d", i);
        cr_assert_eq(enter(p), HLK_ENTER_QUEUED);
    }
    cr_assert_not(passed(order[PERMIT_PASSES % 3]));
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
