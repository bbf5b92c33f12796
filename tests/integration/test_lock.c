/* The reentrant lock without waiting: holders, the state in Redis, nesting, release, extend, break. What holds for each
 * kind is in every_promise.c, names and bad arguments are in test_lock_input.c. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
}

static void start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
}

TestSuite(lock, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(lock_wire, .init = start_proxied, .fini = fixture_end, .timeout = 60);

static const char *hold_id(const hlk_lock *lock)
{
    static _Thread_local char texts[4][192];
    static _Thread_local int next;
    char *text = texts[next++ % 4];
    cr_assert_eq(hlk_lock_hold_id(lock, text, sizeof texts[0]), HLK_OK);
    return text;
}

static int64_t calls(const char *command)
{
    char section[64], *at;
    redisReply *stats = redisCommand(fixture.redis, "INFO commandstats");
    snprintf(section, sizeof section, "cmdstat_%s:calls=", command);
    at = strstr(stats->str, section);
    int64_t number = at ? strtoll(at + strlen(section), NULL, 10) : 0;
    freeReplyObject(stats);
    return number;
}

/* --- what a hold is */

Test(lock, is_one_field_with_a_ttl_while_held_and_then_gone)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), hold_id(lock));
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s", hold_id(lock)), 1);
    int64_t ttl = raw_pttl(fixture.redis, "t");
    cr_assert(ttl > 0 && ttl <= 30000, "ttl %lld", (long long)ttl);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(lock, tells_its_holder_how_long_it_is_held)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_held_until(lock), 0);
    int64_t before = hlk_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    int64_t after = hlk_now_ms();
    cr_assert_eq(hlk_lock_holds(lock), 1);
    /* from before it was sent, minus drift (2 % of the lease and 2 ms) and margin (a tenth) */
    const int64_t usable = 30000 - 602 - 3000;
    cr_assert_leq(hlk_lock_held_until(lock), after + usable);
    cr_assert_geq(hlk_lock_held_until(lock), before + usable - 1);
    int64_t left = hlk_lock_left_ms(lock);
    cr_assert(left > 0 && left <= usable);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_held_until(lock), 0);
}

Test(lock, is_named_in_redis_by_client_and_a_unique_number)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t2", NULL);
    char first[192];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    snprintf(first, sizeof first, "%s", hold_id(lock));
    size_t client_part = strlen(hlk_client_id(client));
    cr_assert_eq(strncmp(first, hlk_client_id(client), client_part), 0);
    cr_assert_eq(first[client_part], ':');
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    cr_assert_str_neq(hold_id(other), first);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_neq(hold_id(lock), first);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
}

Test(lock, hold_id_is_empty_when_free_and_cut_to_the_buffer)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    char buf[8] = "xxxxxxx";
    cr_assert_eq(hlk_lock_hold_id(lock, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_eq(buf, "");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(lock, buf, sizeof buf), HLK_OK);
    cr_assert_eq(strlen(buf), 7u);
    cr_assert_eq(strncmp(buf, hold_id(lock), 7), 0);
    cr_assert_eq(hlk_lock_hold_id(lock, NULL, 8), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_hold_id(lock, buf, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- exclusion */

Test(lock, respects_a_foreign_holder)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t 426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1 1");
    raw(fixture.redis, "PEXPIRE t 30000");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lock, two_handles_of_a_name_share_a_holder_in_a_thread)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *one = fixture_lock(client, "t", NULL), *two = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(one, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(two, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_holds(one), 2);
    cr_assert_eq(hlk_lock_holds(two), 2);
    cr_assert_str_eq(hold_id(one), hold_id(two));
    cr_assert_eq(hlk_lock_release(one), HLK_OK);
    cr_assert_eq(hlk_lock_release(one), HLK_OK);
    cr_assert_eq(hlk_lock_holds(two), 0);
}

Test(lock, a_hold_outlives_its_handle)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL), *again = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    hlk_lock_destroy(lock);
    cr_assert_eq(hlk_lock_holds(again), 1);
    cr_assert_eq(fixture_try(again), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(again), HLK_OK);
}

