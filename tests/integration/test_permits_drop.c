/* Who needs no number leaves none: HLK_PERMITS_DROP, and delete. */
/* Shows: P50 */
#include "permits_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

/* Nothing is cleaned up: what a test leaves is wrong. */
static void stop(void)
{
    hlk_permits_destroy(permits);
    hlk_permits_destroy(theirs);
    fixture_close_all();
    fixture_end();
}

TestSuite(permits_drop, .init = permits_start, .fini = stop, .timeout = 60);

static hlk_lock *dropping(hlk_client *of, const char *name, int64_t number, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.permits = number;
    opts.flags = HLK_PERMITS_DROP;
    opts.owner = owner;
    return fixture_lock(of, name, &opts);
}

static void takes_and_releases(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(permits_drop, many_names_leave_no_key)
{
    char name[32];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "task-%d", i);
        hlk_lock *lock = dropping(client, name, i % 3 + 1, NULL);
        takes_and_releases(lock);
    }
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(permits_drop, the_last_permit_takes_the_number_along)
{
    hlk_owner *owners[2];
    hlk_lock *locks[2];
    for (int i = 0; i < 2; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        locks[i] = dropping(client, "t", 3, owners[i]);
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    }
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(raw_pttl(fixture.redis, PERMITS_LEASES), -1, "the leases have no end");
    cr_assert_eq(hlk_lock_release(locks[0]), HLK_OK);
    cr_assert_eq(permits_unused(), 2);
    cr_assert_eq(hlk_lock_release(locks[1]), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    for (int i = 0; i < 2; i++)
        hlk_owner_destroy(owners[i]);
}

/* A waiter is granted the permit, and the number is there for as long as anybody has one. */
Test(permits_drop, a_waiter_keeps_the_number)
{
    hlk_lock *ours = dropping(client, "t", 1, NULL), *theirs_too = dropping(other, "t", 1, NULL);
    cr_assert_eq(hlk_lock_acquire(ours, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *waiter = permit_waiter(theirs_too);
    cr_assert_eq(hlk_lock_release(ours), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(permits_unused(), 0);
    cr_assert_eq(fixture_try(ours), HLK_BUSY);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t " PERMITS_LEASES) == 0);
}

/* Redisson's would not see the free permit that is announced to it. */
Test(permits_drop, who_listens_keeps_the_number)
{
    hlk_lock *lock = dropping(client, "t", 1, NULL);
    redisContext *java = raw_open(fixture.server);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(java, "SUBSCRIBE %s", PERMITS_CHANNEL);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(raw_next(java), "[\"message\", \"redisson_sc:{t}\", \"1\"]");
    cr_assert_eq(permits_unused(), 1);
    redisFree(java);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", PERMITS_CHANNEL), ":0]") != NULL);
    takes_and_releases(lock);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0); /* a note of a window may be left for a moment */
}

Test(permits_drop, a_number_that_was_set_by_hand_stays)
{
    hlk_lock *lock = dropping(client, "t", 2, NULL);
    permits_set(2);
    takes_and_releases(lock);
    cr_assert_eq(permits_unused(), 2);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -1);
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK, "%s", hlk_last_error());
}

/* Who came first had not asked for it; and the other way round nobody loses a number that he keeps. */
Test(permits_drop, the_last_release_decides)
{
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *drops = dropping(client, "t", 2, NULL), *keeps = permit_of(2, owner);
    takes_and_releases(keeps);
    cr_assert_eq(permits_unused(), 2);
    takes_and_releases(drops);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(hlk_lock_acquire(keeps, HLK_NOWAIT), HLK_OK);
    takes_and_releases(drops);
    cr_assert_eq(hlk_lock_release(keeps), HLK_OK);
    cr_assert_eq(permits_unused(), 2);
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(permits_drop, a_permit_given_back_by_id_is_the_last_one_too)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.permits = 1;
    opts.flags = HLK_PERMITS_DROP;
    hlk_permits *of_one = hlk_permits_create(other, "t", &opts);
    hlk_lock *lock = permit_of(1, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_give_back(of_one, permit_id(lock)), HLK_OK, "%s", hlk_last_error());
    hlk_permits_destroy(of_one);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t " PERMITS_LEASES), 0);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
}

/* Nobody gives it back but the next that comes. */
Test(permits_drop, the_next_acquire_finds_the_permit_of_the_dead)
{
    hlk_lock *lock = dropping(client, "t", 1, NULL);
    raw(fixture.redis, "SET t 0 PX 3153600000000");
    raw(fixture.redis, "ZADD " PERMITS_LEASES " 1000 hlk-dead-1-x:7");
    takes_and_releases(lock);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

/* The release is sent in the background, when nobody calls any more. */
Test(permits_drop, a_release_in_the_background_is_the_last_one_too)
{
    hlk_client *third = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(third, NULL);
    hlk_lock *lock = dropping(third, "t", 1, owner);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    hlk_owner_destroy(owner);
    fixture_close(third); /* releases what is held */
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
}

Test(permits_drop, needs_a_number)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.flags = HLK_PERMITS_DROP;
    cr_assert_null(hlk_permits_create(client, "t", &opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "HLK_PERMITS_DROP without permits"), "%s", hlk_last_error());
    opts.permits = 1;
    cr_assert_null(hlk_lock_create(client, "t", &opts), "a plain lock has none");
}

Test(permits_drop, what_is_held_is_not_deleted)
{
    cr_assert_eq(hlk_permits_delete(permits), HLK_NOT_HOLDER);
    permits_set(2);
    cr_assert_eq(hlk_lock_acquire(their_permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_permits_delete(permits), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "permits are held (1)"), "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(hlk_lock_release(their_permit), HLK_OK);
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    raw(fixture.redis, "HSET t a 1");
    cr_assert_eq(hlk_permits_delete(permits), HLK_E_SERVER, "it is something else");
    raw(fixture.redis, "SET t word");
    cr_assert_eq(hlk_permits_delete(permits), HLK_E_SERVER);
    cr_assert_str_eq(raw(fixture.redis, "GETDEL t"), "\"word\"");
}

/* What a delete finds back, because its lease is over, is the first waiter's at once. */
Test(permits_drop, a_delete_passes_on_what_the_dead_had)
{
    static const char ticket[] = "hlk-a-1-x:1 5000 0 0 1700000000000";
    redisContext *inbox = raw_open(fixture.server);
    raw(inbox, "SUBSCRIBE hasplock_inbox:hlk-a-1-x");
    raw(fixture.redis, "SET t 0");
    raw(fixture.redis, "ZADD " PERMITS_LEASES " 1000 hlk-dead-1-x:7");
    raw(fixture.redis, "ZADD " PERMITS_QUEUE " 170000000000000 %b", ticket, sizeof ticket - 1);
    cr_assert_eq(hlk_permits_delete(permits), HLK_BUSY);
    cr_assert(strstr(raw_next(inbox), "egrant 1 5000"), "a grant");
    cr_assert_eq(hlk_permits_give_back(permits, "hlk-a-1-x:1"), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK, "%s", hlk_last_error());
    redisFree(inbox);
    raw(fixture.redis, "DEL " PERMITS_QUEUE);
}

/* They wait on, for a number. */
Test(permits_drop, waiters_outlive_a_delete)
{
    permits_set(0);
    struct actor *waiter = permit_waiter(their_permit);
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK, "%s", hlk_last_error());
    permits_set(1);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    WAIT_FOR(hlk_permits_delete(permits) == HLK_OK);
}
