/* Our scripts compared with Redisson's recorded transcripts G6 (semaphore), G7 (permits with a lease) and G8 (latch):
 * golden_fixture.h. Where Redisson's script only reads, the recorded line is left out.
 *
 * Intended differences are noted in the steps: Redisson publishes how many permits a call was about, or how many there
 * are in all, where ours publishes how many are free; and "1" for a latch that is deleted, which wakes nobody. */
/* Shows: P49 */
#include "golden_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

GOLDEN_SUITE(golden_counts);

#define HOLD "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define OTHER "7a0c1ff1-0f5c-4d4e-9b58-55a1e4c7a0ee:21"

/* One message on each side. */
static void expect_messages(const char *step, const char *channel, int their_number, int our_number)
{
    char message[128];
    snprintf(message, sizeof message, "[\"message\", \"%s\", \"%d\"]", channel, their_number);
    cr_assert_str_eq(raw_next(theirs.listener), message, "%s", step);
    snprintf(message, sizeof message, "[\"message\", \"%s\", \"%d\"]", channel, our_number);
    cr_assert_str_eq(raw_next(ours.listener), message, "%s", step);
}

/* --- G6 */

#define SEMA "lk:sema"
#define SEMA_QUEUE "hasplock_queue:{lk:sema}"
#define SEMA_CH "redisson_sc:{lk:sema}"

static const char *sema_take(const char *hold, const char *n)
{
    return script_run(ours.redis, HLK_SCRIPT_SEMAPHORE_ACQUIRE, 2, SEMA, SEMA_QUEUE, n, hold, "", "", NULL);
}

static const char *sema_change(const char *what, const char *n, const char *ttl)
{
    static int calls;
    char hold[64]; /* a new one for each call */
    snprintf(hold, sizeof hold, "hlk-a-1-x:%d", ++calls);
    return script_run(ours.redis, HLK_SCRIPT_SEMAPHORE_CHANGE, 2, SEMA, SEMA_QUEUE, what, n, hold, SEMA_CH, "", ttl,
                      NULL);
}

/* The recording has one acquire before the one that waits; its number of permits allows two. */
Test(golden_counts, g6_semaphore)
{
    golden_subscribe(SEMA_CH);
    golden_replay("get " SEMA " | set " SEMA " 2 | PUBLISH " SEMA_CH " 2");
    cr_assert_str_eq(sema_change("try_set", "2", "0"), ":1");
    golden_compare("trySetPermits(2)", SEMA);
    golden_compare_messages("trySetPermits(2)");
    cr_assert_str_eq(sema_change("try_set", "5", "0"), ":0");
    golden_compare("trySetPermits again", SEMA);

    for (int i = 0; i < 2; i++) {
        golden_replay("get " SEMA " | decrby " SEMA " 1");
        cr_assert_str_eq(sema_take(i == 0 ? HOLD : OTHER, "1"), i == 0 ? NAMES(HOLD) : NAMES(OTHER));
        golden_compare("acquire(1)", SEMA);
    }
    cr_assert_str_eq(sema_take("B:2", "1"), "[:1000, \"\", :-1]");
    golden_compare("B acquire waits", SEMA);

    golden_replay("incrby " SEMA " 1 | PUBLISH " SEMA_CH " 1");
    cr_assert_str_eq(sema_change("release", "1", "0"), ":1");
    golden_compare("A release", SEMA);
    golden_compare_messages("A release");
    golden_replay("get " SEMA " | decrby " SEMA " 1");
    cr_assert_str_eq(sema_take("B:2", "1"), NAMES("B:2"));
    golden_compare("B has it", SEMA);
    golden_silent("acquire publishes nothing");

    golden_replay("incrby " SEMA " 2 | PUBLISH " SEMA_CH " 2");
    cr_assert_str_eq(sema_change("release", "2", "0"), ":1");
    golden_compare("release(2)", SEMA);
    golden_compare_messages("release(2)");
    golden_replay("get " SEMA " | set " SEMA " 0");
    cr_assert_str_eq(sema_change("drain", "0", "0"), ":2");
    golden_compare("drain", SEMA);
    golden_replay("get " SEMA " | set " SEMA " 3 | PUBLISH " SEMA_CH " 3");
    cr_assert_str_eq(sema_change("add", "3", "0"), ":3");
    golden_compare("addPermits(3)", SEMA);
    golden_compare_messages("addPermits(3)");
}

