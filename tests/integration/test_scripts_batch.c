/* Each line of the head of lock_batch. That a command in a batch does the same as unbatched is in
 * test_scripts_batch_same.c. */
/* Shows: P1 */
#include "integration/scripts_batch_fixture.h"
#include "support/no_lock.h"

SCRIPTS_SUITE(lock_batch);

/* --- an acquire */

Test(lock_batch, acquires_a_free_lock)
{
    cr_assert_str_eq(one('a', A), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), LEASE));
}

Test(lock_batch, of_a_held_lock_only_answers_ttl_and_holder)
{
    acquire(30000, A);
    const char *answer = one('a', B);
    cr_assert(about(answered_ttl(answer), 30000));
    cr_assert_str_eq(answered(answer), A " -1");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_batch, leaves_the_second_run_of_an_acquire_alone)
{
    one('a', A);
    raw(admin, "PEXPIRE t 30000");
    cr_assert_str_eq(one('a', A), ":-2");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_batch, leaves_an_acquire_of_a_hash_that_is_no_lock_alone)
{
    for (int i = 0; i < NO_LOCKS; i++) {
        char set[160];
        snprintf(set, sizeof set, "HSET t %s", no_locks[i]);
        raw(admin, "DEL t");
        raw(admin, set);
        struct state before = look();
        cr_assert_str_eq(one('a', A), ":-2", "%s", no_locks[i]);
        assert_state(&before, no_locks[i]);
    }
}

/* As with lock_acquire, the field exists then, and the error says why it has no ttl. */
Test(lock_batch, calls_nothing_acquired_that_got_no_ttl)
{
    raw(admin, "ACL SETUSER endless on >pw ~* &* +@all -pexpire");
    redisContext *mine = user, *endless = raw_open_as(server, "endless", "pw");
    user = endless;
    cr_assert_str_eq(one('a', A), ":-2");
    cr_assert_eq(acquire(LEASE, A)[0], '-');
    user = mine;
    redisFree(endless);
}

/* --- a release */

Test(lock_batch, frees_what_the_hold_held_and_run_twice_is_run_once)
{
    for (const char *letter = "eo"; *letter; letter++) {
        one('a', A);
        cr_assert_str_eq(one(*letter, B), ":0");
        cr_assert_str_eq(everything(), HELD_BY_A);
        cr_assert_str_eq(one(*letter, A), ":1");
        cr_assert_str_eq(everything(), "");
        cr_assert_str_eq(one(*letter, A), ":0");
        cr_assert_str_eq(everything(), "");
    }
    cr_assert_not(was_published(), "nobody is subscribed");
}

Test(lock_batch, tells_a_subscriber_0_when_it_frees)
{
    redisContext *listener = subscribe(CHANNEL);
    one('a', A);
    one('a', B);
    one('e', B);
    cr_assert_str_eq(published(listener), "");
    one('e', A);
    cr_assert_str_eq(published(listener), "0");
    one('e', A);
    cr_assert_str_eq(published(listener), "");
    redisFree(listener);
}

Test(lock_batch, does_not_count_a_pattern_subscriber)
{
    redisContext *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    one('a', A);
    cr_assert_str_eq(one('o', A), ":1");
    one('a', A);
    cr_assert_str_eq(one('e', A), ":1");
    cr_assert_not(was_published());
    redisFree(pattern);
}

Test(lock_batch, skips_an_end_with_a_yield_window_if_one_listens)
{
    redisContext *listener = subscribe(CHANNEL);
    one('a', A);
    cr_assert_str_eq(one('o', A), ":-2");
    cr_assert_str_eq(one('o', B), ":-2");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_batch, takes_it_that_somebody_listens_when_it_may_not_ask)
{
    raw(admin, "ACL SETUSER unsubscribed on >pw ~* &* +@all -pubsub");
    redisContext *listener = subscribe(CHANNEL), *mine = user,
                 *unsubscribed = raw_open_as(server, "unsubscribed", "pw");
    user = unsubscribed;
    one('a', A);
    cr_assert_str_eq(one('o', A), ":-2");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert_str_eq(MANY({ 'e', "t2", A }, { 'e', LOCK, A }), "[:0, :1]");
    cr_assert_str_eq(published(listener), "0");
    user = mine;
    redisFree(unsubscribed);
    redisFree(listener);
}

Test(lock_batch, frees_also_when_it_may_not_publish)
{
    raw(admin, "ACL SETUSER mute on >pw ~* resetchannels +@all");
    redisContext *listener = subscribe(CHANNEL), *mine = user, *mute = raw_open_as(server, "mute", "pw");
    user = mute;
    one('a', A);
    cr_assert_str_eq(MANY({ 'e', LOCK, A }, { 'a', "t2", A }), "[:1, " NAMES(A) "]");
    cr_assert_str_eq(everything(), "t2 hash [\"" A "\", \"1\"]; ");
    user = mine;
    redisFree(mute);
    redisFree(listener);
}

