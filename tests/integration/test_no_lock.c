/* No name has another name's line. */
#include "support/stage.h"

#include <criterion/criterion.h>

static void start_with_all_keys(void)
{
    stage_up(SERVER_NOACL); /* the lines of acl.h are for names with another beginning */
}

TestSuite(names, .init = start_with_all_keys, .fini = stage_down, .timeout = 60);

Test(names, with_and_without_braces_have_lines_of_their_own)
{
    hlk_client *waits = stage_open(NULL), *other = stage_open(NULL);
    hlk_lock *held = stage_lock(stage_open(NULL), "t", NULL), *braces = stage_lock(other, "{t}", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(stage_lock(waits, "t", NULL), NULL);
    WAIT_FOR(raw_int(stage.redis, "ZCARD hasplock_queue:{t}") == 1);
    for (int i = 0; i < 8; i++) { /* with an open window and without */
        cr_assert_eq(hlk_lock_acquire(braces, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(braces), HLK_OK);
        cr_assert_eq(raw_int(stage.redis, "EXISTS {t}"), 0, "it is nobody's");
        cr_assert_eq(raw_int(stage.redis, "ZCOUNT hasplock_queue:{t} 1 1e15"), 1, "and who waits for t stays in line");
    }
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(stage_counters(waits).granted, 1u);
    cr_assert_eq(stage_counters(waits).handed_back, 0u);
}
