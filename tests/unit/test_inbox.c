/* Messages in the client's inbox about its locks: grants, yield windows and breaks, and invalid messages. */
/* Shows: P10, P23 */
#include "entry_fixture.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/inbox.h"
#include "lease/local_queue.h"
#include "script/release_list.h"

static int warnings;

static void on_log(int level, const char *line, void *ctx)
{
    (void)line, (void)ctx;
    warnings += level == HLK_LOG_WARN;
}

static void init(void)
{
    waiters_begin();
    peer_up(&unit.peer);
    unit.log.fn = on_log;
    warnings = 0;
}

TestSuite(inbox, .init = init, .fini = waiters_end, .timeout = 20);

static void hear_bytes(const char *inbox_message, size_t len)
{
    char *copy = hlk_mem_memdup(inbox_message, len); /* a NUL only after it */
    copy[len] = '7';
    hlk_inbox_receive(&unit.node, copy, len);
    hlk_mem_free(copy);
}

static void hear(const char *what, uint64_t h, const char *rest)
{
    char inbox_message[1024];
    int len = snprintf(inbox_message, sizeof inbox_message, "%s %llu %s", what, (unsigned long long)h, rest);
    hear_bytes(inbox_message, (size_t)len);
}

static uint64_t handed_back(void)
{
    return atomic_load(&unit.table.counts.handed_back);
}

static const char *sent(void)
{
    return peer_hears(&unit.peer);
}

static void leaves(struct fake_waiter *p)
{
    if (hlk_entry_leave(e, &p->waiter, false))
        hlk_entry_leave_finish(e);
}

/* --- grants --- */

Test(inbox, a_grant_is_the_waiters)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "5000 0 a");
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), 5000));
    cr_assert_eq(handed_back(), 0u);
    cr_assert_str_eq(sent(), "");
    release(&ann);
}

Test(inbox, a_grant_says_how_long_its_ticket_was_in_queue)
{
    uint64_t h = wait_in_queue(&ann);
    int64_t first = unit_now_ms();
    peer_passes(&unit.peer, 3000);
    hear("grant", h, "5000+3000 0 a");
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(e->hold.lease.until_ms, hlk_lease_until(first + 3000 - 62, 5000));
    release(&ann);
}

Test(inbox, a_grant_has_its_token)
{
    ann.waiter.fenced = true;
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "5000 4711 a");
    cr_assert_eq(token_of(&ann), 4711);
    release(&ann);
}

Test(inbox, a_grant_of_a_lock_that_nobody_knows_is_handed_back)
{
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(handed_back(), 1u);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u);
    const char *end = sent();
    cr_assert_not_null(strstr(end, "$5\r\nother\r\n"));
    cr_assert_not_null(strstr(end, "hlk-t-1-a:7\r\n"));
    cr_assert_not_null(strstr(end, "\r\n$1\r\n2\r\n")); /* two keys: without a token */
    peer_answers(&unit.peer, ":1\r\n");
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 0u);
    hlk_loop_tick(unit.peer.loop);
    cr_assert_eq(unit.node.entries.count, 1u);
}

/* The release may be sent again (NOSCRIPT), behind this one. Then its holder would get LOST. */
Test(inbox, a_grant_of_an_ending_hold_is_left_to_its_release)
{
    hear("grant", 7, "5000 0 other");
    (void)sent();
    hear("grant", 7, "5000 0 other");
    cr_assert_str_eq(sent(), "");
    cr_assert_eq(handed_back(), 1u);
    peer_answers(&unit.peer, ":1\r\n");
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(handed_back(), 2u);
    (void)sent();
    peer_answers(&unit.peer, ":1\r\n");
}