Test(golden_counts, g6_semaphore_that_is_missing)
{
    golden_subscribe(SEMA_CH);
    golden_replay("exists " SEMA);
    cr_assert_str_eq(sema_change("release_if", "1", "0"), ":0");
    golden_compare("releaseIfExists missing", SEMA);
    golden_silent("releaseIfExists missing");
    cr_assert_eq(raw_int(ours.redis, "DBSIZE"), 0);

    golden_replay("get " SEMA " | set " SEMA " 1 px 9000 | PUBLISH " SEMA_CH " 1");
    cr_assert_str_eq(sema_change("try_set", "1", "9000"), ":1");
    golden_compare("trySetPermits ttl", SEMA);
    golden_compare_messages("trySetPermits ttl");
}

/* --- G7 */

#define PERMIT "lk:permit"
#define PERMIT_QUEUE "hasplock_queue:{lk:permit}"
#define PERMIT_LEASES "{lk:permit}:timeout"
#define PERMIT_CH "redisson_sc:{lk:permit}"

static long long in_ms(long long ms)
{
    return (long long)raw_int(theirs.redis, "EVAL %s 0", "return redis.call('time')[1]") * 1000 + ms;
}

static const char *permit_take(const char *hold, const char *lease)
{
    return script_run(ours.redis, HLK_SCRIPT_PERMIT_ACQUIRE, 3, PERMIT, PERMIT_QUEUE, PERMIT_LEASES, lease, hold,
                      PERMIT_CH, "0", "", NULL);
}

static const char *permit_change(const char *what, const char *n)
{
    return script_run(ours.redis, HLK_SCRIPT_PERMIT_CHANGE, 3, PERMIT, PERMIT_QUEUE, PERMIT_LEASES, what, n, PERMIT_CH,
                      NULL);
}

static const char *permit_release(const char *hold)
{
    return script_run(ours.redis, HLK_SCRIPT_PERMIT_RELEASE, 3, PERMIT, PERMIT_QUEUE, PERMIT_LEASES, hold, PERMIT_CH,
                      "0", "0", "", NULL);
}

static void permit_compare(const char *step)
{
    golden_compare(step, PERMIT);
    golden_compare(step, PERMIT_LEASES);
}

Test(golden_counts, g7_permit)
{
    golden_subscribe(PERMIT_CH);
    golden_replay("get " PERMIT " | set " PERMIT " 1 | PUBLISH " PERMIT_CH " 1");
    cr_assert_str_eq(permit_change("try_set", "1"), ":1");
    permit_compare("trySetPermits(1)");
    golden_compare_messages("trySetPermits(1)");

    golden_replay("decrby " PERMIT " 1 | zadd " PERMIT_LEASES " %lld " HOLD, in_ms(20000));
    cr_assert_str_eq(permit_take(HOLD, "20000"), NAMES(HOLD));
    permit_compare("acquire with a lease");
    int ttl = 0; /* theirs answers with the end of the lease */
    cr_assert_eq(sscanf(permit_take(OTHER, "30000"), "[:%d, \"1\", :-1, :1]", &ttl), 1);
    cr_assert(ttl > 0 && ttl <= 1000);
    permit_compare("B tryAcquire");

    golden_replay("zadd " PERMIT_LEASES " %lld " HOLD, in_ms(60000));
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_PERMIT_EXTEND, 1, PERMIT_LEASES, HOLD, "1", "60000", NULL),
                     NAMES(HOLD));
    permit_compare("updateLeaseTime");

    golden_replay("zrem " PERMIT_LEASES " " HOLD " | incrby " PERMIT " 1 | PUBLISH " PERMIT_CH " 1");
    cr_assert_str_eq(permit_release(HOLD), ":1");
    permit_compare("A release");
    golden_compare_messages("A release");
    golden_replay("decrby " PERMIT " 1 | zadd " PERMIT_LEASES " %lld " OTHER, in_ms(30000));
    cr_assert_str_eq(permit_take(OTHER, "30000"), NAMES(OTHER));
    permit_compare("B has it");
    cr_assert_str_eq(permit_release(HOLD), ":0");
    permit_compare("A release again");
    golden_silent("A release again");
}

/* Redisson publishes each permit that came back, and then takes it: its waiters wake for nothing. Its permit without a
 * lease has the watchdog's in ours. */
Test(golden_counts, g7_permit_whose_lease_is_over)
{
    golden_subscribe(PERMIT_CH);
    golden_replay("set " PERMIT " 0 | zadd " PERMIT_LEASES " 1000 " OTHER);
    raw(ours.redis, "SET " PERMIT " 0");
    raw(ours.redis, "ZADD " PERMIT_LEASES " 1000 " OTHER);
    golden_replay("zrem " PERMIT_LEASES " " OTHER " | incrby " PERMIT " 1 | decrby " PERMIT " 1 | zadd " PERMIT_LEASES
                  " %lld " HOLD,
                  in_ms(30000));
    cr_assert_str_eq(permit_take(HOLD, "30000"), NAMES(HOLD));
    permit_compare("A acquire after B expires");
    golden_silent("no permit is free");
}

