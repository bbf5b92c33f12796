/* hasplock and Redisson at work at once: four C threads and four Java threads read a counter and write it back one
 * higher, by connections that know nothing of locks. One update lost, or two valid holds at once, fails. */
#include "interop/fixture.h"

#include "support/history.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(redisson_count, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

enum { SIDE = 4, TURNS = 25, HISTORY = 1 << 16 };

struct counter {
    pthread_t thread;
    int who;
    hlk_lock *lock;
    struct history *history;
    atomic_bool *stop;
    atomic_int turns;
    atomic_bool ended;
    enum hlk_status status; /* HLK_OK, or what it ended with */
};

static void *count(void *arg)
{
    struct counter *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (!atomic_load(me->stop) && me->status == HLK_OK) {
        me->status = hlk_lock_acquire(me->lock, HLK_FOREVER);
        if (me->status != HLK_OK)
            break;
        struct hold *hold = history_acquired(me->history, me->who, 0, hlk_lock_held_until(me->lock));
        raw(redis, "SET t:counter %lld", (long long)raw_int(redis, "GET t:counter") + 1);
        atomic_fetch_add(&me->turns, 1);
        history_released(hold);
        me->status = hlk_lock_release(me->lock);
    }
    atomic_store(&me->ended, true);
    redisFree(redis);
    return NULL;
}

/* What to add to a time of Java's (CLOCK_MONOTONIC) to have it on the history's clock. */
static int64_t java_clock_offset_ns(void)
{
    struct timespec java;
    clock_gettime(CLOCK_MONOTONIC, &java);
    return test_now_ns() - ((int64_t)java.tv_sec * 1000000000 + java.tv_nsec);
}

/* The turns of one Java thread, "<who> <began> <ended>" in us, into the history. */
static void add_java_turns(struct history *history, int who, const char *turns)
{
    int64_t offset = java_clock_offset_ns();
    redisReply *reply = redisCommand(fixture.redis, "LRANGE %s 0 -1", turns);
    for (size_t i = 0; i < reply->elements; i++) {
        long long began = 0, ended = 0;
        cr_assert_eq(sscanf(reply->element[i]->str, "%*s %lld %lld", &began, &ended), 2);
        struct hold *hold = history_acquired(history, who, 0, INT64_MAX / 1000000);
        hold->acquired_at = began * 1000 + offset;
        hold->released_at = ended * 1000 + offset;
    }
    freeReplyObject(reply);
}

static int by_time(const void *left, const void *right)
{
    const struct hold *a = left, *b = right;
    return a->acquired_at < b->acquired_at ? -1 : a->acquired_at > b->acquired_at;
}

/* How often the lock went from one side to the other. */
static size_t changes_of_side(const struct history *history)
{
    size_t n = history_count(history), changes = 0;
    struct hold *holds = calloc(n, sizeof *holds);
    for (size_t i = 0; i < n; i++)
        holds[i] = *history_at(history, i);
    qsort(holds, n, sizeof *holds, by_time);
    for (size_t i = 1; i < n; i++)
        changes += (holds[i].who < SIDE) != (holds[i - 1].who < SIDE);
    free(holds);
    return changes;
}

static bool all_had_turns(struct counter *c, char turns[SIDE][32])
{
    bool all = true;
    for (int i = 0; i < SIDE; i++)
        all = all && atomic_load(&c[i].turns) >= TURNS && raw_int(fixture.redis, "LLEN %s", turns[i]) >= TURNS;
    return all;
}

/* Somebody gave up, which the test is about to explain. */
static bool one_has_ended(struct counter *c)
{
    bool one = false;
    for (int i = 0; i < SIDE; i++) {
        char who[8];
        snprintf(who, sizeof who, "A.%d", i);
        one = one || atomic_load(&c[i].ended) || !peer_waits(fixture.java, who);
    }
    return one;
}

/* All eight go on until the slowest has had its turns: no side has the lock to itself at any time. */
Test(redisson_count, four_c_and_four_java_threads_lose_no_update)
{
    struct counter c[SIDE];
    char turns[SIDE][32];
    atomic_bool stop = false;
    struct history *history = history_create(HISTORY);
    hlk_lock *lock = fixture_lock("t");
    memset(c, 0, sizeof c);
    raw(fixture.redis, "SET t:counter 0");
    for (int i = 0; i < SIDE; i++) {
        snprintf(turns[i], sizeof turns[i], "t:turns:%d", i);
        c[i].who = i;
        c[i].lock = lock;
        c[i].history = history;
        c[i].stop = &stop;
        peer_tell(fixture.java, "A.%d count t %s t:counter %s t:stop", i, fixture.java_url, turns[i]);
        cr_assert_eq(pthread_create(&c[i].thread, NULL, count, &c[i]), 0);
    }
    WAIT_FOR(all_had_turns(c, turns) || one_has_ended(c));
    atomic_store(&stop, true);
    raw(fixture.redis, "SET t:stop 1");

    int64_t c_sum = 0, java_sum = 0;
    for (int i = 0; i < SIDE; i++) {
        char who[8];
        snprintf(who, sizeof who, "A.%d", i);
        pthread_join(c[i].thread, NULL);
        cr_assert_eq(c[i].status, HLK_OK, "C thread %d: %s", i, hlk_status_name(c[i].status));
        c_sum += atomic_load(&c[i].turns);
        const struct answer *done = peer_answer(fixture.java, who);
        cr_assert_eq(atoll(done->text), raw_int(fixture.redis, "LLEN %s", turns[i]), "%s %s", done->text, done->why);
        java_sum += atoll(done->text);
        add_java_turns(history, SIDE + i, turns[i]);
    }
    cr_log_info("C %lld turns, Java %lld, from side to side %zu times", (long long)c_sum, (long long)java_sum,
                changes_of_side(history));
    cr_assert_eq(raw_int(fixture.redis, "GET t:counter"), c_sum + java_sum);
    cr_assert_eq(history_count(history), (size_t)(c_sum + java_sum));
    cr_assert(history_check(history));
    cr_assert_gt(changes_of_side(history), 1);

    raw(fixture.redis, "DEL t:counter t:stop %s %s %s %s", turns[0], turns[1], turns[2], turns[3]);
    history_destroy(history);
}