Test(inbox, a_grant_of_a_wait_that_is_over_is_handed_back)
{
    uint64_t h = wait_in_queue(&ann);
    leaves(&ann);
    hear("grant", h, "5000 12 a");
    cr_assert_eq(handed_back(), 1u);
    const char *end = sent();
    cr_assert_not_null(strstr(end, "redisson_lock_token:{a}")); /* for the waiters to which it is passed on */
    peer_answers(&unit.peer, ":1\r\n");
}

Test(inbox, a_grant_for_another_hold_leaves_the_wait_alone)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h + 1, "5000 0 a");
    cr_assert_eq(handed_back(), 1u);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    cr_assert_eq(ann.woken + ann.asked, 0);
    peer_answers(&unit.peer, ":1\r\n");
    leaves(&ann);
}

Test(inbox, a_grant_that_cannot_be_handed_back_runs_out)
{
    hlk_mem_fail_after(2); /* the first allocation is the copy above */
    hear("grant", 7, "5000 0 other");
    hlk_mem_fail_after(-1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_str_eq(sent(), "");
}

Test(inbox, a_grant_is_handed_back_until_it_has_run_out)
{
    peer_breaks(&unit.peer);
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u);
    peer_passes(&unit.peer, 5000);
    unit.node.releases.tick.run(&unit.node.releases.tick, unit_now_ms());
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u);
    peer_passes(&unit.peer, 101);
    unit.node.releases.tick.run(&unit.node.releases.tick, unit_now_ms());
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 0u);
}

/* --- forged messages: a user that may publish to the inbox can send anything --- */

/* Shows: S26 */
Test(inbox, a_number_out_of_range_makes_no_inbox_message)
{
    static const char *const rests[] = { "9223372036854775807 0 a",
                                         "99999999999999999999 0 a",
                                         "31622400001 0 a",
                                         "5000 99999999999999999999 a",
                                         "-1 0 a",
                                         "5000 -1 a" };
    uint64_t h = wait_in_queue(&ann);
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        hear("grant", h, rests[i]);
        cr_assert_eq(warnings, (int)i + 1, "%s", rests[i]);
    }
    hear("grant", UINT64_MAX, "5000 0 a");
    cr_assert_eq(warnings, (int)(sizeof rests / sizeof *rests) + 1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    leaves(&ann);
}

Test(inbox, the_longest_lease_is_granted)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "31622400000 9223372036854775807 a");
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    release(&ann);
}

/* Each costs memory until its release is answered. */
/* Shows: S26 */
Test(inbox, a_flood_of_grants_is_handed_back_up_to_a_limit)
{
    char rest[64], *answers = hlk_mem_zalloc(4 * HLK_HAND_BACKS_MOST + 1);
    for (unsigned i = 0; i < 2 * HLK_HAND_BACKS_MOST; i++) {
        (void)snprintf(rest, sizeof rest, "5000 0 other%u", i);
        hear("grant", i + 1, rest);
        (void)sent();
    }
    cr_assert_eq(handed_back(), (uint64_t)HLK_HAND_BACKS_MOST);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), (size_t)HLK_HAND_BACKS_MOST);
    for (unsigned i = 0; i < HLK_HAND_BACKS_MOST; i++)
        memcpy(answers + 4 * (size_t)i, ":1\r\n", 4);
    peer_answers(&unit.peer, answers);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 0u);
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(handed_back(), HLK_HAND_BACKS_MOST + UINT64_C(1));
    (void)sent();
    peer_answers(&unit.peer, ":1\r\n");
    hlk_mem_free(answers);
}

/* --- open, broken --- */

Test(inbox, an_yield_window_makes_the_waiter_ask)
{
    uint64_t h = wait_in_queue(&ann);
    hear("open", h, "3 0 a");
    cr_assert_eq(ann.asked, 1);
    hear("open", h + 1, "3 0 a");
    hear("open", h, "3 0 other");
    cr_assert_eq(ann.asked, 1);
    leaves(&ann);
}

