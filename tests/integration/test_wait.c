/* Waiting: what wakes a waiter, what a lost message costs, what is left when a waiter gives up.
 *
 * The lock's lease shows that a waiter was woken by a message: the holder's ttl is 30 s or more and tests end long
 * before. And woken_by_ttl stays 0. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(wait, .init = start, .fini = fixture_end, .timeout = 90);

static int64_t script_calls(void)
{
    redisReply *stats = redisCommand(fixture.redis, "INFO commandstats");
    const char *at = strstr(stats->str, "cmdstat_evalsha:calls=");
    int64_t number = at ? strtoll(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(stats);
    return number;
}

/* --- woken */

Test(wait, of_a_thread_ends_when_another_thread_releases)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 1);
    cr_assert_not(actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

Test(wait, ends_when_another_client_releases)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    hlk_client *client = fixture_open(NULL);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    cr_assert_eq(fixture_counters(client).woken, 1u);
}

/* Waits for `wait_ms` behind another client, gets a grant by its release, and sends nothing more. Of the grant's ttl
 * `counts_ms` count for the holder, without drift and margin. From that are subtracted the delay between sending the
 * command and taking the ticket, and 2 % and 2 ms of the time in the queue, in case the server's clock is fast. */
static void is_granted_whole_after(int64_t wait_ms, int64_t lease_ms, int64_t counts_ms)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 600000);
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    int64_t asked_at = test_now_ms();
    struct actor *waiter = actor_start(lock, &opts);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    WAIT_FOR_WAITERS(client, 1);
    int64_t in_queue_at = test_now_ms();
    test_sleep_ms(wait_ms);
    int64_t calls = script_calls(), released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    int64_t until = hlk_lock_held_until(lock), now = test_now_ms();
    int64_t fast_ms = (now - asked_at) / 50 + 4, late_ms = in_queue_at - asked_at;
    cr_assert_geq(until - released_at, counts_ms - fast_ms - late_ms, "%lld ms", (long long)(until - released_at));
    cr_assert_leq(until, test_now_ms() + raw_pttl(fixture.redis, "t"), "never longer than Redis'");
    cr_assert_eq(script_calls(), calls + 1, "the release");
    cr_assert_eq(fixture_counters(client).granted, 1u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(wait, that_was_long_leaves_a_fixed_lease_whole)
{
    is_granted_whole_after(650, 2000, 2000 - 242);
}

Test(wait, that_was_long_asks_nothing_more_when_granted)
{
    is_granted_whole_after(2500, 0, 5000 - 602);
}

/* A Java holder: deletes the key and publishes 0. */
Test(wait, ends_when_a_foreign_holder_releases)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    WAIT_FOR_WAITERS(client, 1);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(wait, goes_on_through_messages_that_free_nothing)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    for (int i = 0; i < 20; i++) {
        raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
        raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} %s", "not-a-number");
    }
    cr_assert_not(actor_answered(waiter));
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* A dead holder: no message comes, its ttl ends. */
Test(wait, ends_when_the_holders_lease_has_run_out)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 400");
    int64_t before = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_geq(test_now_ms() - before, 390);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 1u); /* asks A1 redisson 3891: such a wake-up is counted */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* Shows: S19 */
