/* Every line of the heads of lua/string_*.lua: each reply, what it changes, run twice, run late. */
/* Shows: P39 */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(string_acquire);
SCRIPTS_SUITE(string_release);
SCRIPTS_SUITE(string_leave);
SCRIPTS_SUITE(string_extend);
SCRIPTS_SUITE(string_renew);
SCRIPTS_SUITE(string_break);
SCRIPTS_SUITE(string_query);

#define TOKEN_OF_OTHERS "1f0b6c7e"
#define STRING_OF_A "t string \"" A "\"; "
#define STRING_OF_B "t string \"" B "\"; "
#define STRING_OF_OTHERS "t string \"" TOKEN_OF_OTHERS "\"; "
#define IN_QUEUE(members) QUEUE " zset [" members "]; "

static const char *take(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_STRING_ACQUIRE, 2, LOCK, QUEUE, script_number(lease_ms), hold, NULL);
}

static const char *stand(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_STRING_ACQUIRE, 2, LOCK, QUEUE, "30000", hold, member, NULL);
}

static const char *give(const char *hold)
{
    return script_run(user, HLK_SCRIPT_STRING_RELEASE, 2, LOCK, QUEUE, hold, NULL);
}

static const char *give_in_doubt(const char *hold, int64_t tombstone_ms)
{
    return script_run(user, HLK_SCRIPT_STRING_RELEASE, 2, LOCK, QUEUE, hold, script_number(tombstone_ms), NULL);
}

static const char *go(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_STRING_RELEASE, 2, LOCK, QUEUE, hold, "0", member, NULL);
}

static const char *extend(const char *hold, int64_t lease_ms)
{
    return script_run(user, HLK_SCRIPT_STRING_EXTEND, 1, LOCK, hold, "1", script_number(lease_ms), NULL);
}

static const char *break_it(void)
{
    return script_run(user, HLK_SCRIPT_STRING_BREAK, 2, LOCK, QUEUE, NULL);
}

static void others_hold(int64_t ttl_ms)
{
    raw(admin, "SET t " TOKEN_OF_OTHERS " PX %lld", (long long)ttl_ms);
}

/* --- string_acquire */

/* Redis 6.2 puts "-ERR Error running script (...): " before it. */
static bool is_wrong_type(const char *reply)
{
    return *reply == '-' && strstr(reply, "WRONGTYPE");
}

