/* The scores that lua/fair_*.lua give hasplock's waiters, and leave to Redisson's. Redisson's clients use them: they
 * remove the first waiter when its score is over by their own clock. When one of them acquires or leaves, it subtracts
 * PATIENCE from those behind it. */
/* Shows: P22 */
#include "integration/fair_scripts_fixture.h"

FAIR_SCRIPTS_SUITE(fair_score);

enum { POLL = 31000 }; /* a waiter sends acquire so often, at least */

/* As Redisson's own script: behind the last waiter. */
static void java_joins(const char *waiter)
{
    char last[96];
    redisReply *reply = redisCommand(admin, "LINDEX " QUEUE " -1");
    snprintf(last, sizeof last, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    java_waits(waiter, (last[0] ? score(last) : server_ms() + raw_pttl(admin, LOCK)) + PATIENCE);
}

/* As Redisson's own scripts: the first waiter acquires, which takes PATIENCE from the others, and releases. */
static void java_is_served(const char *waiter)
{
    static const char take[] = "for _, waiter in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do "
                               "redis.call('zincrby', KEYS[1], -300000, waiter) end";
    const char *argv[] = { "EVAL", take, "1", SCORES };
    cr_assert_eq(raw_int(admin, "ZREM " SCORES " %s", waiter), 1);
    cr_assert_eq(raw_int(admin, "LREM " QUEUE " 1 %s", waiter), 1);
    raw_argv(admin, 4, argv, NULL);
}

/* How far the clock is behind the score that `waiter` has. */
static int64_t ahead(const char *waiter)
{
    return score(waiter) - server_ms();
}

static const char *numbered(const char *client, int i)
{
    static char names[4][64];
    static int next;
    snprintf(names[next = (next + 1) % 4], sizeof names[0], "%s:%d", client, i);
    return names[next];
}

#define OURS "hlk-b-2-y"
#define THEIRS "426394b7-bea6-4e7e-920a-0b4fc0c2fb03"

/* `ours` of hasplock's and one of Redisson's, or one of Redisson's behind each. All are served but the last. Returns
 * how long that one would be waited for if it were dead. */
static int64_t of_last(int ours, bool by_turns)
{
    redisContext *inbox = listens(numbered(OURS, 1));
    try_acquire(30000, A);
    for (int i = 1; i <= ours; i++) {
        join_for(numbered(OURS, i), 30000, 30000);
        if (by_turns)
            java_joins(numbered(THEIRS, i));
    }
    if (!by_turns)
        java_joins(numbered(THEIRS, ours));
    release(A);
    for (int i = 1; i < ours; i++) {
        cr_assert(is_held_by(numbered(OURS, i)));
        cr_assert_str_eq(release(numbered(OURS, i)), ":1");
        if (by_turns) {
            java_is_served(numbered(THEIRS, i));
            join(numbered(OURS, i + 1));
        }
    }
    redisFree(inbox);
    return ahead(numbered(THEIRS, ours));
}

/* Redisson's alone: 30 s of ttl and 5 min. */
static void is_as_among_its_own(int ours, bool by_turns)
{
    int64_t left = of_last(ours, by_turns);
    cr_assert_leq(left, 30000 + PATIENCE, "behind %d%s: %lld ms", ours, by_turns ? " by turns" : "", (long long)left);
    cr_assert_geq(left, PATIENCE - WAIT_MS);
}

Test(fair_score, of_redissons_behind_ours_is_as_among_its_own)
{
    is_as_among_its_own(1, false);
    raw(admin, "FLUSHALL");
    is_as_among_its_own(10, false);
}

Test(fair_score, of_redissons_by_turns_with_ours_is_as_its_own)
{
    static const int turns[] = { 1, 6, 10, 22 };
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        is_as_among_its_own(turns[i], true);
        raw(admin, "FLUSHALL");
    }
}

/* Of those behind another of Redisson's no script of hasplock's looks at the score: what ours add is little. */
Test(fair_score, of_redissons_in_a_row_behind_ours_adds_a_lead)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    for (int i = 1; i <= 3; i++)
        java_joins(numbered(THEIRS, i));
    release(A);
    release(B);
    java_is_served(numbered(THEIRS, 1));
    java_is_served(numbered(THEIRS, 2));
    cr_assert_leq(ahead(numbered(THEIRS, 3)), 30000 + LEAD + PATIENCE);
    redisFree(b);
}

/* It waited behind a hasplock waiter that left, and a hasplock waiter behind it polls. */
Test(fair_score, of_redissons_first_is_lowered_by_a_poll)
{
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + 3000000);
    join(B);
    join(B);
    cr_assert(between(PATIENCE, ahead(JAVA), 30000 + PATIENCE), "%lld", (long long)ahead(JAVA));
    int64_t before = server_ms() + PATIENCE - 1000;
    raw(admin, "ZADD " SCORES " %lld " JAVA, (long long)before);
    join(B);
    cr_assert_eq(score(JAVA), before, "and never raised");
}

