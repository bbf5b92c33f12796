/* Every line of the heads of lua/fair_release.lua, fair_break.lua, fair_query.lua: each reply, what it changes, run
 * twice, run late. */
/* Shows: P22 */
#include "integration/fair_scripts_fixture.h"
#include "support/no_lock.h"

FAIR_SCRIPTS_SUITE(fair_release);
FAIR_SCRIPTS_SUITE(fair_leave);
FAIR_SCRIPTS_SUITE(fair_break);
FAIR_SCRIPTS_SUITE(fair_query);

/* --- fair_release of a hold */

Test(fair_release, frees_what_the_hold_held)
{
    try_acquire(30000, A);
    cr_assert_str_eq(release(A), ":1");
    cr_assert(nothing_is_left());
}

Test(fair_release, without_the_hold_answers_0_and_changes_nothing)
{
    cr_assert_str_eq(release(A), ":0");
    cr_assert(nothing_is_left());
    redisContext *c = listens(C);
    try_acquire(30000, B);
    join(C);
    cr_assert_str_eq(release(A), ":0");
    cr_assert_str_eq(leave(A), ":0");
    cr_assert(is_held_by(B));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(was_not_notified(c));
    redisFree(c);
}

Test(fair_release, makes_the_first_the_holder_and_tells_nobody_else)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    int64_t score_of_c = score(C);
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert(was_not_notified(c));
    cr_assert(is_held_by(B));
    cr_assert(about(raw_pttl(admin, LOCK), GRANT));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(in_step());
    cr_assert_eq(score(C), score_of_c);
    redisFree(b);
    redisFree(c);
}

/* A wait with a fixed lease, or under a shorter watchdog. */
Test(fair_release, grants_for_as_long_as_the_waiter_said)
{
    redisContext *b = listens(B), *c = listens(C), *java = listens(JAVA);
    try_acquire(30000, A);
    join_for(B, 60000, 60000);
    join_for(C, 600, 600);
    java_waits(JAVA, score(C) + PATIENCE);
    cr_assert(about(raw_int(admin, "PTTL " NOTES), 60000), "it is written again by each poll");
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_notified(b, "fgrant 7 60000 0 t"));
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(release(B), ":1");
    cr_assert(was_notified(c, "fgrant 8 600 0 t"), "in the long way, as Redisson's is next");
    cr_assert(between(1, raw_pttl(admin, LOCK), 600));
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
    redisFree(b);
    redisFree(c);
    redisFree(java);
}

static int64_t calls_of_all_commands(void)
{
    int64_t calls = 0;
    redisReply *stats = redisCommand(admin, "INFO commandstats");
    for (const char *at = stats->str; (at = strstr(at, "calls=")) != NULL; at++)
        calls += strtoll(at + strlen("calls="), NULL, 10);
    freeReplyObject(stats);
    return calls;
}

Test(fair_release, costs_as_much_whatever_waits_behind)
{
    enum { MANY = 300 };
    char hold[32];
    redisContext *b = listens("hlk-b-2-y:0");
    int64_t calls[2];
    try_acquire(30000, A);
    for (int i = 0; i < MANY; i++) {
        snprintf(hold, sizeof hold, "hlk-b-2-y:%d", i);
        join(hold);
    }
    const char *ends[] = { A, "hlk-b-2-y:0" };
    for (int i = 0; i < 2; i++) {
        raw(admin, "CONFIG RESETSTAT");
        cr_assert_str_eq(release(ends[i]), ":1");
        calls[i] = calls_of_all_commands();
        for (int j = 2; i == 0 && j < MANY; j++) {
            snprintf(hold, sizeof hold, "hlk-b-2-y:%d", j);
            leave(hold);
        }
    }
    cr_assert_eq(calls[0], calls[1], "%lld behind 300, %lld behind one", (long long)calls[0], (long long)calls[1]);
    redisFree(b);
}

Test(fair_release, calls_redissons_first)
{
    redisContext *java = listens(JAVA), *c = listens(C);
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(C);
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_called(java));
    cr_assert(was_not_notified(c));
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    cr_assert_str_eq(queue(), "[\"" JAVA "\", \"" C "\"]");
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
    redisFree(java);
    redisFree(c);
}

/* It queues first and subscribes afterwards; or it is dead. */
Test(fair_release, has_ours_watch_redissons_first_if_it_hears_nothing)
{
    redisContext *java2 = listens(JAVA2), *c = listens(C), *d = listens(D);
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(B);
    java_waits(JAVA2, server_ms() + 3 * PATIENCE);
    join(C);
    join(D);
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_notified(c, "fopen 8 0 0 t"));
    cr_assert(was_not_notified(d));
    cr_assert(was_not_notified(java2), "it would ask without a pause: Redisson's hot loop");
    redisFree(java2);
    redisFree(c);
    redisFree(d);
}

