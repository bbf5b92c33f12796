/* lua/include_fair.lua: dead waiters in the queue, what becomes of their tickets, and of the waiters behind them. */
/* Shows: P22 */
#include "integration/fair_scripts_fixture.h"

FAIR_SCRIPTS_SUITE(fair_away);
FAIR_SCRIPTS_SUITE(fair_dead);

/* --- of this library, whose inbox has no subscriber */

/* Shows: S17 */
Test(fair_away, one_of_ours_is_passed_over_but_keeps_its_ticket)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    release(A);
    cr_assert(was_notified(c, "fgrant 8 5000 0 t"), "at once");
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisContext *b = listens(B);
    cr_assert_eq(busy(join(B)).position, 0, "it is back, and asks");
    release(C);
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"), "and is the next");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
    redisFree(b);
    redisFree(c);
}

/* Shows: S17 */
Test(fair_away, one_of_ours_is_given_up_after_that)
{
    redisContext *c = listens(C), *d = listens(D);
    try_acquire(30000, A);
    join(B);
    join(C);
    join(D);
    release(A);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" D "\"]");
    its_time_is_over();
    release(C);
    cr_assert(was_notified(d, "fgrant 9 5000 0 t"));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1, "nothing of it is left");
    redisFree(c);
    redisFree(d);
}

/* Its subscription was lost for a moment, and again later: the time begins anew. */
Test(fair_away, a_client_that_was_back_has_its_time_anew)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    release(A);
    redisContext *b = listens(B);
    join(B);
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0, "the moment before is forgotten");
    unsubscribes(b, B);
    join(D);
    redisContext *d = listens(D);
    release(C);
    cr_assert(was_notified(d, "fgrant 9 5000 0 t"));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisFree(c);
    redisFree(d);
}

/* If only Redisson's scripts run from now on, they remove it by its score. */
Test(fair_away, the_score_of_a_ticket_that_is_kept_is_over_then)
{
    try_acquire(30000, A);
    join(B);
    join(D);
    int64_t before = server_ms();
    release(A);
    cr_assert(between(before + 1000, score(B), server_ms() + 1000), "%lld", (long long)(score(B) - before));
    cr_assert(between(before + 1000, score(D), server_ms() + 1000), "%lld", (long long)(score(D) - before));
    try_acquire(30000, A);
    join(B);
    cr_assert_gt(score(B), server_ms() + PATIENCE / 4, "it is back");
}

static bool is_away(const char *client)
{
    return strcmp(raw(admin, "ZSCORE " NOTES " %b", client, strlen(client)), "(nil)") != 0;
}

/* B is passed over, and its subscription is confirmed before it sends again. */
static redisContext *comes_back_after_it_was_passed_over(const char *waiter)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(waiter);
    join(C);
    release(A);
    cr_assert(is_away("away hlk-b-2-y"));
    redisFree(c);
    return listens(waiter);
}

/* It would be given up at once when its subscription breaks again. */
Test(fair_away, the_note_goes_when_its_client_is_granted_the_lock)
{
    redisContext *b = comes_back_after_it_was_passed_over(B);
    release(C);
    cr_assert(is_held_by(B));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
    redisFree(b);
}

Test(fair_away, the_note_goes_with_the_long_form_of_a_grant)
{
    redisContext *b = comes_back_after_it_was_passed_over(B);
    java_waits(JAVA, score(B) + PATIENCE);
    release(C);
    cr_assert(is_held_by(B));
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
    redisFree(b);
}

Test(fair_away, the_note_goes_when_its_clients_wait_ends)
{
    redisContext *b = comes_back_after_it_was_passed_over(B);
    cr_assert_str_eq(leave(B), ":2");
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
    redisFree(b);
}

Test(fair_away, the_note_goes_with_its_clients_next_ticket)
{
    redisContext *b = comes_back_after_it_was_passed_over(B), *d = listens(D);
    join(B2);
    cr_assert_not(is_away("away hlk-b-2-y"));
    join(D);
    unsubscribes(b, B);
    release(C);
    cr_assert(was_notified(d, "fgrant 9 5000 0 t"));
    cr_assert_str_eq(queue(), "[\"" B "\", \"" B2 "\"]", "they have a second again");
    redisFree(d);
}

Test(fair_away, a_client_that_was_away_long_ago_has_its_time_anew)
{
    redisContext *c = listens(C);
    try_acquire(30000, A);
    join(B);
    join(C);
    cr_assert_eq(raw_int(admin, "ZADD " NOTES " %lld %s", (long long)server_ms() - 11000, "away hlk-b-2-y"), 1);
    release(A);
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    redisFree(c);
}

