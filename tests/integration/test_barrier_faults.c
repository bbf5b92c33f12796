/* hlk_barrier: what ends a wait from outside, parties that die, data that is lost, lost answers and messages; and waits
 * without a blocked thread. */
/* Shows: P51 */
#include "barrier_fixture.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(barrier_lost, .init = barrier_start, .fini = fixture_end, .timeout = 60);
TestSuite(barrier_wire, .init = barrier_start_proxied, .fini = fixture_end, .timeout = 60);
TestSuite(barrier_restart, .init = barrier_start_durable, .fini = fixture_end, .timeout = 60);

/* --- parties that die */

static void wait_and_die(int64_t lease_ms)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    _exit(hlk_barrier_await(hlk_barrier_create(client, "t", 3, lease_ms), HLK_FOREVER, NULL) == HLK_OK ? 0 : 2);
}

/* Shows: S7 */
Test(barrier_lost, is_broken_when_a_party_is_killed)
{
    if (STAGE_UNDER_TSAN)
        return;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        wait_and_die(2000);
    WAIT_FOR(barrier_arrived() == 1);
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 2000);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    party_is_broken(&waits, "not been heard of");
    hlk_barrier_destroy(barrier);
}

static int64_t lease_end(const struct party *waits)
{
    const char *arrived = raw(fixture.redis, "ZRANGE " ARRIVED " 0 0 WITHSCORES"), *ms = strrchr(arrived, ' ');
    cr_assert_not_null(ms, "%s: its lease is over, or it has ended: %d %s", arrived, atomic_load(&waits->answered),
                       waits->error);
    return strtoll(ms + 2, NULL, 10); /* ["<party>", "<ms>"] */
}

/* A wait that lasts for many leases is no death. */
Test(barrier_lost, renews_the_lease_of_a_wait)
{
    enum { LEASE = 2000 }; /* a machine that is busy stands still for a second now and then */
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, LEASE);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 0);
    int64_t ends = lease_end(&waits);
    WAIT_FOR(lease_end(&waits) > ends + 2 * LEASE);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, NULL), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&waits), HLK_OK, "%s", waits.error);
    hlk_barrier_destroy(barrier);
}

/* --- what ends a wait from outside */

static void on_signal(int signal)
{
    (void)signal;
}

Test(barrier_lost, is_left_by_a_signal)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 0);
    struct sigaction action = { .sa_handler = on_signal };
    struct party waits = { 0 }, leaves = { .opts = HLK_ACQUIRE_OPTS_INIT };
    sigaction(SIGUSR1, &action, NULL);
    party_arrives_as(&waits, barrier, 0);
    leaves.opts.flags = HLK_ACQUIRE_EINTR;
    party_arrives_as(&leaves, barrier, 1);
    while (!atomic_load(&leaves.answered)) { /* one that runs just before the sleep does not count */
        pthread_kill(leaves.thread, SIGUSR1);
        sched_yield();
    }
    cr_assert_eq(party_ended(&leaves), HLK_INTERRUPTED, "%s", leaves.error);
    party_is_broken(&waits, "its wait was cancelled");
    hlk_barrier_destroy(barrier);
}

/* Nothing is sent by a thread that is cancelled: its lease ends. */
/* Shows: S7 */
Test(barrier_lost, is_left_by_a_thread_that_is_cancelled)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 1000);
    struct party waits = { 0 }, leaves = { 0 };
    void *result;
    party_arrives_as(&waits, barrier, 0);
    party_arrives_as(&leaves, barrier, 1);
    cr_assert_eq(pthread_cancel(leaves.thread), 0);
    cr_assert_eq(pthread_join(leaves.thread, &result), 0);
    cr_assert_eq(result, PTHREAD_CANCELED);
    party_is_broken(&waits, "not been heard of");
    hlk_barrier_destroy(barrier);
}

/* --- data */

/* Shows: S7 */
Test(barrier_lost, is_broken_when_its_data_is_lost)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 3000);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 0);
    WAIT_FOR(raw_clients(fixture.redis, "pubsub") == 1);
    raw(fixture.redis, "FLUSHALL");
    party_is_broken(&waits, "lost the barrier's data");
    hlk_barrier_destroy(barrier);
}

/* A new generation that begins and passes in the new data says nothing about the old one. */
Test(barrier_lost, is_not_passed_by_new_data)
{
    hlk_client *client = fixture_open(NULL);
    hlk_barrier *barrier = barrier_make(client, 2, 0);
    struct party waits = { 0 }, one = { 0 };
    party_arrives_as(&waits, barrier, 0);
    WAIT_FOR(raw_clients(fixture.redis, "pubsub") == 1);
    raw(fixture.redis, "FLUSHALL");
    party_arrives(&one, barrier);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, NULL), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&one), HLK_OK, "%s", one.error);
    party_is_broken(&waits, "lost the barrier's data");
    hlk_barrier_destroy(barrier);
}

/* One of the two keys alone: an eviction. Those who had arrived are not counted with those who come later. */
Test(barrier_lost, is_broken_when_those_who_have_arrived_are_lost)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0);
    struct party waits = { 0 }, next = { 0 };
    unsigned index = 77;
    party_arrives_as(&waits, barrier, 0);
    raw(fixture.redis, "DEL " ARRIVED);
    party_arrives_as(&next, barrier, 0);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, &index), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&next), HLK_OK, "%s", next.error);
    cr_assert_eq(index + next.index, 1u);
    party_is_broken(&waits, "lost the barrier's data");
    hlk_barrier_destroy(barrier);
}

