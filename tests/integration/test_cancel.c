/* Ending waits from outside: the cancel object, and signals with HLK_ACQUIRE_EINTR. */
#include "cancel_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(cancel, .init = cancel_start, .fini = fixture_end, .timeout = 90);
TestSuite(cancel_signal, .init = cancel_start, .fini = fixture_end, .timeout = 90);

static hlk_cancel *cancel;

static struct hlk_acquire_opts with_cancel(int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    opts.cancel = cancel;
    return opts;
}

/* --- the cancel object */

Test(cancel, ends_a_wait_and_leaves_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(lock, &opts);
    WAIT_FOR_WAITERS(client, 1);
    cr_assert_eq(hlk_cancel_triggered(cancel), 0);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_status(waiter), HLK_INTERRUPTED);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    cr_assert_eq(hlk_cancel_triggered(cancel), 1);
    assert_nothing_left(client);
    cr_assert_eq(fixture_counters(client).interrupted, 1u);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    hlk_cancel_destroy(cancel);
}

Test(cancel, is_sticky_until_reset)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    hlk_cancel_trigger(cancel);
    hlk_cancel_trigger(cancel);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_INTERRUPTED);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_cancel_reset(cancel);
    cr_assert_eq(hlk_cancel_triggered(cancel), 0);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    opts.wait_ms = 50;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_TIMEOUT, "after the reset it is as new");
    raw(fixture.redis, "DEL t");
    hlk_cancel_destroy(cancel);
}

Test(cancel, ends_all_waits_that_have_it_and_no_others)
{
    enum { THREADS = 8 };
    hlk_client *client = fixture_open(NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    struct actor *waiters[THREADS], *patient;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "HSET t2 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(fixture_lock(client, i % 2 ? "t" : "t2", NULL), &opts);
    patient = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR_WAITERS(client, THREADS + 1);
    hlk_cancel_trigger(cancel);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_INTERRUPTED);
    cr_assert_not(actor_answered(patient));
    raw(fixture.redis, "DEL t t2");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(patient), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    assert_nothing_left(client);
    hlk_cancel_destroy(cancel);
}

Test(cancel, of_null_is_fine_and_objects_come_and_go)
{
    hlk_client *client = fixture_open(NULL);
    hlk_cancel_trigger(NULL);
    hlk_cancel_destroy(NULL);
    cr_assert_null(hlk_cancel_create(NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    for (int i = 0; i < 3000; i++) { /* more than there are descriptors */
        hlk_cancel *one = hlk_cancel_create(client);
        cr_assert_not_null(one);
        hlk_cancel_trigger(one);
        hlk_cancel_destroy(one);
    }
}

Test(cancel, leaves_a_nested_hold_as_it_was)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    hlk_cancel_trigger(cancel);
    enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
    cr_assert(status == HLK_OK || status == HLK_INTERRUPTED);
    cr_assert_eq(hlk_lock_holds(lock), status == HLK_OK ? 2 : 1);
    while (hlk_lock_holds(lock))
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    hlk_cancel_destroy(cancel);
}

/* cancel.h: granted before the trigger was seen: released, or HLK_OK. Never both, never neither. */
Test(cancel, beside_a_release_gives_the_lock_or_leaves_it_free)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    unsigned seed = 1;
    int got = 0, not_got = 0;
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        struct actor *waiter = actor_start(lock, &opts);
        WAIT_FOR_WAITERS(client, 1);
        if (i % 2)
            hlk_cancel_trigger(cancel);
        if (i % 4 == 1)
            pause_us(rand_r(&seed) % 300); /* a cancel takes about as long to reach the waiter */
        else if (i % 4 == 3)
            WAIT_FOR(actor_answered(waiter));
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        hlk_cancel_trigger(cancel);
        enum hlk_status status = actor_status(waiter);
        cr_assert(status == HLK_OK || status == HLK_INTERRUPTED);
        if (status == HLK_OK)
            cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
        cr_assert_eq(actor_end(waiter), status);
        got += status == HLK_OK;
        not_got += status == HLK_INTERRUPTED;
        hlk_cancel_reset(cancel);
    }
    cr_log_info("%d granted, %d interrupted", got, not_got);
    cr_assert_gt(got, 0);
    cr_assert_geq(not_got, 50, "each fourth was cancelled before the release");
    assert_nothing_left(client);
    hlk_cancel_destroy(cancel);
}

