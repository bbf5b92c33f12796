/* A multilock is a hlk_lock: its calls, events, descriptor and options; and the first try at all members at once. */
#include "multilock_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { CALLERS = 4, ROUNDS = 20 };

TestSuite(multilock_calls, .init = multilock_start, .fini = multilock_stop, .timeout = 60);
TestSuite(multilock_tries, .init = multilock_start_proxied, .fini = multilock_stop, .timeout = 60);

/* --- handles */

Test(multilock_calls, need_the_members_handles_no_more)
{
    hlk_client *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(other, "order 9");
    struct hlk_lock_opts fair = HLK_LOCK_OPTS_INIT, owned = HLK_LOCK_OPTS_INIT;
    fair.kind = HLK_LOCK_FAIR;
    owned.owner = owner;
    hlk_lock *given[] = { hlk_lock_create(multi.client, "tf", &fair), hlk_lock_create(other, "to", &owned) };
    hlk_lock *both = multilock_of(given[0], given[1]);
    hlk_lock_destroy(given[0]);
    hlk_lock_destroy(given[1]);
    hlk_owner_destroy(owner);
    for (int i = 0; i < 2; i++) /* nested */
        cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(both), 2);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS tf to"), 2);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_int(fixture.redis, "EXISTS tf to") == 0);
    hlk_lock_destroy(both);
}

/* The holds stay their holders', and another handle releases them. */
Test(multilock_calls, of_another_handle_release_what_it_holds)
{
    hlk_lock *first = multilock_of(multi.members[0], multi.members[1]);
    cr_assert_eq(hlk_lock_acquire(first, 1000), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(first);
    hlk_lock *second = multilock_of(multi.members[1], multi.members[0]);
    cr_assert_eq(hlk_lock_holds(second), 1);
    cr_assert_gt(hlk_lock_left_ms(second), 0);
    cr_assert_eq(hlk_lock_release(second), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(second);
    multilock_nothing_is_held();
}

/* An owner that is destroyed while it holds ends its holds, also those of a multilock that lives on. */
Test(multilock_calls, keep_no_owner_alive)
{
    hlk_owner *owner = hlk_owner_create(multi.client, "short");
    hlk_lock *first = fixture_owned(multi.client, "ta", owner), *second = fixture_owned(multi.client, "tb", owner);
    hlk_lock *both = multilock_of(first, second);
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(both);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0);
    cr_assert_eq(hlk_lock_release(first), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(second), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

Test(multilock_calls, name_it_by_its_members)
{
    cr_assert_str_eq(hlk_lock_name(multi.multilock), "tc+ta+tb");
    char name[301];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    hlk_lock *first = fixture_lock(multi.client, name, NULL);
    name[0] = 'm';
    hlk_lock *both = multilock_of(first, fixture_lock(multi.client, name, NULL));
    cr_assert_leq(strlen(hlk_lock_name(both)), 512u);
    hlk_lock_destroy(both);
}

Test(multilock_calls, name_an_owner_that_is_before)
{
    hlk_owner *owner = hlk_owner_create(multi.client, "order 7");
    hlk_lock *both = multilock_of(fixture_owned(multi.client, "ta", owner), fixture_owned(multi.client, "tb", owner));
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 50), HLK_TIMEOUT);
    cr_assert(strstr(hlk_last_error(), "multilock of 3: acquire \"ta\""), "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "held by owner \"order 7\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

/* --- losses */

static atomic_int losses;

static void on_event(const struct hlk_event *event, void *ctx)
{
    cr_assert_str_eq(ctx, "ours");
    if (event->kind == HLK_EVENT_LOST && strcmp(event->lock, "tb") == 0)
        atomic_fetch_add(&losses, 1);
}

static bool readable(int fd)
{
    struct pollfd at = { .fd = fd, .events = POLLIN };
    return poll(&at, 1, 0) == 1;
}

Test(multilock_calls, tell_the_loss_of_a_member)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_event;
    opts.event_ctx = "ours";
    hlk_lock *told = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    int fd = hlk_lock_lost_fd(told);
    cr_assert_geq(fd, 0, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert(!readable(fd));
    cr_assert_eq(hlk_lock_break(multi.members[2]), HLK_OK); /* tb */
    WAIT_FOR(readable(fd) && atomic_load(&losses) == 1);
    cr_assert_eq(hlk_lock_left_ms(told), 0);
    cr_assert_eq(hlk_lock_held_until(told), 0);
    cr_assert_eq(hlk_lock_holds(told), 1);
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_LOST);
    cr_assert_eq(hlk_lock_holds(multi.members[0]), 1); /* as before that acquire */
    cr_assert_eq(hlk_lock_release(told), HLK_LOST);
    cr_assert(!readable(fd));
    hlk_lock_destroy(told);
    multilock_nothing_is_held();
}

static sem_t inside, go_on;

static void stands_still(const struct hlk_event *event, void *ctx)
{
    (void)event, (void)ctx;
    sem_post(&inside);
    sem_wait(&go_on);
}

Test(multilock_calls, tell_no_loss_after_destroy)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    opts.on_event = stands_still;
    hlk_lock *slow = fixture_lock(multi.client, "ts", &opts);
    cr_assert_eq(hlk_lock_acquire(slow, 1000), HLK_OK);
    cr_assert_eq(hlk_lock_break(slow), HLK_OK);
    sem_wait(&inside);
    opts.on_event = on_event;
    opts.event_ctx = "ours";
    hlk_lock *told = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_break(multi.members[2]), HLK_OK);
    WAIT_FOR(hlk_lock_left_ms(told) == 0);
    hlk_lock_destroy(told);
    sem_post(&go_on);
    (void)fixture_wait_event(HLK_EVENT_LOST, "tb"); /* the client's own callback, after the handle's */
    cr_assert_eq(atomic_load(&losses), 0);
    cr_assert_eq(hlk_lock_release(slow), HLK_LOST);
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_LOST);
    multilock_nothing_is_held();
}

