/* A round trip that raises a lease: for how long the release of its hold is owed, and what a late reply means. The test
 * has the server's end. */
#include "lease/entry_lose.h"
#include "lease/hold_end.h"
#include "lease/raise.h"
#include "script/release_list.h"

#include "watchdog_fixture.h"

enum { HOUR = 3600000 };

static struct hlk_raise longer;
static struct hlk_command cmd;
static redisReply answer;

static void init(void)
{
    waiters_begin();
    memset(&longer, 0, sizeof longer);
    memset(&cmd, 0, sizeof cmd);
    peer_up(&unit.peer);
}

TestSuite(raise, .init = init, .fini = waiters_end, .timeout = 20);

static bool begins(int64_t lease_ms)
{
    cmd.client_id = unit.table.client_id;
    cmd.hold = e->hold.id;
    cmd.count = 1;
    cmd.lease_ms = lease_ms;
    cmd.call.sent_ns = hlk_clock_ns();
    return hlk_raise_begin(&longer, e, &cmd, false);
}

static void is_answered_by(redisReply reply)
{
    answer = reply;
    cmd.call.reply = &answer;
    atomic_store(&cmd.call.end, HLK_CALL_ANSWERED);
}

static void is_refused(void)
{
    is_answered_by((redisReply){ .type = REDIS_REPLY_INTEGER, .integer = 0 });
}

static void is_granted(void)
{
    static char hold[HLK_FIELD_MAX];
    size_t len = hlk_field(hold, cmd.client_id, cmd.hold);
    is_answered_by((redisReply){ .type = REDIS_REPLY_STRING, .str = hold, .len = len });
}

/* For how long the release would be owed if the hold was lost now. */
static int64_t owed_ms(void)
{
    lose();
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    return record.until_ms - unit_now_ms();
}

Test(raise, that_has_no_answer_is_counted_for_the_end)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    pass(500);
    cr_assert_eq(owed_ms(), 1500 + HOUR);
    hlk_raise_end(&longer, &cmd);
}

Test(raise, in_doubt_is_counted_when_its_caller_has_gone)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    cmd.doubt = true;
    hlk_raise_end(&longer, &cmd);
    longer = (struct hlk_raise){ .entry = NULL };
    cr_assert(begins(1000));
    atomic_store(&cmd.call.end, HLK_CALL_BROKEN);
    cmd.doubt = false;
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(owed_ms(), 2000 + HOUR + 1000, "each may run in the last moment");
}

Test(raise, that_never_ran_is_not_counted)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    hlk_raise_end(&longer, &cmd); /* it was not sent */
    longer = (struct hlk_raise){ .entry = NULL };
    cr_assert(begins(HOUR));
    atomic_store(&cmd.call.end, HLK_CALL_UNSENT);
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(owed_ms(), 2000);
}

Test(raise, that_is_answered_counts_from_its_answer)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(10000));
    pass(500);
    is_granted();
    cr_assert(hlk_raise_answer(&longer, &cmd));
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms() - 500, 10000));
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(owed_ms(), 10000, "it may have run when its answer came");
}

/* Its caller has left. The holder counts on no more than before, but the release on what Redis has. */
Test(raise, that_is_answered_late_counts_for_the_end_alone)
{
    hold_fixed(&ann, 2000);
    int64_t until = e->hold.lease.until_ms;
    cr_assert(begins(10000));
    pass(500);
    is_granted();
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(e->hold.lease.until_ms, until);
    cr_assert_eq(owed_ms(), 10000);
}

Test(raise, of_a_hold_that_is_over_is_not_sent)
{
    hold_fixed(&ann, 1000);
    pass(e->hold.lease.until_ms - unit_now_ms());
    cr_assert_not(begins(HOUR));
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_not(begins(HOUR));
    hlk_raise_end(&longer, &cmd);
}

Test(raise, that_finds_nothing_tells_the_loss)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    is_refused();
    cr_assert_not(hlk_raise_answer(&longer, &cmd));
    hlk_raise_end(&longer, &cmd);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
}

