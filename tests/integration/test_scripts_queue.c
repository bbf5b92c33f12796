/* lock_acquire with other waiters: tickets, who gets a free lock, and the effects of a full server and of
 * tombstones. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"

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

/* --- tickets */

Test(queue, is_joined_by_who_names_a_place)
{
    acquire(30000, A);
    int64_t before = server_now_ms();
    const char *answer = enqueue(B, TICKET(B));
    cr_assert_str_eq(answered(answer), A " 0");
    cr_assert(about(answered_ttl(answer), 30000));
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), A " 1");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\", \"" TICKET(C) "\"]");
    cr_assert(between(before, score(TICKET(B)) / 100, server_now_ms()), "since when, in hundredths of a ms");
    cr_assert_lt(score(TICKET(B)), score(TICKET(C)));
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
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), FOREIGN " 0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\"]");
}

Test(queue, is_not_joined_by_who_has_the_lock)
{
    acquire(30000, A);
    cr_assert_str_eq(enqueue(A, TICKET(A)), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue, joined_twice_is_joined_once)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    int64_t b = score(TICKET(B)), c = score(TICKET(C));
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 0");
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), A " 1");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\", \"" TICKET(C) "\"]");
    cr_assert_eq(score(TICKET(B)), b);
    cr_assert_eq(score(TICKET(C)), c);
}

Test(queue, is_joined_at_the_end_by_who_has_left_it)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 1");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\", \"" TICKET(B) "\"]");
}

/* A ticket with a score of an hour from now, because the clock was set back since, is an earlier one. */
Test(queue, is_joined_at_the_end_whatever_the_clock_says)
{
    int64_t later = (server_now_ms() + 3600000) * 100;
    acquire(30000, A);
    raw(admin, "ZADD %s %s %s", QUEUE, script_number(later), TICKET(B));
    release("hlk-d-4-w:1", 600000);
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), A " 1");
    cr_assert_eq(score(TICKET(C)), later + 1);
    cr_assert_str_eq(answered(enqueue(FOREIGN, TICKET(CLIENT_B ":8"))), A " 2");
    cr_assert_eq(score(TICKET(CLIENT_B ":8")), later + 2);
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 2");
}

/* Shows: S19 */
Test(queue, keeps_the_order_of_those_who_come_at_once)
{
    char hold[32], member[64], expected[64];
    acquire(30000, A);
    for (int i = 1; i <= 12; i++) {
        snprintf(hold, sizeof hold, CLIENT_B ":%d", 20 - i);
        snprintf(member, sizeof member, CLIENT_B ":%d 5000 0 0 1", 20 - i);
        snprintf(expected, sizeof expected, A " %d", i - 1);
        cr_assert_str_eq(answered(enqueue(hold, member)), expected);
    }
}

Test(queue, of_ended_holds_counts_for_no_ticket)
{
    acquire(30000, A);
    release("hlk-d-4-w:1", 600000);
    release("hlk-d-4-w:2", 600000);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 0");
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), A " 1");
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), A " 1", "asked again");
    cr_assert_leq(score(TICKET(C)) / 100, server_now_ms());
}

Test(queue, of_an_yield_window_counts_for_no_ticket)
{
    foreign_holds();
    raw(admin, "ZADD %s %s open", QUEUE, script_number(1000000000000000 + server_now_ms() + 600000));
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), FOREIGN " 0");
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), FOREIGN " 1");
    cr_assert_leq(score(TICKET(C)) / 100, server_now_ms());
}

/* --- dead waiters, while the lock is held */

static long long length(void)
{
    return raw_int(admin, "ZCARD %s", QUEUE);
}

Test(queue, loses_its_dead_to_who_asks_from_far_behind)
{
    acquire(30000, A);
    put_dead_in_front(130);
    const char *answer = enqueue(B, TICKET(B));
    cr_assert_str_eq(answered(answer), A " 80", "50 of 130 are gone");
    cr_assert(about(answered_ttl(answer), 30000));
    cr_assert_eq(length(), 81);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 30", "asked again");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 30", "from near by");
    cr_assert_eq(length(), 31);
    cr_assert_str_eq(answered(acquire(30000, C)), A " -1", "a try");
    cr_assert_eq(length(), 31);
    cr_assert_not(was_published());
}

