/* lock_acquire with others in line: places, what makes a place, who gets a lock that is found free, what a full server
 * and an ended hold do to it. */
#include "integration/scripts.h"

SCRIPTS_SUITE(queue);
SCRIPTS_SUITE(queue_free);

static void foreign_holds(void)
{
    cr_assert_str_eq(raw(admin, "HSET t %s 1", FOREIGN), ":1");
}

static void foreign_is_gone(void)
{
    cr_assert_str_eq(raw(admin, "DEL t"), ":1");
}

/* --- places */

Test(queue, is_joined_by_who_names_a_place)
{
    acquire(30000, A);
    const char *answer = enqueue(B, PLACE(B));
    cr_assert_str_eq(answered(answer), A " 0");
    cr_assert(about(answered_ttl(answer), 30000));
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), A " 1");
    cr_assert_str_eq(in_line(), "[\"" PLACE(B) "\", \"" PLACE(C) "\"]");
    cr_assert_eq(score(PLACE(B)), 1);
    cr_assert_eq(score(PLACE(C)), 2);
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" A "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_not(was_published());
}

Test(queue, is_not_joined_by_who_tries)
{
    acquire(30000, A);
    cr_assert_str_eq(answered(acquire(30000, B)), A " -1");
    cr_assert_str_eq(answered(enqueue(B, "")), A " -1");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue, is_joined_behind_a_foreign_holder_too)
{
    foreign_holds();
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), FOREIGN " 0");
    cr_assert_str_eq(in_line(), "[\"" PLACE(B) "\"]");
}

Test(queue, is_not_joined_by_who_has_the_lock)
{
    acquire(30000, A);
    cr_assert_str_eq(enqueue(A, PLACE(A)), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue, joined_twice_is_joined_once)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), A " 0");
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), A " 1");
    cr_assert_str_eq(in_line(), "[\"" PLACE(B) "\", \"" PLACE(C) "\"]");
    cr_assert_eq(score(PLACE(B)), 1);
    cr_assert_eq(score(PLACE(C)), 2);
}

/* 2 is 2 still, so who comes is behind it though there are two of them only. */
Test(queue, goes_on_counting_after_the_first_has_left)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    cr_assert_str_eq(leave(B, 0, PLACE(B)), ":2");
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), A " 1");
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\", \"" PLACE(B) "\"]");
    cr_assert_eq(score(PLACE(B)), 3);
}

/* By text "10" is before "9". */
Test(queue, keeps_the_order_beyond_nine)
{
    char hold[32], member[64], expected[64];
    acquire(30000, A);
    for (int i = 1; i <= 12; i++) {
        snprintf(hold, sizeof hold, CLIENT_B ":%d", i);
        snprintf(member, sizeof member, CLIENT_B ":%d 5000 0 0 1", i);
        snprintf(expected, sizeof expected, A " %d", i - 1);
        cr_assert_str_eq(answered(enqueue(hold, member)), expected);
        cr_assert_eq(score(member), i);
    }
}

Test(queue, of_ended_holds_counts_for_no_place)
{
    acquire(30000, A);
    end("hlk-d-4-w:1", 600000);
    end("hlk-d-4-w:2", 600000);
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), A " 0");
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), A " 1");
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), A " 1", "asked again");
    cr_assert_eq(score(PLACE(B)), 1);
}

Test(queue, of_an_open_window_counts_for_no_place)
{
    foreign_holds();
    raw(admin, "ZADD %s %s open", QUEUE, script_number(1000000000000000 + server_now_ms() + 600000));
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), FOREIGN " 0");
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), FOREIGN " 1");
    cr_assert_eq(score(PLACE(B)), 1);
    cr_assert_eq(score(PLACE(C)), 2);
}

/* --- how long it is kept */

Test(queue, is_kept_for_300_s)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

Test(queue, is_kept_for_300_s_more_when_somebody_joins)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    raw(admin, "PEXPIRE %s 100000", QUEUE);
    enqueue(C, PLACE(C));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

/* Else who waits longer than that loses its place. */
Test(queue, is_kept_for_300_s_more_when_somebody_asks_again)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    raw(admin, "PEXPIRE %s 100000", QUEUE);
    enqueue(B, PLACE(B));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

Test(queue, is_kept_as_long_as_ended_holds_are_remembered)
{
    acquire(30000, A);
    end(B, 600000);
    enqueue(C, PLACE(C));
    cr_assert(between(600000 - WAIT_MS, raw_pttl(admin, QUEUE), 600000));
}

/* --- ended holds */

Test(queue, is_closed_to_who_has_left_in_doubt)
{
    acquire(30000, A);
    enqueue(C, PLACE(C));
    enqueue(B, PLACE(B));
    cr_assert_str_eq(leave(B, 600000, PLACE(B)), ":2");
    const char *before = everything();
    cr_assert_str_eq(enqueue(B, PLACE(B)), ":-1");
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\", \"" B "\"]");
}