Test(string_acquire, takes_a_free_lock_and_run_twice_raises_its_ttl)
{
    cr_assert_str_eq(take(30000, A), NAMES(A));
    cr_assert_str_eq(everything(), STRING_OF_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(take(90000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
    cr_assert_str_eq(take(5000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000), "never shortened");
    cr_assert_str_eq(everything(), STRING_OF_A);
}

Test(string_acquire, of_a_held_lock_is_busy_and_changes_nothing)
{
    take(30000, A);
    cr_assert_str_eq(answered(take(90000, B)), A " -1");
    cr_assert(about(answered_ttl(take(90000, B)), 30000));
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(everything(), STRING_OF_A);
}

Test(string_acquire, takes_a_ticket_once)
{
    take(30000, A);
    cr_assert_str_eq(answered(stand(B, TICKET(B))), A " 0");
    cr_assert_str_eq(answered(stand(C, TICKET(C))), A " 1");
    cr_assert_str_eq(answered(stand(B, TICKET(B))), A " 0");
    cr_assert_str_eq(in_queue(), "[\"" TICKET(B) "\", \"" TICKET(C) "\"]");
    cr_assert(raw_pttl(admin, QUEUE) > 100000);
}

Test(string_acquire, names_a_holder_of_others_by_its_token)
{
    others_hold(60000);
    cr_assert_str_eq(answered(take(30000, A)), TOKEN_OF_OTHERS " -1");
    raw(admin, "PERSIST t");
    cr_assert_eq(answered_ttl(take(30000, A)), -1);
    raw(admin, "SET t %b", "", (size_t)0);
    cr_assert_str_eq(answered(take(30000, A)), "(empty) -1");
    raw(admin, "EVAL %s 1 t", "redis.call('set', KEYS[1], string.rep('x', 1000000))");
    cr_assert_lt(strlen(take(30000, A)), 250, "of a long one only the beginning");
}

Test(string_acquire, gives_a_free_lock_to_the_first_in_queue)
{
    all_listen();
    others_hold(60000);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    raw(admin, "DEL t");
    cr_assert_str_eq(answered(take(30000, A)), B " -1");
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(C) "\"") STRING_OF_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(said(), "|sgrant 7 5000 0 t||");
    nobody_listens();
}

Test(string_acquire, of_the_first_in_queue_takes_lock_and_ticket)
{
    all_listen();
    others_hold(60000);
    stand(B, TICKET(B));
    raw(admin, "DEL t");
    cr_assert_str_eq(stand(B, TICKET(B)), NAMES(B));
    cr_assert_str_eq(everything(), STRING_OF_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(string_acquire, passes_over_the_dead)
{
    put_dead_in_front(3);
    cr_assert_str_eq(take(30000, A), NAMES(A));
    cr_assert_str_eq(everything(), STRING_OF_A);
}

Test(string_acquire, far_behind_removes_the_dead)
{
    take(30000, A);
    put_dead_in_front(60);
    cr_assert_str_eq(answered(stand(B, TICKET(B))), A " 10");
    cr_assert_eq(raw_int(admin, "ZCARD %s", QUEUE), 11);
}

Test(string_acquire, of_a_key_of_another_type_is_refused)
{
    raw(admin, "HSET t %s 1", A);
    cr_assert(is_wrong_type(take(30000, A)));
    cr_assert(is_wrong_type(stand(B, TICKET(B))));
    cr_assert_str_eq(everything(), HELD_BY_A);
    raw(admin, "DEL t");
    raw(admin, "SET " QUEUE " x");
    cr_assert_not_null(strstr(take(30000, A), QUEUE));
    cr_assert_str_eq(everything(), QUEUE " string \"x\"; ");
}

/* --- string_release of a hold */

Test(string_release, frees_only_what_its_hold_held_and_only_once)
{
    take(30000, A);
    cr_assert_str_eq(give(B), ":0");
    cr_assert_str_eq(everything(), STRING_OF_A);
    cr_assert_str_eq(give(A), ":1");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(give(A), ":0");
    cr_assert_str_eq(everything(), "");
    cr_assert_not(was_published());
}

Test(string_release, leaves_what_others_hold)
{
    others_hold(60000);
    cr_assert_str_eq(give(A), ":0");
    cr_assert_str_eq(give_in_doubt(A, 600000), ":0");
    cr_assert_str_eq(go(A, TICKET(A)), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A STRING_OF_OTHERS);
}

Test(string_release, gives_it_to_the_first_in_queue)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    cr_assert_str_eq(give(A), ":1");
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(C) "\"") STRING_OF_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(said(), "|sgrant 7 5000 0 t||");
    cr_assert_str_eq(give(A), ":0");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

/* The grant's ttl counts from the moment at which the ticket was taken. */
Test(string_release, says_how_long_the_ticket_was_in_the_queue)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    take(30000, A);
    raw(admin, "ZADD %s %lld %s", QUEUE, (long long)(server_now_ms() - 5000) * 100, TICKET(B));
    give(A);
    long long waited = 0;
    const char *message = published_whole(b);
    cr_assert_eq(sscanf(message, "sgrant 7 5000+%lld 0 t", &waited), 1, "%s", message);
    cr_assert(between(5000, waited, 5000 + WAIT_MS), "%lld", waited);
    redisFree(b);
}

Test(string_release, passes_over_the_dead)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    put_dead_in_front(3);
    cr_assert_str_eq(give(A), ":1");
    cr_assert_str_eq(everything(), STRING_OF_B);
    cr_assert_str_eq(said(), "|sgrant 7 5000 0 t||");
    nobody_listens();
    stand(C, TICKET(C));
    WAIT_FOR(raw_inboxes(admin) == 0);
    cr_assert_str_eq(give(B), ":1");
    cr_assert_str_eq(everything(), "", "nobody is alive");
}

Test(string_release, in_doubt_leaves_a_tombstone_that_an_acquire_finds)
{
    take(30000, A);
    cr_assert_str_eq(give_in_doubt(A, 600000), ":1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert(about(raw_pttl(admin, QUEUE), 600000));
    cr_assert_str_eq(take(30000, A), ":-1");
    cr_assert_str_eq(stand(A, TICKET(A)), ":-1");
    cr_assert_str_eq(give_in_doubt(A, 600000), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert_str_eq(take(30000, B), NAMES(B));
    cr_assert_str_eq(give(B), ":1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A, "a tombstone is no waiter");
}

Test(string_release, in_doubt_gives_it_to_the_first_in_queue_too)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    cr_assert_str_eq(give_in_doubt(A, 600000), ":1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A STRING_OF_B);
    cr_assert_str_eq(said(), "|sgrant 7 5000 0 t||");
    nobody_listens();
}

Test(string_release, works_on_a_full_server)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    fill_server();
    cr_assert_str_eq(give(A), ":1");
    cr_assert_str_eq(raw(admin, "GET t"), "\"" B "\"");
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(give_in_doubt(B, 600000), ":1");
    cr_assert_str_eq(raw(admin, "GET t"), "\"" C "\"");
    cr_assert_str_eq(said(), "|sgrant 7 5000 0 t|sgrant 9 5000 0 t|");
    nobody_listens();
}

/* Its user may not SET: the waiter keeps its ticket, and asks. */
Test(string_release, that_may_not_give_it_wakes_the_first_in_queue)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    raw(admin, "ACL SETUSER weak on >pw ~* &* +@all -set");
    redisContext *weak = raw_open_as(server, "weak", "pw"), *mine = user;
    user = weak;
    cr_assert_str_eq(give(A), ":1");
    user = mine;
    redisFree(weak);
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(B) "\""));
    cr_assert_str_eq(said(), "|sopen 7 0 0 t||");
    raw(admin, "ACL DELUSER weak");
    nobody_listens();
}