Test(golden_counts, g7_numbers)
{
    golden_subscribe(PERMIT_CH);
    golden_replay("set " PERMIT " 0 | zadd " PERMIT_LEASES " %lld " HOLD, in_ms(30000));
    raw(ours.redis, "SET " PERMIT " 1");
    permit_take(HOLD, "30000");

    golden_replay("incrby " PERMIT " 2 | PUBLISH " PERMIT_CH " 3");
    cr_assert_str_eq(permit_change("set", "3"), ":1");
    permit_compare("setPermits(3)");
    expect_messages("setPermits(3)", PERMIT_CH, 3, 2);
    cr_assert_str_eq(permit_change("get", "0"), "[:2, :1, :0]");
    permit_compare("getPermits, acquiredPermits, availablePermits");

    golden_replay("get " PERMIT " | set " PERMIT " 3 | PUBLISH " PERMIT_CH " 1");
    cr_assert_str_eq(permit_change("add", "1"), ":1");
    permit_compare("addPermits(1)");
    expect_messages("addPermits(1)", PERMIT_CH, 1, 3);

    golden_replay("zrem " PERMIT_LEASES " " HOLD " | incrby " PERMIT " 1 | PUBLISH " PERMIT_CH " 4");
    cr_assert_str_eq(permit_release(HOLD), ":1");
    permit_compare("tryRelease");
    golden_compare_messages("tryRelease");
}

/* --- G8 */

#define LATCH "lk:latch"
#define LATCH_NOTES "hasplock_queue:{lk:latch}" /* ours alone */
#define LATCH_CH "redisson_countdownlatch__channel__{lk:latch}"

static const char *latch_down(void)
{
    return script_run(ours.redis, HLK_SCRIPT_LATCH_DOWN, 2, LATCH, LATCH_NOTES, "1", LATCH_CH, NULL);
}

static const char *latch_set(const char *count)
{
    return script_run(ours.redis, HLK_SCRIPT_LATCH_SET, 1, LATCH, count, LATCH_CH, NULL);
}

static const char *latch_left(void)
{
    return script_run(ours.redis, HLK_SCRIPT_LATCH_AWAIT, 2, LATCH, LATCH_NOTES, "", NULL);
}

/* Redisson counts down with decr, and has a key of -1 for a moment when the latch is missing. */
Test(golden_counts, g8_latch)
{
    golden_subscribe(LATCH_CH);
    golden_replay("exists " LATCH " | set " LATCH " 2 | PUBLISH " LATCH_CH " 1");
    cr_assert_str_eq(latch_set("2"), ":1");
    golden_compare("trySetCount(2)", LATCH);
    golden_compare_messages("trySetCount(2)");
    cr_assert_str_eq(latch_set("5"), ":0");
    golden_compare("trySetCount again", LATCH);
    cr_assert_str_eq(latch_left(), "[\"2\", \"0\"]");
    cr_assert_str_eq(golden_replay("GET " LATCH), "\"2\"", "B await");

    golden_replay("decr " LATCH);
    cr_assert_str_eq(latch_down(), ":1");
    golden_compare("countDown", LATCH);
    golden_silent("countDown");
    golden_replay("decr " LATCH " | del " LATCH " | PUBLISH " LATCH_CH " 0");
    cr_assert_str_eq(latch_down(), ":0");
    golden_compare("countDown to 0", LATCH);
    golden_compare_messages("countDown to 0");
    cr_assert_str_eq(latch_left(), "\"0\"", "B need not wait");

    golden_replay("decr " LATCH " | del " LATCH);
    cr_assert_str_eq(latch_down(), ":0");
    golden_compare("countDown on missing", LATCH);
    golden_silent("countDown on missing");
    cr_assert_eq(raw_int(ours.redis, "DBSIZE"), 1, "the notes");
}

/* Redisson's "1" leaves its waiters blocked: they take it for a new count. */
Test(golden_counts, g8_latch_that_is_deleted)
{
    golden_replay("set " LATCH " 1");
    cr_assert_str_eq(latch_set("1"), ":1");
    golden_subscribe(LATCH_CH);
    golden_replay("del " LATCH " | PUBLISH " LATCH_CH " 1");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LATCH_DELETE, 2, LATCH, LATCH_NOTES, LATCH_CH, NULL), ":1");
    golden_compare("delete()", LATCH);
    expect_messages("delete()", LATCH_CH, 1, 0);
}
