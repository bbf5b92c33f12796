/* hlk_multilock and RedissonMultiLock over the same locks, and over one of them. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { ROUNDS = 10 };

static hlk_lock *members[2];
static hlk_lock *multilock;

static void start(void)
{
    fixture_open();
    members[0] = fixture_lock("m1");
    members[1] = fixture_lock("m2");
    multilock = hlk_lock_create_multilock(members, 2, NULL);
    cr_assert_not_null(multilock, "%s", hlk_last_error());
}

static void stop(void)
{
    hlk_lock_destroy(multilock);
    fixture_close();
}

TestSuite(redisson_multilock, .init = start, .fini = stop, .timeout = FIXTURE_SECONDS);

static void both_are_free(void)
{
    expect_free("m1");
    expect_free("m2");
}

Test(redisson_multilock, excludes_java_and_is_excluded)
{
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 multilock m1+m2"), "ok");
    cr_assert_eq(hlk_lock_acquire(multilock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 multiunlock m1+m2"), "ok");
    cr_assert_eq(hlk_lock_acquire(multilock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    expect_held("m1", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    expect_held("m2", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 multitrylock m2+m1"), "false");
    cr_assert_eq(hlk_lock_release(multilock), HLK_OK, "%s", hlk_last_error());
    both_are_free();
}

/* One member is held by a plain lock of Java's: none of the others is kept. */
Test(redisson_multilock, waits_for_a_lock_of_java_and_then_has_all)
{
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 lock m2"), "ok");
    peer_tell(fixture.java, "A.2 lock m1");
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
    cr_assert_eq(hlk_lock_acquire(multilock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 unlock m1"), "ok");
    cr_assert_eq(hlk_lock_acquire(multilock, 100), HLK_TIMEOUT);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS m1") == 0);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock m2"), "ok");
    cr_assert_eq(hlk_lock_acquire(multilock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(multilock), HLK_OK, "%s", hlk_last_error());
    both_are_free();
}

/* redisson-api 9: two of Redisson's in opposite order go on for ever until their budgets differ. */
static void *acquire_and_release(void *arg)
{
    (void)arg;
    cr_assert_eq(hlk_lock_acquire(multilock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(multilock), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(redisson_multilock, and_java_in_the_opposite_order_both_go_on)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t ours; /* either may be the first, and then the other one waits for its release */
        peer_tell(fixture.java, "A.1 multilock m2+m1");
        cr_assert_eq(pthread_create(&ours, NULL, acquire_and_release, NULL), 0);
        const struct answer *got = peer_answer(fixture.java, "A.1");
        cr_assert_str_eq(got->text, "ok", "%s", got->why);
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 multiunlock m2+m1"), "ok");
        pthread_join(ours, NULL);
    }
    both_are_free();
}