Test(fair_away, all_of_a_client_keep_their_tickets_and_their_order)
{
    enum { MANY = 1500 };
    char hold[32];
    redisContext *c = listens(C);
    try_acquire(30000, A);
    for (int i = 0; i < MANY; i++) {
        snprintf(hold, sizeof hold, "hlk-b-2-y:%d", i + 100);
        join(hold);
    }
    join(C);
    release(A);
    cr_assert(was_notified(c, "fgrant 8 5000 0 t"), "behind so many");
    cr_assert_eq(raw_int(admin, "LLEN " QUEUE), MANY);
    redisContext *b = listens(B);
    join("hlk-b-2-y:100");
    release(C);
    cr_assert(was_notified(b, "fgrant 100 5000 0 t"));
    cr_assert_str_eq(raw(admin, "LINDEX " QUEUE " 0"), "\"hlk-b-2-y:101\"");
    redisFree(b);
    redisFree(c);
}

Test(fair_away, all_of_a_client_that_died_are_given_up_together)
{
    enum { MANY = 1500 };
    char hold[32];
    redisContext *c = listens(C);
    try_acquire(30000, A);
    for (int i = 0; i < MANY; i++) {
        snprintf(hold, sizeof hold, "hlk-b-2-y:%d", i + 100);
        join(hold);
    }
    join(C);
    cr_assert_eq(busy(join(C)).position, MANY, "the first look");
    its_time_is_over();
    cr_assert_eq(busy(join(C)).position, 0, "also while the lock is held");
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(in_step());
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0);
    redisFree(c);
}

Test(fair_away, a_caller_takes_a_free_lock_if_all_others_are_away)
{
    try_acquire(30000, A);
    join(B);
    expires();
    cr_assert_str_eq(try_acquire(30000, C), NAMES(C));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    release(C);
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    cr_assert_str_eq(join(D), NAMES(D));
    cr_assert_str_eq(queue(), "[\"" B "\"]");
}

/* Its subscription will be confirmed soon, and then the first of its waits sends first. */
Test(fair_away, a_client_does_not_pass_by_its_own_waits)
{
    try_acquire(30000, A);
    join(B);
    expires();
    struct busy got = busy(try_acquire(30000, B2));
    cr_assert_str_eq(got.holder, "");
    cr_assert_eq(got.ms, 1000);
    cr_assert_eq(busy(join(B2)).position, 1);
    cr_assert_str_eq(busy(join(B2)).holder, "");
    cr_assert_str_eq(queue(), "[\"" B "\", \"" B2 "\"]");
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert_str_eq(queue(), "[\"" B2 "\"]");
    leave(B2);
    raw(admin, "DEL " NOTES);
}

/* It sends, so it is alive, however long its subscription takes. */
Test(fair_away, a_client_does_not_give_up_its_own_waits)
{
    try_acquire(30000, A);
    join(B);
    join(B2);
    raw_int(admin, "ZADD " NOTES " %lld %s", (long long)server_ms() - 1, "away hlk-b-2-y");
    cr_assert_eq(busy(join(B2)).position, 1);
    cr_assert_str_eq(queue(), "[\"" B "\", \"" B2 "\"]");
    cr_assert_eq(raw_int(admin, "EXISTS " NOTES), 0, "and others give it a second more");
}

/* A waiter of Redisson's acquires only as the first. So it waits for one of ours that is away, if another one of ours
 * will send again. */
Test(fair_away, one_before_redissons_is_awaited_if_ours_are_there)
{
    redisContext *c = listens(C), *java = listens(JAVA);
    try_acquire(30000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    join(C);
    release(A);
    cr_assert(was_notified(c, "fopen 8 0 0 t"));
    cr_assert(was_not_notified(java));
    struct busy got = busy(join(C));
    cr_assert_str_eq(got.holder, "");
    cr_assert(about(got.ms, 1000) && got.ms <= 1000, "%lld", got.ms);
    cr_assert_eq(got.position, 2);
    its_time_is_over();
    got = busy(join(C));
    cr_assert(was_called(java));
    cr_assert(about(got.ms, 10000));
    cr_assert_str_eq(queue(), "[\"" JAVA "\", \"" C "\"]");
    redisFree(c);
    redisFree(java);
}

/* Shows: S17 */
Test(fair_away, one_before_redissons_is_given_up_if_ours_are_away)
{
    redisContext *java = listens(JAVA);
    try_acquire(30000, A);
    join(B);
    java_waits(JAVA, score(B) + PATIENCE);
    join(B2);
    release(A);
    cr_assert(was_called(java));
    cr_assert_str_eq(queue(), "[\"" JAVA "\", \"" B2 "\"]");
    redisFree(java);
}

Test(fair_away, the_first_counts_as_there_without_right_to_ask)
{
    raw(admin, "ACL SETUSER unsubscribed on >pw ~* &* +@all -pubsub");
    redisContext *unsubscribed = raw_open_as(server, "unsubscribed", "pw"), *mine = user;
    try_acquire(30000, A);
    join(B);
    join(C);
    user = unsubscribed;
    release(A);
    cr_assert(is_held_by(B));
    user = mine;
    redisFree(unsubscribed);
}

/* --- Redisson's */

Test(fair_dead, an_absent_waiter_past_its_score_goes_at_second_ask)
{
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() - 1);
    cr_assert_eq(busy(join(B)).position, 1);
    cr_assert_eq(busy(join(B)).position, 0);
    cr_assert_str_eq(queue(), "[\"" B "\"]");
    cr_assert(in_step());
}

