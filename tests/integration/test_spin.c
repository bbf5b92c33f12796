/* HLK_LOCK_SPIN: a wait that polls and joins no channel, and each way in which it ends; with plain waiters; and for a
 * user without any right to pub/sub. */
/* Shows: P25 */
#include "integration/async_fixture.h"
#include "support/acl.h"

#include <signal.h>
#include <stdlib.h>

static void start(void)
{
    fixture_begin(0);
}

static void start_without_pubsub(void)
{
    fixture_begin(SERVER_NOACL); /* the tests make their own user */
}

TestSuite(spin, .init = start, .fini = fixture_end, .timeout = 90);
TestSuite(spin_no_pubsub, .init = start_without_pubsub, .fini = fixture_end, .timeout = 90);

enum { LONG_MS = 60000 }; /* a pause that no test waits out */

static struct hlk_lock_opts spin_opts(int backoff_min_ms, int backoff_max_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_SPIN;
    opts.backoff_min_ms = backoff_min_ms;
    opts.backoff_max_ms = backoff_max_ms;
    return opts;
}

static hlk_lock *spin_lock(hlk_client *client, const char *name)
{
    struct hlk_lock_opts opts = spin_opts(0, 0);
    return fixture_lock(client, name, &opts);
}

/* Its pauses are so long that a wait ends only in another way. */
static hlk_lock *sleepy_lock(hlk_client *client, const char *name)
{
    struct hlk_lock_opts opts = spin_opts(LONG_MS, LONG_MS);
    return fixture_lock(client, name, &opts);
}

static void foreign_holds(int64_t ttl_ms)
{
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t %lld", (long long)ttl_ms);
}

static void assert_nobody_listens(void)
{
    cr_assert_str_eq(raw(fixture.redis, "PUBSUB CHANNELS"), "[]");
    cr_assert_eq(raw_clients(fixture.redis, "pubsub"), 0);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}"), 0);
}

/* --- waiting */

Test(spin, is_got_without_subscribing_when_another_releases)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = spin_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s", raw_holder(fixture.redis, "t")), 1, "as a plain one");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 20000);
    struct actor *waiter = actor_start(spin_lock(other, "t"), NULL);
    WAIT_FOR_WAITERS(other, 1);
    uint64_t commands = fixture_counters(other).commands;
    WAIT_FOR(fixture_counters(other).commands >= commands + 5);
    assert_nobody_listens();
    cr_assert_not(actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    assert_nobody_listens();
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(other).acquired, 1u);
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 1u, "no message woke it");
    cr_assert_eq(fixture_counters(other).woken + fixture_counters(other).granted, 0u);
}

/* Its client is subscribed to the inbox already: a plain wait would take a ticket with its first command. */
Test(spin, takes_no_queue_position_even_if_its_client_listens)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_LISTEN;
    hlk_client *client = fixture_open(&opts);
    foreign_holds(600000);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    struct actor *waiter = actor_start(spin_lock(client, "t"), NULL);
    WAIT_FOR_WAITERS(client, 1);
    uint64_t commands = fixture_counters(client).commands;
    WAIT_FOR(fixture_counters(client).commands >= commands + 5);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS hasplock_queue:{t}"), 0);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(spin, asks_as_often_as_its_backoff_says)
{
    struct hlk_lock_opts opts = spin_opts(100, 100);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    foreign_holds(600000);
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(lock, 1050), HLK_TIMEOUT);
    cr_assert_leq(fixture_counters(client).commands - commands, 12u, "the first, and one each 100 ms or a bit more");
    commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(sleepy_lock(client, "t"), 300), HLK_TIMEOUT);
    cr_assert_leq(fixture_counters(client).commands - commands, 2u);
    raw(fixture.redis, "DEL t");
}

/* By default 1, 2, 4 ... 128 ms: 255 ms contain the first eight pauses. Constant pauses of 1 ms would be many more. */
Test(spin, asks_less_and_less_often_by_default)
{
    hlk_client *client = fixture_open(NULL);
    foreign_holds(600000);
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_acquire(spin_lock(client, "t"), 1000), HLK_TIMEOUT);
    uint64_t asked = fixture_counters(client).commands - commands;
    cr_assert(asked >= 3 && asked <= 16, "%llu", (unsigned long long)asked);
    raw(fixture.redis, "DEL t");
}

