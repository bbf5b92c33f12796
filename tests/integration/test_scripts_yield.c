/* lock_release: a yield window for the subscribers of the lock's channel; and waiters that leave. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(yield_window);
SCRIPTS_SUITE(lock_leave);

/* --- the yield window */

#define OPEN_ZERO 1000000000000000

/* Shows: S19 */
Test(yield_window, leaves_it_to_the_channel_first)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    int64_t now = server_now_ms();
    cr_assert_str_eq(release_with_window(A, 700), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\", \"" TICKET(C) "\", \"open\"]; ");
    cr_assert(between(now + 700, score("open") - OPEN_ZERO, now + 700 + WAIT_MS), "server's ms until it lasts");
    cr_assert_str_eq(said(), "|open 7 700 0 t||0");
    nobody_listens();
}

Test(yield_window, run_twice_is_run_once)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, TICKET(B));
    release_with_window(A, 5000);
    int64_t until = score("open");
    cr_assert_str_eq(release_with_window(A, 5000), ":0");
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(leave(A, 0, TICKET(A)), ":0");
    cr_assert_eq(score("open"), until);
    cr_assert_eq(raw_pttl(admin, LOCK), -2, "nor is it given to the first in the queue");
    cr_assert_str_eq(said(), "|open 7 5000 0 t||0");
    nobody_listens();
}

Test(yield_window, gives_it_to_the_first_when_nobody_is_subscribed)
{
    inbox_b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(published(inbox_b), "grant 7 5000 0 t");
    redisFree(inbox_b);
}

/* The next waiter of this library is as quick as the release. Without a window Redisson's clients would never
 * acquire. */
Test(yield_window, is_also_for_a_line_that_is_empty)
{
    all_listen();
    acquire(30000, A);
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"open\"]; ");
    cr_assert(between(1, raw_int(admin, "PTTL " QUEUE), 5000), "gone with the window");
    cr_assert_str_eq(said(), "|||0");
    cr_assert_str_eq(release(B, 5000), ":0");
    raw(admin, "ZREM " QUEUE " open");
    raw(admin, "PEXPIRE " QUEUE " 500000");
    acquire(30000, A);
    cr_assert_str_eq(release_with_window(A, 600), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"open\", \"" B "\"]; ", "beside a hold that ended");
    cr_assert(between(500000 - WAIT_MS, raw_int(admin, "PTTL " QUEUE), 500000), "never shortened");
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

Test(yield_window, is_set_when_all_in_queue_are_dead)
{
    lock_channel = subscribe(CHANNEL);
    acquire(30000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"open\"]; ");
    cr_assert_str_eq(published(lock_channel), "0");
    redisFree(lock_channel);
}

Test(yield_window, tells_the_first_live_one)
{
    inbox_c = subscribe(INBOX(CLIENT_C));
    lock_channel = subscribe(CHANNEL);
    acquire(30000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    release_with_window(A, 5000);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\", \"open\"]");
    cr_assert_str_eq(published(inbox_c), "open 9 5000 0 t");
    redisFree(inbox_c);
    redisFree(lock_channel);
}

Test(yield_window, tells_the_first_live_one_behind_any_number_of_dead)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, TICKET(B));
    put_dead_in_front(1500);
    release_with_window(A, 5000);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\", \"open\"]");
    cr_assert_str_eq(said(), "|open 7 5000 0 t||0");
    nobody_listens();
}

Test(yield_window, works_on_a_full_server)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, TICKET(B));
    fill_server();
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\", \"open\"]; ");
    cr_assert_str_eq(said(), "|open 7 5000 0 t||0");
    nobody_listens();
}

/* A releases it while B and C are queued, with a window that does not run out in a test. */
static void window_opens(void)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    release_with_window(A, 5000);
    said();
}

static void window_is_over(void)
{
    raw(admin, "ZADD %s XX %s open", QUEUE, script_number(OPEN_ZERO + server_now_ms() - 1));
}

Test(yield_window, while_it_lasts_nobody_of_ours_has_it)
{
    static const char *const holds[] = { A, B, C }, *const places[] = { "", TICKET(B), TICKET(C) };
    static const char *const expected[] = { " -1", " 0", " 1" };
    window_opens();
    const char *before = everything();
    for (int i = 0; i < 3; i++) {
        const char *answer = enqueue(holds[i], places[i]);
        cr_assert_str_eq(answered(answer), expected[i], "%s", answer);
        cr_assert(between(1, answered_ttl(answer), 5000), "as long as it lasts: %s", answer);
    }
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(answered(enqueue(A, TICKET(A))), " 2", "who comes now is the last in the queue");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(yield_window, after_it_the_first_in_queue_takes_it)
{
    window_opens();
    window_is_over();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(yield_window, after_it_a_newcomer_gives_it_to_the_first_in_queue)
{
    window_opens();
    window_is_over();
    cr_assert_str_eq(answered(acquire(30000, A)), B " -1");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(yield_window, that_a_foreign_client_used_is_over_all_the_same)
{
    window_opens();
    raw(admin, "HSET t %s 1", FOREIGN);
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), FOREIGN " 0");
    window_is_over();
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), FOREIGN " 0");
    raw(admin, "DEL t");
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    nobody_listens();
}

/* --- a window without waiters */

