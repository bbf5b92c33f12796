/* What the server says about a lock, and what a client has counted. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(query, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(waiters, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(counters, .init = start, .fini = fixture_end, .timeout = 60);

static struct hlk_lock_state ask(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    memset((char *)&state + sizeof state.size, 0x5a, sizeof state - sizeof state.size);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    return state;
}

Test(query, of_a_free_lock)
{
    struct hlk_lock_state state = ask(fixture_lock(fixture_open(NULL), "t", NULL));
    cr_assert_eq(state.held, 0);
    cr_assert_eq(state.mine, 0);
    cr_assert_eq(state.count, 0);
    cr_assert_eq(state.ttl_ms, 0);
    cr_assert_str_eq(state.holder, "");
    cr_assert_eq(state.waiting, 0);
}

Test(query, of_a_lock_of_mine_and_of_somebody_elses)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL);
    char id[192];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    struct hlk_lock_state mine = ask(lock), seen = ask(theirs);
    cr_assert_eq(mine.held, 1);
    cr_assert_eq(mine.mine, 1);
    cr_assert_eq(mine.count, 1, "nested holds under the watchdog are counted in the process alone");
    cr_assert(mine.ttl_ms > 0 && mine.ttl_ms <= 30000);
    cr_assert_str_eq(mine.holder, id);
    cr_assert_eq(seen.held, 1);
    cr_assert_eq(seen.mine, 0);
    cr_assert_str_eq(seen.holder, id);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(query, counts_nested_holds_with_fixed_leases)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(ask(lock).count, 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(ask(lock).count, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(query, of_a_foreign_hold_without_end_and_with_a_long_name)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    char name[400] = "hlk-";
    memset(name + 4, 'n', sizeof name - 4);
    memcpy(name + sizeof name - 3, ":1", 3);
    raw(fixture.redis, "HSET t %s 7", name);
    struct hlk_lock_state state = ask(lock);
    cr_assert_eq(state.ttl_ms, -1);
    cr_assert_eq(state.count, 7);
    cr_assert_eq(strlen(state.holder), sizeof state.holder - 1);
    cr_assert_eq(strncmp(state.holder, name, sizeof state.holder - 1), 0);
    raw(fixture.redis, "DEL t");
}

Test(query, counts_waiting_client_processes_not_their_threads)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(one, "t", NULL);
    struct actor *waiters[4];
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < 4; i++)
        waiters[i] = actor_start_passing(fixture_lock(i < 3 ? one : two, "t", NULL));
    WAIT_FOR_WAITERS(one, 3);
    WAIT_FOR(ask(lock).waiting == 2);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    for (int i = 0; i < 4; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    WAIT_FOR(ask(lock).waiting == 0);
}

Test(query, writes_no_further_than_the_callers_struct)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    struct hlk_lock_state state;
    memset(&state, 0x5a, sizeof state);
    state.size = offsetof(struct hlk_lock_state, holder); /* of an older caller */
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.held, 0);
    for (size_t i = offsetof(struct hlk_lock_state, holder); i < sizeof state; i++)
        cr_assert_eq(((unsigned char *)&state)[i], 0x5a, "byte %zu", i);
    state.size = 0;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_query(lock, NULL), HLK_E_INVALID);
}

Test(query, of_a_key_of_another_type_is_a_fault)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    raw(fixture.redis, "SET t text");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER);
    raw(fixture.redis, "DEL t");
}

Test(query, takes_only_a_reading_connection)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    ask(lock);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(raw_clients(fixture.redis, "normal"), 2, "the client's and the test's own");
}

/* --- waiters */

#define ROOM 4
struct line {
    struct hlk_waiter waiters[ROOM];
    size_t n;
};

static struct line line_of(hlk_lock *lock)
{
    struct line line;
    memset(&line, 0x5a, sizeof line);
    line.waiters[0].size = sizeof line.waiters[0];
    cr_assert_eq(hlk_lock_waiters(lock, line.waiters, ROOM, &line.n), HLK_OK, "%s", hlk_last_error());
    return line;
}

static size_t in_queue(hlk_lock *lock)
{
    size_t n = 99;
    cr_assert_eq(hlk_lock_waiters(lock, NULL, 0, &n), HLK_OK, "%s", hlk_last_error());
    return n;
}

