/* The session's place in Redis' queue: what it asks for, the grant that comes of it, and who has it after a wait that
 * leaves. No server; the clock is played. */
#include "lease/session.h"

#include "people.h"

TestSuite(place, .init = people_meet, .fini = people_part, .timeout = 20);

/* --- the place in Redis' queue --- */

Test(place, a_place_of_the_watchdogs_is_granted_for_a_short_time)
{
    enter(&ann);
    cr_assert_eq(queue(&ann).ttl_ms, HLK_GRANT_MS);
    hlk_session_renumber(s, &ann.turn);
    ann.turn.lease_ms = 2000;
    cr_assert_eq(queue(&ann).ttl_ms, 2000);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
}

Test(place, a_place_of_a_fixed_lease_is_granted_for_that)
{
    ann.turn.fixed = true;
    enter(&ann);
    cr_assert_eq(queue(&ann).ttl_ms, LEASE);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
}

Test(place, a_place_is_the_same_in_all_copies)
{
    world.table.local_passes = 64;
    ann.turn.fenced = true;
    enter(&ann);
    struct hlk_member first = queue(&ann);
    enter(&bob);
    peer_passes(&world.peer, 1000);
    struct hlk_member second = queue(&ann);
    cr_assert_eq(memcmp(&first, &second, sizeof first), 0);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
    hlk_session_leave(s, &bob.turn, false);
}

Test(place, a_place_takes_tokens_for_those_who_stand_behind_it)
{
    world.table.local_passes = 64;
    ann.turn.fenced = bob.turn.fenced = true;
    ann.turn.floor = 17;
    enter(&ann);
    cr_assert_eq(queue(&ann).tokens, 1);
    enter(&bob);
    hlk_session_renumber(s, &ann.turn);
    cr_assert_eq(queue(&ann).tokens, 65);
    cr_assert_eq(queue(&ann).floor, 17);
    ann.turn.fenced = false;
    hlk_session_renumber(s, &ann.turn);
    cr_assert_eq(queue(&ann).tokens, 0);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
    hlk_session_leave(s, &bob.turn, false);
}

Test(place, without_memory_for_a_place_nobody_gets_in_line)
{
    struct hlk_member member;
    ann.turn.fenced = true;
    hlk_mem_fail_after(1);
    cr_assert_eq(enter(&ann), HLK_ENTER_NOMEM);
    cr_assert_not(hlk_list_linked(&ann.turn.link));
    cr_assert_eq(enter(&bob), HLK_ENTER_TURN);
    cr_assert_eq(hlk_session_queue(s, &bob.turn, true, &member), HLK_ENTER_NOMEM);
    hlk_mem_fail_after(-1);
    cr_assert_not(hlk_session_leave(s, &bob.turn, false)); /* nothing was sent, nothing is owed */
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

/* --- grants --- */

Test(place, a_grant_is_a_hold)
{
    struct hlk_view view;
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&world.peer, 1000);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(ann.woken, 1);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_GOT);
    cr_assert_not(hlk_list_linked(&ann.turn.link));
    hlk_session_view(s, ann.turn.holder.id, &view);
    cr_assert_eq(view.count, 1u);
    cr_assert_eq(view.h, h);
    cr_assert_eq(view.until_ms, hlk_lease_until(world_now_ms() - 1000, HLK_GRANT_MS)); /* since its first copy */
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert_eq(atomic_load(&world.table.counts.granted), 1u);
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    release(&ann);
}

Test(place, a_grant_wakes_who_sleeps)
{
    struct hlk_park park;
    uint64_t h = wait_in_queue(&ann);
    fall_asleep(&ann, &park);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(wakes_of(&ann), 1);
    release(&ann);
}

/* An end of before is to be told by a completion, and its answer is on another connection than the grant. */
Test(place, a_grant_to_a_completion_waits_until_the_end_before_it_is_told)
{
    hlk_session_end_untold(s);
    ann.turn.completes = true;
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(ann.woken, 0);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_TURN);
    hlk_session_end_told(s);
    cr_assert_eq(ann.woken, 1);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_GOT);
    hlk_session_tell_line(s, ann.turn.holder.id, NULL, NULL);
    release(&ann);
}

Test(place, a_grant_before_the_answer_waits_until_the_end_is_told_too)
{
    hlk_session_end_untold(s);
    ann.turn.completes = true;
    cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
    (void)queue(&ann);
    cr_assert(hlk_session_grant(s, s->h, HLK_GRANT_MS, 0));
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    hlk_session_end_told(s);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_GOT);
    hlk_session_tell_line(s, ann.turn.holder.id, NULL, NULL);
    release(&ann);
}