/* --- several in one run */

Test(lock_batch, answers_each_in_its_place)
{
    static const char *const names[] = { "t1", "t2", "t3", "t4", "t5", "t6", "t7" };
    acquire(TTL, A);
    raw(admin, "HSET t2 %s 1", A);
    raw(admin, "HSET t5 %s 1", A);
    raw(admin, "SET t6 text");
    raw(admin, "ZADD %s 1 %s", queue_of("t7"), TICKET(B));
    const char *answer = MANY({ 'a', names[0], A }, { 'e', names[1], A }, { 'a', names[2], B }, { 'e', names[3], A },
                              { 'o', names[4], A }, { 'a', names[5], A }, { 'a', names[6], A }, { 'a', LOCK, B });
    static const char head[] = "[" NAMES(A) ", :1, " NAMES(B) ", :0, :1, :-2, :-2, ";
    cr_assert_eq(strncmp(answer, head, strlen(head)), 0, "%s", answer);
    cr_assert_str_eq(answered(answer + strlen(head)), A " -1", "%s", answer);
    cr_assert_str_eq(everything(), "hasplock_queue:{t7} zset [\"" TICKET(B) "\"]; " HELD_BY_A "t1 hash [\"" A
                                                                            "\", \"1\"]; t3 hash [\"" B
                                                                            "\", \"1\"]; t6 string \"text\"; ");
}

Test(lock_batch, of_two_acquires_of_one_lock_gives_it_to_the_first)
{
    const char *answer = MANY({ 'a', LOCK, A }, { 'a', LOCK, B });
    static const char head[] = "[" NAMES(A) ", ";
    cr_assert_eq(strncmp(answer, head, strlen(head)), 0, "%s", answer);
    cr_assert(about(answered_ttl(answer + strlen(head)), LEASE), "%s", answer);
    cr_assert_str_eq(answered(answer + strlen(head)), A " -1");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(lock_batch, skips_an_acquires_second_attempt_in_one_run)
{
    cr_assert_str_eq(MANY({ 'a', LOCK, A }, { 'a', LOCK, A }), "[" NAMES(A) ", :-2]");
    cr_assert_str_eq(everything(), HELD_BY_A);
}

Test(lock_batch, gives_what_an_end_frees_to_the_acquire_behind_it)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(30000, A);
    cr_assert_str_eq(MANY({ 'e', LOCK, A }, { 'a', LOCK, B }), "[:1, " NAMES(B) "]");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), LEASE));
    cr_assert_str_eq(published(listener), "0");
    redisFree(listener);
}

Test(lock_batch, ends_what_it_has_just_acquired)
{
    cr_assert_str_eq(MANY({ 'a', LOCK, A }, { 'e', LOCK, A }, { 'a', LOCK, B }, { 'o', LOCK, B }, { 'e', LOCK, B }),
                     "[" NAMES(A) ", :1, " NAMES(B) ", :1, :0]");
    cr_assert_str_eq(everything(), "");
}

Test(lock_batch, tells_the_channel_of_each_freed_lock_and_no_other)
{
    redisContext *first = subscribe(CHANNEL), *fourth = subscribe("redisson_lock__channel:{t4}");
    for (int i = 1; i < LOCKS; i++)
        raw(admin, "HSET %s %s 1", locks[i], A);
    cr_assert_str_eq(MANY({ 'e', LOCK, A }, { 'a', LOCK, A }, { 'e', "t2", A }, { 'o', "t3", A }, { 'e', "t4", A }),
                     "[:0, " NAMES(A) ", :1, :1, :1]");
    cr_assert_str_eq(published(first), "", "that one was not freed");
    cr_assert_str_eq(published(fourth), "0");
    cr_assert_not_null(strstr(raw(admin, "INFO commandstats"), "cmdstat_publish:calls=1,"));
    redisFree(first);
    redisFree(fourth);
}

