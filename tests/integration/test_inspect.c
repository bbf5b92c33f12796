/* What the server says of a lock, and what a client has counted. */
#include "support/stage.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

static void start(void)
{
    stage_up(0);
}

TestSuite(query, .init = start, .fini = stage_down, .timeout = 60);
TestSuite(counters, .init = start, .fini = stage_down, .timeout = 60);

static struct hlk_lock_state ask(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    memset((char *)&state + sizeof state.size, 0x5a, sizeof state - sizeof state.size);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    return state;
}

Test(query, of_a_free_lock)
{
    struct hlk_lock_state state = ask(stage_lock(stage_open(NULL), "t", NULL));
    cr_assert_eq(state.held, 0);
    cr_assert_eq(state.mine, 0);
    cr_assert_eq(state.count, 0);
    cr_assert_eq(state.ttl_ms, 0);
    cr_assert_str_eq(state.holder, "");
    cr_assert_eq(state.waiting, 0);
}

Test(query, of_a_lock_of_mine_and_of_somebody_elses)
{
    hlk_client *client = stage_open(NULL), *other = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL), *theirs = stage_lock(other, "t", NULL);
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
    hlk_lock *lock = stage_lock(stage_open(NULL), "t", NULL);
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
    hlk_lock *lock = stage_lock(stage_open(NULL), "t", NULL);
    char name[400];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    raw(stage.redis, "HSET t %s 7", name);
    struct hlk_lock_state state = ask(lock);
    cr_assert_eq(state.ttl_ms, -1);
    cr_assert_eq(state.count, 7);
    cr_assert_eq(strlen(state.holder), sizeof state.holder - 1);
    cr_assert_eq(strncmp(state.holder, name, sizeof state.holder - 1), 0);
    raw(stage.redis, "DEL t");
}

Test(query, counts_client_processes_that_wait_not_their_threads)
{
    hlk_client *one = stage_open(NULL), *two = stage_open(NULL);
    hlk_lock *lock = stage_lock(one, "t", NULL);
    struct actor *waiters[4];
    raw(stage.redis, "HSET t foreign:1 1");
    for (int i = 0; i < 4; i++)
        waiters[i] = actor_start_passing(stage_lock(i < 3 ? one : two, "t", NULL));
    WAIT_FOR_WAITERS(one, 3);
    WAIT_FOR(ask(lock).waiting == 2);
    raw(stage.redis, "DEL t");
    raw(stage.redis, "PUBLISH redisson_lock__channel:{t} 0");
    for (int i = 0; i < 4; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    WAIT_FOR(ask(lock).waiting == 0);
}

Test(query, writes_no_further_than_the_callers_struct)
{
    hlk_lock *lock = stage_lock(stage_open(NULL), "t", NULL);
    struct hlk_lock_state state;
    memset(&state, 0x5a, sizeof state);
    state.size = offsetof(struct hlk_lock_state, holder); /* an older caller's */
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
    hlk_lock *lock = stage_lock(stage_open(NULL), "t", NULL);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    raw(stage.redis, "SET t text");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER);
    raw(stage.redis, "DEL t");
}

Test(query, takes_only_a_reading_connection)
{
    hlk_lock *lock = stage_lock(stage_open(NULL), "t", NULL);
    ask(lock);
    cr_assert_eq(raw_int(stage.redis, "DBSIZE"), 0);
    cr_assert_eq(raw_clients(stage.redis, "normal"), 2, "the client's and the test's own");
}

/* asks A9: waiting, held, wait histogram, expired while held, release failed: built in */
Test(counters, count_what_happened)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL), *foreign = stage_lock(client, "t2", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    raw(stage.redis, "HSET t2 foreign:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(foreign, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(foreign, 20), HLK_TIMEOUT);
    cr_assert_eq(stage_counters(client).held, 1u);
    hlk_cancel *cancel = hlk_cancel_create(client);
    hlk_cancel_trigger(cancel);
    opts.cancel = cancel;
    cr_assert_eq(hlk_lock_acquire_with(foreign, &opts), HLK_INTERRUPTED);
    raw(stage.redis, "DEL t t2");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    struct hlk_counters counters = stage_counters(client);
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

Test(counters, fill_as_far_as_the_callers_struct_reaches)
{
    hlk_client *client = stage_open(NULL);
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
