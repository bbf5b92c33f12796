/* A lock that is lost, or about to be: COMMAND is stopped before anybody else can hold it. asks.md (e), A3, A7. */
#include "fixture.h"
#include "support/proxy.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

TestSuite(lost, .init = cli_start, .fini = cli_stop);

/* Cut off from the server, while a rival that is not waits for the lock: the rival must find COMMAND dead, which had
 * its SIGTERM with `term`. */
static const char *lose_to_a_rival(const char *on_lost, const char *first_step)
{
    struct proxy *proxy = proxy_start(server);
    struct command *c = COMMAND("run", "-u", proxy_url(proxy), "--lease", "2", "--on-lost", on_lost, "t", "--",
                                FAKE_COMMAND, first_step, "ready", "times");
    command_until(c, OUT, "ready\n");
    struct command *rival = COMMAND("run", "t", "--", FAKE_COMMAND, "times");
    WAIT_FOR(raw_listeners(redis, "t") == 1);
    proxy_freeze(proxy, true);
    command_until(rival, OUT, "at ");
    kill(rival->pid, SIGTERM);
    cr_assert_eq(command_end(c), 75);
    long long rival_came = command_number(rival, "at"), last = command_last_time(c);
    cr_assert_gt(last, 0);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": lost: "), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "; sent SIGKILL to "), "%s", c->text[ERR]);
    bool got_sigterm = strstr(c->text[OUT], "got SIGTERM");
    cr_assert_eq(command_end(rival), DIED_OF + SIGTERM);
    proxy_freeze(proxy, false);
    proxy_stop(proxy);
    command_free(c);
    command_free(rival);
    server_allow(server, SERVER_TOMBSTONES);
    return last >= rival_came                              ? "worked beside the next holder"
           : got_sigterm != (strcmp(on_lost, "term") == 0) ? "SIGTERM, or none"
                                                           : NULL;
}

static const char *lose_by_sigterm(void)
{
    return lose_to_a_rival("term", "catch");
}

static const char *lose_by_sigkill(void)
{
    return lose_to_a_rival("kill", "catch");
}

Test(lost, a_stubborn_command_is_dead_before_the_next_holder)
{
    const char *wrong = pause_repeat(100, lose_by_sigterm);
    cr_assert_null(wrong, "%s", wrong);
}

Test(lost, on_lost_kill_sends_no_sigterm_and_kills_as_early)
{
    const char *wrong = pause_repeat(100, lose_by_sigkill);
    cr_assert_null(wrong, "%s", wrong);
}

/* SIGSTOP: connections stay, nobody answers. */
static const char *lose_at_risk(void)
{
    struct command *c = COMMAND("run", "--lease", "1.5", "t", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready\n");
    server_pause(server);
    cr_assert_eq(command_end(c), 75);
    server_resume(server);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": at risk: "), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "; sent SIGTERM to "), "%s", c->text[ERR]);
    bool late = strstr(c->text[ERR], "lost") || strstr(c->text[ERR], "SIGKILL to");
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
    return late ? "it was lost before the command had ended" : NULL;
}

Test(lost, a_command_that_heeds_sigterm_has_the_grace_to_end)
{
    const char *wrong = pause_repeat(100, lose_at_risk);
    cr_assert_null(wrong, "%s", wrong);
}

