/* A hold that readers of a process share: who enters it, when it is closed, who releases it
 * (src/lease/shared_hold.c). */
/* Shows: P55 */
#include "lease/shared_hold.h"

#include "entry_fixture.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/inbox.h"
#include "lease/local_queue.h"
#include "script/release_list.h"
#include "support/wait.h"

#include <stdio.h>

static struct hlk_entry *entries[3];
static struct fake_waiter *const readers[] = { &ann, &bob, &cid };
static int listening; /* who keeps the inbox subscribed */

void __wrap_hlk_channel_retain_inbox(struct hlk_channels *channels);
void __wrap_hlk_channel_release_inbox(struct hlk_channels *channels);

void __wrap_hlk_channel_retain_inbox(struct hlk_channels *channels)
{
    (void)channels;
    listening++;
}

void __wrap_hlk_channel_release_inbox(struct hlk_channels *channels)
{
    (void)channels;
    listening--;
}

/* The helpers of entry_fixture.h are about `e`: from now on p's. */
static struct fake_waiter *of(struct fake_waiter *p)
{
    for (int i = 0; i < 3; i++)
        if (readers[i] == p)
            e = entries[i];
    return p;
}

static void init(void)
{
    unit_open();
    listening = 0;
    for (int i = 0; i < 3; i++) {
        born(readers[i]);
        readers[i]->waiter.shares = true;
        entries[i] = hlk_entry_get_own(&unit.node, &hlk_format_read, "a", 1, readers[i]->waiter.holder.id, true);
        cr_assert_not_null(entries[i]);
    }
    peer_up(&unit.peer);
}

static void fini(void)
{
    hlk_mem_fail_after(-1);
    for (int i = 0; i < 3; i++) {
        of(readers[i]);
        if (e->state == HLK_ENTRY_HELD && let_go(readers[i]) == HLK_VERDICT_LAST)
            hlk_entry_release_finish(e);
    }
    hlk_shared_close_all(&unit.table);
    hlk_shared_fini(&unit.table);
    for (int i = 0; i < 3; i++)
        hlk_entry_unref(entries[i]);
    unit_close();
    TEARDOWN_ASSERT(listening == 0);
}

TestSuite(shared, .init = init, .fini = fini, .timeout = 20);

static uint64_t closings(void)
{
    uint64_t out = 0;
    (void)hlk_shared_is_wanted(e, &ann.waiter, &out);
    return out;
}

/* p acquires, and Redis says that its hold may be shared. Returns the hold. */
static uint64_t share(struct fake_waiter *p)
{
    hold(of(p));
    hlk_shared_begin(e, e->hold.id, closings());
    return e->hold.id;
}

static bool enters(struct fake_waiter *p)
{
    of(p)->waiter.got = false;
    return hlk_shared_enter(e, &p->waiter);
}

static void close_it(void)
{
    hlk_shared_close(&unit.node, &hlk_format_read, "a", 1);
}

static bool is_released(uint64_t h)
{
    return hlk_releases_has(&unit.node.releases, h);
}

static void pass(int64_t ms)
{
    peer_passes(&unit.peer, ms);
    hlk_loop_tick(unit.peer.loop);
}

/* --- entering --- */

Test(shared, is_entered_without_a_command)
{
    uint64_t h = share(&ann);
    int64_t until_ms = e->hold.lease.until_ms;
    peer_passes(&unit.peer, 100);
    cr_assert(enters(&bob));
    cr_assert_eq(count_of(&bob), 1u);
    cr_assert_eq(e->hold.id, h);
    cr_assert_eq(e->hold.lease.until_ms, until_ms, "that of the answer, not of now");
    cr_assert_eq(held_count(), 2u);
    cr_assert_str_eq(peer_hears(&unit.peer), "");
}

Test(shared, is_not_entered_with_terms_of_its_own)
{
    (void)share(&ann);
    bob.waiter.shares = false;
    cr_assert_not(enters(&bob));
}

Test(shared, is_not_entered_by_a_holder_that_has_it)
{
    (void)share(&ann);
    cr_assert_not(enters(&ann), "it nests");
}

Test(shared, is_not_entered_before_a_loss_is_released)
{
    hold(of(&bob));
    lose();
    (void)share(&ann);
    cr_assert_not(enters(&bob));
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LOST);
    cr_assert(enters(&bob));
}

/* A holder that enters needs time for a renewal. */
Test(shared, is_not_entered_when_half_of_its_lease_is_used)
{
    hold(of(&ann));
    struct hlk_lease *lease = &e->hold.lease;
    int64_t until_ms = lease->until_ms;
    lease->until_ms = unit_now_ms() + lease->lease_ms / 2;
    hlk_shared_begin(e, e->hold.id, closings());
    lease->until_ms = until_ms;
    cr_assert_not(enters(&bob));
}

