/* Permits under faults: an answer that is lost or late at each place, processes that die while they hold or wait,
 * scripts that are gone, messages that are dropped, a server that comes back empty. None is lost or made, nobody waits
 * for ever, nothing of ours is left. */
/* Shows: P50 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 2, PROCESSES = 8, THREADS = 8, KILLS = 12 };

static void start(void)
{
    fault_up(0);
}

static void start_proxied(void)
{
    fault_up(STAGE_PROXY);
}

/* What is left is their number. */
static void stop(void)
{
    fixture_close_all(); /* a release may be on its way */
    raw(fixture.redis, "DEL t");
    fixture_end();
}

TestSuite(permits, .init = start, .fini = stop, .timeout = 120);
TestSuite(permits_wire, .init = start_proxied, .fini = stop, .timeout = 120);

/* At one moment. */
static int64_t permits_in_all(void)
{
    return raw_int(fixture.redis, "EVAL %s 2 t {t}:timeout",
                   "return (redis.call('get', KEYS[1]) or 0) + redis.call('zcard', KEYS[2])");
}

static bool all_are_back(int number)
{
    return raw_int(fixture.redis, "EVAL %s 0", "return tonumber(redis.call('get', 't') or 0)") == number &&
           raw_int(fixture.redis, "EXISTS {t}:timeout") == 0;
}

static int64_t tickets(void)
{
    return raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 (1e15");
}

static hlk_lock *permit_of(hlk_client *client, int64_t number)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.permits = number;
    return fixture_lock(client, "t", &opts);
}

/* --- an answer at a time */

/* One permit goes from a bystander to a waiter, which extends and releases it. */
static void hand_over(hlk_lock *theirs, hlk_lock *ours)
{
    cr_assert_eq(hlk_lock_acquire(theirs, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct actor *waiter = actor_start(ours, &opts);
    WAIT_FOR(tickets() == 1 || actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    enum hlk_status status = actor_end(waiter);
    cr_assert(UNKNOWN(status) || ONE_OF(status, HLK_OK, HLK_LOST), "%s", hlk_status_name(status));
}

static void each_answer(enum proxy_fault fault)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_lock *theirs = permit_of(bystander(), 1);
    for (int k = 1;; k++) {
        opts.watchdog_ms = 30000;
        hlk_client *client = fixture_open(&opts); /* each from the beginning */
        proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, (uint64_t)k);
        hand_over(theirs, permit_of(client, 1));
        bool struck = proxy_struck(fixture.proxy);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_SCRIPTS, 1);
        if (struck && fault == PROXY_HOLD)
            proxy_deliver(fixture.proxy, false);
        WAIT_FOR(all_are_back(1));
        cr_assert_eq(tickets(), 0);
        if (!struck) {
            cr_assert_geq(k, 4, "an acquire, one more when it is subscribed, one when it is called, a release");
            return;
        }
    }
}

Test(permits_wire, survive_each_request_that_is_lost)
{
    each_answer(PROXY_CUT_BEFORE);
}

Test(permits_wire, survive_each_answer_that_is_lost)
{
    each_answer(PROXY_CUT_AFTER);
}

Test(permits_wire, survive_each_answer_that_is_dropped)
{
    each_answer(PROXY_SWALLOW);
}

Test(permits_wire, survive_each_request_that_comes_late)
{
    each_answer(PROXY_HOLD);
}

/* Whoever waits asks once a second. */
Test(permits_wire, go_on_when_no_message_arrives)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    hlk_lock *theirs = permit_of(bystander(), 1), *ours = permit_of(fixture_open(&opts), 1);
    proxy_drop_messages(fixture.proxy, true);
    for (int i = 0; i < 3; i++)
        hand_over(theirs, ours);
    cr_assert_geq(proxy_messages(fixture.proxy), 1u, "there was something to drop");
    WAIT_FOR(all_are_back(1));
}

/* --- processes that die */

static atomic_int *turns; /* of all processes; shared */

static _Noreturn void live(void)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.on_event = NULL;
    opts.reply_timeout_ms = RECONNECT_MS;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        test_give_up("open: %s", hlk_last_error());
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = HLK_LOCK_PERMIT;
    lock_opts.permits = LIMIT;
    hlk_lock *permit = hlk_lock_create(client, "t", &lock_opts);
    for (;;) {
        enum hlk_status status = hlk_lock_acquire(permit, WAIT_MS);
        if (status != HLK_OK && status != HLK_LOST)
            test_give_up("acquire: %s: %s", hlk_status_name(status), hlk_last_error());
        test_sleep_ms(2);
        (void)hlk_lock_release(permit); /* LOST if the machine was stopped for a lease */
        atomic_fetch_add(turns, 1);
    }
}

