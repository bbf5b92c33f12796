/* HLK_LOCK_STRING: what is in Redis, hand-off among our clients, behind holders of other libraries, its lease and its
 * end, and what is no such lock. */
/* Shows: P39 */
#include "integration/async_fixture.h"

#include <pthread.h>
#include <stdlib.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(string, .init = start, .fini = fixture_end, .timeout = 90);

enum { LONG_MS = 60000 }; /* a pause that no test waits out */

static hlk_lock *string_lock(hlk_client *client, const char *name)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    return fixture_lock(client, name, &opts);
}

/* Its pauses behind a foreign holder are so long that a wait ends only in another way. */
static hlk_lock *sleepy_lock(hlk_client *client, const char *name)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    opts.backoff_min_ms = opts.backoff_max_ms = LONG_MS;
    return fixture_lock(client, name, &opts);
}

static void foreign_holds(int64_t ttl_ms)
{
    cr_assert_str_eq(raw(fixture.redis, "SET t 1f0b6c7e NX PX %lld", (long long)ttl_ms), "OK");
}

static bool is_foreign(void)
{
    return strcmp(raw(fixture.redis, "GET t"), "\"1f0b6c7e\"") == 0;
}

static void wait_for_tickets(int n)
{
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == n);
}

static struct hlk_client_opts short_watchdog(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    return opts;
}

/* --- what is in Redis */

Test(string, is_a_string_with_a_token_and_a_ttl)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(raw(fixture.redis, "TYPE t"), "string");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 20000);
    cr_assert_eq(strncmp(raw(fixture.redis, "GET t"), "\"hlk-", 5), 0, "%s", raw(fixture.redis, "GET t"));
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
}

Test(string, has_a_new_token_for_each_hold)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    char token[200];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    snprintf(token, sizeof token, "%s", raw(fixture.redis, "GET t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_neq(raw(fixture.redis, "GET t"), token);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- among our clients */

Test(string, excludes_another_client)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t"), *theirs = string_lock(other, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(theirs, 200), HLK_TIMEOUT);
    cr_assert_eq(hlk_lock_release(theirs), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

Test(string, is_handed_over_to_the_first_waiter_with_its_lease)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_lock *lock = string_lock(client, "t");
    opts.lease_ms = 600000;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(sleepy_lock(other, "t"), &opts);
    wait_for_tickets(1);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(other).granted, 1u, "the release gave it the lock");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 500000);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}"), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(string, goes_to_clients_in_the_order_of_their_waits)
{
    enum { CLIENTS = 3 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    struct actor *actors[CLIENTS];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < CLIENTS; i++) {
        actors[i] = actor_start(sleepy_lock(fixture_open(NULL), "t"), NULL);
        wait_for_tickets(i + 1);
    }
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_eq(actor_status(actors[i]), HLK_OK);
        for (int j = i + 1; j < CLIENTS; j++)
            cr_assert_not(actor_answered(actors[j]));
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
    }
}

/* The first of two gives up, the holder is of another library: the second is told that it is the first now. */
Test(string, promotes_the_second_waiter_when_the_first_gives_up)
{
    hlk_client *clients[] = { fixture_open(NULL), fixture_open(NULL) };
    hlk_cancel *cancel = hlk_cancel_create(clients[0]);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    foreign_holds(600000);
    struct actor *first = actor_start(sleepy_lock(clients[0], "t"), &opts);
    wait_for_tickets(1);
    struct actor *second = actor_start(string_lock(clients[1], "t"), NULL);
    wait_for_tickets(2);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(first), HLK_INTERRUPTED);
    int64_t before = test_now_ms();
    wait_for_tickets(1);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(actor_status(second), HLK_OK, "%s", actor_error(second));
    cr_assert_lt(running_ms(before), 4000, "it polls, and is not woken by its 5 s");
    cr_assert_eq(actor_end(second), HLK_OK);
    hlk_cancel_destroy(cancel);
}

static struct workers {
    hlk_lock *locks[4];
    atomic_int inside, most, holds;
} workers;

static void *be_one_of_many(void *arg)
{
    hlk_lock *lock = arg;
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 60000), HLK_OK, "%s", hlk_last_error());
        int inside = atomic_fetch_add(&workers.inside, 1) + 1;
        if (inside > atomic_load(&workers.most))
            atomic_store(&workers.most, inside);
        atomic_fetch_add(&workers.holds, 1);
        atomic_fetch_sub(&workers.inside, 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    return NULL;
}

Test(string, excludes_64_threads_of_four_clients)
{
    pthread_t threads[64];
    for (int i = 0; i < 4; i++)
        workers.locks[i] = string_lock(fixture_open(NULL), "t");
    for (int i = 0; i < 64; i++)
        pthread_create(&threads[i], NULL, be_one_of_many, workers.locks[i % 4]);
    for (int i = 0; i < 64; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&workers.most), 1);
    cr_assert_eq(atomic_load(&workers.holds), 64 * 20);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t hasplock_queue:{t}"), 0);
}