Test(fair_release, wakes_redissons_new_first_waiter_to_read_the_ttl)
{
    redisContext *b = listens(B), *java = listens(JAVA);
    try_acquire(600000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    raw(admin, "PEXPIRE " QUEUE " 60000");
    raw(admin, "PEXPIRE " SCORES " 60000");
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert(was_called(java), "it would sleep for 10 min");
    cr_assert_eq(raw_int(admin, "PTTL " QUEUE), -1, "Redisson's alone, without a ttl");
    cr_assert_eq(raw_int(admin, "PTTL " SCORES), -1);
    redisFree(b);
    redisFree(java);
}

/* One name, two kinds of lock: no other script would wake the waiters of the other kind. */
Test(fair_release, has_the_first_ask_who_waits_for_it_as_a_plain_lock)
{
    redisContext *b = listens(B), *c = listens(C);
    cr_assert_eq(raw_int(admin, "ZADD " PLAIN_QUEUE " 1 %s 2 %s 2e15 " D, B " 5000 0 0 1", C " 5000 0 0 1"), 3);
    try_acquire(30000, A);
    cr_assert_str_eq(release(A), ":3");
    cr_assert(was_notified(b, "open 7 0 0 t"));
    cr_assert(was_not_notified(c));
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    raw(admin, "ZREMRANGEBYSCORE " PLAIN_QUEUE " 1 2");
    try_acquire(30000, A);
    cr_assert_str_eq(release(A), ":1", "holds that ended in doubt are no waiters");
    raw(admin, "DEL " PLAIN_QUEUE);
    raw(admin, "SET " PLAIN_QUEUE " text");
    try_acquire(30000, A);
    cr_assert_str_eq(release(A), ":1");
    redisFree(b);
    redisFree(c);
}

Test(fair_release, run_twice_is_run_once)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    release(A);
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert_str_eq(release(A), ":0");
    cr_assert_str_eq(release_in_doubt(A, 60000), ":0");
    cr_assert(was_not_notified(b));
    cr_assert(was_not_notified(c));
    cr_assert(is_held_by(B));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    redisFree(b);
    redisFree(c);
}

Test(fair_release, in_doubt_remembers_the_hold_for_as_long_as_asked)
{
    raw(admin, "ZADD " NOTES " -1000 old:1");
    cr_assert_str_eq(release_in_doubt(A, 600000), ":0");
    cr_assert_str_eq(raw(admin, "ZRANGE " NOTES " 0 -1"), "[\"" A "\"]", "older members go");
    cr_assert(about(raw_int(admin, "PTTL " NOTES), 600000));
    cr_assert(about(-raw_int(admin, "ZSCORE " NOTES " " A), server_ms()));
    release_in_doubt(B, 60000);
    cr_assert_eq(raw_int(admin, "ZCARD " NOTES), 2);
    cr_assert(about(raw_int(admin, "PTTL " NOTES), 600000), "and is not forgotten sooner");
}

/* A late attempt of its acquire took a ticket after its hold was over. */
Test(fair_release, in_doubt_takes_the_ticket_too)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join_for(B, 60000, 60000);
    join(C);
    release(A);
    cr_assert(is_held_by(B));
    raw(admin, "LPUSH " QUEUE " " B);
    raw(admin, "ZADD " SCORES " 1 " B);
    cr_assert_str_eq(release_in_doubt(B, 60000), ":1");
    cr_assert(is_held_by(C));
    cr_assert_eq(raw_int(admin, "EXISTS " QUEUE " " SCORES), 0);
    cr_assert_str_eq(join(B), ":-1");
    redisFree(b);
    redisFree(c);
}

Test(fair_release, works_on_a_full_server)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    fill_server();
    cr_assert_str_eq(release(A), ":1");
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert_str_eq(release_in_doubt(B, 60000), ":1");
    cr_assert_str_eq(join(B), ":-1");
    redisFree(b);
}

Test(fair_release, frees_without_pubsub_rights_or_with_spoiled_keys)
{
    raw(admin, "ACL SETUSER mute on >pw ~* resetchannels +@all -pubsub");
    redisContext *mute = raw_open_as(server, "mute", "pw"), *mine = user;
    try_acquire(30000, A);
    join(B);
    user = mute;
    cr_assert_str_eq(release(A), ":1");
    user = mine;
    cr_assert(is_held_by(B), "taken for there, and asks by itself");
    raw(admin, "SET " QUEUE " text");
    raw(admin, "SET " SCORES " text");
    raw(admin, "SET " NOTES " text");
    cr_assert_str_eq(release_in_doubt(B, 60000), ":1");
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    redisFree(mute);
}

Test(fair_release, refuses_a_lock_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(release_in_doubt(A, 60000), "WRONGTYPE"));
    cr_assert_not_null(strstr(release(A), "WRONGTYPE"));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

/* --- fair_release of a wait */

