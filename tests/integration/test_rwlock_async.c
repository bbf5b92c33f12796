/* The read/write lock with completions: the halves of one owner. Each test runs in both modes (async.h). */
#include "integration/async_fixture.h"
#include "integration/rwlock_fixture.h"

TestSuite(rwlock_async_events, .init = rw_start, .fini = fixture_end, .timeout = 90);
TestSuite(rwlock_async_dispatch, .init = rw_start, .fini = fixture_end, .timeout = 90);

#define BOTH(name) IN_BOTH_MODES(rwlock_async_events, rwlock_async_dispatch, name)

/* `writing` and then `reading` wait behind another client's write half. When that is released, `writing` is granted. */
static void wait_for_both(hlk_lock *writing, hlk_lock *reading, struct done *writes, struct done *reads)
{
    hlk_lock *elsewhere = rw_writer(fixture_open(NULL));
    cr_assert_eq(hlk_lock_acquire(elsewhere, HLK_NOWAIT), HLK_OK);
    acquire(writing, HLK_FOREVER, NULL, writes);
    LOOP_UNTIL(rw_queued() == 1);
    acquire(reading, HLK_FOREVER, NULL, reads);
    LOOP_UNTIL(rw_queued() == 2);
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
    cr_assert_eq(result(writes), HLK_OK, "%s", writes->error);
}

BOTH(waits_for_its_turn_and_is_granted_it)
{
    static struct done writes, reads, released;
    hlk_owner *one = hlk_owner_create(client, "one"), *two = hlk_owner_create(client, "two");
    hlk_lock *writing = rw_half(client, HLK_LOCK_WRITE, one), *reading = rw_half(client, HLK_LOCK_READ, two);
    wait_for_both(writing, reading, &writes, &reads);
    cr_assert_eq(atomic_load(&reads.runs), 0);
    release(writing, &released);
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_eq(result(&reads), HLK_OK, "%s", reads.error);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    hlk_owner_destroy(one);
    hlk_owner_destroy(two);
}

BOTH(downgrades_and_refuses_to_upgrade)
{
    static struct done writes, reads, released, upgrade;
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *writing = rw_half(client, HLK_LOCK_WRITE, owner), *reading = rw_half(client, HLK_LOCK_READ, owner);
    acquire(writing, HLK_FOREVER, NULL, &writes);
    cr_assert_eq(result(&writes), HLK_OK, "%s", writes.error);
    acquire(reading, HLK_FOREVER, NULL, &reads);
    cr_assert_eq(result(&reads), HLK_OK, "%s", reads.error);
    release(writing, &released);
    cr_assert_eq(result(&released), HLK_OK);
    cr_assert_str_eq(rw_mode(), "read");
    acquire(writing, HLK_FOREVER, NULL, &upgrade);
    cr_assert_eq(result(&upgrade), HLK_DEADLOCK);
    cr_assert_eq(hlk_lock_holds(reading), 1);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    hlk_owner_destroy(owner);
}

/* Its first completions have not run yet: it has both halves, and this is no upgrade. */
BOTH(nests_to_write_while_it_reads_too)
{
    static struct done writes, reads, again;
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *writing = rw_half(client, HLK_LOCK_WRITE, owner), *reading = rw_half(client, HLK_LOCK_READ, owner);
    acquire(writing, HLK_FOREVER, NULL, &writes);
    LOOP_UNTIL(hlk_lock_holds(writing) == 1);
    acquire(reading, HLK_FOREVER, NULL, &reads);
    LOOP_UNTIL(hlk_lock_holds(reading) == 1);
    acquire(writing, HLK_FOREVER, NULL, &again);
    cr_assert_eq(result(&again), HLK_OK, "%s", again.error);
    cr_assert_eq(result(&writes), HLK_OK);
    cr_assert_eq(result(&reads), HLK_OK);
    cr_assert_eq(hlk_lock_holds(writing), 2);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    hlk_owner_destroy(owner);
}

/* Its read half was queued behind its write half: no message about it follows. */
BOTH(reads_at_once_when_its_write_half_is_granted)
{
    static struct done writes, reads;
    hlk_owner *owner = hlk_owner_create(client, "o");
    hlk_lock *writing = rw_half(client, HLK_LOCK_WRITE, owner), *reading = rw_half(client, HLK_LOCK_READ, owner);
    wait_for_both(writing, reading, &writes, &reads);
    int64_t began = test_now_ms();
    cr_assert_eq(result(&reads), HLK_OK, "%s", reads.error);
    cr_assert_lt(running_ms(began), 2000, "not by a poll");
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    hlk_owner_destroy(owner);
}
