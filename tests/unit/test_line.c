/* Who of the process asks for the lock: its line. No server; the clock is played. */
#include "lease/session.h"

#include "people.h"

TestSuite(line, .init = people_meet, .fini = people_part, .timeout = 20);

/* --- the line --- */

Test(line, the_first_asks)
{
    cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
    cr_assert_neq(ann.turn.h, 0u);
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    hlk_session_leave(s, &ann.turn, false);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(line, one_of_the_process_asks_the_others_are_in_line)
{
    enter(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(enter(&cid), HLK_ENTER_LINE);
    cr_assert_eq(bob.turn.h, 0u);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert_eq(enter(&dan), HLK_ENTER_LINE);
    cr_assert_eq(bob.woken + cid.woken + dan.woken, 0);
    hlk_session_leave(s, &dan.turn, false);
    hlk_session_leave(s, &cid.turn, false);
    hlk_session_leave(s, &bob.turn, false);
    hlk_session_leave(s, &ann.turn, false);
}

Test(line, the_line_is_first_come_first_served)
{
    hold(&ann);
    enter(&bob);
    enter(&cid);
    enter(&dan);
    release(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_LINE);
    win(&bob);
    release(&bob);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_TURN);
    win(&cid);
    release(&cid);
    win(&dan);
    release(&dan);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(line, who_leaves_the_middle_of_the_line_is_not_asked)
{
    hold(&ann);
    enter(&bob);
    enter(&cid);
    hlk_session_leave(s, &bob.turn, false);
    hlk_session_leave(s, &bob.turn, false); /* twice is nothing */
    release(&ann);
    cr_assert_eq(bob.woken, 0);
    cr_assert_neq(cid.turn.h, 0u);
    hlk_session_leave(s, &cid.turn, false);
}

Test(line, an_asker_that_leaves_hands_the_question_on)
{
    enter(&ann);
    uint64_t h = ann.turn.h;
    enter(&bob);
    hlk_session_leave(s, &ann.turn, false);
    cr_assert_eq(ann.turn.h, 0u);
    cr_assert_eq(bob.woken, 1);
    cr_assert_gt(bob.turn.h, h); /* its own: ann's end(h) must not end it */
    cr_assert_eq(s->h, bob.turn.h);
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    hlk_session_leave(s, &bob.turn, false);
}

Test(line, a_waiting_asker_that_leaves_hands_the_question_on)
{
    enter(&ann);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    enter(&bob);
    hlk_session_leave(s, &ann.turn, false);
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

/* --- one try --- */

Test(line, once_does_not_line_up_behind_a_holder)
{
    hold(&ann);
    bob.turn.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_BUSY);
    cr_assert_not(hlk_list_linked(&bob.turn.link));
    release(&ann);
    cr_assert_eq(bob.woken, 0);
}

Test(line, once_does_not_line_up_behind_a_wait)
{
    enter(&ann);
    hlk_session_waits(s, &ann.turn, false);
    bob.turn.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_BUSY);
    hlk_session_leave(s, &ann.turn, false);
}

Test(line, once_waits_for_the_askers_answer_busy)
{
    enter(&ann);
    bob.turn.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(enter(&cid), HLK_ENTER_LINE);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_LINE);
    hlk_session_waits(s, &ann.turn, false);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_BUSY);
    cr_assert_not(hlk_list_linked(&bob.turn.link));
    hlk_session_leave(s, &ann.turn, false);
    hlk_session_leave(s, &cid.turn, false);
}

Test(line, once_waits_for_the_askers_answer_held)
{
    enter(&ann);
    bob.turn.once = true;
    enter(&bob);
    win(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_BUSY);
    release(&ann);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(line, once_behind_an_end_asks_next)
{
    hold(&ann);
    let_go(&ann);
    bob.turn.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    hlk_session_ended(s);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

Test(line, a_try_that_failed_does_not_make_others_busy)
{
    ann.turn.once = bob.turn.once = true;
    enter(&ann);
    enter(&bob);
    hlk_session_waits(s, &ann.turn, false); /* a try does not wait */
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    hlk_session_leave(s, &ann.turn, false);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
}

/* --- who asks again --- */

Test(line, an_asker_asks_again)
{
    wait_in_queue(&ann);
    cr_assert(hlk_session_asks(s, &ann.turn));
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    cr_assert(hlk_session_asks(s, &ann.turn));
    win(&ann);
    release(&ann);
}

Test(line, an_open_window_makes_the_asker_ask)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    hlk_session_open(s, h + 1);
    cr_assert_eq(ann.asked, 0);
    hlk_session_open(s, h);
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(bob.asked + bob.woken + ann.woken, 0);
    win(&ann);
    hlk_session_open(s, h); /* late */
    cr_assert_eq(ann.asked + bob.asked, 1);
    release(&ann);
    win(&bob);
    release(&bob);
}
