/* The local queue: which waiter of the process sends commands. No server; the clock is played. */
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

#include "entry_fixture.h"

TestSuite(local_queue, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- the queue --- */

Test(local_queue, the_first_asks)
{
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    cr_assert_neq(ann.waiter.h, 0u);
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    hlk_entry_leave(e, &ann.waiter, false);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(local_queue, one_of_the_process_asks_the_others_are_in_queue)
{
    enter(&ann);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(&cid), HLK_ENTER_QUEUED);
    cr_assert_eq(bob.waiter.h, 0u);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert_eq(enter(&dan), HLK_ENTER_QUEUED);
    cr_assert_eq(bob.woken + cid.woken + dan.woken, 0);
    hlk_entry_leave(e, &dan.waiter, false);
    hlk_entry_leave(e, &cid.waiter, false);
    hlk_entry_leave(e, &bob.waiter, false);
    hlk_entry_leave(e, &ann.waiter, false);
}

Test(local_queue, the_queue_is_first_come_first_served)
{
    hold(&ann);
    enter(&bob);
    enter(&cid);
    enter(&dan);
    release(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_QUEUED);
    win(&bob);
    release(&bob);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_HEAD);
    win(&cid);
    release(&cid);
    win(&dan);
    release(&dan);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(local_queue, who_leaves_the_middle_of_the_queue_is_not_asked)
{
    hold(&ann);
    enter(&bob);
    enter(&cid);
    hlk_entry_leave(e, &bob.waiter, false);
    hlk_entry_leave(e, &bob.waiter, false); /* the second call has no effect */
    release(&ann);
    cr_assert_eq(bob.woken, 0);
    cr_assert_neq(cid.waiter.h, 0u);
    hlk_entry_leave(e, &cid.waiter, false);
}

Test(local_queue, a_head_waiter_that_leaves_hands_the_command_on)
{
    enter(&ann);
    uint64_t h = ann.waiter.h;
    enter(&bob);
    hlk_entry_leave(e, &ann.waiter, false);
    cr_assert_eq(ann.waiter.h, 0u);
    cr_assert_eq(bob.woken, 1);
    cr_assert_gt(bob.waiter.h, h); /* a hold id of its own, so that release(h) of ann's does not end it */
    cr_assert_eq(e->hold.id, bob.waiter.h);
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(local_queue, a_waiting_head_waiter_that_leaves_hands_it_on)
{
    enter(&ann);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    enter(&bob);
    hlk_entry_leave(e, &ann.waiter, false);
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

/* --- one try --- */

Test(local_queue, once_does_not_queue_behind_a_holder)
{
    hold(&ann);
    bob.waiter.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_BUSY);
    cr_assert_not(hlk_list_linked(&bob.waiter.link));
    release(&ann);
    cr_assert_eq(bob.woken, 0);
}

Test(local_queue, once_does_not_queue_behind_a_wait)
{
    enter(&ann);
    hlk_entry_wait(e, &ann.waiter, false);
    bob.waiter.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_BUSY);
    hlk_entry_leave(e, &ann.waiter, false);
}

Test(local_queue, once_waits_for_the_head_waiters_answer_busy)
{
    enter(&ann);
    bob.waiter.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(&cid), HLK_ENTER_QUEUED);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_QUEUED);
    hlk_entry_wait(e, &ann.waiter, false);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 0);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_BUSY);
    cr_assert_not(hlk_list_linked(&bob.waiter.link));
    hlk_entry_leave(e, &ann.waiter, false);
    hlk_entry_leave(e, &cid.waiter, false);
}

Test(local_queue, once_waits_for_the_head_waiters_answer_held)
{
    enter(&ann);
    bob.waiter.once = true;
    enter(&bob);
    win(&ann);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_BUSY);
    release(&ann);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(local_queue, once_behind_an_end_asks_next)
{
    hold(&ann);
    let_go(&ann);
    bob.waiter.once = true;
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    hlk_entry_release_finish(e);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(local_queue, a_try_that_failed_does_not_make_others_busy)
{
    ann.waiter.once = bob.waiter.once = true;
    enter(&ann);
    enter(&bob);
    hlk_entry_wait(e, &ann.waiter, false); /* one try does not wait */
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    hlk_entry_leave(e, &ann.waiter, false);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
}

/* --- sending again --- */

Test(local_queue, a_head_waiter_asks_again)
{
    wait_in_queue(&ann);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    win(&ann);
    release(&ann);
}

Test(local_queue, an_yield_window_makes_the_head_waiter_ask)
{
    uint64_t h = wait_in_queue(&ann);
    enter(&bob);
    hlk_entry_retry(e, h + 1);
    cr_assert_eq(ann.asked, 0);
    hlk_entry_retry(e, h);
    cr_assert_eq(ann.asked, 1);
    cr_assert_eq(bob.asked + bob.woken + ann.woken, 0);
    win(&ann);
    hlk_entry_retry(e, h); /* too late */
    cr_assert_eq(ann.asked + bob.asked, 1);
    release(&ann);
    win(&bob);
    release(&bob);
}

/* When the time of a queued waiter is over: is it known that another holder has the lock? */
static bool is_busy_behind(struct fake_waiter *p)
{
    struct hlk_local_holder near;
    hlk_entry_local_holder(e, &near);
    hlk_handle_release(near.handle);
    cr_assert_eq(near.held, p && count_of(p) > 0);
    return near.busy;
}

Test(local_queue, knows_what_the_server_said_to_the_first)
{
    enter(&ann);
    enter(&bob);
    cr_assert_not(is_busy_behind(NULL), "not answered yet");
    (void)queue(&ann);
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert(is_busy_behind(NULL));
    cr_assert(hlk_entry_resend(e, &ann.waiter));
    cr_assert(is_busy_behind(NULL), "while it asks again, too");
    win(&ann);
    cr_assert_not(is_busy_behind(&ann));
    release(&ann);
    cr_assert_not(is_busy_behind(NULL), "of the hold id before");
    hlk_entry_leave(e, &bob.waiter, false);
}
