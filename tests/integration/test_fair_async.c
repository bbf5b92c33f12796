/* The fair lock with completions: owners without a blocked thread have tickets in the same queue. Each test runs in
 * both modes (async.h). */
/* Shows: P23 */
#include "integration/async_fixture.h"
#include "integration/fair_fixture.h"

TestSuite(fair_async_events, .init = fair_start, .fini = fixture_end, .timeout = 90);
TestSuite(fair_async_dispatch, .init = fair_start, .fini = fixture_end, .timeout = 90);
TestSuite(fair_async_wire, .init = fair_start_proxied, .fini = fixture_end, .timeout = 90);

#define BOTH(name) IN_BOTH_MODES(fair_async_events, fair_async_dispatch, name)

/* Starts a wait without limit, and waits until it has a ticket. */
static void start_async(hlk_lock *lock, hlk_cancel *cancel, struct done *done)
{
    int64_t before = queued();
    acquire(lock, HLK_FOREVER, cancel, done);
    LOOP_UNTIL(queued() == before + 1 && hears_grants(loop_client));
}

/* As a release by a client of Redisson's: the lock is free, and the first waiter is woken. */
static void java_releases(void)
{
    struct waiter first = first_waiter();
    LOOP_UNTIL(listens(first.name));
    raw(fixture.redis, "DEL t");
    call(first.name);
}

/* Waits until the client sends nothing any more: three times in a row only this function's own commands were
 * counted. */
static void settle(hlk_client *client)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *other = fair_lock(client, "t2", NULL);
    for (int quiet = 0; quiet < 3;) {
        uint64_t commands = fixture_counters(client).commands;
        for (int i = 0; i < 3; i++)
            cr_assert_eq(hlk_lock_query(other, &state), HLK_OK);
        LOOP_UNTIL(true);
        quiet = fixture_counters(client).commands == commands + 3 ? quiet + 1 : 0;
    }
}

/* --- holding */

BOTH(a_free_lock_is_got_at_once)
{
    static struct done acquired, released, again;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    char hold[192];
    acquire(lock, HLK_NOWAIT, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK, "%s", acquired.error);
    cr_assert_eq(acquired.lock, lock);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), hold);
    cr_assert_eq(fixture_try(fair_lock(client, "t", NULL)), HLK_BUSY);
    release(lock, &released);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    acquire(lock, HLK_NOWAIT, NULL, &again); /* sent after the release */
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(result(&again), HLK_OK, "%s", again.error);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_owner_destroy(owner);
}

/* Also when the release must be sent again because its script was lost, and the acquire behind it runs first. */
BOTH(a_try_is_not_busy_by_its_own_release)
{
    static struct done acquired, tried;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner), *other = fair_lock(client, "t2", NULL);
    acquire(lock, HLK_NOWAIT, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK); /* makes its script known again */
    release(lock, NULL);
    acquire(lock, HLK_NOWAIT, NULL, &tried);
    cr_assert_eq(result(&tried), HLK_OK, "%s", tried.error);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    hlk_owner_destroy(owner);
}

BOTH(a_held_lock_nests_and_raises_its_lease)
{
    static struct done done[2], released[2];
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    for (int i = 0; i < 2; i++) {
        opts.lease_ms = 60000 * (i + 1);
        cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &done[i]), HLK_OK);
        cr_assert_eq(result(&done[i]), HLK_OK, "%s", done[i].error);
    }
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 60000);
    cr_assert_str_eq(raw(fixture.redis, "HVALS t"), "[\"2\"]");
    for (int i = 0; i < 2; i++) {
        release(lock, &released[i]);
        cr_assert_eq(result(&released[i]), HLK_OK);
    }
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

