/* Read/write locks of both sides on one name: hlk_rwlock and RReadWriteLock. */
/* Shows: P41 */
#include "interop/fixture.h"
#include "support/proxy.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

TestSuite(redisson_rwlock, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

static hlk_lock *half(hlk_client *client, int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static bool subscribed(void)
{
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_rwlock:{t}"), ":1]") != NULL;
}

static bool parked(const char *who)
{
    return strcmp(peer_ask(fixture.java, "- parked %s", who), "true") == 0;
}

static int64_t queued(void)
{
    return raw_int(fixture.redis, "ZCOUNT hasplock_rwlock:{t} 1 1e15");
}

static bool free_again(void)
{
    return raw_int(fixture.redis, "EXISTS t hasplock_rwlock:{t}") == 0;
}

static const char *java(const char *request)
{
    return peer_ask(fixture.java, "%s", request);
}

Test(redisson_rwlock, readers_of_both_sides_are_in_together)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ), *writing = half(fixture.client, HLK_LOCK_WRITE);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(java("A.1 readtrylock t"), "true");
    cr_assert_str_eq(java("A.1 readislocked t"), "true");
    cr_assert_str_eq(java("A.1 writeislocked t"), "false");
    cr_assert_str_eq(java("A.2 writetrylock t"), "false");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_str_eq(java("A.1 readheld t"), "true");
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(java("A.1 readunlock t"), "ok");
    cr_assert_str_eq(java("A.2 writetrylock t"), "false");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert(free_again());
    hlk_lock_destroy(reading);
    hlk_lock_destroy(writing);
}

/* Redisson computes the ttl that remains from the keys of all readers: ours are as its own. */
Test(redisson_rwlock, leases_are_read_by_both_sides)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 200000;
    cr_assert_eq(hlk_lock_acquire_with(reading, &opts), HLK_OK);
    cr_assert_str_eq(java("A.1 readlock t 30000"), "ok");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 100000);
    cr_assert_str_eq(java("A.1 readunlock t"), "ok");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 100000, "Redisson has found our lease");
    cr_assert_str_eq(java("A.1 readlock t 30000"), "ok");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 30000, "we have found Redisson's");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 10000);
    cr_assert_str_eq(java("A.1 readunlock t"), "ok");
    cr_assert(free_again());
    hlk_lock_destroy(reading);
}

static void c_waits_for(const char *java_half, int kind)
{
    hlk_lock *lock = half(fixture.client, kind);
    struct c_waiter waiter;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %slock t", java_half), "ok");
    c_waiter_start(&waiter, lock, HLK_FOREVER);
    WAIT_FOR(queued() == 1 && subscribed());
    cr_assert_not(waiter.answered);
    int64_t began = peer_now_us();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", java_half), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_lt(waiter.answered_us - began, 4000000, "by the message");
    cr_assert_str_eq(java("A.1 writetrylock t"), "false");
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    WAIT_FOR(free_again());
    hlk_lock_destroy(lock);
}

Test(redisson_rwlock, c_waits_for_java)
{
    c_waits_for("write", HLK_LOCK_READ);
    c_waits_for("write", HLK_LOCK_WRITE);
    c_waits_for("read", HLK_LOCK_WRITE);
}

static void java_waits_for(int kind, const char *java_half)
{
    hlk_lock *lock = half(fixture.client, kind);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    peer_tell(fixture.java, "A.1 %slock t", java_half);
    WAIT_FOR(subscribed() && parked("A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 %sunlock t", java_half), "ok");
    WAIT_FOR(free_again()); /* after the moment in which it is left to Java */
    hlk_lock_destroy(lock);
}

Test(redisson_rwlock, java_waits_for_c)
{
    java_waits_for(HLK_LOCK_WRITE, "read");
    java_waits_for(HLK_LOCK_WRITE, "write");
    java_waits_for(HLK_LOCK_READ, "write");
}

/* Redisson's message "1" wakes the threads that sleep when it arrives. This thread has asked and has not read the reply
 * yet. Without "0" it would sleep for the ttl in that reply. */
static void java_is_woken_before_it_sleeps(int kind, const char *java_half)
{
    struct proxy *proxy = proxy_start(fixture.server);
    hlk_lock *lock = half(fixture.client, kind);
    peer_ask(fixture.java, "- open P redis://127.0.0.1:%d", proxy_port(proxy));
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "P.1 %strylock t", java_half), "false");
    proxy_arm(proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 2); /* it asks, subscribes, and asks again */
    peer_tell(fixture.java, "P.1 %slock t", java_half);
    proxy_wait_struck(proxy);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    WAIT_FOR(proxy_messages(proxy) > 0);
    proxy_deliver(proxy, false);
    const struct answer *got = peer_answer(fixture.java, "P.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    cr_assert_str_eq(peer_ask(fixture.java, "P.1 %sunlock t", java_half), "ok");
    WAIT_FOR(free_again());
    peer_ask(fixture.java, "- close P");
    hlk_lock_destroy(lock);
    proxy_stop(proxy);
}

/* Shows: P46 */
Test(redisson_rwlock, a_java_thread_that_does_not_sleep_yet_is_woken)
{
    java_is_woken_before_it_sleeps(HLK_LOCK_WRITE, "read");
    java_is_woken_before_it_sleeps(HLK_LOCK_WRITE, "write");
    java_is_woken_before_it_sleeps(HLK_LOCK_READ, "write");
}

