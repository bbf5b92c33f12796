/* The fair lock: first come, first served, over all processes and their threads; and what waiters leave behind. */
/* Shows: P23 */
#include "integration/fair_fixture.h"

#include "support/order.h"

TestSuite(fair, .init = fair_start, .fini = fixture_end, .timeout = 90);

/* --- holding */

Test(fair, is_reentrant_and_leaves_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL), *other = fair_lock(client, "t", NULL);
    char hold[192];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(other, HLK_FOREVER), HLK_OK, "another handle, the same holder");
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), hold);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_held_until(lock), 0);
    cr_assert_str_eq(hlk_lock_name(lock), "t");
}

/* asks A5 redisson 3349 */
Test(fair, without_waiters_takes_two_commands_and_no_message)
{
    hlk_lock *lock = fair_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK); /* the scripts are loaded now */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "CONFIG RESETSTAT");
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(script_calls(), 20);
    cr_assert_null(strstr(raw(fixture.redis, "INFO commandstats"), "cmdstat_publish:"));
}

/* The hold belongs to the thread. It keeps references to what it needs, and any other handle can release it. */
Test(fair, outlives_the_handle_it_was_taken_through)
{
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    opts.watchdog_ms = 3000;
    lock_opts.kind = HLK_LOCK_FAIR;
    lock_opts.on_event = fixture_on_event;
    hlk_client *client = fixture_open(&opts);
    for (int lost = 0; lost < 2; lost++) {
        hlk_lock *lock = hlk_lock_create(client, "t", &lock_opts), *other = fair_lock(client, "t", NULL);
        cr_assert_geq(hlk_lock_lost_fd(lock), 0);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        hlk_lock_destroy(lock);
        cr_assert_eq(hlk_lock_holds(other), 1);
        if (lost) {
            raw(fixture.redis, "DEL t");
            (void)fixture_wait_event(HLK_EVENT_LOST, "t");
        }
        cr_assert_eq(hlk_lock_release(other), lost ? HLK_LOST : HLK_OK);
        cr_assert_eq(hlk_lock_release(other), HLK_NOT_HOLDER);
    }
}

Test(fair, with_fixed_leases_nests_and_raises)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_lock *lock = fair_lock(client, "t", NULL);
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    opts.lease_ms = 120000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 60000);
    cr_assert_str_eq(raw(fixture.redis, "HVALS t"), "[\"2\"]");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(raw(fixture.redis, "HVALS t"), "[\"1\"]");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
}

Test(fair, a_long_wait_leaves_a_fixed_lease_whole)
{
    hlk_client *holder = fixture_open(NULL), *client = fixture_open(NULL);
    hlk_owner *owners[2] = { hlk_owner_create(holder, "holder"), hlk_owner_create(client, "waiter") };
    hlk_lock *held = fair_lock(holder, "t", owners[0]), *lock = fair_lock(client, "t", owners[1]);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 2000;
    struct actor *waiter = actor_start(lock, &opts);
    WAIT_FOR(queued() == 1 && hears_grants(client));
    test_sleep_ms(650);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_geq(hlk_lock_held_until(lock), released_at + 2000 - 242);
    cr_assert_leq(hlk_lock_held_until(lock), test_now_ms() + raw_pttl(fixture.redis, "t"), "never longer than Redis'");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    hlk_owner_destroy(owners[0]);
    hlk_owner_destroy(owners[1]);
}

