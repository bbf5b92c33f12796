/* Passing a lock on within a process, with every disturbance of the local queue: many threads, three processes, nested
 * holds, waits that are cancelled or time out, a loss. For Redis a process is one waiter, however many threads it
 * has. */
#include "fixture.h"

#include "support/history.h"
#include "support/order.h"

#include <pthread.h>
#include <stdatomic.h>

static void start(void)
{
    fault_up(0);
}

TestSuite(handoff_local, .init = start, .fini = fixture_end, .timeout = 120);

static int64_t in_queue(void)
{
    return raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15");
}

static hlk_client *open_with(int local_passes)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.local_passes = local_passes;
    return fixture_open(&opts);
}

/* --- threads that take turns */

struct player {
    pthread_t thread;
    hlk_lock *lock;
    struct history *history;
    struct order *order; /* NULL: not recorded */
    atomic_int *turn;    /* incremented while it is held */
    atomic_bool *stop;
    int who, rounds, depth; /* rounds 0: until *stop */
    int got_turn;           /* of its last hold */
};

static void become_head(struct player *p)
{
    for (int i = 0; i < p->depth; i++)
        if (hlk_lock_acquire(p->lock, HLK_FOREVER) != HLK_OK)
            test_give_up("thread %d: %s", p->who, hlk_last_error());
    struct hold *hold = history_acquired(p->history, p->who, 0, hlk_lock_held_until(p->lock));
    p->got_turn = atomic_fetch_add(p->turn, 1);
    if (p->order)
        order_note(p->order, p->lock);
    for (int i = 1; i < p->depth; i++)
        if (hlk_lock_release(p->lock) != HLK_OK)
            test_give_up("thread %d: %s", p->who, hlk_last_error());
    history_released(hold);
    if (hlk_lock_release(p->lock) != HLK_OK)
        test_give_up("thread %d: %s", p->who, hlk_last_error());
}

static void *play(void *arg)
{
    struct player *p = arg;
    for (int i = 0; p->rounds ? i < p->rounds : !atomic_load(p->stop); i++)
        become_head(p);
    return NULL;
}

static void player_start(struct player *p)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    if (pthread_create(&p->thread, &small, play, p) != 0)
        test_give_up("no thread");
    pthread_attr_destroy(&small);
}

Test(handoff_local, of_1000_threads_needs_one_ticket_and_keeps_order)
{
    enum { THREADS = 1000 };
    static struct player players[THREADS];
    struct history *history = history_create(2 * THREADS);
    atomic_int turn = 0;
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 0; i < THREADS; i++) {
        players[i] =
            (struct player){ .lock = lock, .history = history, .turn = &turn, .who = i, .rounds = 1, .depth = 1 };
        player_start(&players[i]);
        WAIT_FOR_WAITERS(client, i + 1);
    }
    WAIT_FOR(in_queue() == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(players[i].thread, NULL);
        cr_assert_eq(players[i].got_turn, i);
    }
    cr_assert(history_check(history));
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.acquired, (uint64_t)THREADS);
    cr_assert_gt(counters.passed, (uint64_t)THREADS / 4, "%d passed", (int)counters.passed);
    cr_assert_eq(counters.woken_by_ttl, 0u);
    cr_assert_eq(in_queue(), 0);
    cr_assert(is_free("t"));
    history_destroy(history);
}

/* --- clients, in the role of processes */

enum { SIDES = 3, CROWD = 20 };

/* `holds` in total. Each process may pass the lock on `passes` times in one turn, and turns follow Redis' queue. */
static void contest(int local_passes, int passes, int depth, int holds, struct hlk_counters counters[SIDES])
{
    static struct player players[SIDES * CROWD];
    struct history *history = history_create(1 << 20);
    struct order *order = order_create(1 << 16, fixture.server, "ZRANGEBYSCORE hasplock_queue:{t} 1 1e15 LIMIT 0 1");
    size_t called;
    atomic_int turn = 0;
    atomic_bool stop = false;
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *clients[SIDES];
    for (int side = 0; side < SIDES; side++) {
        clients[side] = open_with(local_passes);
        hlk_lock *lock = fixture_lock(clients[side], "t", NULL);
        for (int i = 0; i < CROWD; i++) {
            struct player *p = &players[side * CROWD + i];
            *p = (struct player){ .lock = lock, .history = history, .order = order, .turn = &turn, .stop = &stop };
            p->depth = depth;
            p->who = side * CROWD + i;
            player_start(p);
        }
        WAIT_FOR_WAITERS(clients[side], CROWD);
    }
    WAIT_FOR(in_queue() == SIDES);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    WAIT_FOR(atomic_load(&turn) >= holds);
    atomic_store(&stop, true);
    for (int i = 0; i < SIDES * CROWD; i++)
        pthread_join(players[i].thread, NULL);
    for (int side = 0; side < SIDES; side++)
        cr_assert_eq((counters[side] = fixture_counters(clients[side])).woken_by_ttl, 0u);
    cr_assert(history_check(history));
    cr_assert(order_check(order, passes, &called));
    cr_assert_gt(called, 10u, "there was a queue");
    cr_assert_gt(history_shares(history, 0, SIDES * CROWD).min, 0u);
    cr_assert(is_free("t"));
    order_destroy(order);
    history_destroy(history);
}