static pid_t fork_one(void)
{
    pid_t pid = fork();
    if (pid == 0)
        live();
    return pid;
}

static void kill_one(pid_t *pid)
{
    kill(*pid, SIGKILL);
    cr_assert_eq(waitpid(*pid, NULL, 0), *pid);
    *pid = 0;
}

Test(permits, of_dying_processes_come_back_but_never_too_many)
{
    pid_t pids[PROCESSES];
    unsigned drawn = 7;
    turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = fork_one();
    for (int i = 0; i < KILLS; i++) {
        int then = atomic_load(turns) + 40;
        while (atomic_load(turns) < then) { /* the number is set by the first acquire */
            int64_t all = permits_in_all();
            cr_assert(all == LIMIT || (i == 0 && all == 0), "%lld", (long long)all);
        }
        drawn = drawn * 1103515245u + 12345u;
        int victim = (int)(drawn >> 16) % PROCESSES;
        kill_one(&pids[victim]);
        pids[victim] = fork_one();
    }
    for (int i = 0; i < PROCESSES; i++)
        kill_one(&pids[i]);
    hlk_client *client = bystander();
    hlk_lock *last = permit_of(client, LIMIT); /* gets what they have left when their leases are over */
    cr_assert_eq(hlk_lock_acquire(last, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(last), HLK_OK);
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    hlk_permits *permits = hlk_permits_create(client, "t", NULL);
    WAIT_FOR(hlk_permits_query(permits, &state) == HLK_OK &&
             state.free == LIMIT); /* it ends the leases that are over */
    cr_assert(all_are_back(LIMIT));
    hlk_permits_destroy(permits);
    WAIT_FOR(raw_int(fixture.redis, "PUBSUB NUMPAT") == 0);
    raw(fixture.redis, "DEL hasplock_queue:{t}"); /* tickets of the dead, which the next queue would drop */
}

/* --- the server */

static atomic_bool over;

static void *works(void *permit)
{
    intptr_t lost = 0;
    while (!atomic_load(&over)) {
        enum hlk_status status = hlk_lock_acquire(permit, WAIT_MS);
        cr_assert(ONE_OF(status, HLK_OK, HLK_LOST), "%s: %s", hlk_status_name(status), hlk_last_error());
        test_sleep_ms(1);
        status = hlk_lock_release(permit);
        cr_assert(UNKNOWN(status) || ONE_OF(status, HLK_OK, HLK_LOST, HLK_NOT_HOLDER), "%s", hlk_status_name(status));
        lost += status == HLK_LOST;
    }
    return (void *)lost;
}

static void start_workers(pthread_t threads[THREADS], hlk_client *client)
{
    hlk_lock *permit = permit_of(client, LIMIT);
    atomic_store(&over, false);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, works, permit), 0);
}

static void end_workers(pthread_t threads[THREADS])
{
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    WAIT_FOR(all_are_back(LIMIT));
    WAIT_FOR(tickets() == 0);
}

static void wait_for_more(hlk_client *client, uint64_t acquired)
{
    uint64_t then = fixture_counters(client).acquired + acquired;
    WAIT_FOR(fixture_counters(client).acquired >= then);
}

Test(permits, go_on_when_the_scripts_are_gone)
{
    pthread_t threads[THREADS];
    hlk_client *client = bystander();
    start_workers(threads, client);
    for (int i = 0; i < 20; i++) {
        wait_for_more(client, 20);
        raw(fixture.redis, "SCRIPT FLUSH");
    }
    end_workers(threads);
}

/* Redisson's number would be gone, and everybody would wait for ever. */
Test(permits, go_on_when_the_server_comes_back_empty)
{
    pthread_t threads[THREADS];
    struct hlk_client_opts opts = fault_opts();
    opts.reconnect_timeout_ms = WAIT_MS;
    hlk_client *client = fixture_open(&opts);
    start_workers(threads, client);
    for (int i = 0; i < 5; i++) {
        wait_for_more(client, 50);
        redisFree(fixture.redis);
        server_restart(fixture.server, false);
        fixture.redis = raw_open(fixture.server);
    }
    wait_for_more(client, 50);
    end_workers(threads);
}
