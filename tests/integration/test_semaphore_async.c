/* hlk_semaphore: acquires and releases without a blocked thread. */
#include "semaphore_fixture.h"

#include <criterion/criterion.h>
#include <hasplock/async.h>
#include <string.h>

#define MANY 50

TestSuite(semaphore_async_wire, .init = semaphore_start_proxied, .fini = semaphore_stop, .timeout = 60);
TestSuite(semaphore_async, .init = semaphore_start, .fini = semaphore_stop, .timeout = 60);

static struct outcome {
    atomic_int ok, interrupted, busy, timeout, closed, server, other;
    char error[512];
} outcome;

static void on_done(hlk_semaphore *semaphore, enum hlk_status status, void *ctx)
{
    (void)ctx;
    cr_assert(semaphore);
    if (status != HLK_OK)
        snprintf(outcome.error, sizeof outcome.error, "%s", hlk_last_error());
    atomic_fetch_add(status == HLK_OK            ? &outcome.ok
                     : status == HLK_INTERRUPTED ? &outcome.interrupted
                     : status == HLK_BUSY        ? &outcome.busy
                     : status == HLK_TIMEOUT     ? &outcome.timeout
                     : status == HLK_E_CLOSED    ? &outcome.closed
                     : status == HLK_E_SERVER    ? &outcome.server
                                                 : &outcome.other,
                     1);
}

static void acquires(int64_t n, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    cr_assert_eq(hlk_semaphore_acquire_async(permits, n, &opts, on_done, NULL), HLK_OK, "%s", hlk_last_error());
}

static void releases(int64_t n)
{
    cr_assert_eq(hlk_semaphore_release_async(permits, n, on_done, NULL), HLK_OK, "%s", hlk_last_error());
}

static bool is_queue_gone(void)
{
    return raw_int(fixture.redis, "EXISTS %s", SEMAPHORE_QUEUE) == 0;
}

Test(semaphore_async, completes_any_number_of_acquires)
{
    semaphore_set(0);
    for (int i = 0; i < MANY; i++)
        acquires(1, HLK_FOREVER);
    WAIT_FOR_WAITERS(client, MANY);
    cr_assert_eq(outcome.ok, 0);
    WAIT_FOR(semaphore_tickets() == 1); /* one line, one ticket */
    cr_assert_eq(hlk_semaphore_release(theirs, MANY), HLK_OK);
    WAIT_FOR(outcome.ok == MANY);
    cr_assert_eq(semaphore_free(), 0);
    cr_assert_eq(fixture_counters(client).acquired, (uint64_t)MANY);
}

Test(semaphore_async, free_permits_need_one_command_each)
{
    semaphore_set(MANY);
    acquires(1, HLK_FOREVER);
    WAIT_FOR(outcome.ok == 1);
    releases(1);
    WAIT_FOR(outcome.ok == 2);
    cr_assert_eq(semaphore_free(), MANY);
    hlk_semaphore_destroy(permits);
    hlk_semaphore_destroy(theirs);
    permits = theirs = NULL;
    WAIT_FOR(is_queue_gone());
}

Test(semaphore_async, ends_a_wait_in_each_way)
{
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    semaphore_set(0);
    acquires(1, HLK_NOWAIT);
    WAIT_FOR(outcome.busy == 1);
    acquires(1, 30);
    WAIT_FOR(outcome.timeout == 1);
    cr_assert_eq(hlk_semaphore_acquire_async(permits, 1, &opts, on_done, NULL), HLK_OK);
    WAIT_FOR_WAITERS(client, 1);
    hlk_cancel_trigger(cancel);
    WAIT_FOR(outcome.interrupted == 1);
    WAIT_FOR(semaphore_tickets() == 0);
    acquires(1, HLK_FOREVER);
    WAIT_FOR_WAITERS(client, 1);
    hlk_semaphore_destroy(permits); /* the call keeps what it needs */
    permits = NULL;
    fixture_close(client);
    cr_assert_eq(outcome.closed, 1);
    WAIT_FOR(semaphore_tickets() == 0);
    hlk_cancel_destroy(cancel);
}

Test(semaphore_async, an_acquire_after_its_handle_leaves_no_note)
{
    semaphore_set(0);
    acquires(1, HLK_FOREVER);
    WAIT_FOR(semaphore_tickets() == 1);
    hlk_semaphore_destroy(permits);
    permits = NULL;
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(outcome.ok == 1);
    hlk_semaphore_destroy(theirs);
    theirs = NULL;
    WAIT_FOR(is_queue_gone());
}

Test(semaphore_async, a_release_after_its_handle_leaves_no_note)
{
    semaphore_set(0);
    server_pause(fixture.server);
    releases(1);
    hlk_semaphore_destroy(permits);
    permits = NULL;
    server_resume(fixture.server);
    WAIT_FOR(outcome.ok == 1);
    WAIT_FOR(is_queue_gone());
    cr_assert_eq(semaphore_free(), 1);
}

