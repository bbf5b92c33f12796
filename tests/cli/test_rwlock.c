/* hasplock run -s and -x: many hold a read/write lock to read, or one to write. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    cli_start();
    server_allow(server, "tombstones:hasplock_rwlock:*"); /* of waits that ended in time */
}

TestSuite(cli_rwlock, .init = start, .fini = cli_stop);

static int64_t queued(void)
{
    return raw_int(redis, "ZCOUNT hasplock_rwlock:{t} 1 1e15");
}

Test(cli_rwlock, is_held_to_read_by_many_and_to_write_by_one)
{
    struct command *first = HOLDER("run", "-s", "t"), *second = HOLDER("run", "--shared", "t");
    cr_assert_eq(RUN("run", "-xn", "t", "--", "true"), 1);
    struct command *writer = COMMAND("run", "-x", "t", "--", FAKE_COMMAND, "ready", "read");
    WAIT_FOR(queued() == 1);
    holder_end(first);
    cr_assert_str_eq(raw(redis, "HGET t mode"), "\"read\"");
    holder_end(second);
    command_until(writer, OUT, "ready\n");
    cr_assert_str_eq(raw(redis, "HGET t mode"), "\"write\"");
    cr_assert_eq(RUN("run", "-sn", "t", "--", "true"), 1);
    cr_assert_eq(RUN("run", "-n", "--exclusive", "t", "--", "true"), 1);
    holder_end(writer);
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
}

Test(cli_rwlock, lets_a_reader_wait_behind_a_writer_that_waits)
{
    struct command *reader = HOLDER("run", "-s", "t");
    struct command *writer = COMMAND("run", "-x", "t", "--", FAKE_COMMAND, "ready", "read");
    WAIT_FOR(queued() == 1);
    struct command *late = COMMAND("run", "-s", "t", "--", FAKE_COMMAND, "ready");
    WAIT_FOR(queued() == 2);
    holder_end(reader);
    command_until(writer, OUT, "ready\n");
    cr_assert_eq(queued(), 1);
    holder_end(writer);
    cr_assert_eq(command_end(late), 0, "%s", late->text[ERR]);
    command_free(late);
}

Test(cli_rwlock, tells_the_command_its_hold)
{
    char owner[200] = "";
    struct command *c = COMMAND("run", "-x", "t", "-c", "echo \"$HASPLOCK_NAME $HASPLOCK_OWNER\"; read x; true");
    command_until(c, OUT, "\n");
    cr_assert_eq(sscanf(c->text[OUT], "t %199s\n", owner), 1, "%s", c->text[OUT]);
    cr_assert_eq(raw_int(redis, "HEXISTS t %s:write", owner), 1);
    holder_end(c);
    c = COMMAND("run", "-s", "t", "-c", "echo \"$HASPLOCK_NAME $HASPLOCK_OWNER\"; read x; true");
    command_until(c, OUT, "\n");
    cr_assert_eq(sscanf(c->text[OUT], "t %199s\n", owner), 1, "%s", c->text[OUT]);
    cr_assert_eq(raw_int(redis, "HEXISTS t %s", owner), 1);
    holder_end(c);
}

/* --- who is in the way */

static void says_who_is_in_the_way(const char *half, const char *other, const char *words)
{
    char expected[64];
    struct command *holder = HOLDER("run", other, "t");
    struct command *c = COMMAND("run", "-v", half, "t", "--", "true");
    command_until(c, ERR, words);
    command_until(c, ERR, ", ttl ");
    snprintf(expected, sizeof expected, " pid %d (hold ", (int)holder->pid);
    cr_assert_not_null(strstr(strstr(c->text[ERR], words), expected), "%s", c->text[ERR]);
    holder_end(holder);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    command_free(c);
}

Test(cli_rwlock, says_who_is_in_the_way_of_a_writer)
{
    says_who_is_in_the_way("-x", "-s", "waiting: held to read by ");
    says_who_is_in_the_way("-x", "-x", "waiting: held to write by ");
}

Test(cli_rwlock, says_who_is_in_the_way_of_a_reader)
{
    says_who_is_in_the_way("-s", "-x", "waiting: held to write by ");
}

Test(cli_rwlock, says_in_json_who_was_in_the_way)
{
    char pid[32];
    struct command *holder = HOLDER("run", "-s", "t");
    snprintf(pid, sizeof pid, ",\"pid\":%d,", (int)holder->pid);
    struct command *c = COMMAND("run", "--json", "-xn", "t", "--", "true");
    cr_assert_eq(command_end(c), 1);
    const char *busy = strstr(c->text[ERR], "\"event\":\"busy\"");
    cr_assert(busy && strstr(busy, pid), "%s", c->text[ERR]);
    command_free(c);
    holder_end(holder);
}

