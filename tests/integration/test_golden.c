/* Our scripts compared with Redisson's recorded transcripts G1 and G2 (golden_fixture.h). The unlock latch (SET, GET of
 * redisson_unlock_latch...) is used only by Redisson's retries and is left out.
 *
 * Two intended differences are noted in the steps: the release of a nested hold leaves the ttl as it is, and nothing is
 * published without a subscriber. */
#include "golden_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GOLDEN_SUITE(golden);

#define PLAIN "lk:plain"
#define PLAIN_QUEUE "hasplock_queue:{lk:plain}"
#define PLAIN_TOKEN "redisson_lock_token:{lk:plain}"
#define PLAIN_CH "redisson_lock__channel:{lk:plain}"
#define HOLD "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define OTHER "7a0c1ff1-0f5c-4d4e-9b58-55a1e4c7a0ee:21"

Test(golden, g1_lock)
{
    golden_replay("exists " PLAIN " | hincrby " PLAIN " " HOLD " 1 | pexpire " PLAIN " 30000");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_ACQUIRE, 2, PLAIN, PLAIN_QUEUE, "30000", HOLD, NULL),
                     NAMES(HOLD));
    const char *inside = golden_ran_inside();
    cr_assert_not_null(strstr(inside, "\"hset\" \"" PLAIN "\" \"" HOLD "\" \"1\""), "%s", inside);
    cr_assert_not_null(strstr(inside, "\"pexpire\" \"" PLAIN "\" \"30000\""), "%s", inside);
    golden_compare("lock", PLAIN);
}

static void lock_both(const char *lock, const char *queue, const char *lease, const char *hold)
{
    char line[512];
    snprintf(line, sizeof line, "hincrby %s %s 1 | pexpire %s %s", lock, hold, lock, lease);
    golden_replay("%s", line);
    snprintf(line, sizeof line, "\"%s\"", hold);
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_ACQUIRE, 2, lock, queue, lease, hold, NULL), line);
    golden_compare("lock", lock);
}

Test(golden, g1_reenter_and_unlock_to_the_end)
{
    golden_subscribe(PLAIN_CH);
    lock_both(PLAIN, PLAIN_QUEUE, "30000", HOLD);

    golden_replay("exists " PLAIN " | hexists " PLAIN " " HOLD " | hincrby " PLAIN " " HOLD " 1 | pexpire " PLAIN
                  " 30000");
    script_run(ours.redis, HLK_SCRIPT_LOCK_REACQUIRE, 1, PLAIN, HOLD, "2", "30000", NULL);
    golden_compare("reenter", PLAIN);

    /* Theirs sets the ttl to the lease again, ours leaves it. That is the same when no time has passed. */
    golden_replay("hexists " PLAIN " " HOLD " | hincrby " PLAIN " " HOLD " -1 | pexpire " PLAIN " 30000");
    script_run(ours.redis, HLK_SCRIPT_LOCK_REACQUIRE, 1, PLAIN, HOLD, "1", "0", NULL);
    golden_compare("unlock1", PLAIN);

    golden_replay("hexists " PLAIN " " HOLD " | hincrby " PLAIN " " HOLD " -1 | del " PLAIN " | PUBLISH " PLAIN_CH
                  " 0");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_RELEASE, 2, PLAIN, PLAIN_QUEUE, HOLD, PLAIN_CH, "0", NULL),
                     ":1");
    golden_compare("unlock2", PLAIN);
    golden_compare_messages("unlock2");
    const char *inside = golden_ran_inside();
    cr_assert_not_null(strstr(inside, "\"publish\" \"" PLAIN_CH "\" \"0\""), "%s", inside);
}

/* Their nil is our 0: nothing was held, changed or published. */
Test(golden, g1_unlock_when_not_held)
{
    golden_subscribe(PLAIN_CH);
    golden_replay("hexists " PLAIN " " HOLD);
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_RELEASE, 2, PLAIN, PLAIN_QUEUE, HOLD, PLAIN_CH, "0", NULL),
                     ":0");
    golden_compare("unlock when not held", PLAIN);
    cr_assert_eq(raw_int(ours.redis, "DBSIZE"), 0);
    golden_silent("unlock when not held");
}

