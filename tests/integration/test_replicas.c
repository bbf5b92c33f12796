/* wait_replicas: an acquire that counts only when the replicas have it. A master and two replicas, all real. */
/* Shows: P38 */
#include "async_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define LONG_MS 20000 /* longer than any wait of these tests: an answer after it would be a failure */

static struct server *replicas[2];
static redisContext *seen[2]; /* what the replicas have */
static redisContext *admin;   /* never blocks */

static struct server *replica_start(void)
{
    static char port[8];
    static const char *extra[] = { "--replicaof", "127.0.0.1", port, NULL };
    (void)snprintf(port, sizeof port, "%d", fixture.server->port);
    return server_start(SERVER_TCP | SERVER_NOACL, extra);
}

static void start(void)
{
    fixture_begin(SERVER_TCP | SERVER_NOACL);
    raw(fixture.redis, "CONFIG SET repl-diskless-sync-delay 0");
    admin = raw_open(fixture.server);
    for (int i = 0; i < 2; i++) {
        replicas[i] = replica_start();
        seen[i] = raw_open(replicas[i]);
    }
    raw(fixture.redis, "PUBLISH nobody x");
    WAIT_FOR(raw_int(fixture.redis, "WAIT 2 100") == 2);
    raw(fixture.redis, "CONFIG RESETSTAT");
}

static void stop(void)
{
    fixture_end();
    redisFree(admin);
    for (int i = 0; i < 2; i++) {
        redisFree(seen[i]);
        server_stop(replicas[i]);
    }
}

TestSuite(replicas, .init = start, .fini = stop, .timeout = 60);

static void pause_both(void)
{
    server_pause(replicas[0]);
    server_pause(replicas[1]);
}

static hlk_client *open_waiting(int n, int timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.wait_replicas = n;
    opts.wait_replicas_timeout_ms = timeout_ms;
    return fixture_open(&opts);
}

static int64_t blocked(void)
{
    return raw_stat(admin, "blocked_clients");
}

static bool replica_has(int i, const char *name)
{
    return raw_int(seen[i], "EXISTS %s", name) == 1;
}

/* How many is known unless this process stood still when the answer came. */
static void assert_none_acknowledged(const char *error)
{
    cr_assert(strstr(error, ": 0 acknowledged it; released") ||
                  strstr(error, ": it is not known how many acknowledged it; released"),
              "%s", error);
}

/* Its release comes behind the answer NOT_REPLICATED, in the background. */
static void assert_becomes_free(const char *name)
{
    WAIT_FOR(raw_pttl(admin, name) == -2);
}

