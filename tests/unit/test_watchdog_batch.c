/* Which holds and leases leave in one script of the watchdog's, and what is released meanwhile. */
#include "renewing.h"

#include <stdio.h>
#include <stdlib.h>

static bool ending; /* of hlk_session_close */

TestSuite(watchdog_batch, .init = people_meet, .fini = people_part, .timeout = 20);

enum { MANY = 250 };
static struct hlk_session *many[MANY];
static struct person people[MANY];

static void hold_many(void)
{
    for (int i = 0; i < MANY; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "many:%d", i);
        many[i] = world_session(name);
        born(&people[i]);
        cr_assert_eq(hlk_session_enter(many[i], &people[i].turn), HLK_ENTER_TURN);
        cr_assert(hlk_session_won(many[i], &people[i].turn, world_now_ms(), 0, false));
    }
}

static void release_many(void)
{
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(hlk_session_let_go(many[i], people[i].turn.holder.id, &parting), HLK_LET_LAST);
        hlk_session_ended(many[i]);
        hlk_session_unref(many[i]);
    }
}

static void answer_many(int n)
{
    char *text = calloc(1, (size_t)n * 4 + 24);
    (void)snprintf(text, 24, "*%d\r\n", n);
    for (int i = 0; i < n; i++)
        strcat(text, ":1\r\n");
    peer_answers(&world.peer, text);
    free(text);
}

Test(watchdog_batch, what_is_due_in_a_tick_leaves_in_few_scripts)
{
    peer_up(&world.peer);
    hold_many();
    pass(LEASE / 3);
    for (int i = 0; i < MANY; i++)
        hlk_watchdog_fire(&many[i]->alarm);
    flush();
    cr_assert_eq(hear(), MANY);
    cr_assert_eq(commands, 3);
    answer_many(HLK_RENEWALS_A_SCRIPT);
    answer_many(HLK_RENEWALS_A_SCRIPT);
    answer_many(50);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(many[i]->lease.sent_ms, world_now_ms());
    release_many();
}

Test(watchdog_batch, after_a_reconnect_every_hold_is_verified)
{
    hold_many();
    hold(&ann);
    pass(1000);
    peer_up(&world.peer);
    hlk_watchdog_verify_all(&world.table.watchdog);
    cr_assert_eq(hear(), MANY + 1);
    cr_assert_eq(commands, 3);
    peer_breaks(&world.peer);
    release(&ann);
    release_many();
}

Test(watchdog_batch, what_is_not_renewed_is_not_lost_by_a_verification)
{
    peer_up(&world.peer);
    hold(&ann);
    hlk_session_orphan(s, ann.turn.holder.id);
    hlk_watchdog_verify_all(&world.table.watchdog); /* an orphan's lease is to run out */
    cr_assert_eq(hear(), 0);
    cr_assert(hlk_session_close(s, &parting, &ending));
    hlk_session_ended(s);
    hlk_watchdog_verify_all(&world.table.watchdog);
    cr_assert_eq(hear(), 0);
}

Test(watchdog_batch, what_is_released_before_the_batch_leaves_is_not_in_it)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    release(&ann);
    flush();
    cr_assert_eq(hear(), 0);
}

Test(watchdog_batch, the_next_hold_is_not_renewed_for_the_one_before)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold(&bob);
    int64_t until = s->lease.until_ms;
    pass(10);
    peer_answers(&world.peer, "*1\r\n:0\r\n"); /* of ann's */
    cr_assert_eq(count_of(&bob), 1u);
    cr_assert_eq(s->lease.until_ms, until);
    cr_assert_str_eq(world_tells(), "");
    release(&bob);
}

Test(watchdog_batch, an_answer_to_the_hold_before_is_not_the_next_ones)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold_fixed(&bob, 1000);
    int64_t until = s->lease.until_ms;
    peer_answers(&world.peer, "*1\r\n:1\r\n"); /* 30 s, for ann */
    cr_assert_eq(s->lease.until_ms, until);
    cr_assert_eq(atomic_load(&world.table.counts.renewals), 0u);
    release(&bob);
}

Test(watchdog_batch, a_batch_that_is_sent_again_renews_no_later_hold)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    release(&ann);
    hold(&bob);
    peer_answers(&world.peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_eq(hear(), 0);
    release(&bob);
}

Test(watchdog_batch, what_is_due_and_verified_in_one_tick_is_sent_once)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    hlk_watchdog_verify_all(&world.table.watchdog);
    flush();
    cr_assert_eq(hear(), 1);
    cr_assert_eq(commands, 1);
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    release(&ann);
}

Test(watchdog_batch, a_batch_leaves_nothing_marked)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    cr_assert_not(s->batched);
    peer_breaks(&world.peer);
    pass(LEASE / 10);
    hlk_watchdog_verify_all(&world.table.watchdog); /* cannot be sent */
    cr_assert_not(s->batched);
    release(&ann);
}

/* --- the leases in a batch: those of all behind the last that differs are left out --- */

static struct hlk_session *three[3];
static struct person theirs[3];

/* Three holds of one batch, each with a cap or 0. */
static void renew_three(int64_t cap0, int64_t cap1, int64_t cap2)
{
    const int64_t caps[] = { cap0, cap1, cap2 };
    const char *const names[] = { "t1", "t2", "t3" };
    peer_up(&world.peer);
    for (int i = 0; i < 3; i++) {
        three[i] = world_session(names[i]);
        born(&theirs[i]);
        theirs[i].turn.max_hold_ms = caps[i];
        cr_assert_eq(hlk_session_enter(three[i], &theirs[i].turn), HLK_ENTER_TURN);
        cr_assert(hlk_session_won(three[i], &theirs[i].turn, world_now_ms(), 0, false));
    }
    pass(LEASE / 3);
    for (int i = 0; i < 3; i++)
        hlk_watchdog_fire(&three[i]->alarm);
    flush();
    cr_assert_eq(hear(), 3);
    cr_assert_eq(commands, 1);
    peer_answers(&world.peer, "*3\r\n:1\r\n:1\r\n:1\r\n");
    for (int i = 0; i < 3; i++) {
        bool capped = caps[i] != 0;
        cr_assert_eq(three[i]->lease.capped, capped);
        cr_assert_eq(hlk_session_let_go(three[i], theirs[i].turn.holder.id, &parting), HLK_LET_LAST);
        hlk_session_ended(three[i]);
        hlk_session_unref(three[i]);
    }
}

#define CAP 30000 /* 10 s on, the renewal is of what is left, the drift and the notice: 23602 ms */

Test(watchdog_batch, a_lease_that_all_have_is_sent_once)
{
    renew_three(0, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n");
}

Test(watchdog_batch, a_shorter_lease_before_others_costs_one_more)
{
    renew_three(CAP, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n30000\r\n");
}

Test(watchdog_batch, a_shorter_lease_behind_others_has_each_sent)
{
    renew_three(0, 0, CAP);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n$5\r\n30000\r\n$5\r\n23602\r\n");
}

Test(watchdog_batch, leases_that_are_all_different_are_all_sent)
{
    renew_three(CAP, CAP - 1, CAP - 2);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n23601\r\n$5\r\n23600\r\n");
}
