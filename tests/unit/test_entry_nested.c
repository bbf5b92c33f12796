/* Nested holds: their count, and the round trips that raise a lease. */
/* Shows: P26 */
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "script/release_list.h"

#include "entry_fixture.h"

TestSuite(entry_nested, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

Test(entry_nested, nested_is_a_count)
{
    unsigned count = 0;
    hold(&ann);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_NESTED);
    cr_assert_eq(count, 2u);
    cr_assert_eq(enter(&ann), HLK_ENTER_NESTED);
    cr_assert_eq(count_of(&ann), 3u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    release(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
}

/* --- holds that may not nest --- */

Test(entry_nested, forbidden_nesting_is_a_deadlock_and_counts_nothing)
{
    hold(&ann);
    ann.waiter.no_nesting = true;
    for (int once = 0; once < 2; once++) {
        ann.waiter.once = once;
        cr_assert_eq(enter(&ann), HLK_ENTER_DEADLOCK);
        cr_assert_eq(count_of(&ann), 1u);
        cr_assert_not(hlk_list_linked(&ann.waiter.link));
    }
    release(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
}

Test(entry_nested, forbidden_nesting_in_a_fixed_lease_raises_nothing)
{
    hold_fixed(&ann, 5000);
    ann.waiter.no_nesting = true;
    cr_assert_eq(enter(&ann), HLK_ENTER_DEADLOCK);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

/* no_nesting belongs to the handle: another handle on the same lock may nest. */
Test(entry_nested, a_holder_nests_by_another_handle)
{
    ann.waiter.no_nesting = true;
    hold(&ann);
    ann.waiter.no_nesting = false;
    cr_assert_eq(enter(&ann), HLK_ENTER_NESTED);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    release(&ann);
}

Test(entry_nested, without_nesting_waits_for_others_and_own_release)
{
    ann.waiter.no_nesting = bob.waiter.no_nesting = true;
    hold(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    cr_assert_eq(enter(&ann), HLK_ENTER_QUEUED, "its end is on its way");
    hlk_entry_release_finish(e);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    win(&bob);
    release(&bob);
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_HEAD);
    win(&ann);
    release(&ann);
}

/* Two threads of one owner: the second is queued when the first acquires. */
Test(entry_nested, an_owners_queued_second_thread_is_in_a_deadlock)
{
    ann.waiter.no_nesting = bob.waiter.no_nesting = true;
    same_owner(&bob, &ann);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_QUEUED);
    win(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_DEADLOCK);
    cr_assert_not(hlk_list_linked(&bob.waiter.link));
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(entry_nested, who_may_not_nest_hears_of_a_loss_first)
{
    ann.waiter.no_nesting = true;
    hold_fixed(&ann, 5000);
    peer_passes(&unit.peer, 6000);
    cr_assert_eq(enter(&ann), HLK_ENTER_LOST, "the lease is over, and nobody has said so");
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    hold(&ann);
    lose();
    cr_assert_eq(enter(&ann), HLK_ENTER_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
}

Test(entry_nested, only_a_holder_nests)
{
    unsigned count = 0;
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_QUEUED);
    hold(&ann);
    cr_assert_eq(nest_with(&bob, 0, &count), HLK_ENTER_QUEUED);
    let_go(&ann);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_QUEUED); /* RELEASING */
    hlk_entry_release_finish(e);
}

Test(entry_nested, nesting_with_a_fixed_lease_is_written)
{
    unsigned count = 0;
    hold(&ann);
    cr_assert_eq(nest_with(&ann, 5000, &count), HLK_ENTER_RAISE);
    cr_assert_eq(count, 2u);
    hlk_entry_raise_done(e, e->hold.id, count, unit_now_ms(), 5000, false);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_WRITE); /* Redis has 2 */
    cr_assert_eq(record.count, 1u);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_NESTED);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    release(&ann);
}

Test(entry_nested, a_watchdog_within_a_fixed_lease_is_written)
{
    unsigned count = 0;
    hold_fixed(&ann, 5000);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_RAISE);
    hlk_entry_raise_done(e, e->hold.id, count, unit_now_ms(), LEASE, true);
    cr_assert_not(e->hold.lease.fixed);
    cr_assert_eq(e->hold.lease.lease_ms, LEASE);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), LEASE));
    let_go(&ann);
    release(&ann);
}

