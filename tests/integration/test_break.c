/* hlk_lock_break_holder: the lock is taken from the holder that is named, and from nobody else. */
#include "rwlock_fixture.h"

#include <stdio.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(break_holder, .init = start, .fini = fixture_end, .timeout = 60);

static const char *hold_of(hlk_lock *lock)
{
    static char hold[192];
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK, "%s", hlk_last_error());
    return hold;
}

/* The lock changes hands between a look at it and the break. */
static void spares_the_next_holder(int kind)
{
    char seen[192], now[192], buf[192] = "x";
    size_t lost = fixture_events(HLK_EVENT_LOST, "t"); /* of other kinds */
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL), *operator= fixture_open(NULL);
    hlk_lock *lock = rw_half(client, kind, NULL), *theirs = rw_half(elsewhere, kind, NULL);
    hlk_lock *breaking = rw_half(operator, kind, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    snprintf(seen, sizeof seen, "%s", hold_of(lock));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_break_holder(breaking, seen, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_empty(buf, "nobody holds it: %s", buf);

    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    snprintf(now, sizeof now, "%s", hold_of(theirs));
    cr_assert_eq(hlk_lock_break_holder(breaking, seen, buf, sizeof buf), HLK_NOT_HOLDER, "kind %d", kind);
    cr_assert_str_eq(buf, now);
    cr_assert_not_null(strstr(hlk_last_error(), now), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_extend(theirs, 60000), HLK_OK, "kind %d: %s", kind, hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), lost);

    cr_assert_eq(hlk_lock_break_holder(breaking, now, buf, sizeof buf), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(buf, now);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    cr_assert_eq(hlk_lock_break_holder(breaking, now, NULL, 0), HLK_NOT_HOLDER, "kind %d", kind);
    cr_assert_eq(hlk_lock_extend(theirs, 70000), HLK_LOST);
    cr_assert_eq(hlk_lock_release(theirs), HLK_LOST);
    fixture_close(client);
    fixture_close(elsewhere);
}

Test(break_holder, spares_the_next_holder_of_each_kind)
{
    static const int kinds[] = { HLK_LOCK_PLAIN,  HLK_LOCK_FENCED,        HLK_LOCK_FAIR,
                                 HLK_LOCK_SPIN,   HLK_LOCK_NON_REENTRANT, HLK_LOCK_NON_REENTRANT_FAIR,
                                 HLK_LOCK_STRING, HLK_LOCK_READ,          HLK_LOCK_WRITE };
    server_allow(fixture.server, "redisson_lock_token:{t}");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        spares_the_next_holder(kinds[i]);
}

Test(break_holder, gives_the_lock_to_the_next_waiter)
{
    char hold[192];
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL), *next = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    snprintf(hold, sizeof hold, "%s", hold_of(lock));
    struct actor *waiter = actor_start(next, NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_eq(hlk_lock_break_holder(next, "b983c153-7421-469a-addb-44fb92259a1b:1", NULL, 0), HLK_NOT_HOLDER);
    cr_assert_eq(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}"), 1);
    cr_assert_eq(hlk_lock_break_holder(next, hold, NULL, 0), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* Without a holder it is hlk_lock_break, and names from whom it took it. */
Test(break_holder, names_the_holder_when_any_will_do)
{
    char buf[192], cut[9];
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    raw(fixture.redis, "HSET t " JAVA " 1");
    cr_assert_eq(hlk_lock_break_holder(lock, NULL, buf, sizeof buf), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(buf, JAVA);
    cr_assert_eq(hlk_lock_break_holder(lock, NULL, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_empty(buf);
    raw(fixture.redis, "HSET t " JAVA " 1");
    cr_assert_eq(hlk_lock_break_holder(lock, JAVA, cut, sizeof cut), HLK_OK);
    cr_assert_str_eq(cut, "426394b7");
}

Test(break_holder, refuses_what_is_no_holder)
{
    char buf[192] = "x", longest[193];
    memset(longest, 'h', sizeof longest);
    longest[192] = '\0';
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    raw(fixture.redis, "HSET t " JAVA " 1");
    cr_assert_eq(hlk_lock_break_holder(lock, "", buf, sizeof buf), HLK_E_INVALID);
    cr_assert_str_empty(buf);
    cr_assert_eq(hlk_lock_break_holder(lock, longest, buf, sizeof buf), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_break_holder(NULL, JAVA, buf, sizeof buf), HLK_E_INVALID);
    longest[191] = '\0';
    cr_assert_eq(hlk_lock_break_holder(lock, longest, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_break_holder(lock, JAVA, buf, sizeof buf), HLK_OK);
}

/* --- string: any token */

Test(break_holder, takes_a_string_lock_from_the_token_named)
{
    char token[301], buf[192];
    hlk_lock *lock = rw_half(fixture_open(NULL), HLK_LOCK_STRING, NULL);
    memset(token, 't', sizeof token);
    token[300] = '\0';
    raw(fixture.redis, "SET t %s", token);
    cr_assert_eq(hlk_lock_break_holder(lock, "1f0b6c7e", buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_eq(strlen(buf), 191);
    cr_assert_eq(hlk_lock_break_holder(lock, buf, NULL, 0), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "SET t %b", "", (size_t)0);
    cr_assert_eq(hlk_lock_break_holder(lock, "(empty)", NULL, 0), HLK_OK, "%s", hlk_last_error());
}

/* --- readers: one of them */

Test(break_holder, takes_the_lock_from_one_reader_of_several)
{
    char first[192], second[192], buf[192];
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *one = rw_reader(client), *two = rw_reader(elsewhere), *writing = rw_writer(client);
    cr_assert_eq(hlk_lock_acquire(one, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(two, HLK_NOWAIT), HLK_OK);
    snprintf(first, sizeof first, "%s", hold_of(one));
    snprintf(second, sizeof second, "%s", hold_of(two));
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    cr_assert_eq(hlk_lock_break_holder(writing, first, buf, sizeof buf), HLK_NOT_HOLDER, "nobody writes");
    cr_assert_eq(hlk_lock_break_holder(one, second, buf, sizeof buf), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(buf, second);
    cr_assert_str_eq(rw_mode(), "read");
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 2, "mode, and the other reader");
    cr_assert_eq(raw_int(fixture.redis, "EXISTS {t}:%s:rwlock_timeout:1", second), 0);
    cr_assert_eq(hlk_lock_extend(one, 60000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(two), HLK_LOST);
    cr_assert_not(actor_answered(writer));
    cr_assert_eq(hlk_lock_break_holder(one, second, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_eq(buf, first);
    cr_assert_eq(hlk_lock_break_holder(one, first, buf, sizeof buf), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(actor_end(writer), HLK_OK);
    cr_assert_eq(hlk_lock_release(one), HLK_LOST);
}

/* Beside its write hold a reader is no holder of the read half. */
Test(break_holder, takes_the_lock_from_a_writer_with_its_reads)
{
    char reads[192], writes[192], buf[192];
    hlk_client *client = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client), *writing = rw_writer(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    snprintf(reads, sizeof reads, "%s", hold_of(reading));
    snprintf(writes, sizeof writes, "%s", hold_of(writing));
    cr_assert_eq(hlk_lock_break_holder(writing, reads, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_eq(buf, writes);
    cr_assert_eq(hlk_lock_break_holder(reading, reads, buf, sizeof buf), HLK_NOT_HOLDER);
    cr_assert_str_eq(rw_mode(), "write");
    cr_assert_eq(hlk_lock_break_holder(writing, writes, buf, sizeof buf), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_eq(hlk_lock_release(writing), HLK_LOST);
    cr_assert_eq(hlk_lock_release(reading), HLK_LOST);
}

/* Nobody but Redisson's reader is left, who calls waiters on the channel only: the first of ours has to subscribe. */
Test(break_holder, leaves_no_waiter_behind_redissons_reader_asleep)
{
    char hold[192];
    hlk_client *client = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    snprintf(hold, sizeof hold, "%s", hold_of(reading));
    rw_java_reads(60000);
    struct actor *writer = rw_waiter(rw_writer(fixture_open(NULL)), 0);
    cr_assert_eq(hlk_lock_break_holder(reading, hold, NULL, 0), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_rwlock:{t}"), ":1]") != NULL);
    raw(fixture.redis, "DEL t {t}:" JAVA ":rwlock_timeout:1");
    raw(fixture.redis, "PUBLISH redisson_rwlock:{t} 0");
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(actor_end(writer), HLK_OK);
    cr_assert_eq(hlk_lock_release(reading), HLK_LOST);
}
