/* hlk_permits and HLK_LOCK_PERMIT: never more holders than permits, in the queue's order. Their leases:
 * test_permits_lease.c. */
/* Shows: P50 */
#include "permits_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(permits, .init = permits_start, .fini = permits_stop, .timeout = 60);

/* --- taking and giving back */

Test(permits, are_held_by_as_many_as_there_are)
{
    permits_set(2);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(their_permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 0);
    cr_assert_eq(permits_used(), 2);
    cr_assert_eq(fixture_try(permit), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(their_permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(fixture_try(permit), HLK_OK);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 2);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s %s", PERMITS_LEASES, PERMITS_QUEUE), 0);
}

Test(permits, are_one_for_each_holder)
{
    hlk_owner *one = hlk_owner_create(client, "one"), *two = hlk_owner_create(client, "two");
    hlk_lock *first = permit_with(client, one, 0), *second = permit_with(client, two, 0);
    permits_set(3);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(i ? second : first, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_acquire(i ? second : first, HLK_NOWAIT), HLK_DEADLOCK);
    }
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error()); /* the thread */
    cr_assert_eq(permits_used(), 3);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(hlk_lock_release(second), HLK_OK);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_eq(hlk_lock_release(permit), HLK_NOT_HOLDER);
    cr_assert_eq(permits_unused(), 3);
    hlk_owner_destroy(one);
    hlk_owner_destroy(two);
}

Test(permits, cost_two_commands_where_nobody_waits)
{
    permits_set(1);
    raw(fixture.redis, "CONFIG RESETSTAT");
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(hlk_lock_acquire(permit, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    }
    const char *stats = raw(fixture.redis, "INFO commandstats");
    cr_assert(strstr(stats, "cmdstat_evalsha:calls=20,"), "%s", stats);
}

/* The weakness of Redisson's: acquire(0) never returns, a lease of 0 is over before it begins. */
Test(permits, refuse_bad_input)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_permits_state state = { 0 };
    permits_set(1);
    cr_assert_eq(hlk_permits_try_set(permits, -1), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_set(permits, -1), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_set(permits, HLK_PERMITS_MAX + INT64_C(1)), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_add(permits, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_query(permits, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_query(permits, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_query(NULL, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_try_set(NULL, 1), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_break(permit), HLK_E_INVALID);
    cr_assert_null(hlk_permits_permit(NULL));
    cr_assert_null(hlk_permits_create(client, "", NULL));
    cr_assert_null(hlk_permits_create(NULL, "t", NULL));
    opts.kind = HLK_LOCK_FAIR;
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    opts.kind = HLK_LOCK_PLAIN;
    opts.lease_ms = 1;
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    opts.lease_ms = 0;
    opts.permits = -1;
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    opts.permits = HLK_PERMITS_MAX + INT64_C(1);
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    opts.permits = 1;
    cr_assert_null(hlk_lock_create(client, "t", &opts)); /* a plain lock has none */
    opts.size = 3;
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    hlk_permits_destroy(NULL);
    cr_assert_eq(permits_unused(), 1);
}

Test(permits, refuse_what_is_something_else)
{
    static const char *const makers[] = { "HSET t a 1", "SET t text", "SET t 1.5", "SET {t}:timeout 1" };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        raw(fixture.redis, makers[i]);
        cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_E_SERVER, "%s", makers[i]);
        cr_assert_eq(hlk_lock_acquire(permit, 500), HLK_E_SERVER);
        cr_assert_eq(hlk_permits_add(permits, 1), HLK_E_SERVER);
        cr_assert(strcmp(raw(fixture.redis, "EXISTS t {t}:timeout"), ":1") == 0);
        raw(fixture.redis, "DEL t {t}:timeout");
    }
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", PERMITS_QUEUE), 0);
}

/* --- waiting */

Test(permits, go_to_waiters_in_their_order)
{
    struct actor *waiters[6];
    permits_set(1);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < 6; i++)
        waiters[i] = permit_waiter(i % 2 ? permit : their_permit);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(actor_status(waiters[i]), HLK_OK, "%s", actor_error(waiters[i]));
        for (int k = i + 1; k < 6; k++)
            cr_assert(!actor_answered(waiters[k]), "%d before %d", k, i);
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    }
    WAIT_FOR(permits_unused() == 1);
}

