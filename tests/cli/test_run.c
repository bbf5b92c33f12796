/* A command under the lock: its exit code, what it gets from us and what it does not. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <hasplock/hasplock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(run, .init = cli_start, .fini = cli_stop);

/* asks.md A7: consul PR 1503. */
Test(run, passes_the_commands_exit_code_through)
{
    static const char *const codes[] = { "0", "1", "2", "64", "75", "126", "127", "255" };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        char step[16];
        snprintf(step, sizeof step, "exit=%s", codes[i]);
        struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, step);
        cr_assert_eq(command_end(c), atoi(codes[i]));
        cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
        command_free(c);
    }
}

Test(run, dies_of_the_signal_that_ended_the_command)
{
    cr_assert_eq(RUN("run", "t", "--", FAKE_COMMAND, "kill=9"), DIED_OF + 9);
    cr_assert_eq(RUN("run", "t", "--", FAKE_COMMAND, "kill=15"), DIED_OF + 15);
    cr_assert_eq(RUN("run", "t", "--", FAKE_COMMAND, "kill=6"), DIED_OF + 6);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
}

Test(run, exits_with_128_and_the_signal_as_process_1)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    struct command *c = command_start((const char *const[]){ "unshare", "--pid", "--fork", HASPLOCK, "run", "t", "--",
                                                             FAKE_COMMAND, "kill=15", NULL });
    cr_assert_eq(command_code(c), 128 + 15);
}

Test(run, holds_the_lock_for_as_long_as_the_command_runs)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read", "exit=5");
    command_until(c, OUT, "ready\n");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type(c, "hello\n");
    cr_assert_eq(command_end(c), 5);
    cr_assert_not_null(strstr(c->text[OUT], "read hello\n"));
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

static const char *run_for_three_leases(void)
{
    struct command *c = COMMAND("run", "--lease", "1", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    char holder[200];
    snprintf(holder, sizeof holder, "%s", raw_holder(redis, "t"));
    int64_t end = test_now_ms() + 3000;
    bool held = true;
    for (; held && test_now_ms() < end; test_sleep_ms(20))
        held = strcmp(raw_holder(redis, "t"), holder) == 0;
    command_type_end(c);
    int code = command_end(c);
    static char wrong[600]; /* with what the command says: was its process stopped, or the server silent? */
    snprintf(wrong, sizeof wrong, "%s: %.500s", held ? "it was lost" : "another holder, or none", c->text[ERR]);
    command_free(c);
    return held && code == 0 ? NULL : wrong;
}

Test(run, renews_the_lease_for_as_long_as_the_command_runs)
{
    const char *wrong = pause_repeat(100, run_for_three_leases);
    cr_assert_null(wrong, "%s", wrong);
}

Test(run, takes_options_before_and_after_the_name)
{
    cr_assert_eq(RUN("run", "-n", "t", "-w", "3", "--lease=5", FAKE_COMMAND, "exit=3"), 3);
    cr_assert_eq(RUN("run", "t", "-n", "--", FAKE_COMMAND, "exit=3"), 3);
    cr_assert_eq(RUN("run", "-n", "--", "t", FAKE_COMMAND, "exit=3"), 3);
    cr_assert_eq(RUN("run", "-n", "--", "t", "--", FAKE_COMMAND, "exit=3"), 3);
}

Test(run, leaves_everything_behind_the_command_to_it)
{
    struct command *c = COMMAND("run", "t", "echo", "-n", "--json", "--", "-x");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "--json -- -x");
    command_free(c);
}

Test(run, takes_a_name_like_an_option_after_two_dashes)
{
    struct command *c = COMMAND("run", "--", "--json", "sh", "-c", "echo $HASPLOCK_NAME");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "--json\n");
    command_free(c);
}

Test(run, runs_a_shell_command)
{
    struct command *c = COMMAND("run", "t", "-c", "echo a | tr a b; exit 4");
    cr_assert_eq(command_end(c), 4);
    cr_assert_str_eq(c->text[OUT], "b\n");
    command_free(c);
}

Test(run, tells_the_command_its_lock_and_its_hold)
{
    struct command *c = COMMAND("run", "t", "-c", "echo \"$HASPLOCK_NAME $HASPLOCK_OWNER\"; read x");
    char line[300];
    command_until(c, OUT, "\n");
    snprintf(line, sizeof line, "t %s\n", raw_holder(redis, "t"));
    cr_assert_str_eq(c->text[OUT], line);
    command_type_end(c);
    command_end(c);
    command_free(c);
}

/* The number behind `word`; the command has printed it. */
static long token_of(const char *option, const char *name)
{
    struct command *c = COMMAND("run", option, name, "-c", "echo \"token $HASPLOCK_TOKEN\"");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_eq(strncmp(c->text[OUT], "token ", 6), 0);
    long token = strtol(c->text[OUT] + 6, NULL, 10);
    command_free(c);
    return token;
}