/* Otherwise dead waiters would pile up behind one that waits long. */
Test(queue, loses_its_dead_also_behind_one_that_lives)
{
    char living[16][32], member[64];
    redisContext *inbox = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    for (int i = 0; i < 16; i++) {
        snprintf(living[i], sizeof living[i], CLIENT_B ":%d", 100 + i);
        snprintf(member, sizeof member, "%s 5000 0 0 1", living[i]);
        enqueue(living[i], member);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(member, sizeof member, "hlk-dead-1-x:%d 5000 0 0 1", i + 1);
        enqueue("hlk-dead-1-x:1", member);
        cr_assert_leq(length(), 51);
    }
    for (int i = 0; i < 16; i++) {
        snprintf(member, sizeof member, "%s 5000 0 0 1", living[i]);
        cr_assert_eq(raw_int(admin, "ZRANK %s %s", QUEUE, member), i, "and who lives keeps its place");
    }
    redisFree(inbox);
}

/* A user without the right to query subscribers takes all waiters for alive. */
Test(queue, keeps_its_dead_if_the_user_may_not_ask_who_listens)
{
    raw(admin, "ACL SETUSER weak on >pw ~* &* +@all -pubsub");
    redisContext *mine = user;
    user = raw_open_as(server, "weak", "pw");
    acquire(30000, A);
    put_dead_in_front(130);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 130");
    redisFree(user);
    user = mine;
}

Test(queue, keeps_its_dead_on_a_replica)
{
    acquire(30000, A);
    put_dead_in_front(60);
    enqueue(B, TICKET(B));
    put_dead_in_front(60);
    raw(admin, "REPLICAOF 127.0.0.1 1");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 60");
    raw(admin, "REPLICAOF NO ONE");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 10");
}

/* Its subscription may just be lost. It sends, so it is alive. */
Test(queue, keeps_the_ticket_of_who_asks_and_does_not_listen)
{
    acquire(30000, A);
    put_dead_in_front(50);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 0");
    put_dead_in_front(100);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 50");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\"]");
}

/* --- how long it is kept */

Test(queue, is_kept_for_300_s)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

Test(queue, is_kept_for_300_s_more_when_somebody_joins)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    raw(admin, "PEXPIRE %s 100000", QUEUE);
    enqueue(C, TICKET(C));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

/* Otherwise a longer wait would lose its ticket. */
Test(queue, is_kept_for_300_s_more_when_somebody_asks_again)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    raw(admin, "PEXPIRE %s 100000", QUEUE);
    enqueue(B, TICKET(B));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
}

Test(queue, is_kept_as_long_as_ended_holds_are_remembered)
{
    acquire(30000, A);
    release(B, 600000);
    enqueue(C, TICKET(C));
    cr_assert(between(600000 - WAIT_MS, raw_pttl(admin, QUEUE), 600000));
}

/* --- tombstones */

Test(queue, is_closed_to_who_has_left_in_doubt)
{
    acquire(30000, A);
    enqueue(C, TICKET(C));
    enqueue(B, TICKET(B));
    cr_assert_str_eq(leave(B, 600000, TICKET(B)), ":2");
    const char *before = everything();
    cr_assert_str_eq(enqueue(B, TICKET(B)), ":-1");
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\", \"" B "\"]");
}

Test(queue, is_closed_to_who_has_left_before_it_came)
{
    acquire(30000, A);
    cr_assert_str_eq(leave(B, 600000, TICKET(B)), ":0");
    cr_assert_str_eq(enqueue(B, TICKET(B)), ":-1");
    cr_assert_str_eq(in_queue(), "[\"" B "\"]");
}

/* --- a full server */

Test(queue, of_a_full_server_is_not_joined)
{
    acquire(30000, A);
    fill_server();
    cr_assert_not_null(strstr(enqueue(B, TICKET(B)), "OOM"));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue, of_a_full_server_answers_who_is_in_it)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    fill_server();
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), A " 0");
}

/* --- a free lock with waiters: its holder's lease ran out, or was Redisson's */

/* Shows: S19 */
Test(queue_free, is_the_first_ones_when_another_tries)
{
    redisContext *b = subscribe(INBOX(CLIENT_B)), *listener = subscribe(CHANNEL);
    foreign_holds();
    enqueue(B, TICKET(B));
    foreign_is_gone();
    const char *answer = acquire(30000, A);
    cr_assert_str_eq(answered(answer), B " -1");
    cr_assert_eq(answered_ttl(answer), 5000);
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(published(listener), "");
    cr_assert_str_eq(answered(acquire(30000, A)), B " -1");
    cr_assert_str_eq(published(b), "", "told once");
    redisFree(b);
    redisFree(listener);
}

