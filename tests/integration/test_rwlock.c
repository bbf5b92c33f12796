/* The read/write lock: who excludes whom, who is next, downgrade and upgrade. */
/* Shows: P41 */
#include "rwlock_fixture.h"

TestSuite(rwlock, .init = rw_start, .fini = fixture_end, .timeout = 90);

/* --- who excludes whom */

Test(rwlock, has_two_halves_and_leaves_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_rwlock *rw = hlk_rwlock_create(client, "t", NULL);
    cr_assert_not_null(rw);
    hlk_lock *reading = hlk_rwlock_read(rw), *writing = hlk_rwlock_write(rw);
    char hold[192];
    cr_assert_str_eq(hlk_lock_name(reading), "t");
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(writing, HLK_FOREVER), HLK_OK, "reentrant");
    cr_assert_eq(hlk_lock_holds(writing), 2);
    cr_assert_eq(hlk_lock_holds(reading), 0);
    cr_assert_str_eq(rw_mode(), "write");
    cr_assert_eq(hlk_lock_hold_id(writing, hold, sizeof hold), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "HEXISTS t %s:write", hold), 1);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(rw_mode(), "read");
    cr_assert_eq(hlk_lock_hold_id(reading, hold, sizeof hold), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s", hold), 1);
    cr_assert_gt(rw_lease(hold), 20000);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(hlk_lock_release(reading), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_release(writing), HLK_NOT_HOLDER);
    hlk_rwlock_destroy(rw);
}

Test(rwlock, refuses_what_it_cannot_be_made_with)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    cr_assert_null(hlk_rwlock_create(client, "t", &opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_rwlock_create(client, "", NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_rwlock_create(NULL, "t", NULL));
    cr_assert_null(hlk_rwlock_read(NULL));
    cr_assert_null(hlk_rwlock_write(NULL));
    hlk_rwlock_destroy(NULL);
}

Test(rwlock, lets_many_read_and_none_write)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *reading = rw_reader(client), *owned = rw_half(client, HLK_LOCK_READ, owner);
    hlk_lock *there = rw_reader(elsewhere);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(owned, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(there, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_try(reading), HLK_OK, "another thread");
    cr_assert_eq(fixture_try(rw_writer(client)), HLK_BUSY);
    cr_assert_eq(fixture_try(rw_writer(elsewhere)), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(fixture_try(rw_writer(client)), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(owned), HLK_OK);
    cr_assert_eq(fixture_try(rw_writer(client)), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(there), HLK_OK);
    cr_assert_eq(fixture_try(rw_writer(client)), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(rwlock, lets_one_write_and_nobody_else_in)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(fixture_try(writing), HLK_BUSY, "another thread");
    cr_assert_eq(fixture_try(rw_reader(client)), HLK_BUSY);
    cr_assert_eq(fixture_try(rw_reader(elsewhere)), HLK_BUSY);
    cr_assert_eq(fixture_try(rw_writer(elsewhere)), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(fixture_try(rw_reader(elsewhere)), HLK_OK);
}

Test(rwlock, is_one_command_each_way_and_publishes_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *halves[] = { rw_reader(client), rw_writer(client) };
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(halves[i], HLK_FOREVER), HLK_OK); /* the scripts are loaded now */
        cr_assert_eq(hlk_lock_release(halves[i]), HLK_OK);
        raw(fixture.redis, "CONFIG RESETSTAT");
        for (int k = 0; k < 10; k++) {
            cr_assert_eq(hlk_lock_acquire(halves[i], HLK_FOREVER), HLK_OK);
            cr_assert_eq(hlk_lock_release(halves[i]), HLK_OK);
        }
        redisReply *stats = redisCommand(fixture.redis, "INFO commandstats");
        cr_assert_not_null(strstr(stats->str, "cmdstat_evalsha:calls=20"));
        cr_assert_null(strstr(stats->str, "cmdstat_publish:"));
        freeReplyObject(stats);
    }
}

/* --- who is next */

/* W holds; W, R, R, W, R wait: their order is kept, and the readers come in together. */
Test(rwlock, goes_to_a_writer_or_all_readers_before_the_next)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *first = rw_writer(client);
    cr_assert_eq(hlk_lock_acquire(first, HLK_NOWAIT), HLK_OK);
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    struct actor *one = rw_waiter(rw_reader(elsewhere), 1), *two = rw_waiter(rw_reader(client), 2);
    struct actor *second = rw_waiter(rw_writer(client), 3), *late = rw_waiter(rw_reader(elsewhere), 4);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(rw_queued(), 4);
    cr_assert_eq(actor_end(writer), HLK_OK);
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    cr_assert_eq(rw_queued(), 2);
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 3);
    cr_assert_eq(actor_end(one), HLK_OK);
    cr_assert_not(actor_answered(second));
    cr_assert_eq(actor_end(two), HLK_OK);
    cr_assert_eq(actor_status(second), HLK_OK);
    cr_assert_not(actor_answered(late));
    cr_assert_eq(actor_end(second), HLK_OK);
    cr_assert_eq(actor_status(late), HLK_OK);
    cr_assert_eq(actor_end(late), HLK_OK);
}

