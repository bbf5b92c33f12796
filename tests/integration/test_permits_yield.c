/* Yield windows of permits with leases: they are for Redisson's clients, and not for ours that listen. First the
 * scripts, one call after the other; then clients. */
/* Shows: P50 */
#include "permits_fixture.h"
#include "support/script.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW_MS = 4000, MANY = 60 };

#define KEY "t"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:1"
#define OURS "hlk-c-3-z:1"      /* has a permit */
#define JAVA "java0123456789ab" /* Redisson's ids are 16 bytes */
#define LONG_MS "30000"
#define LISTENS_A "listens hlk-a-1-x"

static redisContext *inboxes, *listeners[2]; /* of the channel: anybody */

static void start(void)
{
    fixture_begin(SERVER_NOACL);
    inboxes = raw_open(fixture.server);
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-a-1-x");
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-b-2-y");
    for (int i = 0; i < 2; i++)
        listeners[i] = raw_open(fixture.server);
}

static void stop(void)
{
    redisFree(inboxes);
    for (int i = 0; i < 2; i++)
        redisFree(listeners[i]);
    raw(fixture.redis, "DEL t %s %s", PERMITS_QUEUE, PERMITS_LEASES);
    fixture_end();
}

TestSuite(permit_windows, .init = start, .fini = stop, .timeout = 60);
TestSuite(permits_yield, .init = permits_start, .fini = permits_stop, .timeout = 60);

static void listen(int i)
{
    raw(listeners[i], "SUBSCRIBE %s", PERMITS_CHANNEL);
}

static void lease(const char *id)
{
    raw(fixture.redis, "EVAL %s 1 %s %s",
        "local t = redis.call('time') return redis.call('zadd', KEYS[1], t[1] * 1000 + 30000, ARGV[1])", PERMITS_LEASES,
        id);
}

/* The permits that are held are those of `ids`, and none is free. */
static void held_by(const char *first, const char *second)
{
    raw(fixture.redis, "SET t 0");
    lease(first);
    if (second)
        lease(second);
}

static const char *acquire(const char *hold)
{
    char ticket[96];
    snprintf(ticket, sizeof ticket, "%s 5000 0 0 1700000000000", hold);
    return script_run(fixture.redis, HLK_SCRIPT_PERMIT_ACQUIRE, 3, KEY, PERMITS_QUEUE, PERMITS_LEASES, LONG_MS, hold,
                      PERMITS_CHANNEL, "0", ticket, NULL);
}

static void expect_waits(const char *hold, int held, int position, bool listens)
{
    int answer[4] = { 0 };
    const char *reply = acquire(hold);
    cr_assert_eq(sscanf(reply, "[:%d, \"%d\", :%d, :%d]", &answer[0], &answer[1], &answer[2], &answer[3]), 4, "%s",
                 reply);
    cr_assert_eq(answer[1], held, "%s", reply);
    cr_assert_eq(answer[2], position, "%s", reply);
    cr_assert_eq(answer[3], listens, "%s", reply);
}

static void release_yielding(const char *hold)
{
    cr_assert_str_eq(script_run(fixture.redis, HLK_SCRIPT_PERMIT_RELEASE, 3, KEY, PERMITS_QUEUE, PERMITS_LEASES, hold,
                                PERMITS_CHANNEL, script_number(WINDOW_MS), "0", "", NULL),
                     ":1");
}

static bool has_window(void)
{
    return strcmp(raw(fixture.redis, "ZSCORE %s open", PERMITS_QUEUE), "(nil)") != 0;
}

static int64_t notes(void)
{
    return raw_int(fixture.redis, "ZCOUNT %s 3e15 4e15", PERMITS_QUEUE);
}

/* Time goes by for an entry of the queue. */
static void age(const char *member, int ms)
{
    raw(fixture.redis, "ZINCRBY %s -%d %s", PERMITS_QUEUE, ms, member);
}

/* --- who has to listen */

Test(permit_windows, need_no_waiter_that_listens)
{
    held_by(OURS, JAVA);
    listen(0);
    expect_waits(A, 2, 0, true);
    listen(1); /* A's client */
    release_yielding(OURS);
    cr_assert(has_window());
    expect_waits(A, 1, 0, false); /* it asks when the window is over, */
    age("open", WINDOW_MS);
    cr_assert_str_eq(acquire(A), "\"" A "\"");
    expect_waits(B, 2, 0, true); /* and listens as long as Redisson has a permit */
}