Test(run, gives_a_token_larger_than_any_before_when_asked)
{
    setenv("HASPLOCK_TOKEN", "4711", 1); /* of an outer run: not ours to hand on */
    long first = token_of("--fenced", "t"), second = token_of("--fenced", "t");
    cr_assert_gt(first, 0);
    cr_assert_gt(second, first);
    raw(redis, "SET redisson_lock_token:{t} 1000");
    cr_assert_gt(token_of("--fenced", "t"), 1000);
    cr_assert_eq(token_of("-n", "t"), 0, "none");
    raw(redis, "DEL redisson_lock_token:{t}");
}

Test(run, gives_a_token_to_a_waiter_behind_a_plain_holder)
{
    struct command *holder = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(holder, OUT, "ready\n");
    struct command *c = COMMAND("run", "--fenced", "t", "-c", "echo \"token $HASPLOCK_TOKEN\"");
    WAIT_FOR(strcmp(raw(redis, "ZCARD hasplock_queue:{t}"), ":1") == 0);
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0);
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "token 1\n");
    command_free(c);
    command_free(holder);
    raw(redis, "DEL redisson_lock_token:{t}");
}

static int times(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        n++;
    return n;
}

Test(run, gives_a_nested_run_its_own_hold)
{
    struct command *c = COMMAND("run", "t1", HASPLOCK, "run", "t2", "env");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(times(c->text[OUT], "HASPLOCK_NAME="), 1, "%s", c->text[OUT]);
    cr_assert_eq(times(c->text[OUT], "HASPLOCK_OWNER="), 1, "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "HASPLOCK_NAME=t2\n"));
    command_free(c);
}

Test(run, hands_the_url_on_without_a_password_only)
{
    struct command *c = COMMAND("run", "t", "-c", "echo \"$HASPLOCK_URL\"");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(strncmp(c->text[OUT], hlk_test_url(server), strlen(hlk_test_url(server))), 0);
    command_free(c);

    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    cr_assert_str_eq(raw(admin, "CONFIG SET requirepass s3cret"), "OK");
    char url[128];
    snprintf(url, sizeof url, "redis://:s3cret@127.0.0.1:%d", guarded->port);
    setenv("HASPLOCK_URL", url, 1);
    c = COMMAND("run", "t", "-c", "env");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_null(strstr(c->text[OUT], "HASPLOCK_URL"));
    cr_assert_null(strstr(c->text[OUT], "s3cret"));
    command_free(c);
    redisFree(admin);
    server_stop(guarded);
}

/* Whatever it calls means the same server as we do, or none. */
Test(run, hands_on_the_url_that_it_uses_itself)
{
    static const char script[] = "\"$0\" show \"$HASPLOCK_NAME\"; echo \"code $?\"";
    char url[200];
    snprintf(url, sizeof url, "%s", getenv("HASPLOCK_URL"));
    setenv("HASPLOCK_URL", "unix:/of/another/server", 1);
    struct command *c = COMMAND("run", "--url", url, "t", "sh", "-c", script, HASPLOCK);
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(strncmp(c->text[OUT], "t: held by ", 11), 0, "%s", c->text[ERR]);
    command_free(c);

    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    cr_assert_str_eq(raw(admin, "CONFIG SET requirepass s3cret"), "OK");
    snprintf(url, sizeof url, "redis://:s3cret@127.0.0.1:%d", guarded->port);
    c = COMMAND("run", "--url", url, "t", "sh", "-c", script, HASPLOCK);
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], "code 64\n");
    cr_assert_not_null(strstr(c->text[ERR], "keeps a URL with a password from its COMMAND"), "%s", c->text[ERR]);
    command_free(c);
    redisFree(admin);
    server_stop(guarded);
}

/* Our sockets, pipes and blocked signals are ours: a command must not find a difference. */
Test(run, leaves_descriptors_and_signals_as_they_were)
{
    static const char script[] = "grep -E '^Sig(Blk|Ign)|^ShdPnd' /proc/self/status; cd /proc/self/fd && echo *";
    struct command *bare = command_start((const char *const[]){ "sh", "-c", script, NULL });
    struct command *c = COMMAND("run", "t", "-c", script);
    cr_assert_eq(command_end(bare), 0);
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_eq(c->text[OUT], bare->text[OUT]);
    command_free(bare);
    command_free(c);
}

