/* What is over and not forgotten: losses and their account, unsure releases. */
#include "lease/session.h"

#include "people.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

static bool ending; /* of hlk_session_close */

TestSuite(past, .init = people_meet, .fini = people_part, .timeout = 20);

/* --- losing --- */

Test(past, a_loss_is_told_once)
{
    hold(&ann);
    uint64_t h = s->h;
    lose();
    cr_assert_not(hlk_session_lose(s, h, "again", &parting));
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert_eq(held_count(), 0u);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_str_eq(world_tells(), "");
}

Test(past, a_loss_of_another_hold_is_none)
{
    hold(&ann);
    cr_assert_not(hlk_session_lose(s, s->h - 1, "late answer", &parting));
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(world_tells(), "");
    release(&ann);
}

Test(past, a_loss_is_off_the_account_after_as_many_releases)
{
    hold(&ann);
    enter(&ann);
    enter(&ann);
    lose();
    for (int i = 0; i < 3; i++) {
        unsigned count;
        cr_assert(is_lost(&ann));
        cr_assert_eq(enter(&ann), HLK_ENTER_LOST);
        cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
        cr_assert_eq(atomic_load(&ann.holds), 1u);
        cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    }
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    hold(&ann);
    release(&ann);
}

/* Two threads of an owner: one nests, the other releases, the hold is lost, the nested one's round trip fails. */
Test(past, a_raise_that_failed_may_be_the_last_release_that_is_due)
{
    unsigned count;
    hold(&ann);
    uint64_t h = s->h;
    nest_with(&ann, 5000, &count);
    cr_assert_eq(let_go(&ann), HLK_LET_NESTED);
    lose();
    hlk_session_lower(s, ann.turn.holder.id, h);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    hold(&ann);
    release(&ann);
}

Test(past, after_a_loss_the_next_in_line_asks)
{
    hold(&ann);
    enter(&bob);
    lose();
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    win(&bob);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST); /* the late releaser touches nothing */
    cr_assert_eq(count_of(&bob), 1u);
    release(&bob);
}

Test(past, a_loss_is_of_one_holder_only)
{
    hold(&ann);
    lose();
    cr_assert_eq(enter(&bob), HLK_ENTER_TURN);
    win(&bob);
    lose();
    cr_assert(is_lost(&ann));
    cr_assert(is_lost(&bob));
    cr_assert_eq(let_go(&bob), HLK_LET_LOST);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
}

Test(past, what_is_over_is_lost_to_whoever_looks_first)
{
    unsigned count;
    hold_fixed(&ann, 5000);
    peer_passes(&world.peer, 5000);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
    cr_assert_eq(hlk_undos_count(&world.undos), 0u); /* not before it was told */
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert_eq(hlk_undos_count(&world.undos), 1u);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
}

Test(past, one_millisecond_before_it_is_a_release)
{
    hold_fixed(&ann, 5000);
    peer_passes(&world.peer, s->lease.until_ms - world_now_ms() - 1);
    release(&ann);
    cr_assert_str_eq(world_tells(), "");
}

Test(past, without_memory_a_loss_is_still_lost)
{
    hold(&ann);
    enter(&ann);
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_session_lose(s, s->h, "broken", &parting)); /* nobody can send its end: its lease ends it */
    hlk_mem_fail_after(-1);
    cr_assert_eq(atomic_load(&world.table.untold), 1u);
    cr_assert(is_lost(&ann));
    cr_assert_eq(enter(&ann), HLK_ENTER_LOST);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    hlk_session_leave(s, &bob.turn, false);
}

Test(past, without_memory_a_loss_whose_holder_ends_lets_the_next_in_line_ask)
{
    hold(&ann);
    enter(&ann);
    enter(&bob);
    lose_without_memory();
    hlk_session_orphan(s, ann.turn.holder.id);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
    cr_assert_eq(s->state, HLK_SESSION_NONE);
}