Test(permits, wake_as_many_waiters_as_there_are)
{
    struct actor *waiters[4];
    permits_set(0);
    for (int i = 0; i < 4; i++)
        waiters[i] = permit_waiter(i % 2 ? permit : their_permit);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_permits_add(permits, 4), HLK_OK);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(actor_status(waiters[i]), HLK_OK, "%s", actor_error(waiters[i]));
    cr_assert_lt(running_ms(began), 900); /* by messages, not by polls */
    cr_assert_eq(permits_unused(), 0);
    cr_assert_eq(permits_used(), 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
}

Test(permits, say_why_none_was_acquired)
{
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "their number was never set"), "%s", hlk_last_error());
    permits_set(2);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_acquire(i ? permit : their_permit, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start_wait(permit, 50);
    cr_assert_eq(actor_status(waiter), HLK_TIMEOUT);
    cr_assert(strstr(actor_error(waiter), "2 permits are held, and none is free"), "%s", actor_error(waiter));
    actor_end(waiter);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(i ? permit : their_permit), HLK_OK);
    WAIT_FOR(permits_tickets() == 0);
}

Test(permits, are_given_up_by_a_cancel)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = hlk_cancel_create(client);
    permits_set(0);
    struct actor *waiter = actor_start(permit, &opts);
    WAIT_FOR(permits_tickets() == 1);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    WAIT_FOR(permits_tickets() == 0);
    cr_assert_eq(hlk_permits_add(permits, 1), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
    hlk_cancel_destroy(opts.cancel);
}

/* It stands still: it has a permit for the ttl of its ticket, and no longer. */
Test(permits, pass_by_a_waiter_that_does_not_come_for_its_grant)
{
    redisContext *silent = raw_open(fixture.server);
    raw(silent, "SUBSCRIBE hasplock_inbox:hlk-silent");
    permits_set(0);
    raw(fixture.redis, "ZADD %s 1 %s", PERMITS_QUEUE, "hlk-silent:1 700 0 0 1");
    struct actor *waiter = permit_waiter(permit);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_permits_add(permits, 1), HLK_OK);
    cr_assert(strstr(raw_next(silent), "egrant 1 700+"));
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_geq(actor_answered_at_ms(waiter) - began, 690);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    redisFree(silent);
}