/* --- behind a holder of another library, which says nothing */

Test(string, is_got_soon_after_a_foreign_holder_has_released)
{
    hlk_client *client = fixture_open(NULL);
    foreign_holds(600000);
    struct actor *waiter = actor_start(string_lock(client, "t"), NULL);
    wait_for_tickets(1);
    uint64_t commands = fixture_counters(client).commands;
    WAIT_FOR(fixture_counters(client).commands >= commands + 5);
    cr_assert_not(actor_answered(waiter));
    cr_assert(is_foreign());
    raw(fixture.redis, "DEL t");
    int64_t before = test_now_ms();
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_lt(running_ms(before), 4000);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(string, asks_behind_a_foreign_holder_by_its_backoff)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    opts.backoff_min_ms = opts.backoff_max_ms = 100;
    foreign_holds(600000);
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t", &opts), 1050), HLK_TIMEOUT);
    uint64_t asked = fixture_counters(client).commands - commands;
    cr_assert(asked >= 4 && asked <= 16, "%llu", (unsigned long long)asked);
    cr_assert_not_null(strstr(hlk_last_error(), "1f0b6c7e"), "%s", hlk_last_error());
    raw(fixture.redis, "DEL t");
}

/* Only the first in the queue polls: the others ask when they are woken, or after 5 s. */
Test(string, lets_one_of_many_waiters_poll)
{
    hlk_client *clients[] = { fixture_open(NULL), fixture_open(NULL) };
    foreign_holds(600000);
    struct actor *first = actor_start(string_lock(clients[0], "t"), NULL);
    wait_for_tickets(1);
    struct actor *second = actor_start(string_lock(clients[1], "t"), NULL);
    wait_for_tickets(2);
    uint64_t commands = fixture_counters(clients[1]).commands, polls = fixture_counters(clients[0]).commands;
    WAIT_FOR(fixture_counters(clients[0]).commands >= polls + 6);
    cr_assert_leq(fixture_counters(clients[1]).commands - commands, 1u);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(actor_status(first), HLK_OK);
    cr_assert_not(actor_answered(second));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(actor_end(second), HLK_OK);
}

Test(string, ends_any_pause_when_a_foreign_lease_is_over)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = sleepy_lock(client, "t");
    foreign_holds(400);
    int64_t before = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, 30000), HLK_OK, "%s", hlk_last_error());
    int64_t took = test_now_ms() - before;
    cr_assert(took >= 390 && took < 10000, "%lld", (long long)took);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* Its release or its end told nobody: whoever asks first gives the lock to the first in the queue. */
Test(string, found_free_by_a_newcomer_goes_to_the_queue)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), NULL);
    wait_for_tickets(1);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(string_lock(other, "t"), HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(string, is_never_taken_from_a_foreign_holder_without_a_ttl)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "SET t 1f0b6c7e");
    cr_assert_eq(hlk_lock_acquire(string_lock(client, "t"), 300), HLK_TIMEOUT);
    cr_assert(is_foreign());
    raw(fixture.redis, "SET t %b", "", (size_t)0);
    cr_assert_eq(hlk_lock_acquire(string_lock(client, "t"), HLK_NOWAIT), HLK_BUSY, "an empty token is one, too");
    raw(fixture.redis, "DEL t");
}

/* --- waits that end early */

Test(string, a_cancelled_wait_leaves_no_ticket)
{
    hlk_client *client = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), &opts);
    wait_for_tickets(1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}") == 0);
    cr_assert(is_foreign());
    hlk_cancel_destroy(cancel);
    raw(fixture.redis, "DEL t");
}

/* --- leases */

Test(string, is_renewed_by_the_watchdog)
{
    struct hlk_client_opts opts = short_watchdog();
    hlk_client *client = fixture_open(&opts);
    hlk_lock *locks[] = { string_lock(client, "t"), string_lock(client, "t2"), fixture_lock(client, "t3", NULL) };
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK);
    test_sleep_ms(4000); /* longer than a lease */
    for (int i = 0; i < 3; i++) {
        cr_assert_gt(hlk_lock_left_ms(locks[i]), 0);
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK, "%s", hlk_last_error());
    }
    cr_assert_geq(fixture_counters(client).renewals, 6u);
}

Test(string, is_lost_by_a_changed_value_and_leaves_that_alone)
{
    struct hlk_client_opts opts = short_watchdog();
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = string_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "SET t 1f0b6c7e PX 600000");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert(is_foreign());
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 500000);
    raw(fixture.redis, "DEL t");
}