/* One message for a process, not for each of its readers. */
Test(rwlock, wakes_the_readers_of_a_process_by_one_message)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client);
    struct actor *readers[8];
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < 8; i++)
        readers[i] = rw_waiter(rw_reader(elsewhere), i);
    raw(fixture.redis, "CONFIG RESETSTAT");
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(actor_status(readers[i]), HLK_OK);
    redisReply *stats = redisCommand(fixture.redis, "INFO commandstats");
    cr_assert_not_null(strstr(stats->str, "cmdstat_publish:calls=1,"), "%s", stats->str);
    cr_assert_not_null(strstr(stats->str, "cmdstat_evalsha:calls=1,"), "the release, and no acquire: %s", stats->str);
    freeReplyObject(stats);
    cr_assert_eq(fixture_counters(elsewhere).granted, 8);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(actor_end(readers[i]), HLK_OK);
}

/* A writer that waits is not starved: who comes to read later is behind it. Redisson: readers go on coming in. */
/* Shows: P47 */
Test(rwlock, lets_no_reader_in_before_a_writer_that_waits)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    cr_assert_eq(fixture_try(rw_reader(elsewhere)), HLK_BUSY);
    cr_assert_eq(fixture_try(rw_reader(client)), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "who reads already may nest");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    struct actor *late = rw_waiter(rw_reader(client), 1);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_not(actor_answered(late));
    cr_assert_eq(actor_end(writer), HLK_OK);
    cr_assert_eq(actor_status(late), HLK_OK);
    cr_assert_eq(actor_end(late), HLK_OK);
}

/* The readers behind a writer that gives up come in at once, not when the readers before it leave. */
Test(rwlock, lets_readers_in_when_the_writer_before_gives_up)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = HLK_FOREVER;
    opts.cancel = cancel;
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    struct actor *writer = actor_start(rw_writer(elsewhere), &opts);
    WAIT_FOR(rw_queued() == 1);
    struct actor *late = rw_waiter(rw_reader(elsewhere), 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(writer), HLK_INTERRUPTED);
    cr_assert_eq(actor_status(late), HLK_OK);
    cr_assert_lt(actor_running_ms(late), 4000, "by the message, not by a poll");
    cr_assert_eq(actor_end(late), HLK_OK);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    hlk_cancel_destroy(cancel);
}

/* --- downgrade and upgrade */

/* Redisson 5 of its list of weaknesses: its readers sleep on until the ttl that they read. */
/* Shows: P42 */
Test(rwlock, wakes_readers_at_a_downgrade)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(rw_mode(), "write");
    struct actor *one = rw_waiter(rw_reader(elsewhere), 0), *two = rw_waiter(rw_reader(client), 1);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_str_eq(rw_mode(), "read");
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    cr_assert_lt(actor_running_ms(one), 4000);
    cr_assert_eq(fixture_try(rw_writer(elsewhere)), HLK_BUSY);
    cr_assert_eq(actor_end(one), HLK_OK);
    cr_assert_eq(actor_end(two), HLK_OK);
    cr_assert_eq(hlk_lock_holds(reading), 1);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(rwlock, keeps_the_write_half_when_its_holder_stops_reading)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    struct actor *late = rw_waiter(rw_reader(client), 0);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_str_eq(rw_mode(), "write");
    cr_assert_eq(rw_queued(), 1);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(actor_end(late), HLK_OK);
}

