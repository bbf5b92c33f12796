/* hasplock barrier: commands that wait for each other. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

static void start(void)
{
    cli_start();
    server_allow(server, "hasplock_barrier:{t}");
}

TestSuite(cli_barrier, .init = start, .fini = cli_stop);

static int64_t waiting(void)
{
    return raw_int(redis, "ZCARD hasplock_arrived:{t}");
}

Test(cli_barrier, ends_when_all_are_there)
{
    for (int round = 0; round < 2; round++) {
        struct command *first = COMMAND("barrier", "-n", "3", "t");
        WAIT_FOR(waiting() == 1);
        struct command *second = COMMAND("barrier", "t", "--parties=3", "--json");
        WAIT_FOR(waiting() == 2);
        struct command *last = COMMAND("barrier", "-n3", "-w", "20", "t");
        cr_assert_eq(command_end(last), 0, "%s", last->text[ERR]);
        cr_assert_eq(command_end(first), 0, "%s", first->text[ERR]);
        cr_assert_eq(command_end(second), 0, "%s", second->text[ERR]);
        cr_assert_str_eq(first->text[OUT], "t: index 2 of 3\n");
        cr_assert_str_eq(second->text[OUT], "{\"name\":\"t\",\"index\":1,\"parties\":3}\n");
        cr_assert_str_eq(last->text[OUT], "t: index 0 of 3\n");
        command_free(first);
        command_free(second);
        command_free(last);
    }
}

Test(cli_barrier, tells_the_others_who_has_left)
{
    struct command *waits = COMMAND("barrier", "-n", "3", "t");
    WAIT_FOR(waiting() == 1);
    struct command *c = COMMAND("barrier", "-n", "3", "-w", "0.1", "-E", "17", "t");
    cr_assert_eq(command_end(c), 17);
    cr_assert(strstr(c->text[ERR], "2 of 3 parties had arrived"), "%s", c->text[ERR]);
    command_free(c);
    cr_assert_eq(command_end(waits), 75);
    cr_assert(strstr(waits->text[ERR], "its wait was over"), "%s", waits->text[ERR]);
    cr_assert_eq(count_lines(waits->text[ERR]), 1);
    command_free(waits);
}

Test(cli_barrier, leaves_when_a_signal_ends_it)
{
    struct command *waits = COMMAND("barrier", "-n", "3", "t");
    WAIT_FOR(waiting() == 1);
    struct command *c = COMMAND("barrier", "-n", "3", "t");
    WAIT_FOR(waiting() == 2);
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    command_free(c);
    cr_assert_eq(command_end(waits), 75);
    cr_assert(strstr(waits->text[ERR], "its wait was cancelled"), "%s", waits->text[ERR]);
    command_free(waits);
}

Test(cli_barrier, refuses_bad_input)
{
    static const char *const wrong[][6] = {
        { "barrier" },
        { "barrier", "t" },
        { "barrier", "-n", "3" },
        { "barrier", "-n", "0", "t" },
        { "barrier", "-n", "100001", "t" },
        { "barrier", "-n", "x", "t" },
        { "barrier", "-n", "2", "t", "u" },
        { "barrier", "-n", "2", "--string", "t" },
        { "barrier", "-n", "2", "-w", "soon", "t" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *argv[8] = { HASPLOCK };
        memcpy(argv + 1, wrong[i], sizeof wrong[i]);
        struct command *c = command_start(argv);
        cr_assert_eq(command_end(c), 64, "%zu: %s", i, c->text[ERR]);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        command_free(c);
    }
}