Test(permit_windows, are_not_for_many_permits_of_ours)
{
    raw(fixture.redis, "SET t 0");
    for (int i = 0; i < MANY; i++) {
        char id[32];
        snprintf(id, sizeof id, "hlk-d-4-w:%d", i + 1);
        lease(id);
    }
    expect_waits(A, MANY, 0, false);
    raw(fixture.redis, "ZADD %s 922337203685477 %s", PERMITS_LEASES, JAVA); /* behind all others */
    expect_waits(A, MANY + 1, 0, true);
}

/* --- who is left what is free */

Test(permit_windows, are_not_opened_for_clients_of_ours)
{
    held_by(OURS, JAVA);
    expect_waits(A, 2, 0, true);
    listen(0); /* A's client */
    release_yielding(OURS);
    cr_assert_not(has_window());
    cr_assert_str_eq(raw(fixture.redis, "ZRANGE %s 0 -1", PERMITS_LEASES), "[\"" A "\", \"" JAVA "\"]");
}

Test(permit_windows, are_opened_beside_clients_of_ours)
{
    held_by(OURS, JAVA);
    expect_waits(A, 2, 0, true);
    listen(0); /* A's client, */
    listen(1); /* and one of Redisson's */
    release_yielding(OURS);
    cr_assert(has_window());
    cr_assert_str_eq(raw_next(listeners[1]), "[\"message\", \"" PERMITS_CHANNEL "\", \"1\"]");
}

/* A's wait is over, or it has asked nothing for a second: who listens is another one. */
Test(permit_windows, are_opened_when_clients_of_ours_are_silent)
{
    held_by(OURS, JAVA);
    expect_waits(A, 2, 0, true);
    listen(0);
    age(LISTENS_A, 1200);
    release_yielding(OURS);
    cr_assert(has_window());
}

Test(permit_windows, forget_who_was_granted_a_permit)
{
    held_by(OURS, JAVA);
    expect_waits(A, 2, 0, true);
    cr_assert_eq(notes(), 1);
    age(A " 5000 0 0 1700000000000", 20000); /* it waits for 200 ms */
    release_yielding(OURS);
    cr_assert_str_eq(raw(fixture.redis, "ZRANGE %s 0 -1", PERMITS_LEASES), "[\"" A "\", \"" JAVA "\"]");
    double now = (double)raw_int(fixture.redis, "EVAL %s 0", "local t = redis.call('time') return t[1] * 1000");
    double until = strtod(raw(fixture.redis, "ZSCORE %s %s", PERMITS_QUEUE, LISTENS_A) + 1, NULL) - 3e15;
    cr_assert_leq(until, now + 1000 + 100, "%.0f", until - now);
}

Test(permit_windows, leave_no_queue_behind)
{
    held_by(OURS, JAVA);
    expect_waits(A, 2, 0, true);
    release_yielding(OURS);
    age(LISTENS_A, 1200);
    raw(fixture.redis, "SET t 1");
    cr_assert_str_eq(acquire(B), "\"" B "\"");
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", PERMITS_QUEUE), 0);
}

/* --- clients */

enum { THREADS = 3, LIMIT = 2, MESSAGES = 20, PAIRS = 200 };

static atomic_bool over;
static atomic_int pairs;

static void *works(void *own)
{
    while (!atomic_load(&over)) {
        enum hlk_status status = hlk_lock_acquire(own, WAIT_MS);
        cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(own), HLK_OK, "%s", hlk_last_error());
        atomic_fetch_add(&pairs, 1);
    }
    return NULL;
}

static void start_threads(pthread_t threads[THREADS])
{
    permits_set(LIMIT);
    for (int i = 0; i < THREADS; i++) { /* each with a client, so that each hand-over goes through Redis */
        hlk_lock *own = permit_with(fixture_open(NULL), NULL, 0);
        cr_assert_eq(pthread_create(&threads[i], NULL, works, own), 0);
    }
}

static bool nobody_listens(void)
{
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB %s", PERMITS_CHANNEL), ":0]");
}

Test(permits_yield, windows_end_when_redisson_has_left)
{
    pthread_t threads[THREADS];
    redisContext *java = raw_open(fixture.server);
    start_threads(threads);
    raw(java, "SUBSCRIBE %s", PERMITS_CHANNEL);
    for (int i = 0; i < MESSAGES; i++)
        cr_assert_not_null(raw_next(java));
    redisFree(java);
    WAIT_FOR(nobody_listens());
    int then = atomic_load(&pairs);
    WAIT_FOR(atomic_load(&pairs) >= then + PAIRS);
    cr_assert(nobody_listens());
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}