/* --- options, and what it has none of */

Test(multilock_calls, have_the_lease_of_the_multilock)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = 60000;
    hlk_lock *leased = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    cr_assert_eq(hlk_lock_acquire(leased, 1000), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_gt(hlk_lock_left_ms(multi.members[i]), 40000);
    cr_assert_eq(hlk_lock_extend(leased, 90000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(leased), 60000);
    cr_assert_eq(hlk_lock_release(leased), HLK_OK);
    cr_assert_eq(hlk_lock_extend(leased, 90000), HLK_NOT_HOLDER);
    hlk_lock_destroy(leased);
    multilock_nothing_is_held();
}

Test(multilock_calls, that_need_one_lock_are_refused)
{
    char buf[64];
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_break(multi.multilock), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "not of a multilock"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(multi.multilock, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_hold_id(multi.multilock, buf, sizeof buf), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_token(multi.multilock), 0);
    multilock_nothing_is_held();
}

Test(multilock_calls, refuse_options_that_are_the_members)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    cr_assert_null(hlk_lock_create_multilock(multi.members, MEMBERS, &opts));
    cr_assert(strstr(hlk_last_error(), "its members'"), "%s", hlk_last_error());
    opts.kind = HLK_LOCK_PLAIN;
    opts.lease_ms = 1;
    cr_assert_null(hlk_lock_create_multilock(multi.members, MEMBERS, &opts));
    cr_assert_null(hlk_lock_create_multilock(&multi.multilock, 1, NULL));
    cr_assert(strstr(hlk_last_error(), "is a multilock itself"), "%s", hlk_last_error());
}

/* --- one of several callers that do not wait */

static pthread_barrier_t together;

static void *tries(void *arg)
{
    pthread_barrier_wait(&together);
    *(enum hlk_status *)arg = hlk_lock_acquire(multi.multilock, HLK_NOWAIT);
    pthread_barrier_wait(&together);
    if (*(enum hlk_status *)arg == HLK_OK)
        cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(multilock_calls, that_do_not_wait_leave_it_to_one_of_them)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[CALLERS];
        enum hlk_status got[CALLERS];
        int held = 0;
        pthread_barrier_init(&together, NULL, CALLERS);
        for (int i = 0; i < CALLERS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, tries, &got[i]), 0);
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(threads[i], NULL);
            held += got[i] == HLK_OK;
        }
        cr_assert_eq(held, 1);
        pthread_barrier_destroy(&together);
    }
    multilock_nothing_is_held();
}

