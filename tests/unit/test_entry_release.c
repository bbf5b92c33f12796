/* Holders that end without a release: a thread or an owner, and the client at its close. */
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

#include "entry_fixture.h"

static bool ending; /* of hlk_entry_close */

TestSuite(entry_release, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- holders that end without a release --- */

Test(entry_release, an_orphan_is_renewed_no_more_and_told)
{
    hold(&ann);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert_str_eq(unit_tells(), "ORPHANED a;");
    cr_assert_eq(e->hold.lease.state, HLK_LEASE_ORPHANED);
    cr_assert_eq(atomic_load(&unit.table.counts.orphaned), 1u);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert_str_eq(unit_tells(), "");
    peer_passes(&unit.peer, LEASE);
    hlk_watchdog_fire(&e->hold.alarm);
    cr_assert_str_eq(unit_tells(), ""); /* no holder is left to which the loss could be reported */
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 1u); /* unchanged: the memory may be another holder's */
    cr_assert_eq(atomic_load(&unit.table.counts.lost), 0u);
    cr_assert_eq(held_count(), 0u);
}

Test(entry_release, an_orphan_of_another_is_none)
{
    hold(&ann);
    hlk_entry_orphan(e, bob.waiter.holder.id);
    cr_assert_str_eq(unit_tells(), "");
    release(&ann);
}

Test(entry_release, behind_an_orphan_the_queue_waits_for_its_lease)
{
    hold(&ann);
    enter(&bob);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert_eq(bob.woken, 0);
    peer_passes(&unit.peer, LEASE);
    hlk_watchdog_fire(&e->hold.alarm);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(entry_release, a_dead_holders_losses_are_forgotten)
{
    hold(&ann);
    lose();
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_str_eq(unit_tells(), "LOST a;");
}

Test(entry_release, a_holder_may_die_while_its_hold_ends)
{
    hold(&ann);
    cr_assert(hlk_entry_close(e, &record, &ending));
    hlk_entry_orphan(e, ann.waiter.holder.id);
    atomic_store(&ann.holds, 0); /* the memory is another holder's now */
    hlk_entry_release_finish(e);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_str_eq(unit_tells(), "");
}

Test(entry_release, orphans_are_found_in_every_lock)
{
    struct hlk_entry *other = unit_entry("b");
    hold(&ann);
    hlk_entry_enter(other, &bob.waiter);
    same_owner(&bob, &ann);
    cr_assert(hlk_entry_acquired(other, &bob.waiter, unit_now_ms(), 0, false));
    hlk_holder_orphan(&unit.table, ann.waiter.holder.id);
    cr_assert_eq(e->hold.lease.state, HLK_LEASE_ORPHANED);
    cr_assert_eq(other->hold.lease.state, HLK_LEASE_ORPHANED);
    peer_passes(&unit.peer, LEASE);
    hlk_watchdog_fire(&e->hold.alarm);
    hlk_watchdog_fire(&other->hold.alarm);
    hlk_entry_unref(other);
}

/* --- close --- */

Test(entry_release, close_takes_what_is_held)
{
    hold(&ann);
    enter(&ann);
    uint64_t h = e->hold.id;
    cr_assert(hlk_entry_close(e, &record, &ending));
    cr_assert_eq(record.h, h);
    cr_assert_eq(held_count(), 0u);
    hlk_entry_release_finish(e);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(entry_release, close_takes_orphans_too)
{
    hold(&ann);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert(hlk_entry_close(e, &record, &ending));
    hlk_entry_release_finish(e);
    cr_assert_eq(held_count(), 0u);
}

Test(entry_release, close_takes_nothing_that_is_not_held)
{
    cr_assert_not(hlk_entry_close(e, &record, &ending));
    enter(&ann);
    cr_assert_not(hlk_entry_close(e, &record, &ending));
    hlk_entry_leave(e, &ann.waiter, false);
    cr_assert_not(ending);
    hold(&bob);
    let_go(&bob);
    cr_assert_not(hlk_entry_close(e, &record, &ending));
    cr_assert(ending); /* its release is pending */
    hlk_entry_release_finish(e);
    cr_assert_not(hlk_entry_close(e, &record, &ending));
    cr_assert_not(ending);
}
