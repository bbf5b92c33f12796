/* hasplock run on a redlock:// URL: over three masters, of which some are killed. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 3 };

static struct server *masters[MASTERS];

static void start(void)
{
    char url[1024] = "redlock://";
    pause_watch();
    for (int i = 0; i < MASTERS; i++) {
        masters[i] = server_start(0, NULL);
        const char *one = hlk_test_url(masters[i]), *host = strstr(one, "://");
        snprintf(url + strlen(url), sizeof url - strlen(url), "%s%s", i ? "," : "", host ? host + 3 : one);
    }
    snprintf(url + strlen(url), sizeof url - strlen(url), "?restart_delay_ms=0");
    setenv("HASPLOCK_URL", url, 1);
}

static void stop(void)
{
    for (int i = 0; i < MASTERS; i++) {
        if (masters[i]->pid)
            server_finish(masters[i]);
        else
            server_stop(masters[i]);
    }
}

static void is_busy(const struct command *holder)
{
    struct command *c = COMMAND("run", "-n", "t", "--", "true");
    int code = command_end(c);
    cr_assert_eq(code, 1, "%d: %s; the holder: %s", code, c->text[ERR], holder->text[ERR]);
    command_free(c);
}

TestSuite(redlock, .init = start, .fini = stop, .timeout = 60);

Test(redlock, holds_while_a_command_runs)
{
    struct command *c = COMMAND("run", "t", "--", "sh", "-c", "echo held; cat");
    command_until(c, OUT, "held");
    is_busy(c);
    struct command *waiting = COMMAND("run", "t", "--", "echo", "next");
    command_type_end(c);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
    command_until(waiting, OUT, "next");
    cr_assert_eq(command_end(waiting), 0, "%s", waiting->text[ERR]);
    command_free(waiting);
}

Test(redlock, survives_the_loss_of_one_of_three_masters)
{
    struct command *c = COMMAND("run", "--lease", "3", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready");
    server_kill(masters[1]);
    test_sleep_ms(4000); /* longer than a lease: it is renewed by the other two */
    is_busy(c);
    command_type_end(c);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
    cr_assert_eq(RUN("run", "t", "--", "true"), 0);
}

Test(redlock, without_a_majority_ends_the_command_in_time)
{
    struct command *c = COMMAND("run", "--lease", "3", "t", "--", FAKE_COMMAND, "catch", "ready", "stay");
    command_until(c, OUT, "ready");
    server_kill(masters[0]);
    server_kill(masters[1]);
    cr_assert_eq(command_end(c), 75, "%s", c->text[ERR]);
    command_free(c);
}

Test(redlock, without_a_majority_names_each_master_that_is_away)
{
    server_kill(masters[0]);
    server_kill(masters[1]);
    struct command *c = COMMAND("run", "-n", "t", "--", "true");
    cr_assert_eq(command_end(c), 69, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "of 3 masters are connected, 2 are needed"), "%s", c->text[ERR]);
    command_free(c);
}

static void has_lease(const char *ms)
{
    char url[1200];
    snprintf(url, sizeof url, "%s&ttl_ms=%s", getenv("HASPLOCK_URL"), ms);
    setenv("HASPLOCK_URL", url, 1);
}

/* It is shorter than an eighth of the default: a renewal each tenth of that would come too late. */
Test(redlock, lease_of_the_url_is_that_of_run)
{
    has_lease("1500");
    struct command *c = COMMAND("run", "--json", "t", "--", "sleep", "3");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "\"lease_ms\":1500"), "%s", c->text[ERR]);
    command_free(c);
    cr_assert_eq(RUN("run", "--lease", "1.5", "t", "--", "true"), 0);
}

Test(redlock, two_different_leases_are_refused)
{
    has_lease("1500");
    struct command *c = COMMAND("run", "--lease", "3", "t", "--", "true");
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "--lease is 3 s and the URL's ttl_ms 1.5 s: which lease?"), "%s",
                       c->text[ERR]);
    command_free(c);
}

Test(redlock, lease_of_the_url_has_the_bounds_of_the_option)
{
    has_lease("500");
    struct command *c = COMMAND("run", "t", "--", "true");
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "ttl_ms of 500 ms: a second to a year"), "%s", c->text[ERR]);
    command_free(c);
}

Test(redlock, refuses_what_is_about_one_server)
{
    struct command *c = COMMAND("run", "--fenced", "t", "--", "true");
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "no fencing tokens"), "%s", c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "-s", "t", "--", "true");
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": this kind has "), "%s", c->text[ERR]);
    command_free(c);
}

/* Each master; one that is away is a problem, and the others are examined all the same. */
Test(redlock, masters_are_examined_by_doctor)
{
    struct command *c = COMMAND("doctor", "t");
    cr_assert_lt(command_end(c), 2, "%s%s", c->text[OUT], c->text[ERR]);
    for (int i = 1; i <= MASTERS; i++) {
        char line[32];
        snprintf(line, sizeof line, "master %d of 3\n", i);
        cr_assert_not_null(strstr(c->text[OUT], line), "%s", c->text[OUT]);
    }
    command_free(c);
    server_kill(masters[1]);
    c = COMMAND("doctor", "--json", "t");
    cr_assert_eq(command_end(c), 2, "%s%s", c->text[OUT], c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "{\"master\":2,\"area\":\"connection\",\"level\":\"problem\""), "%s",
                       c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "{\"master\":3,\"area\":\"role\",\"level\":\"ok\""), "%s", c->text[OUT]);
    command_free(c);
    server_kill(masters[2]);
    cr_assert_eq(RUN("doctor", "-q", "t"), 69);
}

static void expect_answer(int code, const char *words, struct command *c)
{
    cr_assert_eq(command_end(c), code, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], words), "%s", c->text[OUT]);
    command_free(c);
}

Test(redlock, is_shown_and_listed_and_broken)
{
    expect_answer(1, "t: free", COMMAND("show", "t"));
    struct command *c = COMMAND("run", "--lease", "3", "t", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready");
    redisContext *redis_1 = raw_open(masters[0]);
    cr_assert_str_eq(raw(redis_1, "KEYS hasplock_note:*"), "[]", "there are none over several masters");
    redisFree(redis_1);
    server_kill(masters[2]);
    expect_answer(0, "t: held by", COMMAND("show", "t"));
    expect_answer(0, "t: held by", COMMAND("list"));
    expect_answer(0, "it is not notified until its next renewal", COMMAND("break", "--now", "t"));
    cr_assert_eq(command_end(c), 75, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], ": lost: "), "%s", c->text[ERR]);
    command_free(c);
    expect_answer(1, "t: free, nothing to break", COMMAND("break", "--now", "t"));
}

/* Its socket takes connections: only the answers are missing. */
Test(redlock, with_a_hung_master_gets_a_free_lock_and_is_shown)
{
    server_pause(masters[2]);
    int64_t began = test_now_ms();
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 0);
    cr_assert_eq(RUN("run", "-w", "1", "t", "--", "true"), 0);
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready");
    expect_answer(0, "t: held by", COMMAND("show", "t"));
    expect_answer(0, "t: held by", COMMAND("list"));
    is_busy(c);
    cr_assert_lt(running_ms(began), 6000, "3 s for each were for the last master once");
    command_type_end(c);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
    server_resume(masters[2]);
}
