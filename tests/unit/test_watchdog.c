/* When holds are renewed, in which batches, and what each answer means. The server's end is in the test's hands. */
#include "lease/watchdog.h"

#include "base/mem.h"
#include "people.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(watchdog, .init = people_meet, .fini = people_part, .timeout = 20);

static void fire(void)
{
    hlk_watchdog_fire(&s->alarm);
}

static void flush(void)
{
    world.table.watchdog.tick.run(&world.table.watchdog.tick, world_now_ms());
}

static void pass(int64_t ms)
{
    peer_passes(&world.peer, ms);
}

static int64_t alarm_in(void)
{
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    return s->alarm.timer.due_ms - world_now_ms();
}

/* How many commands came, how many holds they name, and what follows the last of these. */
static int commands, holds;
static const char *leases;
static bool by_text;

static int hear(void)
{
    const char *text = peer_hears(&world.peer);
    commands = holds = 0;
    by_text = strstr(text, "EVAL\r\n") != NULL;
    for (const char *at = text; (at = strstr(at, "EVAL")) != NULL; at++)
        commands++;
    leases = "";
    for (const char *at = text; (at = strstr(at, "hlk-t-1-a:")) != NULL; at++) {
        leases = strstr(at, "\r\n") + 2;
        holds++;
    }
    return holds;
}

static void renew(void)
{
    fire();
    flush();
    cr_assert_eq(hear(), 1);
    cr_assert_eq(commands, 1);
}

/* --- when --- */

Test(watchdog, a_hold_is_looked_at_after_a_third)
{
    peer_up(&world.peer);
    hold(&ann);
    cr_assert_eq(alarm_in(), LEASE / 3);
    fire(); /* a tick early is nothing */
    flush();
    cr_assert_eq(hear(), 0);
    cr_assert_eq(alarm_in(), LEASE / 3);
    release(&ann);
}

Test(watchdog, a_third_later_it_is_renewed)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    int64_t sent = world_now_ms();
    pass(20);
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(sent, LEASE));
    cr_assert_eq(alarm_in(), LEASE / 3 - 20);
    cr_assert_eq(atomic_load(&world.table.counts.renewals), 1u);
    cr_assert_eq(atomic_load(&world.table.counts.renewals_late), 0u);
    cr_assert_str_eq(world_tells(), "");
    release(&ann);
}

Test(watchdog, one_renewal_flies_at_a_time)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    fire();
    flush();
    cr_assert_eq(hear(), 1);
    fire();
    flush();
    cr_assert_eq(hear(), 0);
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    release(&ann);
}

Test(watchdog, a_fixed_lease_is_not_renewed)
{
    peer_up(&world.peer);
    hold_fixed(&ann, 9000);
    pass(3000);
    fire();
    flush();
    cr_assert_eq(hear(), 0);
    release(&ann);
}

Test(watchdog, a_late_renewal_is_counted)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 2 + 1);
    fire(); /* at risk is told first */
    renew();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(atomic_load(&world.table.counts.renewals_late), 1u);
    release(&ann);
}

Test(watchdog, renewals_towards_max_hold_are_shorter)
{
    peer_up(&world.peer);
    enter(&ann);
    int64_t cap = world_now_ms() + 35000;
    ann.turn.max_hold_ms = 35000;
    cr_assert(hlk_session_won(s, &ann.turn, world_now_ms(), 0, false));
    pass(10000);
    renew();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(s->lease.until_ms, cap);
    cr_assert(s->lease.capped);
    release(&ann);
}

/* --- batches --- */

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

Test(watchdog, what_is_due_in_a_tick_leaves_in_few_scripts)
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

Test(watchdog, after_a_reconnect_every_hold_is_verified)
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

