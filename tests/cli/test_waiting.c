/* Waiting for the lock: how long, and what ends it. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(waiting, .init = cli_start, .fini = cli_stop);

static struct command *holder;

static void hold(void)
{
    holder = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(holder, OUT, "ready\n");
}

static void let_go(void)
{
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0, "%s", holder->text[ERR]);
    command_free(holder);
}

static struct command *start_waiting(void)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready");
    WAIT_FOR(raw_listeners(redis, "t") == 1);
    return c;
}

Test(waiting, nonblock_exits_with_1_and_says_who_holds_it)
{
    char pid[32];
    hold();
    struct command *c = COMMAND("run", "-n", "t", "--", FAKE_COMMAND, "ready");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_empty(c->text[OUT]);
    snprintf(pid, sizeof pid, " pid %d", (int)holder->pid);
    cr_assert_eq(strncmp(c->text[ERR], "hasplock: run \"t\": ", 19), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], pid), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "ttl"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1);
    command_free(c);
    let_go();
}

Test(waiting, quiet_says_nothing_when_not_acquired)
{
    hold();
    struct command *c = COMMAND("run", "-qn", "t", "--", FAKE_COMMAND, "ready");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    command_free(c);
    let_go();
}

Test(waiting, gives_the_conflict_exit_code_that_was_asked_for)
{
    hold();
    cr_assert_eq(RUN("run", "-n", "-E", "0", "t", "--", "true"), 0);
    cr_assert_eq(RUN("run", "-w", "0.1", "--conflict-exit-code", "17", "t", "--", "true"), 17);
    let_go();
}

/* asks.md A1, spring-integration 3690: a timed wait never returns before its deadline unless it got the lock. */
Test(waiting, waits_as_long_as_it_was_told)
{
    hold();
    int64_t started_ms = test_now_ms();
    struct command *c = COMMAND("run", "-w", "0.7", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    cr_assert_geq(test_now_ms() - started_ms, 700);
    cr_assert_not_null(strstr(c->text[ERR], ": not acquired in "), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1);
    command_free(c);
    let_go();
}

Test(waiting, a_wait_of_0_is_one_try)
{
    hold();
    cr_assert_eq(RUN("run", "-w", "0", "t", "--", "true"), 1);
    let_go();
}

Test(waiting, verbose_says_once_who_holds_it)
{
    char said[128];
    hold();
    struct command *c = COMMAND("run", "-v", "t", "--", FAKE_COMMAND, "ready");
    command_until(c, ERR, ": waiting: ");
    command_until(c, ERR, "\n");
    snprintf(said, sizeof said, " pid %d (hold 1), ttl ", (int)holder->pid);
    cr_assert_not_null(strstr(c->text[ERR], said), "%s", c->text[ERR]);
    let_go();
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "ready\n");
    cr_assert_null(strstr(strstr(c->text[ERR], "waiting") + 1, "waiting"), "%s", c->text[ERR]);
    cr_assert_lt(strstr(c->text[ERR], "waiting"), strstr(c->text[ERR], "acquired after "), "%s", c->text[ERR]);
    command_free(c);
}

/* Also when the wait is short, and it is as long as without -v. */
Test(waiting, verbose_says_it_in_a_short_wait_too)
{
    hold();
    int64_t started_ms = test_now_ms();
    struct command *c = COMMAND("run", "-v", "-w", "1500ms", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    int64_t took_ms = test_now_ms() - started_ms;
    cr_assert(took_ms >= 1500 && took_ms < 4000, "%lld ms", (long long)took_ms);
    cr_assert_not_null(strstr(c->text[ERR], ": waiting: held by "), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "; 1st in the queue"), "%s", c->text[ERR]);
    command_free(c);
    let_go();
}

Test(waiting, verbose_says_nothing_of_a_lock_that_is_free)
{
    struct command *c = COMMAND("run", "-v", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    command_type_end(c);
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strstr(c->text[ERR], "waiting"), "it was free: %s", c->text[ERR]);
    command_free(c);
}

/* The question who holds it hangs, and the wait goes on all the same. */
Test(waiting, verbose_waits_for_a_server_that_hangs_too)
{
    server_pause(server);
    struct command *c = COMMAND("run", "-v", "t", "--", FAKE_COMMAND, "ready");
    test_sleep_ms(3500); /* longer than a try lasts */
    server_resume(server);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
}

