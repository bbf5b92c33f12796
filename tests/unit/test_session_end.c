/* Who holds ends without letting go: a thread or an owner, or the client by its close. */
#include "lease/session.h"

#include "people.h"

static bool ending; /* of hlk_session_close */

TestSuite(session_end, .init = people_meet, .fini = people_part, .timeout = 20);

/* --- holders that end without letting go --- */

Test(session_end, an_orphan_is_renewed_no_more_and_told)
{
    hold(&ann);
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert_str_eq(world_tells(), "ORPHANED a;");
    cr_assert_eq(s->lease.state, HLK_LEASE_ORPHANED);
    cr_assert_eq(atomic_load(&world.table.counts.orphaned), 1u);
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert_str_eq(world_tells(), "");
    peer_passes(&world.peer, LEASE);
    hlk_watchdog_fire(&s->alarm);
    cr_assert_str_eq(world_tells(), ""); /* nobody is left to hear of the loss */
    cr_assert_eq(s->state, HLK_SESSION_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 1u); /* not touched: the memory may be another's */
    cr_assert_eq(atomic_load(&world.table.counts.lost), 0u);
    cr_assert_eq(held_count(), 0u);
}

Test(session_end, an_orphan_of_another_is_none)
{
    hold(&ann);
    hlk_session_orphan(s, bob.turn.holder.id);
    cr_assert_str_eq(world_tells(), "");
    release(&ann);
}

Test(session_end, behind_an_orphan_the_line_waits_for_its_lease)
{
    hold(&ann);
    enter(&bob);
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert_eq(bob.woken, 0);
    peer_passes(&world.peer, LEASE);
    hlk_watchdog_fire(&s->alarm);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

Test(session_end, a_dead_holders_losses_are_forgotten)
{
    hold(&ann);
    lose();
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_str_eq(world_tells(), "LOST a;");
}

Test(session_end, a_holder_may_die_while_its_hold_ends)
{
    hold(&ann);
    cr_assert(hlk_session_close(s, &parting, &ending));
    hlk_session_orphan(s, ann.turn.holder.id);
    atomic_store(&ann.holds, 0); /* the memory is another holder's now */
    hlk_session_ended(s);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_str_eq(world_tells(), "");
}

Test(session_end, orphans_are_found_in_every_lock)
{
    struct hlk_session *other = world_session("b");
    hold(&ann);
    hlk_session_enter(other, &bob.turn);
    same_owner(&bob, &ann);
    cr_assert(hlk_session_won(other, &bob.turn, world_now_ms(), 0, false));
    hlk_holder_orphan(&world.table, ann.turn.holder.id);
    cr_assert_eq(s->lease.state, HLK_LEASE_ORPHANED);
    cr_assert_eq(other->lease.state, HLK_LEASE_ORPHANED);
    peer_passes(&world.peer, LEASE);
    hlk_watchdog_fire(&s->alarm);
    hlk_watchdog_fire(&other->alarm);
    hlk_session_unref(other);
}

/* --- close --- */

Test(session_end, close_takes_what_is_held)
{
    hold(&ann);
    enter(&ann);
    uint64_t h = s->h;
    cr_assert(hlk_session_close(s, &parting, &ending));
    cr_assert_eq(parting.h, h);
    cr_assert_eq(held_count(), 0u);
    hlk_session_ended(s);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(session_end, close_takes_orphans_too)
{
    hold(&ann);
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert(hlk_session_close(s, &parting, &ending));
    hlk_session_ended(s);
    cr_assert_eq(held_count(), 0u);
}

Test(session_end, close_takes_nothing_that_is_not_held)
{
    cr_assert_not(hlk_session_close(s, &parting, &ending));
    enter(&ann);
    cr_assert_not(hlk_session_close(s, &parting, &ending));
    hlk_session_leave(s, &ann.turn, false);
    cr_assert_not(ending);
    hold(&bob);
    let_go(&bob);
    cr_assert_not(hlk_session_close(s, &parting, &ending));
    cr_assert(ending); /* its end is on its way */
    hlk_session_ended(s);
    cr_assert_not(hlk_session_close(s, &parting, &ending));
    cr_assert_not(ending);
}
