/* No memory for hlk_lock_query and hlk_lock_list over several masters. */
#include "base/mem.h"
#include "quorum_fixture.h"

#include <criterion/criterion.h>

static void start(void)
{
    quorum_begin(0);
}

TestSuite(memory_quorum, .init = start, .fini = quorum_end, .timeout = 60);

Test(memory_quorum, that_is_short_in_a_query_is_its_answer)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL);
    hlk_mem_fail_after(1);
    enum hlk_status status = hlk_lock_query(lock, &state);
    hlk_mem_fail_after(-1);
    cr_assert_eq(status, HLK_E_NOMEM, "%s", hlk_last_error());
}

static int note(const struct hlk_listed *lock, void *ctx)
{
    (void)lock;
    ++*(int *)ctx;
    return 0;
}

/* Whichever allocation fails. A master that cannot be asked counts as holding the lock, so that all are listed. */
Test(memory_quorum, that_is_short_in_a_list_does_not_shorten_it)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    hlk_client *client = quorum_open_url(3, "", NULL);
    for (int i = 0; i < 3; i++)
        raw(views[i], "HSET t1 hlk-other-1-x:1 1"), raw(views[i], "HSET t2 hlk-other-1-x:1 1");
    int failed = 0, allocations = 0;
    for (; allocations < 100; allocations++) {
        int listed = 0;
        opts.cursor = 0;
        hlk_mem_fail_once(allocations + 1);
        enum hlk_status status = hlk_lock_list(client, &opts, note, &listed);
        hlk_mem_fail_after(-1);
        failed += status == HLK_E_NOMEM;
        cr_assert(status == HLK_E_NOMEM || (status == HLK_OK && listed == 2), "%d: %s", allocations, hlk_last_error());
    }
    cr_assert_gt(failed, 4);
    for (int i = 0; i < 3; i++)
        raw(views[i], "DEL t1 t2");
}