/* A dead waiter of hasplock's, and only Redisson's scripts run: no longer than for one of its own. */
Test(fair_score, of_ours_is_over_sooner_than_that_of_redissons)
{
    try_acquire(30000, A);
    for (int i = 1; i <= 5; i++)
        join(numbered(OURS, i));
    for (int i = 1; i <= 5; i++)
        cr_assert_leq(ahead(numbered(OURS, i)), 30000 + LEAD);
    cr_assert_lt(LEAD, PATIENCE);
}

/* They have waited for nearly as long as they may, then each holds the lock for a moment. */
Test(fair_score, outlasts_any_number_of_redissons_served_at_once)
{
    enum { JAVAS = 20 };
    try_acquire(30000, A);
    for (int i = 0; i < JAVAS; i++)
        java_waits(numbered(THEIRS, i), server_ms() + 10000 + (int64_t)i * PATIENCE);
    join(B);
    join(C);
    for (int i = 0; i < JAVAS; i++)
        java_is_served(numbered(THEIRS, i));
    cr_assert_gt(ahead(B), POLL);
    cr_assert_gt(ahead(C), POLL);
}

/* Its tryLock waits for 10 min, and takes so much when it gets the lock. */
Test(fair_score, outlasts_redissons_that_waits_for_10_min)
{
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + 30000 + 2 * PATIENCE);
    join(B);
    join(B);
    cr_assert_gt(ahead(B), 2 * PATIENCE);
}

Test(fair_score, is_as_far_ahead_of_the_clock_behind_many_of_ours)
{
    try_acquire(30000, A);
    join(B);
    join(C);
    join(D);
    cr_assert(about(score(B), server_ms() + 30000 + LEAD));
    /* Nobody takes 5 min from it. A script reads the ttl, then the clock: each score is later by the time between */
    cr_assert(between(score(B) - WAIT_MS, score(C), score(B) + WAIT_MS));
    cr_assert(between(score(C) - WAIT_MS, score(D), score(C) + WAIT_MS));
}

Test(fair_score, behind_redissons_has_what_its_script_will_take)
{
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + 30000 + PATIENCE);
    join(B);
    cr_assert(about(score(B), server_ms() + 30000 + LEAD + PATIENCE), "and no more than that for each place");
    join(C);
    cr_assert(between(score(B), score(C), score(B) + WAIT_MS));
}

/* A Redisson host has a clock that is 80 s fast. */
Test(fair_score, is_kept_ahead_of_a_clock_that_is_80_s_ahead)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    join(C);
    for (int64_t left = 0; left <= LEAD; left += 10000) {
        raw(admin, "ZADD " SCORES " %lld " B " %lld " C, (long long)(server_ms() + left),
            (long long)(server_ms() + left));
        join(B);
        join(C);
        cr_assert_gt(ahead(B), 80000 + POLL, "until it asks again");
        cr_assert_gt(ahead(C), 80000 + POLL);
    }
    redisFree(b);
}

Test(fair_score, is_kept_beyond_the_5_minutes_of_redissons_before)
{
    redisContext *java = listens(JAVA);
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(B);
    raw(admin, "ZADD " SCORES " %lld " JAVA " %lld " B, (long long)server_ms(), (long long)(server_ms() + PATIENCE));
    join(B);
    cr_assert_gt(ahead(B), PATIENCE + 80000 + POLL);
    redisFree(java);
}

Test(fair_score, that_is_ahead_enough_stays_as_it_is)
{
    try_acquire(30000, A);
    join(B);
    int64_t before = server_ms() + LEAD - 20000;
    raw(admin, "ZADD " SCORES " %lld " B, (long long)before);
    join(B);
    cr_assert_eq(score(B), before, "no write each time");
}

Test(fair_score, that_is_too_far_ahead_is_lowered)
{
    redisContext *b = listens(B);
    try_acquire(30000, A);
    join(B);
    join(C);
    raw(admin, "ZINCRBY " SCORES " 5000000 " B);
    raw(admin, "ZINCRBY " SCORES " 5000000 " C);
    join(B);
    join(C);
    cr_assert(about(score(B), server_ms() + 30000 + LEAD));
    cr_assert(about(score(C), server_ms() + 30000 + LEAD));
    redisFree(b);
}

/* Redisson's tryLock(300 ms) adds 300 ms to the last score, and subtracts 300 ms from those behind when it leaves. The
 * queue is never empty. */
Test(fair_score, drifts_at_most_5_minutes_a_ticket_by_short_tries)
{
    const char *ours[] = { B, C };
    try_acquire(30000, A);
    join(C);
    for (int i = 0; i < 40; i++) {
        const char *last = ours[(i + 1) % 2], *next = ours[i % 2];
        java_waits(JAVA, score(last) + 300);
        cr_assert_eq(busy(join(next)).position, 2);
        cr_assert_leq(score(next), server_ms() + 30000 + LEAD + 2 * PATIENCE);
        raw(admin, "LREM " QUEUE " 1 " JAVA);
        raw(admin, "ZREM " SCORES " " JAVA);
        raw(admin, "ZINCRBY " SCORES " -300 %s", next);
        leave(last);
    }
}