/* --- all at once: the answer to the first command, and all after it, wait in the proxy */

static struct actor *start_trying(const struct hlk_acquire_opts *opts)
{
    multilock_warm(multi.multilock);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *actor = actor_start(multi.multilock, opts);
    WAIT_FOR(multilock_keys() == MEMBERS);
    return actor;
}

Test(multilock_tries, cost_one_round_trip_together)
{
    struct actor *actor = start_trying(NULL);
    cr_assert(!actor_answered(actor));
    multilock_deliver();
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    multilock_nothing_is_held();
}

Test(multilock_tries, end_with_the_deadline)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = 200;
    struct actor *actor = start_trying(&opts);
    cr_assert_eq(actor_status(actor), HLK_TIMEOUT, "%s", actor_error(actor));
    cr_assert_geq(actor_took_ms(actor), 200);
    multilock_deliver();
    cr_assert_eq(actor_end(actor), HLK_TIMEOUT);
    multilock_nothing_is_held();
}

Test(multilock_tries, are_cancelled)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = hlk_cancel_create(multi.client);
    struct actor *actor = start_trying(&opts);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(actor_status(actor), HLK_INTERRUPTED, "%s", actor_error(actor));
    multilock_deliver();
    cr_assert_eq(actor_end(actor), HLK_INTERRUPTED);
    hlk_cancel_destroy(opts.cancel);
    multilock_nothing_is_held();
}

Test(multilock_tries, are_a_cancellation_point)
{
    struct actor *actor = start_trying(NULL);
    actor_cancel(actor);
    cr_assert(actor_join_cancelled(actor));
    multilock_deliver();
    multilock_nothing_is_held();
}

/* What was held before is held as often as before. */
Test(multilock_tries, that_are_cancelled_give_back_what_they_got)
{
    hlk_owner *owner = hlk_owner_create(multi.client, NULL);
    hlk_lock *owned = fixture_owned(multi.client, "ta", owner);
    hlk_lock *both = multilock_of(owned, multi.members[0]);
    multilock_warm(both);
    cr_assert_eq(hlk_lock_acquire(owned, 1000), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *actor = actor_start_wait(both, PATIENCE_MS);
    WAIT_FOR(multilock_keys() == 2 && hlk_lock_holds(owned) == 2);
    actor_cancel(actor);
    cr_assert(actor_join_cancelled(actor));
    cr_assert_eq(hlk_lock_holds(owned), 1);
    multilock_deliver();
    cr_assert_eq(hlk_lock_release(owned), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

/* Two that each hold what the other one lacks would both get nothing. */
Test(multilock_tries, of_a_caller_that_does_not_wait_are_one_after_the_other)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = 0;
    multilock_warm(multi.multilock);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    uint64_t before = proxy_count(fixture.proxy, PROXY_SCRIPTS);
    struct actor *actor = actor_start(multi.multilock, &opts);
    WAIT_FOR(multilock_keys() > 0);
    cr_assert_eq(multilock_keys(), 1);
    cr_assert_eq(proxy_count(fixture.proxy, PROXY_SCRIPTS) - before, 1u);
    multilock_deliver();
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    multilock_nothing_is_held();
}

Test(multilock_tries, are_ended_by_close)
{
    struct actor *actor = start_trying(NULL);
    fixture_close(multi.client);
    cr_assert_eq(actor_status(actor), HLK_E_CLOSED, "%s", actor_error(actor));
    multilock_deliver();
    cr_assert_eq(actor_end(actor), HLK_E_CLOSED);
    WAIT_FOR(multilock_keys() == 0);
}

/* "Sent, not answered" is no "no connection". */
Test(multilock_tries, that_were_sent_are_late_when_the_connection_is_lost)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = 500;
    struct actor *actor = start_trying(&opts);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    cr_assert_eq(actor_status(actor), HLK_TIMEOUT, "%s: %s", hlk_status_name(actor_status(actor)), actor_error(actor));
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(actor_end(actor), HLK_TIMEOUT);
    multilock_nothing_is_held();
}

/* A server that is away is waited for as by an acquire that waits, and not as by one try. */
Test(multilock_tries, wait_for_a_server_that_is_away)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 100;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *both = multilock_of(fixture_lock(client, "ta", NULL), fixture_lock(client, "tb", NULL));
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    int64_t began = test_now_ms();
    struct actor *actor = actor_start_wait(both, PATIENCE_MS);
    WAIT_FOR(test_now_ms() - began > 400);
    cr_assert(!actor_answered(actor));
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    hlk_lock_destroy(both);
    multilock_nothing_is_held();
}

