/* lua/semaphore_*.lua, one call after the other: who is called, what is set aside for it, and who keeps which place. */
/* Shows: P49 */
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
static redisContext *redis, *inboxes, *listeners[2]; /* of the channel: anybody */

static void start(void)
{
    server = server_start(SERVER_NOACL, NULL);
    redis = raw_open(server);
    inboxes = raw_open(server);
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-a-1-x");
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-b-2-y");
    raw(inboxes, "SUBSCRIBE hasplock_inbox:hlk-c-3-z");
    for (int i = 0; i < 2; i++)
        listeners[i] = raw_open(server);
}

static void stop(void)
{
    redisFree(redis);
    redisFree(inboxes);
    for (int i = 0; i < 2; i++)
        redisFree(listeners[i]);
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

/* yield_ms > 0: with a yield window, if one of Redisson's clients listens. */
static void release_yielding(int n, int yield_ms)
{
    static int calls;
    char hold[64];
    snprintf(hold, sizeof hold, "hlk-r-1-r:%d", ++calls);
    cr_assert_str_eq(script_run(redis, HLK_SCRIPT_SEMAPHORE_CHANGE, 2, KEY, QUEUE, "release", script_number(n), hold,
                                CHANNEL, "", "0", yield_ms ? script_number(yield_ms) : NULL, NULL),
                     ":1");
}

static void release(int n)
{
    release_yielding(n, 0);
}

static void expect_waits(const char *hold, int n, int position)
{
    char reply[64];
    const char *why = raw_int(redis, "EXISTS " KEY) ? "" : "none"; /* nobody has set the number */
    snprintf(reply, sizeof reply, "[:1000, \"%s\", :%d]", why, position);
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

/* --- the yield window --- */

enum { WINDOW_MS = 5000 };

static void listen(int i)
{
    raw(listeners[i], "SUBSCRIBE " CHANNEL);
}

static bool has_window(void)
{
    return strcmp(raw(redis, "ZSCORE %s open", QUEUE), "(nil)") != 0;
}

/* Time goes by: for the window, or for a client that has listened. */
static void age_member(const char *member, int ms)
{
    raw(redis, "ZINCRBY %s -%d %s", QUEUE, ms, member);
}

/* A's client listens as well. */
Test(semaphore_scripts, leave_what_is_free_to_redisson_in_a_window)
{
    listen(0);
    listen(1);
    expect_waits(A, 1, 0);
    release_yielding(1, WINDOW_MS);
    cr_assert(has_window() && !is_called(A, 1));
    cr_assert_eq(raw_int(redis, "GET t"), 1);
    cr_assert_str_eq(raw_next(listeners[0]), "[\"message\", \"" CHANNEL "\", \"1\"]");
    expect_waits(A, 1, 0);
    cr_assert_str_eq(try_acquire(D, 1), "[:1000, \"\", :-1]");
    release(1);
    cr_assert(!is_called(A, 1), "what comes back in a window is a part of it");
    age_member("open", WINDOW_MS - 500);
    int ttl = 0, position = -1;
    cr_assert_eq(sscanf(acquire(A, 1), "[:%d, \"\", :%d]", &ttl, &position), 2);
    cr_assert(ttl > 0 && ttl <= 500 && position == 0, "it asks when the window is over");
    age_member("open", WINDOW_MS);
    cr_assert_str_eq(acquire(A, 1), NAMES(A));
    cr_assert_str_eq(try_acquire(D, 1), NAMES(D));
}

/* What is set aside for a waiter that was called is so for 2 s. When the server's clock is set back, the moment of the
 * ticket lies ahead. */
Test(semaphore_scripts, set_nothing_aside_when_the_clock_was_set_back)
{
    expect_waits(A, 1, 0);
    release(1);
    expect_called("hlk-a-1-x");
    cr_assert_str_eq(try_acquire(D, 1), "[:1000, \"\", :-1]");
    raw(redis, "ZINCRBY %s 600000 %s", QUEUE, ticket(A, 1));
    cr_assert_str_eq(try_acquire(D, 1), NAMES(D));
}

/* The same of a window. */
Test(semaphore_scripts, have_no_window_when_the_clock_was_set_back)
{
    listen(0);
    listen(1);
    expect_waits(A, 1, 0);
    release_yielding(1, WINDOW_MS);
    expect_waits(A, 1, 0);
    raw(redis, "ZINCRBY %s 600000 open", QUEUE);
    cr_assert_str_eq(acquire(A, 1), NAMES(A));
}

/* Its permit is set aside. */
Test(semaphore_scripts, let_who_was_called_before_a_window_take_in_it)
{
    listen(0);
    listen(1);
    expect_waits(A, 1, 0);
    expect_waits(B, 1, 1);
    release(1);
    expect_called("hlk-a-1-x");
    age_member("listens hlk-b-2-y", 2100); /* one of the two that listen is Redisson's */
    release_yielding(1, WINDOW_MS);
    cr_assert(has_window() && !is_called(B, 1));
    cr_assert_str_eq(acquire(A, 1), NAMES(A));
    expect_waits(B, 1, 0);
}

Test(semaphore_scripts, open_no_window_for_clients_of_ours)
{
    listen(0);
    listen(1);
    expect_waits(A, 1, 0);
    expect_waits(B, 1, 1);
    expect_waits(C, 1, 2); /* it does not listen */
    cr_assert_eq(raw_int(redis, "ZCOUNT %s 5e15 6e15", QUEUE), 2);
    release_yielding(1, WINDOW_MS);
    cr_assert(!has_window());
    expect_called("hlk-a-1-x");
    age_member("listens hlk-a-1-x", 2100); /* it has asked nothing since then, so it is another one that listens */
    release_yielding(1, WINDOW_MS);
    cr_assert(has_window() && !is_called(B, 1));
}

Test(semaphore_scripts, open_no_window_when_nothing_is_free)
{
    listen(0);
    raw(redis, "SET t -2");
    release_yielding(2, WINDOW_MS);
    cr_assert(!has_window());
    release_yielding(1, WINDOW_MS);
    cr_assert(has_window());
}

static void end_wait(const char *hold)
{
    cr_assert_str_eq(
        script_run(redis, HLK_SCRIPT_SEMAPHORE_END, 2, KEY, QUEUE, "1", hold, CHANNEL, "0", ticket(hold, 1), NULL),
        ":2");
}

/* Its client may listen still. */
Test(semaphore_scripts, forget_who_listens_with_the_last_ticket_and_note)
{
    expect_waits(A, 1, 0);
    expect_waits(B, 1, 1);
    raw(redis, "ZADD %s 4000000000000000 open", QUEUE);
    end_wait(A);
    cr_assert_eq(raw_int(redis, "ZCOUNT %s 5e15 6e15", QUEUE), 2);
    end_wait(B);
    cr_assert_eq(raw_int(redis, "EXISTS %s", QUEUE), 0);

    expect_waits(A, 1, 0);
    raw(redis, "SET t 1");
    cr_assert_str_eq(acquire(A, 1), NAMES(A));
    cr_assert_eq(raw_int(redis, "ZCARD %s", QUEUE), 2);
    cr_assert_str_eq(script_run(redis, HLK_SCRIPT_SEMAPHORE_CHANGE, 2, KEY, QUEUE, "settle", "0", "hlk-a-1-x:0",
                                CHANNEL, "1", "0", NULL),
                     ":1");
    cr_assert_eq(raw_int(redis, "EXISTS %s", QUEUE), 0);
}