Test(inbox, a_broken_hold_is_lost_and_then_ended)
{
    hold(&ann);
    enter(&bob);
    hear("broken", e->hold.id, "0 0 a");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(sent(), "");
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_str_eq(sent(), "");
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_not_null(strstr(sent(), "hlk-t-1-a:")); /* after the loss was reported, and its holder has released */
    leaves(&bob);
    peer_answers(&unit.peer, ":0\r\n");
}

Test(inbox, a_break_of_another_hold_is_nothing)
{
    hold(&ann);
    hear("broken", e->hold.id + 1, "0 0 a");
    hear("broken", e->hold.id, "0 0 other");
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(unit_tells(), "");
    release(&ann);
}

Test(inbox, a_break_before_the_answer_takes_the_grant_away)
{
    enter(&ann);
    (void)queue(&ann);
    hear("grant", ann.waiter.h, "5000 0 a");
    hear("broken", ann.waiter.h, "0 0 a");
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    leaves(&ann);
}

/* --- fair locks: an entry for each holder, all of one name --- */

static struct hlk_entry *fair_entry(const struct fake_waiter *p)
{
    struct hlk_entry *fair = hlk_entry_get_own(&unit.node, &hlk_format_fair, "a", 1, p->waiter.holder.id, true);
    cr_assert_not_null(fair);
    return fair;
}

static uint64_t wait_in_fair_queue(struct hlk_entry *fair, struct fake_waiter *p)
{
    struct hlk_member member;
    cr_assert_eq(hlk_entry_enter(fair, &p->waiter), HLK_ENTER_HEAD);
    cr_assert_eq(hlk_entry_queue(fair, &p->waiter, true, &member), HLK_ENTER_HEAD);
    cr_assert_not(hlk_entry_wait(fair, &p->waiter, false));
    return p->waiter.h;
}

static void leaves_fair(struct hlk_entry *fair, struct fake_waiter *p)
{
    if (hlk_entry_leave(fair, &p->waiter, false))
        hlk_entry_leave_finish(fair);
}

