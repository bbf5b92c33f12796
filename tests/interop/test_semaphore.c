/* hlk_semaphore and RSemaphore of one name, in both directions. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 30, LIMIT = 3, SIDE = 4, TURNS = 20 };

static hlk_semaphore *semaphore;

static void start(void)
{
    fixture_open();
    semaphore = hlk_semaphore_create(fixture.client, "t");
    cr_assert_not_null(semaphore, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semaset t %d", LIMIT), "true");
}

static void stop(void)
{
    hlk_semaphore_destroy(semaphore);
    raw(fixture.redis, "DEL t");
    fixture_close();
}

TestSuite(redisson_semaphore, .init = start, .fini = stop, .timeout = FIXTURE_SECONDS);

Test(redisson_semaphore, is_one_number_for_both)
{
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 9, 0), HLK_BUSY);
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semafree t"), "1");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 2"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 1"), "true");
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semarelease t 3"), "ok"); /* anybody may */
    int64_t free;
    cr_assert_eq(hlk_semaphore_available(semaphore, &free), HLK_OK);
    cr_assert_eq(free, LIMIT);
}

Test(redisson_semaphore, java_waits_for_c)
{
    cr_assert_eq(hlk_semaphore_acquire(semaphore, LIMIT, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 semaacquire t 2");
    for (int i = 0; i < 2; i++)
        watch_for(watch, "J> evalsha*");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_semaphore_release(semaphore, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    watch_stop(watch);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 0);
}

static void *waits(void *status)
{
    *(enum hlk_status *)status = hlk_semaphore_acquire(semaphore, 2, WAIT_MS);
    return NULL;
}

Test(redisson_semaphore, c_waits_for_java)
{
    enum hlk_status status = HLK_E_INVALID;
    pthread_t thread;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 3"), "true");
    cr_assert_eq(pthread_create(&thread, NULL, waits, &status), 0);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 (1e15") == 1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semarelease t 2"), "ok");
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK, "%s", hlk_status_name(status));
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 0);
}

Test(redisson_semaphore, is_shared_by_both_in_turns)
{
    for (int i = 0; i < ROUNDS; i++) {
        peer_tell(fixture.java, "A.1 semaacquire t %d", LIMIT);
        peer_tell(fixture.java, "A.1 semarelease t %d", LIMIT);
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1 + i % LIMIT, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_semaphore_release(semaphore, 1 + i % LIMIT), HLK_OK, "%s", hlk_last_error());
        for (int k = 0; k < 2; k++)
            cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    }
    cr_assert_eq(raw_int(fixture.redis, "GET t"), LIMIT);
}

/* --- both at once */

struct sharer {
    pthread_t thread;
    atomic_int turns;
    int64_t longest_us, most;
};

static atomic_bool over;

static void *shares(void *arg)
{
    struct sharer *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load(&over)) {
        int64_t began = test_now_ns();
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        int64_t us = (test_now_ns() - began) / 1000, inside = raw_int(redis, "INCR t:inside");
        me->longest_us = us > me->longest_us ? us : me->longest_us;
        me->most = inside > me->most ? inside : me->most;
        raw(redis, "DECR t:inside");
        atomic_fetch_add(&me->turns, 1);
        cr_assert_eq(hlk_semaphore_release(semaphore, 1), HLK_OK, "%s", hlk_last_error());
    }
    redisFree(redis);
    return NULL;
}

static bool all_had_turns(struct sharer *c)
{
    bool all = true;
    for (int i = 0; i < SIDE; i++)
        all = all && atomic_load(&c[i].turns) >= TURNS && raw_int(fixture.redis, "GET t:inside:A.%d", i) >= TURNS;
    return all;
}

/* More threads than permits on each side. Neither has the permits to itself at any time, and there are never more. */
Test(redisson_semaphore, is_shared_by_eight_threads_of_both)
{
    struct sharer c[SIDE];
    long long turns[2] = { 0 }, longest[2] = { 0 }, most = 0;
    memset(c, 0, sizeof c);
    for (int i = 0; i < SIDE; i++) {
        raw(fixture.redis, "SET t:inside:A.%d 0", i);
        peer_tell(fixture.java, "A.%d semashare t %s t:inside t:stop", i, fixture.java_url);
        cr_assert_eq(pthread_create(&c[i].thread, NULL, shares, &c[i]), 0);
    }
    WAIT_FOR(all_had_turns(c));
    atomic_store(&over, true);
    raw(fixture.redis, "SET t:stop 1");
    for (int i = 0; i < SIDE; i++) {
        char who[8];
        long long done = 0, us = 0, inside = 0;
        snprintf(who, sizeof who, "A.%d", i);
        pthread_join(c[i].thread, NULL);
        turns[0] += c[i].turns;
        longest[0] = c[i].longest_us > longest[0] ? c[i].longest_us : longest[0];
        most = c[i].most > most ? c[i].most : most;
        const struct answer *answer = peer_answer(fixture.java, who);
        cr_assert_eq(sscanf(answer->text, "%lld:%lld:%lld", &done, &us, &inside), 3, "%s %s", answer->text,
                     answer->why);
        turns[1] += done;
        longest[1] = us > longest[1] ? us : longest[1];
        most = inside > most ? inside : most;
        raw(fixture.redis, "DEL t:inside:%s", who);
    }
    cr_log_info("C %lld turns, longest wait %.1f ms; Java %lld turns, %.1f ms; at most %lld of %d inside", turns[0],
                (double)longest[0] / 1000, turns[1], (double)longest[1] / 1000, most, LIMIT);
    cr_assert_leq(most, LIMIT);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), LIMIT);
    raw(fixture.redis, "DEL t:inside t:stop");
}