/* cancel.h: within milliseconds, also when the server hangs. It hangs here until the call has returned. */
Test(cancel, ends_a_call_that_waits_for_a_hung_server)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 60000;
    opts.reconnect_timeout_ms = 60000;
    hlk_client *client = fixture_open(&opts);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts forever = with_cancel(HLK_FOREVER);
    int64_t commands = (int64_t)fixture_counters(client).commands;
    server_pause(fixture.server);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &forever);
    WAIT_FOR((int64_t)fixture_counters(client).commands > commands);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    server_resume(fixture.server);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2); /* what was sent is rolled back */
    assert_nothing_left(client);
    hlk_cancel_destroy(cancel);
}

Test(cancel, ends_a_call_that_rides_out_an_absent_server)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = -1;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts forever = with_cancel(HLK_FOREVER);
    redisFree(fixture.redis);
    server_kill(fixture.server);
    struct actor *waiter = actor_start(lock, &forever);
    test_sleep_ms(100); /* it tries without success */
    cr_assert_not(actor_answered(waiter));
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    hlk_cancel_destroy(cancel);
}

/* asks A1 consul 4439: signals while waiting; the handler triggers, as a shutdown would */
static void on_signal_trigger(int sig)
{
    (void)sig;
    hlk_cancel_trigger(cancel);
}

static void install(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_flags = flags };
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

Test(cancel, may_be_triggered_by_the_waiters_own_signal_handler)
{
    hlk_client *client = fixture_open(NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(HLK_FOREVER);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    install(SIGTERM, on_signal_trigger, SA_RESTART);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR_WAITERS(client, 1);
    actor_signal(waiter, SIGTERM);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    raw(fixture.redis, "DEL t");
    assert_nothing_left(client);
    hlk_cancel_destroy(cancel);
}

Test(cancel, trigger_keeps_errno)
{
    hlk_client *client = fixture_open(NULL);
    cancel = hlk_cancel_create(client);
    for (int i = 0; i < 100000; i++) { /* an endless loop if it blocked */
        errno = EXDEV;
        hlk_cancel_trigger(cancel);
        cr_assert_eq(errno, EXDEV);
    }
    hlk_cancel_destroy(cancel);
}

/* --- EINTR */

static atomic_int handled;
static void on_signal_count(int sig)
{
    (void)sig;
    atomic_fetch_add(&handled, 1);
}

Test(cancel_signal, a_handler_ends_a_wait_that_asked_for_it)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.flags = HLK_ACQUIRE_EINTR;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    install(SIGUSR1, on_signal_count, 0);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR_WAITERS(client, 1);
    while (!actor_answered(waiter)) { /* a signal just before it parks may have no effect */
        actor_signal(waiter, SIGUSR1);
        test_sleep_ms(1);
    }
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    cr_assert_geq(atomic_load(&handled), 1);
    raw(fixture.redis, "DEL t");
    assert_nothing_left(client);
}

Test(cancel_signal, a_handler_does_not_end_a_wait_that_did_not_ask)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    install(SIGUSR1, on_signal_count, 0);
    struct actor *forever = actor_start(lock, NULL), *timed = actor_start_wait(lock, 400);
    WAIT_FOR_WAITERS(client, 2);
    while (!actor_answered(timed)) {
        actor_signal(forever, SIGUSR1);
        actor_signal(timed, SIGUSR1);
        test_sleep_ms(1);
    }
    cr_assert_eq(actor_status(timed), HLK_TIMEOUT);
    cr_assert_geq(actor_took_ms(timed), 400); /* asks A1 spring-integration 3690, also with signals */
    actor_end(timed);
    cr_assert_not(actor_answered(forever));
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(forever), HLK_OK);
    cr_assert_geq(atomic_load(&handled), 2);
}

/* Signals do not disturb calls that wait for a reply of the server, with or without the flag. */
Test(cancel_signal, a_handler_disturbs_no_call_that_awaits_a_reply)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    install(SIGALRM, on_signal_count, 0);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
    struct itimerspec often = { { 0, 200000 }, { 0, 200000 } };
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &often, NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    for (int i = 0; i < 500; i++) {
        opts.flags = i % 2 ? HLK_ACQUIRE_EINTR : 0;
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    timer_delete(timer);
}

/* --- fork */

Test(cancel, trigger_in_a_forked_child_spares_the_parent)
{
    hlk_client *client = fixture_open(NULL);
    cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = with_cancel(300);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR_WAITERS(client, 1);
    pid_t child = fork();
    if (child == 0) {
        hlk_cancel_trigger(cancel);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(actor_end(waiter), HLK_TIMEOUT);
    cr_assert_eq(hlk_cancel_triggered(cancel), 0);
    raw(fixture.redis, "DEL t");
    hlk_cancel_destroy(cancel);
}