Test(inbox, a_grant_of_a_fair_lock_is_for_its_waiter_alone)
{
    struct hlk_entry *anns = fair_entry(&ann), *bobs = fair_entry(&bob);
    uint64_t h = wait_in_queue(&cid);
    (void)wait_in_fair_queue(anns, &ann);
    uint64_t bobs_h = wait_in_fair_queue(bobs, &bob);
    hear("fgrant", bobs_h, "5000 0 a");
    cr_assert_eq(hlk_entry_check(bobs, &bob.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(bobs->hold.lease.until_ms, hlk_lease_until(unit_now_ms(), 5000));
    cr_assert_eq(ann.woken + ann.asked + cid.woken + cid.asked, 0);
    hear("fopen", ann.waiter.h, "0 0 a");
    cr_assert_eq(ann.asked, 1);
    hear("open", h, "0 0 a");
    cr_assert_eq(cid.asked, 1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(hlk_entry_release(bobs, bob.waiter.holder.id, &record), HLK_VERDICT_LAST);
    hlk_entry_release_finish(bobs);
    leaves_fair(anns, &ann);
    leaves(&cid);
    hlk_entry_unref(anns);
    hlk_entry_unref(bobs);
}

Test(inbox, a_fair_grant_without_waiter_is_handed_back_as_fair)
{
    struct hlk_entry *anns = fair_entry(&ann);
    uint64_t h = wait_in_fair_queue(anns, &ann);
    hear("fgrant", h + 1, "5000 0 a");
    cr_assert_eq(handed_back(), 1u);
    const char *end = sent();
    cr_assert_not_null(strstr(end, hlk_script_table[HLK_SCRIPT_FAIR_RELEASE].sha1));
    peer_answers(&unit.peer, ":1\r\n");
    leaves_fair(anns, &ann);
    hear("fgrant", h, "5000 0 a");
    cr_assert_eq(handed_back(), 2u, "its session is there, but not for this hold");
    (void)sent();
    peer_answers(&unit.peer, ":1\r\n");
    hlk_entry_unref(anns);
    cr_assert_eq(unit.node.holds.count, 0u);
    hear("fgrant", h, "5000 0 a");
    cr_assert_eq(handed_back(), 3u);
    (void)sent();
    peer_answers(&unit.peer, ":1\r\n");
    hlk_loop_tick(unit.peer.loop);
    cr_assert_eq(unit.node.entries.count, 1u);
}

Test(inbox, a_later_hold_of_a_fair_entry_replaces_the_former)
{
    struct hlk_entry *anns = fair_entry(&ann);
    uint64_t before = wait_in_fair_queue(anns, &ann);
    leaves_fair(anns, &ann);
    uint64_t h = wait_in_fair_queue(anns, &ann);
    cr_assert_eq(unit.node.holds.count, 1u);
    cr_assert_null(hlk_entry_find_hold(&unit.node, before));
    hear("fgrant", h, "5000 0 a");
    cr_assert_eq(hlk_entry_check(anns, &ann.waiter), HLK_ENTER_ACQUIRED);
    cr_assert_eq(hlk_entry_release(anns, ann.waiter.holder.id, &record), HLK_VERDICT_LAST);
    hlk_entry_release_finish(anns);
    hlk_entry_unref(anns);
}

Test(inbox, a_broken_hold_of_a_fair_lock_is_lost_to_any_holder)
{
    struct hlk_entry *anns = fair_entry(&ann);
    cr_assert_eq(hlk_entry_enter(anns, &ann.waiter), HLK_ENTER_HEAD); /* it has never waited */
    cr_assert(hlk_entry_acquired(anns, &ann.waiter, unit_now_ms(), 0, false));
    hear("fbroken", anns->hold.id + 1, "0 0 a");
    cr_assert_str_eq(unit_tells(), "");
    hear("fbroken", anns->hold.id, "0 0 a");
    cr_assert_str_eq(unit_tells(), "LOST a;");
    (void)sent();
    cr_assert_eq(hlk_entry_release(anns, ann.waiter.holder.id, &record), HLK_VERDICT_LOST);
    peer_answers(&unit.peer, ":0\r\n");
    hlk_entry_unref(anns);
}

/* The reply is older than the break. It must not make the waiter believe in a hold that is gone. */
Test(inbox, a_break_before_the_answer_makes_it_ask_again)
{
    enter(&ann);
    uint64_t h = ann.waiter.h;
    hear("broken", h, "0 0 a");
    cr_assert_not(won_with(&ann, LEASE, false));
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    cr_assert_eq(ann.waiter.h, h);
    cr_assert(won_with(&ann, LEASE, false), "the next answer is younger");
    cr_assert_str_eq(unit_tells(), "");
    release(&ann);
}

Test(inbox, a_break_of_another_wait_is_nothing)
{
    enter(&ann);
    hear("broken", ann.waiter.h, "0 0 a");
    leaves(&ann);
    enter(&bob);
    hear("broken", bob.waiter.h - 1, "0 0 a");
    hear("broken", bob.waiter.h, "0 0 other");
    cr_assert(won_with(&bob, LEASE, false));
    release(&bob);
}

/* Its grant has removed its ticket. So it sends at once, and not when its poll is due. */
Test(inbox, a_break_of_a_grant_that_was_noted_makes_it_ask)
{
    enter(&ann);
    (void)queue(&ann);
    hear("grant", ann.waiter.h, "5000 0 a");
    hear("broken", ann.waiter.h, "0 0 a");
    cr_assert_not(hlk_entry_wait(e, &ann.waiter, false));
    cr_assert_eq(ann.asked, 1);
    leaves(&ann);
}

/* --- a loss that is being reported --- */

/* The next waiter would get the lock before the loss was reported to this holder. */
Test(inbox, a_late_grant_ends_no_lost_hold_before_its_report)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "5000 0 a");
    cr_assert_eq(hlk_entry_check(e, &ann.waiter), HLK_ENTER_ACQUIRED);
    hear("broken", h, "0 0 a");
    cr_assert(is_lost(&ann));
    hear("grant", h, "5000 0 a");
    cr_assert_str_eq(sent(), "");
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_str_eq(sent(), "");
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_not_null(strstr(sent(), "hlk-t-1-a:"));
    peer_answers(&unit.peer, ":0\r\n");
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 0u);
}

