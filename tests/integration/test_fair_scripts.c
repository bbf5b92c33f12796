/* Every line of every head of lua/fair_*.lua: each reply, what it changes, run twice, run late. As test_scripts.c does
 * it for the plain lock: the embedded texts, by EVAL, as the user the library would be. */
#include "support/acl.h"
#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct server *server;
static redisContext *user;  /* runs the scripts */
static redisContext *admin; /* looks */

#define LOCK "t"
#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"
#define VOID "hasplock_fair:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:7"
#define C "hlk-b-2-y:8"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define JAVA2 "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:2"
#define PATIENCE 300000

static void start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

static void stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

TestSuite(fair_acquire, .init = start, .fini = stop, .timeout = 60);
TestSuite(fair_dead, .init = start, .fini = stop, .timeout = 60);
TestSuite(fair_end, .init = start, .fini = stop, .timeout = 60);
TestSuite(fair_break, .init = start, .fini = stop, .timeout = 60);
TestSuite(fair_query, .init = start, .fini = stop, .timeout = 60);
TestSuite(fair_scripts, .init = start, .fini = stop, .timeout = 60);

/* --- the scripts as functions, their replies as text */

static const char *run(int64_t lease_ms, const char *hold, const char *join)
{
    return script_run(user, HLK_SCRIPT_FAIR_ACQUIRE, 4, LOCK, QUEUE, SCORES, VOID, script_number(lease_ms), hold,
                      CHANNEL, script_number(PATIENCE), join, NULL);
}

static const char *try(int64_t lease_ms, const char *hold)
{
    return run(lease_ms, hold, "0");
}

static const char *join(const char *hold)
{
    return run(30000, hold, "1");
}

static const char *end(const char *hold, int64_t void_ms)
{
    return script_run(user, HLK_SCRIPT_FAIR_END, 4, LOCK, QUEUE, SCORES, VOID, hold, CHANNEL, script_number(PATIENCE),
                      script_number(void_ms), NULL);
}

static const char *fair_break(void)
{
    return script_run(user, HLK_SCRIPT_FAIR_BREAK, 2, LOCK, QUEUE, CHANNEL, NULL);
}

static const char *query(const char *most)
{
    return script_run(user, HLK_SCRIPT_FAIR_QUERY, 2, LOCK, QUEUE, most, NULL);
}

/* An answer "not yet". */
struct busy {
    long long ms, place;
    char holder[64];
};

static struct busy busy(const char *reply)
{
    struct busy got = { -99, -99, "" };
    char copy[256];
    snprintf(copy, sizeof copy, "%s", reply);
    int n = sscanf(copy, "[:%lld, \"%63[^\"]\", :%lld]", &got.ms, got.holder, &got.place);
    if (n == 1)
        n = sscanf(copy, "[:%lld, \"\", :%lld]", &got.ms, &got.place) + 1;
    cr_assert_eq(n, 3, "%s", copy);
    return got;
}

/* --- what is there */

static const char *queue(void)
{
    return raw(admin, "LRANGE " QUEUE " 0 -1");
}

static int64_t score(const char *waiter)
{
    return raw_int(admin, "ZSCORE " SCORES " %s", waiter);
}

static int64_t server_ms(void)
{
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return now;
}

/* Queue and scores name the same waiters. */
static bool in_step(void)
{
    redisReply *queued = redisCommand(admin, "LRANGE " QUEUE " 0 -1");
    bool same = raw_int(admin, "ZCARD " SCORES) == (int64_t)queued->elements;
    for (size_t i = 0; i < queued->elements; i++)
        same = same && strcmp(raw(admin, "ZSCORE " SCORES " %s", queued->element[i]->str), "(nil)") != 0;
    freeReplyObject(queued);
    return same;
}

static bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

/* A ttl or moment that was just set. Slow machines may have used some of it, never all. */
static bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

static bool nothing_is_left(void)
{
    return raw_int(admin, "DBSIZE") == 0;
}

static redisContext *listens(const char *waiter)
{
    redisContext *redis = raw_open(server);
    raw(redis, "SUBSCRIBE " CHANNEL ":%s", waiter);
    return redis;
}

static bool was_called(redisContext *listener)
{
    const char *message = raw_next(listener);
    return message && strstr(message, "\"message\"") && strstr(message, "\"0\"]");
}

