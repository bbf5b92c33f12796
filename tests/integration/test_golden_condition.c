/* What the scripts of a condition run, command by command: older and newer clients meet at the same keys. Redisson has
 * no such type, so there is no transcript of its own beside them (golden_fixture.h). */
/* Shows: P54 */
#include "golden_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

GOLDEN_SUITE(golden_condition);

#define WAITERS "hasplock_condition:{lk:c}"
#define LEASES "hasplock_condition_leases:{lk:c}"
#define ME "hlk-a-1-x:5"
#define OTHER "hlk-b-2-y:7"
#define CHANNEL(who) WAITERS ":" who

/* The commands contain these texts, in this order; NULL at the end. */
static void expect_inside(const char *step, const char *const texts[])
{
    const char *inside = golden_ran_inside(), *at = inside;
    for (; *texts; texts++) {
        const char *found = strstr(at, *texts);
        cr_assert_not_null(found, "%s: no %s in %s", step, *texts, inside);
        at = found + strlen(*texts);
    }
}

static const char *run(enum hlk_script script, const char *first, const char *second)
{
    return script_run(ours.redis, script, 2, WAITERS, LEASES, first, second, NULL);
}

static void enroll(const char *who)
{
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ENROLL, who, "30000"), ":1");
}

static int64_t left_ms(const char *who)
{
    return raw_int(ours.redis, "ZSCORE " LEASES " %s", who) -
           raw_int(ours.redis, "EVAL %s 0",
                   "local time = redis.call('time') return time[1] * 1000 + math.floor(time[2] / 1000)");
}

Test(golden_condition, enrolls_once_and_in_order)
{
    enroll(ME);
    expect_inside("enroll", (const char *const[]){
                                "\"zscore\" \"" LEASES "\" \"" ME "\"", "\"zadd\" \"" WAITERS "\" \"nx\"", "\"" ME "\"",
                                "\"zadd\" \"" LEASES "\"", "\"" ME "\"", "\"pexpire\" \"" WAITERS "\" \"600000\"",
                                "\"pexpire\" \"" LEASES "\" \"600000\"", NULL });
    cr_assert_gt(left_ms(ME), 20000);
    raw(ours.redis, "ZADD " WAITERS " 9000000000000000 " ME); /* the clock was set back since */
    enroll(OTHER);
    enroll(ME);
    cr_assert_str_eq(raw(ours.redis, "ZRANGE " WAITERS " 0 -1"), "[\"" ME "\", \"" OTHER "\"]");
    cr_assert_eq(raw_int(ours.redis, "ZSCORE " WAITERS " " OTHER), 9000000000000001);
}

Test(golden_condition, a_signal_is_a_zrem_and_a_message)
{
    golden_subscribe(CHANNEL(OTHER));
    enroll(ME);
    enroll(OTHER);
    golden_ran_inside();
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_SIGNAL, 2, WAITERS, LEASES, NULL), ":1");
    expect_inside("signal", (const char *const[]){ "\"zrange\" \"" WAITERS "\" \"0\" \"7\"",
                                                   "\"zmscore\" \"" LEASES "\" \"" ME "\" \"" OTHER "\"",
                                                   "\"pubsub\" \"numsub\" \"" CHANNEL(ME) "\"",
                                                   "\"zrem\" \"" WAITERS "\" \"" OTHER "\"",
                                                   "\"publish\" \"" CHANNEL(OTHER) "\" \"7\"", NULL });
    cr_assert_str_eq(raw_next(ours.listener), "[\"message\", \"" CHANNEL(OTHER) "\", \"7\"]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, OTHER, "30000"), "[:1]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, ME, "30000"), "[:0, \"1 waiting\"]");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_DONE, 1, LEASES, OTHER, NULL), ":1");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_DONE, 1, LEASES, OTHER, NULL), ":0");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, OTHER, "30000"), "[:2]");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_QUERY, 2, WAITERS, LEASES, NULL), ":1");
}

/* The first one does not listen, and nobody else does. */
Test(golden_condition, a_signal_goes_to_one_that_has_just_come)
{
    enroll(ME);
    enroll(OTHER);
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_SIGNAL, 2, WAITERS, LEASES, NULL), ":1");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, ME, "30000"), "[:1]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_LEAVE, ME, "timeout"), "[:1]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_LEAVE, ME, "left"), "[:0]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, OTHER, "30000"), "[:1]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_LEAVE, OTHER, "left"), "[:0]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_LEAVE, OTHER, "timeout"), "[:2]");
    cr_assert_eq(raw_int(ours.redis, "DBSIZE"), 0);
}

/* The lease of a waiter is over: dead ones go, and the signal of a dead one that was signalled goes on. */
Test(golden_condition, a_question_passes_on_what_the_dead_had)
{
    enroll(ME);
    enroll(OTHER);
    enroll("hlk-dead-1-x:1");
    raw(ours.redis, "ZADD " LEASES " 1 hlk-dead-1-x:1 1 hlk-dead-1-x:2");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, OTHER, "30000"), "[:0, \"2 waiting\"]");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, ME, "30000"), "[:1]");
    cr_assert_str_eq(raw(ours.redis, "ZRANGE " WAITERS " 0 -1"), "[\"" OTHER "\"]");
    cr_assert_eq(raw_int(ours.redis, "ZCARD " LEASES), 2);
    raw(ours.redis, "ZADD " LEASES " 1 hlk-dead-1-x:2"); /* and to the one that asks, if it is the only one */
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, OTHER, "30000"), "[:1]");
}

/* 300 dead ones are before it. */
Test(golden_condition, a_signal_finds_one_behind_many_dead)
{
    char who[32];
    for (int i = 1; i <= 300; i++) {
        snprintf(who, sizeof who, "hlk-dead-1-x:%d", i);
        raw(ours.redis, "ZADD " WAITERS " %d %s", i, who);
        raw(ours.redis, "ZADD " LEASES " 1 %s", who);
    }
    enroll(ME);
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_SIGNAL, 2, WAITERS, LEASES, NULL), ":1");
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, ME, "30000"), "[:1]");
    cr_assert_eq(raw_int(ours.redis, "EXISTS " WAITERS), 0);
    cr_assert_eq(raw_int(ours.redis, "ZCARD " LEASES), 1);
}

Test(golden_condition, a_broadcast_leaves_no_record)
{
    golden_subscribe(CHANNEL(ME));
    enroll(ME);
    enroll(OTHER);
    raw(ours.redis, "ZADD " LEASES " 1 hlk-dead-1-x:2"); /* signalled, and dead: nobody needs that any more */
    golden_ran_inside();
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_CONDITION_BROADCAST, 2, WAITERS, LEASES, NULL), ":2");
    expect_inside("broadcast", (const char *const[]){ "\"del\" \"" WAITERS "\" \"" LEASES "\"",
                                                      "\"publish\" \"" CHANNEL(ME) "\" \"5\"",
                                                      "\"publish\" \"" CHANNEL(OTHER) "\" \"7\"", NULL });
    cr_assert_str_eq(raw_next(ours.listener), "[\"message\", \"" CHANNEL(ME) "\", \"5\"]");
    cr_assert_eq(raw_int(ours.redis, "DBSIZE"), 0);
    cr_assert_str_eq(run(HLK_SCRIPT_CONDITION_ASK, ME, "30000"), "[:2]");
}