Test(handoff_local, is_fair_between_processes)
{
    struct hlk_counters counters[SIDES];
    contest(0, 128, 1, 10000, counters);
    for (int side = 0; side < SIDES; side++)
        cr_assert_gt(counters[side].passed, 0u);
}

Test(handoff_local, goes_on_for_as_many_passes_as_were_set)
{
    struct hlk_counters counters[SIDES];
    contest(3, 3, 1, 4000, counters);
    for (int side = 0; side < SIDES; side++)
        cr_assert_gt(counters[side].passed, 0u);
}

Test(handoff_local, that_is_switched_off_goes_by_redis_each_time)
{
    struct hlk_counters counters[SIDES];
    contest(-1, 0, 1, 4000, counters);
    for (int side = 0; side < SIDES; side++) {
        cr_assert_eq(counters[side].passed, 0u);
        cr_assert_gt(counters[side].granted, 0u);
    }
}

Test(handoff_local, of_nested_holds_waits_for_the_outermost_release)
{
    struct hlk_counters counters[SIDES];
    contest(0, 128, 3, 4000, counters);
    for (int side = 0; side < SIDES; side++) {
        cr_assert_gt(counters[side].passed, 0u);
        cr_assert_eq(counters[side].reentered, 2 * counters[side].acquired);
    }
}

/* --- waiters that leave, and a loss */

/* Of 30 queued waiters a third is cancelled and a third times out. The others have it one after the other. */
Test(handoff_local, goes_past_those_who_left_the_queue)
{
    enum { ALL = 30 };
    struct actor *actors[ALL];
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    for (int i = 0; i < ALL; i++) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.cancel = i % 3 == 0 ? cancel : NULL; /* also the head waiter */
        opts.wait_ms = i % 3 == 1 ? 300 : HLK_FOREVER;
        actors[i] = actor_start(lock, &opts);
        WAIT_FOR(in_queue() == 1 && (fixture_counters(client).waiting >= 1));
    }
    hlk_cancel_trigger(cancel);
    for (int i = 0; i < ALL; i++)
        if (i % 3 != 2) {
            cr_assert_eq(actor_status(actors[i]), i % 3 == 0 ? HLK_INTERRUPTED : HLK_TIMEOUT, "%s",
                         actor_error(actors[i]));
            cr_assert(i % 3 == 0 || actor_took_ms(actors[i]) >= 300);
            actor_leave(actors[i]);
        }
    WAIT_FOR_WAITERS(client, ALL / 3);
    WAIT_FOR(in_queue() == 1);
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    struct actor *rest[ALL / 3];
    for (int i = 0; i < ALL / 3; i++)
        rest[i] = actors[3 * i + 2];
    for (int done = 0; done < ALL / 3; done++) {
        int answered, first;
        WAIT_FOR((first = actors_answered(rest, ALL / 3, &answered), answered > 0));
        cr_assert_eq(answered, 1);
        cr_assert_eq(actor_status(rest[first]), HLK_OK, "%s", actor_error(rest[first]));
        cr_assert_eq(actor_end(rest[first]), HLK_OK);
        rest[first] = NULL;
    }
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    cr_assert_eq(in_queue(), 0);
    cr_assert(is_free("t"));
    hlk_cancel_destroy(cancel);
}

/* The hold of one thread is broken while others of its process are queued. That thread has lost it. The next one gets a
 * hold of its own, not the rest of the broken one. */
Test(handoff_local, passes_on_no_hold_that_was_lost)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000; /* it learns of the break from its next renewal, because it has no subscription yet */
    hlk_client *client = fixture_open(&opts), *other = bystander();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_owner *owner = hlk_owner_create(client, "loser");
    hlk_lock *lost = fixture_owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(lost, HLK_NOWAIT), HLK_OK);
    struct actor *actors[2] = { actor_start(lock, NULL), actor_start(lock, NULL) };
    WAIT_FOR_WAITERS(client, 2);
    struct actor *behind = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(in_queue() == 1);
    cr_assert_eq(hlk_lock_break(fixture_lock(other, "t", NULL)), HLK_OK);
    cr_assert_eq(actor_status(behind), HLK_OK, "the first in Redis' queue: %s", actor_error(behind));
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_left_ms(lost), 0);
    cr_assert_eq(hlk_lock_release(lost), HLK_LOST);
    WAIT_FOR(in_queue() == 1); /* the two others, with a new hold id */
    cr_assert_not(actor_answered(actors[0]) || actor_answered(actors[1]));
    cr_assert_eq(actor_end(behind), HLK_OK);
    for (int i = 0; i < 2; i++) {
        int answered, first;
        WAIT_FOR((first = actors_answered(actors, 2, &answered), answered > 0));
        cr_assert_eq(answered, 1);
        cr_assert_eq(actor_end(actors[first]), HLK_OK);
        actors[first] = NULL;
    }
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 1u);
    cr_assert(is_free("t"));
    hlk_owner_destroy(owner);
}