/* Adds a ticket without a waiter. */
static void add(int score, const char *format, ...)
{
    char member[400];
    va_list args;
    va_start(args, format);
    vsnprintf(member, sizeof member, format, args);
    va_end(args);
    cr_assert_str_eq(raw(fixture.redis, "ZADD hasplock_queue:{t} %d %s", score, member), ":1");
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

Test(waiters, of_a_lock_that_nobody_waits_for_are_none)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(line_of(lock).n, 0u);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(line_of(lock).n, 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(waiters, stand_in_queue_as_they_came_with_their_leases)
{
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    struct hlk_lock_opts fenced = HLK_LOCK_OPTS_INIT;
    hlk_client *clients[3] = { fixture_open(NULL), fixture_open(NULL), fixture_open(NULL) };
    hlk_lock *held = fixture_lock(fixture_open(NULL), "t", NULL);
    struct actor *actors[3];
    fixed.lease_ms = 7000;
    fenced.kind = HLK_LOCK_FENCED;
    int64_t before_ms = wall_ms();
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    for (size_t i = 0; i < 3; i++) {
        actors[i] = actor_start(fixture_lock(clients[i], "t", i == 2 ? &fenced : NULL), i == 1 ? &fixed : NULL);
        WAIT_FOR(in_queue(held) == i + 1);
    }
    struct line line = line_of(held);
    int64_t after_ms = wall_ms();
    cr_assert_eq(line.n, 3u);
    for (size_t i = 0; i < 3; i++) {
        const struct hlk_waiter *w = &line.waiters[i];
        size_t len = strlen(hlk_client_id(clients[i]));
        cr_assert_eq(w->size, sizeof *w);
        cr_assert_eq(strncmp(w->holder, hlk_client_id(clients[i]), len), 0, "%s", w->holder);
        cr_assert(w->holder[len] == ':' && strspn(w->holder + len + 1, "0123456789") == strlen(w->holder + len + 1));
        cr_assert(w->since_ms >= before_ms && w->since_ms <= after_ms, "%lld", (long long)w->since_ms);
        cr_assert_eq(w->lease_ms, i == 1 ? 7000 : 5000);
        cr_assert_eq(w->fenced, i == 2);
    }
    char next[192];
    snprintf(next, sizeof next, "%s", line.waiters[0].holder);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(actors[0]), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), next, "the very name it was announced by");
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
    cr_assert_eq(in_queue(held), 0u);
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
}

Test(waiters, are_counted_all_and_told_as_far_as_there_is_room)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    for (int i = 1; i <= 9; i++)
        add(i, "hlk-x-1-a:%d 5000 0 0 123", i);
    raw(fixture.redis, "ZADD hasplock_queue:{t} -123 hlk-x-1-a:77"); /* a tombstone, not a waiter */
    raw(fixture.redis, "ZADD hasplock_queue:{t} 1000000000000001 open");
    struct line line = line_of(lock);
    cr_assert_eq(line.n, 9u);
    cr_assert_str_eq(line.waiters[ROOM - 1].holder, "hlk-x-1-a:4");
    cr_assert_eq(line.waiters[ROOM - 1].since_ms, 123);
    struct line two;
    memset(&two, 0x5a, sizeof two);
    two.waiters[0].size = sizeof two.waiters[0];
    cr_assert_eq(hlk_lock_waiters(lock, two.waiters, 2, &two.n), HLK_OK);
    cr_assert_eq(two.n, 9u);
    for (size_t i = 0; i < sizeof two.waiters[2]; i++)
        cr_assert_eq(((unsigned char *)&two.waiters[2])[i], 0x5a, "byte %zu", i);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

