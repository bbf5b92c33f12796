/* Scope guards: released however the block is left. The C++ part is in test_guard_cxx.cpp. */
#include "support/fixture.h"

#include <criterion/criterion.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(guard, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(guard_cxx, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(mutex_cxx, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(condition_cxx, .init = start, .fini = fixture_end, .timeout = 60);

static enum hlk_status leave_early(hlk_lock *lock, hlk_lock *other, int how)
{
    for (int i = 0; i < 3; i++) {
        HLK_GUARD(held, lock, HLK_NOWAIT);
        if (held.status != HLK_OK)
            return held.status;
        cr_assert_eq(hlk_lock_holds(lock), 1);
        HLK_GUARD(nested, other, HLK_NOWAIT);
        cr_assert_eq(nested.status, HLK_OK);
        if (how == 0)
            return HLK_OK;
        if (how == 1)
            break;
        if (how == 2)
            continue;
    }
    return HLK_OK;
}

Test(guard, releases_whichever_way_the_block_is_left)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t2", NULL);
    for (int how = 0; how < 4; how++) {
        cr_assert_eq(leave_early(lock, other, how), HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), 0);
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    }
}

Test(guard, tells_the_answer_and_releases_only_what_it_has)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    {
        HLK_GUARD(held, lock, 50);
        cr_assert_eq(held.status, HLK_TIMEOUT);
        cr_assert_null(held.lock);
        cr_assert_eq(hlk_guard_release(&held), HLK_NOT_HOLDER);
    }
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), "b983c153-7421-469a-addb-44fb92259a1b:1");
    raw(fixture.redis, "DEL t");
}

Test(guard, released_by_hand_releases_once)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    {
        HLK_GUARD(held, lock, HLK_NOWAIT);
        cr_assert_eq(hlk_lock_holds(lock), 2);
        cr_assert_eq(hlk_guard_release(&held), HLK_OK);
        cr_assert_eq(hlk_guard_release(&held), HLK_NOT_HOLDER);
        cr_assert_eq(hlk_lock_holds(lock), 1);
    }
    cr_assert_eq(hlk_lock_holds(lock), 1, "the end of the block took nothing more");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(guard, tells_a_loss_to_who_asks)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    HLK_GUARD(held, lock, HLK_NOWAIT);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_guard_release(&held), HLK_LOST);
}

/* asks A2 redis-plus-plus 659, 563: a release in a destructor that ended the process */
Test(guard, of_what_was_lost_is_left_quietly)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    {
        HLK_GUARD(held, lock, HLK_NOWAIT);
        raw(fixture.redis, "DEL t");
    }
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

Test(guard, of_a_null_lock_is_invalid)
{
    HLK_GUARD(held, NULL, HLK_NOWAIT);
    cr_assert_eq(held.status, HLK_E_INVALID);
    HLK_GUARD_ADOPT(adopted, NULL);
    cr_assert_eq(adopted.status, HLK_E_INVALID);
}

Test(guard, acquires_with_options)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_held_elsewhere("t2", 0);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    opts.cancel = hlk_cancel_create(client);
    {
        HLK_GUARD_WITH(held, lock, &opts);
        cr_assert_eq(held.status, HLK_OK);
        cr_assert_gt(raw_pttl(fixture.redis, "t"), 50000);
        hlk_cancel_trigger(opts.cancel);
        HLK_GUARD_WITH(cancelled, fixture_lock(client, "t2", NULL), &opts);
        cr_assert_eq(cancelled.status, HLK_INTERRUPTED);
        cr_assert_null(cancelled.lock);
    }
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    hlk_cancel_destroy(opts.cancel);
}

Test(guard, adopts_a_hold_and_releases_only_that)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    {
        HLK_GUARD_ADOPT(held, lock);
        cr_assert_eq(held.status, HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), 2);
    }
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* 0, or the failed line of test_guard_cxx.cpp. */
int guard_cxx_scopes(hlk_lock *lock);
int guard_cxx_moves(hlk_lock *lock);
int guard_cxx_assigns(hlk_lock *lock, hlk_lock *other);
int guard_cxx_throws(hlk_lock *lock);
int guard_cxx_busy(hlk_lock *lock);
int guard_cxx_loses(hlk_lock *lock);
int guard_cxx_takes_options(hlk_client *client, hlk_lock *lock);
int guard_cxx_adopts(hlk_lock *lock);
int cxx_rounds_lengths_up(void);
int guard_cxx_refuses_leases(hlk_lock *lock);
int client_cxx_closes(const char *url);
int client_cxx_throws(void);
int mutex_cxx_in_locks_of_std(hlk_client *client);
int mutex_cxx_waits(hlk_client *client, hlk_client *other);
int mutex_cxx_scoped(hlk_client *client);
int mutex_cxx_scoped_throws(hlk_client *client);
int mutex_cxx_in_another_thread(hlk_client *client);
int mutex_cxx_throws(hlk_client *client);
int mutex_cxx_loses(hlk_client *client);
int mutex_cxx_does_not_nest(hlk_client *client);
int condition_cxx_notifies(hlk_client *client, hlk_client *other);
int condition_cxx_times_out(hlk_client *client);
int condition_cxx_throws(hlk_client *client);

