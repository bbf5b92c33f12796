/* hasplock latch: a count that commands wait for. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <string.h>

static void start(void)
{
    cli_start();
    server_allow(server, "hasplock_queue:{t}"); /* of the last opening */
}

TestSuite(cli_latch, .init = start, .fini = cli_stop);

static void prints(const char *expected, const char *const *argv)
{
    struct command *c = command_start(argv);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[OUT], expected);
    command_free(c);
}
#define PRINTS(expected, ...) prints(expected, (const char *const[]){ HASPLOCK, __VA_ARGS__, NULL })

Test(cli_latch, is_counted_down_to_0)
{
    PRINTS("t: count 0\n", "latch", "count", "t");
    PRINTS("", "latch", "set", "t", "3");
    cr_assert_eq(RUN("latch", "set", "t", "5"), 1);
    PRINTS("t: count 2\n", "latch", "down", "t");
    PRINTS("{\"name\":\"t\",\"count\":2}\n", "latch", "--json", "count", "t");
    PRINTS("t: count 0\n", "latch", "down", "t", "7");
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
    PRINTS("", "latch", "-q", "down", "--", "t");
}

Test(cli_latch, is_waited_for)
{
    cr_assert_eq(RUN("latch", "wait", "t"), 0); /* none was set */
    cr_assert_eq(RUN("latch", "set", "t", "1"), 0);
    cr_assert_eq(RUN("latch", "wait", "-n", "t"), 1);
    cr_assert_eq(RUN("latch", "wait", "-w", "0.1", "-E", "17", "t"), 17);
    struct command *waiter = COMMAND("latch", "wait", "t");
    WAIT_FOR(raw_clients(redis, "pubsub") == 1);
    cr_assert_eq(RUN("latch", "down", "-q", "t"), 0);
    cr_assert_eq(command_end(waiter), 0, "%s", waiter->text[ERR]);
    cr_assert_lt(running_ms(waiter->began_ms), 4000); /* by the message */
    command_free(waiter);
}

Test(cli_latch, is_reset_whatever_its_count_is)
{
    cr_assert_eq(RUN("latch", "set", "t", "3"), 0);
    struct command *waiter = COMMAND("latch", "wait", "t");
    WAIT_FOR(raw_clients(redis, "pubsub") == 1);
    PRINTS("", "latch", "reset", "t");
    cr_assert_eq(command_end(waiter), 0, "%s", waiter->text[ERR]);
    command_free(waiter);
    PRINTS("t: count 0\n", "latch", "count", "t");
    PRINTS("", "latch", "set", "t", "2");
    PRINTS("t: count 1\n", "latch", "down", "t");
    PRINTS("", "latch", "reset", "t");
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
    struct command *c = COMMAND("latch", "-v", "reset", "t");
    cr_assert_eq(command_end(c), 0);
    cr_assert(strstr(c->text[ERR], "it has no count; nothing was changed"), "%s", c->text[ERR]);
    command_free(c);
}

Test(cli_latch, says_why_it_waited_in_vain)
{
    cr_assert_eq(RUN("latch", "set", "t", "2"), 0);
    struct command *c = COMMAND("latch", "wait", "-w0.1", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert(strstr(c->text[ERR], "its count is 2"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1);
    command_free(c);
    cr_assert_eq(RUN("latch", "down", "t", "2"), 0);
}

Test(cli_latch, says_that_the_count_was_lost)
{
    cr_assert_eq(RUN("latch", "set", "t", "2"), 0);
    struct command *c = COMMAND("latch", "wait", "t");
    WAIT_FOR(raw_clients(redis, "pubsub") == 1);
    WAIT_FOR(raw_stat(redis, "keyspace_hits") >= 2); /* it has looked, and once more when it was subscribed */
    raw(redis, "FLUSHALL");
    cr_assert_eq(command_end(c), 75, "%s", c->text[ERR]);
    cr_assert(strstr(c->text[ERR], "its count is gone"), "%s", c->text[ERR]);
    command_free(c);
}

Test(cli_latch, refuses_bad_input)
{
    static const char *const wrong[][6] = {
        { "latch" },
        { "latch", "up", "t" },
        { "latch", "set", "t" },
        { "latch", "set", "t", "0" },
        { "latch", "set", "t", "many" },
        { "latch", "down" },
        { "latch", "down", "t", "-1" },
        { "latch", "wait", "t", "1" },
        { "latch", "down", "-n", "t" },
        { "latch", "set", "-w", "1", "t", "1" },
        { "latch", "wait", "--string", "t" },
        { "latch", "count", "t", "t" },
        { "latch", "down", "t", "1", "1" },
        { "latch", "reset" },
        { "latch", "reset", "t", "1" },
        { "latch", "reset", "-n", "t" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *argv[8] = { HASPLOCK };
        memcpy(argv + 1, wrong[i], sizeof wrong[i]);
        struct command *c = command_start(argv);
        cr_assert_eq(command_end(c), 64, "%zu: %s", i, c->text[ERR]);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        command_free(c);
    }
    raw(redis, "HSET t a 1");
    cr_assert_eq(RUN("latch", "down", "t"), 70);
    cr_assert_eq(RUN("latch", "reset", "t"), 70);
    raw(redis, "DEL t");
}