Test(string, is_neither_extended_nor_released_when_anothers)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t"), *second = string_lock(client, "t2");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "SET t 1f0b6c7e PX 600000");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert(is_foreign());
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "SET t2 1f0b6c7e PX 1000");
    cr_assert_eq(hlk_lock_extend(second, 60000), HLK_LOST);
    cr_assert_leq(raw_pttl(fixture.redis, "t2"), 1000);
    cr_assert_eq(hlk_lock_release(second), HLK_LOST);
    raw(fixture.redis, "DEL t t2");
}

/* --- not reentrant */

Test(string, cannot_be_acquired_again_by_its_holder)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_DEADLOCK);
    cr_assert_eq(hlk_lock_acquire(string_lock(client, "t"), HLK_NOWAIT), HLK_DEADLOCK);
    cr_assert_eq(fixture_counters(client).commands, commands);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(string, is_a_different_lock_from_the_plain_one_of_its_name)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t"), *plain = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(plain, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_eq(hlk_lock_release(plain), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- keys of other types */

static void is_refused_behind(const char *key_of_type, int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_client *client = fixture_open(NULL);
    char dump[256];
    opts.kind = kind;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    raw(fixture.redis, key_of_type);
    snprintf(dump, sizeof dump, "%s", raw(fixture.redis, "DUMP t"));
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_eq(hlk_lock_acquire(lock, 60000), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "WRONGTYPE"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER);
    cr_assert_eq(hlk_lock_break(lock), HLK_E_SERVER);
    cr_assert_str_eq(raw(fixture.redis, "DUMP t"), dump);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}") == 0);
    raw(fixture.redis, "DEL t");
}

Test(string, refuses_a_key_of_another_type_and_leaves_it)
{
    is_refused_behind("HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1", HLK_LOCK_STRING);
    is_refused_behind("RPUSH t a", HLK_LOCK_STRING);
}

Test(string, is_refused_by_locks_of_the_other_kinds)
{
    is_refused_behind("SET t 1f0b6c7e", HLK_LOCK_PLAIN);
    is_refused_behind("SET t 1f0b6c7e", HLK_LOCK_FAIR);
}

Test(string, is_lost_when_a_hash_took_its_place)
{
    struct hlk_client_opts opts = short_watchdog();
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = string_lock(client, "t"), *second = string_lock(client, "t2");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(raw_int(fixture.redis, "HGET t b983c153-7421-469a-addb-44fb92259a1b:1"), 1);
    cr_assert_eq(hlk_lock_release(second), HLK_OK, "the renewal of others goes on");
    raw(fixture.redis, "DEL t");
}

/* --- for operators */

Test(string, is_broken_and_given_to_the_next_one)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_LISTEN;
    hlk_client *client = fixture_open(&opts), *other = fixture_open(NULL), *operator= fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    cr_assert_eq(hlk_lock_break(string_lock(operator, "t")), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    struct actor *waiter = actor_start(sleepy_lock(other, "t"), NULL);
    wait_for_tickets(1);
    cr_assert_eq(hlk_lock_break(string_lock(operator, "t")), HLK_OK, "%s", hlk_last_error());
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    foreign_holds(600000);
    cr_assert_eq(hlk_lock_break(string_lock(operator, "t")), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
}

Test(string, is_described_by_a_query)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = string_lock(client, "t");
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_waiter waiter = { .size = sizeof waiter };
    size_t n;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_not(state.held);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *actor = actor_start(string_lock(other, "t"), NULL);
    wait_for_tickets(1);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert(state.held && state.mine && state.count == 1 && state.waiting == 1);
    cr_assert(state.ttl_ms > 20000 && state.ttl_ms <= 30000);
    cr_assert_eq(hlk_lock_waiters(lock, &waiter, 1, &n), HLK_OK);
    cr_assert_eq(n, 1u);
    cr_assert_eq(strncmp(waiter.holder, "hlk-", 4), 0);
    cr_assert_gt(waiter.since_ms, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_end(actor), HLK_OK);
    foreign_holds(600000);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert(state.held && !state.mine);
    cr_assert_str_eq(state.holder, "1f0b6c7e");
    raw(fixture.redis, "DEL t");
}

/* --- async */

static void waits_async(bool dispatch)
{
    static struct done first, second, released;
    hlk_client *client = open_for(dispatch);
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    opts.owner = owner;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    foreign_holds(600000);
    acquire(lock, HLK_FOREVER, NULL, &first);
    WAIT_FOR_WAITERS(client, 1);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(result(&first), HLK_OK);
    acquire(lock, HLK_FOREVER, NULL, &second);
    cr_assert_eq(result(&second), HLK_DEADLOCK);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    hlk_owner_destroy(owner);
}

Test(string, waits_by_completions)
{
    waits_async(false);
}

Test(string, waits_by_completions_in_the_applications_loop)
{
    waits_async(true);
}