BOTH(calls_of_one_owner_share_one_place_and_one_hold)
{
    static struct done one, two, three;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, NULL, &one);
    acquire(lock, HLK_FOREVER, NULL, &two);
    acquire(lock, HLK_NOWAIT, NULL, &three);
    cr_assert_eq(result(&three), HLK_BUSY);
    cr_assert_eq(fixture_counters(client).waiting, 2u);
    cr_assert_eq(queued(), 1);
    java_releases();
    cr_assert_eq(result(&one), HLK_OK);
    cr_assert_eq(result(&two), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    release(lock, NULL);
    release(lock, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

/* --- order */

BOTH(waits_in_one_queue_with_those_who_block)
{
    enum { WAITS = 8 };
    static struct done done[WAITS];
    struct actor *actors[WAITS] = { NULL };
    hlk_owner *owners[WAITS];
    hlk_lock *locks[WAITS], *held = fair_lock(client, "t", NULL);
    hlk_client *elsewhere = fixture_open(NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < WAITS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        locks[i] = fair_lock(client, "t", owners[i]);
        if (i % 2)
            start_waiters(i % 4 == 1 ? client : elsewhere, &actors[i], 1);
        else
            start_async(locks[i], NULL, &done[i]);
    }
    cr_assert_eq(raw_int(fixture.redis, "ZCARD " SCORES), WAITS);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    for (int i = 0; i < WAITS; i++) {
        LOOP_UNTIL(actors[i] ? actor_answered(actors[i]) : atomic_load(&done[i].runs) > 0);
        cr_assert_eq(actors[i] ? actor_status(actors[i]) : result(&done[i]), HLK_OK);
        cr_assert_eq(queued(), WAITS - 1 - i);
        for (int j = i + 1; j < WAITS; j++)
            cr_assert_not(actors[j] ? actor_answered(actors[j]) : atomic_load(&done[j].runs) > 0);
        if (actors[i])
            cr_assert_eq(actor_end(actors[i]), HLK_OK);
        else
            release(locks[i], NULL);
        hlk_owner_destroy(owners[i]);
    }
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u, "each was called");
}

/* The first command takes the ticket, whether the inbox is subscribed or not. So the order is that of the calls, and of
 * the hold ids. */
/* Shows: S17 */
BOTH(keeps_calls_in_order_while_its_subscriber_is_down)
{
    enum { WAITS = 50 };
    static struct done first, done[WAITS];
    hlk_owner *owners[WAITS], *owner = hlk_owner_create(client, "first");
    hlk_lock *locks[WAITS], *held = fair_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < WAITS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        locks[i] = fair_lock(client, "t", owners[i]);
    }
    start_async(fair_lock(client, "t", owner), NULL, &first);
    raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    for (int i = 0; i < WAITS; i++)
        acquire(locks[i], HLK_FOREVER, NULL, &done[i]);
    LOOP_UNTIL(queued() == WAITS + 1 && hears_grants(client));
    redisReply *queue = redisCommand(fixture.redis, "LRANGE " QUEUE " 0 -1");
    long long before = 0;
    for (size_t i = 0; i < queue->elements; i++) {
        long long hold = atoll(strrchr(queue->element[i]->str, ':') + 1);
        cr_assert_gt(hold, before, "place %zu", i);
        before = hold;
    }
    freeReplyObject(queue);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(result(&first), HLK_OK);
    release(first.lock, NULL);
    for (int i = 0; i < WAITS; i++) {
        cr_assert_eq(result(&done[i]), HLK_OK);
        cr_assert(i == 0 || atomic_load(&done[i].order) > atomic_load(&done[i - 1].order), "owner %d", i);
        release(locks[i], NULL);
        hlk_owner_destroy(owners[i]);
    }
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

/* The lock becomes free at once, before the earlier waiters know it. */
BOTH(passes_no_older_call_while_its_subscriber_is_down)
{
    enum { WAITS = 30 };
    static struct done done[WAITS];
    hlk_owner *owners[WAITS];
    hlk_lock *locks[WAITS];
    hlk_lock *first =
        fair_lock(fixture_open(NULL), "t", NULL); /* makes the script known: a first call would be sent twice */
    cr_assert_eq(hlk_lock_acquire(first, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < WAITS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        locks[i] = fair_lock(client, "t", owners[i]);
    }
    for (int i = 0; i < WAITS; i++) {
        if (i == WAITS / 2) {
            WAIT_FOR(queued() == WAITS / 2);
            raw(fixture.redis, "CLIENT KILL TYPE pubsub");
            raw(fixture.redis, "DEL t");
        }
        acquire(locks[i], HLK_FOREVER, NULL, &done[i]);
    }
    for (int i = 0; i < WAITS; i++) {
        cr_assert_eq(result(&done[i]), HLK_OK);
        cr_assert(i == 0 || atomic_load(&done[i].order) > atomic_load(&done[i - 1].order), "owner %d", i);
        release(locks[i], NULL);
        hlk_owner_destroy(owners[i]);
    }
    LOOP_UNTIL(raw_int(fixture.redis, "EXISTS t " QUEUE " " SCORES) == 0);
    raw(fixture.redis, "DEL hasplock_fair:{t}");
}

BOTH(a_try_takes_no_place_and_does_not_pass_by)
{
    static struct done waits, tries;
    hlk_owner *owner = hlk_owner_create(client, "order"), *other = hlk_owner_create(client, "other");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, NULL, &waits);
    raw(fixture.redis, "DEL t"); /* free, without a message */
    acquire(fair_lock(client, "t", other), HLK_NOWAIT, NULL, &tries);
    cr_assert_eq(result(&tries), HLK_BUSY);
    cr_assert_eq(result(&waits), HLK_OK, "the try hands it to the first");
    release(lock, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
    hlk_owner_destroy(other);
}

/* --- leaving */

BOTH(a_wait_that_times_out_leaves_its_place)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    int64_t began = test_now_ms();
    acquire(lock, 200, NULL, &done);
    cr_assert_eq(result(&done), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began, 200);
    LOOP_UNTIL(no_queue());
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    cr_assert_eq(hlk_lock_acquire(lock, 200), HLK_TIMEOUT);
    const char *said = strstr(done.error, "held by"), *says = strstr(hlk_last_error(), "held by");
    cr_assert(said && says, "%s | %s", done.error, hlk_last_error());
    cr_assert_str_eq(said, says, "as the blocking call says it: %s | %s", done.error, hlk_last_error());
    LOOP_UNTIL(no_queue());
    raw(fixture.redis, "DEL t");
    hlk_owner_destroy(owner);
}

BOTH(a_cancelled_wait_leaves_and_wakes_the_next)
{
    static struct done first, second, late;
    hlk_owner *owner = hlk_owner_create(client, "order"), *other = hlk_owner_create(client, "other");
    hlk_lock *lock = fair_lock(client, "t", owner), *next = fair_lock(client, "t", other);
    hlk_cancel *cancel = hlk_cancel_create(client);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, cancel, &first);
    start_async(next, NULL, &second);
    LOOP_UNTIL(listens(first_waiter().name));
    settle(client);              /* it has sent since it was subscribed, so it does not learn that the lock is free */
    raw(fixture.redis, "DEL t"); /* the first one would be next, and leaves */
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&first), HLK_INTERRUPTED);
    cr_assert_not_null(strstr(first.error, "nothing is held or queued"), "%s", first.error);
    cr_assert_eq(result(&second), HLK_OK);
    cr_assert(no_queue());
    acquire(lock, HLK_FOREVER, cancel, &late);
    cr_assert_eq(result(&late), HLK_INTERRUPTED);
    release(next, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
    hlk_owner_destroy(other);
}