/* The reader that remains has died. A writer of Java's has read the ttl of the one that leaves. */
Test(redisson_rwlock, a_writer_of_java_hears_of_a_shorter_ttl)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(reading, &opts), HLK_OK);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "SET {t}:b983c153-7421-469a-addb-44fb92259a1b:1:rwlock_timeout:1 1 PX 5000");
    peer_tell(fixture.java, "A.1 writelock t");
    WAIT_FOR(subscribed() && parked("A.1"));
    int64_t began = peer_now_us();
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    cr_assert_lt(peer_now_us() - began, 20000000, "at the end of the lease that remains");
    cr_assert_str_eq(java("A.1 writeunlock t"), "ok");
    cr_assert(free_again());
    hlk_lock_destroy(reading);
}

/* Redisson's own downgrade publishes nothing: a reader of Java's sleeps until the ttl that it read. */
/* Shows: P42 */
Test(redisson_rwlock, a_downgrade_of_c_wakes_readers_of_java)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ), *writing = half(fixture.client, HLK_LOCK_WRITE);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 readlock t");
    WAIT_FOR(subscribed() && parked("A.1"));
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    cr_assert_str_eq(java("A.2 writetrylock t"), "false");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_str_eq(java("A.1 readunlock t"), "ok");
    cr_assert(free_again());
    hlk_lock_destroy(reading);
    hlk_lock_destroy(writing);
}

Test(redisson_rwlock, a_reader_of_java_spares_the_downgraded_lock_of_c)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ), *writing = half(fixture.client, HLK_LOCK_WRITE);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_str_eq(java("A.1 readtrylock t"), "true");
    cr_assert_str_eq(java("A.1 readunlock t"), "ok");
    cr_assert_str_eq(java("A.2 writetrylock t"), "false");
    cr_assert_gt(raw_pttl(fixture.redis, "t"), WATCHDOG_MS / 2);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert(free_again());
    hlk_lock_destroy(reading);
    hlk_lock_destroy(writing);
}

/* --- both sides at work: writers count up, readers see one value for as long as they read */

enum { SIDE = 3, TURNS = 25 };

struct worker {
    pthread_t thread;
    hlk_lock *lock;
    bool writes;
    atomic_int turns, wrong;
    enum hlk_status status;
};
static atomic_bool stop;

static void *work(void *arg)
{
    struct worker *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load(&stop) && me->status == HLK_OK) {
        me->status = hlk_lock_acquire(me->lock, HLK_FOREVER);
        if (me->status != HLK_OK)
            break;
        int64_t seen = raw_int(redis, "GET t:counter");
        if (me->writes)
            raw(redis, "SET t:counter %lld", (long long)seen + 1);
        else if (raw_int(redis, "GET t:counter") != seen)
            atomic_fetch_add(&me->wrong, 1);
        atomic_fetch_add(&me->turns, 1);
        me->status = hlk_lock_release(me->lock);
    }
    redisFree(redis);
    return NULL;
}

static void start_workers(struct worker *workers, hlk_lock *reading, hlk_lock *writing)
{
    for (int i = 0; i < 2 * SIDE; i++) {
        workers[i].writes = i < SIDE;
        workers[i].lock = i < SIDE ? writing : reading;
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        peer_tell(fixture.java,
                  i < SIDE ? "A.%d writecount t %s t:counter t:turns:%d t:stop" : "A.%d readlook t %s t:counter t:stop",
                  i, fixture.java_url, i);
    }
}

static bool all_had_turns(struct worker *workers)
{
    bool all = true;
    for (int i = 0; i < 2 * SIDE; i++) {
        all = all && (atomic_load(&workers[i].turns) >= TURNS || workers[i].status != HLK_OK);
        all = all && (i >= SIDE || raw_int(fixture.redis, "LLEN t:turns:%d", i) >= TURNS);
    }
    return all;
}

/* The number of values that Java's thread i has written. Our threads go on until all of Java's have ended, because
 * Java's own release to write publishes "1" alone: if a Java thread misses the last one, a release of ours wakes it. */
static int64_t java_wrote(int i)
{
    char who[8];
    long long turns = 0, wrong = 0;
    snprintf(who, sizeof who, "A.%d", i);
    const struct answer *got = peer_answer(fixture.java, who);
    cr_assert_eq(sscanf(got->text, "%lld:%lld", &turns, &wrong), i < SIDE ? 1 : 2, "%s %s", got->text, got->why);
    cr_assert_eq(wrong, 0, "a writer was in beside a reader of Java's");
    return i < SIDE ? turns : 0;
}

Test(redisson_rwlock, writers_and_readers_of_both_sides_lose_no_update)
{
    hlk_lock *reading = half(fixture.client, HLK_LOCK_READ), *writing = half(fixture.client, HLK_LOCK_WRITE);
    struct worker workers[2 * SIDE];
    int64_t written = 0;
    memset(workers, 0, sizeof workers);
    raw(fixture.redis, "SET t:counter 0");
    start_workers(workers, reading, writing);
    WAIT_FOR(all_had_turns(workers));
    raw(fixture.redis, "SET t:stop 1");
    for (int i = 0; i < 2 * SIDE; i++)
        written += java_wrote(i);
    atomic_store(&stop, true);
    for (int i = 0; i < 2 * SIDE; i++) {
        pthread_join(workers[i].thread, NULL);
        cr_assert_eq(workers[i].status, HLK_OK);
        cr_assert_eq(atomic_load(&workers[i].wrong), 0, "a writer was in beside a reader of ours");
        written += i < SIDE ? atomic_load(&workers[i].turns) : 0;
    }
    cr_assert_eq(raw_int(fixture.redis, "GET t:counter"), written, "an update was lost");
    raw(fixture.redis, "DEL t:counter t:stop t:turns:0 t:turns:1 t:turns:2");
    hlk_lock_destroy(reading);
    hlk_lock_destroy(writing);
}