Test(run, gives_back_the_lock_when_the_command_is_not_found)
{
    struct command *c = COMMAND("run", "t", "--", "no-such-command-anywhere");
    cr_assert_eq(command_end(c), 127);
    cr_assert_str_eq(c->text[ERR], "hasplock: run \"t\": cannot execute \"no-such-command-anywhere\": No such file or "
                                   "directory\n");
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(run, says_how_a_line_for_the_shell_is_given)
{
    struct command *c = COMMAND("run", "t", "echo hello");
    cr_assert_eq(command_end(c), 127);
    cr_assert_str_eq(c->text[ERR], "hasplock: run \"t\": cannot execute \"echo hello\": No such file or directory (a "
                                   "command line for the shell is given by -c)\n");
    command_free(c);
}

Test(run, gives_back_the_lock_when_the_command_cannot_run)
{
    struct command *c = COMMAND("run", "t", "--", "/etc/passwd");
    cr_assert_eq(command_end(c), 126);
    cr_assert_str_eq(c->text[ERR], "hasplock: run \"t\": cannot execute \"/etc/passwd\": Permission denied\n");
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

/* The one process more that can be made is the helper. */
static void run_out_of_processes(const char *forks, const char *said)
{
    const char *asan = getenv("ASAN_OPTIONS"); /* which would insist on being first */
    char options[256];
    snprintf(options, sizeof options, "%s:verify_asan_link_order=0", asan ? asan : "");
    setenv("ASAN_OPTIONS", options, 1);
    setenv("HLK_FORKS", forks, 1);
    setenv("LD_PRELOAD", HLK_NO_FORK_PATH, 1);
    struct command *c = COMMAND("run", "t", "--", "true");
    unsetenv("LD_PRELOAD");
    cr_assert_eq(command_end(c), 71);
    cr_assert_str_eq(c->text[ERR], said);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(run, gives_back_the_lock_when_there_is_no_process)
{
    run_out_of_processes("1", "hasplock: run \"t\": no process for COMMAND: Resource temporarily unavailable\n");
}

Test(run, does_not_begin_without_a_helper)
{
    run_out_of_processes("0", "hasplock: run \"t\": no helper process: Resource temporarily unavailable\n");
}

Test(run, holds_until_the_command_itself_has_ended)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "child", "ready", "read", "tell", ".", "exit=6");
    cr_assert_eq(command_wait(c), 6);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_until(c, OUT, "ready\n"); /* what it left behind is alive */
    command_type(c, "go on\n");
    command_until(c, OUT, "read go on\n");
    command_end(c);
    command_free(c);
}

Test(run, puts_the_command_into_a_group_of_its_own)
{
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "tell");
    cr_assert_eq(command_end(c), 0);
    cr_assert_eq(command_number(c, "group"), command_number(c, "pid"));
    command_free(c);
}

Test(run, is_silent_unless_asked)
{
    struct command *c = COMMAND("run", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_empty(c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "-v", "--lease", "7.5", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": acquired after 0."), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], " s, lease 7.5 s\n"), "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": released after "), "%s", c->text[ERR]);
    command_free(c);
    c = COMMAND("run", "-v", "--fenced", "t", "--", "true");
    cr_assert_eq(command_end(c), 0);
    cr_assert_not_null(strstr(c->text[ERR], " s, lease 30 s, token 1\n"), "%s", c->text[ERR]);
    command_free(c);
    raw(redis, "DEL redisson_lock_token:{t}");
}

/* Else the connection to Redis would become the command's stdout. */
Test(run, stands_closed_standard_descriptors)
{
    struct command *c = command_start((const char *const[]){
        "sh", "-c", "exec \"$0\" run t -- sh -c 'echo to nobody; exit 9' <&- >&- 2>&-", HASPLOCK, NULL });
    cr_assert_eq(command_end(c), 9);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(run, leaves_closed_what_was_closed)
{
    static const char script[] = "exec \"$0\" run t -- sh -c "
                                 "'for i in 0 1 2; do test -e /proc/$$/fd/$i && exit 1; done; echo x || exit 9' "
                                 "<&- >&- 2>&-";
    struct command *c = command_start((const char *const[]){ "sh", "-c", script, HASPLOCK, NULL });
    cr_assert_eq(command_end(c), 9);
    command_free(c);
}

Test(run, stops_the_command_when_max_hold_is_over)
{
    struct command *c = COMMAND("run", "--max-hold", "0.3", "t", "--", FAKE_COMMAND, "ready", "stay");
    cr_assert_eq(command_end(c), 75);
    cr_assert_not_null(strstr(c->text[ERR], "hasplock: run \"t\": --max-hold of 0.3 s is over; sent SIGTERM to "), "%s",
                       c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(run, kills_what_does_not_stop_within_the_grace)
{
    int64_t started_ms = test_now_ms();
    struct command *c = COMMAND("run", "--max-hold", "0.3", "--grace", "0.5", "t", "--", FAKE_COMMAND, "catch", "stay");
    command_until(c, OUT, "got SIGTERM\n");
    cr_assert_gt(raw_pttl(redis, "t"), 0); /* still held in the grace */
    cr_assert_eq(command_end(c), 75);
    cr_assert_geq(test_now_ms() - started_ms, 800);
    cr_assert_not_null(strstr(c->text[ERR], "the grace is over; sent SIGKILL to "), "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(run, lets_max_hold_be_longer_than_the_command)
{
    cr_assert_eq(RUN("run", "--max-hold", "60", "t", "--", FAKE_COMMAND, "exit=8"), 8);
}
