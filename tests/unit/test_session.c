/* What a process has with Redis for one lock: its hold. No server, no loop thread; the clock is played. */
#include "lease/session.h"

#include "people.h"

#include <pthread.h>
#include <sched.h>

static bool ending; /* of hlk_session_close */

TestSuite(session, .init = people_meet, .fini = people_part, .timeout = 20);

/* --- one for each lock --- */

Test(session, hold_ids_are_never_used_again)
{
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        struct hlk_session *other = world_session("other");
        struct person p;
        born(&p);
        cr_assert_eq(hlk_session_enter(other, &p.turn), HLK_ENTER_TURN);
        cr_assert_gt(p.turn.h, last);
        last = p.turn.h;
        hlk_session_leave(other, &p.turn, false);
        hlk_session_unref(other);
        cr_assert_eq(enter(&ann), HLK_ENTER_TURN);
        cr_assert_gt(ann.turn.h, last);
        last = ann.turn.h;
        hlk_session_renumber(s, &ann.turn);
        cr_assert_gt(ann.turn.h, last);
        cr_assert_eq(s->h, ann.turn.h);
        last = ann.turn.h;
        hlk_session_leave(s, &ann.turn, false);
    }
}

Test(session, locks_do_not_know_each_other)
{
    struct hlk_session *other = world_session("b");
    cr_assert_neq(other, s);
    hold(&ann);
    cr_assert_eq(hlk_session_enter(other, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(other, &bob.turn, false);
    hlk_session_unref(other);
    release(&ann);
}

Test(session, is_one_for_all_handles_of_a_name)
{
    struct hlk_session *again = world_session("a");
    cr_assert_eq(again, s);
    hlk_session_unref(again);
}

/* --- winning --- */

Test(session, a_win_is_a_hold)
{
    struct hlk_view view;
    enter(&ann);
    uint64_t h = ann.turn.h;
    win(&ann);
    hlk_session_view(s, ann.turn.holder.id, &view);
    cr_assert_eq(view.count, 1u);
    cr_assert_eq(view.h, h);
    cr_assert_eq(view.until_ms, hlk_lease_until(world_now_ms(), LEASE));
    cr_assert_not(view.lost);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    cr_assert_eq(count_of(&bob), 0u);
    release(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(held_count(), 0u);
    cr_assert_not(hlk_timer_armed(&s->alarm.timer));
}

Test(session, an_answer_that_comes_too_late_is_no_win)
{
    enter(&ann);
    int64_t sent = world_now_ms();
    peer_passes(&world.peer, LEASE);
    cr_assert_not(hlk_session_won(s, &ann.turn, sent, 0, false));
    cr_assert_eq(s->state, HLK_SESSION_ASKING);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    win(&ann); /* and it may ask again */
    release(&ann);
}

Test(session, max_hold_caps_a_win)
{
    struct hlk_view view;
    enter(&ann);
    ann.turn.max_hold_ms = 1000;
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 0, false));
    hlk_session_view(s, ann.turn.holder.id, &view);
    cr_assert_eq(view.until_ms, world_now_ms() + 1000);
    release(&ann);
}

Test(session, a_held_session_outlives_its_handles)
{
    hold(&ann);
    hlk_session_unref(s);
    struct hlk_session *again = world_session("a");
    cr_assert_eq(again, s);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(session, doubt_goes_with_the_hold_to_its_end)
{
    enter(&ann);
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 0, true));
    cr_assert_eq(let_go(&ann), HLK_LET_LAST);
    cr_assert(parting.doubt);
    hlk_session_ended(s);
    hold(&bob);
    cr_assert_eq(let_go(&bob), HLK_LET_LAST);
    cr_assert_not(parting.doubt);
    hlk_session_ended(s);
}

/* --- letting go --- */

Test(session, only_the_holder_lets_go)
{
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    hold(&ann);
    cr_assert_eq(let_go(&bob), HLK_LET_NOT_HOLDER);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(session, a_wait_is_no_hold)
{
    enter(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    hlk_session_leave(s, &ann.turn, false);
}

Test(session, while_it_ends_nobody_gets_in)
{
    hold(&ann);
    cr_assert_eq(let_go(&ann), HLK_LET_LAST);
    cr_assert_eq(s->state, HLK_SESSION_ENDING);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(enter(&ann), HLK_ENTER_LINE); /* nor the holder itself */
    cr_assert_eq(bob.woken, 0);
    cr_assert_eq(let_go(&ann), HLK_LET_NOT_HOLDER);
    hlk_session_ended(s);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    hlk_session_leave(s, &bob.turn, false);
    hlk_session_leave(s, &ann.turn, false);
}

Test(session, a_parting_names_the_hold)
{
    hold(&ann);
    uint64_t h = s->h;
    let_go(&ann);
    cr_assert_eq(parting.h, h);
    cr_assert_eq(parting.until_ms, world_now_ms() + LEASE);
    hlk_session_ended(s);
}

Test(session, what_could_not_end_is_held_as_before)
{
    hold(&ann);
    uint64_t h = s->h;
    let_go(&ann);
    hlk_session_keep(s);
    cr_assert_eq(s->state, HLK_SESSION_HELD);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(s->h, h);
    cr_assert_eq(held_count(), 1u);
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    release(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

/* An owner's second call comes between the first one's win and its completion: it must not complete before it. */
Test(session, the_same_owner_stands_in_line_until_the_win_was_told)
{
    same_owner(&bob, &ann);
    same_owner(&cid, &ann);
    ann.turn.completes = cid.turn.once = true;
    enter(&ann);
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 0, false));
    unsigned count;
    uint64_t h;
    cr_assert_eq(hlk_session_nest(s, ann.turn.holder.id, 0, &count, &h), HLK_ENTER_LINE);
    cr_assert_eq(enter(&bob), HLK_ENTER_LINE);
    cr_assert_eq(enter(&cid), HLK_ENTER_LINE);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_LINE);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_LINE, "one try is no BUSY behind its own owner");
    hlk_session_tell_line(s, ann.turn.holder.id, NULL, NULL);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_NESTED);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_NESTED);
    cr_assert_eq(count_of(&ann), 3u);
    let_go(&ann);
    let_go(&ann);
    release(&ann);
}