Test(guard_cxx, releases_at_the_end_of_its_scope)
{
    cr_assert_eq(guard_cxx_scopes(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, moves_and_releases_once)
{
    cr_assert_eq(guard_cxx_moves(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, assigned_to_releases_its_hold_and_takes_the_other)
{
    hlk_client *client = fixture_open(NULL);
    cr_assert_eq(guard_cxx_assigns(fixture_lock(client, "t", NULL), fixture_lock(client, "t2", NULL)), 0);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(guard_cxx, releases_when_an_exception_passes)
{
    cr_assert_eq(guard_cxx_throws(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, is_false_when_it_did_not_get_the_lock)
{
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(guard_cxx_busy(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
    raw(fixture.redis, "DEL t");
}

Test(guard_cxx, of_what_was_lost_ends_quietly)
{
    cr_assert_eq(guard_cxx_loses(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, acquires_with_options_a_length_and_a_cancel)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    cr_assert_eq(guard_cxx_takes_options(client, fixture_lock(client, "t", NULL)), 0);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

Test(guard_cxx, lease_that_is_over_or_endless_is_invalid)
{
    cr_assert_eq(guard_cxx_refuses_leases(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, adopts_a_hold)
{
    cr_assert_eq(guard_cxx_adopts(fixture_lock(fixture_open(NULL), "t", NULL)), 0);
}

Test(mutex_cxx, lengths_are_rounded_up_and_never_overflow)
{
    cr_assert_eq(cxx_rounds_lengths_up(), 0);
}

Test(mutex_cxx, client_is_closed_at_the_end_of_its_scope)
{
    int64_t before = raw_clients(fixture.redis, "normal");
    cr_assert_eq(client_cxx_closes(hlk_test_url(fixture.server)), 0);
    WAIT_FOR(raw_clients(fixture.redis, "normal") == before);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(mutex_cxx, client_that_cannot_open_throws_what_open_answers)
{
    cr_assert_eq(client_cxx_throws(), 0);
}

Test(mutex_cxx, is_locked_by_the_locks_of_std)
{
    cr_assert_eq(mutex_cxx_in_locks_of_std(fixture_open(NULL)), 0);
}

Test(mutex_cxx, waits_for_its_length_or_until_its_moment)
{
    cr_assert_eq(mutex_cxx_waits(fixture_open(NULL), fixture_open(NULL)), 0);
}

Test(mutex_cxx, two_are_locked_in_any_order_without_a_deadlock)
{
    cr_assert_eq(mutex_cxx_scoped(fixture_open(NULL)), 0);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(mutex_cxx, unlocks_the_first_of_two_when_the_second_throws)
{
    cr_assert_eq(mutex_cxx_scoped_throws(fixture_open(NULL)), 0);
}

Test(mutex_cxx, is_unlocked_by_another_thread_only_with_an_owner)
{
    cr_assert_eq(mutex_cxx_in_another_thread(fixture_open(NULL)), 0);
}

Test(mutex_cxx, throws_what_is_no_answer)
{
    cr_assert_eq(mutex_cxx_throws(fixture_open(NULL)), 0);
}

/* asks A2 redis-plus-plus 659, 563 */
Test(mutex_cxx, whose_hold_was_lost_unlocks_without_a_throw)
{
    cr_assert_eq(mutex_cxx_loses(fixture_open(NULL)), 0);
    fixture_wait_event(HLK_EVENT_LOST, "t1");
    fixture_wait_event(HLK_EVENT_LOST, "t2");
}

Test(mutex_cxx, of_a_kind_that_is_not_reentrant_throws_a_deadlock)
{
    cr_assert_eq(mutex_cxx_does_not_nest(fixture_open(NULL)), 0);
}

Test(condition_cxx, wakes_waits_with_and_without_a_predicate)
{
    cr_assert_eq(condition_cxx_notifies(fixture_open(NULL), fixture_open(NULL)), 0);
}

Test(condition_cxx, a_wait_that_is_over_owns_its_mutex)
{
    cr_assert_eq(condition_cxx_times_out(fixture_open(NULL)), 0);
}

Test(condition_cxx, a_wait_that_fails_owns_nothing_and_throws)
{
    cr_assert_eq(condition_cxx_throws(fixture_open(NULL)), 0);
    fixture_wait_event(HLK_EVENT_LOST, "t");
}
