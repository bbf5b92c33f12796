/* Fenced locks of both sides on one name: Redisson's RFencedLock and ours draw their tokens from one counter. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(void)
{
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
    fixture_close();
}

TestSuite(redisson_fenced, .init = fixture_open, .fini = stop, .timeout = FIXTURE_SECONDS);

enum { SIDE = 3, TURNS = 15 };

static hlk_lock *fenced_lock(hlk_client *client)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FENCED;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static long long java_token(const char *who)
{
    return atoll(peer_ask(fixture.java, "%s fencedlock t", who));
}

Test(redisson_fenced, tokens_of_c_and_java_come_from_one_counter)
{
    hlk_lock *lock = fenced_lock(fixture.client);
    long long last = 0;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        long long ours = hlk_lock_token(lock);
        cr_assert_gt(ours, last);
        cr_assert_eq(atoll(peer_ask(fixture.java, "A.1 token t")),
                     raw_int(fixture.redis, "GET redisson_lock_token:{t}"));
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        last = java_token("A.1");
        cr_assert_gt(last, ours);
        expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, WATCHDOG_MS);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    }
    hlk_lock_destroy(lock);
}

Test(redisson_fenced, java_waits_for_c_and_has_a_larger_token)
{
    hlk_lock *lock = fenced_lock(fixture.client);
    struct watch *watch = watch_start(fixture.server);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    long long ours = hlk_lock_token(lock);
    peer_tell(fixture.java, "A.1 fencedlock t");
    await_parked(watch, 'J', "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_gt(atoll(peer_answer(fixture.java, "A.1")->text), ours);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    watch_stop(watch);
    hlk_lock_destroy(lock);
}

/* The floor is for servers that forget: Java goes on above it too. */
Test(redisson_fenced, c_after_java_has_a_larger_token_above_its_floor)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FENCED;
    opts.token_floor = 5000;
    opts.owner = hlk_owner_create(fixture.client, "o");
    hlk_lock *lock = hlk_lock_create(fixture.client, "t", &opts);
    struct c_waiter waiter;
    long long theirs = java_token("A.1");
    cr_assert_gt(theirs, 0);
    c_waiter_start(&waiter, lock, WAIT_MS);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    long long ours = hlk_lock_token(lock);
    cr_assert_gt(ours, 5000);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    cr_assert_gt(java_token("A.1"), ours);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    hlk_lock_destroy(lock);
    hlk_owner_destroy(opts.owner);
}

/* --- all at once */

struct pusher {
    pthread_t thread;
    int who;
    hlk_lock *lock;
    atomic_bool *stop;
    enum hlk_status status;
};

static void *push_tokens(void *arg)
{
    struct pusher *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load(me->stop) && me->status == HLK_OK) {
        me->status = hlk_lock_acquire(me->lock, HLK_FOREVER);
        if (me->status != HLK_OK)
            break;
        raw(redis, "INCR t:turns:C");
        raw(redis, "RPUSH t:tokens C.%d-%lld", me->who, (long long)hlk_lock_token(me->lock));
        me->status = hlk_lock_release(me->lock);
    }
    redisFree(redis);
    return NULL;
}

/* "C.1-17", "A.1 18", ...: in the order in which they were pushed, which is the order of the holds. */
static void tokens_grow(int *c_turns, int *java_turns)
{
    redisReply *all = redisCommand(fixture.redis, "LRANGE t:tokens 0 -1");
    long long last = 0;
    *c_turns = *java_turns = 0;
    for (size_t i = 0; i < all->elements; i++) {
        const char *entry = all->element[i]->str;
        long long token = atoll(entry + strcspn(entry, "- ") + 1);
        cr_assert_gt(token, last, "number %zu, %s, behind %lld", i, entry, last);
        last = token;
        ++*(entry[0] == 'C' ? c_turns : java_turns);
    }
    freeReplyObject(all);
}

/* In this order: C's turns are rather counted once too often, and Java's once too few. */
static bool enough_turns(void)
{
    long long all = raw_int(fixture.redis, "LLEN t:tokens"), c = raw_int(fixture.redis, "GET t:turns:C");
    return c >= TURNS * SIDE && all - c >= TURNS * SIDE;
}

Test(redisson_fenced, tokens_grow_over_c_and_java_threads_that_contend)
{
    struct pusher c[2 * SIDE];
    atomic_bool halt = false;
    hlk_lock *locks[2] = { fenced_lock(fixture.client), fenced_lock(fixture_client(NULL)) };
    int c_turns, java_turns;
    memset(c, 0, sizeof c);
    raw(fixture.redis, "SET t:turns:C 0");
    for (int i = 0; i < SIDE; i++)
        peer_tell(fixture.java, "A.%d fencedcount t %s t:tokens t:stop", i, fixture.java_url);
    for (int i = 0; i < 2 * SIDE; i++) {
        c[i].who = i;
        c[i].lock = locks[i % 2];
        c[i].stop = &halt;
        cr_assert_eq(pthread_create(&c[i].thread, NULL, push_tokens, &c[i]), 0);
    }
    WAIT_FOR(enough_turns());
    atomic_store(&halt, true);
    raw(fixture.redis, "SET t:stop 1");
    for (int i = 0; i < 2 * SIDE; i++) {
        pthread_join(c[i].thread, NULL);
        cr_assert_eq(c[i].status, HLK_OK, "C thread %d: %s", i, hlk_status_name(c[i].status));
    }
    for (int i = 0; i < SIDE; i++) {
        char who[8];
        snprintf(who, sizeof who, "A.%d", i);
        const struct answer *done = peer_answer(fixture.java, who);
        cr_assert_gt(atoll(done->text), 0, "%s %s", done->text, done->why);
    }
    tokens_grow(&c_turns, &java_turns);
    cr_log_info("C %d turns, Java %d", c_turns, java_turns);
    cr_assert_geq(java_turns, TURNS * SIDE);
    raw(fixture.redis, "DEL t:tokens t:stop t:turns:C");
    hlk_lock_destroy(locks[0]);
    hlk_lock_destroy(locks[1]);
}
