/* Fencing tokens: lock_acquire, lock_release and lock_break with the counter among their keys. It is the counter of
 * Redisson's RFencedLock, and continues its numbers. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(tokens);
SCRIPTS_SUITE(tokens_in_queue);

static const char *acquire_fenced(const char *hold, const char *tokens, const char *floor)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 3, LOCK, QUEUE, TOKEN, "30000", hold, "", tokens, floor, NULL);
}

/* The same with a ticket: 10 tokens above 100. */
static const char *enqueue_fenced(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 3, LOCK, QUEUE, TOKEN, "30000", hold, member, "10", "100", NULL);
}

static const char *end_fenced(const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 3, LOCK, QUEUE, TOKEN, hold, CHANNEL, "0", NULL);
}

static const char *counter(void)
{
    return raw(admin, "GET %s", TOKEN);
}

/* --- a free lock */

Test(tokens, of_a_new_lock_begin_with_1_and_are_answered)
{
    cr_assert_str_eq(acquire_fenced(A, "1", "0"), "[:1, " NAMES(A) "]");
    cr_assert_str_eq(everything(), TOKEN " string \"1\"; " HELD_BY_A);
    cr_assert_eq(raw_pttl(admin, TOKEN), -1, "tokens outlive the lock");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(tokens, grow_with_each_hold)
{
    cr_assert_str_eq(acquire_fenced(A, "1", "0"), "[:1, " NAMES(A) "]");
    cr_assert_str_eq(end_fenced(A), ":1");
    cr_assert_str_eq(everything(), TOKEN " string \"1\"; ");
    cr_assert_str_eq(acquire_fenced(B, "1", "0"), "[:2, " NAMES(B) "]");
    release(B, 0);
    cr_assert_str_eq(acquire_fenced(A, "1", "0"), "[:3, " NAMES(A) "]");
}

Test(tokens, are_taken_in_blocks_of_which_the_last_is_answered)
{
    cr_assert_str_eq(acquire_fenced(A, "10", "0"), "[:10, " NAMES(A) "]");
    end_fenced(A);
    cr_assert_str_eq(acquire_fenced(B, "64", "0"), "[:74, " NAMES(B) "]");
    cr_assert_str_eq(counter(), "\"74\"");
}

Test(tokens, are_above_the_floor)
{
    cr_assert_str_eq(acquire_fenced(A, "10", "100"), "[:110, " NAMES(A) "]");
    cr_assert_str_eq(counter(), "\"110\"");
    end_fenced(A);
    cr_assert_str_eq(acquire_fenced(B, "1", "110"), "[:111, " NAMES(B) "]",
                     "a floor that is the counter changes nothing");
    end_fenced(B);
    cr_assert_str_eq(acquire_fenced(B, "1", "50"), "[:112, " NAMES(B) "]", "nor does a lower one");
}

/* The first hold may come from a grant without tokens. */
Test(tokens, of_a_second_attempt_are_new_ones)
{
    acquire_fenced(A, "10", "100");
    raw(admin, "PEXPIRE t 5000");
    cr_assert_str_eq(acquire_fenced(A, "10", "100"), "[:120, " NAMES(A) "]");
    cr_assert_str_eq(counter(), "\"120\"");
    cr_assert(between(5001, raw_pttl(admin, LOCK), 30000), "and the ttl is raised");
}

Test(tokens, of_a_second_attempt_are_new_if_the_counter_is_gone)
{
    acquire_fenced(A, "10", "100");
    raw(admin, "DEL " TOKEN);
    cr_assert_str_eq(acquire_fenced(A, "10", "100"), "[:110, " NAMES(A) "]");
}

Test(tokens, of_a_second_attempt_are_refused_on_a_bad_counter)
{
    acquire_fenced(A, "10", "100");
    raw(admin, "PEXPIRE t 5000");
    raw(admin, "SET " TOKEN " abc");
    const char *answer = acquire_fenced(A, "10", "100");
    cr_assert(strstr(answer, "HASPLOCK the counter of tokens is no number"), "%s", answer);
    cr_assert_leq(raw_pttl(admin, LOCK), 5000, "nothing was changed");
}

Test(tokens, of_a_second_attempt_are_refused_by_a_full_server)
{
    acquire_fenced(A, "10", "100");
    raw(admin, "PEXPIRE t 5000");
    fill_server();
    cr_assert_not_null(strstr(acquire_fenced(A, "10", "100"), "OOM"));
    cr_assert_leq(raw_pttl(admin, LOCK), 5000, "nothing was changed");
}

Test(tokens, are_not_taken_by_a_late_attempt)
{
    acquire_fenced(A, "10", "0");
    release(A, 600000);
    cr_assert_str_eq(acquire_fenced(A, "10", "0"), ":-1");
    cr_assert_str_eq(counter(), "\"10\"");
}

Test(tokens, are_not_taken_by_who_does_not_get_the_lock)
{
    acquire_fenced(A, "10", "0");
    cr_assert_str_eq(answered(acquire_fenced(B, "10", "1000")), A " -1");
    cr_assert_str_eq(answered(enqueue_fenced(C, FENCED(C, 10, 100))), A " 0");
    cr_assert_str_eq(counter(), "\"10\"");
}

Test(tokens, go_on_from_redissons)
{
    raw(admin, "SET %s 41", TOKEN);
    cr_assert_str_eq(acquire_fenced(A, "2", "0"), "[:43, " NAMES(A) "]");
    end_fenced(A);
    cr_assert_eq(raw_int(admin, "INCR %s", TOKEN), 44, "and Redisson's from ours");
    cr_assert_str_eq(acquire_fenced(B, "1", "0"), "[:45, " NAMES(B) "]");
}

Test(tokens, may_be_large)
{
    raw(admin, "SET %s 1234567890123456", TOKEN);
    cr_assert_str_eq(acquire_fenced(A, "1", "0"), "[:1234567890123457, " NAMES(A) "]");
    end_fenced(A);
    cr_assert_str_eq(acquire_fenced(A, "1", "2345678901234567"), "[:2345678901234568, " NAMES(A) "]");
}

Test(tokens, of_a_counter_of_another_type_are_refused_unchanged)
{
    raw(admin, "HSET %s f v", TOKEN);
    const char *answer = acquire_fenced(A, "1", "0");
    cr_assert(strstr(answer, "WRONGTYPE") && strstr(answer, TOKEN), "%s", answer);
    cr_assert_str_eq(everything(), TOKEN " hash [\"f\", \"v\"]; ");
}

Test(tokens, of_a_non_numeric_counter_are_refused_unchanged)
{
    raw(admin, "SET %s text", TOKEN);
    const char *answer = acquire_fenced(A, "1", "0");
    cr_assert(answer[0] == '-' && strstr(answer, TOKEN), "%s", answer);
    cr_assert_str_eq(everything(), TOKEN " string \"text\"; ");
}

Test(tokens, are_refused_by_a_full_server_and_nothing_changes)
{
    fill_server();
    cr_assert_not_null(strstr(acquire_fenced(A, "1", "0"), "OOM"));
    cr_assert_not_null(strstr(acquire_fenced(A, "1", "100"), "OOM"));
    cr_assert_str_eq(everything(), "");
}

/* --- in the queue */

Test(tokens_in_queue, come_with_the_grant)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    cr_assert_str_eq(answered(enqueue_fenced(B, FENCED(B, 10, 100))), A " 0");
    cr_assert_str_eq(end_fenced(A), ":1");
    cr_assert_str_eq(everything(), TOKEN " string \"110\"; " HELD_BY_B);
    cr_assert_str_eq(published(b), "grant 7 5000 110 t");
    cr_assert_str_eq(enqueue_fenced(B, FENCED(B, 10, 100)), "[:120, " NAMES(B) "]",
                     "a copy of it that comes late has others");
    redisFree(b);
}