/* --- re-entry */

Test(lock, is_reentrant_and_held_until_the_count_is_zero)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), i);
    }
    for (int i = 2; i >= 1; i--) {
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(hlk_lock_holds(lock), i);
        cr_assert_eq(fixture_try(lock), HLK_BUSY);
    }
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(fixture_try(lock), HLK_OK);
}

Test(lock, reentry_under_the_watchdog_needs_no_round_trip)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    uint64_t commands = fixture_counters(client).commands;
    for (int i = 0; i < 100; i++)
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(fixture_counters(client).commands, commands);
    cr_assert_eq(fixture_counters(client).reentered, 100u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lock, reentry_with_fixed_leases_counts_in_redis_too)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s", hold_id(lock)), 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_str_neq(raw_holder(fixture.redis, "t"), "");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
}

/* --- release */

/* asks A3 redisson 4869: release without hold changes nothing */
Test(lock, release_without_a_hold_changes_and_sends_nothing)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL);
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(fixture_counters(client).commands, commands);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), hold_id(theirs));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

static void *release_in_thread(void *lock)
{
    static enum hlk_status status;
    status = hlk_lock_release(lock);
    return &status;
}

/* asks A6 redisson 6878: another thread is another holder, unless an owner says otherwise */
Test(lock, release_by_another_thread_changes_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    pthread_t thread;
    void *status;
    pthread_create(&thread, NULL, release_in_thread, lock);
    pthread_join(thread, &status);
    cr_assert_eq(*(enum hlk_status *)status, HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(fixture_try(lock), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- extend and break */

Test(lock, extend_without_a_hold_is_not_holder)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_extend(lock, 90000), HLK_NOT_HOLDER);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

/* Shows: S14 */
Test(lock, break_frees_it_whoever_holds_it)
{
    hlk_client *client = fixture_open(NULL), *admin = fixture_open(NULL);
    hlk_lock *theirs = fixture_lock(admin, "t", NULL), *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_break(theirs), HLK_NOT_HOLDER);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_break(theirs), HLK_OK);
    cr_assert_eq(hlk_lock_break(theirs), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(theirs), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

Test(lock, break_lets_the_next_waiter_have_it)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* --- what it costs */

Test(lock, acquire_or_release_is_one_command_and_no_message)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK); /* the scripts are known now */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "CONFIG RESETSTAT");
    uint64_t commands = fixture_counters(client).commands;
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(fixture_counters(client).commands, commands + 20);
    cr_assert_eq(calls("evalsha"), 20);
    cr_assert_eq(calls("eval"), 0);
    cr_assert_eq(calls("publish"), 0); /* asks A5 redisson 3349 */
    cr_assert_eq(calls("subscribe"), 0);
}

static void flush_between_calls(const char *name, int kind)
{
    struct hlk_lock_opts of_kind = HLK_LOCK_OPTS_INIT;
    of_kind.kind = kind;
    hlk_client *client = fixture_open(NULL), *admin = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, name, &of_kind), *theirs = fixture_lock(admin, name, &of_kind);
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    size_t waiters;
    fixed.lease_ms = 60000;
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_BUSY);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_extend(lock, 90000), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_waiters(lock, NULL, 0, &waiters), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "SCRIPT FLUSH");
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
}

/* asks A4 redisson 3.48: SCRIPT FLUSH between any two calls is invisible */
Test(lock, notices_no_script_flush_between_any_two_calls)
{
    flush_between_calls("t", HLK_LOCK_PLAIN);
    flush_between_calls("t-fair", HLK_LOCK_FAIR);
}

/* --- the server refuses */

/* Shows: S25 */
Test(lock, of_a_key_of_another_type_is_a_fault_and_leaves_it)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "SET t text");
    cr_assert_eq(hlk_lock_acquire(lock, 500), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "WRONGTYPE"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_str_eq(raw(fixture.redis, "GET t"), "\"text\"");
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* Shows: S30 */
Test(lock, on_a_full_server_is_refused_but_can_be_released)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *held = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "CONFIG SET maxmemory 1");
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "OOM"), "%s", hlk_last_error());
    cr_assert_eq(raw_pttl(fixture.redis, "t2"), -2);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    raw(fixture.redis, "CONFIG SET maxmemory 0");
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
}

