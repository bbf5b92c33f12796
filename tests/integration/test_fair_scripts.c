/* Every line of the head of lua/fair_acquire.lua while all waiters are alive: each reply, what it changes, run twice,
 * run late. And what holds for all of lua/fair_*.lua. */
/* Shows: P22 */
#include "integration/fair_scripts_fixture.h"
#include "support/no_lock.h"

FAIR_SCRIPTS_SUITE(fair_acquire);
FAIR_SCRIPTS_SUITE(fair_scripts);

/* --- fair_acquire */

Test(fair_acquire, takes_a_free_lock_with_one_field_and_a_ttl)
{
    cr_assert_str_eq(try_acquire(30000, A), NAMES(A));
    cr_assert(is_held_by(A));
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, run_twice_is_run_once_and_raises_the_ttl)
{
    try_acquire(30000, A);
    cr_assert_str_eq(try_acquire(90000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
    cr_assert_str_eq(join(A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000), "and never lowers it");
    cr_assert(is_held_by(A));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, tells_a_try_ttl_and_holder_and_changes_nothing)
{
    try_acquire(30000, A);
    struct busy got = busy(try_acquire(60000, B));
    cr_assert(about(got.ms, 30000));
    cr_assert_str_eq(got.holder, A);
    cr_assert_eq(got.position, -1);
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, answers_minus_1_for_a_hold_without_end)
{
    raw(admin, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(busy(try_acquire(30000, B)).ms, -1);
    cr_assert_eq(busy(join(B)).ms, -1);
}

Test(fair_acquire, joins_redissons_queue)
{
    try_acquire(30000, A);
    cr_assert_eq(busy(join(B)).position, 0);
    cr_assert_eq(busy(join(C)).position, 1);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    cr_assert(in_step());
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
}

Test(fair_acquire, run_twice_keeps_the_ticket)
{
    try_acquire(30000, A);
    join(B);
    join(C);
    struct busy got = busy(join(B));
    cr_assert_eq(got.position, 0);
    cr_assert_str_eq(got.holder, A);
    cr_assert_eq(busy(join(C)).position, 1);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" C "\"]");
    cr_assert(in_step());
}

/* Redisson removes waiters that have waited long, and an operator may delete a key. */
Test(fair_acquire, whose_ticket_is_gone_takes_another)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    raw(admin, "ZREM " SCORES " " B);
    raw(admin, "LPOP " QUEUE);
    cr_assert_eq(busy(join(B)).position, 1);
    raw(admin, "LREM " QUEUE " 1 " B);
    cr_assert_eq(busy(join(B)).position, 1, "of which the score was left");
    cr_assert(in_step());
    redisFree(c);
}

/* A waiter behind one of Redisson's is woken on its own channel, and must subscribe to that. */
Test(fair_acquire, tells_who_will_be_called_by_redissons)
{
    try_acquire(30000, A);
    cr_assert_eq(busy(join(B)).foreign, 0);
    cr_assert_eq(busy(join(C)).foreign, 0);
    java_waits(JAVA, server_ms() + PATIENCE);
    cr_assert_eq(busy(join(D)).foreign, 1, "behind Redisson's");
    cr_assert_eq(busy(join(B2)).foreign, 0, "D will hand it on");
    cr_assert_eq(busy(join(D)).foreign, 1, "asked again");
    cr_assert_eq(busy(join(B2)).foreign, 0);
    raw(admin, "DEL t");
    raw(admin, "HSET t " JAVA2 " 1");
    raw(admin, "PEXPIRE t 30000");
    redisContext *b = listens(B), *c = listens(C);
    cr_assert_eq(busy(join(B)).foreign, 1, "the first, of a foreign holder");
    cr_assert_eq(busy(join(C)).foreign, 0);
    raw(admin, "DEL " QUEUE " " SCORES);
    cr_assert_eq(busy(join(B)).foreign, 1, "the same by its first question");
    cr_assert_eq(busy(join(C)).foreign, 0);
    redisFree(b);
    redisFree(c);
}

/* Its waiters are in another queue, and other scripts wake them. */
Test(fair_acquire, of_a_polling_wait_tells_of_waits_for_a_plain_lock)
{
    try_acquire(30000, A);
    join(B);
    cr_assert_eq(busy(join_polling(B)).mixed, 0);
    raw(admin, "ZADD " PLAIN_QUEUE " 2e15 " D);
    cr_assert_eq(busy(join_polling(B)).mixed, 0, "a hold that ended in doubt");
    cr_assert_eq(raw_int(admin, "ZADD " PLAIN_QUEUE " 1 %s", C " 5000 0 0 1"), 1);
    struct busy got = busy(join_polling(B));
    cr_assert_eq(got.mixed, 1);
    cr_assert_str_eq(got.holder, A);
    cr_assert_eq(got.position, 0);
    cr_assert_eq(busy(join(B)).mixed, 0, "it is not looked at each time");
    raw(admin, "DEL " PLAIN_QUEUE);
    raw(admin, "SET " PLAIN_QUEUE " text");
    cr_assert_eq(busy(join_polling(B)).mixed, 0);
}

Test(fair_acquire, lets_the_first_in_and_leaves_the_others_unchanged)
{
    try_acquire(30000, A);
    join(B);
    join(C);
    java_waits(JAVA, score(C) + PATIENCE);
    int64_t c = score(C), java = score(JAVA);
    expires();
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert(is_held_by(B));
    cr_assert(about(raw_pttl(admin, LOCK), 30000), "it asked itself: the whole lease");
    cr_assert_str_eq(queue(), "[\"" C "\", \"" JAVA "\"]");
    cr_assert(in_step());
    cr_assert_eq(score(C), c);
    cr_assert_eq(score(JAVA), java);
}

Test(fair_acquire, by_the_last_of_the_queue_leaves_only_the_lock_key)
{
    try_acquire(30000, A);
    join_for(B, 60000, 60000);
    expires();
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}

Test(fair_acquire, of_a_free_lock_is_the_first_ones_when_another_asks)
{
    redisContext *b = listens(B), *c = listens(C);
    try_acquire(30000, A);
    join(B);
    expires();
    struct busy got = busy(try_acquire(30000, C));
    cr_assert_str_eq(got.holder, B);
    cr_assert_eq(got.ms, GRANT);
    cr_assert_eq(got.position, -1);
    cr_assert(is_held_by(B));
    cr_assert(about(raw_pttl(admin, LOCK), GRANT));
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
    cr_assert_eq(busy(join(C)).position, 0);
    cr_assert(was_not_notified(b));
    cr_assert(was_not_notified(c));
    redisFree(b);
    redisFree(c);
}

Test(fair_acquire, of_a_free_lock_queues_behind_the_one_it_goes_to)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    expires();
    struct busy got = busy(join(C));
    cr_assert_str_eq(got.holder, B);
    cr_assert_eq(got.position, 0);
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(in_step());
    redisFree(b);
}

