/* What lock_end does for those in line: the lock is the first live one's, and it is told so. */
#include "integration/scripts.h"

SCRIPTS_SUITE(lock_pass);

/* --- the first in line has it */

Test(lock_pass, gives_it_to_the_first_in_line)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(in_line(), "[\"" PLACE(C) "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, run_twice_is_run_once)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    end(A, 0);
    const char *before = everything();
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(everything(), before);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, run_late_leaves_all_alone)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(C, PLACE(C));
    end(A, 0);
    end(B, 0);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t|grant 9 5000 0 t|");
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(end(B, 0), ":0");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(lock_pass, sets_the_ttl_that_the_place_names)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, B " 90000 0 0 1700000000000");
    end(A, 0);
    cr_assert(between(90000 - WAIT_MS, raw_pttl(admin, LOCK), 90000));
    cr_assert_str_eq(said(), "|grant 7 90000 0 t||");
    nobody_listens();
}

Test(lock_pass, remembers_an_end_in_doubt_beside)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    cr_assert_str_eq(end(A, 600000), ":1");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert_str_eq(in_line(), "[\"" A "\"]");
    cr_assert(between(600000 - WAIT_MS, raw_pttl(admin, QUEUE), 600000));
    cr_assert_str_eq(enqueue(A, PLACE(A)), ":-1");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* A late copy of its acquire put it in line again after it was granted. */
Test(lock_pass, passes_over_the_places_of_the_hold_that_ends)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    raw(admin, "ZADD %s 1 %s 2 %s", QUEUE, PLACE(A), PLACE(B));
    cr_assert_str_eq(leave(A, 0, PLACE(A)), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_pass, passes_over_the_dead_and_forgets_them)
{
    inbox_c = listen(INBOX(CLIENT_C));
    acquire(30000, A);
    enqueue(B, PLACE(B));
    enqueue(CLIENT_B ":8", PLACE(CLIENT_B ":8"));
    enqueue(C, PLACE(C));
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_str_eq(everything(), "t hash [\"" C "\", \"1\"]; ");
    cr_assert_str_eq(told(inbox_c), "grant 9 5000 0 t");
    redisFree(inbox_c);
}

Test(lock_pass, speaks_on_the_channel_when_all_in_line_are_dead)
{
    lock_channel = listen(CHANNEL);
    acquire(30000, A);
    enqueue(B, PLACE(B));
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(told(lock_channel), "0");
    redisFree(lock_channel);
}

Test(lock_pass, publishes_nothing_when_all_in_line_are_dead_and_nobody_is_subscribed)
{
    acquire(30000, A);
    enqueue(B, PLACE(B));
    end(A, 0);
    cr_assert_not(was_published());
}

static void put_dead_in_line(int n)
{
    char member[64];
    for (int i = 1; i <= n; i++) {
        snprintf(member, sizeof member, "hlk-dead-1-x:%d 5000 0 0 1", i);
        raw(admin, "ZADD %s %d %s", QUEUE, i, member);
    }
}

Test(lock_pass, finds_the_first_live_one_behind_999_dead)
{
    all_listen();
    acquire(30000, A);
    put_dead_in_line(999);
    enqueue(B, PLACE(B));
    end(A, 0);
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* One run of a script must not be long: the rest is for who asks next. */
Test(lock_pass, drops_1000_dead_at_most)
{
    all_listen();
    acquire(30000, A);
    put_dead_in_line(1002);
    enqueue(B, PLACE(B));
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_eq(raw_int(admin, "ZCARD %s", QUEUE), 3);
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
    cr_assert_str_eq(said(), "|||0");
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_B);
    nobody_listens();
}

Test(lock_pass, works_on_a_full_server)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    fill_server();
    cr_assert_str_eq(end(A, 600000), ":1");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(in_line(), "[\"" A "\"]");
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

static const char *end_as(const char *rights, const char *hold)
{
    raw(admin, "ACL SETUSER weak on >pw ~* &* +@all %s", rights);
    redisContext *weak = raw_open_as(server, "weak", "pw"), *mine = user;
    user = weak;
    const char *answer = end(hold, 0);
    user = mine;
    redisFree(weak);
    return answer;
}

Test(lock_pass, tells_the_first_to_ask_for_itself_when_the_grant_is_refused)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    cr_assert_str_eq(end_as("-hset", A), ":1");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" PLACE(B) "\"]; ");
    cr_assert_str_eq(said(), "|open 7 0 0 t||");
    cr_assert_str_eq(enqueue(B, PLACE(B)), "(nil)");
    nobody_listens();
}

Test(lock_pass, takes_the_first_for_alive_when_it_may_not_ask_who_listens)
{
    all_listen();
    acquire(30000, A);
    enqueue(B, PLACE(B));
    cr_assert_str_eq(end_as("-pubsub", A), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* Nobody of ours can be told by it; left where it is it would stop everybody. */
Test(lock_pass, drops_from_the_queue_what_is_no_place)
{
    all_listen();
    acquire(30000, A);
    raw(admin, "ZADD %s 1 %s", QUEUE, "no place");
    raw(admin, "ZADD %s 2 %s", QUEUE, PLACE(B));
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(said(), "|grant 7 5000 0 t||");
    nobody_listens();
}

/* --- names */

/* acquire, a second in line, end: with this name, in all the keys; the message's last word is the name. */
static void pass_under(const char *name, size_t len, const char *queue, size_t queue_len)
{
    static const char eval[] = "EVAL";
    const struct hlk_script_text *take = &hlk_script_table[HLK_SCRIPT_LOCK_ACQUIRE];
    const struct hlk_script_text *give = &hlk_script_table[HLK_SCRIPT_LOCK_END];
    redisContext *inbox = listen(INBOX(CLIENT_B));
    const char *argv[] = { eval, take->text, "2", name, queue, "30000", A, "" };
    size_t lens[] = { 4, take->len, 1, len, queue_len, 5, strlen(A), 0 };
    cr_assert_str_eq(raw_argv(admin, 8, argv, lens), "(nil)");
    argv[6] = B;
    lens[6] = strlen(B);
    argv[7] = PLACE(B);
    lens[7] = strlen(PLACE(B));
    cr_assert_str_eq(answered(raw_argv(admin, 8, argv, lens)), A " 0");
    const char *end_argv[] = { eval, give->text, "2", name, queue, A, CHANNEL, "0" };
    size_t end_lens[] = { 4, give->len, 1, len, queue_len, strlen(A), strlen(CHANNEL), 1 };
    cr_assert_str_eq(raw_argv(admin, 8, end_argv, end_lens), ":1");

    static const char head[] = "grant 7 5000 0 ";
    redisReply *message = NULL;
    cr_assert_eq(redisGetReply(inbox, (void **)&message), REDIS_OK);
    cr_assert_eq(message->elements, 3);
    cr_assert_eq(message->element[2]->len, sizeof head - 1 + len);
    cr_assert_eq(memcmp(message->element[2]->str, head, sizeof head - 1), 0);
    cr_assert_eq(memcmp(message->element[2]->str + sizeof head - 1, name, len), 0);
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