Test(shared, is_not_entered_when_its_time_is_over)
{
    (void)share(&ann);
    peer_passes(&unit.peer, HLK_SHARED_MS - 1);
    cr_assert(enters(&bob));
    peer_passes(&unit.peer, 1);
    cr_assert_not(enters(&cid));
}

Test(shared, is_not_entered_by_readers_of_another_lock)
{
    (void)share(&ann);
    struct hlk_entry *other = hlk_entry_get_own(&unit.node, &hlk_format_read, "b", 1, bob.waiter.holder.id, true);
    cr_assert_not(hlk_shared_enter(other, &bob.waiter));
    hlk_entry_unref(other);
}

/* --- beginning --- */

Test(shared, is_wanted_when_others_come_and_go)
{
    uint64_t out;
    cr_assert_not(hlk_shared_is_wanted(entries[0], &ann.waiter, &out), "nobody was here");
    hold(of(&ann));
    release(&ann);
    cr_assert_not(hlk_shared_is_wanted(e, &ann.waiter, &out), "it is the only one");
    of(&bob);
    cr_assert(hlk_shared_is_wanted(e, &bob.waiter, &out));
    peer_passes(&unit.peer, HLK_PASS_MS);
    cr_assert_not(hlk_shared_is_wanted(e, &bob.waiter, &out));
}

/* Of another lock, even if its entries have the same mutex. */
Test(shared, is_not_wanted_for_readers_of_another_lock)
{
    char name[16] = "";
    uint64_t out;
    unsigned stripe = hlk_entry_table_stripe(&hlk_format_read, "a", 1);
    for (int i = 0; !*name || hlk_entry_table_stripe(&hlk_format_read, name, strlen(name)) != stripe; i++)
        snprintf(name, sizeof name, "b%d", i);
    struct hlk_entry *other =
        hlk_entry_get_own(&unit.node, &hlk_format_read, name, strlen(name), bob.waiter.holder.id, true);
    hold(of(&ann));
    release(&ann);
    cr_assert_not(hlk_shared_is_wanted(other, &bob.waiter, &out));
    hlk_entry_unref(other);
    cr_assert(hlk_shared_is_wanted(entries[1], &bob.waiter, &out));
}

Test(shared, does_not_begin_if_somebody_waits_now)
{
    hold(of(&ann));
    uint64_t before = closings();
    close_it();
    hlk_shared_begin(e, e->hold.id, before);
    cr_assert_not(enters(&bob));
}

Test(shared, is_one_at_a_time)
{
    hold(of(&bob));
    uint64_t own = e->hold.id, h = share(&ann);
    of(&bob);
    hlk_shared_begin(e, own, closings());
    cr_assert_eq(listening, 1);
    cr_assert(enters(&cid));
    cr_assert_eq(e->hold.id, h);
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LAST, "its hold is its own");
    hlk_entry_release_finish(e);
}

Test(shared, is_not_shared_without_memory)
{
    hold(of(&ann));
    hlk_mem_fail_after(1);
    hlk_shared_begin(e, e->hold.id, closings());
    hlk_mem_fail_after(-1);
    cr_assert_not(enters(&bob));
    release(of(&ann));
}

/* --- leaving --- */

Test(shared, stays_when_its_readers_have_left)
{
    uint64_t h = share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    cr_assert_eq(ann.holds, 0u);
    cr_assert_eq(held_count(), 0u);
    cr_assert(enters(&bob));
    cr_assert_eq(e->hold.id, h);
    cr_assert_not(is_released(h));
}

Test(shared, is_released_when_nobody_comes)
{
    uint64_t h = share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    pass(2 * HLK_WHEEL_TICK_MS + HLK_PASS_MS);
    cr_assert(is_released(h));
    cr_assert_eq(listening, 0);
    cr_assert_not(enters(&bob));
}

Test(shared, stays_for_who_came_meanwhile)
{
    uint64_t h = share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    cr_assert(enters(&bob));
    pass(2 * HLK_WHEEL_TICK_MS + HLK_PASS_MS);
    cr_assert_not(is_released(h));
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_PASSED);
    pass(2 * HLK_WHEEL_TICK_MS + HLK_PASS_MS);
    cr_assert(is_released(h));
}

/* --- closing --- */

