/* Locks that are not reentrant, of both sides on one name, and their reentrant like beside them: all are one lock. */
/* Shows: P26 */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(redisson_non_reentrant, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

/* Ours, and Java's: of the same kind, and the reentrant one. */
static const struct pair {
    int kind;
    const char *java, *reentrant;
} pairs[] = { { HLK_LOCK_NON_REENTRANT, "single", "" }, { HLK_LOCK_NON_REENTRANT_FAIR, "singlefair", "fair" } };
enum { PAIRS = sizeof pairs / sizeof *pairs };

static hlk_lock *lock_of(int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = hlk_lock_create(fixture.client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static void c_waits_for_java(hlk_lock *lock, const char *java)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter waiter;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %slock t", java), "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    c_waiter_start(&waiter, lock, HLK_FOREVER);
    await_parked(watch, 'C', "t");
    cr_assert_not(waiter.answered);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", java), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %strylock t", java), "false");
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    await_no_listeners("t");
    watch_stop(watch);
}

static void java_waits_for_c(hlk_lock *lock, const char *java)
{
    struct watch *watch = watch_start(fixture.server);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_DEADLOCK);
    peer_tell(fixture.java, "A.1 %slock t", java);
    await_parked(watch, 'J', "t");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", java), "ok");
    await_no_listeners("t");
    watch_stop(watch);
}

Test(redisson_non_reentrant, c_waits_for_java)
{
    for (int i = 0; i < PAIRS; i++) {
        hlk_lock *lock = lock_of(pairs[i].kind);
        c_waits_for_java(lock, pairs[i].java);
        c_waits_for_java(lock, pairs[i].reentrant);
        hlk_lock_destroy(lock);
    }
}

Test(redisson_non_reentrant, java_waits_for_c)
{
    for (int i = 0; i < PAIRS; i++) {
        hlk_lock *lock = lock_of(pairs[i].kind);
        java_waits_for_c(lock, pairs[i].java);
        java_waits_for_c(lock, pairs[i].reentrant);
        hlk_lock_destroy(lock);
    }
}

/* What Java makes of the same call: an exception, and the count stays. */
Test(redisson_non_reentrant, a_second_acquire_changes_nothing_on_either_side)
{
    for (int i = 0; i < PAIRS; i++) {
        hlk_lock *lock = lock_of(pairs[i].kind);
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 %slock t", pairs[i].java), "ok");
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 %slock t", pairs[i].java), "!IllegalMonitorStateException");
        expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", pairs[i].java), "ok");
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_DEADLOCK);
        expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        expect_free("t");
        hlk_lock_destroy(lock);
    }
}
