/* What holds for each kind of lock, in a cluster; also while its slot moves to another server. */
/* Shows: P53 */
#include "every_cluster.h"

/* --- a slot that moves --- */

static void move_to(int server)
{
    cluster_move(cluster, home_slot(), server);
    home_moves(server);
}

/* Held, and waited for. */
static void follows_its_slot(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct every_call call;
    int first = home();
    every_allow_tombstones(kind); /* a semaphore that is destroyed says once, by its map, that its notes may go */
    every_acquired(own);
    call_start_wait(&call, every_other(kind, client), RECONNECT_MS); /* the lease is longer: it is told */
    every_wait_for_waiters(client, 1);
    move_to((first + 1) % MASTERS);
    every_is_held(other);
    if (own.lock)
        cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_OK, "%s", hlk_last_error());
    every_released(own);
    call_acquired(&call);
    every_is_free(other);
    move_to(first); /* free; of a semaphore its number is there */
    every_is_free(own);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

static void is_renewed_where_its_slot_is(const struct every_kind *kind)
{
    struct hlk_client_opts opts = every_opts();
    opts.watchdog_ms = 1500;
    struct every_handle own = every_handle(kind, every_open(&opts), NULL), other = every_other(kind, every_open(NULL));
    every_acquired(own);
    move_to((home() + 1) % MASTERS);
    int64_t until = hlk_lock_held_until(own.lock);
    WAIT_FOR(hlk_lock_held_until(own.lock) > until + opts.watchdog_ms);
    every_is_held(other);
    every_released(own);
    every_is_free(other);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* Each command meets a slot of which some keys have moved, or none, or all. */
static void is_acquired_while_its_slot_moves(const struct every_kind *kind)
{
    struct every_visitor visitors[EVERY_VISITORS];
    every_allow_tombstones(kind);
    visitors_start(visitors, kind);
    for (int i = 0; i < MASTERS; i++)
        move_to((home() + 1) % MASTERS);
    visitors_end(visitors);
}

/* --- a test of each kind --- */

#define MOVES(kind)                                                                                                    \
    EVERY_RUN(kind, follows_its_slot, 0)                                                                               \
    EVERY_RUN(kind, is_acquired_while_its_slot_moves, 0)

#define CLUSTER_SUITE(kind)                                                                                            \
    TestSuite(every_kind_##kind, .init = every_cluster_begin, .fini = every_cluster_end, .timeout = 120);
#define CALLS(kind)                                                                                                    \
    Test(every_kind_##kind, calls_in_a_cluster)                                                                        \
    {                                                                                                                  \
        EACH_PROMISE_OF_CALLS(EVERY_RUN, kind)                                                                         \
        EACH_PROMISE_OF_LOST_ANSWERS(EVERY_RUN, kind)                                                                  \
        EACH_PROMISE_OF_RESTARTS(EVERY_RUN, kind)                                                                      \
        MOVES(kind)                                                                                                    \
    }
#define HOLDS(kind)                                                                                                    \
    Test(every_kind_##kind, holds_in_a_cluster)                                                                        \
    {                                                                                                                  \
        EACH_PROMISE_OF_KILLS(EVERY_RUN, kind)                                                                         \
        EACH_PROMISE_OF_HOLDS(EVERY_RUN, kind)                                                                         \
        EVERY_RUN(kind, is_renewed_where_its_slot_is, 0)                                                               \
    }

EACH_KIND(CLUSTER_SUITE)
EACH_KIND(CALLS)
EACH_LOCK(HOLDS)
