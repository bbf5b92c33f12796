/* What lock_release does for waiters: the first live one gets the lock and a message. A's hold has the ttl of a grant,
 * so no shorter ttl is published on the lock's channel, except where that is tested. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(lock_pass);

/* --- the first waiter gets it */

/* Shows: S19 */
Test(lock_pass, gives_it_to_the_first_in_queue)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(in_queue(), "[\"" TICKET(C) "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, run_twice_is_run_once)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    release(A, 0);
    const char *before = everything();
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, run_late_leaves_all_alone)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    release(A, 0);
    release(B, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t|grant 9 5000 0 t|");
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(release(B, 0), ":0");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

/* Shows: S20 */
Test(lock_pass, sets_the_ttl_that_the_ticket_names)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, B " 90000 0 0 1700000000000");
    release(A, 0);
    cr_assert(between(90000 - WAIT_MS, raw_pttl(admin, LOCK), 90000));
    cr_assert_str_eq(said(), "|grant 7 90000 0 t||");
    nobody_listens();
}

Test(lock_pass, remembers_an_end_in_doubt_beside)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(release(A, 600000), ":1");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert_str_eq(in_queue(), "[\"" A "\"]");
    cr_assert(between(600000 - WAIT_MS, raw_pttl(admin, QUEUE), 600000));
    cr_assert_str_eq(enqueue(A, TICKET(A)), ":-1");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* A late attempt of its acquire took a ticket again after its grant. */
