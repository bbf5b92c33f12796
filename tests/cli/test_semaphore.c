/* hasplock semaphore: at most N run at once, and the permits of who dies come back. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* What is left of a semaphore is its number. */
static void stop(void)
{
    raw(redis, "DEL t");
    cli_stop();
}

TestSuite(cli_semaphore, .init = cli_start, .fini = stop);

#define SEMAPHORE(n, ...) COMMAND("semaphore", "t", "-k", n, __VA_ARGS__)

Test(cli_semaphore, lets_n_run_at_once)
{
    struct command *first = HOLDER("semaphore", "t", "-k", "2"), *second = HOLDER("semaphore", "t", "-k", "2");
    struct command *third = SEMAPHORE("2", "-n", "--", "true");
    cr_assert_eq(command_end(third), 1);
    cr_assert(strstr(third->text[ERR], "2 permits are held, and none is free"), "%s", third->text[ERR]);
    cr_assert_eq(strncmp(third->text[ERR], "hasplock: semaphore \"t\": ", 25), 0, "%s", third->text[ERR]);
    command_free(third);
    holder_end(first);
    cr_assert_eq(RUN("semaphore", "-k2", "-n", "t", "true"), 0);
    holder_end(second);
    cr_assert_eq(raw_int(redis, "GET t"), 2);
}

Test(cli_semaphore, waits_for_its_turn)
{
    struct command *holder = HOLDER("semaphore", "t", "-k", "1");
    struct command *waiter = SEMAPHORE("1", "-v", "--", FAKE_COMMAND, "ready");
    command_until(waiter, ERR, "waiting: held by ");
    holder_end(holder);
    cr_assert_eq(command_end(waiter), 0, "%s", waiter->text[ERR]);
    command_free(waiter);
}

Test(cli_semaphore, says_how_many_by_the_last_word)
{
    struct command *holder = HOLDER("semaphore", "t", "-k", "1");
    cr_assert_eq(RUN("semaphore", "-k1", "-n", "t", "true"), 1);
    cr_assert_eq(RUN("semaphore", "-k2", "-n", "t", "true"), 0);
    cr_assert_eq(RUN("semaphore", "-k1", "-n", "t", "true"), 1);
    holder_end(holder);
}

/* A semaphore of hlk_semaphore, or a counter: nothing says that it is permits. */
Test(cli_semaphore, leaves_a_number_alone_that_it_has_not_set)
{
    raw(redis, "SET t 3");
    struct command *c = SEMAPHORE("2", "-n", "--", "true");
    cr_assert_eq(command_end(c), 70, "%s", c->text[ERR]);
    cr_assert(strstr(c->text[ERR], "the key is the number 3, which no acquire of hasplock has set"), "%s",
              c->text[ERR]);
    command_free(c);
    cr_assert_eq(raw_int(redis, "GET t"), 3);
    raw(redis, "DEL t");
    cr_assert_eq(RUN("semaphore", "-k2", "t", "true"), 0);
    cr_assert_eq(RUN("semaphore", "-k3", "t", "true"), 0, "its own");
    cr_assert_eq(raw_int(redis, "GET t"), 3);
}

Test(cli_semaphore, leaves_no_number_with_drop)
{
    cr_assert_eq(RUN("semaphore", "-k2", "--drop", "t", "true"), 0);
    cr_assert_eq(raw_int(redis, "DBSIZE"), 0);
    cr_assert_eq(RUN("semaphore", "-k2", "t", "true"), 0);
    cr_assert_eq(raw_int(redis, "GET t"), 2);
    cr_assert_eq(RUN("semaphore", "-k3", "--drop", "t", "true"), 0);
    cr_assert_eq(raw_int(redis, "DBSIZE"), 0);
}

