/* hasplock break asks the holder for its lock, and takes it by force only with --now. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void stop(void)
{
    raw(redis, "FLUSHALL"); /* queues and tombstones */
    cli_stop();
}

TestSuite(asked, .init = cli_start, .fini = stop);

/* Ends in order when it is asked to. */
#define ORDERLY "trap 'echo in order; exit 3' TERM; echo ready; sleep 300 & wait"
#define STUBBORN "trap '' TERM; echo ready; sleep 300"

#define HOLD(...) holder_start((const char *const[]){ HASPLOCK, "run", __VA_ARGS__, NULL })
static void breaks(struct command *c, int code, const char *words)
{
    cr_assert_eq(command_end(c), code, "%s%s", c->text[OUT], c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], words), "%s instead of %s", c->text[OUT], words);
    command_free(c);
}

static void ended_in_order(struct command *holder)
{
    cr_assert_eq(command_end(holder), 75, "%s", holder->text[ERR]);
    cr_assert_not_null(strstr(holder->text[OUT], "in order\n"), "%s", holder->text[OUT]);
    cr_assert_not_null(strstr(holder->text[ERR], "asked to end by hasplock break; sent SIGTERM"), "%s",
                       holder->text[ERR]);
    command_free(holder);
}

Test(asked, run_ends_its_command_in_order)
{
    struct command *holder = HOLD("t", "-c", ORDERLY);
    breaks(COMMAND("break", "t"), 0, "t: released by ");
    ended_in_order(holder);
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
}

Test(asked, next_in_the_queue_gets_the_lock)
{
    struct command *holder = HOLD("t", "-c", ORDERLY);
    struct command *next = COMMAND("run", "t", "--", FAKE_COMMAND, "ready", "read");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t}") == 1);
    breaks(COMMAND("break", "t"), 0, "t: released by ");
    ended_in_order(holder);
    command_until(next, OUT, "ready\n");
    command_type_end(next);
    cr_assert_eq(command_end(next), 0);
    command_free(next);
}

Test(asked, holders_of_each_kind_end_in_order)
{
    static const char *const kinds[] = { "--fair", "--string", "-s", "-x", "--fenced" };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct command *holder = HOLD(kinds[i], "t", "-c", ORDERLY);
        breaks(COMMAND("break", "t"), 0, "t: released by ");
        ended_in_order(holder);
    }
}

Test(asked, readers_end_all)
{
    struct command *first = HOLD("-s", "t", "-c", ORDERLY), *second = HOLD("-s", "t", "-c", ORDERLY);
    cr_assert_eq(RUN("break", "--holder", "hlk-web-3-4711-9f3c:12", "t"), 64, "one of several readers");
    breaks(COMMAND("break", "t"), 0, "t: released by ");
    ended_in_order(first);
    ended_in_order(second);
}

Test(asked, stubborn_command_is_killed_after_the_grace)
{
    struct command *holder = HOLD("--grace", "0.3", "t", "-c", STUBBORN);
    breaks(COMMAND("break", "t"), 0, "t: released by ");
    cr_assert_eq(command_end(holder), 75);
    cr_assert_not_null(strstr(holder->text[ERR], "the grace is over; sent SIGKILL"), "%s", holder->text[ERR]);
    command_free(holder);
}

Test(asked, holder_that_takes_too_long_keeps_the_lock)
{
    struct command *holder = HOLD("--lease", "1h", "--grace", "20m", "t", "-c", STUBBORN);
    breaks(COMMAND("break", "-w", "0.2", "t"), 1, ", although asked to release it; --now takes the lock\n");
    command_until(holder, ERR, "sent SIGTERM");
    cr_assert_eq(raw_int(redis, "EXISTS t"), 1);
    breaks(COMMAND("break", "--now", "t"), 0, "t: taken from ");
    cr_assert_eq(command_end(holder), 75);
    command_free(holder);
}

Test(asked, holder_that_cannot_be_asked_keeps_the_lock)
{
    raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1");
    breaks(COMMAND("break", "t"), 1,
           "t: held by web-3 pid 4711 (hold 12), which does not listen, or is dead; --now takes the lock\n");
    raw(redis, "DEL t");
    raw(redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    breaks(COMMAND("break", "--json", "t"), 1,
           "{\"name\":\"t\",\"broken\":false,\"asked\":false,\"holder\":\"b983c153-7421-469a-addb-44fb92259a1b:1\","
           "\"ttl_ms\":-1}\n");
    cr_assert_eq(raw_int(redis, "EXISTS t"), 1);
    breaks(COMMAND("break", "--now", "t"), 0, "t: taken from ");
    breaks(COMMAND("break", "t"), 1, "t: free, nothing to break\n");
}

Test(asked, holder_that_is_not_meant_is_left_alone)
{
    struct command *holder = HOLD("t", "--", FAKE_COMMAND, "ready", "read");
    breaks(COMMAND("break", "--holder", "hlk-web-3-4711-9f3c:12", "t"), 1, "who is not that holder");
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0, "%s", holder->text[ERR]);
    command_free(holder);
}

Test(asked, lock_that_is_only_kept_is_released_at_once)
{
    struct command *holder = COMMAND("run", "-v", "--min-hold", "1h", "t", "--", "true");
    command_until(holder, ERR, "COMMAND has ended; kept for");
    breaks(COMMAND("break", "t"), 0, "t: released by ");
    cr_assert_eq(command_end(holder), 0, "%s", holder->text[ERR]);
    cr_assert_not_null(strstr(holder->text[ERR], "hasplock break ended --min-hold"), "%s", holder->text[ERR]);
    command_free(holder);
}
