/* One system call fails (for a descriptor, a thread, room in an epoll set), at each step in turn: of opening, of a
 * caller's request, of the subscriber, of a reconnect. The result is at most an error; nothing is left. */
#include "fixture.h"
#include "support/failing_calls.h"

#include <string.h>

static void start(void)
{
    fault_up(SERVER_NOACL);
    raw(fixture.redis, "HSET theirs b983c153-7421-469a-addb-44fb92259a1b:1 1");
}

static void stop(void)
{
    raw(fixture.redis, "DEL theirs");
    fixture_end();
}

TestSuite(lack, .init = start, .fini = stop, .timeout = 120);

static hlk_client *open_one(unsigned flags)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client = NULL;
    opts.reconnect_timeout_ms = 2000;
    opts.flags = flags;
    enum hlk_status status = hlk_client_open(&client, fixture.url, &opts);
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_OS), "%s", hlk_last_error());
    cr_assert_eq(client != NULL, status == HLK_OK);
    return client;
}

/* The cancel ends a wait for `theirs`. */
static void expect_cancel_works(hlk_client *client, hlk_lock *theirs, hlk_cancel *cancel)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    struct actor *waiter = actor_start(theirs, &opts);
    WAIT_FOR_WAITERS(client, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_status(waiter), HLK_INTERRUPTED, "%s", actor_error(waiter));
    actor_leave(waiter);
}

/* True: a call was failed. */
static bool use_without(int n, hlk_client *client)
{
    hlk_cancel *cancel = hlk_cancel_create(client);
    hlk_lock *ours = hlk_lock_create(client, "ours", NULL), *theirs = hlk_lock_create(client, "theirs", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    cr_assert(cancel || hlk_last_status() == HLK_E_OS, "%d: %s", n, hlk_last_error());
    opts.wait_ms = 30;
    opts.cancel = cancel;
    opts.flags = HLK_ACQUIRE_EINTR;
    enum hlk_status status = hlk_lock_acquire_with(theirs, &opts);
    cr_assert(ONE_OF(status, HLK_TIMEOUT, HLK_E_OS), "%d: %s", n, hlk_last_error());
    raw(fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert_eq(hlk_lock_acquire(ours, 5000), HLK_OK, "%d: %s", n, hlk_last_error());
    cr_assert(hlk_lock_lost_fd(ours) >= 0 || hlk_last_status() == HLK_E_OS, "%d: %s", n, hlk_last_error());
    cr_assert_eq(hlk_lock_release(ours), HLK_OK, "%d: %s", n, hlk_last_error());
    bool struck = failing_calls_end();
    if (cancel)
        expect_cancel_works(client, theirs, cancel);
    hlk_cancel_destroy(cancel);
    hlk_lock_destroy(ours);
    hlk_lock_destroy(theirs);
    return struck;
}

static bool open_and_use_without(int n, unsigned flags)
{
    failing_calls_begin(n, false);
    hlk_client *client = open_one(flags);
    bool struck = client ? use_without(n, client) : failing_calls_end();
    hlk_client_close(client);
    return struck;
}

static void at_each_place(unsigned flags)
{
    int n = 1;
    (void)open_and_use_without(FAILING_CALLS_NEVER - 1, flags); /* makes what the thread and the server keep */
    int before = open_descriptors();
    while (open_and_use_without(n, flags)) {
        WAIT_FOR(open_descriptors() <= before);
        n++;
    }
    cr_assert_geq(n, 20);
    cr_assert_leq(n, 100);
}

Test(lack, of_one_thing_at_each_place_is_an_answer)
{
    at_each_place(0);
}

Test(lack, of_one_thing_at_each_place_is_answered_in_dispatch)
{
    at_each_place(HLK_OPEN_DISPATCH);
}