static bool was_not_called(redisContext *listener)
{
    return raw_next_within(listener, 50) == NULL;
}

/* Somebody of Redisson's, as its own script would have put it there. */
static void java_waits(const char *waiter, int64_t score_ms)
{
    raw(admin, "RPUSH " QUEUE " %s", waiter);
    raw(admin, "ZADD " SCORES " %lld %s", (long long)score_ms, waiter);
}

/* The lock's holder is gone, and no script has said so. */
static void expires(void)
{
    cr_assert_eq(raw_int(admin, "DEL " LOCK), 1);
}

/* Time goes by: what the queue's first has been given is over. */
static void its_chance_is_over(void)
{
    redisReply *mark = redisCommand(admin, "ZRANGEBYSCORE " VOID " 1 +inf");
    cr_assert_eq(mark->elements, 1, "nobody was given a chance");
    const char *argv[] = { "ZADD", VOID, "1000", mark->element[0]->str };
    raw_argv(admin, 4, argv, NULL);
    freeReplyObject(mark);
}

static void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}

/* --- fair_acquire */

Test(fair_acquire, takes_a_free_lock_with_one_field_and_a_ttl)
{
    cr_assert_str_eq(try(30000, A), "(nil)");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" A "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, run_twice_is_run_once_and_raises_the_ttl)
{
    try(30000, A);
    cr_assert_str_eq(try(90000, A), "(nil)");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
    cr_assert_str_eq(join(A), "(nil)");
    cr_assert(about(raw_pttl(admin, LOCK), 90000), "and never lowers it");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" A "\", \"1\"]");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, answers_ttl_and_holder_to_one_who_does_not_join_and_changes_nothing)
{
    try(30000, A);
    struct busy got = busy(try(60000, B));
    cr_assert(about(got.ms, 30000));
    cr_assert_str_eq(got.holder, A);
    cr_assert_eq(got.place, -1);
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, answers_minus_1_for_a_hold_without_end)
{
    raw(admin, "HSET t foreign:1 1");
    cr_assert_eq(busy(try(30000, B)).ms, -1);
    cr_assert_eq(busy(join(B)).ms, -1);
}

Test(fair_acquire, joins_the_queue_with_redissons_scores)
{
    try(30000, A);
    cr_assert_eq(busy(join(B)).place, 0);
    cr_assert_eq(busy(join(C)).place, 1);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    cr_assert(in_step());
    cr_assert(about(score(B), server_ms() + 30000 + PATIENCE));
    cr_assert_eq(score(C), score(B) + PATIENCE, "as Redisson's: the last one's and a patience");
}

Test(fair_acquire, run_twice_keeps_the_place)
{
    try(30000, A);
    join(B);
    join(C);
    struct busy got = busy(join(B));
    cr_assert_eq(got.place, 0);
    cr_assert_str_eq(got.holder, A);
    cr_assert_eq(busy(try(30000, C)).place, 1, "also who does not join is told its place");
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    cr_assert(in_step());
}

/* Redisson drops who has waited for five minutes, alive or not. */
Test(fair_acquire, asked_again_keeps_the_score_ahead_of_the_clock)
{
    try(30000, A);
    join(B);
    join(C);
    raw(admin, "ZADD " SCORES " 1000 " B " 2000 " C);
    redisContext *b = listens(B);
    join(C);
    join(B);
    cr_assert(about(score(B), server_ms() + 30000 + PATIENCE));
    cr_assert(about(score(C), server_ms() + 30000 + 2 * PATIENCE));
    int64_t before = score(C);
    raw(admin, "ZINCRBY " SCORES " 5000000 " C);
    join(C);
    cr_assert_eq(score(C), before + 5000000, "it only raises");
    redisFree(b);
}

Test(fair_acquire, lets_the_first_in_and_the_others_be_a_place_nearer)
{
    try(30000, A);
    join(B);
    join(C);
    java_waits(JAVA, score(C) + PATIENCE);
    int64_t c = score(C), java = score(JAVA);
    expires();
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert_str_eq(queue(), "[\"" C "\", \"" JAVA "\"]");
    cr_assert(in_step());
    cr_assert_eq(score(C), c - PATIENCE);
    cr_assert_eq(score(JAVA), java - PATIENCE);
}

