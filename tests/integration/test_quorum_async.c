/* test_quorum_async.c - a lock over several masters without a blocked thread, in both modes of completions. */
#include "async_fixture.h"
#include "quorum_fixture.h"

#include <signal.h>
#include <stdlib.h>

enum { N = 3 };

static void start(void)
{
    quorum_begin(0);
}

static void start_proxied(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_events, .init = start, .fini = quorum_end, .timeout = 90);
TestSuite(quorum_dispatch, .init = start, .fini = quorum_end, .timeout = 90);
TestSuite(quorum_events_proxied, .init = start_proxied, .fini = quorum_end, .timeout = 90);
TestSuite(quorum_dispatch_proxied, .init = start_proxied, .fini = quorum_end, .timeout = 90);

static hlk_client *open_within(bool dispatch, const char *options, int64_t reconnect_timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = dispatch ? HLK_OPEN_DISPATCH : 0;
    opts.reply_timeout_ms = WAIT_MS;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    loop_use(quorum_open_url(N, options, &opts), dispatch);
    return loop_client;
}

static hlk_client *open_with(bool dispatch, const char *options)
{
    return open_within(dispatch, options, WAIT_MS);
}

static hlk_client *open_three(bool dispatch)
{
    return open_with(dispatch, "");
}

/* An acquire without a majority ends then. */
static hlk_client *open_brief(bool dispatch)
{
    return open_within(dispatch, "", 3000);
}

/* A master that does not answer is waited for. */
static hlk_client *open_patient(bool dispatch)
{
    return open_with(dispatch, "&node_timeout_ms=20000");
}

/* Nothing is asked while it waits for messages: retry_delay_ms is longer than the test. */
static hlk_client *open_listening(bool dispatch)
{
    return open_with(dispatch, "&retry_delay_ms=60000");
}

#define BOTH(name) IN_BOTH_MODES_OF(open_three, quorum_events, quorum_dispatch, name)
#define BOTH_BRIEF(name) IN_BOTH_MODES_OF(open_brief, quorum_events, quorum_dispatch, name)
#define BOTH_LISTENING(name) IN_BOTH_MODES_OF(open_listening, quorum_events, quorum_dispatch, name)
#define BOTH_PROXIED(name) IN_BOTH_MODES_OF(open_patient, quorum_events_proxied, quorum_dispatch_proxied, name)

static hlk_lock *owned(hlk_client *client, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    return quorum_lock(client, "t", &opts);
}