BOTH(close_ends_waits_that_leave_their_places)
{
    enum { WAITS = 3 };
    static struct done done[WAITS];
    hlk_client *elsewhere = fixture_open(NULL);
    hlk_owner *owners[WAITS];
    hlk_lock *held = fair_lock(elsewhere, "t", NULL);
    struct actor *other;
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < WAITS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        start_async(fair_lock(client, "t", owners[i]), NULL, &done[i]);
    }
    start_waiters(elsewhere, &other, 1);
    fixture_close(client);
    for (int i = 0; i < WAITS; i++) {
        cr_assert_eq(atomic_load(&done[i].runs), 1, "exactly once, before close returns");
        cr_assert_eq(done[i].status, HLK_E_CLOSED);
        hlk_owner_destroy(owners[i]);
    }
    cr_assert_eq(queued(), 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_end(other), HLK_OK);
    cr_assert_eq(fixture_counters(elsewhere).woken_by_ttl, 0u);
}

BOTH(serves_a_handle_that_is_destroyed_while_it_waits)
{
    static struct done done = { .release = true };
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    opts.kind = HLK_LOCK_FAIR;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, NULL, &done);
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    java_releases();
    cr_assert_eq(result(&done), HLK_OK);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
}

/* --- faults */

/* A waiter of this library in the queue without a subscription: its process is gone. */
BOTH(a_dead_one_before_it_costs_nothing)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *held = fair_lock(client, "t", NULL), *lock = fair_lock(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "RPUSH " QUEUE " hlk-dead:1");
    raw(fixture.redis, "ZADD " SCORES " 99999999999999 hlk-dead:1");
    start_async(lock, NULL, &done);
    cr_assert_str_eq(first_waiter().name, "hlk-dead:1");
    int64_t began = test_now_ms(), calls = script_calls();
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(result(&done), HLK_OK);
    cr_assert_lt(running_ms(began), 1000);
    cr_assert_leq(script_calls() - calls, 2, "the release; on a slow machine the renewal");
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    cr_assert_str_eq(first_waiter().name, "hlk-dead:1", "for 1 s, in case it was only its subscription that broke");
    release(lock, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "EXISTS t") == 0);
    raw(fixture.redis, "DEL " QUEUE " " SCORES " hasplock_fair:{t}");
    hlk_owner_destroy(owner);
}

