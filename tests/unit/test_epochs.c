/* Three servers, by what each says its cluster's epoch is. */
/* Shows: P28 */
#include "node/epochs.h"

#include <criterion/criterion.h>

enum { A, B, C, SERVERS };

static struct hlk_epochs epochs;
static bool up[SERVERS] = { true, true, true };

static bool says(unsigned server, uint64_t epoch)
{
    return hlk_epochs_follow(&epochs, server, epoch, up, SERVERS);
}

static void expect(unsigned server, uint64_t epoch)
{
    cr_assert(says(server, epoch));
    cr_assert_eq(epochs.map, epoch);
}

Test(epochs, of_the_first_server_is_followed)
{
    expect(B, 7);
}

Test(epochs, that_rises_is_followed_at_once)
{
    expect(A, 5);
    expect(B, 5);
    expect(C, 6);
    expect(A, 6);
}

Test(epochs, of_a_server_that_was_cut_off_is_not_followed)
{
    expect(A, 6);
    for (int i = 0; i < 5; i++)
        cr_assert_not(says(C, 5));
    expect(B, 6);
    cr_assert_not(says(C, 5));
}

/* Before a failover all said 5. That does not count when the one that was cut off says it again. */
Test(epochs, that_was_said_before_the_map_rose_is_no_vote)
{
    expect(A, 5);
    expect(B, 5);
    expect(C, 5);
    expect(A, 6);
    cr_assert_not(says(C, 5));
    cr_assert_eq(epochs.map, 6);
}

Test(epochs, that_fell_at_most_servers_is_followed)
{
    expect(A, 57);
    cr_assert_not(says(B, 3));
    expect(C, 3);
    expect(B, 3);
    cr_assert_not(says(A, 4)); /* outvoted */
    expect(B, 4);
    expect(A, 4);
}

/* They are about to agree: what counts is that each is below the map's. */
Test(epochs, that_fell_to_different_ones_is_followed_too)
{
    expect(A, 57);
    cr_assert_not(says(B, 2));
    expect(C, 3);
    cr_assert_not(says(B, 2));
    expect(A, 3);
}

Test(epochs, of_a_smaller_cluster_need_only_connected_servers)
{
    expect(C, 57);
    up[C] = false;
    cr_assert_not(says(A, 1));
    expect(B, 2);
    up[B] = false;
    epochs = (struct hlk_epochs){ .map = 57 };
    expect(A, 1);
}

Test(epochs, absurd_ones_of_one_server_mislead_only_briefly)
{
    expect(A, 5);
    expect(C, UINT64_MAX);
    cr_assert_not(says(A, 5));
    expect(B, 5);
    for (int i = 0; i < 5; i++)
        cr_assert_not(says(C, UINT64_MAX));
    cr_assert_not(says(C, UINT64_MAX - 1));
    expect(A, 6); /* a failover */
    expect(B, 6);
}

Test(epochs, of_an_outvoted_server_counts_when_it_agrees_again)
{
    expect(C, 57);
    cr_assert_not(says(A, 3));
    expect(B, 3);
    cr_assert_not(says(C, 57));
    expect(A, 57); /* C has joined: a cluster has the largest epoch of its servers */
    expect(C, 57);
    expect(C, 58);
}

Test(epochs, of_an_outvoted_server_count_when_it_alone_is_left)
{
    expect(C, 57);
    cr_assert_not(says(A, 3));
    expect(B, 3);
    up[A] = up[B] = false;
    expect(C, 57);
}

Test(epochs, that_is_not_named_hinders_nobody)
{
    expect(A, 5);
    cr_assert(says(B, 0));
    cr_assert_eq(epochs.map, 5);
}
