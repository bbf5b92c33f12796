/* hlk_barrier: who passes, in which order, and how a wait that ends, a reset or a close break a generation. */
/* Shows: P51 */
#include "barrier_fixture.h"

enum { MANY = 16, ROUNDS = 50 };

TestSuite(barrier, .init = barrier_start, .fini = fixture_end, .timeout = 60);

/* --- all arrive */

Test(barrier, lets_all_pass_when_the_last_has_arrived)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_barrier *here = barrier_make(one, 3, 0), *there = barrier_make(two, 3, 0);
    struct party first = { 0 }, second = { 0 };
    unsigned index = 77, count = 77;
    cr_assert_str_eq(hlk_barrier_name(here), "t");
    cr_assert_eq(hlk_barrier_parties(here), 3u);
    party_arrives_as(&first, here, 0);
    party_arrives_as(&second, there, 1);
    cr_assert_eq(hlk_barrier_waiting(here, &count), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(count, 2u);
    cr_assert_eq(hlk_barrier_await(here, HLK_FOREVER, &index), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(party_ended(&first), HLK_OK, "%s", first.error);
    cr_assert_eq(party_ended(&second), HLK_OK, "%s", second.error);
    cr_assert_eq(index, 0u);
    cr_assert_eq(first.index, 2u);
    cr_assert_eq(second.index, 1u);
    cr_assert_lt(first.took_ms, POLL_MS);
    cr_assert_eq(barrier_arrived(), 0);
    cr_assert(raw_pttl(fixture.redis, BARRIER) > 0);
    hlk_barrier_destroy(here);
    hlk_barrier_destroy(there);
}

Test(barrier, of_one_party_is_passed_at_once)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 1, 0);
    unsigned index = 77;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hlk_barrier_await(barrier, HLK_NOWAIT, &index), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(index, 0u);
    }
    hlk_barrier_destroy(barrier);
}

/* Each sees that all have done their part of the round before. */
static struct {
    hlk_barrier *barriers[4];
    atomic_int done[ROUNDS], firsts[ROUNDS], wrong;
} rounds;

static void *works(void *arg)
{
    intptr_t me = (intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned index = 77;
        atomic_fetch_add(&rounds.done[round], 1);
        if (hlk_barrier_await(rounds.barriers[me % 4], HLK_FOREVER, &index) != HLK_OK || index >= MANY ||
            atomic_load(&rounds.done[round]) != MANY)
            atomic_fetch_add(&rounds.wrong, 1);
        if (index == 0)
            atomic_fetch_add(&rounds.firsts[round], 1);
    }
    return NULL;
}

Test(barrier, is_cyclic_for_16_threads_of_4_clients)
{
    pthread_t threads[MANY];
    for (int i = 0; i < 4; i++)
        rounds.barriers[i] = barrier_make(fixture_open(NULL), MANY, 0);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, works, (void *)(intptr_t)i), 0);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&rounds.wrong), 0);
    for (int round = 0; round < ROUNDS; round++)
        cr_assert_eq(atomic_load(&rounds.firsts[round]), 1);
    cr_assert_leq(raw_int(fixture.redis, "HLEN " BARRIER), 4 + MANY, "a record for each party, not for each arrival");
    for (int i = 0; i < 4; i++)
        hlk_barrier_destroy(rounds.barriers[i]);
}

/* --- a party leaves */

Test(barrier, is_broken_by_a_wait_that_is_over)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_barrier *here = barrier_make(one, 3, 0), *there = barrier_make(two, 3, 0);
    struct party waits = { 0 };
    party_arrives_as(&waits, here, 0);
    cr_assert_eq(hlk_barrier_await(there, 100, NULL), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "2 of 3 parties had arrived"), "%s", hlk_last_error());
    party_is_broken(&waits, "its wait was over");
    cr_assert(strstr(waits.error, " pid "), "%s", waits.error);
    cr_assert_lt(waits.took_ms, POLL_MS, "by the message");
    cr_assert_eq(barrier_arrived(), 0);
    hlk_barrier_destroy(here);
    hlk_barrier_destroy(there);
}

Test(barrier, is_broken_by_one_try)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 0);
    struct party waits = { 0 };
    party_arrives_as(&waits, barrier, 0);
    cr_assert_eq(hlk_barrier_await(barrier, HLK_NOWAIT, NULL), HLK_BUSY, "%s", hlk_last_error());
    party_is_broken(&waits, "its wait was over");
    cr_assert_eq(hlk_barrier_await(barrier, -52, NULL), HLK_BUSY, "%s", hlk_last_error());
    hlk_barrier_destroy(barrier);
}