/* The longest possible reply is within the limits for a server's replies. */
Test(waiters, are_told_as_far_as_they_may_be_asked_for)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 30000; /* Redis 6.2 writes this reply for a second, on a machine without other work */
    hlk_lock *lock = fixture_lock(fixture_open(&opts), "t", NULL);
    char host[141];
    memset(host, 'h', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    raw(fixture.redis, "EVAL %s 1 hasplock_queue:{t} %d %s",
        "for i = 1, ARGV[1] do redis.call('zadd', KEYS[1], i, 'hlk-' .. ARGV[2] .. '-1-0123456789abcdef:9000000000' .. "
        "string.format('%09d', i) .. ' 31622400000 9007199254740993 9007199254740993 1234567890123') end",
        HLK_WAITERS_MAX + 5, host);
    struct hlk_waiter *waiters = calloc(HLK_WAITERS_MAX, sizeof *waiters);
    size_t n = 0;
    waiters[0].size = sizeof waiters[0];
    cr_assert_eq(hlk_lock_waiters(lock, waiters, HLK_WAITERS_MAX, &n), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(n, HLK_WAITERS_MAX + 5u);
    cr_assert_eq(waiters[HLK_WAITERS_MAX - 1].since_ms, 1234567890123);
    free(waiters);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

Test(waiters, are_told_as_far_as_an_older_callers_struct_reaches)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    const size_t old = offsetof(struct hlk_waiter, lease_ms);
    struct hlk_waiter room[2], *second = (struct hlk_waiter *)((char *)room + old);
    add(1, "hlk-x-1-a:1 5000 0 0 11");
    add(2, "hlk-x-1-b:2 5000 0 0 22");
    memset(room, 0x5a, sizeof room);
    room[0].size = old;
    size_t n = 0;
    cr_assert_eq(hlk_lock_waiters(lock, room, 2, &n), HLK_OK);
    cr_assert_eq(n, 2u);
    cr_assert_str_eq(room[0].holder, "hlk-x-1-a:1");
    cr_assert_str_eq(second->holder, "hlk-x-1-b:2");
    cr_assert_eq(second->since_ms, 22);
    for (size_t i = 2 * old; i < sizeof room; i++)
        cr_assert_eq(((unsigned char *)room)[i], 0x5a, "byte %zu", i);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

Test(waiters, that_are_none_of_ours_are_told_as_they_are_written)
{
    static const char *const strange[] = { "nonsense", ":", "a:b 1 2 3 4", "hlk-x-1-a:1 5000 0 0 11 12" };
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    char longest[400];
    for (int i = 0; i < 4; i++)
        add(i + 1, "%s", strange[i]);
    struct line line = line_of(lock);
    cr_assert_eq(line.n, 4u);
    for (int i = 0; i < 4; i++) {
        cr_assert_str_eq(line.waiters[i].holder, strange[i]);
        cr_assert_eq(line.waiters[i].since_ms, 0);
        cr_assert_eq(line.waiters[i].lease_ms, 0);
        cr_assert_eq(line.waiters[i].fenced, 0);
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    raw(fixture.redis, "DEL hasplock_queue:{t}");
    add(1, "%s", longest);
    line = line_of(lock);
    cr_assert_eq(strlen(line.waiters[0].holder), sizeof line.waiters[0].holder - 1);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

Test(waiters, of_a_fair_lock_are_threads_and_javas_too)
{
    static const char *const java = "b983c153-7421-469a-addb-44fb92259a1b:31";
    struct hlk_lock_opts fair = HLK_LOCK_OPTS_INIT;
    hlk_client *client = fixture_open(NULL);
    fair.kind = HLK_LOCK_FAIR;
    hlk_lock *lock = fixture_lock(client, "t", &fair);
    struct actor *actors[2];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (size_t i = 0; i < 2; i++) {
        actors[i] = actor_start(lock, NULL);
        WAIT_FOR(in_queue(lock) == i + 1);
    }
    raw(fixture.redis, "RPUSH redisson_lock_queue:{t} %s", java);
    struct line line = line_of(lock);
    cr_assert_eq(line.n, 3u);
    cr_assert_eq(strncmp(line.waiters[1].holder, hlk_client_id(client), strlen(hlk_client_id(client))), 0);
    cr_assert_str_eq(line.waiters[2].holder, java);
    cr_assert_eq(line.waiters[1].since_ms, 0);
    raw(fixture.redis, "LREM redisson_lock_queue:{t} 1 %s", java);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(actor_end(actors[i]), HLK_OK);
}

Test(waiters, asked_for_wrongly_are_none)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    struct hlk_waiter room[1] = { { .size = 0 } };
    size_t n = 7;
    cr_assert_eq(hlk_lock_waiters(lock, room, 1, &n), HLK_E_INVALID);
    cr_assert_eq(n, 0u);
    room[0].size = sizeof room[0];
    cr_assert_eq(hlk_lock_waiters(lock, room, 1, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_waiters(lock, NULL, 1, &n), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_waiters(lock, room, SIZE_MAX, &n), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_waiters(lock, room, HLK_WAITERS_MAX + 1, &n), HLK_E_INVALID);
    n = 7;
    cr_assert_eq(hlk_lock_waiters(NULL, room, 1, &n), HLK_E_INVALID);
    cr_assert_eq(n, 0u);
    raw(fixture.redis, "SET hasplock_queue:{t} text");
    n = 7;
    cr_assert_eq(hlk_lock_waiters(lock, room, 1, &n), HLK_E_SERVER);
    cr_assert_eq(n, 0u);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

/* asks A9: waiting, held, wait histogram, expired while held, release failed: built in */
Test(counters, count_what_happened)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *foreign = fixture_lock(client, "t2", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    raw(fixture.redis, "HSET t2 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(foreign, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(foreign, 500), HLK_TIMEOUT);
    cr_assert_eq(fixture_counters(client).held, 1u);
    hlk_cancel *cancel = hlk_cancel_create(client);
    hlk_cancel_trigger(cancel);
    opts.cancel = cancel;
    cr_assert_eq(hlk_lock_acquire_with(foreign, &opts), HLK_INTERRUPTED);
    raw(fixture.redis, "DEL t t2");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    struct hlk_counters counters = fixture_counters(client);
    cr_assert_eq(counters.acquired, 2u);
    cr_assert_eq(counters.reentered, 1u);
    cr_assert_eq(counters.busy, 1u);
    cr_assert_eq(counters.timeouts, 1u);
    cr_assert_eq(counters.interrupted, 1u);
    cr_assert_eq(counters.lost, 1u);
    cr_assert_eq(counters.released, 1u, "%d", (int)counters.released);
    cr_assert_eq(counters.held, 0u);
    cr_assert_eq(counters.waiting, 0u);
    cr_assert_eq(counters.orphaned, 0u);
    cr_assert_geq(counters.commands, 6u);
    cr_assert_geq(counters.writes, 6u);
    cr_assert_leq(counters.writes, counters.commands);
    hlk_cancel_destroy(cancel);
}

/* asks A9 RedLock.net 100: a release that failed: refused, so the lock stays until its lease is over */
Test(counters, count_a_release_that_was_refused)
{
    const char *who = fixture.server->acl ? "locks" : "default";
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_owned(client, "t2", owner);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "ACL SETUSER %s -evalsha -eval", who);
    cr_assert_eq(hlk_lock_release(lock), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(other, NULL, NULL), HLK_OK);
    WAIT_FOR(fixture_counters(client).release_refused == 2);
    cr_assert_eq(fixture_counters(client).released, 0u);
    raw(fixture.redis, "ACL SETUSER %s +evalsha +eval", who);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER, "over for its holder");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY, "and not yet for the server");
    raw(fixture.redis, "DEL t t2");
    hlk_owner_destroy(owner);
}

Test(counters, fill_as_far_as_the_callers_struct_reaches)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_counters counters;
    memset(&counters, 0x5a, sizeof counters);
    counters.size = offsetof(struct hlk_counters, busy);
    cr_assert_eq(hlk_client_counters(client, &counters), HLK_OK);
    cr_assert_eq(counters.acquired, 0u);
    for (size_t i = offsetof(struct hlk_counters, busy); i < sizeof counters; i++)
        cr_assert_eq(((unsigned char *)&counters)[i], 0x5a, "byte %zu", i);
    counters.size = 0;
    cr_assert_eq(hlk_client_counters(client, &counters), HLK_E_INVALID);
    cr_assert_eq(hlk_client_counters(client, NULL), HLK_E_INVALID);
    counters.size = sizeof counters;
    cr_assert_eq(hlk_client_counters(NULL, &counters), HLK_E_INVALID);
}
