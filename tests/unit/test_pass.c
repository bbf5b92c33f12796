/* A hold that goes from holder to holder of the process without a word to Redis: when it may, and what goes with it. */
#include "lease/session.h"

#include "people.h"

#define PASSES 64

static void init(void)
{
    people_meet();
    world.table.local_passes = PASSES;
    peer_up(&world.peer);
}

TestSuite(pass, .init = init, .fini = people_part, .timeout = 20);

static bool passes(struct person *from, struct person *to)
{
    return let_go(from) == HLK_LET_PASSED && hlk_session_look(s, &to->turn) == HLK_ENTER_GOT;
}

/* The holder lets go, and the next one has to ask. */
static bool ends(struct person *from, struct person *next)
{
    if (let_go(from) != HLK_LET_LAST)
        return false;
    hlk_session_ended(s);
    return hlk_session_look(s, &next->turn) == HLK_ENTER_TURN;
}

static bool ends_and_leaves(struct person *from, struct person *next)
{
    bool ended = ends(from, next);
    hlk_session_leave(s, &next->turn, false);
    return ended;
}

/* ann holds it, bob is in line. */
static void hold_before_bob(void)
{
    hold(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
}

Test(pass, the_next_in_line_holds_it_and_nothing_is_sent)
{
    hold_before_bob();
    uint64_t h = s->h;
    int64_t until = s->lease.until_ms;
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(s->state, HLK_SESSION_HELD);
    cr_assert_eq(s->h, h);
    cr_assert_eq(s->lease.until_ms, until);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(count_of(&bob), 1u);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(atomic_load(&bob.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert_eq(atomic_load(&world.table.counts.passed), 1u);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_str_eq(peer_hears(&world.peer), "");
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    cr_assert_eq(let_go(&bob), HLK_LET_LAST);
    cr_assert_eq(parting.h, h);
    hlk_session_ended(s);
    cr_assert_eq(held_count(), 0u);
}

Test(pass, who_sleeps_is_woken)
{
    struct hlk_park park;
    hold_before_bob();
    fall_asleep(&bob, &park);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(wakes_of(&bob), 1);
    cr_assert_eq(let_go(&bob), HLK_LET_LAST);
    hlk_session_ended(s);
}

Test(pass, the_line_keeps_its_order)
{
    hold_before_bob();
    enter(&cid);
    enter(&dan);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(cid.woken + dan.woken, 0);
    cr_assert(passes(&bob, &cid));
    cr_assert(passes(&cid, &dan));
    release(&dan);
}

/* --- how often, and how long --- */

static unsigned passes_in_a_row(int64_t ms_each)
{
    struct person *now = &ann, *next = &bob, *was;
    unsigned n = 0;
    hold(now);
    for (;;) {
        enter(next);
        peer_passes(&world.peer, ms_each);
        if (!passes(now, next))
            break;
        n++;
        was = now, now = next, next = was;
    }
    cr_assert_eq(s->state, HLK_SESSION_ENDING);
    hlk_session_ended(s);
    cr_assert_eq(hlk_session_look(s, &next->turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &next->turn, false);
    return n;
}

Test(pass, no_more_often_than_local_passes)
{
    cr_assert_eq(passes_in_a_row(0), PASSES);
    cr_assert_eq(passes_in_a_row(0), PASSES); /* and as often after the next win */
    world.table.local_passes = 1;
    cr_assert_eq(passes_in_a_row(0), 1u);
    world.table.local_passes = 0;
    cr_assert_eq(passes_in_a_row(0), 0u);
}

Test(pass, no_longer_than_its_time)
{
    cr_assert_eq(passes_in_a_row(1), HLK_PASS_MS - 1u);
    cr_assert_eq(passes_in_a_row(1), HLK_PASS_MS - 1u);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS - 1), 1u);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS), 0u);
}

Test(pass, the_first_hold_of_a_session_has_its_time_too)
{
    cr_assert_null(s->place);
    cr_assert_eq(passes_in_a_row(HLK_PASS_MS), 0u);
}

