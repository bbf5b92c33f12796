/* A name lookup hangs, for ever or for a while. No call exceeds its deadline by it, cancel and close take effect, and
 * when the name is found after all, everything works.
 *
 * asks A10 hiredis 1128: deadlines of our own. platform: getaddrinfo has no deadline in any version of hiredis. */
#include "fixture.h"
#include "net/resolve.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int hanging;
static atomic_bool go_on;
static sem_t gate;

/* Blocks until the gate opens; then 127.0.0.1 for every name. */
static int hangs(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host;
    atomic_fetch_add(&hanging, 1);
    while (!atomic_load(&go_on) && sem_wait(&gate) != 0)
        ;
    sem_post(&gate); /* opens it for the next one */
    int fault = getaddrinfo("127.0.0.1", service, hints, out);
    atomic_fetch_sub(&hanging, 1);
    return fault;
}

static void let_through(void)
{
    atomic_store(&go_on, true);
    sem_post(&gate);
}

static char url[64];

static void start(void)
{
    fault_up(SERVER_TCP | SERVER_NOACL);
    sem_init(&gate, 0, 0);
    atomic_store(&go_on, false);
    hlk_resolve_play(hangs);
    snprintf(url, sizeof url, "redis://name.test:%d", fixture.server->port);
}

/* Threads that were left behind return now, and free their results. */
static void stop(void)
{
    let_through();
    WAIT_FOR(atomic_load(&hanging) == 0);
    fixture_end();
    hlk_resolve_play(NULL);
}

TestSuite(lookup, .init = start, .fini = stop, .timeout = 60);

static hlk_client *open_lazily(int64_t reconnect_timeout_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.flags = HLK_OPEN_LAZY;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    return fixture_open_at(url, &opts);
}

enum { SLACK_MS = 700 };

Test(lookup, that_hangs_ends_open_at_the_reconnect_timeout)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client;
    opts.reconnect_timeout_ms = 400;
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_client_open(&client, url, &opts), HLK_E_CONNECT, "%s", hlk_last_error());
    cr_assert_null(client);
    cr_assert_geq(test_now_ms() - began, 400);
    cr_assert_lt(running_ms(began), 400 + SLACK_MS);
    cr_assert_not_null(strstr(hlk_last_error(), "name.test"), "%s", hlk_last_error());
}

Test(lookup, that_hangs_holds_no_acquire_beyond_its_deadline)
{
    hlk_client *client = open_lazily(10000);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    const int64_t waits[] = { HLK_NOWAIT, 50, 300 };
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        int64_t began = test_now_ms();
        enum hlk_status status = hlk_lock_acquire(lock, waits[i]);
        int64_t took = test_now_ms() - began;
        cr_assert_eq(status, HLK_E_CONNECT, "%s", hlk_last_error());
        cr_assert_geq(took, waits[i]);
        cr_assert_lt(running_ms(began), waits[i] + REPLY_MS + SLACK_MS, "%d ms", (int)took);
    }
    client = open_lazily(300);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t", NULL), HLK_FOREVER), HLK_E_CONNECT);
    cr_assert_lt(running_ms(began), 300 + SLACK_MS);
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store((atomic_int *)ctx, status);
}

Test(lookup, that_hangs_holds_no_completion_beyond_its_deadline)
{
    hlk_client *client = open_lazily(10000);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner);
    const int64_t waits[] = { HLK_NOWAIT, 50, 300 };
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        atomic_int done = 1000;
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.wait_ms = waits[i];
        int64_t began = test_now_ms();
        cr_assert_eq(hlk_lock_acquire_async(lock, &opts, on_done, &done), HLK_OK);
        WAIT_FOR(atomic_load(&done) != 1000);
        cr_assert_eq(atomic_load(&done), HLK_E_CONNECT, "%d", atomic_load(&done));
        cr_assert_lt(running_ms(began), waits[i] + REPLY_MS + SLACK_MS);
    }
    hlk_owner_destroy(owner);
}

Test(lookup, that_hangs_does_not_hinder_cancel_or_close)
{
    hlk_client *client = open_lazily(10000);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = hlk_cancel_create(client);
    struct actor *cancelled = actor_start(lock, &opts), *closed = actor_start(lock, NULL);
    WAIT_FOR(atomic_load(&hanging) > 0);
    int64_t began = test_now_ms();
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(actor_status(cancelled), HLK_INTERRUPTED, "%s", actor_error(cancelled));
    actor_end(cancelled);
    fixture_close(client);
    cr_assert_eq(actor_status(closed), HLK_E_CLOSED, "%s", actor_error(closed));
    actor_end(closed);
    cr_assert_lt(running_ms(began), REPLY_MS + SLACK_MS);
    hlk_cancel_destroy(opts.cancel);
}

/* A name that is found late still counts: each attempt looks it up again, and a caller with a reconnect timeout
 * succeeds. */
Test(lookup, that_comes_back_lets_everybody_go_on)
{
    hlk_client *client = open_lazily(10000);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(atomic_load(&hanging) > 0);
    cr_assert_not(actor_answered(waiter));
    let_through();
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
}