Test(permits, are_handed_over_by_two_commands)
{
    permits_set(1);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = permit_waiter(their_permit);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    raw(fixture.redis, "CONFIG RESETSTAT");
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    const char *stats = raw(fixture.redis, "INFO commandstats");
    cr_assert(strstr(stats, "cmdstat_evalsha:calls=1,"), "%s", stats); /* the release; its own is to come */
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* --- their number */

Test(permits, are_counted)
{
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    struct hlk_lock_state lock_state = HLK_LOCK_STATE_INIT;
    struct hlk_waiter waiting[2] = { { .size = sizeof(struct hlk_waiter) } };
    size_t n;
    permits_set(1);
    cr_assert_eq(hlk_permits_try_set(theirs, 5), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = permit_waiter(their_permit);
    cr_assert_eq(hlk_permits_query(theirs, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(state.free, 0);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(state.waiting, 1);
    cr_assert_eq(hlk_lock_query(permit, &lock_state), HLK_OK, "%s", hlk_last_error());
    cr_assert(lock_state.held && lock_state.mine && lock_state.count == 1);
    cr_assert_str_eq(lock_state.holder, permit_id(permit));
    cr_assert_eq(hlk_lock_waiters(permit, waiting, 2, &n), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(n, 1);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(permits, are_as_many_as_an_acquire_says)
{
    hlk_owner *owners[3];
    hlk_lock *of_two[3], *of_three;
    for (int i = 0; i < 3; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        of_two[i] = permit_of(2, owners[i]);
    }
    of_three = permit_of(3, owners[2]);
    cr_assert_eq(hlk_lock_acquire(of_two[0], HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(of_two[1], HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(of_two[2], HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(of_three, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused() + permits_used(), 3);
    cr_assert_eq(hlk_lock_release(of_three), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(of_two[2], HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(permits_unused() + permits_used(), 2);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(of_two[i]), HLK_OK);
    cr_assert_eq(permits_unused(), 2);
    for (int i = 0; i < 3; i++)
        hlk_owner_destroy(owners[i]);
}

static void is_refused(hlk_lock *of_two, int64_t number)
{
    char words[80];
    snprintf(words, sizeof words, "the key is the number %lld, which no acquire of hasplock has set",
             (long long)number);
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_E_SERVER, "%lld", (long long)number);
    cr_assert(strstr(hlk_last_error(), words), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(of_two, 1000), HLK_E_SERVER);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), number);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -1);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 1);
}

/* Its key is no sign: a semaphore's number and a counter have the same form. */
Test(permits, set_no_number_that_no_acquire_has_set)
{
    hlk_lock *of_two = permit_of(2, NULL);
    hlk_semaphore *semaphore = hlk_semaphore_create(client, "t");
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 3, 0), HLK_OK);
    is_refused(of_two, 3);
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 3, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL hasplock_queue:{t}"); /* the note that it was taken */
    is_refused(of_two, 0);
    hlk_semaphore_destroy(semaphore);
    raw(fixture.redis, "SET t 17");
    is_refused(of_two, 17);
    raw(fixture.redis, "SET t 2"); /* it need not be set */
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK);
}

/* Permits that are held, also by Redisson's, are permits; and so is what an acquire has set. */
Test(permits, set_the_number_of_what_is_permits)
{
    hlk_lock *of_two = permit_of(2, NULL), *of_three = permit_of(3, NULL);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(i ? of_three : of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(permits_unused(), i + 1);
        cr_assert_eq(hlk_lock_release(i ? of_three : of_two), HLK_OK);
        cr_assert_eq(permits_unused(), i + 2);
    }
    cr_assert_eq(hlk_permits_set(permits, 5), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_pttl(fixture.redis, PERMITS_LEASES), -1, "the leases have no end");
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_permits_try_set(permits, 6), HLK_OK);
    is_refused(of_two, 6);
    cr_assert_eq(hlk_permits_set(permits, 2), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK);
    raw(fixture.redis, "SET t 4");
    raw(fixture.redis, "ZADD " PERMITS_LEASES " 922337203685477 0123456789abcdef");
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 0);
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK);
    raw(fixture.redis, "DEL t " PERMITS_LEASES);
}