/* Shows: S12 */
Test(replicas, asked_for_have_the_hold_when_acquire_returns)
{
    hlk_lock *lock = fixture_lock(open_waiting(2, LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert(replica_has(0, "t"));
    cr_assert(replica_has(1, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_calls(admin, "wait"), 1);
}

/* Shows: S12 */
Test(replicas, that_are_too_few_make_it_not_replicated_and_free)
{
    hlk_client *client = open_waiting(2, 400);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_pause(replicas[0]);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_NOT_REPLICATED);
    cr_assert_not_null(strstr(hlk_last_error(), "not confirmed by 2 replicas (wait_replicas)"), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), " acknowledged it; released"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    assert_becomes_free("t");
    hlk_lock *other = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

Test(replicas, that_are_enough_suffice_when_others_stand_still)
{
    hlk_lock *lock = fixture_lock(open_waiting(1, LONG_MS), "t", NULL);
    server_pause(replicas[0]);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert(replica_has(1, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(replicas, cost_nothing_without_the_option)
{
    int64_t before = raw_clients(admin, "normal");
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(raw_clients(admin, "normal"), before + 1, "one connection");
    cr_assert_eq(raw_calls(admin, "wait"), 0);
    cr_assert_eq(raw_calls(admin, "evalsha"), 21, "and the probe");
}

Test(replicas, have_the_hold_of_a_waiter_that_was_granted_it)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    hlk_client *client = open_waiting(2, LONG_MS);
    hlk_lock *waiting = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *next = actor_start(waiting, NULL);
    WAIT_FOR_WAITERS(client, 1);
    WAIT_FOR(raw_listeners(admin, "t") == 1 && raw_inboxes(admin) == 1);
    pause_both();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    WAIT_FOR(blocked() == 1);
    cr_assert_eq(raw_int(admin, "HLEN t"), 1, "granted");
    cr_assert_not(actor_answered(next));
    server_resume(replicas[0]);
    server_resume(replicas[1]);
    cr_assert_eq(actor_status(next), HLK_OK, "%s", actor_error(next));
    cr_assert(replica_has(0, "t"));
    cr_assert_eq(actor_end(next), HLK_OK);
    cr_assert_eq(raw_calls(admin, "wait"), 1);
}

/* Shows: S12 */
Test(replicas, that_do_not_have_a_granted_hold_free_it)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    hlk_client *client = open_waiting(1, 300);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *next = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR_WAITERS(client, 1);
    WAIT_FOR(raw_inboxes(admin) == 1);
    pause_both();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_end(next), HLK_NOT_REPLICATED);
    assert_becomes_free("t");
}

#define CROWD 32

Test(replicas, are_waited_for_by_32_threads_together)
{
    struct actor *actors[CROWD];
    char name[16];
    hlk_client *client = open_waiting(1, LONG_MS);
    pause_both();
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        actors[i] = actor_start(fixture_lock(client, name, NULL), NULL);
        if (i == 0)
            WAIT_FOR(blocked() == 1);
    }
    WAIT_FOR(raw_int(admin, "DBSIZE") == CROWD);
    WAIT_FOR_WAITERS(client, CROWD);
    int64_t before = raw_calls(admin, "wait"); /* the first one's, each reply_timeout_ms / 2 until now */
    server_resume(replicas[0]);
    server_resume(replicas[1]);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(actor_status(actors[i]), HLK_OK, "%s", actor_error(actors[i]));
    /* the one that was blocked, one more while the replicas woke, and one for all others */
    cr_assert_leq(raw_calls(admin, "wait"), before + 3, "%lld then", (long long)before);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
}

Test(replicas, that_stand_still_delay_no_other_command)
{
    hlk_client *client = open_waiting(1, LONG_MS);
    hlk_lock *held = fixture_lock(client, "t1", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    pause_both();
    struct actor *first = actor_start(fixture_lock(client, "t2", NULL), NULL);
    WAIT_FOR(blocked() == 1);
    cr_assert_eq(hlk_lock_extend(held, 60000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(held), HLK_OK, "%s", hlk_last_error());
    struct actor *second = actor_start(fixture_lock(client, "t3", NULL), NULL);
    WAIT_FOR(raw_pttl(admin, "t3") > 0);
    cr_assert_eq(blocked(), 1, "the WAIT of t2 is in flight still");
    cr_assert_not(actor_answered(first));
    server_resume(replicas[0]);
    server_resume(replicas[1]);
    cr_assert_eq(actor_status(first), HLK_OK, "%s", actor_error(first));
    cr_assert_eq(actor_status(second), HLK_OK, "%s", actor_error(second));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(actor_end(second), HLK_OK);
}

Test(replicas, are_not_waited_for_by_nested_holds)
{
    hlk_lock *lock = fixture_lock(open_waiting(1, LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    pause_both();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_calls(admin, "wait"), 1);
}

/* What is passed on within the process is one hold in Redis. */
Test(replicas, are_waited_for_once_for_each_hold_in_redis)
{
    struct actor *actors[CROWD];
    hlk_client *client = open_waiting(1, LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < CROWD; i++)
        actors[i] = actor_start_passing(lock);
    WAIT_FOR_WAITERS(client, CROWD);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.acquired, CROWD + 1);
    cr_assert_eq((uint64_t)raw_calls(admin, "wait"), counters.acquired - counters.passed);
}

Test(replicas, that_stand_still_do_not_outlast_the_calls_deadline)
{
    hlk_lock *lock = fixture_lock(open_waiting(1, LONG_MS), "t", NULL);
    pause_both();
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, 500), HLK_NOT_REPLICATED, "%s", hlk_last_error());
    cr_assert_lt(running_ms(began), LONG_MS / 2);
    assert_becomes_free("t");
}

Test(replicas, are_waited_for_until_the_wait_is_cancelled)
{
    hlk_client *client = open_waiting(1, LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    pause_both();
    struct actor *actor = actor_start(lock, &opts);
    WAIT_FOR(blocked() == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(actor), HLK_INTERRUPTED);
    assert_becomes_free("t");
    hlk_cancel_destroy(cancel);
}

Test(replicas, are_waited_for_until_the_thread_is_cancelled)
{
    hlk_client *client = open_waiting(1, LONG_MS);
    pause_both();
    struct actor *actor = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(blocked() == 1);
    actor_cancel(actor);
    cr_assert(actor_join_cancelled(actor));
    assert_becomes_free("t");
}

Test(replicas, are_waited_for_until_the_client_is_closed)
{
    hlk_client *client = open_waiting(1, LONG_MS);
    pause_both();
    struct actor *actor = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(blocked() == 1);
    fixture_close(client);
    cr_assert_eq(actor_end(actor), HLK_E_CLOSED);
    assert_becomes_free("t");
}

static void kill_blocked(void)
{
    char id[24] = "";
    char *list = strdup(raw(admin, "CLIENT LIST"));
    for (char *save = NULL, *at = strtok_r(list, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        const char *is = strstr(at, "id=");
        if (is)
            (void)snprintf(id, sizeof id, "%s", is + 3);
        else if (strcmp(at, "cmd=wait") == 0)
            break;
    }
    free(list);
    cr_assert_str_eq(raw(admin, "CLIENT KILL ID %s", id), ":1");
}

/* The connection that waits follows to whatever server is there; the hold may not be. */
/* Shows: S12 */
Test(replicas, confirm_no_hold_that_the_server_does_not_have)
{
    hlk_lock *lock = fixture_lock(open_waiting(1, LONG_MS), "t", NULL);
    pause_both();
    struct actor *actor = actor_start(lock, NULL);
    WAIT_FOR(blocked() == 1);
    raw(admin, "DEL t");
    kill_blocked();
    cr_assert_eq(actor_status(actor), HLK_NOT_REPLICATED, "%s", actor_error(actor));
    cr_assert_lt(actor_running_ms(actor), LONG_MS / 2);
    (void)actor_end(actor);
}

/* Shows: S12 */
Test(replicas, are_sent_nothing)
{
    hlk_client *client = open_waiting(2, LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    int64_t before = raw_stat(seen[0], "total_connections_received");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_stat(seen[0], "total_connections_received"), before);
    cr_assert_eq(raw_calls(seen[0], "evalsha"), 0);
}

Test(replicas, need_the_right_to_wait_which_the_error_names)
{
    raw(admin, "ACL SETUSER locks on >SECRET ~* &* +@all -wait");
    struct hlk_client_opts opts = fixture_opts();
    opts.username = "locks";
    opts.password = "SECRET";
    opts.wait_replicas = 1;
    opts.wait_replicas_timeout_ms = LONG_MS;
    hlk_lock *lock = fixture_lock(fixture_open(&opts), "t", NULL);
    enum hlk_status refused = hlk_lock_acquire(lock, HLK_FOREVER);
    cr_assert_eq(refused, HLK_E_AUTH, "%s: %s", hlk_status_name(refused), hlk_last_error());
    cr_assert_not_null(strcasestr(hlk_last_error(), "wait"), "%s", hlk_last_error());
    assert_becomes_free("t");
    raw(admin, "ACL SETUSER locks +wait");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

static hlk_owner *open_async(bool dispatch, int timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.wait_replicas = 2;
    opts.wait_replicas_timeout_ms = timeout_ms;
    opts.flags = dispatch ? HLK_OPEN_DISPATCH : 0;
    dispatching = dispatch;
    loop_client = fixture_open(&opts);
    return hlk_owner_create(loop_client, "o");
}

static void async_has_it(bool dispatch)
{
    hlk_owner *owner = open_async(dispatch, LONG_MS);
    hlk_lock *lock = fixture_owned(loop_client, "t", owner);
    struct done done = { 0 }, released = { 0 };
    acquire(lock, HLK_FOREVER, NULL, &done);
    cr_assert_eq(result(&done), HLK_OK, "%s", done.error);
    cr_assert(replica_has(0, "t"));
    cr_assert(replica_has(1, "t"));
    release(lock, &released);
    cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
    hlk_owner_destroy(owner);
}

static void async_falls_short(bool dispatch)
{
    hlk_owner *owner = open_async(dispatch, 400);
    hlk_lock *lock = fixture_owned(loop_client, "t", owner);
    struct done done = { 0 };
    pause_both();
    acquire(lock, HLK_FOREVER, NULL, &done);
    cr_assert_eq(result(&done), HLK_NOT_REPLICATED, "%s", done.error);
    assert_none_acknowledged(done.error);
    assert_becomes_free("t");
    hlk_owner_destroy(owner);
}

Test(replicas, have_the_hold_when_a_completion_runs)
{
    async_has_it(false);
}

Test(replicas, have_the_hold_when_a_completion_runs_in_dispatch)
{
    async_has_it(true);
}

Test(replicas, that_are_too_few_make_a_completion_not_replicated)
{
    async_falls_short(false);
}

Test(replicas, too_few_make_a_dispatch_completion_not_replicated)
{
    async_falls_short(true);
}

Test(replicas, are_awaited_by_a_completion_until_it_is_cancelled)
{
    loop_client = open_waiting(1, LONG_MS);
    dispatching = false;
    hlk_owner *owner = hlk_owner_create(loop_client, "o");
    hlk_lock *lock = fixture_owned(loop_client, "t", owner);
    hlk_cancel *cancel = hlk_cancel_create(loop_client);
    struct done done = { 0 };
    pause_both();
    acquire(lock, HLK_FOREVER, cancel, &done);
    WAIT_FOR(blocked() == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&done), HLK_INTERRUPTED, "%s", done.error);
    assert_becomes_free("t");
    hlk_cancel_destroy(cancel);
    hlk_owner_destroy(owner);
}

Test(replicas, are_waited_for_by_locks_of_each_kind)
{
    hlk_client *client = open_waiting(2, LONG_MS);
    for (int kind = HLK_LOCK_PLAIN; kind <= HLK_LOCK_STRING; kind++) {
        char name[8];
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kind;
        (void)snprintf(name, sizeof name, "t%d", kind);
        hlk_lock *lock = fixture_lock(client, name, &opts);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "kind %d: %s", kind, hlk_last_error());
        cr_assert(replica_has(1, name));
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    server_allow(fixture.server, "redisson_lock_token:*");
    cr_assert_eq(raw_calls(admin, "wait"), HLK_LOCK_STRING + 1);
}

/* --- a semaphore, which has no hold: what replicas have is the note that the call has taken --- */

static hlk_semaphore *semaphore_of(hlk_client *client)
{
    hlk_semaphore *permits = hlk_semaphore_create(client, "t");
    cr_assert_not_null(permits, "%s", hlk_last_error());
    raw(admin, "SET t 2");
    WAIT_FOR(raw_int(admin, "WAIT 2 100") == 2);
    return permits;
}

static void end_semaphore(hlk_semaphore *permits)
{
    hlk_semaphore_destroy(permits);
    fixture_close_all();
    raw(admin, "DEL t hasplock_queue:{t}");
}

Test(replicas, have_the_permits_when_a_semaphores_acquire_returns)
{
    hlk_semaphore *permits = semaphore_of(open_waiting(2, LONG_MS));
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(raw(seen[0], "GET t"), "\"0\"");
    cr_assert_str_eq(raw(seen[1], "GET t"), "\"0\"");
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK, "%s", hlk_last_error());
    end_semaphore(permits);
}

Test(replicas, that_are_too_few_get_a_semaphores_permits_back)
{
    hlk_semaphore *permits = semaphore_of(open_waiting(1, 300));
    pause_both();
    cr_assert_eq(hlk_semaphore_acquire(permits, 2, HLK_FOREVER), HLK_NOT_REPLICATED, "%s", hlk_last_error());
    assert_none_acknowledged(hlk_last_error());
    WAIT_FOR(strcmp(raw(admin, "GET t"), "\"2\"") == 0);
    end_semaphore(permits);
}

static void *take_permits(void *permits)
{
    return hlk_semaphore_acquire(permits, 2, HLK_FOREVER) == HLK_OK ? permits : NULL;
}

Test(replicas, are_waited_for_by_a_semaphore_across_a_reconnect)
{
    pthread_t thread;
    void *taken;
    hlk_client *client = open_waiting(1, LONG_MS);
    hlk_semaphore *permits = semaphore_of(client);
    pause_both();
    cr_assert_eq(pthread_create(&thread, NULL, take_permits, permits), 0);
    WAIT_FOR(blocked() == 1);
    uint64_t before = fixture_counters(client).reconnects;
    raw(admin, "CLIENT KILL TYPE normal SKIPME yes");
    WAIT_FOR(fixture_counters(client).reconnects > before && blocked() == 1);
    server_resume(replicas[0]);
    server_resume(replicas[1]);
    cr_assert_eq(pthread_join(thread, &taken), 0);
    cr_assert_not_null(taken);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    cr_assert_eq(hlk_semaphore_release(permits, 2), HLK_OK, "%s", hlk_last_error());
    end_semaphore(permits);
}