Test(session, a_win_that_is_told_late_is_not_the_next_ones)
{
    unsigned count;
    uint64_t h;
    enter(&ann);
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 0, false));
    release(&ann);
    bob.turn.completes = true;
    enter(&bob);
    cr_assert(hlk_session_won(s, &bob.turn, world_now_ms(), 0, false));
    hlk_session_tell_line(s, ann.turn.holder.id, NULL, NULL);
    cr_assert_eq(hlk_session_nest(s, bob.turn.holder.id, 0, &count, &h), HLK_ENTER_LINE);
    hlk_session_tell_line(s, bob.turn.holder.id, NULL, NULL);
    cr_assert_eq(hlk_session_nest(s, bob.turn.holder.id, 0, &count, &h), HLK_ENTER_NESTED);
    let_go(&bob);
    release(&bob);
}

Test(session, what_is_held_as_before_tells_those_who_came_meanwhile)
{
    hold(&ann);
    let_go(&ann);
    bob.turn.once = true;
    same_owner(&cid, &ann);
    enter(&bob);
    enter(&cid);
    hlk_session_keep(s);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 1);
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_BUSY);
    cr_assert_eq(hlk_session_look(s, &cid.turn), HLK_ENTER_NESTED);
    let_go(&ann);
    release(&ann);
}

/* --- no end gets before a renewal that is being put into the stream --- */

static atomic_bool began, written;
static atomic_int saw; /* 1: the renewal was in the stream already; 2: too early */

static void *end_by(void *arg)
{
    void (*ends)(void) = *(void (**)(void))arg;
    atomic_store(&began, true);
    ends();
    atomic_store(&saw, atomic_load(&written) ? 1 : 2);
    return NULL;
}

static void by_release(void)
{
    (void)hlk_session_let_go(s, ann.turn.holder.id, &parting);
    hlk_session_ended(s);
}

static void by_lowering(void)
{
    hlk_session_lower(s, ann.turn.holder.id, s->h);
}

static void by_close(void)
{
    (void)hlk_session_close(s, &parting, &ending);
    hlk_session_ended(s);
}

static bool waits_for_the_renewal(void (*ends)(void))
{
    pthread_t thread;
    hold(&ann);
    hlk_mutex_lock(s->mu);
    s->batched = true;
    hlk_mutex_unlock(s->mu);
    cr_assert_eq(pthread_create(&thread, NULL, end_by, &ends), 0);
    while (!atomic_load(&began))
        sched_yield();
    for (int i = 0; i < 2000; i++)
        sched_yield();
    hlk_mutex_lock(s->mu);
    atomic_store(&written, true);
    s->batched = false;
    hlk_mutex_unlock(s->mu);
    pthread_join(thread, NULL);
    return atomic_load(&saw) == 1 && s->state == HLK_SESSION_NONE;
}

Test(session, a_release_waits_for_a_renewal_that_is_being_written)
{
    cr_assert(waits_for_the_renewal(by_release));
}

Test(session, a_raise_that_failed_waits_for_a_renewal_that_is_being_written)
{
    cr_assert(waits_for_the_renewal(by_lowering));
}

Test(session, close_waits_for_a_renewal_that_is_being_written)
{
    cr_assert(waits_for_the_renewal(by_close));
}

/* --- all of a table --- */

static void count_it(struct hlk_session *one, void *ctx)
{
    (void)one;
    ++*(unsigned *)ctx;
}

/* By names that somebody chose so, or in a map that could not grow. */
Test(session, of_a_bucket_with_many_is_walked_by_like_any_other)
{
    enum { MANY = 200 };
    struct hlk_session *many[MANY];
    unsigned seen = 0;
    int found = 0;
    for (unsigned i = 0; found < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        if ((hlk_map_hash(name, strlen(name)) & 255) == 7)
            many[found++] = world_session(name);
    }
    hlk_table_each(&world.table, count_it, &seen);
    cr_assert_eq(seen, world.table.map.count);
    cr_assert_geq(seen, (unsigned)MANY);
    for (int i = 0; i < MANY; i++)
        hlk_session_unref(many[i]);
}