static void hold_as_foreign(int from, int n)
{
    for (int i = from; i < from + n; i++)
        raw(views[i], "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
}

static void free_as_foreign(int from, int n)
{
    for (int i = from; i < from + n; i++) {
        raw(views[i], "DEL t");
        raw(views[i], "PUBLISH redisson_lock__channel:{t} 0");
    }
}

static bool listens(void)
{
    return strstr(raw(views[0], "PUBSUB CHANNELS"), "{t}");
}

/* --- holds */

BOTH(acquires_and_releases)
{
    static struct done acquired, released;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = owned(client, owner);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    cr_assert_eq(acquired.lock, lock);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    WAIT_FOR(quorum_keys("t") == N);
    release(lock, &released);
    cr_assert_eq(hlk_lock_holds(lock), 0, "over for its holder at once");
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    cr_assert_eq(atomic_load(&acquired.runs) + atomic_load(&released.runs), 2);
    cr_assert_eq(fixture_counters(client).acquired, 1u);
    cr_assert_eq(fixture_counters(client).released, 1u);
    hlk_owner_destroy(owner);
}

BOTH(is_a_member_of_a_multilock)
{
    static struct done acquired, released;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    hlk_owner *owner = hlk_owner_create(client, "order");
    opts.owner = owner;
    hlk_lock *members[] = { owned(client, owner), quorum_lock(client, "u", &opts) };
    hlk_lock *both = hlk_lock_create_multilock(members, 2, NULL);
    acquire(both, HLK_FOREVER, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    WAIT_FOR(quorum_keys("t") == N && quorum_keys("u") == N);
    release(both, &released);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    LOOP_UNTIL(quorum_keys("t") == 0 && quorum_keys("u") == 0);
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
}

BOTH(nests_without_a_command_and_raises_with_one)
{
    static struct done first, nested, longer, released[3];
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    fixed.lease_ms = 10 * 60000;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    acquire(lock, HLK_FOREVER, NULL, &first);
    cr_assert_eq(result(&first), HLK_OK, "%s", first.error);
    uint64_t commands = fixture_counters(client).commands;
    acquire(lock, HLK_FOREVER, NULL, &nested);
    cr_assert_eq(result(&nested), HLK_OK, "%s", nested.error);
    cr_assert_eq(fixture_counters(client).commands, commands);
    cr_assert_eq(hlk_lock_acquire_async(lock, &fixed, remember, &longer), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(result(&longer), HLK_OK, "%s", longer.error);
    cr_assert_gt(hlk_lock_left_ms(lock), 9 * 60000);
    cr_assert_eq(hlk_lock_holds(lock), 3);
    cr_assert_eq(fixture_counters(client).reentered, 2u);
    for (int i = 0; i < 3; i++) {
        release(lock, &released[i]);
        cr_assert_eq(result(&released[i]), HLK_OK, "%s", released[i].error);
    }
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

BOTH(of_what_is_not_held_is_refused_and_never_completes)
{
    static struct done never;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner), *threads = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_release_async(lock, remember, &never), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire_async(threads, NULL, remember, &never), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(atomic_load(&never.runs), 0);
    hlk_owner_destroy(owner);
}

/* --- waits */

BOTH(answers_busy_and_timeout)
{
    static struct done busy, timeout;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    hold_as_foreign(0, 2);
    acquire(lock, HLK_NOWAIT, NULL, &busy);
    cr_assert_eq(result(&busy), HLK_BUSY);
    cr_assert_not_null(strstr(busy.error, "others hold 2"), "%s", busy.error);
    int64_t before = test_now_ms();
    acquire(lock, 200, NULL, &timeout);
    cr_assert_eq(result(&timeout), HLK_TIMEOUT);
    cr_assert_not_null(strstr(timeout.error, "others hold 2"), "%s", timeout.error);
    cr_assert_geq(test_now_ms() - before, 200);
    free_as_foreign(0, 2);
    LOOP_UNTIL(quorum_keys("t") == 0);
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    hlk_owner_destroy(owner);
}

BOTH_LISTENING(waits_and_is_woken)
{
    static struct done acquired, released;
    hlk_client *other = open_listening(dispatching);
    hlk_owner *owner = hlk_owner_create(other, NULL);
    hlk_lock *lock = owned(other, owner), *theirs = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == N);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    LOOP_UNTIL(listens() && fixture_counters(other).waiting == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

BOTH_LISTENING(is_ended_by_a_cancel)
{
    static struct done masters_wait, queue_wait, at_once;
    hlk_owner *owner = hlk_owner_create(client, NULL), *other = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner), *behind = owned(client, other);
    hlk_cancel *cancel = hlk_cancel_create(client);
    hold_as_foreign(0, 2);
    acquire(lock, HLK_FOREVER, cancel, &masters_wait);
    LOOP_UNTIL(listens());
    acquire(behind, HLK_FOREVER, cancel, &queue_wait);
    LOOP_UNTIL(fixture_counters(client).waiting == 2);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&masters_wait), HLK_INTERRUPTED);
    cr_assert_eq(result(&queue_wait), HLK_INTERRUPTED);
    acquire(lock, HLK_FOREVER, cancel, &at_once);
    cr_assert_eq(result(&at_once), HLK_INTERRUPTED);
    free_as_foreign(0, 2);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
    hlk_owner_destroy(other);
}

BOTH_LISTENING(answers_closed_to_all_that_wait_at_close)
{
    static struct done done[3];
    hlk_owner *owners[3];
    hold_as_foreign(0, 2);
    for (int i = 0; i < 3; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.owner = owners[i] = hlk_owner_create(client, NULL);
        hlk_lock *lock = hlk_lock_create(client, "t", &opts);
        acquire(lock, HLK_FOREVER, NULL, &done[i]);
        hlk_lock_destroy(lock);
        hlk_owner_destroy(owners[i]);
    }
    LOOP_UNTIL(fixture_counters(client).waiting == 3);
    int64_t began = test_now_ms();
    quorum_close(client);
    cr_assert_lt(running_ms(began), WAIT_MS / 2, "it waited for calls that did not end");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(atomic_load(&done[i].runs), 1);
        cr_assert_eq(done[i].status, HLK_E_CLOSED, "%s", done[i].error);
    }
    free_as_foreign(0, 2);
}

/* Answers that come after its end concern nobody. AddressSanitizer shows it. */
BOTH_PROXIED(is_ended_by_a_cancel_while_masters_are_asked)
{
    static struct done ended;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    hlk_cancel *cancel = hlk_cancel_create(client);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], true);
    acquire(lock, HLK_FOREVER, cancel, &ended);
    LOOP_UNTIL(quorum_keys("t") == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&ended), HLK_INTERRUPTED, "%s", ended.error);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], false);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

/* Two of three masters do not answer. The deadline is before node_timeout_ms, so they are late and not away. */
BOTH_PROXIED(ends_a_round_by_its_deadline)
{
    static struct done timeout;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], true);
    acquire(lock, 100, NULL, &timeout);
    cr_assert_eq(result(&timeout), HLK_TIMEOUT, "%s", timeout.error);
    cr_assert_not_null(strstr(timeout.error, "no answer in"), "%s", timeout.error);
    for (int i = 0; i < 2; i++)
        proxy_freeze(proxies[i], false);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

/* --- order and numbers */

