/* A server with queued waiters is restarted, with its data and without, or refuses to write when they join and when the
 * lock is to be handed over. Each waiter gets the lock once, in the order that was kept, and none waits for a lease. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

static void start(void)
{
    fault_up(SERVER_AOF);
}

TestSuite(handoff_server, .init = start, .fini = fixture_end, .timeout = 90);

enum { WAITERS = 3, SOON_MS = 6000 }; /* shorter than a lease of 30 s */

struct queue {
    hlk_client *holder, *clients[WAITERS];
    hlk_lock *lock;
    struct actor *waiters[WAITERS];
};

static hlk_client *open_patient(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = -1;
    return fixture_open(&opts);
}

static int64_t in_queue(void)
{
    return raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15");
}

static void line_up(struct queue *q)
{
    q->holder = open_patient();
    q->lock = fixture_lock(q->holder, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(q->lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < WAITERS; i++) {
        q->clients[i] = open_patient();
        q->waiters[i] = actor_start(fixture_lock(q->clients[i], "t", NULL), NULL);
        WAIT_FOR(in_queue() == i + 1);
    }
}

/* Each has it in turn, alone. */
static void have_their_turns(struct queue *q, int64_t released_at_ms)
{
    for (int i = 0; i < WAITERS; i++) {
        int answered, first;
        WAIT_FOR((first = actors_answered(q->waiters, WAITERS, &answered), answered > 0));
        cr_assert_eq(answered, 1);
        cr_assert_eq(first, i, "in the order they came");
        cr_assert_lt(running_between_ms(released_at_ms, actor_answered_at_ms(q->waiters[i])), SOON_MS);
        cr_assert_eq(actor_status(q->waiters[i]), HLK_OK, "%s", actor_error(q->waiters[i]));
        cr_assert_eq(actor_end(q->waiters[i]), HLK_OK);
        q->waiters[i] = NULL;
    }
    cr_assert(is_free("t"));
    cr_assert_eq(in_queue(), 0);
}

Test(handoff_server, that_returns_with_data_serves_its_queue_in_order)
{
    struct queue q;
    line_up(&q);
    fixture_restart(NULL, true);
    cr_assert_eq(in_queue(), WAITERS);
    WAIT_FOR(raw_inboxes(fixture.redis) == WAITERS); /* a waiter without a subscription counts as dead */
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(q.lock), HLK_OK, "%s", hlk_last_error());
    have_their_turns(&q, released_at);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* In the order in which they send. */
Test(handoff_server, that_comes_back_empty_serves_each_waiter_once)
{
    struct queue q;
    line_up(&q);
    int64_t began = test_now_ms();
    fixture_restart(NULL, false);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    for (int i = 0; i < WAITERS; i++) {
        int answered, first;
        WAIT_FOR((first = actors_answered(q.waiters, WAITERS, &answered), answered > 0));
        cr_assert_eq(answered, 1);
        cr_assert_eq(actor_status(q.waiters[first]), HLK_OK, "%s", actor_error(q.waiters[first]));
        cr_assert_lt(running_between_ms(began, actor_answered_at_ms(q.waiters[first])), SOON_MS);
        cr_assert_eq(actor_end(q.waiters[first]), HLK_OK);
        q.waiters[first] = NULL;
    }
    cr_assert_eq(hlk_lock_release(q.lock), HLK_LOST);
    cr_assert(is_free("t"));
    cr_assert_eq(in_queue(), 0);
}

/* --- refuses */

/* The first one is queued. The next one cannot join, and is served when it can. */
static void refuses_to_join(const char *refuse, const char *allow)
{
    hlk_client *holder = open_patient(), *client = open_patient();
    hlk_lock *lock = fixture_lock(holder, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, refuse);
    int64_t refused = raw_stat(fixture.redis, "total_error_replies");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_stat(fixture.redis, "total_error_replies") > refused);
    cr_assert_eq(in_queue(), 0);
    cr_assert_not(actor_answered(waiter));
    raw(fixture.redis, allow);
    WAIT_FOR(in_queue() == 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

Test(handoff_server, that_is_full_is_joined_when_it_is_not)
{
    refuses_to_join("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

Test(handoff_server, without_replicas_is_joined_when_it_has_them)
{
    refuses_to_join("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0");
}

Test(handoff_server, that_is_full_passes_on_in_order)
{
    struct queue q;
    line_up(&q);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(q.lock), HLK_OK, "%s", hlk_last_error());
    have_their_turns(&q, released_at);
    raw(fixture.redis, "CONFIG SET maxmemory 0");
}

/* No write is possible. The release is repeated until it succeeds, and then it is a pass. */
Test(handoff_server, without_replicas_passes_on_when_it_has_them)
{
    struct queue q;
    line_up(&q);
    char held[192];
    snprintf(held, sizeof held, "%s", raw_holder(fixture.redis, "t"));
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 1");
    int64_t refused = raw_stat(fixture.redis, "total_error_replies");
    cr_assert_eq(hlk_lock_release_async(q.lock, NULL, NULL), HLK_OK);
    WAIT_FOR(raw_stat(fixture.redis, "total_error_replies") > refused);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), held);
    cr_assert_eq(in_queue(), WAITERS);
    int64_t allowed_at = test_now_ms();
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 0");
    have_their_turns(&q, allowed_at);
}