Test(waiting, takes_lengths_of_time_with_units)
{
    static const char *const waits[][2] = { { "-w", "900ms" }, { "--wait", "0.9" }, { "--timeout", "0.9s" } };
    hold();
    for (int i = 0; i < 3; i++) {
        int64_t started_ms = test_now_ms();
        cr_assert_eq(RUN("run", waits[i][0], waits[i][1], "t", "--", "true"), 1);
        int64_t took_ms = test_now_ms() - started_ms;
        cr_assert(took_ms >= 900 && took_ms < 9000, "%s: %lld ms", waits[i][1], (long long)took_ms);
    }
    let_go();
}

/* --- without pub/sub */

Test(waiting, spin_asks_again_and_again)
{
    char url[128];
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw ~* resetchannels +@all -subscribe -publish"), "OK");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", guarded->port);
    cr_assert_eq(RUN("run", "-n", "-u", url, "t", "--", "true"), 77);
    struct command *first = COMMAND("run", "--spin", "-u", url, "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(first, OUT, "ready\n");
    cr_assert_eq(RUN("run", "-n", "--spin", "-u", url, "t", "--", "true"), 1);
    struct command *second = COMMAND("run", "--spin", "-v", "-u", url, "t", "--", FAKE_COMMAND, "ready");
    command_until(second, ERR, ": waiting: held by ");
    cr_assert_eq(raw_clients(admin, "pubsub"), 0);
    command_type_end(first);
    cr_assert_eq(command_end(first), 0, "%s", first->text[ERR]);
    cr_assert_eq(command_end(second), 0, "%s", second->text[ERR]);
    cr_assert_str_eq(second->text[OUT], "ready\n");
    command_free(first);
    command_free(second);
    redisFree(admin);
    server_stop(guarded);
}

Test(waiting, spin_is_for_the_same_lock)
{
    hold();
    struct command *c = COMMAND("run", "--spin", "-w", "0.2", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    cr_assert_not_null(strstr(c->text[ERR], "held by "), "%s", c->text[ERR]);
    command_free(c);
    let_go();
    c = COMMAND("run", "--spin", "--lease", "1", "t", "--", FAKE_COMMAND, "ready", "stay");
    command_until(c, OUT, "ready\n");
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 1);
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    cr_assert_eq(command_end(c), 75, "by its next renewal: %s", c->text[ERR]);
    command_free(c);
}

/* --- a run within a run */

/* consul, flock: the inner one waits until somebody kills it. */
Test(waiting, for_a_run_around_it_is_refused_at_once)
{
    struct command *c = COMMAND("run", "t", "--", HASPLOCK, "run", "t", "--", "true");
    cr_assert_eq(command_end(c), 64);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": held by the hasplock run around this one"), "%s",
                       c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(waiting, for_a_run_further_out_is_refused_too)
{
    struct command *c =
        COMMAND("run", "--fair", "t", "--", HASPLOCK, "run", "t2", "--", HASPLOCK, "run", "--fair", "t", "--", "true");
    cr_assert_eq(command_end(c), 64);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": held by the hasplock run around this one"), "%s",
                       c->text[ERR]);
    command_free(c);
}

/* sudo(8) removes the variables too. The first one is COMMAND itself, the second one a descendant of it. */
Test(waiting, for_a_run_around_it_is_refused_without_variables)
{
    static const char *const scripts[] = { "exec env -i \"$0\" run -u \"$1\" t -- true",
                                           "env -i sh -c '\"$0\" run -u \"$1\" t -- true; exit $?' \"$0\" \"$1\"" };
    for (int i = 0; i < 2; i++) {
        struct command *c = COMMAND("run", "t", "--", "sh", "-c", scripts[i], HASPLOCK, getenv("HASPLOCK_URL"));
        cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
        cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": held by the hasplock run around this one"), "%s",
                           c->text[ERR]);
        command_free(c);
    }
}

/* What COMMAND leaves behind may wait for the end of the run. */
Test(waiting, for_a_run_around_it_is_possible_when_asked_for)
{
    struct command *c = COMMAND("run", "t", "--", "sh", "-c",
                                "HASPLOCK_OWNERS= \"$0\" run t -- echo after & while sleep 0.01; do "
                                "\"$0\" show --json t | grep -q '\"waiting\":1' && exit; done",
                                HASPLOCK);
    cr_assert_eq(command_wait(c), 0);
    command_until(c, OUT, "after\n");
    command_end(c);
    command_free(c);
}

Test(waiting, for_another_holder_in_an_inner_run_is_allowed)
{
    hold();
    struct command *c = COMMAND("run", "t2", "--", HASPLOCK, "run", "-w", "0.3", "t", "--", "true");
    cr_assert_eq(command_end(c), 1, "%s", c->text[ERR]);
    command_free(c);
    let_go();
}