Test(past, without_memory_a_loss_is_over_when_its_client_is_closed)
{
    hold(&ann);
    lose_without_memory();
    cr_assert_not(hlk_session_close(s, &parting, &ending));
    cr_assert_eq(s->state, HLK_SESSION_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

/* --- the handle it was taken through --- */

static int vias_freed;

static void via_free(struct hlk_via *via)
{
    (void)via;
    vias_freed++;
}

static struct hlk_via via;

static void through_handle(struct person *p)
{
    vias_freed = 0;
    via = (struct hlk_via){ .refs = 1,
                            .hook = { world_on_event, "handle:" },
                            .mu = &world.table.vias_mu,
                            .lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                            .free = via_free };
    p->turn.via = &via;
}

static bool readable(void)
{
    eventfd_t n;
    bool set = eventfd_read(via.lost_fd, &n) == 0;
    if (set)
        (void)eventfd_write(via.lost_fd, n);
    return set;
}

Test(past, the_handles_descriptor_is_readable_while_it_has_a_loss)
{
    through_handle(&ann);
    through_handle(&bob);
    hold(&ann);
    cr_assert_not(readable());
    lose();
    cr_assert(readable());
    hold(&bob);
    lose();
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    cr_assert(readable());
    cr_assert_eq(let_go(&bob), HLK_LET_LOST);
    cr_assert_not(readable());
    close(via.lost_fd);
}

Test(past, the_handle_is_told_before_the_client)
{
    through_handle(&ann);
    hold(&ann);
    lose();
    cr_assert_str_eq(world_tells(), "handle:LOST a;LOST a;");
    let_go(&ann);
    close(via.lost_fd);
}

Test(past, a_hold_keeps_its_handle)
{
    through_handle(&ann);
    hold(&ann);
    hlk_via_unref(&via); /* destroyed by the user */
    cr_assert_eq(vias_freed, 0);
    release(&ann);
    cr_assert_eq(vias_freed, 1);
    close(via.lost_fd);
}

Test(past, a_lost_hold_keeps_its_handle_until_it_is_released)
{
    through_handle(&ann);
    hold(&ann);
    lose();
    hlk_via_unref(&via);
    cr_assert_eq(vias_freed, 0);
    let_go(&ann);
    cr_assert_eq(vias_freed, 1);
    close(via.lost_fd);
}

/* --- releases that were not answered --- */

static void owe(struct person *p)
{
    hold(p);
    let_go(p);
    hlk_session_ended(s);
    cr_assert(hlk_session_owe(s, p->turn.holder, parting.h));
}

static enum hlk_status wait_owed(struct person *p, int64_t at_ms)
{
    return hlk_session_wait_owed(s, p->turn.holder.id, hlk_self_get(), at_ms);
}

Test(past, an_unsure_release_is_asked_about_by_the_next)
{
    owe(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_OWED);
    cr_assert_eq(wait_owed(&ann, 0), HLK_E_UNSURE);
    hlk_session_settle(s, parting.h, HLK_OK);
    cr_assert_eq(let_go(&ann), HLK_LET_OWED);
    cr_assert_eq(wait_owed(&ann, 0), HLK_OK);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    cr_assert_eq(wait_owed(&ann, 0), HLK_NOT_HOLDER);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(past, an_unsure_release_may_turn_out_lost)
{
    owe(&ann);
    hlk_session_settle(s, parting.h, HLK_LOST);
    cr_assert_eq(wait_owed(&ann, 0), HLK_LOST);
}

Test(past, an_unsure_release_is_its_holders_alone)
{
    owe(&ann);
    cr_assert_eq(let_go(&bob), HLK_LET_NOT_HOLDER);
    hlk_session_settle(s, parting.h + 1, HLK_LOST); /* another's */
    cr_assert_eq(wait_owed(&ann, 0), HLK_E_UNSURE);
    hlk_session_settle(s, parting.h, HLK_OK);
    cr_assert_eq(wait_owed(&ann, 0), HLK_OK);
}

Test(past, acquiring_again_settles_an_unsure_release)
{
    owe(&ann);
    cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
    win(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    release(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    hlk_session_settle(s, parting.h, HLK_OK); /* nobody asks any more */
}

Test(past, an_unsure_release_is_no_loss)
{
    owe(&ann);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(count_of(&ann), 0u);
    hlk_session_settle(s, parting.h, HLK_OK);
    wait_owed(&ann, 0);
}

Test(past, without_memory_nothing_is_owed)
{
    hold(&ann);
    let_go(&ann);
    hlk_session_ended(s);
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_session_owe(s, ann.turn.holder, parting.h));
    hlk_mem_fail_after(-1);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
}

static struct hlk_self *waiting_self;
static atomic_bool waiting;

static void *wait_for_outcome(void *arg)
{
    waiting_self = hlk_self_get();
    hlk_park_wake(&waiting_self->park, HLK_WAKE_CLOSED); /* another client's, from an earlier call: says nothing here */
    atomic_store(&waiting, true);
    *(enum hlk_status *)arg = hlk_session_wait_owed(s, ann.turn.holder.id, waiting_self, INT64_MAX);
    return NULL;
}

static enum hlk_status outcome_after(bool settle)
{
    pthread_t thread;
    enum hlk_status status = HLK_OK;
    owe(&ann);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_outcome, &status), 0);
    while (!atomic_load(&waiting) || !(atomic_load(&waiting_self->park.bits) & HLK_PARK_ASLEEP))
        sched_yield();
    if (settle)
        hlk_session_settle(s, parting.h, HLK_LOST);
    else
        hlk_park_wake(&waiting_self->park, HLK_WAKE_CLOSED);
    pthread_join(thread, NULL);
    return status;
}

Test(past, who_waits_for_an_outcome_is_woken_by_it)
{
    cr_assert_eq(outcome_after(true), HLK_LOST);
}

Test(past, who_waits_for_an_outcome_is_woken_by_close)
{
    cr_assert_eq(outcome_after(false), HLK_E_UNSURE);
    hlk_session_forget(s);
}

Test(past, forgets_every_debt)
{
    owe(&bob);
    hold(&ann);
    lose();
    hlk_session_forget(s);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(let_go(&bob), HLK_LET_NOT_HOLDER);
    cr_assert_null(s->past);
}
