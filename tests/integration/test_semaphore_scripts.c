/* lua/semaphore_*.lua, one call after the other: who is called, what is set aside for it, and who keeps which place. */
#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define KEY "t"
#define QUEUE "hasplock_queue:{t}"
#define CHANNEL "redisson_sc:{t}"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:1"
#define C "hlk-c-3-z:1"
#define D "hlk-d-4-w:1"

static struct server *server;
static redisContext *redis, *inboxes;

static void start(void)
{
    server = server_start(SERVER_NOACL, NULL);
    redis = raw_open(server);
    inboxes = raw_open(server);
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-a-1-x");
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-b-2-y");
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-c-3-z");
}

static void stop(void)
{
    redisFree(redis);
    redisFree(inboxes);
    server_stop(server);
}

TestSuite(semaphore_scripts, .init = start, .fini = stop, .timeout = 60);

static const char *ticket(const char *hold, int n)
{
    static char texts[4][96];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s 5000 %d 0 1700000000000", hold, n);
    return text;
}

static const char *acquire(const char *hold, int n)
{
    return script_run(redis, HLK_SCRIPT_SEMAPHORE_ACQUIRE, 2, KEY, QUEUE, script_number(n), hold, "", ticket(hold, n),
                      NULL);
}

/* One try. */
static const char *try_acquire(const char *hold, int n)
{
    return script_run(redis, HLK_SCRIPT_SEMAPHORE_ACQUIRE, 2, KEY, QUEUE, script_number(n), hold, "", "", NULL);
}

static void release(int n)
{
    static int calls;
    char hold[64];
    snprintf(hold, sizeof hold, "hlk-r-1-r:%d", ++calls);
    cr_assert_str_eq(script_run(redis, HLK_SCRIPT_SEMAPHORE_CHANGE, 2, KEY, QUEUE, "release", script_number(n), hold,
                                CHANNEL, "", "0", NULL),
                     ":1");
}

static void expect_waits(const char *hold, int n, int position)
{
    char reply[64];
    snprintf(reply, sizeof reply, "[:1000, \"\", :%d]", position);
    cr_assert_str_eq(acquire(hold, n), reply);
}

static void expect_called(const char *client)
{
    char message[96];
    snprintf(message, sizeof message, "[\"message\", \"hasplock_inbox:%s\", \"popen 1 0 0 t\"]", client);
    cr_assert_str_eq(raw_next(inboxes), message);
}

static bool is_called(const char *hold, int n)
{
    return strtod(raw(redis, "ZSCORE %s %s", QUEUE, ticket(hold, n)) + 1, NULL) >= 1e15;
}

/* The moment at which it was called. */
static void age(const char *hold, int n, int ms)
{
    raw(redis, "ZINCRBY %s -%d %s", QUEUE, ms, ticket(hold, n));
}

Test(semaphore_scripts, set_permits_aside_for_who_was_called)
{
    expect_waits(A, 1, 0);
    expect_waits(B, 2, 1);
    release(1);
    expect_called("hlk-a-1-x");
    cr_assert(is_called(A, 1) && !is_called(B, 2));
    cr_assert_str_eq(try_acquire(D, 1), "[:1000, \"\", :-1]");
    release(1);
    cr_assert(!is_called(B, 2), "the other one is set aside for A");
    cr_assert_str_eq(try_acquire(D, 1), "[:1000, \"\", :-1]", "it is B's turn");
    release(1);
    expect_called("hlk-b-2-y");
    release(1);
    cr_assert_str_eq(try_acquire(D, 1), NAMES(D), "one is set aside for nobody");
    cr_assert_str_eq(acquire(B, 2), NAMES(B));
    cr_assert_str_eq(acquire(A, 1), NAMES(A));
    cr_assert_eq(raw_int(redis, "GET t"), 0);
    cr_assert_eq(raw_int(redis, "ZCOUNT %s -inf (2e15", QUEUE), 0);
}

/* One of Redisson's clients takes what was set aside for A. */
Test(semaphore_scripts, keep_the_place_of_who_was_called_and_finds_nothing)
{
    expect_waits(A, 1, 0);
    expect_waits(B, 1, 1);
    expect_waits(C, 1, 2);
    release(2);
    expect_called("hlk-a-1-x");
    expect_called("hlk-b-2-y");
    raw(redis, "DECRBY t 2");
    raw(redis, "ZADD %s 50000000000000 %s", QUEUE, ticket(C, 1)); /* it has waited for long */
    expect_waits(A, 1, 0);
    cr_assert_eq(raw_int(redis, "ZRANK %s %s", QUEUE, ticket(C, 1)), 1);
    expect_waits(B, 1, 1);
    cr_assert_eq(raw_int(redis, "ZRANK %s %s", QUEUE, ticket(C, 1)), 2);
    release(1);
    expect_called("hlk-a-1-x");
    cr_assert(!is_called(B, 1) && !is_called(C, 1));
}

/* One of Redisson's clients released, and A hears that. */
Test(semaphore_scripts, call_those_behind_who_takes_uncalled)
{
    expect_waits(A, 3, 0);
    expect_waits(B, 1, 1);
    raw(redis, "INCRBY t 4");
    cr_assert_str_eq(acquire(A, 3), NAMES(A));
    expect_called("hlk-b-2-y");
}

Test(semaphore_scripts, pass_by_who_was_called_and_does_not_come)
{
    expect_waits(A, 1, 0);
    release(1);
    expect_called("hlk-a-1-x");
    expect_waits(B, 1, 0);
    age(A, 1, 1500);
    expect_waits(B, 1, 0);
    age(A, 1, 600);
    cr_assert_str_eq(acquire(B, 1), NAMES(B));
    expect_waits(A, 1, 0);
}

/* Whether the inbox of one that was called just now has a subscriber is not asked. */
Test(semaphore_scripts, pass_by_who_was_called_and_is_gone)
{
    expect_waits(A, 1, 0);
    release(1);
    raw(redis, "CLIENT KILL TYPE pubsub");
    age(A, 1, 200);
    cr_assert_str_eq(try_acquire(D, 1), NAMES(D));
    cr_assert_eq(raw_int(redis, "ZCOUNT %s -inf (2e15", QUEUE), 0);
}

/* A waiter without a subscriber and one that is no ticket are removed, and the next one is called. */
Test(semaphore_scripts, pass_by_tickets_of_the_dead)
{
    raw(redis, "ZADD %s 1 %s 2 garbage 3 1e3", QUEUE, ticket("hlk-dead-1-x:1", 1));
    expect_waits(A, 1, 3);
    release(1);
    expect_called("hlk-a-1-x");
    cr_assert_eq(raw_int(redis, "ZCOUNT %s -inf (1e15", QUEUE), 0);
}

Test(semaphore_scripts, put_a_ticket_last_though_the_clock_was_set_back)
{
    raw(redis, "ZADD %s 900000000000000 %s", QUEUE, ticket(B, 1));
    expect_waits(A, 1, 1);
    expect_waits(A, 1, 1);
}

/* Many at once, more than are read at a time. */
Test(semaphore_scripts, call_all_for_whom_there_are_permits)
{
    enum { WAITERS = 120 };
    for (int i = 0; i < WAITERS; i++) {
        char hold[32];
        snprintf(hold, sizeof hold, "hlk-a-1-x:%d", i + 1);
        expect_waits(hold, 1, i);
    }
    release(WAITERS - 20);
    cr_assert_eq(raw_int(redis, "ZCOUNT %s 1e15 (2e15", QUEUE), WAITERS - 20);
    cr_assert_eq(raw_int(redis, "ZCOUNT %s -inf (1e15", QUEUE), 20);
}
