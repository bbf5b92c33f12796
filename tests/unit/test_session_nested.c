/* Nested holds: their count, and the round trips that raise a lease. */
#include "lease/session.h"

#include "people.h"

TestSuite(session_nested, .init = people_meet, .fini = people_part, .timeout = 20);

Test(session_nested, nested_is_a_count)
{
    unsigned count = 0;
    hold(&ann);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_NESTED);
    cr_assert_eq(count, 2u);
    cr_assert_eq(enter(&ann), HLK_ENTER_NESTED);
    cr_assert_eq(count_of(&ann), 3u);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    release(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
}

Test(session_nested, only_a_holder_nests)
{
    unsigned count = 0;
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LINE);
    hold(&ann);
    cr_assert_eq(nest_with(&bob, 0, &count), HLK_ENTER_LINE);
    let_go(&ann);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LINE); /* ENDING */
    hlk_session_ended(s);
}

Test(session_nested, nesting_with_a_fixed_lease_is_written)
{
    unsigned count = 0;
    hold(&ann);
    cr_assert_eq(nest_with(&ann, 5000, &count), HLK_ENTER_RAISE);
    cr_assert_eq(count, 2u);
    hlk_session_raised(s, s->h, count, world_now_ms(), 5000, false);
    cr_assert_eq(let_go(&ann), HLK_LET_WRITE); /* Redis has 2 */
    cr_assert_eq(parting.count, 1u);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_NESTED);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    release(&ann);
}

Test(session_nested, a_watchdog_within_a_fixed_lease_is_written)
{
    unsigned count = 0;
    hold_fixed(&ann, 5000);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_RAISE);
    hlk_session_raised(s, s->h, count, world_now_ms(), LEASE, true);
    cr_assert_not(s->lease.fixed);
    cr_assert_eq(s->lease.lease_ms, LEASE);
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(world_now_ms(), LEASE));
    let_go(&ann);
    release(&ann);
}

Test(session_nested, a_raise_of_another_hold_changes_nothing)
{
    hold(&ann);
    uint64_t h = s->h;
    release(&ann);
    hold_fixed(&bob, 5000);
    hlk_session_raised(s, h, 7, world_now_ms(), 60000, true);
    cr_assert(s->lease.fixed);
    cr_assert_eq(s->written, 1u);
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(world_now_ms(), 5000));
    release(&bob);
}

Test(session_nested, an_extension_makes_a_hold_at_risk_safe)
{
    hold_fixed(&ann, 5000);
    hlk_mutex_lock(s->mu);
    hlk_lease_move(&s->lease, HLK_LEASE_AT_RISK);
    hlk_mutex_unlock(s->mu);
    hlk_session_raised(s, s->h, 1, world_now_ms(), 60000, false);
    cr_assert_str_eq(world_tells(), "SAFE a;");
    release(&ann);
}

/* The end of a hold is tried until Redis' ttl is over, by whichever answer made it longest. */
Test(session_nested, an_end_is_owed_as_long_as_the_longest_lease)
{
    int64_t now = world_now_ms();
    hold_fixed(&ann, 1000);
    hlk_session_raised(s, s->h, 1, now, 60000, false);
    cr_assert_eq(let_go(&ann), HLK_LET_LAST);
    cr_assert_geq(parting.until_ms, now + 60000);
    hlk_session_ended(s);
}

Test(session_nested, a_raise_that_failed_is_one_hold_less)
{
    unsigned count;
    hold(&ann);
    nest_with(&ann, 5000, &count);
    hlk_session_lower(s, ann.turn.holder.id, s->h);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(session_nested, a_raise_that_failed_lowers_its_own_hold_only)
{
    unsigned count;
    hold(&ann);
    uint64_t h = s->h;
    release(&ann);
    hold(&ann);
    nest_with(&ann, 0, &count);
    hlk_session_lower(s, ann.turn.holder.id, h);
    hlk_session_lower(s, bob.turn.holder.id, s->h);
    cr_assert_eq(count_of(&ann), 2u);
    let_go(&ann);
    release(&ann);
}

static void fails_to_raise_after(void (*loses)(void))
{
    unsigned count;
    hold(&ann);
    uint64_t h = s->h;
    nest_with(&ann, 5000, &count);
    loses();
    hlk_session_lower(s, ann.turn.holder.id, h);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(session_nested, a_raise_that_failed_after_a_loss_is_one_release_less)
{
    fails_to_raise_after(lose);
    fails_to_raise_after(lose_without_memory);
}

/* Two threads of an owner: one nests, the other releases, then the nested one's round trip fails. */
Test(session_nested, a_raise_that_failed_may_be_the_last_hold)
{
    unsigned count;
    hold(&ann);
    nest_with(&ann, 5000, &count);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    hlk_session_lower(s, ann.turn.holder.id, s->h);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(hlk_undos_count(&world.undos), 1u); /* its end is on its way */
}

Test(session_nested, the_same_owner_in_line_nests_when_it_is_held)
{
    same_owner(&bob, &ann);
    enter(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    enter(&cid);
    win(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_NESTED);
    cr_assert_not(hlk_list_linked(&bob.turn.link));
    cr_assert_eq(count_of(&ann), 2u);
    let_go(&ann);
    release(&bob);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &cid.turn, false);
}

Test(session_nested, the_same_owner_in_line_is_lost_when_it_was_lost)
{
    same_owner(&bob, &ann);
    enter(&ann);
    enter(&bob);
    win(&ann);
    lose();
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_LOST);
    hlk_session_leave(s, &bob.turn, false);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}