/* Its score was written by another host's clock, or it has waited for longer than its reconnect timeout. */
Test(fair_dead, a_waiter_whose_score_is_over_but_who_listens_stays)
{
    redisContext *java = listens(JAVA);
    try_acquire(30000, A);
    java_waits(JAVA, server_ms() - 1);
    join(B);
    cr_assert_eq(busy(join(B)).position, 1);
    expires();
    cr_assert(about(busy(join(B)).ms, 10000));
    cr_assert(was_called(java));
    redisFree(java);
}

Test(fair_dead, a_waiter_past_its_score_goes_without_right_to_ask)
{
    raw(admin, "ACL SETUSER unsubscribed on >pw ~* &* +@all -pubsub");
    redisContext *unsubscribed = raw_open_as(server, "unsubscribed", "pw"), *mine = user, *java = listens(JAVA);
    user = unsubscribed;
    java_waits(JAVA, server_ms() - 1);
    java_waits(JAVA2, server_ms() + PATIENCE);
    cr_assert_eq(busy(join(B)).position, 1);
    cr_assert_str_eq(queue(), "[\"" JAVA2 "\", \"" B "\"]");
    user = mine;
    redisFree(java);
    redisFree(unsubscribed);
}

/* asks A1 redisson 1104, 2883...: no reply says "try now", as Redisson's do: that was its hot loop */
Test(fair_dead, a_free_lock_waits_5_s_for_one_not_listening_yet)
{
    java_waits(JAVA, server_ms() + PATIENCE);
    cr_assert(about(busy(join(C)).ms, 5000));
    redisContext *java = listens(JAVA);
    cr_assert(about(busy(join(C)).ms, 10000), "it listens now: it is called");
    cr_assert(was_called(java));
    cr_assert_str_eq(queue(), "[\"" JAVA "\", \"" C "\"]");
    redisFree(java);
}

Test(fair_dead, a_free_lock_waits_10_s_for_a_listener_to_come)
{
    redisContext *java = listens(JAVA);
    java_waits(JAVA, server_ms() + PATIENCE);
    cr_assert(about(busy(join(C)).ms, 10000));
    cr_assert(was_called(java));
    cr_assert(about(busy(join(C)).ms, 10000));
    cr_assert(was_not_notified(java), "once");
    its_time_is_over();
    cr_assert_str_eq(join(C), NAMES(C));
    cr_assert_str_eq(raw(admin, "KEYS *"), "[\"" LOCK "\"]");
    redisFree(java);
}

Test(fair_dead, any_number_in_a_row_costs_the_next_one_chance)
{
    char waiter[32];
    for (int i = 0; i < 50; i++) {
        snprintf(waiter, sizeof waiter, "%08d-dead:%d", i % 3, i);
        java_waits(waiter, server_ms() + (i + 1) * PATIENCE);
    }
    redisContext *b = listens(B), *c = listens(C);
    cr_assert_eq(busy(join(B)).position, 50);
    cr_assert_eq(busy(join(C)).position, 51);
    its_time_is_over();
    cr_assert_str_eq(busy(join(C)).holder, B);
    cr_assert_str_eq(queue(), "[\"" C "\"]");
    cr_assert(was_notified(b, "fgrant 7 5000 0 t"));
    redisFree(b);
    redisFree(c);
}

Test(fair_dead, a_waiter_that_comes_in_time_gets_the_lock)
{
    java_waits(JAVA, server_ms() + PATIENCE);
    join(C);
    raw(admin, "DEL " QUEUE " " SCORES);
    raw(admin, "HSET t " JAVA " 1");
    raw(admin, "PEXPIRE t 30000");
    struct busy got = busy(join(C));
    cr_assert_str_eq(got.holder, JAVA);
    cr_assert_eq(got.position, 0);
}

Test(fair_dead, a_chance_of_an_earlier_wait_is_not_counted)
{
    redisContext *java = listens(JAVA);
    java_waits(JAVA, server_ms() + PATIENCE);
    join(C);
    cr_assert(was_called(java));
    int64_t earlier = server_ms();
    raw(admin, "DEL " QUEUE " " SCORES); /* it came, held, released, and waits again, only by its own scripts */
    its_time_is_over();
    WAIT_FOR(server_ms() > earlier); /* its score is another one: both are lowered to what they can be now */
    java_waits(JAVA, server_ms() + PATIENCE + 1000);
    cr_assert(about(busy(join(C)).ms, 10000));
    cr_assert(was_called(java));
    redisFree(java);
}

Test(fair_dead, one_without_a_score_is_given_its_chance_too)
{
    raw(admin, "RPUSH " QUEUE " " JAVA); /* Redisson never removes it */
    cr_assert(about(busy(join(B)).ms, 5000));
    its_time_is_over();
    cr_assert_str_eq(join(B), NAMES(B));
    cr_assert_eq(raw_int(admin, "DBSIZE"), 1);
}
