/* Scope guards: released however the block is left. The C++ half is in test_guard_cxx.cpp. */
#include "support/stage.h"

#include <criterion/criterion.h>

static void start(void)
{
    stage_up(0);
}

TestSuite(guard, .init = start, .fini = stage_down, .timeout = 60);
TestSuite(guard_cxx, .init = start, .fini = stage_down, .timeout = 60);

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
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL), *other = stage_lock(client, "t2", NULL);
    for (int how = 0; how < 4; how++) {
        cr_assert_eq(leave_early(lock, other, how), HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), 0);
        cr_assert_eq(raw_int(stage.redis, "DBSIZE"), 0);
    }
}

Test(guard, tells_the_answer_and_releases_nothing_it_has_not_got)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    raw(stage.redis, "HSET t foreign:1 1");
    {
        HLK_GUARD(held, lock, 50);
        cr_assert_eq(held.status, HLK_TIMEOUT);
        cr_assert_null(held.lock);
        cr_assert_eq(hlk_guard_release(&held), HLK_NOT_HOLDER);
    }
    cr_assert_str_eq(raw_holder(stage.redis, "t"), "foreign:1");
    raw(stage.redis, "DEL t");
}

Test(guard, released_by_hand_releases_once)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
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
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    HLK_GUARD(held, lock, HLK_NOWAIT);
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_guard_release(&held), HLK_LOST);
}

/* asks A2 redis-plus-plus 659, 563: a release in a destructor that ended the process */
Test(guard, of_what_was_lost_is_left_quietly)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    {
        HLK_GUARD(held, lock, HLK_NOWAIT);
        raw(stage.redis, "DEL t");
    }
    stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

Test(guard, of_a_null_lock_is_invalid)
{
    HLK_GUARD(held, NULL, HLK_NOWAIT);
    cr_assert_eq(held.status, HLK_E_INVALID);
}

/* 0, or the line in test_guard_cxx.cpp that failed. */
int guard_cxx_scopes(hlk_lock *lock);
int guard_cxx_moves(hlk_lock *lock);
int guard_cxx_assigns(hlk_lock *lock, hlk_lock *other);
int guard_cxx_throws(hlk_lock *lock);
int guard_cxx_busy(hlk_lock *lock);
int guard_cxx_loses(hlk_lock *lock);

Test(guard_cxx, releases_at_the_end_of_its_scope)
{
    cr_assert_eq(guard_cxx_scopes(stage_lock(stage_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, moves_and_releases_once)
{
    cr_assert_eq(guard_cxx_moves(stage_lock(stage_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, assigned_over_releases_what_it_had_and_keeps_the_other)
{
    hlk_client *client = stage_open(NULL);
    cr_assert_eq(guard_cxx_assigns(stage_lock(client, "t", NULL), stage_lock(client, "t2", NULL)), 0);
    cr_assert_eq(raw_int(stage.redis, "DBSIZE"), 0);
}

Test(guard_cxx, releases_when_an_exception_passes)
{
    cr_assert_eq(guard_cxx_throws(stage_lock(stage_open(NULL), "t", NULL)), 0);
}

Test(guard_cxx, is_false_when_it_did_not_get_the_lock)
{
    raw(stage.redis, "HSET t foreign:1 1");
    cr_assert_eq(guard_cxx_busy(stage_lock(stage_open(NULL), "t", NULL)), 0);
    raw(stage.redis, "DEL t");
}

Test(guard_cxx, of_what_was_lost_ends_quietly)
{
    cr_assert_eq(guard_cxx_loses(stage_lock(stage_open(NULL), "t", NULL)), 0);
}
