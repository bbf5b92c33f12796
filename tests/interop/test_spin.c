/* Spin locks of both sides on one name, and plain ones beside them: all are one lock. */
/* Shows: P25 */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TestSuite(redisson_spin, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

static hlk_lock *spin_lock(hlk_client *client)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_SPIN;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static uint64_t commands(void)
{
    struct hlk_counters now = { .size = sizeof now };
    cr_assert_eq(hlk_client_counters(fixture.client, &now), HLK_OK);
    return now.commands;
}

/* C waits by `lock` for the holder that Java is by `kind` ("spin", or "": plain), which releases then. */
static void c_waits_for_java(hlk_lock *lock, const char *kind)
{
    struct c_waiter waiter;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %slock t", kind), "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    uint64_t before = commands();
    c_waiter_start(&waiter, lock, HLK_FOREVER);
    WAIT_FOR(commands() >= before + 2);
    cr_assert_not(waiter.answered);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", kind), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %strylock t", kind), "false");
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    await_no_listeners("t");
    expect_free("t");
}

static void java_waits_for_c(hlk_lock *lock, const char *kind)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %strylock t", kind), "false");
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 %slock t", kind);
    for (int i = 0; i < 2; i++)
        watch_for(watch, "J> evalsha*");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", kind), "ok");
    watch_stop(watch);
    await_no_listeners("t");
    expect_free("t");
}

Test(redisson_spin, c_waits_for_javas_spin_lock)
{
    hlk_lock *lock = spin_lock(fixture.client);
    c_waits_for_java(lock, "spin");
    hlk_lock_destroy(lock);
}

Test(redisson_spin, javas_spin_lock_waits_for_c)
{
    hlk_lock *lock = spin_lock(fixture.client);
    java_waits_for_c(lock, "spin");
    hlk_lock_destroy(lock);
}

Test(redisson_spin, c_waits_for_javas_plain_lock)
{
    hlk_lock *lock = spin_lock(fixture.client);
    c_waits_for_java(lock, "");
    hlk_lock_destroy(lock);
}

/* By message: the ttl is longer than anybody here waits. Redisson's own spin lock would let it sleep. */
Test(redisson_spin, javas_plain_lock_behind_c_is_woken_by_message)
{
    hlk_lock *lock = spin_lock(fixture.client);
    java_waits_for_c(lock, "");
    hlk_lock_destroy(lock);
}

/* Java's spin lock tells nobody: our plain wait finds it by its poll. */
Test(redisson_spin, cs_plain_lock_waits_for_javas_spin_lock)
{
    c_waits_for_java(fixture_lock("t"), "spin");
}

Test(redisson_spin, javas_spin_lock_waits_for_cs_plain_lock)
{
    java_waits_for_c(fixture_lock("t"), "spin");
}

/* --- all at once */

enum { THREADS = 2, TURNS = 20 };

struct counting {
    pthread_t thread;
    hlk_lock *lock;
    atomic_bool *stop;
    atomic_long *turns;
    enum hlk_status status;
};

static void *count(void *arg)
{
    struct counting *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load(me->stop) && me->status == HLK_OK) {
        me->status = hlk_lock_acquire(me->lock, HLK_FOREVER);
        if (me->status != HLK_OK)
            break;
        int64_t seen = raw_int(redis, "GET t:counter");
        raw(redis, "SET t:counter %lld", (long long)seen + 1);
        atomic_fetch_add(me->turns, 1);
        me->status = hlk_lock_release(me->lock);
    }
    redisFree(redis);
    return NULL;
}

/* A counter that each reads and writes back under the lock: spin and plain locks of both sides. */
Test(redisson_spin, spin_and_plain_locks_of_both_sides_lose_no_turn)
{
    static const char *const kinds[] = { "spin", "" };
    struct counting c[2 * THREADS];
    atomic_bool halt = false;
    atomic_long c_turns = 0;
    long long java_turns = 0;
    hlk_lock *locks[] = { spin_lock(fixture.client), fixture_lock("t") };
    memset(c, 0, sizeof c);
    raw(fixture.redis, "SET t:counter 0");
    for (int i = 0; i < 2; i++)
        peer_tell(fixture.java, "A.%d %scount t %s t:counter t:turns t:stop", i, kinds[i], fixture.java_url);
    for (int i = 0; i < 2 * THREADS; i++) {
        c[i].lock = locks[i % 2];
        c[i].stop = &halt;
        c[i].turns = &c_turns;
        cr_assert_eq(pthread_create(&c[i].thread, NULL, count, &c[i]), 0);
    }
    WAIT_FOR(atomic_load(&c_turns) >= TURNS && raw_int(fixture.redis, "LLEN t:turns") >= TURNS);
    atomic_store(&halt, true);
    raw(fixture.redis, "SET t:stop 1");
    for (int i = 0; i < 2 * THREADS; i++) {
        pthread_join(c[i].thread, NULL);
        cr_assert_eq(c[i].status, HLK_OK, "%s", hlk_status_name(c[i].status));
    }
    for (int i = 0; i < 2; i++)
        java_turns += atoll(peer_answer(fixture.java, i ? "A.1" : "A.0")->text);
    cr_assert_eq(raw_int(fixture.redis, "GET t:counter"), atomic_load(&c_turns) + java_turns);
    raw(fixture.redis, "DEL t:counter t:turns t:stop");
    hlk_lock_destroy(locks[0]);
}
