/* A multilock: all members or none, one deadline, and nothing is left after any outcome. */
#include "multilock_fixture.h"

#include <pthread.h>

enum { THREADS = 6, TRANSFERS = 40 };

TestSuite(multilock, .init = multilock_start, .fini = multilock_stop, .timeout = 60);
TestSuite(multilock_wire, .init = multilock_start_proxied, .fini = multilock_stop, .timeout = 60);

/* --- all */

Test(multilock, holds_each_member_and_releases_each)
{
    cr_assert_eq(hlk_lock_acquire(multi.multilock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(multilock_keys(), MEMBERS);
    int64_t until = hlk_lock_held_until(multi.multilock);
    for (int i = 0; i < MEMBERS; i++) {
        cr_assert_eq(hlk_lock_holds(multi.members[i]), 1);
        cr_assert_leq(until, hlk_lock_held_until(multi.members[i]));
    }
    cr_assert_gt(hlk_lock_left_ms(multi.multilock), 0);
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
    multilock_nothing_is_held();
}

Test(multilock, is_reentrant_as_its_members_are)
{
    cr_assert_eq(hlk_lock_acquire(multi.members[1], HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_acquire(multi.multilock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(multi.members[1]), 3);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_NOT_HOLDER);
    multilock_nothing_is_held();
}

Test(multilock, has_members_of_any_kind_client_and_holder)
{
    hlk_client *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(other, "order 9");
    struct hlk_lock_opts fenced = HLK_LOCK_OPTS_INIT, fair = HLK_LOCK_OPTS_INIT;
    fenced.kind = HLK_LOCK_FENCED;
    fair.kind = HLK_LOCK_FAIR;
    hlk_lock *mixed[] = { fixture_lock(multi.client, "tz", &fair), fixture_lock(other, "ty", &fenced),
                          fixture_owned(other, "tx", owner), fixture_lock(other, "ta", NULL), multi.members[0] };
    hlk_lock *of_many = hlk_lock_create_multilock(mixed, 5, NULL);
    cr_assert_eq(hlk_lock_acquire(of_many, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_token(mixed[1]), 0);
    cr_assert_eq(hlk_lock_acquire(multi.multilock, HLK_NOWAIT), HLK_BUSY); /* "ta" is held by this thread elsewhere */
    cr_assert_eq(hlk_lock_acquire(multi.multilock, -52), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(of_many), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(of_many);
    hlk_owner_destroy(owner);
    raw(fixture.redis, "DEL redisson_lock_token:{ty}");
    multilock_nothing_is_held();
}

/* --- or none */

Test(multilock, is_busy_and_holds_nothing_if_one_is_busy)
{
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    cr_assert_eq(hlk_lock_acquire(multi.multilock, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "multilock of 3: acquire \"tb\""), "%s", hlk_last_error());
    WAIT_FOR(multilock_keys() == 1);
    cr_assert_eq(hlk_lock_holds(multi.members[1]), 0);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 200), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began, 200);
    WAIT_FOR(multilock_keys() == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    multilock_nothing_is_held();
}

struct caller {
    hlk_lock *multilock;
    hlk_cancel *cancel;
    enum hlk_status status;
    pthread_t thread;
};

static void *acquires(void *arg)
{
    struct caller *caller = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = caller->cancel;
    opts.wait_ms = RECONNECT_MS;
    caller->status = hlk_lock_acquire_with(caller->multilock, &opts);
    if (caller->status == HLK_OK)
        cr_assert_eq(hlk_lock_release(caller->multilock), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

static void start_caller(struct caller *caller)
{
    cr_assert_eq(pthread_create(&caller->thread, NULL, acquires, caller), 0);
}

Test(multilock, waits_for_the_last_member_and_gets_all)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct caller caller = { .multilock = multi.multilock };
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 3 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    pthread_join(caller.thread, NULL);
    cr_assert_eq(caller.status, HLK_OK);
    multilock_nothing_is_held();
}

/* The others are free for everybody while it waits for a long time. */
Test(multilock, waiting_gives_back_the_others_but_keeps_its_ticket)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct caller caller = { .multilock = multi.multilock };
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 3 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    WAIT_FOR(multilock_keys() == 1 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    pthread_join(caller.thread, NULL);
    cr_assert_eq(caller.status, HLK_OK);
    multilock_nothing_is_held();
}

Test(multilock, that_is_cancelled_holds_nothing)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct caller caller = { .multilock = multi.multilock, .cancel = hlk_cancel_create(multi.client) };
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 3 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    hlk_cancel_trigger(caller.cancel);
    pthread_join(caller.thread, NULL);
    cr_assert_eq(caller.status, HLK_INTERRUPTED);
    WAIT_FOR(multilock_keys() == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    hlk_cancel_destroy(caller.cancel);
    multilock_nothing_is_held();
}

Test(multilock, of_a_thread_that_is_cancelled_holds_nothing)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct caller caller = { .multilock = multi.multilock };
    void *result;
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 3 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    pthread_cancel(caller.thread);
    pthread_join(caller.thread, &result);
    cr_assert_eq(result, PTHREAD_CANCELED);
    WAIT_FOR(multilock_keys() == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    multilock_nothing_is_held();
}

/* --- losses while it waits */

/* redisson-api 9: early members may have expired when RedissonMultiLock says that it has all. */
Test(multilock, that_loses_a_member_while_it_waits_begins_again)
{
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    hlk_owner *owner = hlk_owner_create(multi.client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *first = fixture_lock(multi.client, "ta", &opts);
    struct caller caller = { .multilock = multilock_of(first, multi.members[2]) };
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 2 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tb}") == 1);
    cr_assert_eq(hlk_lock_break(multi.members[1]), HLK_OK);
    WAIT_FOR(hlk_lock_left_ms(first) == 0);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    pthread_join(caller.thread, NULL);
    cr_assert_eq(caller.status, HLK_OK);
    hlk_lock_destroy(caller.multilock);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

Test(multilock, has_all_of_its_fixed_lease_when_it_returns)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 2000;
    struct actor *other = actor_start_passing(fixture_lock(fixture_open(NULL), "tc", NULL));
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    cr_assert_eq(hlk_lock_acquire_with(multi.members[1], &opts), HLK_OK); /* "ta" */
    WAIT_FOR(hlk_lock_left_ms(multi.members[1]) < 1200);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_end(other), HLK_OK);
    opts.wait_ms = RECONNECT_MS;
    cr_assert_eq(hlk_lock_acquire_with(multi.multilock, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(multi.multilock), 1200);
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(multi.members[1]), HLK_OK);
    multilock_nothing_is_held();
}

Test(multilock, whose_member_is_lost_releases_the_others)
{
    cr_assert_eq(hlk_lock_acquire(multi.multilock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL tb");
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_LOST);
    cr_assert(strstr(hlk_last_error(), "\"tb\""), "%s", hlk_last_error());
    multilock_nothing_is_held();
}

/* --- deadlocks */

static hlk_lock *accounts[2];
static int64_t moved;

static void *transfers(void *arg)
{
    bool turned = arg != NULL;
    hlk_lock *both = multilock_of(accounts[turned], accounts[!turned]);
    for (int i = 0; i < TRANSFERS; i++) {
        cr_assert_eq(hlk_lock_acquire(both, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
        moved++; /* ThreadSanitizer sees a hole, the sum another one */
        cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    }
    hlk_lock_destroy(both);
    return NULL;
}

Test(multilock, of_whatever_order_never_deadlock)
{
    pthread_t threads[THREADS];
    accounts[0] = multi.members[0];
    accounts[1] = multi.members[1];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, transfers, i % 2 ? &moved : NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(moved, THREADS * TRANSFERS);
    multilock_nothing_is_held();
}

/* Somebody holds "tc" and waits for "ta", which no order of names prevents. */
Test(multilock, does_not_deadlock_with_a_caller_of_another_order)
{
    hlk_client *other = fixture_open(NULL);
    hlk_lock *theirs[] = { fixture_lock(other, "tc", NULL), fixture_lock(other, "ta", NULL) };
    cr_assert_eq(hlk_lock_acquire(theirs[0], HLK_NOWAIT), HLK_OK);
    struct caller caller = { .multilock = multi.multilock };
    start_caller(&caller);
    WAIT_FOR(multilock_keys() == 3 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    cr_assert_eq(hlk_lock_acquire(theirs[1], RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(theirs[1]), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs[0]), HLK_OK);
    pthread_join(caller.thread, NULL);
    cr_assert_eq(caller.status, HLK_OK);
    multilock_nothing_is_held();
}

/* --- faults */

Test(multilock_wire, that_gets_no_answer_for_a_member_leaves_nothing)
{
    for (unsigned k = 1; k <= MEMBERS; k++) {
        proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.wait_ms = 300;
        enum hlk_status status = hlk_lock_acquire_with(multi.multilock, &opts);
        cr_assert(status == HLK_OK || status == HLK_TIMEOUT, "%s: %s", hlk_status_name(status), hlk_last_error());
        if (status == HLK_OK)
            cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
        multilock_nothing_is_held();
    }
}

/* Members that were acquired before a wait get all of the fixed lease by an extend. If nobody knows whether that ran,
 * it begins again: an acquire is never unsure. */
Test(multilock_wire, begins_again_after_an_extend_without_an_answer)
{
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reconnect_timeout_ms = 1000;
    hlk_client *client = fixture_open(&client_opts);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *first = fixture_lock(client, "ta", &opts);
    hlk_lock *both = multilock_of(first, fixture_lock(client, "tc", &opts));
    struct hlk_acquire_opts acquire = HLK_ACQUIRE_OPTS_INIT;
    acquire.lease_ms = 3000;
    acquire.wait_ms = RECONNECT_MS;
    struct actor *actor = actor_start(both, &acquire);
    WAIT_FOR(hlk_lock_left_ms(first) > 0 && raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1);
    WAIT_FOR(hlk_lock_left_ms(first) < 2400);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
    proxy_refuse(fixture.proxy, true);
    cr_assert_eq(hlk_lock_release(held), HLK_OK, "%s", hlk_last_error());
    proxy_wait_struck(fixture.proxy);
    WAIT_FOR(hlk_lock_left_ms(first) == 0); /* it has given up the extend, and "ta" */
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_gt(hlk_lock_left_ms(both), 1500);
    cr_assert_eq(actor_end(actor), HLK_OK);
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

Test(multilock_wire, ends_at_its_deadline_when_the_server_stands_still)
{
    cr_assert_eq(hlk_lock_acquire(multi.members[1], HLK_NOWAIT), HLK_OK); /* its re-entry needs no server */
    proxy_freeze(fixture.proxy, true);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 300), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_lt(running_ms(began), 2500);
    cr_assert_eq(hlk_lock_holds(multi.members[1]), 1);
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(hlk_lock_release(multi.members[1]), HLK_OK);
    multilock_nothing_is_held();
}

/* --- input */

Test(multilock, refuses_bad_input)
{
    hlk_lock *twice[] = { multi.members[0], fixture_lock(multi.client, "tc", NULL) },
             *null[] = { multi.members[0], NULL };
    hlk_lock *many[HLK_MULTILOCK_MAX + 1] = { NULL };
    cr_assert_null(hlk_lock_create_multilock(NULL, 1, NULL));
    cr_assert_null(hlk_lock_create_multilock(multi.members, 0, NULL));
    cr_assert_null(hlk_lock_create_multilock(many, HLK_MULTILOCK_MAX + 1, NULL));
    cr_assert_null(hlk_lock_create_multilock(null, 2, NULL));
    cr_assert(strstr(hlk_last_error(), "member 1 is NULL"), "%s", hlk_last_error());
    cr_assert_null(hlk_lock_create_multilock(twice, 2, NULL));
    cr_assert(strstr(hlk_last_error(), "members 0 and 1 are both \"tc\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(NULL, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(NULL), HLK_E_INVALID);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 1;
    cr_assert_eq(hlk_lock_acquire_with(multi.multilock, &opts), HLK_E_INVALID);
    hlk_lock_destroy(NULL);
    cr_assert_eq(hlk_lock_left_ms(NULL), 0);
    cr_assert_eq(hlk_lock_held_until(NULL), 0);
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_NOT_HOLDER);
    multilock_nothing_is_held();
}