Test(tokens_in_queue, of_a_grant_are_above_all_before)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire_fenced(A, "1", "500");
    enqueue_fenced(B, FENCED(B, 10, 100));
    end_fenced(A);
    cr_assert_str_eq(published(b), "grant 7 5000 511 t");
    redisFree(b);
}

Test(tokens_in_queue, of_a_grant_may_be_large)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    raw(admin, "SET %s 1234567890123456", TOKEN);
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 1, 0));
    end_fenced(A);
    cr_assert_str_eq(published(b), "grant 7 5000 1234567890123457 t");
    redisFree(b);
}

Test(tokens_in_queue, are_none_for_who_wants_none)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire_fenced(A, "1", "0");
    enqueue(B, TICKET(B));
    end_fenced(A);
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(counter(), "\"1\"");
    redisFree(b);
}

/* A client that uses the lock without tokens does not name the counter. B gets the lock all the same. If it is stopped
 * then, the others wait 5 s. */
Test(tokens_in_queue, are_fetched_by_who_is_granted_it_by_a_plain_end)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 10, 100));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(enqueue_fenced(B, FENCED(B, 10, 100)), "[:110, " NAMES(B) "]");
    cr_assert_str_eq(everything(), TOKEN " string \"110\"; " HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    redisFree(b);
}