/* --- inbox messages --- */

Test(inbox, a_name_may_have_any_bytes)
{
    static const char *const names[] = { "with spaces", " ", "\n", "5000 0 a", "{tag}x", "\xff\xfe" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hlk_entry *other = unit_entry(names[i]);
        struct fake_waiter p;
        char rest[64];
        born(&p);
        cr_assert_eq(hlk_entry_enter(other, &p.waiter), HLK_ENTER_HEAD);
        (void)snprintf(rest, sizeof rest, "5000 0 %s", names[i]);
        hear("open", p.waiter.h, rest);
        cr_assert_eq(p.asked, 1);
        hlk_entry_leave(other, &p.waiter, false);
        hlk_entry_unref(other);
    }
    cr_assert_eq(handed_back(), 0u);
}

Test(inbox, a_name_may_have_a_nul)
{
    hear_bytes("grant 7 5000 0 a\0b", 18);
    cr_assert_eq(handed_back(), 1u);
    struct hlk_entry *other = hlk_entry_find(&unit.node, unit.table.formats[0], "a\0b", 3);
    cr_assert_not_null(other);
    hlk_entry_unref(other);
    peer_answers(&unit.peer, ":1\r\n");
}

Test(inbox, the_longest_name_is_read_and_no_longer_one)
{
    char inbox_message[HLK_NAME_MAX + 64];
    size_t head = strlen("grant 7 5000 0 ");
    memset(inbox_message, 'n', sizeof inbox_message);
    memcpy(inbox_message, "grant 7 5000 0 ", head);
    hear_bytes(inbox_message, head + HLK_NAME_MAX + 1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(warnings, 1);
    hear_bytes(inbox_message, head + HLK_NAME_MAX);
    cr_assert_eq(handed_back(), 1u);
    peer_answers(&unit.peer, ":1\r\n");
}

/* Shows: S26 */
Test(inbox, a_text_that_is_no_message_is_logged_and_ignored)
{
    static const char *const texts[] = { "",
                                         " ",
                                         "grant",
                                         "grant 7",
                                         "grant 7 5000",
                                         "grant 7 5000 0",
                                         "grant 7 5000 0 ",
                                         "grant 7 5000 0\na",
                                         "grant 7 5000 0xa",
                                         "grant 7 5000+ 0 a",
                                         "grant 7 5000+x 0 a",
                                         "grant 7 5000++1 0 a",
                                         "grant 7 5000+1+1 0 a",
                                         "grant 7+1 5000 0 a",
                                         "grant seven 5000 0 a",
                                         "GRANT 7 5000 0 a",
                                         "grantgrant 7 5000 0 a",
                                         "cgrant 7 5000 0 a", /* a latch is never granted, nor is a permit */
                                         "copen 7 0 0 a",
                                         "cbroken 7 0 0 a",
                                         "pgrant 7 5000 0 a",
                                         "pbroken 7 0 0 a",
                                         "7 5000 0 a",
                                         "0" };
    uint64_t h = wait_in_queue(&ann);
    int n = (int)(sizeof texts / sizeof *texts);
    for (int i = 0; i < n; i++)
        hear_bytes(texts[i], strlen(texts[i]));
    cr_assert_eq(warnings, n);
    hear("thank", h, "5000 0 a"); /* a later version may have such a message */
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert_str_eq(sent(), "");
    leaves(&ann);
}