Test(string_release, of_a_key_of_another_type_is_refused)
{
    raw(admin, "HSET t %s 1", A);
    cr_assert(is_wrong_type(give(A)));
    cr_assert(is_wrong_type(go(A, TICKET(A))));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

/* --- string_release of a wait */

Test(string_leave, removes_the_ticket)
{
    take(30000, A);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    cr_assert_str_eq(go(B, TICKET(B)), ":2");
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(C) "\"") STRING_OF_A);
    cr_assert_str_eq(go(B, TICKET(B)), ":0");
    cr_assert_not(was_published(), "A's release will wake C");
}

Test(string_leave, of_a_wait_that_was_granted_meanwhile_passes_it_on)
{
    all_listen();
    take(30000, A);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    give(A);
    (void)said();
    cr_assert_str_eq(go(B, TICKET(B)), ":1");
    cr_assert_str_eq(raw(admin, "GET t"), "\"" C "\"");
    cr_assert_str_eq(said(), "||sgrant 9 5000 0 t|");
    nobody_listens();
}

Test(string_leave, of_the_first_at_a_foreign_hold_makes_the_next_poll)
{
    all_listen();
    others_hold(60000);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    cr_assert_str_eq(go(C, TICKET(C)), ":2");
    cr_assert_str_eq(said(), "|||", "C was not the first");
    stand(C, TICKET(C));
    cr_assert_str_eq(go(B, TICKET(B)), ":2");
    cr_assert_str_eq(said(), "||sopen 9 0 0 t|");
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(C) "\"") STRING_OF_OTHERS);
    nobody_listens();
}

Test(string_leave, of_the_first_of_a_free_lock_gives_it_to_the_next)
{
    all_listen();
    others_hold(60000);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    raw(admin, "DEL t");
    cr_assert_str_eq(go(B, TICKET(B)), ":2");
    cr_assert_str_eq(raw(admin, "GET t"), "\"" C "\"");
    cr_assert_str_eq(said(), "||sgrant 9 5000 0 t|");
    nobody_listens();
}