Test(place, a_grant_to_a_thread_does_not_wait_for_ends)
{
    hlk_session_end_untold(s);
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_GOT);
    hlk_session_end_told(s);
    release(&ann);
}

Test(place, a_grant_counts_from_the_first_copy_that_took_the_place)
{
    struct hlk_member member;
    enter(&ann);
    cr_assert_eq(hlk_session_queue(s, &ann.turn, false, &member), HLK_ENTER_TURN);
    peer_passes(&world.peer, 500); /* that copy took none */
    (void)queue(&ann);
    int64_t first = world_now_ms();
    peer_passes(&world.peer, 500);
    (void)queue(&ann);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(first, HLK_GRANT_MS));
    release(&ann);
}

Test(place, a_grant_while_asking_is_kept_until_the_answer)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_TURN);
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert(hlk_session_waits(s, &ann.turn, false));
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
    enter(&ann); /* and it is used once */
    (void)queue(&ann);
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
}

/* A late copy may have put it in line again: tests/model/handoff_time.pml, NO_MEMBER. */
Test(place, the_end_of_a_hold_in_doubt_takes_its_place_along)
{
    for (int doubt = 0; doubt < 2; doubt++) {
        enter(&ann);
        struct hlk_member member = queue(&ann);
        hlk_session_waits(s, &ann.turn, doubt);
        cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
        cr_assert_eq(hlk_session_let_go(s, ann.turn.holder.id, &parting), HLK_LET_LAST);
        cr_assert_eq(parting.doubt, doubt);
        cr_assert_eq(parting.place.since_ms, doubt ? member.since_ms : 0);
        hlk_session_ended(s);
    }
}

Test(place, who_was_granted_it_asks_no_more)
{
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_not(hlk_session_asks(s, &ann.turn)); /* on its way to ask when the grant came */
    cr_assert_eq(s->state, HLK_SESSION_HELD);
    cr_assert_not(hlk_session_leave(s, &ann.turn, false)); /* nor is it in line */
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(place, a_grant_and_the_answer_yours_are_one_hold)
{
    enter(&ann);
    (void)queue(&ann);
    uint64_t h = ann.turn.h;
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    win(&ann);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0)); /* a late one neither */
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(world_now_ms(), LEASE));
    cr_assert_eq(atomic_load(&world.table.counts.granted), 0u);
    release(&ann);
}

Test(place, a_hold_that_was_broken_is_no_kept_grant)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
    cr_assert_not(hlk_session_lose(s, ann.turn.h, "broken", &parting));
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
}

Test(place, a_grant_that_is_too_old_asks)
{
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&world.peer, HLK_GRANT_MS / 2);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(ann.woken, 0);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_TURN);
    cr_assert(hlk_session_asks(s, &ann.turn));
    win(&ann);
    release(&ann);
}

Test(place, a_kept_grant_that_is_too_old_asks)
{
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
    peer_passes(&world.peer, HLK_GRANT_MS / 2);
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_session_asks(s, &ann.turn));
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    cr_assert_eq(ann.asked, 1); /* that was that */
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
}

Test(place, a_grant_that_nobody_waits_for_is_unknown)
{
    cr_assert_not(hlk_session_grant(s, 1, HLK_GRANT_MS, 0));
    cr_assert_not(hlk_session_grant(s, 0, HLK_GRANT_MS, 0));
    uint64_t h = wait_in_queue(&ann);
    cr_assert_not(hlk_session_grant(s, h + 1, HLK_GRANT_MS, 0));
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0)); /* its end is being started: that gives it on */
    cr_assert_eq(s->state, HLK_SESSION_ENDING);
    hlk_session_left(s);
    cr_assert_not(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
}

Test(place, a_grant_has_the_first_token_of_its_block)
{
    world.table.local_passes = 64;
    ann.turn.fenced = bob.turn.fenced = true;
    enter(&ann);
    enter(&bob);
    (void)queue(&ann);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 165));
    cr_assert_eq(token_of(&ann), 101);
    hlk_session_leave(s, &bob.turn, false);
    release(&ann);
    cr_assert(parting.fenced);
}

Test(place, a_kept_grant_has_its_token)
{
    ann.turn.fenced = true;
    enter(&ann);
    (void)queue(&ann);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 4711));
    cr_assert(hlk_session_waits(s, &ann.turn, false));
    cr_assert_eq(token_of(&ann), 4711);
    release(&ann);
}

Test(place, max_hold_caps_a_grant)
{
    ann.turn.max_hold_ms = 700;
    uint64_t h = wait_in_queue(&ann);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    cr_assert_eq(s->lease.until_ms, world_now_ms() + 700);
    release(&ann);
}