/* Shows: S2 */
Test(lost, sigkill_comes_before_the_lease_ends)
{
    struct command *c = COMMAND("run", "--lease", "6", "t", "--", FAKE_COMMAND, "catch", "ready", "times");
    command_until(c, OUT, "ready\n");
    /* Once the server stands still the ttl can only be what it was at the last renewal before, or less. */
    int64_t asked_ms = test_now_ms();
    int64_t pttl = raw_pttl(redis, "t");
    server_pause(server);
    cr_assert_eq(command_end(c), 75);
    cr_assert_leq(pttl, 6000);
    cr_assert_lt(command_last_time(c), asked_ms + 6000);
    cr_assert_not_null(strstr(c->text[OUT], "got SIGTERM\n"));
    server_resume(server);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

Test(lost, nothing_is_lost_if_the_server_returns_in_time)
{
    struct proxy *proxy = proxy_start(server);
    struct command *c = COMMAND("run", "-u", proxy_url(proxy), "--lease", "3", "--on-lost", "kill", "t", "--",
                                FAKE_COMMAND, "ready", "read", "exit=5");
    command_until(c, OUT, "ready\n");
    proxy_freeze(proxy, true);
    command_until(c, ERR, "hasplock: run \"t\": at risk: ");
    proxy_freeze(proxy, false);
    command_until(c, ERR, "hasplock: run \"t\": safe again: ");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(c);
    cr_assert_eq(command_end(c), 5);
    proxy_stop(proxy);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

Test(lost, what_sigterm_has_begun_is_final)
{
    struct proxy *proxy = proxy_start(server);
    struct command *c =
        COMMAND("run", "-u", proxy_url(proxy), "--lease", "9", "t", "--", FAKE_COMMAND, "catch", "ready", "stay");
    command_until(c, OUT, "ready\n");
    proxy_freeze(proxy, true);
    command_until(c, OUT, "got SIGTERM\n"); /* SIGKILL comes 3 s later */
    proxy_freeze(proxy, false);
    cr_assert_eq(command_end(c), 75);
    cr_assert_not_null(strstr(c->text[ERR], "; sent SIGKILL to "), "%s", c->text[ERR]);
    proxy_stop(proxy);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

Test(lost, on_lost_warn_lets_the_command_go_on)
{
    struct proxy *proxy = proxy_start(server);
    struct command *c = COMMAND("run", "-u", proxy_url(proxy), "--lease", "3", "--on-lost", "warn", "t", "--",
                                FAKE_COMMAND, "catch", "ready", "read", "exit=6");
    command_until(c, OUT, "ready\n");
    proxy_freeze(proxy, true);
    command_until(c, ERR, "hasplock: run \"t\": at risk: ");
    command_until(c, ERR, "hasplock: run \"t\": lost: ");
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    proxy_freeze(proxy, false);
    command_type_end(c);
    cr_assert_eq(command_end(c), 6);
    cr_assert_null(strstr(c->text[OUT], "got "), "%s", c->text[OUT]);
    proxy_stop(proxy);
    command_free(c);
    server_allow(server, SERVER_TOMBSTONES);
}

/* No renewal is due within the time that is left to it. */
static void break_it(const char *kind)
{
    struct command *c = COMMAND("run", kind, "--lease", "600", "t", "--", FAKE_COMMAND, "catch", "ready", "stay");
    command_until(c, OUT, "ready\n");
    WAIT_FOR(strstr(raw(redis, "PUBSUB CHANNELS hasplock_inbox:*"), "hasplock_inbox:"));
    struct command *b = COMMAND("break", "--now", "t", strncmp(kind, "--on-lost", 9) != 0 ? kind : NULL);
    cr_assert_eq(command_end(b), 0, "%s", b->text[ERR]);
    cr_assert_eq(command_end(c), 75);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": lost: broken by an operator; sent SIGKILL to "), "%s",
                       c->text[ERR]);
    command_free(b);
    command_free(c);
}

/* Shows: S14 */
Test(lost, a_broken_lock_kills_at_once)
{
    break_it("--on-lost=kill");
}

Test(lost, a_broken_string_lock_kills_at_once)
{
    break_it("--string");
}

Test(lost, a_broken_fair_lock_kills_at_once)
{
    break_it("--fair");
}

/* A loss that is learnt by the release only: what COMMAND did is done, its code stands, and it is said. */
Test(lost, a_loss_that_comes_out_at_the_end_is_said)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read", "exit=7");
    command_until(c, OUT, "ready\n");
    cr_assert_str_eq(raw(redis, "DEL t"), ":1");
    command_type_end(c);
    cr_assert_eq(command_end(c), 7);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": lost while COMMAND ran, "), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
}

/* And what another holds by then is not touched. */
Test(lost, the_next_holders_lock_is_left_alone)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read", "exit=7");
    command_until(c, OUT, "ready\n");
    raw(redis, "DEL t");
    struct command *next = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(next, OUT, "ready\n");
    command_type_end(c);
    cr_assert_eq(command_end(c), 7);
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(next);
    cr_assert_eq(command_end(next), 0, "%s", next->text[ERR]);
    command_free(c);
    command_free(next);
}

/* consul 2022. The shell is gone at the first SIGTERM; what it had started works on until the end of the grace. */
Test(lost, what_the_command_has_started_is_killed_with_it)
{
    struct command *c = COMMAND("run", "--max-hold", "0.2", "--grace", "0.6", "t", "--", FAKE_COMMAND, "child", "catch",
                                "tell", "ready", "stay", ".", "stay");
    command_until(c, OUT, "got SIGTERM\n");
    pid_t grandchild = (pid_t)command_number(c, "pid");
    cr_assert_eq(command_wait(c), 75);
    cr_assert(process_is_gone(grandchild));
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_end(c);
    command_free(c);
}

Test(lost, the_lock_stays_until_all_of_the_group_has_ended)
{
    struct command *c = COMMAND("run", "--max-hold", "0.2", "--grace", "10", "t", "--", FAKE_COMMAND, "child", "catch",
                                "read", "exit=0", ".", "stay");
    command_until(c, OUT, "got SIGTERM\n");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(c); /* it ends well before the grace does */
    cr_assert_eq(command_end(c), 75);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
}

/* An init that takes its time: this test, which reaps nothing. The dead are no reason to go on holding. */
Test(lost, the_dead_of_a_stopped_group_do_not_count_as_living)
{
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    struct command *c =
        COMMAND("run", "--max-hold", "0.2", "--grace", "10", "t", "--", FAKE_COMMAND, "child", "stay", ".", "stay");
    cr_assert_eq(command_end(c), 75);
    cr_assert_null(strstr(c->text[ERR], "SIGKILL to"), "%s", c->text[ERR]);
    command_free(c);
}

/* We stand still past our lease, COMMAND too: it must not go on as if nothing had been. */
/* Shows: S1 */
Test(lost, a_command_is_killed_when_we_wake_past_the_lease)
{
    struct command *c = COMMAND("run", "--lease", "1", "t", "--", FAKE_COMMAND, "catch", "tell", "ready", "stay");
    command_until(c, OUT, "ready\n");
    pid_t pid = (pid_t)command_number(c, "pid");
    kill(pid, SIGSTOP);
    kill(c->pid, SIGSTOP);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    kill(c->pid, SIGCONT);
    cr_assert_eq(command_end(c), 75);
    cr_assert(process_is_gone(pid));
    cr_assert_null(strstr(c->text[OUT], "got "), "%s", c->text[OUT]);
    command_free(c);
}