Test(fair, an_owners_threads_share_its_hold)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    hlk_lock *lock = fair_lock(client, "t", owner);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *one = actor_start(lock, NULL), *two = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 2);
    WAIT_FOR(queued() == 1);
    struct waiter first = first_waiter();
    WAIT_FOR(listens(first.name));
    raw(fixture.redis, "DEL t");
    call(first.name);
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(actor_end(one), HLK_OK);
    cr_assert_eq(actor_end(two), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(fair, is_released_without_waiting)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

/* --- order */

Test(fair, serves_threads_of_all_clients_in_order_of_arrival)
{
    enum { THREADS = 9, CLIENTS = 3 };
    hlk_client *clients[CLIENTS];
    struct actor *waiters[THREADS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_open(NULL);
    hlk_lock *held = fair_lock(clients[0], "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        start_waiters(clients[i * i % CLIENTS], &waiters[i], 1);
    cr_assert_eq(raw_int(fixture.redis, "ZCARD " SCORES), THREADS);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    for (int i = 0; i < THREADS; i++) {
        int answered = 0;
        cr_assert_eq(actor_status(waiters[i]), HLK_OK);
        cr_assert_eq(actors_answered(waiters, THREADS, &answered), i);
        cr_assert_eq(answered, 1);
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
        waiters[i] = NULL;
    }
    for (int i = 0; i < CLIENTS; i++)
        cr_assert_eq(fixture_counters(clients[i]).woken_by_ttl, 0u, "each was called");
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(fair, a_try_does_not_pass_by_those_who_wait)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    struct actor *waiter;
    hlk_lock *held = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    start_waiters(elsewhere, &waiter, 1);
    cr_assert_eq(fixture_try(fair_lock(client, "t", NULL)), HLK_BUSY);
    cr_assert_eq(queued(), 1, "a try takes no place");
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* All threads acquire and release as fast as they can: never two at a time, and in the order of the queue. (All clients
 * are subscribed before it begins. A client that is still subscribing for its first wait is passed over, and is the
 * next.) */
struct turns {
    hlk_lock *lock;
    struct history *history;
    struct order *order;
    int who, times;
};

static void *take_turns(void *arg)
{
    struct turns *turns = arg;
    for (int i = 0; i < turns->times; i++) {
        if (hlk_lock_acquire(turns->lock, HLK_FOREVER) != HLK_OK)
            test_give_up("%s", hlk_last_error());
        struct hold *hold = history_acquired(turns->history, turns->who, 0, hlk_lock_held_until(turns->lock));
        order_note(turns->order, turns->lock);
        history_released(hold);
        if (hlk_lock_release(turns->lock) != HLK_OK)
            test_give_up("%s", hlk_last_error());
    }
    return NULL;
}

Test(fair, lets_everybody_in_by_the_queue_and_nobody_together)
{
    enum { CLIENTS = 3, EACH = 3, WHOS = CLIENTS * EACH, TIMES = 400, ALL = WHOS * TIMES };
    struct turns turns[WHOS];
    pthread_t threads[WHOS];
    struct history *history = history_create(ALL);
    struct order *order = order_create(ALL, fixture.server, "LINDEX " QUEUE " 0");
    size_t called;
    for (int i = 0; i < WHOS; i++)
        turns[i] = (struct turns){ NULL, history, order, i, TIMES };
    for (int c = 0; c < CLIENTS; c++) {
        hlk_client *client = fixture_open(NULL);
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        fixture_wait_in_vain(fair_lock(client, "t", NULL), client);
        raw(fixture.redis, "DEL t");
        WAIT_FOR(hears_grants(client) && no_queue());
        for (int i = 0; i < EACH; i++)
            turns[c * EACH + i].lock = fair_lock(client, "t", NULL);
    }
    for (int i = 0; i < WHOS; i++)
        pthread_create(&threads[i], NULL, take_turns, &turns[i]);
    for (int i = 0; i < WHOS; i++)
        pthread_join(threads[i], NULL);
    cr_assert(history_check(history));
    cr_assert(order_check(order, 0, &called));
    cr_assert_gt(called, TIMES, "there was a queue");
    order_destroy(order);
    history_destroy(history);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

/* --- leaving */

Test(fair, a_wait_that_times_out_leaves_its_ticket)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, 200), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began, 200);
    cr_assert_not_null(strstr(hlk_last_error(), "b983c153-7421-469a-addb-44fb92259a1b:1"), "%s", hlk_last_error());
    WAIT_FOR(no_queue());
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A1 redisson 1104...: an interrupted waiter of Redisson's stays in the queue */
Test(fair, an_interrupted_wait_leaves_its_ticket)
{
    hlk_client *client = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fair_lock(client, "t", NULL), &opts), *patient;
    WAIT_FOR(queued() == 1);
    start_waiters(client, &patient, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    WAIT_FOR(queued() == 1);
    cr_assert_eq(raw_int(fixture.redis, "ZCARD " SCORES), 1);
    cr_assert_not(actor_answered(patient));
    actor_cancel(patient);
    cr_assert(actor_join_cancelled(patient));
    WAIT_FOR(no_queue());
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    hlk_cancel_destroy(cancel);
    raw(fixture.redis, "DEL t");
}

static void on_signal(int sig)
{
    (void)sig;
}

Test(fair, a_wait_ended_by_a_signal_leaves_its_ticket)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.flags = HLK_ACQUIRE_EINTR;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fair_lock(client, "t", NULL), &opts);
    WAIT_FOR(queued() == 1);
    while (!actor_answered(waiter)) { /* a signal just before it sleeps has no effect, as documented */
        actor_signal(waiter, SIGUSR1);
        test_sleep_ms(5);
    }
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    WAIT_FOR(no_queue());
    raw(fixture.redis, "DEL t");
}

/* The woken waiter leaves at that moment: the next one is woken. */
Test(fair, who_leaves_when_it_is_called_hands_the_call_on)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    for (int i = 0; i < 30; i++) {
        hlk_cancel *cancel = hlk_cancel_create(elsewhere);
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.cancel = cancel;
        hlk_lock *held = fair_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
        struct actor *second, *first = actor_start(fair_lock(elsewhere, "t", NULL), &opts);
        WAIT_FOR(queued() == 1);
        start_waiters(elsewhere, &second, 1);
        cr_assert_eq(hlk_lock_release_async(held, NULL, NULL), HLK_OK);
        hlk_cancel_trigger(cancel);
        enum hlk_status status = actor_end(first);
        cr_assert(status == HLK_INTERRUPTED || status == HLK_OK);
        cr_assert_eq(actor_end(second), HLK_OK);
        hlk_cancel_destroy(cancel);
    }
    cr_assert_eq(fixture_counters(elsewhere).woken_by_ttl, 0u);
}

