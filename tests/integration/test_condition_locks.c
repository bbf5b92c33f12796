/* hlk_condition with each kind of lock, a multilock and a lock over several masters: it is given up, and held again. */
/* Shows: P54 */
#include "condition_fixture.h"
#include "quorum_fixture.h"

#include <stdio.h>

static void start(void)
{
    condition_start();
    server_allow(fixture.server, "redisson_lock_token:*");
    server_allow(fixture.server, "hasplock_fair:*");
}

static void start_quorum(void)
{
    quorum_begin(0);
}

TestSuite(condition_lock, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(condition_quorum, .init = start_quorum, .fini = quorum_end, .timeout = 60);

/* The waiter waits with `lock`; `other` excludes it. */
static void is_given_up(hlk_condition *condition, hlk_lock *lock, hlk_lock *other)
{
    struct waiting waits = { 0 };
    waiting_start_as(&waits, condition, lock, 0);
    cr_assert_eq(hlk_lock_acquire(other, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_signal(condition), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(condition_waiting() == 0);
    cr_assert_not(atomic_load(&waits.answered));
    cr_assert_eq(hlk_lock_release(other), HLK_OK, "%s", hlk_last_error());
    waiting_is_woken(&waits);
    cr_assert_gt(waits.left_ms, 0);
}

Test(condition_lock, of_each_kind_is_given_up)
{
    static const struct {
        int kind, other;
        int64_t permits;
    } kinds[] = { { HLK_LOCK_PLAIN, HLK_LOCK_PLAIN, 0 },         { HLK_LOCK_FENCED, HLK_LOCK_FENCED, 0 },
                  { HLK_LOCK_FAIR, HLK_LOCK_FAIR, 0 },           { HLK_LOCK_SPIN, HLK_LOCK_PLAIN, 0 },
                  { HLK_LOCK_NON_REENTRANT, HLK_LOCK_PLAIN, 0 }, { HLK_LOCK_NON_REENTRANT_FAIR, HLK_LOCK_FAIR, 0 },
                  { HLK_LOCK_STRING, HLK_LOCK_STRING, 0 },       { HLK_LOCK_READ, HLK_LOCK_WRITE, 0 },
                  { HLK_LOCK_WRITE, HLK_LOCK_READ, 0 },          { HLK_LOCK_PERMIT, HLK_LOCK_PERMIT, 1 } };
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *condition = condition_make(one, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[16];
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        snprintf(name, sizeof name, "t:%zu", i);
        opts.kind = kinds[i].kind;
        opts.permits = kinds[i].permits;
        hlk_lock *lock = fixture_lock(one, name, &opts);
        opts.kind = kinds[i].other;
        is_given_up(condition, lock, fixture_lock(two, name, &opts));
        if (kinds[i].permits)
            raw(fixture.redis, "DEL %s", name);
    }
    hlk_condition_destroy(condition);
}

Test(condition_lock, of_several_is_given_up)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *condition = condition_make(one, 0);
    hlk_lock *members[] = { fixture_lock(one, "ta", NULL), fixture_lock(one, "tb", NULL) };
    hlk_lock *multilock = hlk_lock_create_multilock(members, 2, NULL);
    cr_assert_not_null(multilock, "%s", hlk_last_error());
    for (int i = 0; i < 2; i++)
        is_given_up(condition, multilock, fixture_lock(two, i ? "tb" : "ta", NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(multilock, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_wait(condition, multilock, 50), HLK_TIMEOUT, "%s", hlk_last_error());
    for (int i = 0; i < 2; i++)
        cr_assert_gt(hlk_lock_left_ms(members[i]), 40000, "it has its fixed lease again");
    cr_assert_eq(hlk_lock_release(multilock), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(multilock);
    hlk_condition_destroy(condition);
}

Test(condition_quorum, gives_up_a_lock_over_several_masters)
{
    hlk_client *one;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL),
             *other = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL);
    cr_assert_eq(hlk_client_open(&one, hlk_test_url(masters[0]), NULL), HLK_OK, "%s", hlk_last_error());
    hlk_condition *condition = condition_make(one, 0);
    struct waiting waits = { 0 };
    waiting_start(&waits, condition, lock);
    WAIT_FOR(raw_int(views[0], "ZCARD " WAITERS) == 1);
    cr_assert_eq(hlk_lock_acquire(other, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_signal(condition), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(other), HLK_OK, "%s", hlk_last_error());
    waiting_is_woken(&waits);
    hlk_condition_destroy(condition);
    hlk_client_close(one);
}
