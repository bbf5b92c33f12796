/* Every line of the heads of lua/fair_end.lua, fair_break.lua, fair_query.lua: each reply, what it changes, run twice,
 * run late. */
#include "integration/fair_scripts.h"
#include "support/no_lock.h"

FAIR_SCRIPTS_SUITE(fair_end);
FAIR_SCRIPTS_SUITE(fair_break);
FAIR_SCRIPTS_SUITE(fair_query);

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

Test(fair_break, and_fair_query_refuse_a_hash_that_is_no_lock_and_change_nothing)
{
    redisContext *b = listens(B);
    raw(admin, "RPUSH " QUEUE " " B);
    for (int i = 0; i < NO_LOCKS; i++) {
        static const char refusal[] = "-HASPLOCK the key is a hash, but no lock";
        char set[160], before[400];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(admin, "DEL t");
        raw(admin, set);
        snprintf(before, sizeof before, "%s", raw(admin, "HGETALL t"));
        const char *broken = fair_break(), *told = query("9");
        cr_assert_eq(strncmp(broken, refusal, sizeof refusal - 1), 0, "%s", broken);
        cr_assert_eq(strncmp(told, refusal, sizeof refusal - 1), 0, "%s", told);
        cr_assert_str_eq(raw(admin, "HGETALL t"), before);
    }
    cr_assert(was_not_called(b));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisFree(b);
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