Test(tokens_in_queue, are_fetched_by_who_is_granted_it_by_a_plain_try)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    raw(admin, "HSET t %s 1", FOREIGN);
    enqueue_fenced(B, FENCED(B, 10, 100));
    raw(admin, "DEL t");
    cr_assert_str_eq(acquire(30000, A), "[:5000, \"" B "\", :-1]");
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(enqueue_fenced(B, FENCED(B, 10, 100)), "[:110, " NAMES(B) "]");
    redisFree(b);
}

Test(tokens_in_queue, do_not_concern_a_plain_user_without_counter_rights)
{
    redisContext *b = subscribe(INBOX(CLIENT_B)), *mine = user;
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 10, 100));
    raw(admin, "ACL SETUSER plain on >pw resetkeys ~t ~%s &* +@all", QUEUE);
    user = raw_open_as(server, "plain", "pw");
    cr_assert_not_null(strstr(end_fenced(A), "ermission"), "NOPERM, or an older server's words");
    cr_assert_str_eq(release(A, 0), ":1");
    redisFree(user);
    user = mine;
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    redisFree(b);
}

Test(tokens_in_queue, exceed_those_of_earlier_holds_after_any_grant)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire_fenced(A, "10", "500");
    enqueue_fenced(B, FENCED(B, 10, 100));
    cr_assert_str_eq(release(A, 0), ":1");
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    cr_assert_str_eq(enqueue_fenced(B, FENCED(B, 10, 100)), "[:520, " NAMES(B) "]");
    redisFree(b);
}

Test(tokens_in_queue, come_with_a_break)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 10, 100));
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(published(b), "grant 7 5000 110 t");
    redisFree(b);
}

Test(tokens_in_queue, come_with_a_grant_on_a_full_server_too)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 10, 100));
    fill_server();
    cr_assert_str_eq(end_fenced(A), ":1");
    cr_assert_str_eq(published(b), "grant 7 5000 110 t");
    cr_assert_str_eq(raw_holder(admin, LOCK), B);
    redisFree(b);
}

/* Its own command returns the error. */
Test(tokens_in_queue, of_a_counter_of_wrong_type_fail_their_own_acquire)
{
    redisContext *b = subscribe(INBOX(CLIENT_B));
    acquire(30000, A);
    enqueue_fenced(B, FENCED(B, 10, 100));
    raw(admin, "HSET %s f v", TOKEN);
    cr_assert_str_eq(end_fenced(A), ":1");
    cr_assert_str_eq(published(b), "grant 7 5000 0 t");
    const char *before = everything();
    cr_assert_not_null(strstr(enqueue_fenced(B, FENCED(B, 10, 100)), "WRONGTYPE"));
    cr_assert_str_eq(everything(), before);
    cr_assert(about(raw_pttl(admin, LOCK), 5000));
    redisFree(b);
}
