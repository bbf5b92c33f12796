/* Holders that are not threads: owners move between threads, and have an end. That they exclude each other and threads
 * is a promise of each kind: every_promise.c. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(owner, .init = start, .fini = fixture_end, .timeout = 60);

/* asks A6 redisson 6878: acquired in one thread, released in another */
Test(owner, is_reentrant_across_threads_and_any_may_release)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "moving");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct actor *elsewhere = actor_start_wait(lock, HLK_NOWAIT);
    cr_assert_eq(actor_status(elsewhere), HLK_OK);
    actor_leave(elsewhere); /* that thread has ended; the owner still holds */
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(fixture_try(fixture_lock(client, "t", NULL)), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0u);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_owner_destroy(owner);
}

Test(owner, labels_are_up_to_64_printable_bytes)
{
    hlk_client *client = fixture_open(NULL);
    char label[66];
    memset(label, 'x', sizeof label);
    label[65] = '\0';
    cr_assert_null(hlk_owner_create(client, label));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    label[64] = '\0';
    hlk_owner *longest = hlk_owner_create(client, label), *none = hlk_owner_create(client, NULL),
              *empty = hlk_owner_create(client, ""), *copied;
    cr_assert_str_eq(hlk_owner_label(longest), label);
    cr_assert_str_eq(hlk_owner_label(none), "");
    cr_assert_str_eq(hlk_owner_label(empty), "");
    cr_assert_null(hlk_owner_label(NULL));
    cr_assert_null(hlk_owner_create(client, "two\nlines"));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_owner_create(NULL, "x"));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    snprintf(label, sizeof label, "order-4711");
    copied = hlk_owner_create(client, label);
    label[0] = 'X';
    cr_assert_str_eq(hlk_owner_label(copied), "order-4711");
    hlk_owner_destroy(longest);
    hlk_owner_destroy(none);
    hlk_owner_destroy(empty);
    hlk_owner_destroy(copied);
    hlk_owner_destroy(NULL);
}

Test(owner, lives_as_long_as_a_lock_made_with_it)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "counted");
    hlk_lock *one = fixture_owned(client, "t", owner), *two = fixture_owned(client, "t", owner);
    hlk_owner_destroy(owner);
    cr_assert_eq(hlk_lock_acquire(one, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(two, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(two), HLK_OK);
    cr_assert_eq(hlk_lock_release(one), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0u);
}

Test(owner, that_is_gone_while_holding_is_orphaned_and_expires)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 600;
    hlk_client *client = fixture_open(&opts), *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "careless");
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &lock_opts), *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    hlk_owner_destroy(owner);
    cr_assert_eq(fixture_events(0, NULL), 0u, "the lock still has a reference");
    hlk_lock_destroy(lock);
    fixture_wait_event(HLK_EVENT_ORPHANED, "t");
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(fixture_counters(client).orphaned, 1u);
}

/* One owner, for which many threads act in turn: a job that moves from worker to worker. */
Test(owner, is_handed_through_many_threads)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    char first[192], now[192];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(lock, first, sizeof first), HLK_OK);
    for (int i = 0; i < 20; i++) {
        struct actor *worker = actor_start_wait(lock, HLK_NOWAIT);
        cr_assert_eq(actor_end(worker), HLK_OK);
        cr_assert_eq(hlk_lock_hold_id(lock, now, sizeof now), HLK_OK);
        cr_assert_str_eq(now, first);
    }
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(owner, of_another_client_is_refused)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(other, "stranger");
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    cr_assert_null(hlk_lock_create(client, "t", &opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    hlk_owner_destroy(owner);
}
