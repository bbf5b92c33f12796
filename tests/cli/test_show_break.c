/* show and break: what is said of a lock, and taking it by force. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(show, .init = cli_start, .fini = cli_stop);
TestSuite(break_, .init = cli_start, .fini = cli_stop);

/* A holder that nobody is. */
static void held_by(const char *holder, long ttl_ms)
{
    cr_assert_str_eq(raw(redis, "HSET t %s 2", holder), ":1");
    if (ttl_ms > 0)
        cr_assert_str_eq(raw(redis, "PEXPIRE t %d", (int)ttl_ms), ":1");
}

static void said(const char *expected, int code, const char *command)
{
    struct command *c = strcmp(command, "break") == 0 ? COMMAND("break", "--now", "t") : COMMAND(command, "t");
    cr_assert_eq(command_end(c), code, "%s", c->text[ERR]);
    cr_assert_eq(strncmp(c->text[OUT], expected, strlen(expected)), 0, "%s instead of %s", c->text[OUT], expected);
    cr_assert_eq(count_lines(c->text[OUT]), 1 + (strstr(c->text[OUT], "\n  for break: --holder hlk-") != NULL) +
                                                (strstr(c->text[OUT], "\n  held for ") != NULL));
    cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
    command_free(c);
}

Test(show, names_host_and_pid_of_a_real_holder)
{
    char host[256] = "", expected[400];
    gethostname(host, sizeof host - 1);
    struct command *c = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(c, OUT, "ready\n");
    snprintf(expected, sizeof expected, "t: held by %s pid %d (hold ", host, (int)c->pid);
    said(expected, 0, "show");
    command_type_end(c);
    command_end(c);
    command_free(c);
}

Test(show, finds_a_host_with_dashes)
{
    held_by("hlk-web-3-eu-west-4711-9f3c:12", 60000);
    said("t: held by web-3-eu-west pid 4711 (hold 12), ttl ", 0, "show");
    raw(redis, "DEL t");
}

Test(show, leaves_a_java_holder_as_it_is_written)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:31", 60000);
    said("t: held by b983c153-7421-469a-addb-44fb92259a1b:31, ttl ", 0, "show");
    raw(redis, "DEL t");
}

Test(show, says_when_a_lock_has_no_end)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 0);
    said("t: held by b983c153-7421-469a-addb-44fb92259a1b:1, without end", 0, "show");
    raw(redis, "DEL t");
}

Test(show, tells_what_is_left_of_the_lease)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 600000);
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 0);
    double seconds = 0;
    cr_assert_eq(sscanf(c->text[OUT], "t: held by b983c153-7421-469a-addb-44fb92259a1b:1, ttl %lf s\n", &seconds), 1,
                 "%s", c->text[OUT]);
    cr_assert(seconds > 500 && seconds <= 600, "%s", c->text[OUT]);
    command_free(c);
    c = COMMAND("show", "--json", "t");
    cr_assert_eq(command_end(c), 0);
    const char *ttl = strstr(c->text[OUT], "\"count\":2,\"ttl_ms\":");
    cr_assert_not_null(ttl, "%s", c->text[OUT]);
    long ms = strtol(ttl + strlen("\"count\":2,\"ttl_ms\":"), NULL, 10);
    cr_assert(ms > 500000 && ms <= 600000, "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "DEL t");
}

Test(show, gives_1_for_a_free_lock)
{
    said("t: free\n", 1, "show");
}

Test(show, counts_the_processes_that_wait)
{
    held_by("hlk-web-4711-9f3c:12", 600000);
    struct command *a = COMMAND("run", "t", "--", "true"), *b = COMMAND("run", "t", "--", "true");
    WAIT_FOR(raw_listeners(redis, "t") == 2);
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert_not_null(strstr(c->text[OUT], ", 2 processes waiting\n"), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0); /* lets the waiters have it */
    cr_assert_eq(command_end(a), 0);
    cr_assert_eq(command_end(b), 0);
    command_free(a);
    command_free(b);
}

static void stands_at(int place, const char *member)
{
    cr_assert_str_eq(raw(redis, "ZADD hasplock_queue:{t} %d %s", place, member), ":1");
}

static void show_says(const char *expected)
{
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], expected), "%s instead of %s", c->text[OUT], expected);
    command_free(c);
}

Test(show, names_who_stands_in_queue_and_since_when)
{
    setenv("TZ", "UTC", 1);
    held_by("hlk-web-4711-9f3c:12", 600000);
    stands_at(7, "hlk-web-3-eu-812-9f3c:3 5000 0 0 1772330407213");
    stands_at(9, "hlk-web-1-20311-aa:1 5000 65 0 1772330409000");
    stands_at(8, "hlk-db-1-aa:2 5000 0 0 0");
    show_says(", 3 processes waiting\n"
              "  1. web-3-eu pid 812 (hold 3), since 2026-03-01 02:00:07\n"
              "  2. db pid 1 (hold 2)\n"
              "  3. web-1 pid 20311 (hold 1), since 2026-03-01 02:00:09, fenced\n");
    raw(redis, "DEL t hasplock_queue:{t}");
}

