/* A shortage of descriptors or threads while a loop is made: each failed call, also one of libev, gives an error. */
#include "net/loop.h"

#include "support/failing_calls.h"

#include <criterion/criterion.h>
#include <dirent.h>

TestSuite(lack, .timeout = 20);

static int descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* False: fewer than n calls were needed. */
static bool create_without(int n, bool lasts)
{
    struct hlk_error error = { .status = HLK_OK };
    hlk_loop *loop = NULL;
    int before = descriptors();
    failing_calls_begin(n, lasts);
    enum hlk_status status = hlk_loop_create(&loop, &error);
    if (status == HLK_OK)
        status = hlk_loop_start(loop, &error);
    bool struck = failing_calls_end();
    hlk_loop_stop(loop);
    hlk_loop_destroy(loop);
    cr_assert_eq(descriptors(), before);
    cr_assert_eq(status, struck ? HLK_E_OS : HLK_OK, "the %d. was refused: %s", n, error.text);
    cr_assert_eq(*error.text != '\0', struck);
    return struck;
}

Test(lack, of_one_need_of_a_loop_is_answered_without_a_leak)
{
    int n = 1;
    while (create_without(n, false))
        n++;
    cr_assert_geq(n, 6);
}

Test(lack, of_all_needs_of_a_loop_from_some_point_is_answered)
{
    int n = 1;
    while (create_without(n, true))
        n++;
    cr_assert_geq(n, 6);
}