Test(shared, is_released_by_the_last_one_after_close)
{
    uint64_t h = share(&ann);
    cr_assert(enters(&bob));
    close_it();
    cr_assert_not(enters(&cid));
    cr_assert_eq(let_go(of(&ann)), HLK_VERDICT_PASSED);
    cr_assert_not(is_released(h));
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LAST);
    cr_assert_eq(record.h, h);
    hlk_entry_release_finish(e);
}

Test(shared, is_released_at_once_when_it_is_idle)
{
    uint64_t h = share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    close_it();
    cr_assert(is_released(h));
    pass(2 * HLK_WHEEL_TICK_MS); /* which frees it */
    cr_assert_eq(listening, 0);
}

Test(shared, is_closed_by_a_message)
{
    static const char message[] = "rwant 1 0 0 a";
    uint64_t h = share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    hlk_inbox_receive(&unit.node, message, sizeof message - 1);
    cr_assert(is_released(h));
}

/* What no holder has is neither found by the message nor verified. */
Test(shared, is_closed_by_a_break_and_a_new_connection)
{
    static const char message[] = "rbroken 1 0 0 a";
    (void)share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    hlk_inbox_receive(&unit.node, message, sizeof message - 1);
    cr_assert_not(enters(&bob));
    (void)share(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_PASSED);
    hlk_watchdog_verify_all(&unit.node);
    cr_assert_not(enters(&bob));
}

Test(shared, begins_no_more_after_close)
{
    hold(of(&ann));
    hlk_shared_close_all(&unit.table);
    hlk_shared_begin(e, e->hold.id, closings());
    cr_assert_not(enters(&bob));
}

/* The answer to a renewal that is under way would be taken for one of the same entry's next turn. */
Test(shared, is_closed_by_who_leaves_with_a_renewal)
{
    (void)share(&ann);
    cr_assert(enters(&bob));
    e->hold.lease.raising_ms = LEASE;
    cr_assert_eq(let_go(&bob), HLK_VERDICT_PASSED);
    cr_assert_not(enters(&bob));
    cr_assert_eq(let_go(of(&ann)), HLK_VERDICT_LAST);
    cr_assert_geq(record.until_ms, unit_now_ms() + LEASE, "the renewal may have run");
    hlk_entry_release_finish(e);
}

/* --- losing --- */

Test(shared, is_lost_by_all_at_once)
{
    uint64_t h = share(&ann);
    cr_assert(enters(&bob));
    cr_assert(enters(&cid));
    hlk_entry_lose(entries[1], h, "broken");
    cr_assert_str_eq(unit_tells(), "LOST a;LOST a;LOST a;");
    for (int i = 0; i < 3; i++) {
        cr_assert(is_lost(of(readers[i])));
        cr_assert_eq(let_go(readers[i]), HLK_VERDICT_LOST);
    }
    cr_assert_eq(held_count(), 0u);
}

Test(shared, is_released_once_at_the_end_of_the_margin)
{
    uint64_t h = share(&ann);
    cr_assert(enters(&bob));
    hlk_entry_lose(entries[0], h, "broken");
    (void)unit_tells();
    cr_assert_eq(let_go(of(&ann)), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LOST);
    cr_assert_str_eq(peer_hears(&unit.peer), "", "others may be at work");
    cr_assert(is_released(h), "but it is announced");
}

/* Between the loss of one and that of the others. */
Test(shared, is_lost_for_who_leaves_after_a_loss)
{
    struct hlk_release_record lost;
    uint64_t h = share(&ann);
    cr_assert(enters(&bob));
    cr_assert(hlk_entry_lose_begin(entries[0], h, "broken", &lost));
    cr_assert(lost.spreads && lost.has_others);
    hlk_entry_release_finish(entries[0]);
    cr_assert_eq(let_go(of(&bob)), HLK_VERDICT_LOST);
    cr_assert_str_eq(record.why, "broken");
    cr_assert_eq(let_go(of(&ann)), HLK_VERDICT_LOST);
}

Test(shared, stays_with_the_others_when_a_thread_ends)
{
    uint64_t h = share(&ann);
    cr_assert(enters(&bob));
    hlk_entry_orphan(entries[0], ann.waiter.holder.id);
    cr_assert_str_eq(unit_tells(), "ORPHANED a;");
    hlk_entry_lose(entries[0], h, "its lease is over");
    cr_assert_eq(count_of(of(&bob)), 1u);
    cr_assert_str_eq(unit_tells(), "");
    close_it();
    cr_assert_eq(let_go(&bob), HLK_VERDICT_PASSED, "the lease of who ended has a margin");
    cr_assert_not(is_released(h));
    pass(LEASE);
    cr_assert(is_released(h));
}
