/* A shortage of descriptors or threads while a loop or a node is made: each failed call, also one of libev, gives an
 * error. */
#include "net/loop.h"
#include "node/node.h"

#include "support/failing_calls.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <malloc.h>
#include <string.h>

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

/* --- a node: a cluster makes one while its loop runs */

static void ignore_verify(struct hlk_node *node)
{
    (void)node;
}

static void ignore_message(struct hlk_node *node, const char *message, size_t len)
{
    (void)node, (void)message, (void)len;
}

/* False: fewer than n calls were needed. */
static bool node_without(hlk_loop *loop, int n)
{
    static const struct hlk_node_owner owner = { .verify = ignore_verify, .receive = ignore_message };
    struct hlk_node_opts opts = { .client_id = "hlk-h-1-2", .client_name = "test", .url = "redis://127.0.0.1:1" };
    struct hlk_node node = { .loop = NULL };
    struct hlk_error error = { .status = HLK_OK };
    failing_calls_begin(n, false);
    enum hlk_status status = hlk_node_open(&node, loop, &opts, &owner, &error);
    bool struck = failing_calls_end();
    cr_assert_eq(status, struck ? HLK_E_OS : HLK_OK, "the %d. was refused: %s", n, error.text);
    hlk_node_fini(&node);
    memset(&node, 0xa5, sizeof node); /* as freed memory is, see below */
    hlk_loop_tick(loop);
    return struck;
}

Test(lack, of_one_need_of_a_node_leaves_nothing_in_the_loop)
{
    struct hlk_error error;
    hlk_loop *loop = NULL;
    int n = 1;
    mallopt(M_PERTURB, 0x5a);
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
    while (node_without(loop, n))
        n++;
    cr_assert_geq(n, 3);
    hlk_loop_destroy(loop);
}