Test(show, names_the_waiting_processes_in_order_of_arrival)
{
    char host[256] = "", first[400], second[400];
    gethostname(host, sizeof host - 1);
    struct command *holder = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    command_until(holder, OUT, "ready\n");
    struct command *a = COMMAND("run", "t", "--", "true");
    WAIT_FOR(strcmp(raw(redis, "ZCARD hasplock_queue:{t}"), ":1") == 0);
    struct command *b = COMMAND("run", "t", "--", "true");
    WAIT_FOR(strcmp(raw(redis, "ZCARD hasplock_queue:{t}"), ":2") == 0);
    snprintf(first, sizeof first, "  1. %s pid %d (hold ", host, (int)a->pid);
    snprintf(second, sizeof second, "  2. %s pid %d (hold ", host, (int)b->pid);
    show_says(first);
    show_says(second);
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0);
    cr_assert_eq(command_end(a), 0);
    cr_assert_eq(command_end(b), 0);
    command_free(holder);
    command_free(a);
    command_free(b);
}

Test(show, names_a_hundred_and_counts_the_rest)
{
    char member[80];
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 0);
    for (int i = 1; i <= 103; i++) {
        snprintf(member, sizeof member, "hlk-web-812-9f3c:%d 5000 0 0 0", i);
        stands_at(i, member);
    }
    show_says(", 103 processes waiting\n  1. web pid 812 (hold 1)\n");
    show_says("\n100. web pid 812 (hold 100)\n     and 3 more\n");
    raw(redis, "DEL t hasplock_queue:{t}");
}

Test(show, prints_no_control_bytes_of_who_waits)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 0);
    stands_at(1, "hlk-\033]0;x\a-1-2:3 5000 0 0 99999999999999999");
    stands_at(2, "nonsense\033[2J");
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strchr(c->text[OUT], '\033'));
    cr_assert_not_null(strstr(c->text[OUT], "\n  1. \\x1b]0;x\\x07 pid 1 (hold 3)"), "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "\n  2. nonsense\\x1b[2J\n"), "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "DEL t hasplock_queue:{t}");
}

