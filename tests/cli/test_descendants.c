/* Wherever that goes what COMMAND has started, nobody works beside the next holder. And what may not be signalled is
 * said. */
#include "fixture.h"
#include "support/proxy.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(descendants, .init = cli_start, .fini = cli_stop);

/* $W works: it prints the time until it is killed. With `max_hold` that is for longer than it takes to start. */
static const struct way {
    const char *script, *max_hold;
} ways[] = {
    { "$W; true", "2" },
    { "setsid -w $W; true", "2" },
    { "setsid $W & wait", "2" },
    { "timeout 60 $W; true", "2" },
    { "nohup $W 2> /dev/null & wait", "2" },
    { "bash -c 'set -m; $W & wait'", "2" },
    { "(setsid $W &); sleep 60", "2" },
    { "(setsid sh -c '$W & sleep 60' &); sleep 60", "2" },
    { "python3 -c 'import os, subprocess; subprocess.run(os.environ[\"W\"].split(), start_new_session=True)'", "2" },
    { "for i in $(seq 200); do setsid sleep 60 & done; setsid $W & wait", "6" },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

#define CATCHES FAKE_COMMAND " catch ready times"
#define HEEDS FAKE_COMMAND " ready times"

/* The children of `pid`, how many, and the first of them. */
static int children_of(pid_t pid, pid_t *first)
{
    char path[80];
    int child, n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *children = fopen(path, "re");
    for (; children && fscanf(children, "%d", &child) == 1; n++)
        if (n == 0)
            *first = child;
    if (children)
        fclose(children);
    return n;
}

static pid_t helper_of(const struct command *c)
{
    pid_t helper = 0;
    cr_assert_eq(children_of(c->pid, &helper), 1);
    return helper;
}

enum how { MAX_HOLD, CUT_OFF, TERMINATED, HASPLOCK_KILLED, HELPER_KILLED };

static void end_it(enum how how, struct command *c, struct proxy *proxy)
{
    if (how == CUT_OFF)
        proxy_freeze(proxy, true);
    else if (how == TERMINATED)
        kill(c->pid, SIGTERM);
    else if (how == HASPLOCK_KILLED)
        kill(c->pid, SIGKILL);
    else if (how == HELPER_KILLED)
        kill(helper_of(c), SIGKILL);
}

/* A rival that waits for the lock finds nobody at work. Returns the exit code. */
static int end_before_a_rival(enum how how, const struct way *way)
{
    struct proxy *proxy = proxy_start(server);
    setenv("W", how == TERMINATED ? HEEDS : CATCHES, 1);
    bool by_lease = how == CUT_OFF || how == HASPLOCK_KILLED;
    struct command *c = COMMAND("run", "-u", proxy_url(proxy), "--lease", by_lease ? "2" : "30", "--max-hold",
                                how == MAX_HOLD ? way->max_hold : "60", "--grace", "0.2", "t", "-c", way->script);
    command_until(c, OUT, "at ");
    struct command *rival = COMMAND("run", "t", "--", FAKE_COMMAND, "times");
    if (how != MAX_HOLD) /* which may be over before the rival is there */
        WAIT_FOR(raw_listeners(redis, "t") == 1);
    end_it(how, c, proxy);
    command_until(rival, OUT, "at ");
    kill(rival->pid, SIGTERM);
    int code = command_end(c); /* comes when nobody holds its stdout any more */
    long long rival_came = command_number(rival, "at"), last = command_last_time(c);
    command_end(rival);
    cr_assert(last > 0 && last < rival_came, "%s: %lld ms beside the next holder\n%s", way->script, last - rival_came,
              c->text[ERR]);
    if (how == HELPER_KILLED)
        cr_assert_not_null(strstr(c->text[ERR], "the helper process has died; sent SIGKILL to "), "%s", c->text[ERR]);
    proxy_freeze(proxy, false);
    proxy_stop(proxy);
    command_free(c);
    command_free(rival);
    server_allow(server, SERVER_TOMBSTONES);
    return code;
}

Test(descendants, are_dead_before_the_lock_is_given_back)
{
    for (int i = 0; i < WAYS; i++)
        cr_assert_eq(end_before_a_rival(MAX_HOLD, &ways[i]), 75, "%s", ways[i].script);
}

Test(descendants, are_dead_before_the_lease_is_over)
{
    for (int i = 0; i < WAYS; i++)
        cr_assert_eq(end_before_a_rival(CUT_OFF, &ways[i]), 75, "%s", ways[i].script);
}

Test(descendants, have_ended_when_a_signal_frees_the_lock)
{
    for (int i = 0; i < WAYS; i++)
        end_before_a_rival(TERMINATED, &ways[i]);
}

Test(descendants, die_with_hasplock)
{
    for (int i = 0; i < WAYS; i++)
        cr_assert_eq(end_before_a_rival(HASPLOCK_KILLED, &ways[i]), DIED_OF + SIGKILL, "%s", ways[i].script);
}

Test(descendants, die_with_the_helper)
{
    for (int i = 0; i < WAYS; i++)
        cr_assert_eq(end_before_a_rival(HELPER_KILLED, &ways[i]), 75, "%s", ways[i].script);
}

Test(descendants, die_when_the_lock_is_broken)
{
    setenv("W", CATCHES, 1);
    for (int i = 0; i < WAYS; i++) {
        struct command *c = COMMAND("run", "t", "-c", ways[i].script);
        command_until(c, OUT, "at ");
        cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
        cr_assert_eq(command_end(c), 75, "%s", ways[i].script);
        command_free(c);
    }
}

Test(descendants, die_while_hasplock_stands_still)
{
    setenv("W", CATCHES, 1);
    struct command *c = COMMAND("run", "--lease", "1.5", "t", "-c", "(setsid $W &); sleep 60");
    command_until(c, OUT, "at ");
    int64_t asked_ms = test_now_ms();
    kill(c->pid, SIGSTOP);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
    kill(c->pid, SIGCONT);
    cr_assert_eq(command_end(c), 75);
    cr_assert_lt(command_last_time(c), asked_ms + 1500);
    command_free(c);
}

/* One that takes its time gets the signal too, and keeps the lock as it would a flock(1). */
Test(descendants, that_take_their_time_after_a_signal_keep_the_lock)
{
    struct command *c = COMMAND("run", "--lease", "1", "t", "--", FAKE_COMMAND, "child", "session", "catch", "ready",
                                "read", "exit=0", ".", "stay");
    command_until(c, OUT, "ready\n");
    kill(c->pid, SIGTERM);
    command_until(c, OUT, "got SIGTERM\n");
    command_until(c, ERR, "COMMAND has ended; the lock is held until what it has started has ended too: ");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    kill(c->pid, SIGUSR1); /* is theirs now */
    command_until(c, OUT, "got SIGUSR1\n");
    command_type_end(c);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

/* As after kill -9, or a crash: that is no end in order, after which something is left in the background. */
Test(descendants, keep_the_lock_when_the_command_was_killed)
{
    struct command *c =
        COMMAND("run", "t", "--", FAKE_COMMAND, "child", "session", "ready", "read", "exit=0", ".", "kill=9");
    command_until(c, ERR, "COMMAND has ended; the lock is held until what it has started has ended too: ");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(c);
    cr_assert_eq(command_end(c), DIED_OF + SIGKILL);
    command_free(c);
}

Test(descendants, keep_the_lock_with_all)
{
    struct command *c = COMMAND("run", "--lease", "1", "--all", "t", "--", FAKE_COMMAND, "child", "session", "ready",
                                "read", "exit=0", ".", "exit=6");
    command_until(c, ERR, "COMMAND has ended; the lock is held until what it has started has ended too: ");
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(c);
    cr_assert_eq(command_end(c), 6);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

Test(descendants, are_stopped_with_all_when_max_hold_is_over)
{
    struct command *c = COMMAND("run", "--max-hold", "0.5", "--all", "t", "--", FAKE_COMMAND, "child", "session",
                                "ready", "stay", ".", "exit=6");
    cr_assert_eq(command_end(c), 75);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

/* As process 1 of a container too: nobody else would. */
Test(descendants, that_were_orphaned_do_not_stay_zombies)
{
    pid_t ignored;
    struct command *c =
        COMMAND("run", "t", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done; echo made; read x");
    command_until(c, OUT, "made\n");
    pid_t helper = helper_of(c);
    WAIT_FOR(children_of(helper, &ignored) == 1);
    command_type_end(c);
    command_end(c);
    command_free(c);
}

/* The private server of local: is for all of this user's processes. */
Test(descendants, a_local_server_is_none)
{
    char folder[] = "/tmp/hlk-descendants-XXXXXX", path[64];
    int pid = 0;
    cr_assert_not_null(mkdtemp(folder));
    setenv("HASPLOCK_LOCAL_DIR", folder, 1);
    struct command *c = COMMAND("run", "t", "-c", HASPLOCK " run -u local: inner -- sh -c 'echo up; sleep 60'");
    command_until(c, OUT, "up\n");
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    cr_assert_eq(command_end(c), 75);
    command_free(c);
    snprintf(path, sizeof path, "%s/hasplock-default/pid", folder);
    FILE *file = fopen(path, "re");
    cr_assert(file && fscanf(file, "%d", &pid) == 1 && pid > 1);
    fclose(file);
    cr_assert(!process_is_gone(pid));
    kill(pid, SIGTERM);
    WAIT_FOR(rmdir(folder) == 0 || access(path, F_OK) != 0);
    snprintf(path, sizeof path, "rm -rf %s", folder);
    cr_assert_eq(system(path), 0);
}

/* --- what may not be signalled: root without that right, over a process of another user, is as a user over sudo(8) */

#define UNPRIVILEGED "setpriv", "--bounding-set=-kill", "--inh-caps=-kill"

static struct command *run_what_may_not_be_signalled(const char *option, const char *value, const char *last)
{
    struct command *c =
        command_start((const char *const[]){ UNPRIVILEGED, HASPLOCK, "run", "--lease", "1.5", option, value, "t", "--",
                                             FAKE_COMMAND, "user=65534", "ready", "read", last, NULL });
    command_until(c, OUT, "ready\n");
    return c;
}

/* Shows: S4 */
Test(descendants, that_may_not_be_signalled_keep_the_lock)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    struct command *c = run_what_may_not_be_signalled("--max-hold", "0.3", "exit=5");
    command_until(c, ERR, "--max-hold of 0.3 s is over\n");
    command_until(c, ERR, "hasplock: run \"t\": may not signal process ");
    command_until(c, ERR, ": Operation not permitted; the work goes on and the lock is kept while it can be renewed\n");
    test_sleep_ms(3000); /* two leases */
    cr_assert_gt(raw_pttl(redis, "t"), 0);
    command_type_end(c);
    cr_assert_eq(command_end(c), 5); /* it was not stopped */
    cr_assert_null(strstr(c->text[ERR], "sent SIG"), "%s", c->text[ERR]);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
    command_free(c);
}

/* Shows: S4 */
Test(descendants, that_may_not_be_killed_are_named_at_the_loss)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    struct command *c = run_what_may_not_be_signalled("--on-lost", "kill", "exit=5");
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    command_until(c, ERR, "the work goes on without the lock\n");
    command_type_end(c);
    cr_assert_eq(command_end(c), 5);
    command_free(c);
}

Test(descendants, that_may_not_be_killed_are_named_by_the_helper)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    struct command *c = run_what_may_not_be_signalled("--on-lost", "kill", "exit=5");
    kill(c->pid, SIGKILL);
    command_until(c, ERR, "hasplock was killed, and process ");
    command_type_end(c);
    cr_assert_eq(command_end(c), DIED_OF + SIGKILL);
    command_free(c);
    WAIT_FOR(raw_pttl(redis, "t") == -2);
}

Test(descendants, a_signal_that_cannot_be_passed_on_is_named)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    struct command *c = run_what_may_not_be_signalled("--on-lost", "kill", "exit=5");
    kill(c->pid, SIGTERM);
    command_until(c, ERR, "hasplock: run \"t\": may not pass SIGTERM on to COMMAND (pid ");
    command_type_end(c);
    cr_assert_eq(command_end(c), 5);
    command_free(c);
}