Test(multilock_tries, go_on_when_the_connection_breaks)
{
    struct actor *actor = start_trying(NULL);
    proxy_cut_all(fixture.proxy);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    multilock_nothing_is_held();
}

/* --- releases, all at once */

Test(multilock_calls, release_what_a_thread_holds_without_waiting)
{
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(multi.multilock, NULL, NULL), HLK_OK, "%s", hlk_last_error());
    multilock_nothing_is_held();
}

static hlk_owner *owner;
static hlk_lock *held, *owned[MEMBERS];
static atomic_bool over;

/* Held by an owner, so that any thread may release it. */
static void hold(const struct hlk_client_opts *opts)
{
    hlk_client *client = fixture_open(opts);
    owner = hlk_owner_create(client, NULL);
    owned[0] = fixture_owned(client, "ta", owner);
    owned[1] = fixture_owned(client, "tb", owner);
    owned[2] = fixture_owned(client, "tc", owner);
    held = hlk_lock_create_multilock(owned, MEMBERS, NULL);
    multilock_warm(held);
    cr_assert_eq(hlk_lock_acquire(held, PATIENCE_MS), HLK_OK, "%s", hlk_last_error());
}

static void end_hold(void)
{
    cr_assert_eq(hlk_lock_holds(held), 0);
    hlk_lock_destroy(held);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

static void *releases(void *status)
{
    *(enum hlk_status *)status = hlk_lock_release(held);
    atomic_store(&over, true);
    return NULL;
}

Test(multilock_tries, of_releases_cost_one_round_trip_together)
{
    pthread_t thread;
    enum hlk_status status;
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 3 * WAIT_MS; /* it is the answer that ends the call */
    hold(&opts);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    uint64_t before = proxy_accepted(fixture.proxy);
    cr_assert_eq(pthread_create(&thread, NULL, releases, &status), 0);
    WAIT_FOR(multilock_keys() == 0);
    cr_assert_eq(proxy_accepted(fixture.proxy), before); /* no answer has come, and they were not sent again */
    multilock_deliver();
    WAIT_FOR(atomic_load(&over));
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK);
    end_hold();
}

Test(multilock_tries, of_releases_that_are_not_answered_are_unsure)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 150;
    hold(&opts);
    proxy_freeze(fixture.proxy, true);
    cr_assert_eq(hlk_lock_release(held), HLK_E_UNSURE);
    cr_assert(strstr(hlk_last_error(), "multilock of 3: release \"ta\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_left_ms(held), 0);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR(multilock_keys() == 0);
    enum hlk_status status;
    WAIT_FOR((status = hlk_lock_release(held), status != HLK_E_UNSURE)); /* the outcome */
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(held), HLK_NOT_HOLDER);
    end_hold();
}

Test(multilock_tries, of_releases_leave_nothing_when_an_answer_is_lost)
{
    for (unsigned k = 1; k <= MEMBERS; k++) {
        hold(NULL);
        proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, k);
        enum hlk_status status = hlk_lock_release(held);
        cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_SCRIPTS, 1);
        end_hold();
    }
}

Test(multilock_calls, release_what_was_not_lost)
{
    hold(NULL);
    cr_assert_eq(hlk_lock_break(owned[1]), HLK_OK);
    WAIT_FOR(hlk_lock_left_ms(held) == 0);
    cr_assert_eq(hlk_lock_release(owned[0]), HLK_OK);
    cr_assert_eq(hlk_lock_release(held), HLK_LOST);
    cr_assert(strstr(hlk_last_error(), "release \"tb\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(held), HLK_NOT_HOLDER);
    cr_assert(strstr(hlk_last_error(), "release \"ta\""), "%s", hlk_last_error());
    end_hold();
}