Test(wait, of_many_threads_gives_each_a_turn_one_at_a_time)
{
    enum { THREADS = 24 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct actor *actors[THREADS];
    int who, holders;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        actors[i] = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, THREADS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int turn = 0; turn < THREADS; turn++) {
        WAIT_FOR((who = actors_answered(actors, THREADS, &holders)) >= 0);
        cr_assert_eq(holders, 1);
        cr_assert_eq(actor_end(actors[who]), HLK_OK);
        actors[who] = NULL;
    }
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* asks A5 redisson 6025, A5 486: one release wakes one thread of a process, not all of them */
Test(wait, one_message_wakes_one_thread)
{
    enum { THREADS = 32 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct actor *waiters[THREADS];
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start_passing(lock);
    WAIT_FOR_WAITERS(client, THREADS);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    /* Each thread sends at most twice before it parks. A hand-over is a release, a try, and at most one more try. If
     * each release woke all threads, it would be half of THREADS squared. */
    cr_assert_leq(script_calls(), 5 * THREADS);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* asks (design 7): PSUBSCRIBE * by another client */
Test(wait, does_not_mind_a_pattern_subscriber)
{
    redisContext *pattern = raw_open(fixture.server);
    raw(pattern, "PSUBSCRIBE *");
    hlk_client *client = fixture_open(NULL);
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    redisFree(pattern);
}

/* --- deadlines */

Test(wait, of_zero_is_one_command_and_no_subscription)
{
    fixture_held_elsewhere("t", 60000);
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    raw(fixture.redis, "CONFIG RESETSTAT");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(script_calls(), 1);
    cr_assert_eq(raw_listeners(fixture.redis, "t"), 0);
    server_allow(fixture.server, "t");
}

/* asks A1 spring-integration 3690: a timed wait never returns before its deadline unless it got the lock */
Test(wait, never_ends_early)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    server_allow(fixture.server, SERVER_TOMBSTONES);
    uint64_t timeouts = 0;
    for (int64_t wait_ms = 1; wait_ms <= 256; wait_ms *= 2) {
        int64_t before = test_now_ns();
        enum hlk_status status = hlk_lock_acquire(lock, wait_ms);
        cr_assert_geq(test_now_ns() - before, wait_ms * 1000000, "wait of %d ms", (int)wait_ms);
        cr_assert_eq(status, HLK_TIMEOUT, "%s: %s", hlk_status_name(status), hlk_last_error());
        timeouts++;
    }
    cr_assert_gt(timeouts, 0u);
    cr_assert_eq(fixture_counters(client).timeouts, timeouts);
    raw(fixture.redis, "DEL t");
}

Test(wait, never_ends_early_because_of_messages_or_ttls)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start_wait(lock, 3000);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    while (!actor_answered(waiter)) {
        raw(fixture.redis, "PEXPIRE t 2000"); /* would end before the wait, again and again, and never does */
        raw(fixture.redis, "PERSIST t");
        raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    }
    cr_assert_eq(actor_status(waiter), HLK_TIMEOUT, "%s", hlk_status_name(actor_status(waiter)));
    cr_assert_geq(actor_took_ms(waiter), 3000);
    actor_end(waiter);
    raw(fixture.redis, "DEL t");
}

/* asks A1 redisson 5019: every abandoned wait leaves nothing. The client is still open here */
Test(wait, that_timed_out_leaves_nothing)
{
    enum { THREADS = 8 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiters[THREADS];
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start_wait(lock, 20 * i);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(actor_status(waiters[i]), i == 0 ? HLK_BUSY : HLK_TIMEOUT);
        actor_end(waiters[i]);
    }
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0);
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(wait, that_timed_out_does_not_take_the_wake_of_another)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_held_elsewhere("t", 0);
    struct actor *patient = actor_start(lock, NULL), *hasty = actor_start_wait(lock, 50);
    cr_assert_eq(actor_status(hasty), HLK_TIMEOUT);
    actor_end(hasty);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(patient), HLK_OK);
    cr_assert_eq(actor_end(patient), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* asks A5 redsync 60: busy and timeout are different answers; RedLock.net PR 60: one deadline governs everything */
Test(wait, at_a_frozen_server_ends_at_its_deadline_not_before)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 60000;
    opts.reconnect_timeout_ms = 60000;
    server_allow(fixture.server, SERVER_TOMBSTONES);
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_pause(fixture.server);
    int64_t before = test_now_ms();
    enum hlk_status status = hlk_lock_acquire(lock, 300);
    int64_t took = test_now_ms() - before;
    server_resume(fixture.server);
    cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_geq(took, 300);
    cr_assert_lt(running_ms(before), 30000, "reply_timeout_ms or reconnect_timeout_ms governed, not the wait");
    cr_assert_eq(hlk_lock_holds(lock), 0);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2); /* the acquire that was sent is rolled back */
}

/* --- broken subscriptions */

/* asks A1 redisson 3.19: resubscribes after a break, and every waiter still wakes on the next release */
Test(wait, is_resubscribed_after_its_subscriber_was_killed)
{
    enum { LOCKS = 2, THREADS = 3 };
    const char *names[LOCKS] = { "t1", "t2" };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *theirs[LOCKS];
    struct actor *waiters[LOCKS][THREADS];
    for (int i = 0; i < LOCKS; i++) {
        theirs[i] = fixture_held_elsewhere(names[i], 0);
        for (int j = 0; j < THREADS; j++)
            waiters[i][j] = actor_start_passing(fixture_lock(client, names[i], NULL));
    }
    WAIT_FOR_WAITERS(client, LOCKS * THREADS);
    for (int round = 0; round < 3; round++) {
        WAIT_FOR(raw_listeners(fixture.redis, "t1") == 1 && raw_listeners(fixture.redis, "t2") == 1);
        raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    }
    WAIT_FOR(raw_listeners(fixture.redis, "t1") == 1 && raw_listeners(fixture.redis, "t2") == 1);
    for (int i = 0; i < LOCKS; i++) {
        cr_assert_eq(hlk_lock_release(theirs[i]), HLK_OK);
        for (int j = 0; j < THREADS; j++)
            cr_assert_eq(actor_end(waiters[i][j]), HLK_OK);
    }
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* The message is lost during the break. The order is confirmation, then command, so no wait lasts for the ttl. */
Test(wait, asks_once_more_when_its_subscription_is_back)
{
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < 20; i++) {
        hlk_lock *theirs = fixture_held_elsewhere("t", 0);
        struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
        WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
        raw(fixture.redis, "CLIENT KILL TYPE pubsub");
        cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
        WAIT_FOR(raw_listeners(fixture.redis, "t") == 0);
    }
}

/* asks A1 etcd 19597: a waiter without ticket takes one at its next poll, not only when its turn would have come */
Test(wait, whose_ticket_was_deleted_has_one_again)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 2000"); /* then it polls */
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_eq(raw_int(fixture.redis, "PERSIST t"), 1, "in time");
    raw(fixture.redis, "DEL hasplock_queue:{t}");
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Waits continue while the server is away, and the lock is free when it is back. */
Test(wait, survives_a_restart_of_the_server)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = -1;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 1);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    redisFree(fixture.redis);
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* --- many locks, one connection */

