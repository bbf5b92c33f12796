/* What an option means that was not given: what client.h says in brackets. */
#include "client.h"

#include <criterion/criterion.h>
#include <stddef.h>

static struct hlk_client_opts opts;

TestSuite(client_opts, .timeout = 20);

Test(client_opts, nobody_gave_are_the_defaults)
{
    cr_assert_eq(hlk_client_read_opts(NULL, &opts), HLK_OK);
    cr_assert_eq(opts.watchdog_ms, 30000);
    cr_assert_eq(opts.reply_ms, 3000);
    cr_assert_eq(opts.patience_ms, 10000);
    cr_assert_eq(opts.at_risk_ms, 0, "a third of the lease, which is the lock's");
    cr_assert_eq(opts.local_passes, 128);
    cr_assert_eq(opts.open_every, 4);
    cr_assert_eq(opts.open_ms, 3);
    cr_assert_eq(opts.flags, 0u);
    cr_assert_null(opts.on_event);
}

Test(client_opts, that_were_given_stay)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.watchdog_ms = 900;
    given.patience_ms = -1;
    given.local_passes = -1;
    given.open_every = -1;
    given.open_ms = 1000;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.watchdog_ms, 900);
    cr_assert_eq(opts.patience_ms, -1);
    cr_assert_eq(opts.local_passes, -1);
    cr_assert_eq(opts.open_every, -1);
    cr_assert_eq(opts.open_ms, 1000);
    cr_assert_eq(opts.reply_ms, 3000);
}

/* Built against an earlier client.h, whose struct was shorter. */
Test(client_opts, an_older_program_does_not_know_are_the_defaults)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.size = offsetof(struct hlk_client_opts, local_passes);
    given.reply_ms = 700;
    given.local_passes = 5; /* not its own memory */
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.reply_ms, 700);
    cr_assert_eq(opts.local_passes, 128);
}