Test(fair_leave, takes_a_waiter_out_and_leaves_the_others_unchanged)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    join_for(C, 60000, 60000);
    java_waits(JAVA, score(C) + PATIENCE);
    int64_t java = score(JAVA), b_score = score(B);
    cr_assert_str_eq(leave(C), ":2");
    cr_assert_str_eq(queue(), "[\"" B "\", \"" JAVA "\"]");
    cr_assert(in_step());
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
    cr_assert_eq(score(B), b_score);
    cr_assert_eq(score(JAVA), java);
    cr_assert_neq(raw_int(admin, "PTTL " QUEUE), -1);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert_eq(raw_int(admin, "PTTL " QUEUE), -1, "Redisson's alone, without a ttl");
    cr_assert_eq(raw_int(admin, "PTTL " SCORES), -1);
    cr_assert(is_held_by(A));
    cr_assert(was_not_notified(b));
    redisFree(b);
}

Test(fair_leave, of_the_last_waiter_leaves_no_queue)
{
    try_acquire(30000, A);
    join(B);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
    cr_assert_str_eq(leave(B), ":0", "twice");
}

Test(fair_leave, of_the_first_of_a_free_lock_hands_it_on)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert(was_not_notified(c), "the lock is held");
    leave(C);
    join(B);
    join(C);
    expires();
    cr_assert_str_eq(leave(B), ":2");
    cr_assert(was_notified(c, "fgrant 8 5000 0 t"));
    redisFree(c);
}

/* It was granted the lock, and did not know it yet. */
Test(fair_leave, of_one_that_has_got_it_hands_it_on)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    release(A);
    cr_assert_str_eq(leave(B), ":1");
    cr_assert(was_notified(c, "fgrant 8 5000 0 t"));
    redisFree(b);
    redisFree(c);
}

/* From now on Redisson's clients wake it on a channel to which it is not subscribed. */
Test(fair_leave, between_redissons_and_ours_has_ours_ask)
{
    redisContext *c = listens(C), *d = listens(D);
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(B);
    join(C);
    join(D);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert(was_notified(c, "fopen 8 0 0 t"));
    cr_assert_eq(busy(join(C)).foreign, 1);
    cr_assert(was_not_notified(d));
    raw(admin, "DEL t " QUEUE " " SCORES);
    raw(admin, "HSET t " JAVA " 1");
    raw(admin, "PEXPIRE t 30000");
    join(B);
    join(C);
    join(D);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert(was_notified(c, "fopen 8 0 0 t"), "the first now, of Redisson's lock");
    cr_assert_eq(busy(join(C)).foreign, 1);
    cr_assert_str_eq(leave(D), ":2");
    cr_assert(was_not_notified(c));
    redisFree(c);
    redisFree(d);
}

Test(fair_leave, run_late_spares_the_next_holder_and_the_queue)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    release(A);
    cr_assert_str_eq(release_in_doubt(A, 60000), ":0");
    cr_assert(is_held_by(B));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(was_not_notified(c));
    redisFree(b);
    redisFree(c);
}

/* --- fair_break, fair_query */

Test(fair_break, takes_any_lock_and_tells_its_holder_and_the_first)
{
    redisContext *a = listens(A), *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    cr_assert_str_eq(fair_break(), "\"" A "\"");
    cr_assert(was_notified(a, "fbroken 1 0 0 t"));
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert(was_not_notified(c));
    cr_assert(is_held_by(B));
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    redisFree(a);
    redisFree(b);
    redisFree(c);
}

Test(fair_break, of_redissons_hold_calls_redissons_first)
{
    redisContext *java2 = listens(JAVA2);
    raw(admin, "HSET t " JAVA " 1");
    java_waits(JAVA2, server_ms() + PATIENCE);
    cr_assert_str_eq(fair_break(), "\"" JAVA "\"");
    cr_assert(was_called(java2));
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    redisFree(java2);
}

Test(fair_break, of_a_free_lock_answers_nil_and_tells_nobody)
{
    redisContext *b = listens(B);
    cr_assert_str_eq(fair_break(), "(nil)");
    raw(admin, "RPUSH " QUEUE " " B);
    raw(admin, "ZADD " SCORES " 1 " B);
    cr_assert_str_eq(fair_break(), "(nil)");
    cr_assert(was_not_notified(b));
    redisFree(b);
}

Test(fair_break, refuses_keys_of_another_type_and_changes_nothing)
{
    try_acquire(30000, A);
    raw(admin, "SET " QUEUE " text");
    cr_assert_not_null(strstr(fair_break(), "WRONGTYPE"));
    cr_assert(is_held_by(A));
}

Test(fair_break, and_fair_query_refuse_a_hash_that_is_no_lock)
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
        const char *broken = fair_break(), *message = query("9");
        cr_assert_eq(strncmp(broken, refusal, sizeof refusal - 1), 0, "%s", broken);
        cr_assert_eq(strncmp(message, refusal, sizeof refusal - 1), 0, "%s", message);
        cr_assert_str_eq(raw(admin, "HGETALL t"), before);
    }
    cr_assert(was_not_notified(b));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisFree(b);
}

Test(fair_query, tells_ttl_holder_waiters_and_count_and_only_reads)
{
    cr_assert_str_eq(query("9"), "[:-2, :-1, \"\", :0, :0, []]");
    try_acquire(30000, A);
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
