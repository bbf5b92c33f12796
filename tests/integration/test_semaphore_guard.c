/* Guards of a semaphore: given back however the block is left. The C++ part is in test_semaphore_guard_cxx.cpp. */
#include "semaphore_fixture.h"

#include <criterion/criterion.h>

TestSuite(semaphore_guard, .init = semaphore_start, .fini = semaphore_stop, .timeout = 60);

static enum hlk_status leave(int how)
{
    for (int i = 0; i < 3; i++) {
        HLK_SEMAPHORE_GUARD(taken, permits, 2, HLK_NOWAIT);
        cr_assert_eq(taken.status, HLK_OK, "%s", hlk_last_error());
        HLK_SEMAPHORE_GUARD(more, permits, 1, HLK_NOWAIT);
        cr_assert_eq(semaphore_free(), 0);
        if (how == 0)
            return HLK_OK;
        if (how == 1)
            break;
        if (how == 2)
            continue;
    }
    return HLK_OK;
}

Test(semaphore_guard, gives_back_whichever_way_the_block_is_left)
{
    semaphore_set(3);
    for (int how = 0; how < 4; how++) {
        cr_assert_eq(leave(how), HLK_OK);
        cr_assert_eq(semaphore_free(), 3);
    }
}

Test(semaphore_guard, gives_back_nothing_that_it_has_not_got)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    semaphore_set(1);
    opts.wait_ms = 50;
    {
        HLK_SEMAPHORE_GUARD(busy, permits, 2, HLK_NOWAIT);
        HLK_SEMAPHORE_GUARD_WITH(late, permits, 2, &opts);
        HLK_SEMAPHORE_GUARD(bad, permits, 0, HLK_NOWAIT);
        HLK_SEMAPHORE_GUARD(null, NULL, 1, HLK_NOWAIT);
        cr_assert_eq(busy.status, HLK_BUSY);
        cr_assert_eq(late.status, HLK_TIMEOUT);
        cr_assert_eq(bad.status, HLK_E_INVALID);
        cr_assert_eq(null.status, HLK_E_INVALID);
        cr_assert_eq(hlk_semaphore_guard_release(&busy), HLK_NOT_HOLDER);
    }
    cr_assert_eq(semaphore_free(), 1);
}

Test(semaphore_guard, released_by_hand_releases_once)
{
    semaphore_set(2);
    {
        HLK_SEMAPHORE_GUARD(taken, permits, 2, HLK_NOWAIT);
        cr_assert_eq(semaphore_free(), 0);
        cr_assert_eq(hlk_semaphore_guard_release(&taken), HLK_OK);
        cr_assert_eq(hlk_semaphore_guard_release(&taken), HLK_NOT_HOLDER);
        cr_assert_eq(semaphore_free(), 2);
    }
    cr_assert_eq(semaphore_free(), 2, "the end of the block gave back nothing more");
}

/* 0, or the failed line. */
int semaphore_guard_cxx(hlk_client *cxx_client, hlk_semaphore *semaphore);

Test(semaphore_guard, of_cxx_gives_back_moves_and_throws_nothing)
{
    semaphore_set(3);
    cr_assert_eq(semaphore_guard_cxx(client, permits), 0);
    cr_assert_eq(semaphore_free(), 3);
}