Test(barrier_restart, with_its_data_loses_no_arrival)
{
    hlk_client *client = fixture_open(NULL);
    hlk_barrier *barrier = barrier_make(client, 2, 0);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 0);
    fixture_restart(client, true);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, NULL), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&waits), HLK_OK, "%s", waits.error);
    hlk_barrier_destroy(barrier);
}

/* Shows: S7 */
Test(barrier_restart, without_it_breaks_the_generation)
{
    hlk_client *client = fixture_open(NULL);
    hlk_barrier *barrier = barrier_make(client, 2, 0);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 0);
    WAIT_FOR(raw_clients(fixture.redis, "pubsub") == 1); /* it has been told that it has arrived */
    fixture_restart(client, false);
    party_is_broken(&waits, "lost the barrier's data");
    hlk_barrier_destroy(barrier);
}

/* --- without a blocked thread */

static struct {
    atomic_int done, ok;
    atomic_uint indexes;
} async;

static void on_passed(hlk_barrier *barrier, enum hlk_status status, unsigned index, void *ctx)
{
    (void)barrier, (void)ctx;
    if (status == HLK_OK)
        atomic_fetch_add(&async.ok, 1);
    atomic_fetch_or(&async.indexes, 1u << index);
    atomic_fetch_add(&async.done, 1);
}

Test(barrier_lost, lets_async_waits_pass_together)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 4, 0);
    for (int round = 1; round <= 3; round++) {
        atomic_store(&async.indexes, 0);
        for (int i = 0; i < 4; i++)
            cr_assert_eq(hlk_barrier_await_async(barrier, NULL, on_passed, NULL), HLK_OK, "%s", hlk_last_error());
        WAIT_FOR(atomic_load(&async.done) == 4 * round);
        cr_assert_eq(atomic_load(&async.ok), 4 * round);
        cr_assert_eq(atomic_load(&async.indexes), 15u);
    }
    hlk_barrier_destroy(barrier);
}

/* --- faults of the wire */

/* Each reply in turn is lost, after the command has run. */
Test(barrier_wire, counts_each_arrival_once_when_answers_are_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_AFTER, PROXY_CUT_BEFORE };
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0);
    for (int at = 1; at <= 4; at++)
        for (int i = 0; i < 2; i++) {
            struct party waits = { 0 };
            unsigned index = 77;
            proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, (unsigned)at);
            party_arrives(&waits, barrier);
            cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, &index), HLK_OK, "%s", hlk_last_error());
            cr_assert_eq(party_ended(&waits), HLK_OK, "%s", waits.error);
            cr_assert_eq(index + waits.index, 1u, "%d %d: %u %u", at, i, index, waits.index);
            cr_assert_eq(barrier_arrived(), 0);
        }
    hlk_barrier_destroy(barrier);
}

Test(barrier_wire, is_passed_although_all_messages_are_lost)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0);
    struct party waits = { 0 };
    proxy_drop_messages(fixture.proxy, true);
    party_arrives_as(&waits, barrier, 0);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, NULL), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&waits), HLK_OK, "%s", waits.error);
    hlk_barrier_destroy(barrier);
}

/* The answer to an arrival is lost together with all data: it may have passed, and does not arrive in the new data. */
Test(barrier_wire, is_broken_when_the_answer_and_the_data_are_lost)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0);
    struct party waits = { 0 };
    cr_assert_eq(hlk_barrier_await(barrier, HLK_NOWAIT, NULL), HLK_BUSY); /* it knows this data */
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    party_arrives(&waits, barrier);
    proxy_wait_struck(fixture.proxy);
    WAIT_FOR(barrier_arrived() == 1);
    raw(fixture.redis, "FLUSHALL");
    proxy_cut_all(fixture.proxy);
    party_is_broken(&waits, "lost the barrier's data");
    cr_assert_eq(barrier_arrived(), 0);
    hlk_barrier_destroy(barrier);
}

/* An earlier wait of the same party whose leave did not arrive still stands. It is not one of the two. */
Test(barrier_wire, is_not_passed_with_ones_own_earlier_arrival)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 300;
    hlk_barrier *barrier = barrier_make(fixture_open(&opts), 2, 0);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_NOWAIT, NULL), HLK_BUSY);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 3); /* it arrives, asks when it is subscribed, and leaves */
    cr_assert_eq(hlk_barrier_await(barrier, 200, NULL), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert(proxy_struck(fixture.proxy));
    cr_assert_eq(barrier_arrived(), 1);
    cr_assert_eq(hlk_barrier_await(barrier, 200, NULL), HLK_TIMEOUT, "%s", hlk_last_error());
    hlk_barrier_destroy(barrier);
}

/* The last one arrives, and its answer comes when its wait is over: the others have passed, and so has it. */
Test(barrier_wire, is_passed_by_one_whose_answer_is_late)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0), *there = barrier_make(fixture_open(NULL), 2, 0);
    struct party waits[2] = { 0 };
    unsigned index = 77;
    for (int i = 0; i < 2; i++) { /* in the second round it knows the data, and arrives by its first command */
        party_arrives_as(&waits[i], barrier, 0);
        if (i == 1)
            proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_barrier_await(there, i == 1 ? 1 : HLK_FOREVER, &index), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(index, 0u);
        cr_assert_eq(party_ended(&waits[i]), HLK_OK, "%s", waits[i].error);
    }
    hlk_barrier_destroy(barrier);
    hlk_barrier_destroy(there);
}