Test(queue_free, is_the_first_ones_when_another_joins)
{
    redisContext *b = subscribe(INBOX(CLIENT_B)), *c = subscribe(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, TICKET(B));
    foreign_is_gone();
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), B " 0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(published(c), "");
    redisFree(b);
    redisFree(c);
}

Test(queue_free, is_the_first_ones_when_the_second_asks_again)
{
    redisContext *b = subscribe(INBOX(CLIENT_B)), *c = subscribe(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), B " 0");
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    redisFree(b);
    redisFree(c);
}

Test(queue_free, is_the_first_ones_when_it_asks_itself)
{
    redisContext *b = subscribe(INBOX(CLIENT_B)), *c = subscribe(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert(between(30000 - WAIT_MS, raw_pttl(admin, LOCK), 30000), "the lease that it asks for, no grant's");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(published(b), "");
    cr_assert_str_eq(published(c), "");
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B), "twice");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    redisFree(b);
    redisFree(c);
}

/* Its subscription may just be lost. It sends, so it is alive. */
Test(queue_free, is_the_first_ones_that_asks_without_listening)
{
    redisContext *c = subscribe(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(published(c), "");
    redisFree(c);
}

Test(queue_free, is_the_second_ones_that_asks_if_the_first_is_dead)
{
    foreign_holds();
    enqueue(C, TICKET(C));
    enqueue(B, TICKET(B));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(everything(), HELD_BY_B);
}

Test(queue_free, is_whose_who_tries_when_all_in_queue_are_dead)
{
    foreign_holds();
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(queue_free, is_whose_who_joins_when_all_in_queue_are_dead)
{
    foreign_holds();
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(everything(), HELD_BY_B);
}

Test(queue_free, is_the_first_live_ones)
{
    redisContext *c = subscribe(INBOX(CLIENT_C));
    foreign_holds();
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    foreign_is_gone();
    cr_assert_str_eq(answered(acquire(30000, A)), C " -1");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(published(c), "grant 9 5000 0 t");
    redisFree(c);
}

Test(queue_free, is_the_first_live_ones_behind_any_number_of_dead)
{
    static const int numbers[] = { 999, 1000, 1500, 5000 };
    redisContext *b = subscribe(INBOX(CLIENT_B)), *c = subscribe(INBOX(CLIENT_C));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        foreign_holds();
        enqueue(B, TICKET(B));
        enqueue(C, TICKET(C));
        put_dead_in_front(numbers[i]);
        foreign_is_gone();
        cr_assert_str_eq(answered(enqueue(C, TICKET(C))), B " 0", "%d dead", numbers[i]);
        cr_assert_str_eq(published(b), "grant 7 5000 0 t");
        cr_assert_str_eq(published(c), "");
        raw(admin, "DEL t %s", QUEUE);
    }
    redisFree(b);
    redisFree(c);
}

/* For example on a replica: tickets that cannot be removed must not be examined for ever. */
Test(queue_free, of_dead_it_cannot_drop_is_refused_as_a_whole)
{
    foreign_holds();
    enqueue(B, TICKET(B));
    foreign_is_gone();
    raw(admin, "REPLICAOF 127.0.0.1 1");
    const char *answer = acquire(30000, A);
    cr_assert(strstr(answer, "READONLY"), "%s", answer);
    raw(admin, "REPLICAOF NO ONE");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\"]; ");
}

Test(queue_free, of_ended_holds_only_is_whose_who_tries)
{
    release(B, 600000);
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert_str_eq(raw_holder(admin, LOCK), A);
    cr_assert_str_eq(in_queue(), "[\"" B "\"]");
}

/* The server may have room when the first waiter sends. Nothing is granted that cannot be written. */
Test(queue_free, of_a_full_server_is_nobodys_until_the_first_asks)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    foreign_holds();
    enqueue(B, TICKET(B));
    foreign_is_gone();
    fill_server();
    cr_assert_str_eq(acquire(30000, A), "[:0, \"\", :-1]");
    cr_assert_str_eq(published(b), "open 7 0 0 t");
    cr_assert_not_null(strstr(enqueue(C, TICKET(C)), "OOM"));
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\"]; ");
    redisFree(b);
}

/* To remove a ticket is a write that a full server allows, and after it the server allows the next one too. */
Test(queue_free, of_a_full_server_is_the_first_ones_that_asks)
{
    foreign_holds();
    enqueue(B, TICKET(B));
    foreign_is_gone();
    fill_server();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}
