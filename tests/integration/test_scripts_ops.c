/* The commands of operators: lock_break, lock_query. And lock_batch when one of its commands is refused. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"
#include "support/no_lock.h"

SCRIPTS_SUITE(lock_break);
SCRIPTS_SUITE(lock_query);
SCRIPTS_SUITE(lock_batch);

/* --- lock_break */

Test(lock_break, takes_the_lock_from_anybody_and_names_whom)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    reacquire(A, 3, 0);
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(published(listener), "0");
    redisFree(listener);
}

Test(lock_break, of_a_free_lock_answers_nil_and_wakes_nobody)
{
    redisContext *listener = subscribe(CHANNEL);
    cr_assert_str_eq(lock_break(), "(nil)");
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_break, run_twice_answers_nil_or_takes_it_from_the_next)
{
    acquire(30000, A);
    lock_break();
    cr_assert_str_eq(lock_break(), "(nil)");
    acquire(30000, B);
    cr_assert_str_eq(lock_break(), "\"" B "\"");
}

Test(lock_break, publishes_nothing_when_nobody_is_subscribed)
{
    redisContext *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    raw(admin, "HSET t %s 1", FOREIGN);
    lock_break();
    cr_assert_not(was_published());
    redisFree(pattern);
}

Test(lock_break, tells_a_holder_of_ours)
{
    all_listen();
    acquire(30000, A);
    lock_break();
    cr_assert_str_eq(said(), "broken 1 0 0 t|||0");
    raw(admin, "HSET t %s 1", FOREIGN);
    lock_break();
    cr_assert_str_eq(said(), "|||0", "Redisson has no such message");
    nobody_listens();
}

/* Shows: S14 */
Test(lock_break, says_nothing_to_a_holder_that_does_not_listen)
{
    acquire(30000, A);
    lock_break();
    cr_assert_not(was_published());
}

Test(lock_break, gives_it_to_the_first_in_queue)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(C) "\"]; " HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(said(), "broken 1 0 0 t|grant 7 5000 0 t||");
    nobody_listens();
}

Test(lock_break, run_twice_takes_it_from_the_first_in_queue_too)
{
    all_listen();
    acquire(5000, A);
    enqueue(B, TICKET(B));
    enqueue(C, TICKET(C));
    lock_break();
    cr_assert_str_eq(lock_break(), "\"" B "\"");
    cr_assert_str_eq(said(), "broken 1 0 0 t|grant 7 5000 0 t; broken 7 0 0 t|grant 9 5000 0 t|");
    nobody_listens();
}

Test(lock_break, tells_the_channel_of_a_shorter_ttl)
{
    all_listen();
    acquire(600000, A);
    enqueue(B, TICKET(B));
    lock_break();
    cr_assert_str_eq(said(), "broken 1 0 0 t|grant 7 5000 0 t||0");
    nobody_listens();
}

/* A free lock with waiters goes to the first one, which sends, or got the message to send. */
Test(lock_break, of_a_free_lock_with_a_queue_changes_nothing)
{
    all_listen();
    raw(admin, "ZADD %s 1 %s", QUEUE, TICKET(B));
    cr_assert_str_eq(lock_break(), "(nil)");
    cr_assert_str_eq(everything(), QUEUE " zset [\"" TICKET(B) "\"]; ");
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}

Test(lock_break, names_a_holder_whose_host_has_any_name)
{
    redisContext *odd = subscribe(INBOX("hlk-a:1 -b-1-x"));
    raw(admin, "HSET t %s 1", "hlk-a:1 -b-1-x:12");
    cr_assert_str_eq(lock_break(), "\"hlk-a:1 -b-1-x:12\"");
    cr_assert_str_eq(published(odd), "broken 12 0 0 t");
    redisFree(odd);
}

Test(lock_break, frees_also_when_the_queue_is_of_another_type)
{
    all_listen();
    acquire(30000, A);
    raw(admin, "SET %s text", QUEUE);
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), QUEUE " string \"text\"; ");
    cr_assert_str_eq(said(), "broken 1 0 0 t|||0");
    nobody_listens();
}

Test(lock_break, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(lock_break(), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

/* Makes the i-th of no_locks, with a waiter that is subscribed. */
static const char *with_no_lock(int i)
{
    char set[160];
    snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
    raw(admin, "DEL t");
    raw(admin, set);
    raw(admin, "ZADD %s 1 %s", QUEUE, TICKET(B));
    return everything();
}

Test(lock_break, refuses_a_hash_that_is_no_lock_and_changes_nothing)
{
    all_listen();
    for (int i = 0; i < NO_LOCKS; i++) {
        const char *before = with_no_lock(i), *answer = lock_break();
        cr_assert_eq(strncmp(answer, "-HASPLOCK the key is a hash, but no lock", 40), 0, "%s", answer);
        cr_assert_str_eq(everything(), before);
        cr_assert_str_eq(said(), "|||");
    }
    nobody_listens();
}

Test(lock_break, works_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), "");
}

/* --- lock_query */