BOTH(keeps_its_place_when_its_subscriber_was_killed)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, NULL, &done);
    struct waiter waiter = first_waiter();
    for (int round = 0; round < 3; round++) {
        LOOP_UNTIL(listens(waiter.name));
        raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    }
    cr_assert_eq(queued(), 1);
    java_releases();
    cr_assert_eq(result(&done), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    release(lock, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "DBSIZE") == 0);
    hlk_owner_destroy(owner);
}

/* As if its release had been sent while an attempt of its acquire was in doubt. */
BOTH(waits_on_by_a_new_hold_id_when_its_old_one_ended)
{
    static struct done done;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_async(lock, NULL, &done);
    struct waiter old = first_waiter();
    LOOP_UNTIL(listens(old.name));
    raw(fixture.redis, "ZADD hasplock_fair:{t} -1 %s", old.name);
    raw(fixture.redis, "LREM " QUEUE " 0 %s", old.name);
    raw(fixture.redis, "ZREM " SCORES " %s", old.name);
    call(old.name);
    LOOP_UNTIL(queued() == 1);
    cr_assert_str_neq(first_waiter().name, old.name);
    LOOP_UNTIL(listens(first_waiter().name) && !listens(old.name));
    java_releases();
    cr_assert_eq(result(&done), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    release(lock, NULL);
    LOOP_UNTIL(raw_int(fixture.redis, "EXISTS t " QUEUE " " SCORES) == 0);
    raw(fixture.redis, "DEL hasplock_fair:{t}");
    hlk_owner_destroy(owner);
}

BOTH(a_loss_is_told_until_it_is_released)
{
    static struct done got, lost, again, released;
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fair_lock(client, "t", owner);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 200;
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &got), HLK_OK);
    cr_assert_eq(result(&got), HLK_OK);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    acquire(lock, HLK_NOWAIT, NULL, &lost);
    cr_assert_eq(result(&lost), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_str_eq(lost.error, hlk_last_error(), "as the blocking call says it");
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_LOST);
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_NOT_HOLDER);
    LOOP_UNTIL(raw_int(fixture.redis, "EXISTS t") == 0); /* its lease began later there */
    acquire(lock, HLK_NOWAIT, NULL, &again);
    cr_assert_eq(result(&again), HLK_OK);
    raw(fixture.redis, "DEL t");
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_LOST, "found out by the release");
    hlk_owner_destroy(owner);
}

/* Every reply of a whole contended acquire and release is lost once: no hold and no ticket is left. */
Test(fair_async_wire, a_lost_reply_leaves_nothing)
{
    for (uint64_t k = 1; k <= 5; k++) {
        struct done *acquired = calloc(1, sizeof *acquired), *released = calloc(1, sizeof *released);
        struct hlk_client_opts opts = fixture_opts();
        opts.reply_timeout_ms = 200;
        hlk_client *client = fixture_open(&opts);
        hlk_owner *owner = hlk_owner_create(client, "order");
        hlk_lock *lock = fair_lock(client, "t", owner);
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        raw(fixture.redis, "PEXPIRE t 500");
        proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        acquire(lock, k % 2 ? HLK_FOREVER : 20000, NULL, acquired);
        cr_assert_eq(result(acquired), HLK_OK, "%s", acquired->error);
        cr_assert_eq(hlk_lock_holds(lock), 1);
        release(lock, released);
        cr_assert_eq(result(released), HLK_OK, "%s", released->error);
        LOOP_UNTIL(raw_pttl(fixture.redis, "t") == -2 && no_queue());
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
        hlk_owner_destroy(owner);
        fixture_close(client);
        free(acquired);
        free(released);
    }
}
