/* When holds are renewed, and what each reply means. The test has the server's end. */
#include "watchdog_fixture.h"

#include "base/mem.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "script/release_list.h"
#include "script/table.h"

TestSuite(watchdog, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- when --- */

Test(watchdog, a_hold_is_looked_at_after_a_third)
{
    peer_up(&unit.peer);
    hold(&ann);
    cr_assert_eq(alarm_in(), LEASE / 3);
    fire(); /* one tick too early: no effect */
    flush();
    cr_assert_eq(hear(), 0);
    cr_assert_eq(alarm_in(), LEASE / 3);
    release(&ann);
}

Test(watchdog, a_third_later_it_is_renewed)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    int64_t sent = unit_now_ms();
    pass(20);
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(sent, LEASE));
    cr_assert_eq(alarm_in(), LEASE / 3 - 20);
    cr_assert_eq(atomic_load(&unit.table.counts.renewals), 1u);
    cr_assert_eq(atomic_load(&unit.table.counts.renewals_late), 0u);
    cr_assert_str_eq(unit_tells(), "");
    release(&ann);
}

Test(watchdog, one_renewal_flies_at_a_time)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    fire();
    flush();
    cr_assert_eq(hear(), 1);
    fire();
    flush();
    cr_assert_eq(hear(), 0);
    answer_renewal(":1\r\n");
    release(&ann);
}

Test(watchdog, a_fixed_lease_is_not_renewed)
{
    peer_up(&unit.peer);
    hold_fixed(&ann, 9000);
    pass(3000);
    fire();
    flush();
    cr_assert_eq(hear(), 0);
    release(&ann);
}

Test(watchdog, a_late_renewal_is_counted)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 2 + 1);
    fire(); /* at risk is reported first */
    renew();
    answer_renewal(":1\r\n");
    cr_assert_eq(atomic_load(&unit.table.counts.renewals_late), 1u);
    release(&ann);
}

static char logged[512];

static void remember_warnings(int level, const char *line, void *ctx)
{
    (void)ctx;
    if (level == HLK_LOG_WARN)
        (void)snprintf(logged, sizeof logged, "%s", line);
}

/* asks A2 redisson 5697: with its cause: this process, when the server was not slow */
Test(watchdog, a_late_renewal_is_logged_with_gap_and_servers_part)
{
    unit.log.fn = remember_warnings;
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 2);
    renew();
    answer_renewal(":1\r\n");
    cr_assert_str_eq(logged, "", "half of a lease is not late");
    pass(LEASE / 2 + 1);
    renew();
    pass(70);
    answer_renewal(":1\r\n");
    cr_assert_str_eq(logged, "1 of 1 locks renewed later than half of their lease, \"a\" 15001 ms after the time "
                             "before; the server took 70 ms to answer");
    release(&ann);
}

Test(watchdog, renewals_towards_max_hold_are_shorter)
{
    peer_up(&unit.peer);
    enter(&ann);
    int64_t cap = unit_now_ms() + 35000;
    ann.waiter.max_hold_ms = 35000;
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 0, false));
    pass(10000);
    renew();
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.until_ms, cap);
    cr_assert(e->hold.lease.capped);
    release(&ann);
}

/* --- answers --- */

Test(watchdog, what_the_server_does_not_know_is_lost)
{
    peer_up(&unit.peer);
    hold(&ann);
    enter(&bob);
    pass(LEASE / 3);
    renew();
    answer_renewal(":0\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    let_go(&ann);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(watchdog, what_somebody_else_holds_is_lost)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    answer_renewal(":-1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(unit_tells(), "LOST a;");
    let_go(&ann);
}

Test(watchdog, a_lost_hold_is_not_released_before_it_was_told)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    answer_renewal(":0\r\n");
    let_go(&ann);
    pass(LEASE / 10);
    hlk_loop_tick(unit.peer.loop);
    cr_assert_eq(hear(), 0);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(hear(), 1);
}