/* asks A1 redisson 1104...: the keys of a queue whose waiters all crashed go by themselves */
Test(fair_acquire, gives_the_queue_a_ttl_that_outlasts_its_scores)
{
    try_acquire(30000, A);
    join(B);
    join(C);
    int64_t left = score(C) - server_ms() + PATIENCE / 2;
    cr_assert(between(left, raw_int(admin, "PTTL " QUEUE), left + PATIENCE + WAIT_MS));
    cr_assert(between(left, raw_int(admin, "PTTL " SCORES), left + PATIENCE + WAIT_MS));
    raw(admin, "PEXPIRE " QUEUE " 60000");
    raw(admin, "PEXPIRE " SCORES " 60000");
    join(B);
    cr_assert_gt(raw_int(admin, "PTTL " QUEUE), PATIENCE, "asked again");
    cr_assert_gt(raw_int(admin, "PTTL " SCORES), PATIENCE);
}

Test(fair_acquire, leaves_a_queue_of_redissons_alone_without_a_ttl)
{
    try_acquire(30000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    expires();
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert_eq(raw_int(admin, "PTTL " QUEUE), -1);
    cr_assert_eq(raw_int(admin, "PTTL " SCORES), -1);
}

/* The previous holder may have had a longer lease, and Redisson's waiter sleeps for the ttl that it has read. */
Test(fair_acquire, that_succeeds_wakes_redissons_first_for_the_ttl)
{
    redisContext *java = listens(JAVA), *java2 = listens(JAVA2);
    try_acquire(30000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    java_waits(JAVA2, score(B) + 2 * PATIENCE);
    expires();
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert(was_called(java));
    cr_assert(was_not_notified(java2));
    redisFree(java);
    redisFree(java2);
}

Test(fair_acquire, run_late_after_an_end_in_doubt_is_void)
{
    join(A);
    cr_assert_str_eq(release_in_doubt(A, 60000), ":1");
    cr_assert_str_eq(join(A), ":-1");
    cr_assert_str_eq(try_acquire(30000, A), ":-1");
    cr_assert_str_eq(raw(admin, "KEYS *"), "[\"" NOTES "\"]");
}

Test(fair_acquire, run_late_after_a_wait_that_ended_in_doubt_is_void)
{
    try_acquire(30000, A);
    join_for(B, 60000, 60000);
    cr_assert_str_eq(release_in_doubt(B, 60000), ":2");
    cr_assert_str_eq(join(B), ":-1");
    cr_assert_eq(raw_int(admin, "EXISTS " QUEUE " " SCORES), 0);
    cr_assert_eq(busy(join(C)).position, 0, "the tombstones stops its own holds only");
}

Test(fair_acquire, refuses_keys_of_another_type_and_changes_nothing)
{
    static const char *const keys[] = { LOCK, QUEUE, NOTES };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        raw(admin, "SET %s text", keys[i]);
        cr_assert_not_null(strstr(join(A), "WRONGTYPE"), "%s", keys[i]);
        cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
        raw(admin, "DEL %s", keys[i]);
    }
    try_acquire(30000, A);
    raw(admin, "SET " SCORES " text");
    cr_assert_not_null(strstr(join(B), "WRONGTYPE"));
    cr_assert_eq(raw_int(admin, "EXISTS " QUEUE), 0);
}

Test(fair_acquire, refuses_a_hash_that_is_no_lock)
{
    for (int i = 0; i < NO_LOCKS; i++) {
        char set[160], before[400];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(admin, "DEL t");
        raw(admin, set);
        raw(admin, "RPUSH " QUEUE " " JAVA);
        raw(admin, "ZADD " SCORES " 1 " JAVA); /* could be removed: its time is over */
        snprintf(before, sizeof before, "%s", raw(admin, "HGETALL t"));
        const char *answer = join(A);
        cr_assert_not_null(strstr(answer, "a hash, but no lock"), "%s", answer);
        cr_assert_str_eq(raw(admin, "HGETALL t"), before);
        cr_assert_str_eq(queue(), "[\"" JAVA "\"]");
        raw(admin, "DEL " QUEUE " " SCORES);
    }
}

Test(fair_acquire, waits_for_a_read_write_lock_with_an_end)
{
    raw(admin, "HSET t mode read " JAVA " 1");
    cr_assert_not_null(strstr(try_acquire(30000, A), "a hash, but no lock"));
    raw(admin, "PEXPIRE t 60000");
    cr_assert_eq(busy(try_acquire(30000, A)).position, -1, "it will be over");
}

Test(fair_acquire, is_refused_by_a_full_server_and_changes_nothing)
{
    fill_server();
    cr_assert_not_null(strstr(try_acquire(30000, A), "OOM"));
    cr_assert(nothing_is_left());
    raw(admin, "CONFIG SET maxmemory 0");
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    fill_server();
    cr_assert_not_null(strstr(join(C), "OOM"));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    cr_assert_eq(busy(join(B)).position, 0, "who is in the queue is answered");
    cr_assert_str_eq(join(A), NAMES(A), "and who holds it");
    expires();
    struct busy got = busy(try_acquire(30000, C));
    cr_assert_str_eq(got.holder, "", "another one's question cannot grant it");
    cr_assert(was_notified(b, "fopen 7 0 0 t"));
    cr_assert_str_eq(queue(), "[\"" B "\"]", "it keeps its place");
    cr_assert_str_eq(join(B), NAMES(B), "and gets in");
    redisFree(b);
}

/* --- all of them */

Test(fair_scripts, touch_no_key_that_is_not_declared)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~t ~" QUEUE " ~" SCORES " ~" NOTES " ~" PLAIN_QUEUE " &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *mine = user, *b = listens(B);
    user = strict;
    cr_assert_str_eq(join(A), NAMES(A));
    cr_assert_eq(busy(join_for(B, 30000, 30000)).position, 0);
    java_waits(JAVA, score(B) + PATIENCE);
    cr_assert_eq(busy(join(C)).position, 2);
    cr_assert_null(strstr(query("9"), "NOPERM"));
    cr_assert_str_eq(release_in_doubt(A, 60000), ":1");
    cr_assert(is_held_by(B));
    cr_assert_str_eq(fair_break(), "\"" B "\"");
    cr_assert_str_eq(busy(join(C)).holder, "");
    cr_assert_str_eq(leave(C), ":2");
    user = mine;
    redisFree(strict);
    redisFree(b);
}