Test(waiting, runs_when_the_holder_lets_go)
{
    hold();
    struct command *c = start_waiting();
    cr_assert_str_empty(c->text[OUT]);
    let_go();
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "ready\n");
    command_free(c);
}

static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };

/* asks.md A1, consul 4439: signals are heeded while waiting, and nothing stays behind. */
Test(waiting, ends_by_the_signal_and_leaves_no_trace)
{
    hold();
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct command *c = start_waiting();
        kill(c->pid, ending[i]);
        cr_assert_eq(command_end(c), DIED_OF + ending[i], "signal %d", ending[i]);
        cr_assert_str_empty(c->text[OUT]);
        cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
        WAIT_FOR(raw_listeners(redis, "t") == 0);
        command_free(c);
    }
    let_go();
    cr_assert_eq(raw_pttl(redis, "t"), -2); /* nobody who had left has taken it */
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What a process of this build takes to start and to end: many times as long under a sanitizer. */
static int64_t median_of_nothing_ms(void)
{
    int64_t took_ms[9];
    for (int i = 0; i < 9; i++) {
        int64_t started_ms = test_now_ms();
        cr_assert_eq(RUN("--version"), 0);
        took_ms[i] = test_now_ms() - started_ms;
    }
    qsort(took_ms, 9, sizeof took_ms[0], by_size);
    return took_ms[4];
}

Test(waiting, ends_within_100_ms_of_the_signal)
{
    int64_t took_ms[9], process_ms = median_of_nothing_ms();
    hold();
    for (int i = 0; i < 9; i++) {
        struct command *c = start_waiting();
        int64_t sent_ms = test_now_ms();
        kill(c->pid, SIGTERM);
        cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
        took_ms[i] = test_now_ms() - sent_ms;
        command_free(c);
    }
    qsort(took_ms, 9, sizeof took_ms[0], by_size);
    cr_assert_lt(took_ms[4], 100 + process_ms, "median of 9: %lld ms", (long long)took_ms[4]);
    let_go();
}

Test(waiting, ends_by_a_signal_also_when_the_server_hangs)
{
    hold();
    struct command *c = start_waiting();
    server_pause(server);
    int64_t sent_ms = test_now_ms();
    kill(c->pid, SIGTERM);
    int code = command_end(c);
    int64_t took_ms = running_ms(sent_ms);
    server_resume(server);
    cr_assert_eq(code, DIED_OF + SIGTERM);
    cr_assert_lt(took_ms, 6000); /* an orderly close gives it reply_timeout_ms, 3 s */
    command_free(c);
    let_go();
}

Test(waiting, ends_by_a_signal_also_when_there_is_no_server)
{
    struct command *c = COMMAND("run", "-v", "-u", "unix:/nonexistent/socket", "t", "--", "true");
    command_until(c, ERR, "/nonexistent/socket"); /* it has tried */
    int64_t sent_ms = test_now_ms();
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    cr_assert_lt(running_ms(sent_ms), 4000);
    command_free(c);
}

/* nohup, and background jobs of sh: what was ignored stays so, for us and for COMMAND. */
Test(waiting, leaves_signals_ignored_that_were)
{
    hold();
    struct command *c = command_start((const char *const[]){
        "sh", "-c", "trap '' HUP; exec \"$0\" run t -- \"$1\" ready stay", HASPLOCK, FAKE_COMMAND, NULL });
    WAIT_FOR(raw_listeners(redis, "t") == 1);
    kill(c->pid, SIGHUP);
    let_go();
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGHUP);
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    command_free(c);
}

/* How many threads a process has; *taking: of them, those but the first that would take SIGCHLD. */
static int threads_of(pid_t pid, int *taking)
{
    char path[320], line[128];
    int n = 0;
    *taking = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/status", (int)pid, task->d_name);
        FILE *status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        n += status != NULL;
        while (status && fgets(line, sizeof line, status))
            if (strncmp(line, "SigBlk:", 7) == 0 && atoi(task->d_name) != pid)
                *taking += !(strtoull(line + 7, NULL, 16) >> (SIGCHLD - 1) & 1);
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return n;
}

/* COMMAND's end is a SIGCHLD, which would be lost in another thread: the one that asks who holds the lock may be alive
 * still. */
Test(waiting, leaves_sigchld_to_the_first_thread)
{
    int taking;
    hold();
    struct command *c = COMMAND("run", "--json", "-w", "60", "t", "--", FAKE_COMMAND, "ready");
    command_until(c, ERR, "\"event\":\"waiting\"");
    WAIT_FOR(threads_of(c->pid, &taking) == 4); /* the loop's, the events', and the one that asks */
    cr_assert_eq(taking, 0);
    let_go();
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
}