Test(fair_acquire, leaves_no_key_but_the_lock_to_the_last_of_the_queue)
{
    try(30000, A);
    join(B);
    expires();
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, of_a_free_lock_is_not_for_who_is_not_first)
{
    redisContext *b = listens(B), *c = listens(C);
    try(30000, A);
    join(B);
    expires();
    struct busy got = busy(try(30000, C));
    cr_assert_str_eq(got.holder, "");
    cr_assert_eq(got.place, -1);
    cr_assert(about(got.ms, 10000));
    cr_assert_eq(busy(join(C)).place, 1);
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    cr_assert(was_called(b), "the first is told that it is its turn");
    cr_assert(was_not_called(b), "once");
    cr_assert(was_not_called(c));
    cr_assert_str_eq(try(30000, B), "(nil)");
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert_eq(raw_int(admin, "EXISTS " VOID), 0, "nobody is waited for any more");
    redisFree(b);
    redisFree(c);
}

/* asks A1 redisson 1104...: the keys of a queue whose waiters all crashed go by themselves */
Test(fair_acquire, gives_the_queue_a_ttl_that_outlasts_its_scores)
{
    try(30000, A);
    join(B);
    join(C);
    int64_t left = score(C) - server_ms() + PATIENCE / 2;
    cr_assert(between(left, raw_int(admin, "PTTL " QUEUE), left + PATIENCE + WAIT_MS));
    cr_assert(between(left, raw_int(admin, "PTTL " SCORES), left + PATIENCE + WAIT_MS));
}

Test(fair_acquire, leaves_a_queue_of_redissons_alone_without_a_ttl)
{
    try(30000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    expires();
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_eq(raw_int(admin, "PTTL " QUEUE), -1);
    cr_assert_eq(raw_int(admin, "PTTL " SCORES), -1);
}

Test(fair_acquire, run_late_after_an_end_in_doubt_is_void)
{
    join(A);
    cr_assert_str_eq(end(A, 60000), ":1");
    cr_assert_str_eq(join(A), ":-1");
    cr_assert_str_eq(try(30000, A), ":-1");
    cr_assert_str_eq(raw(admin, "KEYS *"), "[\"" VOID "\"]");
}

Test(fair_acquire, run_late_after_a_wait_that_ended_in_doubt_is_void)
{
    try(30000, A);
    join(B);
    cr_assert_str_eq(end(B, 60000), ":0");
    cr_assert_str_eq(join(B), ":-1");
    cr_assert_eq(raw_int(admin, "EXISTS " QUEUE " " SCORES), 0);
    cr_assert_eq(busy(join(C)).place, 0, "the void set stops its own holds only");
}

Test(fair_acquire, refuses_keys_of_another_type_and_changes_nothing)
{
    static const char *const keys[] = { LOCK, QUEUE, VOID };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        raw(admin, "SET %s text", keys[i]);
        cr_assert_not_null(strstr(join(A), "WRONGTYPE"), "%s", keys[i]);
        cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
        raw(admin, "DEL %s", keys[i]);
    }
    try(30000, A);
    raw(admin, "SET " SCORES " text");
    cr_assert_not_null(strstr(join(B), "WRONGTYPE"));
    cr_assert_eq(raw_int(admin, "EXISTS " QUEUE), 0);
}

Test(fair_acquire, is_refused_by_a_full_server_and_changes_nothing)
{
    fill_server();
    cr_assert_not_null(strstr(try(30000, A), "OOM"));
    cr_assert(nothing_is_left());
    raw(admin, "CONFIG SET maxmemory 0");
    try(30000, A);
    join(B);
    fill_server();
    cr_assert_not_null(strstr(join(C), "OOM"));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    cr_assert_eq(busy(join(B)).place, 0, "who is in the queue is answered");
    cr_assert_str_eq(join(A), "(nil)", "and who holds it");
}

/* --- who is dead */

Test(fair_dead, a_waiter_whose_score_is_over_and_who_does_not_listen_goes_at_once)
{
    try(30000, A);
    java_waits(JAVA, server_ms() - 1);
    cr_assert_eq(busy(join(B)).place, 0);
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    cr_assert(in_step());
}