static const char *join_x(redisContext *strict, const char *hold)
{
    return script_run(strict, HLK_SCRIPT_FAIR_ACQUIRE, 4, "x1", "x2", "x3", "x4", "30000", hold, CHANNEL, "4000", NULL);
}

/* With arbitrary key names: a key that a script had derived from the lock's name would be refused. */
Test(fair_scripts, touch_the_keys_that_they_are_given_and_no_others)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~x1 ~x2 ~x3 ~x4 ~x5 &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *b = listens(B), *c = listens(C);
    cr_assert_str_eq(join_x(strict, A), NAMES(A));
    cr_assert_eq(busy(join_x(strict, B)).position, 0);
    cr_assert_eq(busy(join_x(strict, C)).position, 1);
    const char *ended = script_run(strict, HLK_SCRIPT_FAIR_RELEASE, 5, "x1", "x2", "x3", "x4", "x5", A, CHANNEL, NULL);
    cr_assert_str_eq(ended, ":1");
    cr_assert(was_notified(b, "fgrant 7 4000 0 x1"));
    ended =
        script_run(strict, HLK_SCRIPT_FAIR_RELEASE, 5, "x1", "x2", "x3", "x4", "x5", B, CHANNEL, "60000", "1", NULL);
    cr_assert_str_eq(ended, ":1");
    cr_assert(was_notified(c, "fgrant 8 4000 0 x1"));
    cr_assert_null(strstr(script_run(strict, HLK_SCRIPT_FAIR_QUERY, 2, "x1", "x2", "9", NULL), "NOPERM"));
    const char *broken = script_run(strict, HLK_SCRIPT_FAIR_BREAK, 4, "x1", "x2", "x3", "x4", CHANNEL, NULL);
    cr_assert_str_eq(broken, "\"" C "\"");
    (void)join_x(strict, A);
    (void)join_x(strict, B);
    const char *polled =
        script_run(strict, HLK_SCRIPT_FAIR_ACQUIRE, 5, "x1", "x2", "x3", "x4", "x5", "30000", B, CHANNEL, "4000", NULL);
    cr_assert_null(strstr(polled, "NOPERM"), "%s", polled);
    redisFree(strict);
    redisFree(b);
    redisFree(c);
    raw(admin, "DEL x1 x2 x3 x4");
}
