/* lua/fair_*.lua: who in the queue counts as dead, and what becomes of those behind. */
#include "integration/fair_scripts.h"

FAIR_SCRIPTS_SUITE(fair_dead);

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
