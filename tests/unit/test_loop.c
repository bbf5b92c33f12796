/* What belongs to the loop thread is refused to every other one. */
#include "net/loop.h"

#include <criterion/criterion.h>
#include <signal.h>

static hlk_loop *loop;

static void init(void)
{
    struct hlk_error error;
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
}

static void fini(void)
{
    hlk_loop_stop(loop);
    hlk_loop_destroy(loop);
}

TestSuite(loop, .init = init, .fini = fini, .timeout = 20);

static void start(void)
{
    struct hlk_error error;
    cr_assert_eq(hlk_loop_start(loop, &error), HLK_OK);
}

static bool was_here;

static void assert_here(struct hlk_post *post)
{
    (void)post;
    hlk_loop_assert_here(loop);
    was_here = hlk_loop_here(loop);
}

Test(loop, is_its_own_threads)
{
    struct hlk_post post = { .run = assert_here };
    hlk_loop_assert_here(loop); /* nobody's yet */
    start();
    cr_assert_not(hlk_loop_here(loop));
    hlk_loop_post(loop, &post);
    hlk_loop_stop(loop);
    cr_assert(was_here);
}

/* asks A10 hiredis 124, 383, 424, 530, 676, 1258, 452 */
Test(loop, aborts_who_takes_it_for_theirs, .signal = SIGABRT)
{
    start();
    hlk_loop_assert_here(loop);
}