Test(fair, close_ends_waits_and_gives_back_holds)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    struct actor *waiters[2], *other;
    hlk_lock *held = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    start_waiters(client, waiters, 2);
    start_waiters(elsewhere, &other, 1);
    fixture_close(client);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_E_CLOSED);
    cr_assert_eq(actor_end(other), HLK_OK);
    cr_assert_eq(fixture_counters(elsewhere).woken_by_ttl, 0u);
}

/* --- queries */

Test(fair, query_counts_tickets_in_the_queue)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct actor *waiters[3];
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.held, 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    start_waiters(client, waiters, 2);
    start_waiters(elsewhere, &waiters[2], 1);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(state.mine, 1);
    cr_assert_eq(state.waiting, 3);
    cr_assert_eq(state.count, 1);
    struct hlk_waiter places[2] = { { .size = sizeof places[0] } };
    size_t n = 0;
    cr_assert_eq(hlk_lock_waiters(lock, places, 2, &n), HLK_OK);
    cr_assert_eq(n, 3);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(strncmp(places[i].holder, hlk_client_id(client), strlen(hlk_client_id(client))), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
}

/* --- one name, two kinds of lock: a mistake, which is logged, and which leaves no waiter asleep */

/* Shows: S25 */
Test(fair, wakes_waiters_for_a_plain_lock_and_logs_the_mix)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *held = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct actor *plain = actor_start(fixture_lock(elsewhere, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_not(fixture_logged("used as a fair lock and as a plain"));
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(plain), HLK_OK);
    cr_assert_eq(fixture_counters(elsewhere).woken_by_ttl, 0u);
    WAIT_FOR(fixture_logged("lock \"t\" is used as a fair lock and as a plain"));
    cr_assert_eq(actor_end(plain), HLK_OK);
}

/* Shows: S25 */
Test(fair, behind_a_plain_lock_asks_each_5_s_and_logs_the_mix)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *held = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct actor *plain = actor_start(fixture_lock(elsewhere, "t", NULL), NULL), *fair;
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    start_waiters(client, &fair, 1);
    WAIT_FOR(fixture_logged("lock \"t\" is used as a fair lock and as a plain"));
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(plain), HLK_OK);
    int64_t began = test_now_ms();
    cr_assert_eq(actor_end(plain), HLK_OK);
    cr_assert_eq(actor_status(fair), HLK_OK);
    cr_assert_lt(running_ms(began), 15000, "not for the 30 s that the ttl had been");
    cr_assert_eq(actor_end(fair), HLK_OK);
}

/* A plain lock of the same name in the same process has an entry of its own. (They exclude each other in Redis.
 * docs/protocol.md forbids two kinds on one name.) */
Test(fair, shares_no_process_state_with_a_plain_lock)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *fair = fair_lock(client, "t", NULL), *plain = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(fair, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_holds(plain), 0);
    cr_assert_eq(hlk_lock_release(plain), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(plain, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(fair), HLK_OK);
}