/* Each gives its permit back when it has it, so that it is passed on in the line. */
static void on_turn(hlk_semaphore *semaphore, enum hlk_status status, void *ctx)
{
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_semaphore_release_async(semaphore, 1, on_done, ctx), HLK_OK, "%s", hlk_last_error());
}

Test(semaphore_async, passes_permits_on)
{
    semaphore_set(0);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(hlk_semaphore_acquire_async(permits, 1, NULL, on_turn, NULL), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR_WAITERS(client, MANY);
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK);
    WAIT_FOR(outcome.ok == MANY);
    cr_assert_gt(fixture_counters(client).passed, 0u);
    WAIT_FOR(semaphore_free() == 1);
    WAIT_FOR(semaphore_tickets() == 0);
}

Test(semaphore_async, a_release_that_is_refused_says_so)
{
    semaphore_set(HLK_PERMITS_MAX);
    releases(1);
    WAIT_FOR(outcome.server == 1);
    cr_assert(strstr(outcome.error, "release \"t\" at ") && strstr(outcome.error, "2147483648 permits"), "%s",
              outcome.error);
    cr_assert_eq(hlk_semaphore_release_async(permits, 1, NULL, NULL), HLK_OK); /* logged */
    WAIT_FOR(fixture_counters(client).release_refused == 2);
}

Test(semaphore_async, refuses_bad_arguments)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 1000;
    cr_assert_eq(hlk_semaphore_acquire_async(NULL, 1, NULL, on_done, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_acquire_async(permits, 0, NULL, on_done, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_acquire_async(permits, 1, NULL, NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_acquire_async(permits, 1, &opts, on_done, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_release_async(NULL, 1, on_done, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_semaphore_release_async(permits, 0, on_done, NULL), HLK_E_INVALID);
    cr_assert_eq(fixture_counters(client).commands, 0u);
    cr_assert_eq(outcome.ok + outcome.other, 0);
}

/* Its completions run in dispatch. */
static hlk_client *open_loops(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags |= HLK_OPEN_DISPATCH;
    return fixture_open(&opts);
}

/* --- close */

/* It has happened. */
Test(semaphore_async_wire, a_release_without_an_answer_ends_with_its_client)
{
    semaphore_set(1);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    releases(1);
    proxy_wait_struck(fixture.proxy);
    proxy_refuse(fixture.proxy, true); /* or it is sent once more, and answered */
    hlk_semaphore_destroy(permits);
    permits = NULL;
    fixture_close(client);
    cr_assert_eq(outcome.closed, 1);
    cr_assert(strstr(outcome.error, "the client was closed before an answer came"), "%s", outcome.error);
    cr_assert_eq(semaphore_free(), 2);
    raw(fixture.redis, "DEL %s", SEMAPHORE_QUEUE); /* its note */
}

/* Redis has given the permit, and the application has not dispatched the answer. */
Test(semaphore_async, what_a_completion_says_in_close_is_true)
{
    hlk_client *loops = open_loops();
    hlk_semaphore *own = hlk_semaphore_create(loops, "t");
    semaphore_set(1);
    cr_assert_eq(hlk_semaphore_acquire_async(own, 1, NULL, on_done, NULL), HLK_OK, "%s", hlk_last_error());
    while (semaphore_free() == 1)
        (void)hlk_client_dispatch(loops, 1);
    hlk_semaphore_destroy(own);
    fixture_close(loops);
    cr_assert_eq(outcome.ok + outcome.closed, 1);
    WAIT_FOR(semaphore_free() == (outcome.ok ? 0 : 1));
}

/* --- in the application's own loop */

static void dispatch_until(hlk_client *loops, atomic_int *number, int n)
{
    while (atomic_load(number) < n)
        (void)hlk_client_dispatch(loops, 0);
}

Test(semaphore_async, completes_in_dispatch)
{
    hlk_client *loops = open_loops();
    hlk_semaphore *own = hlk_semaphore_create(loops, "t");
    semaphore_set(1);
    for (int round = 1; round <= 20; round++) {
        cr_assert_eq(hlk_semaphore_acquire_async(own, 1, NULL, on_done, NULL), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(outcome.ok, 2 * round - 2);
        dispatch_until(loops, &outcome.ok, 2 * round - 1);
        cr_assert_eq(hlk_semaphore_release_async(own, 1, on_done, NULL), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(outcome.ok, 2 * round - 1);
        dispatch_until(loops, &outcome.ok, 2 * round);
    }
    hlk_semaphore_destroy(own);
    cr_assert_eq(semaphore_free(), 1);
}