/* The writer's own read comes in also behind those that wait: it would wait for itself. */
Test(rwlock, lets_its_writer_read_before_all_that_wait)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    struct actor *next = rw_waiter(rw_writer(client), 0);
    cr_assert_eq(hlk_lock_acquire(reading, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_not(actor_answered(next));
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(actor_end(next), HLK_OK);
}

/* Shows: P47 */
Test(rwlock, answers_an_upgrade_by_deadlock_at_once)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *reading[] = { rw_reader(client), rw_half(client, HLK_LOCK_READ, owner) };
    hlk_lock *writing[] = { rw_writer(client), rw_half(client, HLK_LOCK_WRITE, owner) };
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(reading[i], HLK_NOWAIT), HLK_OK);
        raw(fixture.redis, "CONFIG RESETSTAT");
        cr_assert_eq(hlk_lock_acquire(writing[i], HLK_FOREVER), HLK_DEADLOCK);
        cr_assert_not_null(strstr(hlk_last_error(), "to read"), "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_acquire(writing[i], HLK_NOWAIT), HLK_DEADLOCK);
        cr_assert_null(strstr(raw(fixture.redis, "INFO commandstats"), "cmdstat_evalsha:"), "nothing is sent");
        cr_assert_eq(hlk_lock_holds(reading[i]), 1);
        cr_assert_eq(fixture_try(rw_reader(elsewhere)), HLK_OK);
        cr_assert_eq(hlk_lock_release(reading[i]), HLK_OK);
        cr_assert_eq(hlk_lock_acquire(writing[i], 1000), HLK_OK, "the other client's readers may share a hold still");
        cr_assert_eq(hlk_lock_acquire(reading[i], HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_acquire(writing[i], HLK_NOWAIT), HLK_OK, "it has it already: nested");
        for (int k = 0; k < 2; k++)
            cr_assert_eq(hlk_lock_release(writing[i]), HLK_OK);
        cr_assert_eq(hlk_lock_release(reading[i]), HLK_OK);
    }
    hlk_owner_destroy(owner);
}

/* --- inspect, break */

Test(rwlock, tells_its_halves)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client), *writing = rw_writer(client);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_waiter waiters[2] = { { .size = sizeof *waiters }, { .size = sizeof *waiters } };
    size_t n;
    char hold[192];
    cr_assert_eq(hlk_lock_query(reading, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(state.held, 0);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(reading, hold, sizeof hold), HLK_OK);
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    cr_assert_eq(hlk_lock_query(reading, &state), HLK_OK);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(state.mine, 1);
    cr_assert_eq(state.count, 1);
    cr_assert_eq(state.waiting, 1);
    cr_assert_str_eq(state.holder, hold);
    cr_assert_eq(hlk_lock_query(writing, &state), HLK_OK);
    cr_assert_eq(state.held, 0);
    cr_assert_eq(hlk_lock_waiters(writing, waiters, 2, &n), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(n, 1);
    cr_assert_eq(strncmp(waiters[0].holder, hlk_client_id(elsewhere), strlen(hlk_client_id(elsewhere))), 0);
    cr_assert_gt(waiters[0].since_ms, 0);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(hlk_lock_query(writing, &state), HLK_OK);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(state.mine, 0);
    cr_assert_eq(actor_end(writer), HLK_OK);
}

Test(rwlock, is_taken_from_all_readers_by_a_break)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    struct actor *one = actor_start(rw_reader(elsewhere), NULL), *two = actor_start(rw_reader(client), NULL);
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    cr_assert_eq(hlk_lock_break(writing), HLK_NOT_HOLDER, "nobody writes");
    struct actor *next = rw_waiter(writing, 0);
    cr_assert_eq(hlk_lock_break(reading), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " RW_QUEUE), 0);
    cr_assert_eq(actor_end(next), HLK_OK);
    cr_assert_eq(actor_end(one), HLK_LOST);
    cr_assert_eq(actor_end(two), HLK_LOST);
}
