/* hlk_condition: waiters that die, data that is lost, lost answers and messages. */
/* Shows: P54 */
#include "condition_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEASE = 1000 };

/* A waiter that is dead leaves its record, and its ticket in the lock's queue, until a lease ends. */
static void start(void)
{
    condition_start();
    server_allow(fixture.server, "hasplock_condition*");
    server_allow(fixture.server, SERVER_QUEUE);
}

static void start_proxied(void)
{
    condition_start_proxied();
    server_allow(fixture.server, "hasplock_condition*");
}

TestSuite(condition_lost, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(condition_wire, .init = start_proxied, .fini = fixture_end, .timeout = 60);
TestSuite(condition_restart, .init = condition_start_durable, .fini = fixture_end, .timeout = 60);

static void signalled(hlk_condition *condition)
{
    cr_assert_eq(hlk_condition_signal(condition), HLK_OK, "%s", hlk_last_error());
}

/* --- waiters that die */

static void wait_and_die(void)
{
    hlk_client *client;
    if (hlk_client_open(&client, fixture.url, NULL) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    if (hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK)
        _exit(2);
    _exit(hlk_condition_wait(hlk_condition_create(client, "t", LEASE), lock, HLK_FOREVER) == HLK_OK ? 0 : 3);
}

static pid_t child_waits(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        wait_and_die();
    WAIT_FOR(condition_waiting() == 1 && condition_listening() == 1);
    return pid;
}

static void killed(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(condition_lost, a_waiter_that_was_killed_is_passed_over)
{
    if (STAGE_UNDER_TSAN)
        return;
    pid_t pid = child_waits();
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, LEASE);
    struct waiting waits = { 0 };
    waiting_start_as(&waits, condition, fixture_lock(client, "t", NULL), 1);
    killed(pid);
    WAIT_FOR(condition_listening() == 1);
    int64_t began = test_now_ms();
    signalled(condition);
    waiting_is_woken(&waits);
    cr_assert_lt(test_now_ms() - began, POLL_MS);
    hlk_condition_destroy(condition);
}

/* It was signalled, and waits for its lock: its signal goes to the next one. */
/* Shows: S41 */
Test(condition_lost, a_signal_of_a_killed_waiter_goes_on)
{
    if (STAGE_UNDER_TSAN)
        return;
    pid_t pid = child_waits();
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, LEASE);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct waiting waits = { 0 };
    waiting_start_as(&waits, condition, lock, 1);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    signalled(condition);
    WAIT_FOR(condition_waiting() <= 1); /* 0: the machine stood still for a lease, and the child counts as dead */
    killed(pid);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(waiting_ended(&waits), HLK_OK, "%s", waits.error);
    cr_assert_eq(waits.holds, 1);
    cr_assert_lt(test_now_ms() - began, LEASE + 2 * POLL_MS);
    hlk_condition_destroy(condition);
}

static int64_t lease_end(void)
{
    const char *first = raw(fixture.redis, "ZRANGE " LEASES " 0 0 WITHSCORES"), *ms = strrchr(first, ' ');
    return ms ? strtoll(ms + 2, NULL, 10) : 0; /* ["<waiter>", "<ms>"] */
}

Test(condition_lost, a_wait_renews_its_lease)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, LEASE);
    struct waiting waits = { 0 };
    waiting_start_as(&waits, condition, fixture_lock(client, "t", NULL), 0);
    int64_t ends = lease_end();
    cr_assert_gt(ends, 0);
    WAIT_FOR(lease_end() > ends + 2 * LEASE);
    signalled(condition);
    cr_assert_eq(waiting_ended(&waits), HLK_OK, "%s", waits.error);
    hlk_condition_destroy(condition);
}

/* --- data */

static void is_woken_by(const char *loss)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 3000);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct waiting waits[2] = { 0 };
    for (int i = 0; i < 2; i++)
        waiting_start_as(&waits[i], condition, lock, i);
    raw(fixture.redis, loss);
    for (int i = 0; i < 2; i++)
        waiting_is_woken(&waits[i]);
    hlk_condition_destroy(condition);
}

/* Shows: S42 */
Test(condition_lost, a_loss_of_all_data_wakes_all)
{
    is_woken_by("FLUSHALL");
}

Test(condition_lost, a_loss_of_the_order_wakes_all)
{
    is_woken_by("DEL " WAITERS);
}