/* --- a reply "raised" for a hold that is over */

static void lose_and_give_up_the_end(int64_t after_ms)
{
    lose(); /* its release was not started */
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    pass(after_ms);
    cr_assert_eq(hear(), 0);
}

Test(raise, of_what_is_over_starts_the_end_that_nobody_owes)
{
    hold_fixed(&ann, 2000);
    uint64_t h = e->hold.id;
    cr_assert(begins(HOUR));
    lose_and_give_up_the_end(5000);
    is_granted();
    cr_assert_not(hlk_raise_answer(&longer, &cmd));
    cr_assert_eq(hear(), 1);
    cr_assert(hlk_releases_has(&unit.node.releases, h));
    peer_answers(&unit.peer, ":1\r\n");
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(hear(), 0, "once");
}

Test(raise, of_what_is_over_starts_the_end_without_its_caller)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    lose_and_give_up_the_end(5000);
    is_granted();
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(hear(), 1);
    peer_answers(&unit.peer, ":1\r\n");
}

Test(raise, of_what_is_over_leaves_the_end_to_one_on_its_way)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    is_granted();
    cr_assert_not(hlk_raise_answer(&longer, &cmd)); /* a release is about to be started */
    cr_assert_eq(hear(), 0);
    hlk_hold_end(e, &record);
    hlk_entry_release_finish(e);
    cr_assert_eq(hear(), 1);
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(hear(), 0);
    peer_answers(&unit.peer, ":1\r\n");
}

Test(raise, that_finds_nothing_starts_no_end)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    lose_and_give_up_the_end(5000);
    is_refused();
    cr_assert_not(hlk_raise_answer(&longer, &cmd));
    hlk_raise_end(&longer, &cmd);
    cr_assert_eq(hear(), 0);
}

/* It may have run or not. */
Test(raise, that_reads_anothers_answer_is_lost_and_counted)
{
    hold_fixed(&ann, 2000);
    cr_assert(begins(HOUR));
    cmd.pipeline = unit.peer.pipeline;
    cmd.call.epoch = unit.peer.pipeline->epoch;
    is_granted();
    cmd.hold++;
    cr_assert_not(hlk_raise_answer(&longer, &cmd));
    hlk_raise_end(&longer, &cmd);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(e->hold.lease.raising_ms, HOUR);
    peer_reads(&unit.peer);
    cr_assert_eq(unit.peer.pipeline->state, HLK_PIPELINE_DOWN);
    let_go(&ann);
}

/* --- renewals, which are raises too */

Test(raise, by_a_renewal_is_counted_until_it_is_answered)
{
    hold(&ann);
    pass(LEASE / 3);
    renew();
    cr_assert_eq(e->hold.lease.raising_ms, LEASE);
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.raising_ms, 0);
    pass(LEASE / 3);
    renew();
    peer_answers(&unit.peer, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    cr_assert_eq(e->hold.lease.raising_ms, 0);
    pass(LEASE / 10);
    renew();
    peer_answers(&unit.peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_eq(hear(), 1);
    cr_assert_eq(e->hold.lease.raising_ms, LEASE);
    answer_renewal(":1\r\n");
    cr_assert_eq(e->hold.lease.raising_ms, 0);
    release(&ann);
}

Test(raise, by_a_renewal_in_doubt_is_counted)
{
    hold(&ann);
    pass(LEASE / 3);
    renew();
    peer_breaks(&unit.peer);
    cr_assert_eq(owed_ms(), LEASE - LEASE / 3 + LEASE);
}

Test(raise, by_a_renewal_that_was_not_sent_is_not_counted)
{
    hold(&ann);
    peer_breaks(&unit.peer);
    pass(LEASE / 3);
    fire();
    flush();
    cr_assert_eq(e->hold.lease.raising_ms, 0);
    cr_assert_eq(owed_ms(), LEASE - LEASE / 3);
}