/* Its score was written by another host's clock, or it has waited for longer than its patience. */
Test(fair_dead, a_waiter_whose_score_is_over_but_who_listens_stays)
{
    redisContext *java = listens(JAVA);
    try(30000, A);
    java_waits(JAVA, server_ms() - 1);
    cr_assert_eq(busy(join(B)).place, 1);
    expires();
    cr_assert(about(busy(join(B)).ms, 10000));
    cr_assert(was_called(java));
    redisFree(java);
}

Test(fair_dead, a_waiter_whose_score_is_over_goes_when_nobody_may_ask_who_listens)
{
    raw(admin, "ACL SETUSER deaf on >pw ~* &* +@all -pubsub");
    redisContext *deaf = raw_open_as(server, "deaf", "pw"), *mine = user, *java = listens(JAVA);
    user = deaf;
    java_waits(JAVA, server_ms() - 1);
    java_waits(JAVA2, server_ms() + PATIENCE);
    cr_assert_eq(busy(join(B)).place, 1);
    cr_assert_str_eq(queue(), "[\"" JAVA2 "\", \"" B "\"]");
    user = mine;
    redisFree(java);
    redisFree(deaf);
}

/* asks A1 redisson 1104, 2883...: no ask is answered "now", as Redisson's are: that was its hot loop */
Test(fair_dead, a_free_lock_waits_1_s_for_one_of_ours_that_does_not_listen)
{
    try(30000, A);
    join(B);
    expires();
    struct busy first = busy(join(C)), then = busy(join(C));
    cr_assert(about(first.ms, 1000), "%lld", first.ms);
    cr_assert(then.ms <= first.ms);
    its_chance_is_over();
    cr_assert_str_eq(join(C), "(nil)");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1, "it has left nothing");
}

Test(fair_dead, a_free_lock_waits_5_s_for_one_of_redissons_that_does_not_listen_yet)
{
    java_waits(JAVA, server_ms() + PATIENCE);
    cr_assert(about(busy(join(C)).ms, 5000));
    redisContext *java = listens(JAVA);
    cr_assert(about(busy(join(C)).ms, 10000), "it listens now: it is called");
    cr_assert(was_called(java));
    cr_assert_str_eq(queue(), "[\"" JAVA "\", \"" C "\"]");
    redisFree(java);
}

Test(fair_dead, a_free_lock_waits_10_s_for_one_that_listens_and_does_not_come)
{
    redisContext *b = listens(B);
    try(30000, A);
    join(B);
    expires();
    cr_assert(about(busy(join(C)).ms, 10000));
    its_chance_is_over();
    cr_assert_str_eq(join(C), "(nil)");
    cr_assert_str_eq(raw(admin, "KEYS *"), "[\"" LOCK "\"]");
    redisFree(b);
}

Test(fair_dead, any_number_in_a_row_costs_the_next_one_chance)
{
    char waiter[32];
    for (int i = 0; i < 50; i++) {
        snprintf(waiter, sizeof waiter, "%08d-dead:%d", i % 3, i);
        java_waits(waiter, server_ms() + (i + 1) * PATIENCE);
    }
    redisContext *b = listens(B), *c = listens(C);
    cr_assert_eq(busy(join(B)).place, 50);
    cr_assert_eq(busy(join(C)).place, 51);
    its_chance_is_over();
    cr_assert_str_eq(busy(join(C)).holder, "");
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    cr_assert(was_called(b));
    cr_assert_str_eq(join(B), "(nil)");
    redisFree(b);
    redisFree(c);
}

Test(fair_dead, a_waiter_that_comes_in_time_gets_the_lock)
{
    try(30000, A);
    join(B);
    expires();
    join(C);
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_str_eq(queue(), "[\"" C "\"]");
}

Test(fair_dead, a_chance_of_an_earlier_wait_is_not_counted)
{
    redisContext *java = listens(JAVA);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(C);
    cr_assert(was_called(java));
    raw(admin, "DEL " QUEUE " " SCORES); /* it came, held, released, and waits again: all by its own scripts */
    its_chance_is_over();
    java_waits(JAVA, server_ms() + PATIENCE + 1000);
    cr_assert(about(busy(join(C)).ms, 10000));
    cr_assert(was_called(java));
    redisFree(java);
}

