/* Data that is no lock under a lock's name is neither free nor held, and is never acquired. No two names share a
 * queue. */
#include "support/fixture.h"
#include "support/no_lock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(no_lock, .init = start, .fini = fixture_end, .timeout = 60);

static void is_refused(enum hlk_status status, const char *operation)
{
    char begin[64];
    int len = snprintf(begin, sizeof begin, "%s \"t\" at ", operation);
    cr_assert_eq(status, HLK_E_SERVER, "%s: %d", operation, (int)status);
    cr_assert_eq(strncmp(hlk_last_error(), begin, (size_t)len), 0, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "a hash, but no lock"), "%s", hlk_last_error());
}

static void every_call_refuses_them(int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", &opts);
    for (int i = 0; i < NO_LOCKS; i++) {
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        size_t n = 7;
        char set[160], before[400];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(fixture.redis, set);
        snprintf(before, sizeof before, "%s", raw(fixture.redis, "HGETALL t"));
        is_refused(hlk_lock_query(lock, &state), "query");
        is_refused(hlk_lock_waiters(lock, NULL, 0, &n), "waiters");
        is_refused(hlk_lock_break(lock), "break");
        is_refused(hlk_lock_acquire(lock, HLK_NOWAIT), "acquire");
        is_refused(hlk_lock_acquire(lock, HLK_FOREVER), "acquire");
        cr_assert_eq(n, 0u);
        cr_assert_str_eq(raw(fixture.redis, "HGETALL t"), before);
        cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 1);
        raw(fixture.redis, "DEL t");
    }
}

Test(no_lock, of_a_hash_every_call_says_so_and_changes_nothing)
{
    every_call_refuses_them(HLK_LOCK_PLAIN);
}

Test(no_lock, of_a_hash_a_fair_lock_says_the_same)
{
    every_call_refuses_them(HLK_LOCK_FAIR);
}

/* For example a read/write lock of Redisson's: it will end. */
Test(no_lock, that_ends_by_itself_is_waited_for)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t mode read b983c153-7421-469a-addb-44fb92259a1b:31 1");
    raw(fixture.redis, "PEXPIRE t 30000");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    is_refused(hlk_lock_break(lock), "break");
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 1);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 2);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(no_lock, that_came_in_a_lock_s_place_ends_a_wait)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    raw(fixture.redis, "HSET t name bob");
    WAIT_FOR(raw_int(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0") >= 0 && actor_answered(waiter));
    cr_assert_eq(actor_status(waiter), HLK_E_SERVER);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 1);
    cr_assert_str_eq(raw(fixture.redis, "HGET t name"), "\"bob\"");
    (void)actor_end(waiter);
    raw(fixture.redis, "DEL t");
}

/* --- another key of the lock's */

Test(no_lock, in_the_queue_s_or_the_counter_s_place_is_named)
{
    struct hlk_lock_opts fenced = HLK_LOCK_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    fenced.kind = HLK_LOCK_FENCED;
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "SET hasplock_queue:{t} text");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "hasplock_queue:{t}"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "hasplock_queue:{t}"), "%s", hlk_last_error());
    raw(fixture.redis, "DEL hasplock_queue:{t}");
    raw(fixture.redis, "SET redisson_lock_token:{t} text");
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t", &fenced), HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "redisson_lock_token:{t}"), "%s", hlk_last_error());
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
}

/* --- replies of another type */

TestSuite(odd_answer, .timeout = 60);

/* A server whose EVALSHA is `command`, which returns anything but a script's reply. */
static void is_never_free(const char *command)
{
    const char *extra[] = {
        "--rename-command", "EVALSHA", "NOT_EVALSHA", "--rename-command", command, "EVALSHA", NULL
    };
    struct server *server = server_start(SERVER_NOACL, extra);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    size_t n = 7;
    hlk_lock *lock = fixture_lock(fixture_open_at(hlk_test_url(server), NULL), "t", NULL);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER, "%s", command);
    cr_assert_not_null(strstr(hlk_last_error(), "query \"t\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_waiters(lock, NULL, 0, &n), HLK_E_SERVER, "%s", command);
    cr_assert_eq(n, 0u);
    server_stop(server);
}

Test(odd_answer, of_one_number_is_a_fault)
{
    is_never_free("TOUCH");
}

Test(odd_answer, of_six_nothings_is_a_fault)
{
    is_never_free("MGET");
}

/* --- names */

static void start_with_all_keys(void)
{
    fixture_begin(SERVER_NOACL); /* the rights of acl.h are for names with another prefix */
}

TestSuite(names, .init = start_with_all_keys, .fini = fixture_end, .timeout = 60);

Test(names, with_and_without_braces_have_queues_of_their_own)
{
    hlk_client *waits = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *held = fixture_lock(fixture_open(NULL), "t", NULL), *braces = fixture_lock(other, "{t}", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(waits, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    for (int i = 0; i < 8; i++) { /* with a yield window and without */
        cr_assert_eq(hlk_lock_acquire(braces, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(braces), HLK_OK);
        cr_assert_eq(raw_int(fixture.redis, "EXISTS {t}"), 0, "it is nobody's");
        cr_assert_eq(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15"), 1,
                     "and who waits for t stays in the queue");
    }
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(waits).granted, 1u);
    cr_assert_eq(fixture_counters(waits).handed_back, 0u);
}
