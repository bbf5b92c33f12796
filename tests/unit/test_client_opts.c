/* The defaults of options, as client.h gives them in brackets. */
#include "client.h"
#include "client_opts.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct hlk_client_opts opts;

TestSuite(client_opts, .timeout = 20);

Test(client_opts, nobody_gave_are_the_defaults)
{
    cr_assert_eq(hlk_client_read_opts(NULL, &opts), HLK_OK);
    cr_assert_eq(opts.watchdog_ms, 30000);
    cr_assert_eq(opts.reply_timeout_ms, 3000);
    cr_assert_eq(opts.reconnect_timeout_ms, 10000);
    cr_assert_eq(opts.at_risk_ms, 0, "a third of the lease, which is the lock's");
    cr_assert_eq(opts.local_passes, 128);
    cr_assert_eq(opts.yield_every, 4);
    cr_assert_eq(opts.yield_ms, 3);
    cr_assert_eq(opts.flags, 0u);
    cr_assert_null(opts.on_event);
}

Test(client_opts, that_were_given_stay)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.watchdog_ms = 900;
    given.reconnect_timeout_ms = -1;
    given.local_passes = -1;
    given.yield_every = -1;
    given.yield_ms = 1000;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.watchdog_ms, 900);
    cr_assert_eq(opts.reconnect_timeout_ms, -1);
    cr_assert_eq(opts.local_passes, -1);
    cr_assert_eq(opts.yield_every, -1);
    cr_assert_eq(opts.yield_ms, 1000);
    cr_assert_eq(opts.reply_timeout_ms, 3000);
}

/* Built against an earlier client.h, whose struct was shorter. */
Test(client_opts, an_older_program_does_not_know_are_the_defaults)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.size = offsetof(struct hlk_client_opts, local_passes);
    given.reply_timeout_ms = 700;
    given.local_passes = 5; /* beyond the older struct */
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.reply_timeout_ms, 700);
    cr_assert_eq(opts.local_passes, 128);
}

/* No byte behind them is readable. */
static struct hlk_client_opts *at_the_end_of_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(mem, MAP_FAILED);
    cr_assert_eq(mprotect(mem + page, page, PROT_NONE), 0);
    return (struct hlk_client_opts *)(void *)(mem + page - sizeof(struct hlk_client_opts));
}

Test(client_opts, whose_size_is_none_are_refused_unread)
{
    static const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, 1025, 65536, SIZE_MAX / 2, SIZE_MAX };
    struct hlk_client_opts *given = at_the_end_of_memory(), init = HLK_CLIENT_OPTS_INIT;
    *given = init;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        given->size = sizes[i];
        cr_assert_eq(hlk_client_read_opts(given, &opts), HLK_E_INVALID, "%zu", sizes[i]);
    }
}

Test(client_opts, have_nothing_in_what_is_reserved)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.reserved = 1;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
}

Test(client_opts, replicas_are_awaited_when_asked_and_for_a_second)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.wait_replicas, 0);
    given.wait_replicas = 1000;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.wait_replicas_timeout_ms, 1000);
    given.wait_replicas = 1001;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
    given.wait_replicas = -1;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
    given.wait_replicas = 1;
    given.wait_replicas_timeout_ms = 60001;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
    given.wait_replicas_timeout_ms = -1;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
}

Test(client_opts, without_pubsub_there_is_no_inbox_and_no_window)
{
    struct hlk_client_opts given = HLK_CLIENT_OPTS_INIT;
    given.flags = HLK_OPEN_NO_PUBSUB;
    given.yield_every = 2;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_OK);
    cr_assert_eq(opts.yield_every, -1);
    given.flags |= HLK_OPEN_LISTEN;
    cr_assert_eq(hlk_client_read_opts(&given, &opts), HLK_E_INVALID);
    cr_assert_not_null(strstr(hlk_last_error(), "HLK_OPEN_NO_PUBSUB"), "%s", hlk_last_error());
}