Test(condition_lost, a_loss_of_the_leases_wakes_all)
{
    is_woken_by("DEL " LEASES);
}

Test(condition_restart, with_its_data_goes_on_waiting)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    struct waiting waits = { 0 };
    waiting_start_as(&waits, condition, fixture_lock(client, "t", NULL), 0);
    fixture_restart(client, true);
    WAIT_FOR(condition_listening() == 1);
    cr_assert_eq(condition_waiting(), 1);
    cr_assert_not(atomic_load(&waits.answered));
    signalled(condition);
    cr_assert_eq(waiting_ended(&waits), HLK_OK, "%s", waits.error);
    hlk_condition_destroy(condition);
}

/* Shows: S42 */
Test(condition_restart, without_it_wakes_all)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct waiting waits[2] = { 0 };
    for (int i = 0; i < 2; i++)
        waiting_start_as(&waits[i], condition, lock, i);
    fixture_restart(client, false);
    for (int i = 0; i < 2; i++)
        waiting_is_woken(&waits[i]);
    hlk_condition_destroy(condition);
}

/* --- faults of the wire */

static hlk_client *open_past_the_proxy(void)
{
    return fixture_open_at(hlk_test_url(fixture.server), NULL);
}

/* Each command in turn, or its answer: from the acquire of the lock to the end. */
Test(condition_wire, no_signal_is_lost_with_an_answer)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_AFTER, PROXY_CUT_BEFORE };
    hlk_client *client = fixture_open(NULL), *other = open_past_the_proxy();
    hlk_condition *here = condition_make(client, 0), *there = condition_make(other, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (unsigned at = 1; at <= 8; at++)
        for (int i = 0; i < 2; i++) {
            struct waiting waits = { 0 };
            raw(fixture.redis, "DEL " WAITERS " " LEASES);
            proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, at);
            waiting_start(&waits, here, lock);
            WAIT_FOR(condition_waiting() == 1);
            signalled(there);
            waiting_is_woken(&waits);
        }
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

/* A leave that was answered by nobody may have left: then the wait counts as woken. */
Test(condition_wire, a_wait_that_is_over_has_its_lock)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_AFTER, PROXY_CUT_BEFORE };
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (unsigned at = 1; at <= 6; at++)
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
            proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, at);
            enum hlk_status status = hlk_condition_wait(condition, lock, 200);
            cr_assert(status == HLK_TIMEOUT || status == HLK_OK, "%u %d: %s", at, i, hlk_last_error());
            cr_assert_eq(hlk_lock_holds(lock), 1);
            cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        }
    hlk_condition_destroy(condition);
}

Test(condition_wire, a_signal_without_an_answer_is_repeated)
{
    hlk_client *client = fixture_open(NULL), *other = open_past_the_proxy();
    hlk_condition *here = condition_make(client, 0), *there = condition_make(other, 0);
    struct waiting waits = { 0 };
    waiting_start_as(&waits, there, fixture_lock(other, "t", NULL), 0);
    proxy_arm(fixture.proxy, PROXY_CUT_BEFORE, PROXY_SCRIPTS, 1);
    signalled(here);
    waiting_is_woken(&waits);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

Test(condition_wire, a_waiter_is_woken_without_messages)
{
    hlk_client *client = fixture_open(NULL), *other = open_past_the_proxy();
    hlk_condition *here = condition_make(client, 0), *there = condition_make(other, 0);
    struct waiting waits = { 0 };
    proxy_drop_messages(fixture.proxy, true);
    waiting_start_as(&waits, here, fixture_lock(client, "t", NULL), 0);
    signalled(there);
    cr_assert_eq(waiting_ended(&waits), HLK_OK, "%s", waits.error);
    cr_assert_eq(waits.holds, 1);
    cr_assert_lt(waits.took_ms, 2 * POLL_MS);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

/* The enrolment is not answered, and no server is there any more: the lock was not given up. */
Test(condition_wire, a_wait_that_cannot_begin_keeps_its_lock)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 200;
    opts.reply_timeout_ms = 1000;
    hlk_client *client = fixture_open(&opts), *other = open_past_the_proxy();
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    enum hlk_status status = hlk_condition_wait(condition, lock, HLK_FOREVER);
    cr_assert(status == HLK_E_CONNECT || status == HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "the lock is held as before"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    proxy_refuse(fixture.proxy, false);
    hlk_condition_destroy(condition);
}