Test(entry_nested, a_raise_of_another_hold_changes_nothing)
{
    hold(&ann);
    uint64_t h = e->hold.id;
    release(&ann);
    hold_fixed(&bob, 5000);
    hlk_entry_raise_done(e, h, 7, unit_now_ms(), 60000, true);
    cr_assert(e->hold.lease.fixed);
    cr_assert_eq(e->hold.written, 1u);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), 5000));
    release(&bob);
}

Test(entry_nested, an_extension_makes_a_hold_at_risk_safe)
{
    hold_fixed(&ann, 5000);
    hlk_mutex_lock(e->mu);
    hlk_lease_move(&e->hold.lease, HLK_LEASE_AT_RISK);
    hlk_mutex_unlock(e->mu);
    hlk_entry_raise_done(e, e->hold.id, 1, unit_now_ms(), 60000, false);
    cr_assert_str_eq(unit_tells(), "SAFE a;");
    release(&ann);
}

/* A call has compared the clock by then and returned LOST, which is final. */
Test(entry_nested, a_raise_answered_after_the_lease_revives_nothing)
{
    unsigned count;
    hold_fixed(&ann, 1000);
    int64_t sent = unit_now_ms();
    peer_passes(&unit.peer, e->hold.lease.until_ms - sent);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
    cr_assert_not(hlk_entry_raise_done(e, e->hold.id, 1, sent, 60000, false));
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_str_eq(unit.why, "its fixed lease is over");
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
}

/* A release is repeated until Redis' ttl is over, by the reply that made it longest. */
Test(entry_nested, an_end_is_owed_as_long_as_the_longest_lease)
{
    int64_t now = unit_now_ms();
    hold_fixed(&ann, 1000);
    hlk_entry_raise_done(e, e->hold.id, 1, now, 60000, false);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    cr_assert_geq(record.until_ms, now + 60000);
    hlk_entry_release_finish(e);
}

Test(entry_nested, a_raise_that_failed_is_one_hold_less)
{
    unsigned count;
    hold(&ann);
    nest_with(&ann, 5000, &count);
    hlk_entry_raise_undo(e, ann.waiter.holder.id, e->hold.id);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(entry_nested, a_raise_that_failed_lowers_its_own_hold_only)
{
    unsigned count;
    hold(&ann);
    uint64_t h = e->hold.id;
    release(&ann);
    hold(&ann);
    nest_with(&ann, 0, &count);
    hlk_entry_raise_undo(e, ann.waiter.holder.id, h);
    hlk_entry_raise_undo(e, bob.waiter.holder.id, e->hold.id);
    cr_assert_eq(count_of(&ann), 2u);
    let_go(&ann);
    release(&ann);
}

static void fails_to_raise_after(void (*loses)(void))
{
    unsigned count;
    hold(&ann);
    uint64_t h = e->hold.id;
    nest_with(&ann, 5000, &count);
    loses();
    hlk_entry_raise_undo(e, ann.waiter.holder.id, h);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(entry_nested, a_failed_raise_after_a_loss_is_one_release_less)
{
    fails_to_raise_after(lose);
    fails_to_raise_after(lose_without_memory);
}

/* Two threads of an owner: one nests, the other releases, then the nested one's round trip fails. */
Test(entry_nested, a_raise_that_failed_may_be_the_last_hold)
{
    unsigned count;
    hold(&ann);
    nest_with(&ann, 5000, &count);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    hlk_entry_raise_undo(e, ann.waiter.holder.id, e->hold.id);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u); /* its release is pending */
}

Test(entry_nested, the_same_owner_in_queue_nests_when_it_is_held)
{
    same_owner(&bob, &ann);
    enter(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    enter(&cid);
    win(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_NESTED);
    cr_assert_not(hlk_list_linked(&bob.waiter.link));
    cr_assert_eq(count_of(&ann), 2u);
    let_go(&ann);
    release(&bob);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &cid.waiter, false);
}

Test(entry_nested, the_same_owner_in_queue_is_lost_when_it_was_lost)
{
    same_owner(&bob, &ann);
    enter(&ann);
    enter(&bob);
    win(&ann);
    lose();
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_LOST);
    hlk_entry_leave(e, &bob.waiter, false);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}