Test(spin, times_out_in_time_and_not_before)
{
    hlk_client *client = fixture_open(NULL);
    foreign_holds(600000);
    int64_t before = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(sleepy_lock(client, "t"), 200), HLK_TIMEOUT);
    int64_t took = test_now_ms() - before;
    cr_assert(took >= 200 && took < 5000, "%lld", (long long)took);
    cr_assert_not_null(strstr(hlk_last_error(), "b983c153-7421-469a-addb-44fb92259a1b:1"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(sleepy_lock(client, "t"), HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(fixture_counters(client).timeouts, 1u);
    cr_assert_eq(fixture_counters(client).busy, 1u);
    raw(fixture.redis, "DEL t");
}

/* A holder that died: no pause lasts longer than its lease. */
Test(spin, ends_any_pause_when_the_holders_lease_is_over)
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

/* --- a wait that ends early */

Test(spin, a_cancel_ends_a_pause)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_cancel *cancel = hlk_cancel_create(client);
    opts.cancel = cancel;
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), &opts);
    WAIT_FOR_WAITERS(client, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    hlk_cancel_destroy(cancel);
    WAIT_FOR_WAITERS(client, 0);
    cr_assert_eq(fixture_counters(client).interrupted, 1u);
    raw(fixture.redis, "DEL t");
}

static void on_signal(int number)
{
    (void)number;
}

Test(spin, a_signal_handler_ends_a_pause_that_asked_for_it)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct sigaction action = { .sa_handler = on_signal };
    opts.flags = HLK_ACQUIRE_EINTR;
    sigaction(SIGUSR1, &action, NULL);
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), &opts);
    WAIT_FOR_WAITERS(client, 1);
    while (!actor_answered(waiter)) { /* a signal just before it parks may have no effect */
        actor_signal(waiter, SIGUSR1);
        test_sleep_ms(1);
    }
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    raw(fixture.redis, "DEL t");
}

Test(spin, a_thread_is_cancelled_in_a_pause)
{
    hlk_client *client = fixture_open(NULL);
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), NULL);
    WAIT_FOR_WAITERS(client, 1);
    actor_cancel(waiter);
    cr_assert(actor_join_cancelled(waiter));
    WAIT_FOR_WAITERS(client, 0);
    raw(fixture.redis, "DEL t");
}

Test(spin, close_ends_a_pause)
{
    hlk_client *client = fixture_open(NULL);
    foreign_holds(600000);
    struct actor *waiter = actor_start(sleepy_lock(client, "t"), NULL);
    WAIT_FOR_WAITERS(client, 1);
    fixture_close(client);
    cr_assert_eq(actor_end(waiter), HLK_E_CLOSED);
    raw(fixture.redis, "DEL t");
}

/* --- within the process */

/* Only the head waiter polls, and the others need no pause to acquire. */
Test(spin, goes_from_thread_to_thread_in_the_order_they_came)
{
    enum { THREADS = 8 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = sleepy_lock(client, "t");
    struct actor *actors[THREADS];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < THREADS; i++) {
        actors[i] = actor_start(lock, NULL);
        WAIT_FOR_WAITERS(client, i + 1);
    }
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(actor_status(actors[i]), HLK_OK);
        for (int j = i + 1; j < THREADS; j++)
            cr_assert_not(actor_answered(actors[j]));
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
    }
    assert_nobody_listens();
}

/* The release is sent again behind the next thread's acquire, which finds the lock held by its own process. A plain
 * wait would then be granted the lock. This one would sleep until the lease was over. (A fixed lease is not passed
 * on.) */
Test(spin, is_got_at_once_when_the_release_was_sent_again)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = spin_opts(LONG_MS, LONG_MS);
    opts.lease_ms = 600000;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 60000), HLK_OK, "%s", hlk_last_error());
        struct actor *waiters[] = { actor_start_passing(lock), actor_start_passing(lock) };
        WAIT_FOR_WAITERS(client, 2);
        raw(fixture.redis, "SCRIPT FLUSH");
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(actor_end(waiters[0]), HLK_OK);
        cr_assert_eq(actor_end(waiters[1]), HLK_OK);
    }
}

Test(spin, is_passed_from_thread_to_thread_without_redis)
{
    enum { THREADS = 16 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = spin_lock(client, "t");
    struct actor *actors[THREADS];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        actors[i] = actor_start_passing(lock);
    WAIT_FOR_WAITERS(client, THREADS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
    cr_assert_gt(fixture_counters(client).passed, 0u);
}

/* --- leases */

/* It has no inbox: the next renewal reports it. */
Test(spin, that_is_broken_is_lost_by_the_next_renewal)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.watchdog_ms = 600;
    hlk_client *client = fixture_open(&client_opts), *operator= fixture_open(NULL);
    hlk_lock *lock = spin_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(spin_lock(operator, "t")), HLK_OK, "%s", hlk_last_error());
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    assert_nobody_listens();
}