Test(place, a_grant_tells_those_who_need_not_wait)
{
    enter(&ann);
    (void)queue(&ann);
    bob.turn.once = true;
    same_owner(&cid, &ann);
    enter(&bob);
    enter(&cid);
    hlk_session_waits(s, &ann.turn, false); /* bob may look: busy */
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_BUSY);
    cr_assert_eq(cid.woken, 0);
    cr_assert(hlk_session_grant(s, ann.turn.h, HLK_GRANT_MS, 0));
    cr_assert_eq(cid.woken, 1);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_NESTED);
    let_go(&cid);
    release(&ann);
}

/* --- leaving Redis' queue --- */

Test(place, the_next_one_has_the_place_of_a_waiting_asker_that_leaves)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    cr_assert_not(hlk_session_leave(s, &ann.turn, false));
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(bob.turn.h, h);
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    int64_t first = world_now_ms();
    peer_passes(&world.peer, 100);
    (void)queue(&bob);
    cr_assert_not(hlk_session_waits(s, &bob.turn, false));
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0)); /* for whoever is first by then */
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_GOT);
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(first, HLK_GRANT_MS));
    cr_assert_eq(count_of(&ann), 0u);
    release(&bob);
}

/* bob's wait cannot have ann's place: an end is owed, then bob asks for itself. */
static bool owes_an_end(bool flies)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    bool owes =
        hlk_session_leave(s, &ann.turn, flies) && s->state == HLK_SESSION_ENDING && bob.woken == 0 && bob.turn.h == 0;
    if (owes)
        hlk_session_left(s);
    owes = owes && bob.woken == 1 && bob.turn.h > h && s->state == HLK_SESSION_ASKING;
    if (hlk_session_leave(s, &bob.turn, false))
        hlk_session_left(s);
    return owes;
}

Test(place, a_wait_with_another_lease_has_no_others_place)
{
    cr_assert_not(owes_an_end(false));
    born(&bob);
    bob.turn.lease_ms = LEASE + 1;
    cr_assert(owes_an_end(false));
    born(&bob);
    bob.turn.fixed = true;
    cr_assert(owes_an_end(false));
    born(&bob);
    bob.turn.fenced = true;
    cr_assert(owes_an_end(false));
}

Test(place, a_wait_for_higher_tokens_has_no_others_place)
{
    ann.turn.fenced = bob.turn.fenced = true;
    ann.turn.floor = bob.turn.floor = 5;
    cr_assert_not(owes_an_end(false));
    born(&bob);
    bob.turn.fenced = true;
    bob.turn.floor = 6;
    cr_assert(owes_an_end(false));
}

Test(place, one_try_has_no_others_place)
{
    enter(&ann);
    (void)queue(&ann);
    bob.turn.once = true;
    enter(&bob);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert(hlk_session_leave(s, &ann.turn, false)); /* before bob has looked */
    hlk_session_left(s);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

/* One cancel for all: the heir is told of its turn and of the cancel at once. */
Test(place, an_heir_that_leaves_before_it_asked_owes_the_end_of_that_place)
{
    uint64_t h = wait_in_queue(&ann);
    struct hlk_member member = s->place->member;
    enter(&bob);
    cr_assert_not(hlk_session_leave(s, &ann.turn, false));
    cr_assert_eq(bob.turn.h, h);
    cr_assert(hlk_session_leave(s, &bob.turn, false));
    hlk_session_leaving(s, &parting);
    cr_assert_eq(parting.h, h);
    cr_assert_eq(parting.place.since_ms, member.since_ms);
    hlk_session_left(s);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(place, an_asker_that_leaves_while_a_copy_flies_owes_an_end)
{
    cr_assert(owes_an_end(true));
    born(&bob);
    enter(&ann); /* also when that copy took no place */
    cr_assert(hlk_session_leave(s, &ann.turn, true));
    cr_assert_eq(s->state, HLK_SESSION_ENDING);
    hlk_session_left(s);
}

Test(place, an_asker_without_an_answer_that_leaves_owes_an_end)
{
    wait_in_queue(&ann);
    cr_assert(hlk_session_asks(s, &ann.turn));
    enter(&bob);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    cr_assert_eq(bob.turn.h, 0u);
    hlk_session_left(s);
    hlk_session_leave(s, &bob.turn, false);
}

Test(place, an_asker_in_doubt_that_leaves_owes_an_end)
{
    wait_in_queue(&ann);
    hlk_session_asks(s, &ann.turn);
    hlk_session_waits(s, &ann.turn, true);
    enter(&bob);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    hlk_session_left(s);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

Test(place, the_last_one_that_leaves_the_queue_owes_an_end)
{
    wait_in_queue(&ann);
    cr_assert(hlk_session_leave(s, &ann.turn, false));
    cr_assert_eq(s->state, HLK_SESSION_ENDING);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE); /* after the end */
    hlk_session_left(s);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}