Test(lock_query, tells_that_a_lock_is_free_and_how_many_listen)
{
    cr_assert_str_eq(query(), "[:-2, :0, \"\", :0, :0, []]");
    redisContext *one = subscribe(CHANNEL), *two = subscribe(CHANNEL);
    cr_assert_str_eq(query(), "[:-2, :2, \"\", :0, :0, []]");
    redisFree(one);
    redisFree(two);
}

Test(lock_query, tells_ttl_holder_and_count)
{
    acquire(30000, A);
    reacquire(A, 2, 0);
    long long ttl = 0, listeners = -9, count = 0;
    char holder[64] = "";
    cr_assert_eq(sscanf(query(), "[:%lld, :%lld, \"%63[^\"]\", :%lld, :0, []]", &ttl, &listeners, holder, &count), 4);
    cr_assert(about(ttl, 30000));
    cr_assert_eq(listeners, 0);
    cr_assert_str_eq(holder, A);
    cr_assert_eq(count, 2);
}

Test(lock_query, tells_minus_1_for_a_hold_without_end)
{
    raw(admin, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_str_eq(query(), "[:-1, :0, \"b983c153-7421-469a-addb-44fb92259a1b:1\", :1, :0, []]");
}

Test(lock_query, tells_how_many_are_in_queue_and_names_the_first)
{
    static const char expected[] =
        ":4, [\"" TICKET(CLIENT_B ":1") "\", \"" TICKET(CLIENT_B ":2") "\", \"" TICKET(CLIENT_B ":3") "\"]]";
    raw(admin, "HSET t %s 1", FOREIGN);
    release(A, 600000);
    raw(admin, "ZADD %s 1000000000000001 open", QUEUE);
    cr_assert_str_eq(query(), "[:-1, :0, \"" FOREIGN "\", :1, :0, []]", "neither ended holds nor a window");
    enqueue(CLIENT_B ":1", TICKET(CLIENT_B ":1"));
    enqueue(CLIENT_B ":2", TICKET(CLIENT_B ":2"));
    enqueue(CLIENT_B ":3", TICKET(CLIENT_B ":3"));
    enqueue(CLIENT_B ":4", TICKET(CLIENT_B ":4"));
    const char *answer = query();
    cr_assert_not_null(strstr(answer, expected), "%s", answer);
}

Test(lock_query, of_a_free_lock_names_who_is_in_queue_too)
{
    raw(admin, "ZADD %s 1 %s", QUEUE, TICKET(B));
    cr_assert_str_eq(query(), "[:-2, :0, \"\", :0, :1, [\"" TICKET(B) "\"]]");
}

Test(lock_query, refuses_a_queue_of_another_type)
{
    raw(admin, "SET %s text", QUEUE);
    const char *answer = query();
    cr_assert_not_null(strstr(answer, "WRONGTYPE"), "%s", answer);
    cr_assert_not_null(strstr(answer, QUEUE), "%s", answer);
}

Test(lock_query, refuses_a_hash_that_is_no_lock)
{
    for (int i = 0; i < NO_LOCKS; i++) {
        const char *before = with_no_lock(i), *answer = query();
        cr_assert_eq(strncmp(answer, "-HASPLOCK the key is a hash, but no lock", 40), 0, "%s", answer);
        cr_assert_str_eq(everything(), before);
    }
}

Test(lock_query, tells_minus_1_listeners_when_it_may_not_ask)
{
    raw(admin, "ACL SETUSER unsubscribed on >pw ~* &* +@all -pubsub");
    redisContext *unsubscribed = raw_open_as(server, "unsubscribed", "pw");
    cr_assert_str_eq(script_run(unsubscribed, HLK_SCRIPT_LOCK_QUERY, 2, LOCK, QUEUE, CHANNEL, "3", NULL),
                     "[:-2, :-1, \"\", :0, :0, []]");
    redisFree(unsubscribed);
}

Test(lock_query, refuses_a_key_of_another_type)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(query(), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

Test(lock_query, changes_nothing)
{
    acquire(30000, A);
    enqueue(B, TICKET(B));
    const char *before = everything();
    int64_t changes = raw_stat(admin, "rdb_changes_since_last_save");
    query();
    cr_assert_eq(raw_stat(admin, "rdb_changes_since_last_save"), changes);
    cr_assert_str_eq(everything(), before);
}

/* --- lock_batch */

/* An error for the whole batch would say that nothing was done, and the release would be sent again. */
Test(lock_batch, what_is_refused_to_one_of_many_is_no_error_for_all)
{
    raw(admin, "ACL SETUSER blind on >pw ~* &* +@all -pttl");
    redisContext *blind = raw_open_as(server, "blind", "pw");
    raw(admin, "HSET t1 " A " 1");
    raw(admin, "HSET t2 " B " 1");
    raw(admin, "PEXPIRE t2 30000");
    cr_assert_str_eq(script_run(blind, HLK_SCRIPT_LOCK_BATCH, 4, "t1", "hasplock_queue:{t1}", "t2",
                                "hasplock_queue:{t2}", "ea", A, "redisson_lock__channel:{t1}", "30000", A, NULL),
                     "[:1, :-2]");
    cr_assert_eq(raw_int(admin, "EXISTS t1"), 0);
    redisFree(blind);
}
