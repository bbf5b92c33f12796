/* The members of a multilock are tried at once, and released at once: what that costs, and how it ends. */
#include "multilock_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

TestSuite(multilock_at_once, .init = multilock_start_proxied, .fini = multilock_stop, .timeout = 60);

/* --- tries: the answer to the first command, and all after it, wait in the proxy */

static struct actor *start_trying(const struct hlk_acquire_opts *opts)
{
    multilock_warm(multi.multilock);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *actor = actor_start(multi.multilock, opts);
    WAIT_FOR(multilock_keys() == MEMBERS);
    return actor;
}

Test(multilock_at_once, costs_one_round_trip)
{
    struct actor *actor = start_trying(NULL);
    cr_assert(!actor_answered(actor));
    multilock_deliver();
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    multilock_nothing_is_held();
}

Test(multilock_at_once, ends_with_the_deadline)
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

Test(multilock_at_once, is_cancelled)
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

Test(multilock_at_once, is_a_cancellation_point)
{
    struct actor *actor = start_trying(NULL);
    actor_cancel(actor);
    cr_assert(actor_join_cancelled(actor));
    multilock_deliver();
    multilock_nothing_is_held();
}

/* What was held before is held as often as before. */
Test(multilock_at_once, gives_back_what_it_got_when_it_is_cancelled)
{
    hlk_owner *owner = hlk_owner_create(multi.client, NULL);
    hlk_lock *owned = fixture_owned(multi.client, "ta", owner);
    hlk_lock *both = multilock_of(owned, multi.members[0]);
    multilock_warm(both);
    cr_assert_eq(hlk_lock_acquire(owned, 1000), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *actor = actor_start_wait(both, RECONNECT_MS);
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
Test(multilock_at_once, is_not_what_a_caller_does_that_does_not_wait)
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

Test(multilock_at_once, is_ended_by_close)
{
    struct actor *actor = start_trying(NULL);
    fixture_close(multi.client);
    cr_assert_eq(actor_status(actor), HLK_E_CLOSED, "%s", actor_error(actor));
    multilock_deliver();
    cr_assert_eq(actor_end(actor), HLK_E_CLOSED);
    WAIT_FOR(multilock_keys() == 0);
}

/* What will never be acquired is told, and not what could be waited for. */
Test(multilock_at_once, tells_of_a_member_that_is_no_lock)
{
    hlk_lock *elsewhere = fixture_held_elsewhere("ta", 0);
    raw(fixture.redis, "SET tb text");
    cr_assert_eq(hlk_lock_acquire(multi.multilock, RECONNECT_MS), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), "acquire \"tb\""), "%s", hlk_last_error());
    raw(fixture.redis, "DEL tb");
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
    multilock_nothing_is_held();
}

/* "Sent, not answered" is no "no connection". */
Test(multilock_at_once, is_late_when_the_connection_is_lost)
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
Test(multilock_at_once, waits_for_a_server_that_is_away)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 100;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *both = multilock_of(fixture_lock(client, "ta", NULL), fixture_lock(client, "tb", NULL));
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    int64_t began = test_now_ms();
    struct actor *actor = actor_start_wait(both, RECONNECT_MS);
    WAIT_FOR(test_now_ms() - began > 400);
    cr_assert(!actor_answered(actor));
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    hlk_lock_destroy(both);
    multilock_nothing_is_held();
}

Test(multilock_at_once, goes_on_when_the_connection_breaks)
{
    struct actor *actor = start_trying(NULL);
    proxy_cut_all(fixture.proxy);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(actor_end(actor), HLK_OK);
    multilock_nothing_is_held();
}

/* --- releases, all at once */

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
    cr_assert_eq(hlk_lock_acquire(held, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
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

Test(multilock_at_once, releases_in_one_round_trip)
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

Test(multilock_at_once, releases_are_unsure_if_they_are_not_answered)
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

/* The member on the other connection was released, and is not held any more. */
Test(multilock_at_once, releases_are_sure_once_the_unanswered_ones_are)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 150;
    hlk_client *slow = fixture_open(&opts), *sound = fixture_open_at(hlk_test_url(fixture.server), NULL);
    hlk_lock *both = multilock_of(fixture_lock(slow, "tb", NULL), fixture_lock(sound, "ta", NULL));
    multilock_warm(both);
    cr_assert_eq(hlk_lock_acquire(both, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
    proxy_freeze(fixture.proxy, true);
    cr_assert_eq(hlk_lock_release(both), HLK_E_UNSURE);
    cr_assert_eq(hlk_lock_release(both), HLK_E_UNSURE);
    proxy_freeze(fixture.proxy, false);
    enum hlk_status status;
    WAIT_FOR((status = hlk_lock_release(both), status != HLK_E_UNSURE));
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(both), HLK_NOT_HOLDER);
    hlk_lock_destroy(both);
    multilock_nothing_is_held();
}

Test(multilock_at_once, releases_leave_nothing_when_an_answer_is_lost)
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

Test(multilock_at_once, releases_what_was_not_lost)
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