Test(watchdog, each_of_a_batch_has_its_own_answer)
{
    struct hlk_entry *other = unit_entry("b");
    peer_up(&unit.peer);
    hold(&ann);
    hlk_entry_enter(other, &bob.waiter);
    cr_assert(hlk_entry_acquired(other, &bob.waiter, unit_now_ms(), 0, false));
    pass(LEASE / 3);
    fire();
    hlk_watchdog_fire(&other->hold.alarm);
    flush();
    cr_assert_eq(hear(), 2);
    cr_assert_eq(commands, 1);
    answer_renewal(":0\r\n:1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_eq(other->hold.lease.sent_ms, unit_now_ms());
    cr_assert_str_eq(unit_tells(), "LOST a;");
    let_go(&ann);
    cr_assert_eq(hlk_entry_release(other, bob.waiter.holder.id, &record), HLK_VERDICT_LAST);
    hlk_entry_release_finish(other);
    hlk_entry_unref(other);
}

Test(watchdog, a_server_without_the_script_is_sent_its_text)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    cr_assert_not(by_text);
    peer_answers(&unit.peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_eq(hear(), 1);
    cr_assert(by_text);
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.sent_ms, unit_now_ms());
    release(&ann);
}

Test(watchdog, a_refused_renewal_is_tried_again_a_tenth_later)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_answers(&unit.peer, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(alarm_in(), LEASE / 10);
    pass(LEASE / 10);
    renew();
    answer_renewal(":1\r\n");
    release(&ann);
}

static void says_nothing_and_ends_the_stream(const char *shape)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    int64_t until = e->hold.lease.until_ms;
    peer_answers(&unit.peer, shape);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(e->hold.lease.until_ms, until);
    peer_reads(&unit.peer);
    cr_assert_eq(unit.peer.pipeline->state, HLK_PIPELINE_DOWN);
    release(&ann);
}

Test(watchdog, an_answer_of_another_shape_only_ends_the_stream)
{
    says_nothing_and_ends_the_stream("*2\r\n:0\r\n:0\r\n");
}

Test(watchdog, an_answer_without_a_name_only_ends_the_stream)
{
    says_nothing_and_ends_the_stream("*1\r\n:1\r\n");
}

Test(watchdog, an_answer_to_another_renewal_only_ends_the_stream)
{
    says_nothing_and_ends_the_stream("*2\r\n:1\r\n$13\r\nhlk-t-1-a:999\r\n");
}

Test(watchdog, a_loss_of_another_renewal_only_ends_the_stream)
{
    says_nothing_and_ends_the_stream("*2\r\n:0\r\n$13\r\nhlk-t-1-a:999\r\n");
}

Test(watchdog, a_renewal_that_broke_loses_nothing)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_breaks(&unit.peer);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(unit_tells(), "");
    peer_up(&unit.peer);
    hlk_watchdog_verify_all(&unit.node);
    cr_assert_eq(hear(), 1);
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.sent_ms, unit_now_ms());
    release(&ann);
}

/* --- at risk, safe, lost --- */

Test(watchdog, without_answers_it_is_at_risk_then_lost)
{
    hold(&ann);
    pass(LEASE / 3);
    fire();
    flush(); /* no connection */
    pass(e->hold.lease.until_ms - LEASE / 3 - unit_now_ms() - 1);
    fire();
    cr_assert_str_eq(unit_tells(), "");
    pass(1);
    fire();
    fire();
    cr_assert_str_eq(unit_tells(), "AT_RISK a;");
    cr_assert_str_eq(unit.why, "renewal is overdue: no answer from the server");
    pass(e->hold.lease.until_ms - unit_now_ms() - 1);
    fire();
    flush();
    cr_assert_str_eq(unit_tells(), "");
    pass(1);
    fire();
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_str_eq(unit.why, "no answer to renewals from the server");
    cr_assert(is_lost(&ann));
    let_go(&ann);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u);
}

/* asks A2 bsm 83: an unknown outcome is asked for again until the local deadline, not later */
Test(watchdog, what_was_lost_is_renewed_no_more)
{
    for (int memory = 1; memory >= 0; memory--) { /* without memory the entry itself stores the loss */
        peer_up(&unit.peer);
        hold(&ann);
        pass(e->hold.lease.until_ms - unit_now_ms());
        hlk_mem_fail_after(memory ? -1 : 1);
        fire();
        hlk_mem_fail_after(-1);
        cr_assert(is_lost(&ann));
        peer_breaks(&unit.peer);
        peer_up(&unit.peer);
        hlk_watchdog_verify_all(&unit.node);
        for (int i = 0; i < 3; i++) {
            pass(LEASE / 3);
            fire();
            flush();
        }
        cr_assert_null(strstr(peer_hears(&unit.peer), hlk_script_table[HLK_SCRIPT_LOCK_RENEW].sha1));
        let_go(&ann);
        peer_breaks(&unit.peer);
    }
}