/* --- async */

static void waits_async(bool dispatch)
{
    static struct done acquired, released, timeout, cancelled;
    hlk_client *client = open_for(dispatch);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_lock_opts opts = spin_opts(0, 0), sleepy = spin_opts(LONG_MS, LONG_MS);
    opts.owner = sleepy.owner = owner;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    foreign_holds(600000);
    int64_t before = test_now_ms();
    acquire(lock, 200, NULL, &timeout);
    cr_assert_eq(result(&timeout), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - before, 200);
    acquire(fixture_lock(client, "t", &sleepy), HLK_FOREVER, cancel, &cancelled);
    WAIT_FOR_WAITERS(client, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&cancelled), HLK_INTERRUPTED);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    WAIT_FOR_WAITERS(client, 1);
    uint64_t commands = fixture_counters(client).commands;
    LOOP_UNTIL(fixture_counters(client).commands >= commands + 5);
    assert_nobody_listens();
    raw(fixture.redis, "DEL t");
    cr_assert_eq(result(&acquired), HLK_OK);
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

Test(spin, waits_by_completions)
{
    waits_async(false);
}

Test(spin, waits_by_completions_in_the_applications_loop)
{
    waits_async(true);
}

/* A pause of an async wait is limited by the holder's lease too. */
Test(spin, is_got_by_a_completion_when_the_lease_has_run_out)
{
    static struct done acquired;
    hlk_client *client = open_for(false);
    hlk_owner *owner = hlk_owner_create(client, "order");
    struct hlk_lock_opts opts = spin_opts(LONG_MS, LONG_MS);
    opts.owner = owner;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    foreign_holds(300);
    acquire(lock, HLK_FOREVER, NULL, &acquired);
    cr_assert_eq(result(&acquired), HLK_OK);
    release(lock, NULL);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    hlk_owner_destroy(owner);
}

/* --- with plain locks of the same name, which are the same lock */