Test(fair_dead, one_without_a_score_is_given_its_chance_too)
{
    raw(admin, "RPUSH " QUEUE " " JAVA); /* Redisson never drops it */
    cr_assert(about(busy(join(B)).ms, 5000));
    its_chance_is_over();
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

/* --- fair_end */

Test(fair_end, frees_what_the_hold_held)
{
    try(30000, A);
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert(nothing_is_left());
}

Test(fair_end, of_what_the_hold_does_not_hold_answers_0_and_changes_nothing)
{
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert(nothing_is_left());
    redisContext *c = listens(C);
    try(30000, B);
    join(C);
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(was_not_called(c));
    redisFree(c);
}

Test(fair_end, calls_the_first_and_nobody_else)
{
    redisContext *b = listens(B), *c = listens(C);
    try(30000, A);
    join(B);
    join(C);
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert(was_called(b));
    cr_assert(was_not_called(c));
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    redisFree(b);
    redisFree(c);
}

Test(fair_end, calls_the_first_of_ours_behind_dead_ones)
{
    redisContext *c = listens(C), *java = listens(JAVA2);
    try(30000, A);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(B);
    java_waits(JAVA2, server_ms() + 3 * PATIENCE);
    join(C);
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert(was_called(c));
    cr_assert(was_not_called(java), "it would ask without a pause: Redisson's hot loop");
    redisFree(c);
    redisFree(java);
}

Test(fair_end, takes_a_waiter_out_of_the_queue)
{
    redisContext *c = listens(C);
    try(30000, A);
    join(B);
    join(C);
    java_waits(JAVA, score(C) + PATIENCE);
    int64_t c_score = score(C), java = score(JAVA), b_score = score(B);
    cr_assert_str_eq(end(C, 0), ":0");
    cr_assert_str_eq(queue(), "[\"" B "\", \"" JAVA "\"]");
    cr_assert(in_step());
    cr_assert_eq(score(B), b_score);
    cr_assert_eq(score(JAVA), java - PATIENCE);
    cr_assert_eq(c_score + PATIENCE, java);
    cr_assert_str_eq(end(B, 0), ":0");
    cr_assert_eq(raw_int(admin, "PTTL " QUEUE), -1, "Redisson's alone, without a ttl");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" A "\", \"1\"]");
    redisFree(c);
}

