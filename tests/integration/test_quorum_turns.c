/* test_quorum_turns.c - which releases of a lock over several masters are followed by a pause, if the process comes
 * back at once: those after a wait behind others. When it pauses: tests/unit/test_quorum_queue.c. */
#include "quorum_fixture.h"

#include "quorum/quorum.h"

#include <criterion/criterion.h>

enum { N = 3 };

static void start(void)
{
    quorum_begin(0);
}

TestSuite(quorum_turns, .init = start, .fini = quorum_end, .timeout = 60);

static unsigned noted(hlk_client *client)
{
    struct hlk_quorums *all = HLK_CONTAINER(client->topology, struct hlk_quorums, topology);
    hlk_mutex_lock(&all->mu);
    unsigned n = all->next_turn;
    hlk_mutex_unlock(&all->mu);
    return n;
}

Test(quorum_turns, are_noted_of_who_had_to_wait)
{
    hlk_client *first = quorum_open_url(N, PATIENT, NULL), *second = quorum_open_url(N, PATIENT, NULL);
    hlk_lock *theirs = quorum_lock(first, "t", NULL), *lock = quorum_lock(second, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *waiter = actor_start_wait(lock, WAIT_MS);
    WAIT_FOR(raw_listeners(views[0], "t") == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(noted(second), 0u, "it is not released yet");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(noted(second), 1u);
    cr_assert_eq(noted(first), 0u);
}

Test(quorum_turns, are_not_noted_without_others)
{
    hlk_client *client = quorum_open_url(N, PATIENT, NULL);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    cr_assert_eq(noted(client), 0u);
}