Test(show, names_all_who_wait_for_a_fair_lock)
{
    char host[256] = "", first[700];
    gethostname(host, sizeof host - 1);
    held_by("hlk-web-4711-9f3c:12", 600000);
    struct command *a = COMMAND("run", "--fair", "t", "--", "true");
    WAIT_FOR(raw_int(redis, "LLEN redisson_lock_queue:{t}") == 1);
    struct command *b = COMMAND("run", "t", "--fair", "--", "true");
    WAIT_FOR(raw_int(redis, "LLEN redisson_lock_queue:{t}") == 2);
    snprintf(first, sizeof first, ", 2 waiting\n  1. %s pid %d (hold 1)\n  2. %s pid ", host, (int)a->pid, host);
    struct command *c = COMMAND("show", "--fair", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert_not_null(strstr(c->text[OUT], first), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(RUN("break", "--now", "--fair", "-q", "t"), 0); /* the first of them is called */
    cr_assert_eq(command_end(a), 0);
    cr_assert_eq(command_end(b), 0);
    command_free(a);
    command_free(b);
}

Test(show, names_any_holder_and_the_waiters_of_a_string_lock)
{
    char host[256] = "", expected[700];
    gethostname(host, sizeof host - 1);
    raw(redis, "SET t 1f0b6c7e PX 600000");
    struct command *a = COMMAND("run", "--string", "t", "--", FAKE_COMMAND, "ready", "read");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t}") == 1);
    struct command *c = COMMAND("show", "--string", "t");
    cr_assert_eq(command_end(c), 0);
    snprintf(expected, sizeof expected, ", 1 process waiting\n  1. %s pid %d (hold 1), since ", host, (int)a->pid);
    cr_assert_eq(strncmp(c->text[OUT], "t: held by 1f0b6c7e, ttl ", 25), 0, "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], expected), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(RUN("show", "-q", "t"), 0, "somebody waits for it as a string lock");
    cr_assert_eq(RUN("show", "--fair", "t"), 70, "it is no fair lock");
    cr_assert_eq(RUN("break", "--now", "--fair", "t"), 70);
    cr_assert_eq(RUN("break", "--now", "--string", "-q", "t"), 0);
    command_until(a, OUT, "ready\n");
    cr_assert_eq(RUN("run", "--string", "-n", "t", "--", "true"), 1);
    command_type_end(a);
    cr_assert_eq(command_end(a), 0);
    command_free(a);
    cr_assert_eq(RUN("show", "--string", "-q", "t"), 1);
}

/* Names come from anywhere; a terminal must not obey them. */
Test(show, prints_no_control_bytes_of_names_and_holders)
{
    cr_assert_str_eq(raw(redis, "HSET t\033[2J hlk-\033]0;x\a-1-2:3 1"), ":1");
    struct command *c = COMMAND("show", "t\033[2J");
    cr_assert_eq(command_end(c), 0);
    cr_assert_null(strchr(c->text[OUT], '\033'));
    cr_assert_eq(strncmp(c->text[OUT], "t\\x1b[2J: held by \\x1b]0;x\\x07 pid 1 (hold 3)", 45), 0, "%s", c->text[OUT]);
    command_free(c);
    raw(redis, "FLUSHALL");
}

Test(show, quiet_leaves_the_exit_code)
{
    struct command *c = COMMAND("show", "-q", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_empty(c->text[OUT]);
    command_free(c);
}

/* Elsewhere than on a terminal: a new answer for each change, none for a ttl that runs. */
Test(show, watches_until_a_signal)
{
    held_by("hlk-web-3-4711-9f3c:12", 600000);
    struct command *c = COMMAND("show", "--watch=100ms", "t");
    command_until(c, OUT, "t: held by web-3 pid 4711 (hold 12), ttl ");
    command_until(c, OUT, "\n");
    test_sleep_ms(500);
    cr_assert_str_eq(raw(redis, "DEL t"), ":1");
    command_until(c, OUT, "t: free\n");
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 600000);
    command_until(c, OUT, "t: held by b983c153-7421-469a-addb-44fb92259a1b:1, ttl ");
    kill(c->pid, SIGINT);
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    cr_assert_eq(count_lines(c->text[OUT]), 4, "the first has two lines: %s", c->text[OUT]);
    command_free(c);
    raw(redis, "DEL t");
}

Test(show, watches_with_objects_and_their_times)
{
    struct command *c = COMMAND("show", "--json", "--watch", "t");
    command_until(c, OUT, "\"held\":false");
    command_until(c, OUT, "\n");
    cr_assert_eq(strncmp(c->text[OUT], "{\"name\":\"t\",\"time_ms\":", 22), 0, "%s", c->text[OUT]);
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    command_free(c);
}

Test(show, fills_a_terminal_when_it_watches)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 600000);
    struct command *c =
        command_start_on_terminal((const char *const[]){ HASPLOCK, "show", "--watch=100ms", "t", NULL });
    command_until(c, OUT, "\033[H\033[Jt: held by b983c153-7421-469a-addb-44fb92259a1b:1, ttl 5");
    raw(redis, "DEL t");
    command_until(c, OUT, "\033[H\033[Jt: free");
    command_type(c, "\003");
    cr_assert_eq(command_end(c), DIED_OF + SIGINT);
    command_free(c);
}

Test(show, takes_its_options_before_its_word_too)
{
    char url[200];
    snprintf(url, sizeof url, "%s", getenv("HASPLOCK_URL"));
    unsetenv("HASPLOCK_URL");
    struct command *c = COMMAND("--json", "-u", url, "show", "t");
    cr_assert_eq(command_end(c), 1, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], "{\"name\":\"t\",\"held\":false,\"waiting\":0}\n");
    command_free(c);
    cr_assert_eq(RUN("--url", url, "-v", "run", "t", "--", FAKE_COMMAND, "exit=5"), 5);
}

Test(show, says_when_stdout_cannot_be_written)
{
    struct command *c =
        command_start((const char *const[]){ "sh", "-c", "exec \"$0\" show t > /dev/full", HASPLOCK, NULL });
    cr_assert_eq(command_end(c), 74);
    cr_assert_str_eq(c->text[ERR], "hasplock: show \"t\": cannot write to stdout: No space left on device\n");
    command_free(c);
}

Test(break_, says_whom_it_took_it_from)
{
    held_by("hlk-web-3-4711-9f3c:12", 60000);
    said("t: taken from web-3 pid 4711 (hold 12); ", 0, "break");
    cr_assert_eq(raw_pttl(redis, "t"), -2);
}