struct many {
    atomic_int granted, failed;
};

static void granted(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct many *many = ctx;
    atomic_fetch_add(status == HLK_OK ? &many->granted : &many->failed, 1);
    if (status == HLK_OK)
        hlk_lock_release_async(lock, NULL, NULL);
}

static int64_t channels(void)
{
    redisReply *reply = redisCommand(fixture.redis, "PUBSUB CHANNELS");
    int64_t number = (int64_t)reply->elements;
    freeReplyObject(reply);
    return number;
}

/* asks A1 redisson 4064, 4216, 3577, 5046: any number of contended locks, one subscriber connection, nothing left */
Test(wait, for_2000_locks_takes_one_subscriber_connection)
{
    enum { LOCKS = 2000 };
    static struct many many;
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "many");
    cr_assert_not_null(owner);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        raw(fixture.redis, "HSET %s b983c153-7421-469a-addb-44fb92259a1b:1 1", name);
        cr_assert_eq(hlk_lock_acquire_async(fixture_owned(client, name, owner), NULL, granted, &many), HLK_OK);
    }
    WAIT_FOR(channels() == LOCKS + 1); /* and the inbox */
    cr_assert_eq(raw_clients(fixture.redis, "pubsub"), 1);
    for (int i = 0; i < LOCKS; i++) {
        raw(fixture.redis, "DEL t%d", i);
        raw(fixture.redis, "PUBLISH redisson_lock__channel:{t%d} 0", i);
    }
    WAIT_FOR(atomic_load(&many.granted) == LOCKS);
    cr_assert_eq(atomic_load(&many.failed), 0);
    WAIT_FOR(channels() == 1);
    hlk_owner_destroy(owner);
}

/* --- other processes */

static pid_t fork_waiter(const char *url, const char *name)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    hlk_client *client;
    if (hlk_client_open(&client, url, NULL) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, name, NULL);
    _exit(hlk_lock_acquire(lock, HLK_FOREVER) == HLK_OK ? 0 : 2);
}

/* asks A1 redisson 1104: killed waiters cost the living nothing */
/* Shows: S20 */
Test(wait, is_not_delayed_by_waiters_that_were_killed)
{
    enum { DEAD = 5 };
    pid_t dead[DEAD];
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < DEAD; i++)
        dead[i] = fork_waiter(fixture.url, "t");
    WAIT_FOR(raw_listeners(fixture.redis, "t") == DEAD);
    hlk_client *client = fixture_open(NULL);
    struct actor *living = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == DEAD + 1);
    for (int i = 0; i < DEAD; i++) {
        kill(dead[i], SIGKILL);
        waitpid(dead[i], NULL, 0);
    }
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_status(living), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    cr_assert_eq(actor_end(living), HLK_OK);
}

Test(wait, is_counted_with_how_long_it_took)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_held_elsewhere("t", 0);
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 1);
    test_sleep_ms(20);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    struct hlk_counters counters = fixture_counters(client);
    uint64_t all = 0, long_ones = 0;
    for (int i = 0; i < 32; i++) {
        all += counters.wait_us[i];
        long_ones += i >= 14 ? counters.wait_us[i] : 0; /* 2^14 us: 16 ms */
    }
    cr_assert_eq(all, counters.acquired);
    cr_assert_eq(long_ones, 1u);
    cr_assert_eq(counters.waiting, 0u);
}

/* --- with a foreign subscriber */

struct taking_turns {
    hlk_lock *lock;
    atomic_bool stop;
    pthread_t thread;
};

static void *take_turns(void *arg)
{
    struct taking_turns *turns = arg;
    while (!atomic_load(&turns->stop)) {
        cr_assert_eq(hlk_lock_acquire(turns->lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(turns->lock), HLK_OK);
    }
    return NULL;
}

/* Each release opens a yield window for subscribers of the channel: while there is one, and no longer. */
Test(wait, of_two_clients_is_slow_only_while_a_third_listens)
{
    struct taking_turns turns[2] = { { .lock = NULL }, { .lock = NULL } };
    struct hlk_client_opts opts = fixture_opts();
    char channel[128];
    opts.yield_every = 1;
    raw_channel(channel, sizeof channel, "t");
    for (int i = 0; i < 2; i++) {
        turns[i].lock = fixture_lock(fixture_open(&opts), "t", NULL);
        pthread_create(&turns[i].thread, NULL, take_turns, &turns[i]);
    }
    redisContext *listener = raw_open(fixture.server);
    raw(listener, "SUBSCRIBE %s", channel);
    for (int i = 0; i < 20; i++)
        cr_assert_not_null(raw_next(listener), "a window");
    redisFree(listener);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", channel), ":0"));
    for (int i = 0; i < 2; i++) {
        atomic_store(&turns[i].stop, true);
        pthread_join(turns[i].thread, NULL);
    }
}
