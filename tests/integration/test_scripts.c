/* Every line of the heads of lock_acquire and lock_release without waiters: each reply, what it changes, run twice, run
 * late. test_golden.c compares them with Redisson's transcripts. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"
#include "support/no_lock.h"

SCRIPTS_SUITE(lock_acquire);
SCRIPTS_SUITE(lock_release);
SCRIPTS_SUITE(scripts);

#define TOMBSTONE_ZERO 2000000000000000

/* --- lock_acquire */

Test(lock_acquire, takes_a_free_lock_with_one_field_and_a_ttl)
{
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, of_a_held_lock_only_answers_ttl_and_holder)
{
    acquire(30000, A);
    const char *answer = acquire(60000, B);
    cr_assert(about(answered_ttl(answer), 30000));
    cr_assert_str_eq(answered(answer), A " -1");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, answers_minus_one_for_a_hold_without_end)
{
    raw(admin, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_str_eq(acquire(30000, B), "[:-1, \"b983c153-7421-469a-addb-44fb92259a1b:1\", :-1]");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_acquire, run_twice_is_run_once)
{
    acquire(30000, A);
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A, "the count is set, not added");
}

Test(lock_acquire, run_twice_raises_the_ttl)
{
    acquire(30000, A);
    cr_assert_str_eq(acquire(90000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_acquire, run_twice_never_lowers_the_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* asks A4 redisson 7367: a late attempt of an acquire must not revive a hold that was released */
Test(lock_acquire, run_late_after_an_end_in_doubt_is_void)
{
    acquire(30000, A);
    cr_assert_str_eq(release(A, 60000), ":1");
    cr_assert_str_eq(acquire(30000, A), ":-1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
}

Test(lock_acquire, run_late_before_it_had_ever_run_is_void)
{
    cr_assert_str_eq(release(A, 60000), ":0");
    cr_assert_str_eq(acquire(30000, A), ":-1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
}

Test(lock_acquire, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    release(A, 60000);
    cr_assert_str_eq(acquire(30000, B), NAMES(B), "a tombstone stops its own holds only");
    cr_assert_str_eq(acquire(60000, A), ":-1");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(acquire(30000, A), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_acquire, refuses_a_queue_of_another_type_without_a_change)
{
    raw(admin, "SET %s text", QUEUE);
    const char *answer = acquire(30000, A);
    cr_assert_not_null(strstr(answer, "WRONGTYPE"), "%s", answer);
    cr_assert_not_null(strstr(answer, QUEUE), "%s", answer);
    cr_assert_str_eq(everything(), QUEUE " string \"text\"; ");
}

Test(lock_acquire, refuses_a_hash_that_is_no_lock)
{
    for (int i = 0; i < NO_LOCKS; i++) {
        char set[160];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(admin, "DEL t");
        raw(admin, set);
        const char *before = everything(), *answer = enqueue(A, TICKET(A));
        cr_assert_eq(strncmp(answer, "-HASPLOCK the key is a hash, but no lock", 40), 0, "%s", answer);
        cr_assert_str_eq(everything(), before);
        raw(admin, "PEXPIRE t 60000");
        bool rw = strncmp(no_locks[i], "mode read ", 10) == 0;
        answer = acquire(30000, A);
        cr_assert_eq(strncmp(answer, rw ? "[:" : "-HASPLOCK", 2), 0, "a read/write lock will be over: %s", answer);
        cr_assert_str_eq(everything(), before);
    }
}

Test(lock_acquire, is_refused_by_a_full_server_and_changes_nothing)
{
    fill_server();
    cr_assert_not_null(strstr(acquire(30000, A), "OOM"));
    cr_assert_str_eq(everything(), "");
}

Test(lock_acquire, of_a_held_lock_answers_on_a_full_server_too)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(acquire(90000, A), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
    cr_assert_not_null(strstr(acquire(30000, B), "\"" A "\""));
}

Test(lock_acquire, publishes_nothing)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    acquire(30000, A);
    acquire(30000, B);
    cr_assert_not(was_published());
    redisFree(listener);
}

/* The fast path: each further command would show in the benchmarks. */
Test(lock_acquire, of_a_free_lock_asks_one_command)
{
    raw(admin, "CONFIG RESETSTAT");
    acquire(30000, A);
    cr_assert_eq(calls("exists"), 1);
    cr_assert_eq(calls("hset"), 1);
    cr_assert_eq(calls("pexpire"), 1);
    cr_assert_eq(calls(""), 4, "with eval itself");
}

/* --- lock_release */

Test(lock_release, while_nobody_waits_asks_two_commands)
{
    acquire(30000, A);
    raw(admin, "CONFIG RESETSTAT");
    release(A, 0);
    cr_assert_eq(calls("hdel"), 1);
    cr_assert_eq(calls("zpopmin"), 1);
    cr_assert_eq(calls("pubsub") + calls("pubsub|numsub"), 1, "6.2 counts no subcommands");
    cr_assert_eq(calls(""), 4, "with eval itself");
}

Test(lock_release, frees_what_the_hold_held)
{
    acquire(30000, A);
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), "");
}

Test(lock_release, of_a_lock_that_nobody_holds_answers_0)
{
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(everything(), "");
}

Test(lock_release, of_anothers_lock_answers_0_and_changes_nothing)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, B);
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_release, in_doubt_remembers_the_hold_for_as_long_as_asked)
{
    acquire(30000, A);
    int64_t now = server_now_ms();
    cr_assert_str_eq(release(A, 600000), ":1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert(about(raw_pttl(admin, QUEUE), 600000));
    cr_assert(between(now, score(A) - TOMBSTONE_ZERO, now + WAIT_MS),
              "the score is the server's ms, behind all who wait");
}

Test(lock_release, in_doubt_shortens_no_ttl)
{
    release(A, 600000);
    release(B, 60000);
    cr_assert(about(raw_pttl(admin, QUEUE), 600000));
}

Test(lock_release, in_doubt_remembers_a_hold_that_never_was)
{
    cr_assert_str_eq(release(A, 600000), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
}

Test(lock_release, in_doubt_drops_entries_older_than_the_doubt)
{
    raw(admin, "ZADD %s 2000000000001000 old:1", QUEUE);
    cr_assert_str_eq(release(A, 600000), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert_str_eq(release(B, 600000), ":0");
    cr_assert_eq(raw_int(admin, "ZCARD %s", QUEUE), 2, "younger ones stay");
}

Test(lock_release, run_twice_is_run_once)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(published(listener), "0");
    cr_assert_str_eq(release(A, 0), ":0");
    cr_assert_str_eq(release(A, 60000), ":0");
    cr_assert_str_eq(release(A, 600000), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert(about(raw_pttl(admin, QUEUE), 600000));
    cr_assert_str_eq(published(listener), "", "nothing was freed, nobody is woken");
    redisFree(listener);
}

/* asks A4 redisson 4871 and the late release of docs/protocol.md */
Test(lock_release, run_late_leaves_the_next_holder_alone)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    release(A, 0);
    cr_assert_str_eq(published(listener), "0");
    acquire(30000, B);
    cr_assert_str_eq(release(A, 60000), ":0");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(published(listener), "");
    redisFree(listener);
}

Test(lock_release, tells_a_subscriber_0)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    release(A, 0);
    cr_assert_str_eq(published(listener), "0");
    redisFree(listener);
}

/* asks A5 redisson 3349: uncontended release publishes nothing */
Test(lock_release, publishes_nothing_when_nobody_is_subscribed)
{
    acquire(30000, A);
    release(A, 0);
    cr_assert_not(was_published());
}

Test(lock_release, does_not_count_a_pattern_subscriber)
{
    redisContext *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    acquire(30000, A);
    release(A, 0);
    cr_assert_not(was_published());
    redisFree(pattern);
}

Test(lock_release, publishes_when_it_may_not_ask_who_listens)
{
    raw(admin, "ACL SETUSER unsubscribed on >pw ~* &* +@all -pubsub");
    redisContext *listener = subscribe(CHANNEL), *unsubscribed = raw_open_as(server, "unsubscribed", "pw");
    acquire(30000, A);
    cr_assert_str_eq(script_run(unsubscribed, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, A, CHANNEL, "0", NULL), ":1");
    cr_assert_str_eq(published(listener), "0");
    redisFree(listener);
    redisFree(unsubscribed);
}

Test(lock_release, frees_also_when_it_may_not_publish)
{
    raw(admin, "ACL SETUSER mute on >pw ~* resetchannels +@all");
    redisContext *listener = subscribe(CHANNEL), *mute = raw_open_as(server, "mute", "pw");
    acquire(30000, A);
    cr_assert_str_eq(script_run(mute, HLK_SCRIPT_LOCK_RELEASE, 2, LOCK, QUEUE, A, CHANNEL, "0", NULL), ":1");
    cr_assert_str_eq(everything(), "");
    redisFree(listener);
    redisFree(mute);
}

Test(lock_release, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(release(A, 60000), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

/* An error would not help any caller, and the lock would stay held. */
Test(lock_release, frees_also_when_the_queue_is_of_another_type)
{
    redisContext *listener = subscribe(CHANNEL);
    raw(admin, "SET %s text", QUEUE);
    for (int i = 0; i < 4; i++) {
        raw(admin, "HSET t %s 1", A);
        cr_assert_str_eq(i == 0   ? release(A, 0)
                         : i == 1 ? release(A, 60000)
                         : i == 2 ? leave(A, 0, TICKET(A))
                                  : release_with_window(A, 500),
                         ":1");
        cr_assert_str_eq(everything(), QUEUE " string \"text\"; ", "%d", i);
        cr_assert_str_eq(published(listener), "0", "%d", i);
    }
    cr_assert_str_eq(leave(A, 0, TICKET(A)), ":0");
    redisFree(listener);
}

Test(lock_release, works_and_leaves_a_tombstone_on_a_full_server)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(release(A, 60000), ":1");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
    cr_assert_str_eq(published(listener), "0");
    cr_assert_str_eq(acquire(30000, A), ":-1");
    redisFree(listener);
}

Test(lock_release, of_what_was_not_held_leaves_one_there_too)
{
    fill_server();
    cr_assert_str_eq(release(A, 60000), ":0");
    cr_assert_str_eq(everything(), TOMBSTONE_OF_A);
}

/* --- all of them */

/* The SHA-1 is the server's: EVALSHA finds what EVAL or SCRIPT LOAD has stored. */
Test(scripts, are_known_by_their_sha1)
{
    for (int i = 0; i < HLK_SCRIPT_COUNT; i++) {
        const char *argv[] = { "SCRIPT", "LOAD", hlk_script_table[i].text };
        size_t lens[] = { 6, 4, hlk_script_table[i].len };
        char expected[64];
        snprintf(expected, sizeof expected, "\"%s\"", hlk_script_table[i].sha1);
        cr_assert_str_eq(raw_argv(admin, 3, argv, lens), expected, "%s", hlk_script_table[i].name);
    }
}

/* asks A8 DistributedLock 254: scripts touch declared keys only, else a strict cluster refuses them */
Test(scripts, touch_no_key_that_is_not_declared)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~t ~hasplock_queue:{t} ~redisson_lock_token:{t} &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *mine = user;
    user = strict;
    all_listen();
    cr_assert_str_eq(acquire(30000, A), NAMES(A));
    cr_assert_str_eq(reacquire(A, 2, 90000), NAMES(A));
    cr_assert_str_eq(renew(90000, A), "[:1, " NAMES(A) "]");
    cr_assert_null(strstr(query(), "NOPERM"));
    cr_assert_str_eq(release(A, 60000), ":1");
    cr_assert_str_eq(acquire(30000, B), NAMES(B));
    cr_assert_str_eq(answered(enqueue(C, TICKET(C))), B " 0");
    cr_assert_str_eq(lock_break(), "\"" B "\"");
    cr_assert_str_eq(said(), "|broken 7 0 0 t|grant 9 5000 0 t|0; 0");
    cr_assert_str_eq(answered(enqueue(B, TICKET(B))), C " 0");
    cr_assert_str_eq(leave(B, 0, TICKET(B)), ":2");
    user = mine;
    redisFree(strict);
    nobody_listens();
}

/* With arbitrary key names: a key that a script had derived from the lock's name, declared or not, would be refused. */
Test(scripts, touch_the_keys_that_they_are_given_and_no_others)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~x1 ~x2 ~x3 &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw");
    all_listen();
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_LOCK_ACQUIRE, 2, "x1", "x2", "30000", A, NULL), NAMES(A));
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_LOCK_REACQUIRE, 1, "x1", A, "2", "90000", NULL), NAMES(A));
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_LOCK_RENEW, 1, "x1", A, "90000", NULL), "[:1, " NAMES(A) "]");
    const char *place = script_run(strict, HLK_SCRIPT_LOCK_ACQUIRE, 2, "x1", "x2", "30000", B, TICKET(B), NULL);
    cr_assert_str_eq(answered(place), A " 0");
    cr_assert_null(strstr(script_run(strict, HLK_SCRIPT_LOCK_QUERY, 2, "x1", "x2", CHANNEL, "3", NULL), "NOPERM"));
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_LOCK_RELEASE, 2, "x1", "x2", A, CHANNEL, "0", "0", "60000", NULL),
                     ":1");
    place =
        script_run(strict, HLK_SCRIPT_LOCK_ACQUIRE, 3, "x1", "x2", "x3", "30000", C, FENCED(C, 1, 0), "1", "0", NULL);
    cr_assert_str_eq(answered(place), B " 0");
    cr_assert_str_eq(script_run(strict, HLK_SCRIPT_LOCK_BREAK, 3, "x1", "x2", "x3", CHANNEL, NULL), "\"" B "\"");
    cr_assert_str_eq(said(), "|grant 7 5000 0 x1; broken 7 0 0 x1|grant 9 5000 1 x1|0");
    redisFree(strict);
    nobody_listens();
    raw(admin, "DEL x1 x2 x3");
}