BOTH(completes_in_the_order_of_the_calls)
{
    enum { CALLS = 40 };
    static struct done done[CALLS];
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    for (int i = 0; i < CALLS; i += 4) { /* acquire, nested acquire, release, release */
        acquire(lock, HLK_FOREVER, NULL, &done[i]);
        LOOP_UNTIL(hlk_lock_holds(lock) == 1);
        acquire(lock, HLK_FOREVER, NULL, &done[i + 1]);
        release(lock, &done[i + 2]);
        release(lock, &done[i + 3]); /* the next acquire is sent after this release */
    }
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(result(&done[i]), HLK_OK, "%d: %s", i, done[i].error);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(atomic_load(&done[i].order), i + 1);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

static int64_t scripts_run(int i)
{
    return raw_calls(views[i], "evalsha");
}

/* Two masters had the first hold, and one of them is slow to answer its release. The third and the other one are a
 * majority for the second hold. */
BOTH_PROXIED(completes_a_hold_after_the_release_before_it)
{
    static struct done first, released, second, last;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    hold_as_foreign(2, 1);
    long before = scripts_run(2);
    acquire(lock, HLK_FOREVER, NULL, &first);
    cr_assert_eq(result(&first), HLK_OK, "%s", first.error);
    LOOP_UNTIL(scripts_run(2) > before); /* it has refused the first hold */
    proxy_freeze(proxies[1], true);
    free_as_foreign(2, 1);
    release(lock, &released);
    acquire(lock, HLK_FOREVER, NULL, &second);
    LOOP_UNTIL(hlk_lock_holds(lock) == 1);
    cr_assert_eq(atomic_load(&second.runs), 0);
    proxy_freeze(proxies[1], false);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    cr_assert_eq(result(&second), HLK_OK, "%s", second.error);
    cr_assert_lt(atomic_load(&released.order), atomic_load(&second.order));
    release(lock, &last);
    cr_assert_eq(result(&last), HLK_OK, "%s", last.error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

static int first_answered(struct actor *const *actors, int n)
{
    int i = 0;
    while (i < n && !(actors[i] && actor_answered(actors[i])))
        i++;
    return i;
}

BOTH(gives_one_lock_to_60_owners_and_4_threads_in_turn)
{
    enum { OWNERS = 56, THREADS = 4 };
    static struct done done[OWNERS];
    struct actor *actors[THREADS];
    hlk_owner *owners[OWNERS];
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    for (int i = 0; i < OWNERS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        done[i].release = true;
        acquire(owned(client, owners[i]), HLK_FOREVER, NULL, &done[i]);
        if (i < THREADS)
            actors[i] = actor_start_wait(lock, HLK_FOREVER);
    }
    for (int left = THREADS, i = 0; left > 0;) { /* they have it in any order */
        LOOP_UNTIL((i = first_answered(actors, THREADS)) < THREADS);
        cr_assert_eq(actor_status(actors[i]), HLK_OK, "%s", actor_error(actors[i]));
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
        actors[i] = actors[--left];
        actors[left] = NULL;
    }
    for (int i = 0; i < OWNERS; i++)
        cr_assert_eq(result(&done[i]), HLK_OK, "%s", done[i].error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    cr_assert_eq(fixture_counters(client).acquired, (uint64_t)OWNERS + THREADS);
    for (int i = 0; i < OWNERS; i++)
        hlk_owner_destroy(owners[i]);
}

BOTH(serves_a_handle_that_is_destroyed_while_it_waits)
{
    static struct done done = { .release = true };
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    hold_as_foreign(0, 2);
    acquire(lock, HLK_FOREVER, NULL, &done);
    LOOP_UNTIL(listens());
    hlk_lock_destroy(lock);
    hlk_owner_destroy(opts.owner);
    free_as_foreign(0, 2);
    cr_assert_eq(result(&done), HLK_OK, "%s", done.error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0u);
}

/* --- faults */

BOTH(is_acquired_and_released_without_a_minority)
{
    static struct done acquired, released;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    cr_assert_eq(kill(masters[2]->pid, SIGSTOP), 0);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    cr_assert_eq(kill(masters[2]->pid, SIGCONT), 0);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}

BOTH_BRIEF(says_which_masters_are_away)
{
    static struct done failed;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    for (int i = 0; i < 2; i++) {
        quorum_forget_view(i);
        server_kill(masters[i]);
    }
    acquire(lock, HLK_FOREVER, NULL, &failed);
    cr_assert_eq(result(&failed), HLK_E_CONNECT, "reconnect_timeout_ms is over: %s", failed.error);
    cr_assert_not_null(strstr(failed.error, "1 of 3 masters"), "%s", failed.error);
    hlk_owner_destroy(owner);
}

BOTH(is_resent_to_masters_that_forgot_the_scripts)
{
    static struct done acquired, released;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = owned(client, owner);
    for (int i = 0; i < N; i++)
        raw(views[i], "SCRIPT FLUSH");
    acquire(lock, HLK_NOWAIT, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    LOOP_UNTIL(quorum_keys("t") == 0);
    hlk_owner_destroy(owner);
}