Test(watchdog, a_process_that_stood_still_is_told_so)
{
    hold(&ann);
    pass(LEASE - 1);
    fire();
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_str_eq(unit.why, "this process stood still until its lease was over");
    let_go(&ann);
}

Test(watchdog, a_process_that_stood_still_for_less_is_told_so_too)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(e->hold.lease.until_ms - unit_now_ms() - 1);
    fire();
    cr_assert_str_eq(unit_tells(), "AT_RISK a;");
    cr_assert_str_eq(unit.why, "renewal is overdue: this process stood still");
    release(&ann);
}

Test(watchdog, a_loss_that_the_holder_finds_out_says_why)
{
    hold(&ann);
    pass(e->hold.lease.until_ms - unit_now_ms());
    let_go(&ann);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_str_eq(unit.why, "no answer to renewals from the server");
}

Test(watchdog, an_answer_at_the_last_moment_makes_it_safe)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(e->hold.lease.until_ms - unit_now_ms() - 5);
    fire();
    cr_assert_str_eq(unit_tells(), "AT_RISK a;");
    renew();
    answer_renewal(":1\r\n");
    cr_assert_str_eq(unit_tells(), "SAFE a;");
    release(&ann);
}

Test(watchdog, an_answer_after_the_loss_changes_nothing)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(e->hold.lease.until_ms - unit_now_ms() - 5);
    fire();
    renew();
    pass(5);
    fire();
    answer_renewal(":1\r\n");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(unit_tells(), "AT_RISK a;LOST a;");
    let_go(&ann);
}

/* The loop has not reported it yet, but a call has compared the clock, and its LOST is final. */
Test(watchdog, an_answer_after_the_lease_is_over_revives_nothing)
{
    unsigned count;
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    renew();
    pass(e->hold.lease.until_ms - unit_now_ms());
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
    answer_renewal(":1\r\n");
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(unit_tells(), "LOST a;");
    fire();
    cr_assert_str_eq(unit_tells(), "");
    cr_assert_eq(atomic_load(&unit.table.counts.renewals), 0u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
}

Test(watchdog, what_is_over_by_the_clock_is_renewed_no_more)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    pass(e->hold.lease.until_ms - unit_now_ms());
    flush(); /* the loop was stopped between the two */
    hlk_watchdog_verify_all(&unit.node);
    cr_assert_eq(hear(), 0);
    fire();
    cr_assert_str_eq(unit_tells(), "LOST a;");
    let_go(&ann);
}

Test(watchdog, at_risk_comes_when_the_client_wants_it)
{
    unit.table.at_risk_ms = 500;
    hold_fixed(&ann, 10000);
    cr_assert_eq(alarm_in(), e->hold.lease.until_ms - 500 - unit_now_ms());
    pass(alarm_in());
    fire();
    cr_assert_str_eq(unit_tells(), "AT_RISK a;");
    release(&ann);
}

Test(watchdog, an_alarm_of_what_is_not_held_is_nothing)
{
    fire();
    enter(&ann);
    pass(LEASE);
    fire();
    hlk_entry_leave(e, &ann.waiter, false);
    hold(&ann);
    let_go(&ann);
    fire();
    hlk_entry_release_finish(e);
    cr_assert_str_eq(unit_tells(), "");
}

/* --- without memory --- */

Test(watchdog, without_memory_retries_a_batch_at_the_next_alarm)
{
    peer_up(&unit.peer);
    hold(&ann);
    pass(LEASE / 3);
    fire();
    hlk_mem_fail_after(1);
    flush();
    hlk_mem_fail_after(-1);
    cr_assert_eq(hear(), 0);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_not(e->is_due);
    pass(alarm_in());
    fire(); /* at risk by now, and sent again */
    pass(alarm_in() > 0 ? alarm_in() : 0);
    renew();
    answer_renewal(":1\r\n");
    cr_assert_str_eq(unit_tells(), "AT_RISK a;SAFE a;");
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
    unit.log.fn = count_errors;
    hold_fixed(&ann, 10000);
    pass(alarm_in());
    hlk_mem_fail_once(1);
    fire();
    hlk_mem_fail_after(-1);
    cr_assert_str_eq(unit_tells(), "");
    flush();
    flush();
    cr_assert_eq(errors_logged, 1);
    release(&ann);
}