Test(lock_pass, passes_over_the_tickets_of_the_hold_that_ends)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    raw(admin, "ZADD %s 1 %s 2 %s", QUEUE, TICKET(A), TICKET(B));
    cr_assert_str_eq(leave(A, 0, TICKET(A)), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* Shows: S20 */
Test(lock_pass, passes_over_the_dead_and_forgets_them)
{
    inbox_c = subscribe(INBOX(CLIENT_C));
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(CLIENT_B ":8", TICKET(CLIENT_B ":8"));
    enqueue(C, TICKET(C));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(published(inbox_c), "grant 9 5000 0 t");
    redisFree(inbox_c);
}

Test(lock_pass, speaks_on_the_channel_when_all_in_queue_are_dead)
{
    lock_channel = subscribe(CHANNEL);
    acquire(5000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(published(lock_channel), "0");
    redisFree(lock_channel);
}

Test(lock_pass, tells_nothing_to_a_dead_queue_without_listeners)
{
    acquire(5000, A);
    enqueue(B, TICKET(B));
    release(A, 0);
    cr_assert_not(was_published());
}

Test(lock_pass, finds_the_first_live_one_behind_any_number_of_dead)
{
    static const int numbers[] = { 1, 2, 99, 100, 101, 1000, 1500, 5000 };
    all_listen();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        acquire(5000, A);
        enqueue(B, TICKET(B));
        put_dead_in_front(numbers[i]);
        int64_t began = test_now_ms();
        cr_assert_str_eq(release(A, 0), ":1");
        cr_log_info("%d dead: %d ms", numbers[i], (int)(test_now_ms() - began));
        cr_assert_str_eq(everything(), HELD_BY_B);
        cr_assert_str_eq(said(), "|grant 7 5000 0 t||", "%d dead", numbers[i]);
        release(B, 0);
        said();
    }
    nobody_listens();
}

Test(lock_pass, passes_over_any_number_of_dead_to_the_channel)
{
    all_listen();
    acquire(5000, A);
    put_dead_in_front(1500);
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(said(), "|||0");
    nobody_listens();
}

/* Dead waiters behind the first live one are removed when its hold ends. */
Test(lock_pass, looks_no_further_than_the_first_live_one)
{
    all_listen();
    acquire(5000, A);
    put_dead_in_front(1);
    enqueue(B, TICKET(B));
    enqueue("hlk-dead-1-x:9", TICKET("hlk-dead-1-x:9"));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(in_queue(), "[\"" TICKET("hlk-dead-1-x:9") "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, works_on_a_full_server)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    fill_server();
    cr_assert_str_eq(release(A, 600000), ":1");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(in_queue(), "[\"" A "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

static const char *end_as(const char *rights, const char *hold)
{
    raw(admin, "ACL SETUSER weak on >pw ~* &* +@all %s", rights);
    redisContext *weak = raw_open_as(server, "weak", "pw"), *mine = user;
    user = weak;
    const char *answer = release(hold, 0);
    user = mine;
    redisFree(weak);
    return answer;
}

Test(lock_pass, tells_the_first_to_ask_when_the_grant_is_refused)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(end_as("-hset", A), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\"]; ");
    cr_assert_str_eq(said(), "|open 7 0 0 t||0", "and it is free to whoever listens");
    cr_assert_str_eq(enqueue(B, TICKET(B)), NAMES(B));
    nobody_listens();
}

Test(lock_pass, takes_the_first_for_alive_without_right_to_ask)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(end_as("-pubsub", A), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* Such an entry is no waiter; if it stayed, it would block all others. */
Test(lock_pass, drops_from_the_queue_what_is_no_ticket)
{
    all_listen();
    static const char *const texts[] = { "no place", "noplace", "" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        acquire(5000, A);
        raw(admin, "ZADD %s 1 %s", QUEUE, texts[i]);
        raw(admin, "ZADD %s 2 %s", QUEUE, TICKET(B));
        cr_assert_str_eq(release(A, 0), ":1");
        cr_assert_str_eq(everything(), HELD_BY_B, "%s", texts[i]);
        cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
        release(B, 0);
        said();
    }
    nobody_listens();
}

/* --- the time in the queue, by the server's clock */

static int64_t ms_in_queue(redisContext *inbox)
{
    const char *text = published_whole(inbox), *plus = strchr(text, '+');
    cr_assert_not_null(strstr(text, "grant 7 5000"), "%s", text);
    return plus ? strtoll(plus + 1, NULL, 10) : 0;
}

static void by_end(void)
{
    release(A, 0);
}

static void by_end_in_doubt(void)
{
    release(A, 600000);
}

static void by_break(void)
{
    lock_break();
}

static void by_a_try(void)
{
    raw(admin, "DEL t");
    acquire(30000, C);
}

Test(lock_pass, says_how_long_it_was_in_queue)
{
    static void (*const frees[])(void) = { by_end, by_end_in_doubt, by_break, by_a_try };
    all_listen();
    for (size_t i = 0; i < sizeof frees / sizeof *frees; i++) {
        acquire(5000, A);
        int64_t before = server_now_ms();
        enqueue(B, TICKET(B));
        int64_t joined = server_now_ms();
        test_sleep_ms(30);
        int64_t asked = server_now_ms();
        frees[i]();
        int64_t in_queue = ms_in_queue(inbox_b);
        cr_assert(between(asked - joined - 1, in_queue, server_now_ms() - before), "%zu: %d ms", i, (int)in_queue);
        raw(admin, "DEL t %s", QUEUE);
    }
    nobody_listens();
}

Test(lock_pass, says_how_long_its_last_ticket_was_in_queue)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    test_sleep_ms(30);
    release(A, 0);
    cr_assert_geq(ms_in_queue(inbox_b), 29);
    raw(admin, "DEL t");
    acquire(5000, A);
    int64_t before = server_now_ms();
    enqueue(B, TICKET(B));
    release(A, 0);
    cr_assert_leq(ms_in_queue(inbox_b), server_now_ms() - before, "it took a new one");
    nobody_listens();
}

/* A hold that was over within 20 ms does not need it, so the script does not read the time. */
Test(lock_pass, of_a_brief_hold_does_not_say_how_long)
{
    all_listen();
    for (int dead = 0; dead < 2; dead++) {
        acquire(5000, A);
        enqueue(B, TICKET(B));
        put_dead_in_front(dead);
        test_sleep_ms(30);
        release_brief(A, 5000);
        cr_assert_str_eq(published_whole(inbox_b), "grant 7 5000 0 t");
        release(B, 0);
    }
    nobody_listens();
}

/* --- subscribers of the lock's channel have read the ttl of the old hold, and sleep for so long */

Test(lock_pass, tells_the_channel_of_a_shorter_ttl)
{
    all_listen();
    acquire(600000, A);
    enqueue(B, TICKET(B));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||0");
    nobody_listens();
}

Test(lock_pass, tells_the_channel_of_no_longer_ttl)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, C " 90000 0 0 1700000000000");
    release(A, 0);
    release(B, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t|grant 9 90000 0 t|");
    nobody_listens();
}

/* What is left of the ttl counts, not its original length. */
Test(lock_pass, tells_the_channel_of_no_longer_ttl_than_is_left)
{
    all_listen();
    acquire(600000, A);
    raw(admin, "PEXPIRE t 4000");
    enqueue(B, TICKET(B));
    release(A, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, tells_the_channel_when_the_ttl_had_no_end)
{
    all_listen();
    acquire(30000, A);
    raw(admin, "PERSIST t");
    enqueue(B, TICKET(B));
    release(A, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||0");
    nobody_listens();
}

Test(lock_pass, in_doubt_tells_the_channel_of_a_shorter_ttl_too)
{
    all_listen();
    acquire(600000, A);
    enqueue(B, TICKET(B));
    release(A, 600000);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||0");
    nobody_listens();
}

Test(lock_pass, past_the_dead_tells_the_channel_of_a_shorter_ttl)
{
    all_listen();
    acquire(600000, A);
    enqueue(B, TICKET(B));
    put_dead_in_front(1);
    release(A, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||0");
    nobody_listens();
}

Test(lock_pass, of_a_short_ttl_tells_no_channel_without_listeners)
{
    inbox_b = subscribe(INBOX(CLIENT_B));
    acquire(600000, A);
    enqueue(B, TICKET(B));
    raw(admin, "CONFIG RESETSTAT");
    release(A, 0);
    cr_assert_str_eq(published(inbox_b), "grant 7 5000 0 t");
    cr_assert_eq(calls("publish"), 1);
    redisFree(inbox_b);
}

/* --- the fast hand-over: from grant to grant */

Test(lock_pass, of_a_brief_hold_asks_who_lives_and_no_more)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    raw(admin, "CONFIG RESETSTAT");
    cr_assert_str_eq(release_brief(A, 5000), ":1");
    cr_assert_eq(calls("zpopmin"), 1);
    cr_assert_eq(calls("pubsub") + calls("pubsub|numsub"), 1);
    cr_assert_eq(calls("hdel"), 1);
    cr_assert_eq(calls("hset"), 1);
    cr_assert_eq(calls("pexpire"), 1);
    cr_assert_eq(calls("publish"), 1);
    cr_assert_eq(calls(""), 7, "with eval itself");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, of_a_brief_hold_tells_the_channel_of_a_shorter_ttl)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, B " 1000 0 0 1700000000000");
    cr_assert_str_eq(release_brief(A, 5000), ":1");
    cr_assert_str_eq(said(), "|grant 7 1000 0 t||0");
    nobody_listens();
}

Test(lock_pass, of_a_brief_hold_passes_over_the_dead)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    put_dead_in_front(3);
    cr_assert_str_eq(release_brief(A, 5000), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* What was taken out of the queue first is put back. */
Test(lock_pass, of_a_hold_that_is_gone_changes_nothing)
{
    static const char *const holders[] = { C, NULL };
    all_listen();
    for (size_t i = 0; i < 2; i++) {
        raw(admin, "DEL t %s", QUEUE);
        raw(admin, "HSET t %s 1", FOREIGN);
        enqueue(B, TICKET(B));
        raw(admin, "DEL t");
        if (holders[i])
            raw(admin, "HSET t %s 1", holders[i]);
        const char *before = everything();
        int64_t place = score(TICKET(B));
        cr_assert_str_eq(release(A, 0), ":0");
        cr_assert_str_eq(release_brief(A, 5000), ":0");
        cr_assert_str_eq(release_with_window(A, 3), ":0");
        cr_assert_str_eq(everything(), before);
        cr_assert_eq(score(TICKET(B)), place);
        cr_assert_gt(raw_pttl(admin, QUEUE), 0);
    }
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(lock_pass, of_a_key_of_another_type_is_refused_with_no_change)
{
    all_listen();
    raw(admin, "HSET t %s 1", FOREIGN);
    enqueue(B, TICKET(B));
    raw(admin, "SET t text");
    const char *before = everything();
    cr_assert_not_null(strstr(release(A, 0), "WRONGTYPE"));
    cr_assert_not_null(strstr(release_brief(A, 5000), "WRONGTYPE"));
    cr_assert_not_null(strstr(leave(A, 600000, TICKET(A)), "WRONGTYPE"));
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

/* --- names */

/* acquire, a second waiter, release: with this name in all keys. The message's last word is the name. */
static void pass_under(const char *name, size_t len, const char *queue, size_t queue_len)
{
    static const char eval[] = "EVAL";
    const struct hlk_script_text *take = &hlk_script_table[HLK_SCRIPT_LOCK_ACQUIRE];
    const struct hlk_script_text *give = &hlk_script_table[HLK_SCRIPT_LOCK_RELEASE];
    redisContext *inbox = subscribe(INBOX(CLIENT_B));
    const char *argv[] = { eval, take->text, "2", name, queue, "30000", A, "" };
    size_t lens[] = { 4, take->len, 1, len, queue_len, 5, strlen(A), 0 };
    cr_assert_str_eq(raw_argv(admin, 8, argv, lens), NAMES(A));
    argv[6] = B;
    lens[6] = strlen(B);
    argv[7] = TICKET(B);
    lens[7] = strlen(TICKET(B));
    cr_assert_str_eq(answered(raw_argv(admin, 8, argv, lens)), A " 0");
    const char *end_argv[] = { eval, give->text, "2", name, queue, A, CHANNEL, "0" };
    size_t end_lens[] = { 4, give->len, 1, len, queue_len, strlen(A), strlen(CHANNEL), 1 };
    cr_assert_str_eq(raw_argv(admin, 8, end_argv, end_lens), ":1");

    static const char head[] = "grant 7 5000", token[] = " 0 ";
    redisReply *message = NULL;
    cr_assert_eq(redisGetReply(inbox, (void **)&message), REDIS_OK);
    cr_assert_eq(message->elements, 3);
    const char *text = message->element[2]->str, *at = text + sizeof head - 1;
    cr_assert_eq(memcmp(text, head, sizeof head - 1), 0);
    at += *at == '+' ? 1 + strspn(at + 1, "0123456789") : 0; /* it was queued for 1 ms or more */
    cr_assert_eq(message->element[2]->len, (size_t)(at - text) + sizeof token - 1 + len);
    cr_assert_eq(memcmp(at, token, sizeof token - 1), 0);
    cr_assert_eq(memcmp(at + sizeof token - 1, name, len), 0);
    freeReplyObject(message);
    redisFree(inbox);
}

#define TEXT(literal) literal, sizeof(literal) - 1

Test(lock_pass, names_the_lock_as_it_is)
{
    pass_under(TEXT("t{user:1}:cart"), TEXT("hasplock_queue::t{user:1}:cart"));
    pass_under(TEXT("t two words, %d %s 7 "), TEXT("hasplock_queue:{t two words, %d %s 7 }"));
    pass_under(TEXT("t\0\xff\r\n\x80 }"), TEXT("hasplock_queue:{t\0\xff\r\n\x80 }}"));
}