/* --- lost replies */

/* asks A4 redisson 4871, redis-py 3847: a failed release stays releasable; releasing again is safe and returns the
 * outcome */
/* Shows: S23 */
Test(lock_wire, an_unanswered_release_is_unsure_and_repeatable)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 300;
    opts.reconnect_timeout_ms = 1000;
    server_allow(fixture.server, SERVER_TOMBSTONES);
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    proxy_freeze(fixture.proxy, true);
    enum hlk_status status = hlk_lock_release(lock);
    cr_assert(status == HLK_E_UNSURE || status == HLK_E_CONNECT, "%s", hlk_status_name(status));
    cr_assert_not_null(strstr(hlk_last_error(), "release \"t\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    proxy_freeze(fixture.proxy, false);
    WAIT_FOR((status = hlk_lock_release(lock)) != HLK_E_UNSURE && status != HLK_E_CONNECT);
    cr_assert(status == HLK_OK || status == HLK_NOT_HOLDER, "%s", hlk_status_name(status));
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
    cr_assert_geq(fixture_counters(client).release_unsure, 1u);
}

Test(lock_wire, a_lost_answer_to_a_release_frees_the_lock_once)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 300;
    server_allow(fixture.server, SERVER_TOMBSTONES);
    hlk_client *client = fixture_open(&opts), *other = fixture_open_at(hlk_test_url(fixture.server), NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    hlk_lock_release(lock);
    cr_assert(proxy_struck(fixture.proxy));
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_FOREVER), HLK_OK);
    const char *mine = hold_id(theirs);
    fixture_close(client); /* all repetitions have ended by then */
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), mine);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

/* The reply of the first attempt is lost, and the next attempt finds nothing. If the server is known to be the same
 * process, the release is done. A user without the right to ask for that cannot know it. */
Test(lock_wire, a_lost_answer_to_a_release_is_known_on_same_server)
{
    server_allow(fixture.server, SERVER_TOMBSTONES);
    raw(fixture.redis, "ACL SETUSER asks on >secret ~* &* +@all");
    raw(fixture.redis, "ACL SETUSER asks-not on >secret ~* &* +@all -info");
    for (int may = 1; may >= 0; may--) {
        struct hlk_client_opts opts = fixture_opts();
        opts.username = may ? "asks" : "asks-not";
        opts.password = "secret";
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = fixture_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
        enum hlk_status status = hlk_lock_release(lock);
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(status, may ? HLK_OK : HLK_E_UNSURE, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
        if (!may)
            (void)fixture_wait_event(HLK_EVENT_LOST, "t");
        cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), may ? 0u : 1u);
        fixture_close(client);
    }
}

/* asks A4 redisson 4706, 7367: any retry of acquire is the same acquire: the count rises by 1 at most */
/* Shows: S23 */
Test(lock_wire, a_lost_answer_to_an_acquire_leaves_no_extra_hold)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 300;
    server_allow(fixture.server, SERVER_TOMBSTONES);
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    fixed.lease_ms = 60000;
    proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    enum hlk_status status = hlk_lock_acquire_with(lock, &fixed);
    cr_assert(proxy_struck(fixture.proxy));
    if (status == HLK_OK) {
        cr_assert_eq(raw_int(fixture.redis, "HGET t %s", hold_id(lock)), 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    } else {
        cr_assert_eq(status, HLK_E_CONNECT);
        cr_assert_eq(hlk_lock_holds(lock), 0);
    }
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

/* asks A10 946: reconnects by itself; CLIENT KILL between two calls is invisible */
Test(lock_wire, a_connection_broken_between_calls_is_not_noticed)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        proxy_cut_all(fixture.proxy);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        proxy_cut_all(fixture.proxy);
    }
    cr_assert_geq(fixture_counters(client).reconnects, 5u);
}