/* B is the first one that lives. */
Test(string_leave, behind_the_dead_makes_the_next_one_poll)
{
    all_listen();
    others_hold(60000);
    stand(B, TICKET(B));
    stand(C, TICKET(C));
    put_dead_in_front(3);
    cr_assert_str_eq(go(B, TICKET(B)), ":2");
    cr_assert_str_eq(said(), "||sopen 9 0 0 t|");
    cr_assert_str_eq(everything(), IN_QUEUE("\"" TICKET(C) "\"") STRING_OF_OTHERS);
    nobody_listens();
}

/* --- string_extend, string_renew */

Test(string_extend, raises_the_ttl_of_its_own_hold_only)
{
    cr_assert_str_eq(extend(A, 60000), ":0");
    take(30000, A);
    cr_assert_str_eq(extend(A, 60000), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(extend(A, 5000), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(extend(B, 90000), ":-1");
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(everything(), STRING_OF_A);
}

/* What a client with wait_replicas sends: a write that changes nothing. */
Test(string_extend, by_0_writes_and_keeps_the_ttl)
{
    take(30000, A);
    raw(admin, "CONFIG RESETSTAT");
    cr_assert_str_eq(extend(A, 0), NAMES(A));
    cr_assert_eq(calls("set"), 1);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(everything(), STRING_OF_A);
}

Test(string_renew, renews_each_that_is_held_and_says_so_for_each)
{
    raw(admin, "SET t1 %s PX 1000", A);
    raw(admin, "SET t2 " TOKEN_OF_OTHERS " PX 100000");
    raw(admin, "HSET t3 %s 1", A);
    raw(admin, "SET t5 %s PX 90000", B);
    cr_assert_str_eq(
        script_run(user, HLK_SCRIPT_STRING_RENEW, 5, "t1", "t2", "t3", "t4", "t5", A, A, A, A, B, "60000", NULL),
        "[:1, :-1, :-1, :0, :1, " NAMES(A) "]");
    cr_assert(about(raw_pttl(admin, "t1"), 60000));
    cr_assert_gt(raw_pttl(admin, "t2"), 60000);
    cr_assert_eq(raw_pttl(admin, "t3"), -1);
    cr_assert_eq(raw_pttl(admin, "t4"), -2);
    cr_assert_gt(raw_pttl(admin, "t5"), 60000, "never shortened");
    raw(admin, "DEL t1 t2 t3 t5");
}

/* --- string_break, string_query */

Test(string_break, gives_the_lock_of_any_holder_to_the_first_in_queue)
{
    all_listen();
    cr_assert_str_eq(break_it(), "(nil)");
    take(30000, A);
    stand(B, TICKET(B));
    cr_assert_str_eq(break_it(), "\"" A "\"");
    cr_assert_str_eq(everything(), STRING_OF_B);
    cr_assert_str_eq(said(), "sbroken 1 0 0 t|sgrant 7 5000 0 t||");
    raw(admin, "DEL t");
    others_hold(60000);
    cr_assert_str_eq(break_it(), "\"" TOKEN_OF_OTHERS "\"");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(string_break, of_a_key_of_another_type_is_refused)
{
    raw(admin, "HSET t %s 1", A);
    cr_assert(is_wrong_type(break_it()));
    cr_assert_str_eq(everything(), HELD_BY_A);
}

static const char *ask(void)
{
    return script_run(user, HLK_SCRIPT_STRING_QUERY, 2, LOCK, QUEUE, "3", NULL);
}

Test(string_query, tells_holder_and_waiters)
{
    cr_assert_str_eq(ask(), "[:-2, :-1, \"\", :0, :0, []]");
    raw(admin, "SET t " TOKEN_OF_OTHERS);
    cr_assert_str_eq(ask(), "[:-1, :-1, \"" TOKEN_OF_OTHERS "\", :1, :0, []]");
    stand(B, TICKET(B));
    cr_assert_str_eq(ask(), "[:-1, :-1, \"" TOKEN_OF_OTHERS "\", :1, :1, [\"" TICKET(B) "\"]]");
    raw(admin, "DEL t");
    raw(admin, "HSET t a 1");
    cr_assert(is_wrong_type(ask()));
}