/* Evicted, or deleted: what comes back then is no number that nobody has set. */
Test(permits, set_their_number_that_went_while_they_were_held)
{
    hlk_lock *of_two = permit_of(2, NULL);
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 1);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *second = permit_of(2, owner);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK, "%s", hlk_last_error()); /* not the last one */
    cr_assert_eq(hlk_lock_release(second), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 2);
    hlk_owner_destroy(owner);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "ZADD " PERMITS_LEASES " 1000 hlk-dead-1-x:7");
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    cr_assert_eq(hlk_permits_query(permits, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(state.free, 1);
    cr_assert_eq(hlk_lock_acquire(of_two, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(of_two), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 2);
}

/* Redisson's waiters then wait for ever: nobody sets the number again. */
Test(permits, are_there_again_after_the_server_has_lost_them)
{
    hlk_lock *lock = permit_of(1, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = permit_waiter(lock);
    raw(fixture.redis, "FLUSHALL");
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    WAIT_FOR(hlk_lock_left_ms(lock) == 0); /* its holder is told by the next renewal */
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
}

Test(permits, have_a_total_that_can_be_set)
{
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    cr_assert_eq(hlk_permits_set(permits, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(their_permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_permits_set(permits, 1), HLK_OK);
    cr_assert_eq(permits_unused(), -1);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK); /* nobody has lost one, and one too many came back */
    cr_assert_eq(fixture_try(permit), HLK_BUSY);
    cr_assert_eq(hlk_permits_set(permits, 3), HLK_OK);
    cr_assert_eq(hlk_permits_query(permits, &state), HLK_OK);
    cr_assert_eq(state.free, 2);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(hlk_lock_release(their_permit), HLK_OK);
    cr_assert_eq(permits_unused(), 3);
    cr_assert_eq(hlk_permits_add(permits, HLK_PERMITS_MAX), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), "no number that Redisson reads"), "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 3);
}

/* --- beside Redisson */

/* Redisson publishes the number that it set, released or added, and so wakes too many or too few. */
Test(permits, tell_redissons_waiters_how_many_are_free)
{
    redisContext *waiter = raw_open(fixture.server);
    raw(waiter, "SUBSCRIBE %s", PERMITS_CHANNEL);
    cr_assert_eq(hlk_permits_set(permits, 2), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"2\"]");
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_permits_set(permits, 6), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"5\"]");
    cr_assert_eq(hlk_lock_release(permit), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"6\"]");
    redisFree(waiter);
}

Test(permits, are_free_for_a_waiter_when_redisson_releases)
{
    permits_set(1);
    raw(fixture.redis, "SET t 0");
    raw(fixture.redis, "ZADD %s 922337203685477 java", PERMITS_LEASES); /* without end */
    struct actor *waiter = permit_waiter(permit);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", PERMITS_CHANNEL), ":1"));
    int64_t began = test_now_ms();
    raw(fixture.redis, "MULTI");
    raw(fixture.redis, "ZREM %s java", PERMITS_LEASES);
    raw(fixture.redis, "INCR t");
    raw(fixture.redis, "PUBLISH %s 1", PERMITS_CHANNEL);
    raw(fixture.redis, "EXEC");
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_lt(running_between_ms(began, actor_answered_at_ms(waiter)), 600);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* One in yield_every releases. Without it Redisson's waiters would never see a free permit while ours wait. */
Test(permits, are_left_to_redissons_clients_for_a_moment)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.yield_every = 1;
    opts.yield_ms = 300;
    hlk_lock *yielding = permit_with(fixture_open(&opts), NULL, 0);
    redisContext *waiter = raw_open(fixture.server);
    raw(waiter, "SUBSCRIBE %s", PERMITS_CHANNEL);
    permits_set(2);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"2\"]");
    cr_assert_eq(hlk_lock_acquire(yielding, HLK_NOWAIT), HLK_OK);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *another = permit_with(client, owner, 0);
    cr_assert_eq(hlk_lock_acquire(another, HLK_NOWAIT), HLK_OK);
    struct actor *ours = permit_waiter(their_permit);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(yielding), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"1\"]");
    cr_assert_eq(permits_unused(), 1); /* it could be taken now */
    cr_assert_eq(hlk_lock_release(another), HLK_OK);
    cr_assert_str_eq(raw_next(waiter), "[\"message\", \"redisson_sc:{t}\", \"2\"]");
    cr_assert_eq(permits_unused(), 2); /* a release without a window of its own does not end this one */
    hlk_owner_destroy(owner);
    cr_assert_eq(actor_status(ours), HLK_OK, "%s", actor_error(ours));
    cr_assert_geq(actor_answered_at_ms(ours) - began, 290);
    cr_assert_lt(running_between_ms(began, actor_answered_at_ms(ours)), 900);
    cr_assert_eq(actor_end(ours), HLK_OK);
    redisFree(waiter);
}