/* Redisson's spin lock publishes nothing: its plain waiters sleep for the rest of the lease. */
Test(spin, a_release_wakes_a_plain_waiter_at_once)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = spin_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    WAIT_FOR_WAITERS(other, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(spin, a_release_tells_those_at_the_locks_channel)
{
    redisContext *java = raw_open(fixture.server);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = spin_lock(client, "t");
    raw(java, "SUBSCRIBE redisson_lock__channel:{t}");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(raw_next(java), "[\"message\", \"redisson_lock__channel:{t}\", \"0\"]");
    redisFree(java);
}

Test(spin, a_wait_does_not_pass_by_plain_waiters)
{
    hlk_client *holder = fixture_open(NULL), *plain = fixture_open(NULL), *spins = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(holder, "t", NULL);
    struct hlk_lock_opts opts = spin_opts(1, 1);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *second = actor_start(fixture_lock(spins, "t", &opts), NULL);
    WAIT_FOR_WAITERS(spins, 1);
    struct actor *first = actor_start(fixture_lock(plain, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    WAIT_FOR_WAITERS(plain, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(first), HLK_OK);
    uint64_t commands = fixture_counters(spins).commands;
    WAIT_FOR(fixture_counters(spins).commands >= commands + 5);
    cr_assert_not(actor_answered(second));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(actor_status(second), HLK_OK);
    cr_assert_eq(actor_end(second), HLK_OK);
}

/* One process, one entry, one local queue: each head waiter waits in its own way. */
Test(spin, shares_its_queue_with_plain_waiters_of_its_process)
{
    enum { THREADS = 8 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *theirs = fixture_held_elsewhere("t", 0),
             *locks[] = { spin_lock(client, "t"), fixture_lock(client, "t", NULL) };
    struct actor *actors[THREADS];
    for (int i = 0; i < THREADS; i++) {
        actors[i] = actor_start_passing(locks[i % 2]);
        WAIT_FOR_WAITERS(client, i + 1);
    }
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
}

/* The plain head waiter leaves while a spin wait is queued behind it. */
Test(spin, a_wait_goes_on_when_the_plain_one_before_it_leaves)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_cancel *cancel = hlk_cancel_create(client);
    opts.cancel = cancel;
    struct actor *head = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    struct actor *next = actor_start(spin_lock(client, "t"), NULL);
    WAIT_FOR_WAITERS(client, 2);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(head), HLK_INTERRUPTED);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_eq(actor_end(next), HLK_OK);
    hlk_cancel_destroy(cancel);
}

/* --- a user without the rights to SUBSCRIBE, PUBLISH, PUBSUB and to any channel */

static hlk_client *open_without_pubsub(unsigned flags)
{
    char rules[1024];
    const char *words[64] = { "ACL", "SETUSER", "weak", "reset", "on", ">pw" };
    int n = 6;
    char *save = NULL;
    snprintf(rules, sizeof rules, ACL_KEYS " resetchannels " ACL_POLL_COMMANDS);
    for (char *word = strtok_r(rules, " ", &save); word && n < 64; word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    cr_assert_str_eq(raw_argv(fixture.redis, n, words, NULL), "OK");
    struct hlk_client_opts opts = fixture_opts();
    opts.username = "weak";
    opts.password = "pw";
    opts.flags = HLK_OPEN_NO_PUBSUB | flags;
    opts.watchdog_ms = 3000;
    return fixture_open(&opts);
}

Test(spin_no_pubsub, locks_waits_renews_and_is_broken)
{
    hlk_client *client = open_without_pubsub(0), *other = open_without_pubsub(0);
    hlk_lock *lock = spin_lock(client, "t"), *theirs = spin_lock(other, "t");
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    for (int i = 0; i < 20; i++) { /* at least as often as a yield window would be opened */
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    }
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(theirs, NULL);
    WAIT_FOR_WAITERS(other, 1);
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals > renewals);
    cr_assert_eq(hlk_lock_extend(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert(state.held && state.mine);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(theirs), HLK_OK, "%s", hlk_last_error());
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_str_eq(raw(fixture.redis, "PUBSUB CHANNELS"), "[]");
    cr_assert_eq(raw_clients(fixture.redis, "pubsub"), 0);
}

enum { LOCKS = 64 };
static hlk_lock *locks[LOCKS];
static struct done all[LOCKS];

/* Returns the number of commands. */
static uint64_t acquire_all(hlk_client *client)
{
    uint64_t commands = fixture_counters(client).commands;
    memset(all, 0, sizeof all);
    for (int i = 0; i < LOCKS; i++)
        acquire(locks[i], HLK_FOREVER, NULL, &all[i]);
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(result(&all[i]), HLK_OK, "%s", all[i].error);
    return fixture_counters(client).commands - commands;
}

static uint64_t release_all(hlk_client *client)
{
    uint64_t commands = fixture_counters(client).commands;
    memset(all, 0, sizeof all);
    for (int i = 0; i < LOCKS; i++)
        release(locks[i], &all[i]);
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(result(&all[i]), HLK_OK, "%s", all[i].error);
    return fixture_counters(client).commands - commands;
}

/* Simultaneous commands are sent as fewer ones (lua/lock_batch.lua) once the server knows that script, which this user
 * cannot load in advance. */
Test(spin_no_pubsub, acquires_and_releases_many_at_once)
{
    hlk_client *client = loop_client = open_without_pubsub(HLK_OPEN_DISPATCH);
    dispatching = true;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = spin_opts(0, 0);
    opts.owner = owner;
    for (int i = 0; i < LOCKS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = fixture_lock(client, name, &opts);
    }
    uint64_t releases = 0;
    for (int round = 0; round < 4; round++) {
        (void)acquire_all(client);
        uint64_t now = release_all(client);
        releases += round ? now : 0;
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    }
    cr_assert_lt(releases, 3 * LOCKS, "some left together");
    hlk_owner_destroy(owner);
}

/* Its release publishes nothing. The plain waiter acquires by its poll, here after the holder's second. */
Test(spin_no_pubsub, a_plain_waiter_elsewhere_gets_the_lock_by_polling)
{
    hlk_client *client = open_without_pubsub(0), *other = fixture_open(NULL);
    struct hlk_lock_opts opts = spin_opts(0, 0);
    opts.lease_ms = 1000;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    WAIT_FOR_WAITERS(other, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_leq(actor_running_ms(waiter), 5000);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* It may publish but not query subscribers, so it always publishes. */
Test(spin_no_pubsub, a_release_that_may_publish_wakes_a_plain_waiter)
{
    hlk_client *client = open_without_pubsub(0), *other = fixture_open(NULL);
    cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER weak +publish allchannels"), "OK");
    hlk_lock *lock = spin_lock(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(other, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    WAIT_FOR_WAITERS(other, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}