Test(lock_batch, takes_sixteen)
{
    struct part parts[MOST];
    static char names[MOST][8];
    redisContext *listener = subscribe("redisson_lock__channel:{t15}");
    for (int i = 0; i < MOST; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        parts[i] = (struct part){ 'a', names[i], i % 2 ? A : B };
    }
#define FOUR NAMES(B) ", " NAMES(A) ", " NAMES(B) ", " NAMES(A)
    cr_assert_str_eq(many(parts, MOST), "[" FOUR ", " FOUR ", " FOUR ", " FOUR "]");
    for (int i = 0; i < MOST; i++) {
        cr_assert_str_eq(raw_holder(admin, names[i]), parts[i].hold);
        cr_assert(about(raw_pttl(admin, names[i]), LEASE));
        parts[i].letter = i % 3 ? 'e' : 'o';
    }
    cr_assert_str_eq(many(parts, MOST), "[:1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :1, :-2]");
    cr_assert_str_eq(everything(), "t15 hash [\"" A "\", \"1\"]; ");
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_batch, that_is_refused_for_one_does_the_others)
{
    acquire(30000, A);
    raw(admin, "SET t2 text");
    raw(admin, "HSET t3 %s 1", A);
    raw(admin, "SET %s text", queue_of("t3"));
    struct state before = look();
    cr_assert_str_eq(MANY({ 'e', "t2", A }, { 'a', "t2", A }, { 'o', "t3", A }, { 'a', "t3", B }, { 'e', "t3", A }),
                     "[:-2, :-2, :-2, :-2, :-2]");
    assert_state(&before, "all are refused");
    cr_assert_str_eq(MANY({ 'e', "t2", A }, { 'a', "t2", A }, { 'o', "t3", A }, { 'a', "t3", B }, { 'e', LOCK, A },
                          { 'a', "t4", B }),
                     "[:-2, :-2, :-2, :-2, :1, " NAMES(B) "]");
    cr_assert_str_eq(raw_holder(admin, "t4"), B);
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
}

/* Each in a run of its own: after the first write of a run the server allows the others. */
Test(lock_batch, on_a_full_server_ends_and_leaves_acquires_alone)
{
    redisContext *listener = subscribe(CHANNEL);
    acquire(TTL, A);
    raw(admin, "HSET t2 %s 1", A);
    fill_server();
    struct state before = look();
    cr_assert_str_eq(MANY({ 'a', "t3", A }, { 'a', LOCK, A }, { 'a', "t4", A }), "[:-2, :-2, :-2]");
    assert_state(&before, "full");
    cr_assert_str_eq(answered(one('a', B)), A " -1");
    assert_state(&before, "full");
    cr_assert_str_eq(MANY({ 'a', "t3", A }, { 'e', LOCK, A }, { 'o', "t2", A }), "[:-2, :1, :1]");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(published(listener), "0");
    redisFree(listener);
}

/* Refused one by one, or the run as a whole. */
Test(lock_batch, on_a_server_that_refuses_changes_nothing)
{
    static const char all[] = "[:-2, :-2, :-2, :-2, :-2, :-2]";
    static const struct {
        const char *begin[2], *end, *answer;
    } refusals[] = {
        { { "CONFIG SET min-replicas-to-write 1", "PING" }, "CONFIG SET min-replicas-to-write 0", all },
        { { "CONFIG SET replica-serve-stale-data yes", "REPLICAOF 127.0.0.1 1" }, "REPLICAOF NO ONE", all },
        { { "CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1" }, "REPLICAOF NO ONE", "-MASTERDOWN " },
    };
    acquire(TTL, A);
    raw(admin, "HSET t2 %s 1", A);
    struct state before = look();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        raw(admin, refusals[i].begin[0]);
        raw(admin, refusals[i].begin[1]);
        const char *answer = MANY({ 'a', "t3", A }, { 'e', LOCK, A }, { 'o', "t2", A }, { 'e', "t2", B },
                                  { 'a', LOCK, A }, { 'a', "t2", B });
        cr_assert_eq(strncmp(answer, refusals[i].answer, strlen(refusals[i].answer)), 0, "%zu: %s", i, answer);
        if (refusals[i].answer == all) /* as in lock_acquire, a reply about the holder needs no write */
            cr_assert_str_eq(answered(one('a', B)), A " -1");
        raw(admin, refusals[i].end);
        assert_state(&before, refusals[i].begin[1]);
    }
}

/* asks A8 DistributedLock 254; and no key name is derived from another one */
Test(lock_batch, touches_the_keys_that_it_is_given_and_no_others)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~t ~t2 ~hasplock_queue:{t} ~hasplock_queue:{t2} &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *mine = user;
    user = strict;
    lock_channel = subscribe(CHANNEL);
    cr_assert_str_eq(MANY({ 'a', LOCK, A }, { 'a', "t2", B }), "[" NAMES(A) ", " NAMES(B) "]");
    cr_assert_str_eq(MANY({ 'e', LOCK, A }, { 'o', "t2", B }, { 'a', LOCK, B }), "[:1, :1, " NAMES(B) "]");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(published(lock_channel), "0");
    user = mine;
    redisFree(strict);
    redisFree(lock_channel);
}