Test(watchdog, what_is_not_renewed_is_not_lost_by_a_verification)
{
    peer_up(&world.peer);
    hold(&ann);
    hlk_session_orphan(s, ann.turn.holder.id);
    hlk_watchdog_verify_all(&world.table.watchdog); /* an orphan's lease is to run out */
    cr_assert_eq(hear(), 0);
    cr_assert(hlk_session_close(s, &parting));
    hlk_session_ended(s);
    hlk_watchdog_verify_all(&world.table.watchdog);
    cr_assert_eq(hear(), 0);
}

Test(watchdog, what_is_released_before_the_batch_leaves_is_not_in_it)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    release(&ann);
    flush();
    cr_assert_eq(hear(), 0);
}

Test(watchdog, the_next_hold_is_not_renewed_for_the_one_before)
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

Test(watchdog, an_answer_to_the_hold_before_is_not_the_next_ones)
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

Test(watchdog, a_batch_that_is_sent_again_renews_no_later_hold)
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

Test(watchdog, what_is_due_and_verified_in_one_tick_is_sent_once)
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

Test(watchdog, a_batch_leaves_nothing_marked)
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

Test(watchdog, a_lease_that_all_have_is_sent_once)
{
    renew_three(0, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n");
}

Test(watchdog, a_shorter_lease_before_others_costs_one_more)
{
    renew_three(CAP, 0, 0);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n30000\r\n");
}

Test(watchdog, a_shorter_lease_behind_others_has_each_sent)
{
    renew_three(0, 0, CAP);
    cr_assert_str_eq(leases, "$5\r\n30000\r\n$5\r\n30000\r\n$5\r\n23602\r\n");
}

Test(watchdog, leases_that_are_all_different_are_all_sent)
{
    renew_three(CAP, CAP - 1, CAP - 2);
    cr_assert_str_eq(leases, "$5\r\n23602\r\n$5\r\n23601\r\n$5\r\n23600\r\n");
}

/* --- answers --- */

Test(watchdog, what_the_server_does_not_know_is_lost)
{
    peer_up(&world.peer);
    hold(&ann);
    enter(&bob);
    pass(LEASE / 3);
    renew();
    peer_answers(&world.peer, "*1\r\n:0\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    cr_assert_str_eq(world_tells(), "LOST a;");
    let_go(&ann);
    hlk_session_leave(s, &bob.turn, false);
}

Test(watchdog, what_somebody_else_holds_is_lost)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_answers(&world.peer, "*1\r\n:-1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(world_tells(), "LOST a;");
    let_go(&ann);
}

Test(watchdog, the_end_of_a_loss_is_sent_after_it_was_told)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_answers(&world.peer, "*1\r\n:0\r\n");
    cr_assert_eq(hear(), 0);
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert_eq(hear(), 1);
    let_go(&ann);
}

Test(watchdog, each_of_a_batch_has_its_own_answer)
{
    struct hlk_session *other = world_session("b");
    peer_up(&world.peer);
    hold(&ann);
    hlk_session_enter(other, &bob.turn);
    cr_assert(hlk_session_won(other, &bob.turn, world_now_ms(), 0, false));
    pass(LEASE / 3);
    fire();
    hlk_watchdog_fire(&other->alarm);
    flush();
    cr_assert_eq(hear(), 2);
    cr_assert_eq(commands, 1);
    peer_answers(&world.peer, "*2\r\n:0\r\n:1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_eq(other->lease.sent_ms, world_now_ms());
    cr_assert_str_eq(world_tells(), "LOST a;");
    let_go(&ann);
    cr_assert_eq(hlk_session_let_go(other, bob.turn.holder.id, &parting), HLK_LET_LAST);
    hlk_session_ended(other);
    hlk_session_unref(other);
}

Test(watchdog, a_server_without_the_script_is_sent_its_text)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    cr_assert_not(by_text);
    peer_answers(&world.peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_eq(hear(), 1);
    cr_assert(by_text);
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(s->lease.sent_ms, world_now_ms());
    release(&ann);
}

Test(watchdog, a_refused_renewal_is_tried_again_a_tenth_later)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_answers(&world.peer, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(alarm_in(), LEASE / 10);
    pass(LEASE / 10);
    renew();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    release(&ann);
}

Test(watchdog, an_answer_of_another_shape_says_nothing)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_answers(&world.peer, "*2\r\n:0\r\n:0\r\n");
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(watchdog, a_renewal_that_broke_loses_nothing)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_breaks(&world.peer);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(world_tells(), "");
    peer_up(&world.peer);
    hlk_watchdog_verify_all(&world.table.watchdog);
    cr_assert_eq(hear(), 1);
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_eq(s->lease.sent_ms, world_now_ms());
    release(&ann);
}

/* --- at risk, safe, lost --- */

Test(watchdog, without_answers_it_is_at_risk_then_lost)
{
    hold(&ann);
    pass(LEASE / 3);
    fire();
    flush(); /* no connection */
    pass(s->lease.until_ms - LEASE / 3 - world_now_ms() - 1);
    fire();
    cr_assert_str_eq(world_tells(), "");
    pass(1);
    fire();
    fire();
    cr_assert_str_eq(world_tells(), "AT_RISK a;");
    pass(s->lease.until_ms - world_now_ms() - 1);
    fire();
    flush();
    cr_assert_str_eq(world_tells(), "");
    pass(1);
    fire();
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert(is_lost(&ann));
    cr_assert_eq(hlk_undos_count(&world.undos), 1u);
    let_go(&ann);
}

Test(watchdog, an_answer_at_the_last_moment_makes_it_safe)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(s->lease.until_ms - world_now_ms() - 5);
    fire();
    cr_assert_str_eq(world_tells(), "AT_RISK a;");
    renew();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_str_eq(world_tells(), "SAFE a;");
    release(&ann);
}