Test(pass, a_grant_begins_a_new_time)
{
    uint64_t h = wait_in_queue(&ann);
    peer_passes(&world.peer, 100);
    enter(&bob);
    cr_assert(hlk_session_grant(s, h, HLK_GRANT_MS, 0));
    peer_passes(&world.peer, HLK_PASS_MS - 1);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(s->h, h);
    enter(&ann);
    peer_passes(&world.peer, 1);
    cr_assert(ends_and_leaves(&bob, &ann));
}

/* --- to whom not --- */

Test(pass, nobody_in_line_is_an_end)
{
    hold(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_LAST);
    hlk_session_ended(s);
}

Test(pass, an_inner_release_passes_nothing)
{
    hold_before_bob();
    enter(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    cr_assert_eq(bob.woken, 0);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, a_fixed_lease_is_not_passed)
{
    hold_fixed(&ann, LEASE);
    enter(&bob);
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, who_wants_a_fixed_lease_asks)
{
    bob.turn.fixed = true;
    hold_before_bob();
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* ann has just got it by an answer to a copy that was sent so long ago; bob is in line. */
static void hold_by_an_old_copy(int64_t age_ms)
{
    cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
    (void)queue(&ann);
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms() - age_ms, 0, false));
    enter(&bob);
}

Test(pass, a_lease_that_is_short_is_not_passed)
{
    int64_t age = hlk_lease_until(0, LEASE) - LEASE / 3;
    hold_by_an_old_copy(age);
    cr_assert(ends_and_leaves(&ann, &bob));
    hold_by_an_old_copy(age - 1);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, a_lease_at_risk_is_not_passed)
{
    hold_before_bob();
    hlk_lease_move(&s->lease, HLK_LEASE_AT_RISK);
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, what_redis_counts_more_often_is_not_passed)
{
    hold_before_bob();
    hlk_session_raised(s, s->h, 2, world_now_ms(), 0, false); /* late: released meanwhile */
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* --- max_hold --- */

Test(pass, the_next_ones_max_hold_caps_it)
{
    bob.turn.max_hold_ms = 20000;
    hold_before_bob();
    peer_passes(&world.peer, 2);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(s->lease.until_ms, world_now_ms() + 20000);
    enter(&cid); /* nor does it go on from there */
    cr_assert(ends_and_leaves(&bob, &cid));
}

Test(pass, the_alarm_is_for_the_next_ones_max_hold)
{
    bob.turn.max_hold_ms = 1000;
    hold_before_bob();
    cr_assert_eq(s->alarm.timer.due_ms, world_now_ms() + LEASE / 3);
    cr_assert(passes(&ann, &bob));
    cr_assert_leq(s->alarm.timer.due_ms, world_now_ms() + 1000);
    release(&bob);
}

Test(pass, a_max_hold_is_its_holders_only)
{
    ann.turn.max_hold_ms = 60000;
    hold_before_bob();
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(s->lease.cap_ms, INT64_MAX);
    cr_assert_eq(hlk_lease_renewal_ms(&s->lease, LEASE, world_now_ms() + 59000), LEASE);
    release(&bob);
}

Test(pass, what_max_hold_has_shortened_is_not_passed)
{
    ann.turn.max_hold_ms = 20000;
    hold_before_bob();
    cr_assert(s->lease.capped);
    cr_assert(ends_and_leaves(&ann, &bob));
}

/* --- tokens --- */

/* ann holds a block of the tokens 101 to 103, bob is in line. */
static void hold_fenced(void)
{
    world.table.local_passes = 2;
    ann.turn.fenced = true;
    cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(queue(&ann).tokens, 3);
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 103, false));
    world.table.local_passes = PASSES;
}

Test(pass, each_has_the_next_token_of_the_block)
{
    bob.turn.fenced = cid.turn.fenced = dan.turn.fenced = true;
    hold_fenced();
    enter(&cid);
    enter(&dan);
    cr_assert_eq(token_of(&ann), 101);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(token_of(&bob), 102);
    cr_assert(passes(&bob, &cid));
    cr_assert_eq(token_of(&cid), 103);
    cr_assert(ends_and_leaves(&cid, &dan)); /* the block is used up */
}

Test(pass, who_is_not_fenced_takes_no_token)
{
    cid.turn.fenced = true;
    hold_fenced();
    enter(&cid);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(token_of(&bob), 0); /* ann's is no token of bob's */
    cr_assert(passes(&bob, &cid));
    cr_assert_eq(token_of(&cid), 102);
    release(&cid);
}