/* --- a run within a run */

static void waits_for_itself(const char *outer, const char *inner)
{
    struct command *c = COMMAND("run", outer, "t", "--", HASPLOCK, "run", inner, "t", "--", "true");
    cr_assert_eq(command_end(c), 64, "%s in %s: %s", inner, outer, c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "held by the hasplock run around this one"), "%s", c->text[ERR]);
    command_free(c);
}

Test(cli_rwlock, in_a_run_that_has_it_is_refused_if_it_would_wait)
{
    waits_for_itself("-s", "-x");
    waits_for_itself("-x", "-s");
    waits_for_itself("-x", "-x");
    cr_assert_eq(RUN("run", "-s", "t", "--", HASPLOCK, "run", "-s", "t", "--", FAKE_COMMAND, "exit=7"), 7);
}

/* The inner reader is behind the writer, who waits for the outer one. */
Test(cli_rwlock, in_a_run_that_reads_is_refused_behind_a_writer)
{
    struct command *c =
        COMMAND("run", "-s", "t", "--", "sh", "-c", "echo ready; read x; exec \"$0\" run -s t -- true", HASPLOCK);
    command_until(c, OUT, "ready\n");
    struct command *writer = COMMAND("run", "-x", "t", "--", "true");
    WAIT_FOR(queued() == 1);
    command_type(c, "go on\n");
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    cr_assert_eq(command_end(writer), 0, "%s", writer->text[ERR]);
    command_free(writer);
    command_free(c);
}

/* A look names one of the readers, the last that came: it is repeated. */
Test(cli_rwlock, in_a_run_beside_readers_is_refused_when_they_end)
{
    struct command *c =
        COMMAND("run", "-s", "t", "--", "sh", "-c", "echo ready; read x; exec \"$0\" run -x t -- true", HASPLOCK);
    command_until(c, OUT, "ready\n");
    struct command *other = HOLDER("run", "-s", "t");
    command_type(c, "go on\n");
    WAIT_FOR(queued() == 1);
    holder_end(other);
    cr_assert_eq(command_end(c), 64, "%s", c->text[ERR]);
    command_free(c);
}

/* --- show and break */

static void shows(const char *half, int code, const char *words)
{
    struct command *c = COMMAND("show", half, "t");
    cr_assert_eq(command_end(c), code, "%s", c->text[ERR]);
    cr_assert_eq(strncmp(c->text[OUT], words, strlen(words)), 0, "%s instead of %s", c->text[OUT], words);
    command_free(c);
}

Test(cli_rwlock, is_shown_by_halves)
{
    shows("-s", 1, "t: not held to read\n");
    struct command *first = HOLDER("run", "-s", "t");
    shows("-s", 0, "t: held to read by ");
    shows("-x", 1, "t: not held to write\n");
    struct command *second = HOLDER("run", "-s", "t");
    shows("-s", 0, "t: held to read 2 times, once by ");
    holder_end(first);
    holder_end(second);
    struct command *writer = HOLDER("run", "-x", "t");
    shows("-x", 0, "t: held to write by ");
    shows("-s", 1, "t: not held to read\n");
    holder_end(writer);
}

Test(cli_rwlock, is_broken_by_halves)
{
    struct command *first = HOLDER("run", "-s", "t"), *second = HOLDER("run", "-s", "t");
    cr_assert_eq(RUN("break", "--now", "-x", "t"), 1);
    cr_assert_eq(RUN("break", "--now", "-s", "-q", "t"), 0);
    cr_assert_eq(command_end(first), 75, "%s", first->text[ERR]);
    cr_assert_eq(command_end(second), 75, "%s", second->text[ERR]);
    command_free(first);
    command_free(second);
    struct command *writer = HOLDER("run", "-x", "t");
    cr_assert_eq(RUN("break", "--now", "-x", "-q", "t"), 0);
    cr_assert_eq(command_end(writer), 75, "%s", writer->text[ERR]);
    command_free(writer);
}

Test(cli_rwlock, is_taken_from_the_reader_that_is_named)
{
    char owner[200] = "";
    struct command *first = HOLDER("run", "-s", "t");
    struct command *second = COMMAND("run", "-s", "t", "-c", "echo \"owner $HASPLOCK_OWNER\"; read x");
    command_until(second, OUT, "\n");
    cr_assert_eq(sscanf(second->text[OUT], "owner %199s\n", owner), 1, "%s", second->text[OUT]);
    cr_assert_eq(RUN("break", "--now", "-s", "-q", "--holder", owner, "t"), 0);
    cr_assert_eq(command_end(second), 75, "%s", second->text[ERR]);
    command_free(second);
    holder_end(first);
}