Test(watchdog, an_answer_after_the_loss_changes_nothing)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(s->lease.until_ms - world_now_ms() - 5);
    fire();
    renew();
    pass(5);
    fire();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(world_tells(), "AT_RISK a;LOST a;");
    let_go(&ann);
}

Test(watchdog, at_risk_comes_when_the_client_wants_it)
{
    world.table.at_risk_ms = 500;
    hold_fixed(&ann, 10000);
    cr_assert_eq(alarm_in(), s->lease.until_ms - 500 - world_now_ms());
    pass(alarm_in());
    fire();
    cr_assert_str_eq(world_tells(), "AT_RISK a;");
    release(&ann);
}

Test(watchdog, an_alarm_of_what_is_not_held_is_nothing)
{
    fire();
    enter(&ann);
    pass(LEASE);
    fire();
    hlk_session_leave(s, &ann.turn, false);
    hold(&ann);
    let_go(&ann);
    fire();
    hlk_session_ended(s);
    cr_assert_str_eq(world_tells(), "");
}

/* --- without memory --- */

Test(watchdog, without_memory_for_a_batch_it_is_tried_at_the_next_alarm)
{
    peer_up(&world.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    hlk_mem_fail_after(1);
    flush();
    hlk_mem_fail_after(-1);
    cr_assert_eq(hear(), 0);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_not(hlk_list_linked(&s->due));
    pass(alarm_in());
    fire(); /* at risk by now, and asked again */
    pass(alarm_in() > 0 ? alarm_in() : 0);
    renew();
    peer_answers(&world.peer, "*1\r\n:1\r\n");
    cr_assert_str_eq(world_tells(), "AT_RISK a;SAFE a;");
    release(&ann);
}

static int errors_logged;

static void count_errors(int level, const char *line, void *ctx)
{
    (void)line, (void)ctx;
    errors_logged += level == HLK_LOG_ERROR;
}

Test(watchdog, an_event_that_could_not_be_told_is_logged)
{
    world.log.fn = count_errors;
    hold_fixed(&ann, 10000);
    pass(alarm_in());
    hlk_mem_fail_once(1);
    fire();
    hlk_mem_fail_after(-1);
    cr_assert_str_eq(world_tells(), "");
    flush();
    flush();
    cr_assert_eq(errors_logged, 1);
    release(&ann);
}