Test(fair_end, of_the_last_waiter_leaves_no_queue)
{
    try(30000, A);
    join(B);
    cr_assert_str_eq(end(B, 0), ":0");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

/* Who is called and leaves hands the call on. */
Test(fair_end, of_the_first_of_a_free_lock_calls_the_next)
{
    redisContext *c = listens(C);
    try(30000, A);
    join(B);
    join(C);
    cr_assert_str_eq(end(B, 0), ":0");
    cr_assert(was_not_called(c), "the lock is held");
    end(C, 0);
    join(B);
    join(C);
    expires();
    cr_assert_str_eq(end(B, 0), ":0");
    cr_assert(was_called(c));
    redisFree(c);
}

Test(fair_end, run_twice_is_run_once)
{
    redisContext *b = listens(B);
    try(30000, A);
    join(B);
    end(A, 0);
    cr_assert(was_called(b));
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert(was_not_called(b));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisFree(b);
}

Test(fair_end, run_late_leaves_the_next_holder_and_the_queue_alone)
{
    redisContext *b = listens(B), *c = listens(C);
    try(30000, A);
    join(B);
    join(C);
    end(A, 0);
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(was_not_called(c));
    redisFree(b);
    redisFree(c);
}

Test(fair_end, in_doubt_remembers_the_hold_for_as_long_as_asked)
{
    raw(admin, "ZADD " VOID " -1000 old:1");
    cr_assert_str_eq(end(A, 600000), ":0");
    cr_assert_str_eq(raw(admin, "ZRANGE " VOID " 0 -1"), "[\"" A "\"]", "older members go");
    cr_assert(about(raw_int(admin, "PTTL " VOID), 600000));
    cr_assert(about(-raw_int(admin, "ZSCORE " VOID " " A), server_ms()));
    end(B, 600000);
    cr_assert_eq(raw_int(admin, "ZCARD " VOID), 2);
}

Test(fair_end, works_on_a_full_server_and_calls)
{
    redisContext *b = listens(B);
    try(30000, A);
    join(B);
    fill_server();
    cr_assert_str_eq(end(A, 60000), ":1");
    cr_assert(was_called(b));
    cr_assert_str_eq(try(30000, A), ":-1");
    cr_assert_str_eq(join(B), "(nil)", "and the next gets in");
    redisFree(b);
}

Test(fair_end, frees_also_when_it_may_not_ask_or_publish_or_the_other_keys_are_of_another_type)
{
    raw(admin, "ACL SETUSER mute on >pw ~* resetchannels +@all -pubsub");
    redisContext *mute = raw_open_as(server, "mute", "pw"), *mine = user;
    try(30000, A);
    join(B);
    user = mute;
    cr_assert_str_eq(end(A, 0), ":1");
    user = mine;
    cr_assert_str_eq(join(B), "(nil)");
    raw(admin, "SET " QUEUE " text");
    raw(admin, "SET " SCORES " text");
    raw(admin, "SET " VOID " text");
    cr_assert_str_eq(end(B, 60000), ":1");
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    redisFree(mute);
}

Test(fair_end, refuses_a_lock_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(end(A, 60000), "WRONGTYPE"));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

/* --- fair_break, fair_query */

Test(fair_break, takes_the_lock_from_anybody_and_calls_the_first)
{
    redisContext *b = listens(B), *c = listens(C);
    try(30000, A);
    join(B);
    join(C);
    cr_assert_str_eq(fair_break(), "\"" A "\"");
    cr_assert(was_called(b));
    cr_assert(was_not_called(c));
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    redisFree(b);
    redisFree(c);
}

Test(fair_break, of_a_lock_that_nobody_holds_answers_nil_and_calls_nobody)
{
    redisContext *b = listens(B);
    cr_assert_str_eq(fair_break(), "(nil)");
    try(30000, A);
    join(B);
    fair_break();
    cr_assert(was_called(b));
    cr_assert_str_eq(fair_break(), "(nil)", "twice");
    cr_assert(was_not_called(b));
    redisFree(b);
}

Test(fair_break, refuses_keys_of_another_type_and_changes_nothing)
{
    try(30000, A);
    raw(admin, "SET " QUEUE " text");
    cr_assert_not_null(strstr(fair_break(), "WRONGTYPE"));
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" A "\", \"1\"]");
}

Test(fair_query, tells_ttl_waiters_holder_and_count_and_changes_nothing)
{
    cr_assert_str_eq(query("9"), "[:-2, :-1, \"\", :0, :0, []]");
    try(30000, A);
    join(B);
    join(C);
    int64_t changes = raw_stat(admin, "rdb_changes_since_last_save");
    long long ttl = 0, waiting = 0, count = 0;
    char holder[64] = "", waiters[128] = "";
    cr_assert_eq(sscanf(query("9"), "[:%lld, :-1, \"%63[^\"]\", :%lld, :%lld, [%127[^]]", &ttl, holder, &count,
                        &waiting, waiters),
                 5);
    cr_assert(about(ttl, 30000));
    cr_assert_eq(waiting, 2);
    cr_assert_str_eq(waiters, "\"" B "\", \"" C "\"");
    cr_assert_not_null(strstr(query("1"), ":2, [\"" B "\"]]"));
    cr_assert_not_null(strstr(query("0"), ":2, []]"));
    cr_assert_str_eq(holder, A);
    cr_assert_eq(count, 1);
    cr_assert_eq(raw_stat(admin, "rdb_changes_since_last_save"), changes);
}

/* --- all of them */

Test(fair_scripts, touch_no_key_that_is_not_declared)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~t ~" QUEUE " ~" SCORES " ~" VOID " &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *mine = user, *b = listens(B);
    user = strict;
    cr_assert_str_eq(join(A), "(nil)");
    cr_assert_eq(busy(join(B)).place, 0);
    cr_assert_eq(busy(join(C)).place, 1);
    cr_assert_null(strstr(query("9"), "NOPERM"));
    cr_assert_str_eq(end(A, 60000), ":1");
    cr_assert_str_eq(busy(join(C)).holder, "");
    cr_assert_str_eq(join(B), "(nil)");
    cr_assert_str_eq(fair_break(), "\"" B "\"");
    cr_assert_str_eq(end(C, 0), ":0");
    user = mine;
    redisFree(strict);
    redisFree(b);
}