Test(pass, who_is_fenced_gets_none_without_a_token)
{
    bob.turn.fenced = true;
    hold_before_bob();
    cr_assert(ends_and_leaves(&ann, &bob));
}

Test(pass, who_wants_higher_tokens_asks)
{
    bob.turn.fenced = cid.turn.fenced = true;
    bob.turn.floor = 101;
    cid.turn.floor = 103;
    hold_fenced();
    enter(&cid);
    cr_assert(passes(&ann, &bob)); /* 102 */
    cr_assert(ends_and_leaves(&bob, &cid));
}

/* --- other turns --- */

Test(pass, one_try_that_is_in_line_gets_it_too)
{
    enter(&ann);
    bob.turn.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    win(&ann);
    cr_assert(passes(&ann, &bob));
    release(&bob);
}

Test(pass, the_same_owner_gets_it_or_is_in_it)
{
    same_owner(&bob, &ann);
    same_owner(&cid, &ann);
    enter(&ann);
    enter(&bob);
    enter(&cid);
    win(&ann);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_NESTED);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(let_go(&cid), HLK_LET_NESTED);
    release(&bob);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(pass, those_of_the_new_holder_look_again)
{
    hold_before_bob();
    same_owner(&dan, &bob);
    enter(&cid);
    enter(&dan);
    cr_assert(passes(&ann, &bob));
    cr_assert_eq(dan.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_session_look(s, &dan.turn), HLK_ENTER_NESTED);
    let_go(&dan);
    cr_assert(passes(&bob, &cid));
    release(&cid);
}

/* --- when it ends otherwise --- */

Test(pass, a_loss_is_the_new_holders)
{
    hold_before_bob();
    enter(&cid);
    uint64_t h = s->h;
    cr_assert(passes(&ann, &bob));
    lose();
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert_not(is_lost(&ann));
    cr_assert(is_lost(&bob));
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_TURN);
    cr_assert_gt(cid.turn.h, h);
    cr_assert_eq(let_go(&bob), HLK_LET_LOST);
    cr_assert_eq(atomic_load(&bob.holds), 0u);
    hlk_session_leave(s, &cid.turn, false);
}

/* Else the release of what was lost would give away what its owner's other thread has just got. */
Test(pass, who_has_a_loss_to_release_gets_nothing)
{
    same_owner(&cid, &ann);
    enter(&ann);
    enter(&bob);
    enter(&cid);
    win(&ann); /* cid could nest, and has not come to it */
    lose();
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    win(&bob);
    cr_assert_eq(enter(&dan), HLK_ENTER_LINE);
    release(&bob);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_LOST);
    hlk_session_leave(s, &cid.turn, false);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(hlk_session_look(s, &dan.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &dan.turn, false);
}

Test(pass, what_is_over_is_not_passed_but_lost)
{
    hold_before_bob();
    peer_passes(&world.peer, LEASE);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

Test(pass, the_new_holder_may_end_without_letting_go)
{
    hold_before_bob();
    enter(&cid);
    cr_assert(passes(&ann, &bob));
    hlk_session_orphan(s, ann.turn.holder.id); /* has nothing to do with it any more */
    cr_assert_eq(s->lease.state, HLK_LEASE_HELD);
    hlk_session_orphan(s, bob.turn.holder.id);
    cr_assert_eq(s->lease.state, HLK_LEASE_ORPHANED);
    cr_assert_str_eq(world_tells(), "ORPHANED a;");
    cr_assert_eq(cid.woken, 0);
    peer_passes(&world.peer, LEASE);
    hlk_watchdog_fire(&s->alarm);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &cid.turn, false);
}

Test(pass, a_renewal_is_the_same_for_the_new_holder)
{
    hold_before_bob();
    cr_assert(passes(&ann, &bob));
    peer_passes(&world.peer, LEASE / 3);
    hlk_watchdog_fire(&s->alarm);
    world.table.watchdog.tick.run(&world.table.watchdog.tick, world_now_ms());
    cr_assert_not_null(strstr(peer_hears(&world.peer), "hlk-t-1-a:"));
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(world_now_ms(), LEASE));
    release(&bob);
}