/* Nobody but a listener is told: the others may not know it before their lease is over. */
Test(break_, says_for_how_long_its_holder_may_not_know)
{
    static const char words[] =
        "t: taken from web-3 pid 4711 (hold 12); a hasplock run ends at once, a program that does "
        "not listen knows it within ";
    held_by("hlk-web-3-4711-9f3c:12", 600000);
    struct command *c = COMMAND("break", "--now", "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_eq(strncmp(c->text[OUT], words, strlen(words)), 0, "%s", c->text[OUT]);
    double seconds = strtod(c->text[OUT] + strlen(words), NULL);
    cr_assert(seconds > 500 && seconds <= 600, "%s", c->text[OUT]);
    command_free(c);
    held_by("hlk-web-3-4711-9f3c:12", 600000);
    c = COMMAND("break", "--now", "--json", "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    const char *ttl = strstr(c->text[OUT], "\"hold\":12,\"ttl_ms\":");
    cr_assert_not_null(ttl, "%s", c->text[OUT]);
    long ms = strtol(ttl + strlen("\"hold\":12,\"ttl_ms\":"), NULL, 10);
    cr_assert(ms > 500000 && ms <= 600000, "%s", c->text[OUT]);
    command_free(c);
}

Test(break_, gives_1_when_nobody_holds_it)
{
    said("t: free, nothing to break\n", 1, "break");
}

Test(break_, frees_a_lock_that_has_no_end)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 0);
    said("t: taken from b983c153-7421-469a-addb-44fb92259a1b:1; it is not notified until its next renewal\n", 0,
         "break");
    cr_assert_eq(raw_pttl(redis, "t"), -2);
}

/* --- of one holder */

static struct command *break_from(const char *holder)
{
    return COMMAND("break", "--now", "--holder", holder, "t");
}

/* What show prints is pasted. In between the lock has changed hands. */
Test(break_, of_a_holder_spares_the_next_one)
{
    char seen[200] = "";
    held_by("hlk-web-3-4711-9f3c:12", 60000);
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 0);
    const char *line = strstr(c->text[OUT], "\n  for break: --holder ");
    cr_assert_not_null(line, "%s", c->text[OUT]);
    cr_assert_eq(sscanf(line, "\n  for break: --holder %199s\n", seen), 1, "%s", line);
    cr_assert_str_eq(seen, "hlk-web-3-4711-9f3c:12");
    command_free(c);
    raw(redis, "DEL t");
    c = break_from(seen);
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_eq(c->text[OUT], "t: free, nothing to break\n");
    command_free(c);
    held_by("hlk-web-4-812-7aa0:3", 60000);
    c = break_from(seen);
    cr_assert_eq(command_end(c), 1, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], "t: held by web-4 pid 812 (hold 3), who is not that holder; nothing was changed\n");
    command_free(c);
    cr_assert_eq(raw_int(redis, "HGET t hlk-web-4-812-7aa0:3"), 2);
    c = break_from("hlk-web-4-812-7aa0:3");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_eq(strncmp(c->text[OUT], "t: taken from web-4 pid 812 (hold 3); ", 38), 0, "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(raw_pttl(redis, "t"), -2);
}

Test(break_, of_a_holder_is_for_fair_and_string_locks_too)
{
    held_by("hlk-web-4-812-7aa0:3", 60000);
    cr_assert_eq(RUN("break", "--now", "--fair", "--holder", "hlk-web-3-4711-9f3c:12", "t"), 1);
    cr_assert_eq(RUN("break", "--now", "--fair", "--holder=hlk-web-4-812-7aa0:3", "t"), 0);
    raw(redis, "SET t 1f0b6c7e PX 600000");
    cr_assert_eq(RUN("break", "--now", "--string", "--holder", "1f0b6c7f", "t"), 1);
    cr_assert_eq(RUN("break", "--now", "--string", "--holder", "1f0b6c7e", "t"), 0);
}

Test(break_, of_a_holder_says_in_json_who_holds_it)
{
    held_by("b983c153-7421-469a-addb-44fb92259a1b:1", 0);
    struct command *c = COMMAND("break", "--now", "--json", "--holder", "hlk-web-3-4711-9f3c:12", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert_str_eq(c->text[OUT], "{\"name\":\"t\",\"broken\":false,\"holder\":"
                                   "\"b983c153-7421-469a-addb-44fb92259a1b:1\",\"ttl_ms\":-1}\n");
    command_free(c);
    raw(redis, "DEL t");
}

Test(break_, refuses_what_is_no_holder)
{
    char longest[193];
    memset(longest, 'h', sizeof longest);
    longest[192] = '\0';
    cr_assert_eq(RUN("break", "--now", "--holder", "", "t"), 64);
    cr_assert_eq(RUN("break", "--now", "--holder", longest, "t"), 64);
    cr_assert_eq(RUN("break", "--now", "t", "--holder"), 64);
    cr_assert_eq(RUN("show", "--holder", "h", "t"), 64);
    cr_assert_eq(RUN("break", "--now", "--holder", longest + 1, "t"), 1);
}
