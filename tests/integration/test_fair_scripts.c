/* Every line of the head of lua/fair_acquire.lua while all are alive: each reply, what it changes, run twice, run late;
 * and what holds for all of lua/fair_*.lua. */
#include "integration/fair_scripts.h"
#include "support/no_lock.h"

FAIR_SCRIPTS_SUITE(fair_acquire);
FAIR_SCRIPTS_SUITE(fair_scripts);

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

Test(fair_acquire, refuses_a_hash_without_end_that_is_no_lock_and_changes_nothing)
{
    for (int i = 0; i < NO_LOCKS; i++) {
        char set[160], before[400];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(admin, "DEL t");
        raw(admin, set);
        raw(admin, "RPUSH " QUEUE " " JAVA);
        raw(admin, "ZADD " SCORES " 1 " JAVA); /* would be dropped: its time is over */
        snprintf(before, sizeof before, "%s", raw(admin, "HGETALL t"));
        const char *answer = join(A);
        cr_assert_not_null(strstr(answer, "a hash, but no lock"), "%s", answer);
        cr_assert_str_eq(raw(admin, "HGETALL t"), before);
        cr_assert_str_eq(queue(), "[\"" JAVA "\"]");
        raw(admin, "DEL " QUEUE " " SCORES);
    }
    raw(admin, "PEXPIRE t 60000");
    cr_assert_eq(busy(try(30000, A)).place, -1, "it will be over");
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

static const char *join_x(redisContext *strict, const char *hold)
{
    return script_run(strict, HLK_SCRIPT_FAIR_ACQUIRE, 4, "x1", "x2", "x3", "x4", "30000", hold, CHANNEL, "300000", "1",
                      NULL);
}

/* By names that no rule makes: a key that a script made up from the lock's name would be refused. */
Test(fair_scripts, touch_the_keys_that_they_are_given_and_no_others)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~x1 ~x2 ~x3 ~x4 &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *b = listens(B);
    cr_assert_str_eq(join_x(strict, A), "(nil)");
    cr_assert_eq(busy(join_x(strict, B)).place, 0);
    const char *ended =
        script_run(strict, HLK_SCRIPT_FAIR_END, 4, "x1", "x2", "x3", "x4", A, CHANNEL, "300000", "60000", NULL);
    cr_assert_str_eq(ended, ":1");
    cr_assert_str_eq(join_x(strict, B), "(nil)");
    cr_assert_null(strstr(script_run(strict, HLK_SCRIPT_FAIR_QUERY, 2, "x1", "x2", "9", NULL), "NOPERM"));
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_FAIR_BREAK, 2, "x1", "x2", CHANNEL, NULL), "\"" B "\"");
    redisFree(strict);
    redisFree(b);
    raw(admin, "DEL x1 x2 x3 x4");
}
