/* A client takes the answer to one command for that to another: a reply is lost in the middle of its connection. No
 * network does that; a defect on either side would. Nobody holds a lock by an answer that was meant for another. */
#include "fixture.h"

#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
    server_allow(fixture.server, "redisson_lock_token:*");
    server_allow(fixture.server, "hasplock_fair:*"); /* tombstones */
    server_allow(fixture.server, "void:hasplock_rwlock:*");
}

TestSuite(out_of_step, .init = start, .fini = fixture_end, .timeout = 60);

static atomic_int told;

static void count_told(int level, const char *line, void *ctx)
{
    (void)level, (void)ctx;
    atomic_fetch_add(&told, strstr(line, "a reply was no answer to its command") != NULL);
}

/* A try for a lock that is held is answered by nobody, and then by what another lock's acquire is answered. */
static void gives_no_lock_that_is_held(int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts try = HLK_ACQUIRE_OPTS_INIT;
    opts.kind = kind;
    try.wait_ms = HLK_NOWAIT;
    hlk_lock *holders = fixture_lock(bystander(), "held", &opts);
    cr_assert_eq(hlk_lock_acquire(holders, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.log = count_told;
    hlk_client *client = fixture_open(&client_opts);
    hlk_lock *held = fixture_lock(client, "held", &opts), *free = fixture_lock(client, "free", &opts);
    proxy_arm(fixture.proxy, PROXY_SKIP, PROXY_SCRIPTS, 1);
    struct actor *other = actor_start(held, &try);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_lock_acquire(free, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(other), HLK_BUSY, "%s", actor_error(other));
    (void)actor_end(other);
    cr_assert_eq(fixture_counters(client).reconnects, 1u);
    cr_assert_eq(atomic_load(&told), 1);
    cr_assert_eq(hlk_lock_release(free), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(holders), HLK_OK, "%s", hlk_last_error());
}

Test(out_of_step, gives_no_plain_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_PLAIN);
}

Test(out_of_step, gives_no_fenced_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_FENCED);
}

Test(out_of_step, gives_no_fair_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_FAIR);
}

Test(out_of_step, gives_no_string_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_STRING);
}

Test(out_of_step, gives_no_write_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_WRITE);
}
