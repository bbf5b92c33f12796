/* hlk_permits and RPermitExpirableSemaphore of one name, in both directions. */
/* Shows: P50 */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 30, LIMIT = 2 };

static hlk_permits *permits;
static hlk_lock *permit;

static void start(void)
{
    fixture_open();
    permits = hlk_permits_create(fixture.client, "t", NULL);
    permit = hlk_permits_permit(permits);
    cr_assert_not_null(permit, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permset t %d", LIMIT), "true");
}

static void stop(void)
{
    hlk_permits_destroy(permits);
    raw(fixture.redis, "DEL t {t}:timeout");
    fixture_close();
}

TestSuite(redisson_permits, .init = start, .fini = stop, .timeout = FIXTURE_SECONDS);

/* As Redisson shows it. */
static const char *hex_id(void)
{
    static char hex[400];
    char id[192];
    cr_assert_eq(hlk_lock_hold_id(permit, id, sizeof id), HLK_OK, "%s", hlk_last_error());
    for (size_t i = 0; id[i]; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)id[i]);
    return hex;
}

/* Valid until the peer's next answer. */
static const char *java_takes(int64_t lease_ms)
{
    const char *id = peer_ask(fixture.java, "A.1 permtry t %lld", (long long)lease_ms);
    cr_assert_eq(strlen(id), 32, "%s", id);
    return id;
}

Test(redisson_permits, are_one_number_for_both)
{
    struct hlk_permits_state state = HLK_PERMITS_STATE_INIT;
    char id[128];
    cr_assert_eq(hlk_permits_try_set(permits, 9), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permcounts t"), "1/1/2");
    snprintf(id, sizeof id, "%s", java_takes(60000));
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permtry t 60000"), "null");
    cr_assert_eq(hlk_permits_query(permits, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert(state.free == 0 && state.held == 2);
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permrelease t %s", id), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permcounts t"), "2/0/2");
}

/* An id of ours is an id to it: it raises its lease and gives it back, and its holder is told. */
Test(redisson_permits, of_ours_are_taken_for_its_own)
{
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permextend t %s 90000", hex_id()), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permrelease t %s", hex_id()), "true");
    cr_assert_eq(hlk_lock_release(permit), HLK_LOST);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), LIMIT);
}

Test(redisson_permits, c_waits_for_java)
{
    char id[128];
    cr_assert_eq(hlk_permits_set(permits, 1), HLK_OK);
    snprintf(id, sizeof id, "%s", java_takes(-1)); /* without end */
    struct c_waiter waiter;
    c_waiter_start(&waiter, permit, HLK_FOREVER);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 (1e15") == 1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permrelease t %s", id), "true");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
}

Test(redisson_permits, of_javas_come_back_when_their_lease_is_over)
{
    cr_assert_eq(hlk_permits_set(permits, 1), HLK_OK);
    (void)java_takes(800);
    cr_assert_eq(hlk_lock_acquire(permit, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 1);
}

Test(redisson_permits, java_waits_for_c)
{
    cr_assert_eq(hlk_permits_set(permits, 1), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 permacquire t 60000");
    for (int i = 0; i < 2; i++)
        watch_for(watch, "J> evalsha*");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(strlen(peer_answer(fixture.java, "A.1")->text), 32);
    watch_stop(watch);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 0);
}

/* Its number stays, and ours while it waits. */
Test(redisson_permits, of_ours_are_not_dropped_under_java)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.flags = HLK_PERMITS_DROP;
    opts.permits = LIMIT;
    hlk_lock *lock = hlk_lock_create(fixture.client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 permcounts t"), "2/0/2");
    cr_assert_eq(hlk_permits_delete(permits), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(lock);
    opts.permits = 1;
    lock = hlk_lock_create(fixture.client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 permacquire t 60000");
    watch_for(watch, "J> subscribe*");
    watch_for(watch, "J> evalsha*");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(strlen(peer_answer(fixture.java, "A.1")->text), 32);
    watch_stop(watch);
    hlk_lock_destroy(lock);
    raw(fixture.redis, "DEL hasplock_queue:{t}"); /* of a window, if this release opened one */
}

/* Both sides wait for one permit at the same time, again and again: neither keeps the other out. */
Test(redisson_permits, are_shared_by_both_in_turns)
{
    cr_assert_eq(hlk_permits_set(permits, 1), HLK_OK);
    for (int i = 0; i < ROUNDS; i++) {
        peer_tell(fixture.java, "A.1 permpass t 60000"); /* either may be the first */
        cr_assert_eq(hlk_lock_acquire(permit, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
        cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "true");
    }
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 1);
}
