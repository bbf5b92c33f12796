/* stderr, to which log lines go without a callback, is a pipe that is full, or that has no reader any more. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int before, ends[2];

static void start(void)
{
    fault_up(0);
    before = dup(STDERR_FILENO);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_DFL);
}

static void end(void)
{
    dup2(before, STDERR_FILENO);
    fixture_end();
}

TestSuite(stderr, .init = start, .fini = end, .timeout = 90);

static void fill(void)
{
    static const char dots[4096];
    cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], dots, sizeof dots) > 0)
        ;
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
}

/* A hold whose renewals were refused, which is logged; then the server accepts them again. */
static hlk_client *hold_through_refusals(const char *name, hlk_lock **lock)
{
    struct hlk_client_opts opts = fault_opts();
    opts.log = NULL;
    hlk_client *client = fixture_open(&opts);
    *lock = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(*lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "REPLICAOF 127.0.0.1 1");
    WAIT_FOR(strstr(raw(fixture.redis, "INFO errorstats"), "READONLY"));
    raw(fixture.redis, "REPLICAOF NO ONE");
    return client;
}

static void assert_works(hlk_client *client, hlk_lock *lock, const char *name)
{
    int64_t until = hlk_lock_held_until(lock);
    WITHIN(LEASE_MS, hlk_lock_held_until(lock) > until);
    raw(fixture.redis, "DEL %s", name);
    fixture_wait_event(HLK_EVENT_LOST, name);
    int64_t began = test_now_ms();
    fixture_close(client);
    cr_assert_lt(running_ms(began), 5000);
}

/* Shows: S29 */
Test(stderr, that_nobody_reads_costs_no_lock_and_no_event)
{
    hlk_lock *lock;
    fill();
    dup2(ends[1], STDERR_FILENO);
    hlk_client *client = hold_through_refusals("a", &lock);
    assert_works(client, lock, "a");
}

Test(stderr, that_is_closed_raises_no_signal)
{
    hlk_lock *lock; /* its brace causes a warning in the caller's thread */
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    close(ends[0]);
    hlk_client *client = hold_through_refusals("a{b", &lock);
    assert_works(client, lock, "a{b");
}