Test(queue, is_closed_to_who_has_left_before_it_came)
{
    acquire(30000, A);
    cr_assert_str_eq(leave(B, 600000, PLACE(B)), ":0");
    cr_assert_str_eq(enqueue(B, PLACE(B)), ":-1");
    cr_assert_str_eq(in_line(), "[\"" B "\"]");
}

/* --- a full server */

Test(queue, of_a_full_server_is_not_joined)
{
    acquire(30000, A);
    fill_server();
    cr_assert_not_null(strstr(enqueue(B, PLACE(B)), "OOM"));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue, of_a_full_server_answers_who_is_in_it)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    fill_server();
    cr_assert_str_eq(answered(enqueue(B, PLACE(B))), A " 0");
}

/* --- a free lock that somebody waits for: its holder expired, or was Redisson's */

Test(queue_free, is_the_first_ones_when_another_tries)
{
    redisContext *b = listen(INBOX(CLIENT_B)), *listener = listen(CHANNEL);
    foreign_holds();
    enqueue(B, PLACE(B));
    foreign_is_gone();
    const char *answer = acquire(30000, A);
    cr_assert_str_eq(answered(answer), B " -1");
    cr_assert_eq(answered_ttl(answer), 5000);
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(told(b), "grant 7 5000 0 t");
    cr_assert_str_eq(told(listener), "");
    cr_assert_str_eq(answered(acquire(30000, A)), B " -1");
    cr_assert_str_eq(told(b), "", "told once");
    redisFree(b);
    redisFree(listener);
}

Test(queue_free, is_the_first_ones_when_another_joins)
{
    redisContext *b = listen(INBOX(CLIENT_B)), *c = listen(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, PLACE(B));
    foreign_is_gone();
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), B " 0");
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    cr_assert_str_eq(told(b), "grant 7 5000 0 t");
    cr_assert_str_eq(told(c), "");
    redisFree(b);
    redisFree(c);
}

Test(queue_free, is_the_first_ones_when_the_second_asks_again)
{
    redisContext *b = listen(INBOX(CLIENT_B)), *c = listen(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(answered(enqueue(C, PLACE(C))), B " 0");
    cr_assert_str_eq(told(b), "grant 7 5000 0 t");
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    redisFree(b);
    redisFree(c);
}

Test(queue_free, is_the_first_ones_when_it_asks_itself)
{
    redisContext *b = listen(INBOX(CLIENT_B)), *c = listen(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert(between(30000 - WAIT_MS, raw_pttl(admin, LOCK), 30000), "the lease that it asks for, no grant's");
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    cr_assert_str_eq(told(b), "");
    cr_assert_str_eq(told(c), "");
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)", "twice");
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    redisFree(b);
    redisFree(c);
}

/* Its inbox may be torn just now; it speaks, so it is alive. */
Test(queue_free, is_the_first_ones_that_asks_itself_and_does_not_listen)
{
    redisContext *c = listen(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    cr_assert_str_eq(told(c), "");
    redisFree(c);
}

Test(queue_free, is_the_second_ones_that_asks_when_the_first_is_dead)
{
    foreign_holds();
    enqueue(C, PLACE(C));
    enqueue(B, PLACE(B));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_B);
}

Test(queue_free, is_whose_who_tries_when_all_in_line_are_dead)
{
    foreign_holds();
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue_free, is_whose_who_joins_when_all_in_line_are_dead)
{
    foreign_holds();
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_B);
}

Test(queue_free, is_the_first_live_ones)
{
    redisContext *c = listen(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    foreign_is_gone();
    cr_assert_str_eq(answered(acquire(30000, A)), C " -1");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(told(c), "grant 9 5000 0 t");
    redisFree(c);
}

Test(queue_free, of_ended_holds_only_is_whose_who_tries)
{
    end(B, 600000);
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert_str_eq(raw_holder(admin, LOCK), A);
    cr_assert_str_eq(in_line(), "[\"" B "\"]");
}

/* The server may have room when it asks for itself; nothing is given to who cannot have it. */
Test(queue_free, of_a_full_server_is_nobodys_and_the_first_is_told_to_ask)
{
    redisContext *b = listen(INBOX(CLIENT_B));
    foreign_holds();
    enqueue(B, PLACE(B));
    foreign_is_gone();
    fill_server();
    cr_assert_str_eq(acquire(30000, A), "[:0, \"\", :-1]");
    cr_assert_str_eq(told(b), "open 7 0 0 t");
    cr_assert_not_null(strstr(enqueue(C, PLACE(C)), "OOM"));
    cr_assert_str_eq(everything(), QUEUE " zset [\"" PLACE(B) "\"]; ");
    redisFree(b);
}

/* To leave the line is a write that a full server allows, and then it allows the next one too. */
Test(queue_free, of_a_full_server_is_the_first_ones_that_asks_itself)
{
    foreign_holds();
    enqueue(B, PLACE(B));
    foreign_is_gone();
    fill_server();
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}