Test(golden, g1_force_unlock_on_held)
{
    golden_subscribe(PLAIN_CH);
    lock_both(PLAIN, PLAIN_QUEUE, "30000", HOLD);
    golden_replay("del " PLAIN " | PUBLISH " PLAIN_CH " 0");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_BREAK, 3, PLAIN, PLAIN_QUEUE, PLAIN_TOKEN, PLAIN_CH, NULL),
                     "\"" HOLD "\"");
    golden_compare("forceUnlock", PLAIN);
    golden_compare_messages("forceUnlock");
}

#define CONTENDED "lk:contended"
#define CONTENDED_QUEUE "hasplock_queue:{lk:contended}"
#define CONTENDED_TOKEN "redisson_lock_token:{lk:contended}"
#define CONTENDED_CH "redisson_lock__channel:{lk:contended}"

Test(golden, g2_contended)
{
    long long ttl = 0;
    char holder[128] = "";
    lock_both(CONTENDED, CONTENDED_QUEUE, "5000", HOLD);

    /* B sends, subscribes, sends again. The reply has A's ttl (theirs is only the number, ours also names the
     * holder). */
    for (int i = 0; i < 2; i++) {
        int64_t theirs_left = raw_pttl(theirs.redis, CONTENDED);
        const char *reply =
            script_run(ours.redis, HLK_SCRIPT_LOCK_ACQUIRE, 2, CONTENDED, CONTENDED_QUEUE, "30000", OTHER, NULL);
        cr_assert_eq(sscanf(reply, "[:%lld, \"%127[^\"]\"]", &ttl, holder), 2, "%s", reply);
        cr_assert(ttl > 0 && ttl <= 5000 && llabs(ttl - theirs_left) < 1000);
        cr_assert_str_eq(holder, HOLD);
        golden_compare("B lock() waits", CONTENDED);
        if (i == 0)
            golden_subscribe(CONTENDED_CH);
    }

    golden_replay("hexists " CONTENDED " " HOLD " | hincrby " CONTENDED " " HOLD " -1 | del " CONTENDED
                  " | PUBLISH " CONTENDED_CH " 0");
    cr_assert_str_eq(
        script_run(ours.redis, HLK_SCRIPT_LOCK_RELEASE, 2, CONTENDED, CONTENDED_QUEUE, HOLD, CONTENDED_CH, "0", NULL),
        ":1");
    golden_compare("A unlock", CONTENDED);
    golden_compare_messages("A unlock");

    golden_replay("exists " CONTENDED " | hincrby " CONTENDED " " OTHER " 1 | pexpire " CONTENDED " 30000");
    cr_assert_str_eq(
        script_run(ours.redis, HLK_SCRIPT_LOCK_ACQUIRE, 2, CONTENDED, CONTENDED_QUEUE, "30000", OTHER, NULL),
        NAMES(OTHER));
    golden_compare("B has it", CONTENDED);

    golden_replay("del " CONTENDED " | PUBLISH " CONTENDED_CH " 0");
    cr_assert_str_eq(script_run(ours.redis, HLK_SCRIPT_LOCK_BREAK, 3, CONTENDED, CONTENDED_QUEUE, CONTENDED_TOKEN,
                                CONTENDED_CH, NULL),
                     "\"" OTHER "\"");
    golden_compare("B force", CONTENDED);
    golden_compare_messages("B force");
}

/* The channel's name by Redisson's rule: braces are added unless the name contains one. */
Test(golden, names_of_channels)
{
    char channel[64];
    raw_channel(channel, sizeof channel, "lk:plain");
    cr_assert_str_eq(channel, "redisson_lock__channel:{lk:plain}");
    raw_channel(channel, sizeof channel, "{tag}l");
    cr_assert_str_eq(channel, "redisson_lock__channel:{tag}l");
    raw_channel(channel, sizeof channel, "a{b");
    cr_assert_str_eq(channel, "redisson_lock__channel:a{b");
}