Test(cli_semaphore, deletes_a_number_that_nobody_needs)
{
    struct command *holder = HOLDER("semaphore", "t", "-k", "2"), *c = COMMAND("semaphore", "--delete", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert(strstr(c->text[ERR], ": permits are held (1); nothing was changed"), "%s", c->text[ERR]);
    command_free(c);
    holder_end(holder);
    cr_assert_eq(RUN("semaphore", "t", "--delete"), 0);
    cr_assert_eq(raw_int(redis, "DBSIZE"), 0);
    c = COMMAND("semaphore", "--delete", "t");
    cr_assert_eq(command_end(c), 1);
    cr_assert(strstr(c->text[ERR], "there is no number of permits"), "%s", c->text[ERR]);
    command_free(c);
}

/* Nobody is left to release, or to renew. */
Test(cli_semaphore, gets_the_permit_of_a_host_that_died)
{
    struct command *holder = COMMAND("semaphore", "t", "-k1", "--lease", "1", "--", FAKE_COMMAND, "ready", "read");
    command_until(holder, OUT, "ready\n");
    kill(holder->pid, SIGKILL);
    cr_assert_eq(RUN("semaphore", "-k1", "-w", "15", "t", "true"), 0);
    command_free(holder);
}

Test(cli_semaphore, may_be_nested_where_a_permit_is_left)
{
    cr_assert_eq(RUN("semaphore", "-k2", "t", HASPLOCK, "semaphore", "-k2", "-w10", "t", "true"), 0);
    struct command *itself = COMMAND("semaphore", "-k1", "t", HASPLOCK, "semaphore", "-k1", "t", "true");
    cr_assert_eq(command_end(itself), 64); /* it would wait for itself */
    cr_assert(strstr(itself->text[ERR], "wait for itself"), "%s", itself->text[ERR]);
    command_free(itself);
}

Test(cli_semaphore, is_shown)
{
    struct command *first = HOLDER("semaphore", "t", "-k", "3"), *second = HOLDER("semaphore", "t", "-k", "3");
    struct command *show = COMMAND("show", "--semaphore", "t");
    cr_assert_eq(command_end(show), 0);
    cr_assert(strstr(show->text[OUT], "t: 1 permit free, 2 held with a lease, one by "), "%s", show->text[OUT]);
    command_free(show);
    holder_end(first);
    holder_end(second);
    show = COMMAND("show", "--semaphore", "t");
    cr_assert_eq(command_end(show), 1);
    cr_assert_str_eq(show->text[OUT], "t: 3 permits free, none held with a lease\n");
    command_free(show);
    show = COMMAND("show", "--semaphore", "--json", "t");
    cr_assert_eq(command_end(show), 1);
    cr_assert(strstr(show->text[OUT], "\"held\":false,\"kind\":\"semaphore\",\"free\":3,\"waiting\":0}"), "%s",
              show->text[OUT]);
    command_free(show);
}

/* Its permits have no holders, so these say nothing. */
Test(cli_semaphore, shows_one_without_leases)
{
    raw(redis, "SET t 5");
    struct command *show = COMMAND("show", "--semaphore", "t");
    cr_assert_eq(command_end(show), 1);
    cr_assert_str_eq(show->text[OUT], "t: 5 permits free, none held with a lease\n");
    command_free(show);
}

Test(cli_semaphore, refuses_bad_input)
{
    static const char *const wrong[][6] = {
        { "semaphore", "t", "true" },
        { "semaphore", "-k", "0", "t", "true" },
        { "semaphore", "-k", "x", "t", "true" },
        { "semaphore", "-k", "1000001", "t", "true" },
        { "semaphore", "-k", "1", "t" },
        { "semaphore", "-k", "1", "--fair", "t" },
        { "semaphore", "-k", "1", "--string", "t", "true" },
        { "semaphore", "--delete", "t", "true" },
        { "semaphore", "--delete", "--drop", "t" },
        { "semaphore", "--delete", "-k", "1", "t" },
        { "semaphore", "--delete", "-n", "t" },
        { "run", "-k", "1", "t", "true" },
        { "run", "--drop", "t", "true" },
        { "show", "--semaphore", "--fair", "t" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *argv[8] = { HASPLOCK };
        memcpy(argv + 1, wrong[i], sizeof wrong[i]);
        struct command *c = command_start(argv);
        cr_assert_eq(command_end(c), 64, "%zu: %s", i, c->text[ERR]);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        command_free(c);
    }
    cr_assert_eq(raw_int(redis, "EXISTS t"), 0);
}