Test(yield_window, of_an_empty_queue_run_twice_is_run_once)
{
    all_listen();
    acquire(30000, A);
    release_with_window(A, 5000);
    int64_t until = score("open");
    cr_assert_str_eq(release_with_window(A, 5000), ":0");
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_eq(score("open"), until);
    cr_assert_str_eq(everything(), QUEUE " zset [\"open\"]; ");
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

Test(yield_window, of_an_empty_queue_is_opened_by_its_holder_only)
{
    all_listen();
    cr_assert_str_eq(release_with_window(A, 5000), ":0");
    cr_assert_str_eq(everything(), "");
    acquire(30000, B);
    cr_assert_str_eq(release_with_window(A, 5000), ":0");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(yield_window, of_an_empty_queue_is_not_set_without_subscribers)
{
    acquire(30000, A);
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), "");
    cr_assert_not(was_published());
}

Test(yield_window, of_an_empty_queue_makes_a_newcomer_queue)
{
    all_listen();
    acquire(30000, A);
    release_with_window(A, 5000);
    const char *answer = acquire(30000, B);
    cr_assert_str_eq(answered(answer), " -1");
    cr_assert(between(1, answered_ttl(answer), 5000));
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), " 0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\", \"open\"]");
    window_is_over();
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

/* The window ends before the waiter's ticket does. */
Test(yield_window, of_an_empty_queue_leaves_who_joins_its_300_s)
{
    all_listen();
    acquire(30000, A);
    release_with_window(A, 5000);
    enqueue(B, TICKET(B));
    cr_assert(about(raw_pttl(admin, QUEUE), 300000));
    nobody_listens();
}

Test(yield_window, of_an_empty_queue_works_on_a_full_server)
{
    all_listen();
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(release_with_window(A, 5000), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"open\"]; ");
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

/* --- waiters that leave */

static void three(const char *holder)
{
    all_listen();
    raw(admin, "HSET t %s 1", holder);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
}

Test(lock_leave, as_the_first_behind_a_hold_of_ours_tells_nobody)
{
    three(A);
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(C) "\"]; " HELD_BY_A);
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(lock_leave, as_the_second_tells_nobody_whoever_holds_it)
{
    static const char *const holders[] = { A, FOREIGN, NULL };
    three(A);
    for (int i = 0; i < 3; i++) {
        raw(admin, "DEL t");
        if (holders[i])
            raw(admin, "HSET t %s 1", holders[i]);
        raw(admin, "ZADD %s %s %s", QUEUE, script_number(score(TICKET(B)) + 1), TICKET(C));
        cr_assert_str_eq(leave(C, 0, TICKET(C)), ":2");
        cr_assert_str_eq(raw_holder(admin, LOCK), holders[i] ? holders[i] : "");
        cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\"]");
        cr_assert_str_eq(said(), "|||", "%d", i);
    }
    nobody_listens();
}

Test(lock_leave, twice_is_once)
{
    three(FOREIGN);
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

Test(lock_leave, by_the_last_leaves_no_queue)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

/* It had the message to send, or would have sent first: now the next waiter must send. */
Test(lock_leave, as_the_first_of_a_free_lock_gives_it_to_the_next)
{
    three(FOREIGN);
    raw(admin, "DEL t");
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(said(), "||grant 9 5000 0 t|");
    nobody_listens();
}

Test(lock_leave, as_the_last_of_a_free_lock_speaks_on_the_channel)
{
    three(FOREIGN);
    raw(admin, "DEL t");
    raw(admin, "ZREM %s %s", QUEUE, TICKET(C));
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

Test(lock_leave, as_the_first_behind_a_foreign_hold_wakes_the_next)
{
    three(FOREIGN);
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(raw_holder(admin, LOCK), FOREIGN);
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

Test(lock_leave, as_the_first_during_a_window_wakes_the_next)
{
    window_opens();
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(C) "\", \"open\"]; ");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

Test(lock_leave, as_the_first_after_a_window_gives_it_to_the_next)
{
    window_opens();
    window_is_over();
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(raw_holder(admin, LOCK), C);
    cr_assert_str_eq(said(), "||grant 9 5000 0 t|");
    nobody_listens();
}

Test(lock_leave, as_the_first_passes_over_the_dead)
{
    three(FOREIGN);
    raw(admin, "ZADD %s %s %s", QUEUE, script_number(score(TICKET(B))), TICKET("hlk-dead-1-x:1")); /* b is before d */
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

/* B is the first one that lives. */
Test(lock_leave, behind_the_dead_tells_the_next_to_ask)
{
    three(FOREIGN);
    put_dead_in_front(150);
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

Test(lock_leave, as_the_first_passes_over_any_number_of_dead)
{
    all_listen();
    raw(admin, "HSET t %s 1", FOREIGN);
    enqueue(C, TICKET(C));
    put_dead_in_front(1500);
    raw(admin, "ZADD %s -9999 %s", QUEUE, TICKET(B));
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "||open 9 0 0 t|");
    nobody_listens();
}

Test(lock_leave, in_doubt_remembers_and_wakes)
{
    three(FOREIGN);
    raw(admin, "DEL t");
    cr_assert_str_eq(leave(B, 5000, TICKET(B)), ":2");
    cr_assert_str_eq(raw_holder(admin, LOCK), C);
    cr_assert_str_eq(in_queue(), "[\"" B "\"]");
    cr_assert_str_eq(said(), "||grant 9 5000 0 t|");
    nobody_listens();
}

Test(lock_leave, works_on_a_full_server)
{
    three(FOREIGN);
    raw(admin, "DEL t");
    fill_server();
    cr_assert_str_eq(leave(B, 5000, TICKET(B)), ":2");
    cr_assert_str_eq(raw_holder(admin, LOCK), C);
    cr_assert_str_eq(in_queue(), "[\"" B "\"]");
    nobody_listens();
}