Test(barrier, is_broken_by_a_cancel)
{
    hlk_client *client = fixture_open(NULL);
    hlk_barrier *barrier = barrier_make(client, 3, 0);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct party waits = { 0 }, leaves = { 0 };
    party_arrives_as(&waits, barrier, 0);
    leaves.opts = (struct hlk_acquire_opts)HLK_ACQUIRE_OPTS_INIT;
    leaves.opts.cancel = cancel;
    party_arrives_as(&leaves, barrier, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(party_ended(&leaves), HLK_INTERRUPTED, "%s", leaves.error);
    party_is_broken(&waits, "its wait was cancelled");
    hlk_cancel_destroy(cancel);
    hlk_barrier_destroy(barrier);
}

Test(barrier, is_broken_by_a_reset)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 3, 0);
    struct party waits = { 0 };
    cr_assert_eq(hlk_barrier_reset(barrier), HLK_NOT_HOLDER);
    party_arrives_as(&waits, barrier, 0);
    cr_assert_eq(hlk_barrier_reset(barrier), HLK_OK, "%s", hlk_last_error());
    party_is_broken(&waits, "was reset");
    hlk_barrier_destroy(barrier);
}

Test(barrier, is_broken_when_a_client_is_closed)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_barrier *barrier = barrier_make(client, 3, 3000), *closed = barrier_make(other, 3, 3000);
    struct party waits = { 0 }, leaves = { 0 };
    party_arrives_as(&waits, barrier, 0);
    party_arrives_as(&leaves, closed, 1);
    fixture_close(other);
    cr_assert_eq(party_ended(&leaves), HLK_E_CLOSED, "%s", leaves.error);
    party_is_broken(&waits, "broken by ");
    hlk_barrier_destroy(closed);
    hlk_barrier_destroy(barrier);
}

/* The next generation begins afresh. */
Test(barrier, is_used_again_after_it_was_broken)
{
    hlk_barrier *barrier = barrier_make(fixture_open(NULL), 2, 0);
    for (int i = 0; i < 3; i++) {
        struct party waits = { 0 };
        unsigned index = 77;
        cr_assert_eq(hlk_barrier_await(barrier, 20, NULL), HLK_TIMEOUT, "%s", hlk_last_error());
        party_arrives_as(&waits, barrier, 0);
        cr_assert_eq(hlk_barrier_await(barrier, HLK_FOREVER, &index), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(party_ended(&waits), HLK_OK, "%s", waits.error);
        cr_assert_eq(index, 0u);
        cr_assert_eq(waits.index, 1u);
    }
    hlk_barrier_destroy(barrier);
}

/* --- what is refused */

Test(barrier, refuses_another_number_of_parties_during_a_wait)
{
    hlk_client *client = fixture_open(NULL);
    hlk_barrier *three = barrier_make(client, 3, 0), *two = barrier_make(client, 2, 0);
    struct party waits = { 0 };
    party_arrives_as(&waits, three, 0);
    cr_assert_eq(hlk_barrier_await(two, 1000, NULL), HLK_E_SERVER, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "another number of parties"), "%s", hlk_last_error());
    cr_assert_eq(barrier_arrived(), 1);
    cr_assert_eq(hlk_barrier_reset(three), HLK_OK);
    party_is_broken(&waits, "was reset");
    cr_assert_eq(hlk_barrier_await(two, 20, NULL), HLK_TIMEOUT, "%s", hlk_last_error());
    hlk_barrier_destroy(three);
    hlk_barrier_destroy(two);
}

Test(barrier, refuses_what_it_cannot_be_made_with)
{
    hlk_client *client = fixture_open(NULL);
    static const struct {
        const char *name;
        unsigned parties;
        int64_t lease_ms;
    } wrong[] = { { "", 2, 0 },    { NULL, 2, 0 }, { "t", 0, 0 },       { "t", HLK_BARRIER_MAX + 1, 0 },
                  { "t", 2, 999 }, { "t", 2, -1 }, { "t", 2, 86400001 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_null(hlk_barrier_create(client, wrong[i].name, wrong[i].parties, wrong[i].lease_ms), "%zu", i);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID, "%zu", i);
    }
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_barrier *barrier = barrier_make(client, 2, 0);
    opts.lease_ms = 1000;
    cr_assert_eq(hlk_barrier_await_with(barrier, &opts, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_barrier_await(NULL, 0, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_barrier_reset(NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_barrier_waiting(barrier, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_barrier_await_async(barrier, NULL, NULL, NULL), HLK_E_INVALID);
    cr_assert_null(hlk_barrier_name(NULL));
    cr_assert_eq(hlk_barrier_parties(NULL), 0u);
    hlk_barrier_destroy(NULL);
    hlk_barrier_destroy(barrier);
}
