/* When the texts of the scripts are sent: never ahead, and once to a server as a rule. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

static void start(void)
{
    fixture_begin(SERVER_COLD);
}

TestSuite(script_texts, .init = start, .fini = fixture_end, .timeout = 60);

static void use_a_lock(void)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    fixture_close(client);
}

Test(script_texts, are_not_sent_to_a_server_that_knows_them)
{
    use_a_lock();
    raw(fixture.redis, "CONFIG RESETSTAT");
    use_a_lock();
    cr_assert_lt(raw_stat(fixture.redis, "total_net_input_bytes"), 2000);
    cr_assert_eq(raw_calls(fixture.redis, "eval"), 0);
    cr_assert_eq(raw_calls(fixture.redis, "script|load"), 0);
}

Test(script_texts, are_sent_when_the_server_has_lost_them)
{
    for (int i = 0; i < 3; i++) {
        raw(fixture.redis, "SCRIPT FLUSH");
        raw(fixture.redis, "CONFIG RESETSTAT");
        use_a_lock();
        cr_assert_eq(raw_calls(fixture.redis, "eval"), 3, "the probe, acquire, release");
    }
}

static atomic_int ended;

static void count(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock, (void)ctx;
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    atomic_fetch_add(&ended, 1);
}

static void dispatch_until(hlk_client *client, int ends)
{
    struct pollfd due = { .fd = hlk_client_fd(client), .events = POLLIN };
    while (atomic_load(&ended) < ends) {
        cr_assert_eq(poll(&due, 1, WAIT_MS), 1);
        (void)hlk_client_dispatch(client, 0);
    }
}

/* What is sent before the first NOSCRIPT is there counts on the text that follows it. */
Test(script_texts, are_sent_once_though_many_need_them)
{
    enum { MANY = 50 };
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_DISPATCH;
    hlk_client *client = fixture_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = HLK_LOCK_FAIR; /* its commands are not combined */
    lock_opts.owner = owner;
    raw(fixture.redis, "CONFIG RESETSTAT");
    hlk_lock *locks[MANY];
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = fixture_lock(client, name, &lock_opts);
        cr_assert_eq(hlk_lock_acquire_async(locks[i], NULL, count, NULL), HLK_OK);
    }
    dispatch_until(client, MANY);
    cr_assert_eq(raw_calls(fixture.redis, "eval"), 1);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(hlk_lock_release_async(locks[i], count, NULL), HLK_OK);
    dispatch_until(client, 2 * MANY);
    cr_assert_eq(raw_calls(fixture.redis, "eval"), 2);
    hlk_owner_destroy(owner);
}
