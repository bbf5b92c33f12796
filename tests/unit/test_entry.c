/* The hold that a process has in Redis for one lock. No server, no loop thread; the clock is played. */
#include "lease/entry.h"

#include "entry_fixture.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "support/wait.h"

#include <pthread.h>
#include <sched.h>

static bool ending; /* of hlk_entry_close */

TestSuite(entry, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- one for each lock --- */

Test(entry, hold_ids_are_never_used_again)
{
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        struct hlk_entry *other = unit_entry("other");
        struct fake_waiter p;
        born(&p);
        cr_assert_eq(hlk_entry_enter(other, &p.waiter), HLK_ENTER_HEAD);
        cr_assert_gt(p.waiter.h, last);
        last = p.waiter.h;
        hlk_entry_leave(other, &p.waiter, false);
        hlk_entry_unref(other);
        cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
        cr_assert_gt(ann.waiter.h, last);
        last = ann.waiter.h;
        hlk_entry_renumber(e, &ann.waiter);
        cr_assert_gt(ann.waiter.h, last);
        cr_assert_eq(e->hold.id, ann.waiter.h);
        last = ann.waiter.h;
        hlk_entry_leave(e, &ann.waiter, false);
    }
}

Test(entry, locks_do_not_know_each_other)
{
    struct hlk_entry *other = unit_entry("b");
    cr_assert_neq(other, e);
    hold(&ann);
    cr_assert_eq(hlk_entry_enter(other, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(other, &bob.waiter, false);
    hlk_entry_unref(other);
    release(&ann);
}

Test(entry, is_one_for_all_handles_of_a_name)
{
    struct hlk_entry *again = unit_entry("a");
    cr_assert_eq(again, e);
    hlk_entry_unref(again);
}

/* --- acquiring --- */

Test(entry, a_win_is_a_hold)
{
    struct hlk_view view;
    enter(&ann);
    uint64_t h = ann.waiter.h;
    win(&ann);
    hlk_entry_view(e, ann.waiter.holder.id, &view);
    cr_assert_eq(view.count, 1u);
    cr_assert_eq(view.h, h);
    cr_assert_eq(view.until_ms, hlk_lease_until(unit_now_ms(), LEASE));
    cr_assert_not(view.lost);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    cr_assert_eq(held_count(), 1u);
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    cr_assert_eq(count_of(&bob), 0u);
    release(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(held_count(), 0u);
    cr_assert_not(hlk_timer_armed(&e->hold.alarm.timer));
}

Test(entry, a_hold_shows_the_lease_that_it_was_acquired_with)
{
    struct hlk_view view;
    hold(&ann);
    hlk_entry_view(e, ann.waiter.holder.id, &view);
    cr_assert_eq(view.lease_ms, HLK_RENEWED);
    release(&ann);
    hold_fixed(&bob, 5000);
    hlk_entry_view(e, bob.waiter.holder.id, &view);
    cr_assert_eq(view.lease_ms, 5000);
    release(&bob);
}

Test(entry, an_answer_that_comes_too_late_is_no_win)
{
    enter(&ann);
    int64_t sent = unit_now_ms();
    peer_passes(&unit.peer, LEASE);
    cr_assert_not(hlk_entry_acquired(e, &ann.waiter, sent, 0, false));
    cr_assert_eq(e->state, HLK_ENTRY_ACQUIRING);
    cr_assert_eq(count_of(&ann), 0u);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    win(&ann); /* and it may send again */
    release(&ann);
}

Test(entry, max_hold_caps_a_win)
{
    struct hlk_view view;
    enter(&ann);
    ann.waiter.max_hold_ms = 1000;
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 0, false));
    hlk_entry_view(e, ann.waiter.holder.id, &view);
    cr_assert_eq(view.until_ms, unit_now_ms() + 1000);
    release(&ann);
}

Test(entry, a_held_entry_outlives_its_handles)
{
    hold(&ann);
    hlk_entry_unref(e);
    struct hlk_entry *again = unit_entry("a");
    cr_assert_eq(again, e);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(entry, doubt_goes_with_the_hold_to_its_end)
{
    enter(&ann);
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 0, true));
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    cr_assert(record.doubt);
    hlk_entry_release_finish(e);
    hold(&bob);
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LAST);
    cr_assert_not(record.doubt);
    hlk_entry_release_finish(e);
}

/* --- releasing --- */

Test(entry, only_the_holder_lets_go)
{
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    hold(&ann);
    cr_assert_eq(let_go(&bob), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
}

Test(entry, a_wait_is_no_hold)
{
    enter(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    hlk_entry_leave(e, &ann.waiter, false);
}

Test(entry, while_it_ends_nobody_gets_in)
{
    hold(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LAST);
    cr_assert_eq(e->state, HLK_ENTRY_RELEASING);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(&ann), HLK_ENTER_QUEUED); /* the holder itself is not excepted */
    cr_assert_eq(bob.woken, 0);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    hlk_entry_release_finish(e);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
    hlk_entry_leave(e, &ann.waiter, false);
}

Test(entry, a_release_record_names_the_hold)
{
    hold(&ann);
    uint64_t h = e->hold.id;
    let_go(&ann);
    cr_assert_eq(record.h, h);
    cr_assert_eq(record.until_ms, unit_now_ms() + LEASE);
    hlk_entry_release_finish(e);
}

Test(entry, what_could_not_end_is_held_as_before)
{
    hold(&ann);
    uint64_t h = e->hold.id;
    let_go(&ann);
    hlk_entry_keep(e);
    cr_assert_eq(e->state, HLK_ENTRY_HELD);
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_eq(e->hold.id, h);
    cr_assert_eq(held_count(), 1u);
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    release(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

/* An owner's second call comes between the first one's acquire and its completion. It must not complete first. */
Test(entry, the_same_owner_queues_until_the_win_is_reported)
{
    same_owner(&bob, &ann);
    same_owner(&cid, &ann);
    ann.waiter.completes = cid.waiter.once = true;
    enter(&ann);
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 0, false));
    unsigned count;
    uint64_t h;
    cr_assert_eq(hlk_entry_nest(e, ann.waiter.holder.id, 0, &count, &h), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(&cid), HLK_ENTER_QUEUED);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_QUEUED);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_QUEUED, "one try is no BUSY behind its own owner");
    hlk_entry_report_acquired(e, ann.waiter.holder.id, NULL, NULL);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_NESTED);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_NESTED);
    cr_assert_eq(count_of(&ann), 3u);
    let_go(&ann);
    let_go(&ann);
    release(&ann);
}

Test(entry, a_win_that_is_told_late_is_not_the_next_ones)
{
    unsigned count;
    uint64_t h;
    enter(&ann);
    cr_assert(hlk_entry_acquired(e, &ann.waiter, unit_now_ms(), 0, false));
    release(&ann);
    bob.waiter.completes = true;
    enter(&bob);
    cr_assert(hlk_entry_acquired(e, &bob.waiter, unit_now_ms(), 0, false));
    hlk_entry_report_acquired(e, ann.waiter.holder.id, NULL, NULL);
    cr_assert_eq(hlk_entry_nest(e, bob.waiter.holder.id, 0, &count, &h), HLK_ENTER_QUEUED);
    hlk_entry_report_acquired(e, bob.waiter.holder.id, NULL, NULL);
    cr_assert_eq(hlk_entry_nest(e, bob.waiter.holder.id, 0, &count, &h), HLK_ENTER_NESTED);
    let_go(&bob);
    release(&bob);
}

Test(entry, kept_as_before_tells_waiters_that_came_meanwhile)
{
    hold(&ann);
    let_go(&ann);
    bob.waiter.once = true;
    same_owner(&cid, &ann);
    enter(&bob);
    enter(&cid);
    hlk_entry_keep(e);
    cr_assert_eq(bob.woken, 1);
    cr_assert_eq(cid.woken, 1);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_BUSY);
    cr_assert_eq(hlk_entry_check(e, &cid.waiter), HLK_ENTER_NESTED);
    let_go(&ann);
    release(&ann);
}

/* --- a release waits for a renewal that is being written --- */

static _Atomic(pid_t) ender;
static atomic_bool written;
static atomic_int saw; /* 1: the renewal was in the stream already; 2: too early */

static atomic_int yields;
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

static void *end_by(void *arg)
{
    void (*ends)(void) = *(void (**)(void))arg;
    atomic_store(&ender, gettid());
    ends();
    atomic_store(&saw, atomic_load(&written) ? 1 : 2);
    return NULL;
}

static void by_release(void)
{
    (void)hlk_entry_release(e, ann.waiter.holder.id, &record);
    hlk_entry_release_finish(e);
}

static void by_lowering(void)
{
    hlk_entry_raise_undo(e, ann.waiter.holder.id, e->hold.id);
}

static void by_close(void)
{
    (void)hlk_entry_close(e, &record, &ending);
    hlk_entry_release_finish(e);
}

/* It sleeps, because the loop thread, which writes the renewal, may have a lower priority. */
static bool waits_for_the_renewal(void (*ends)(void))
{
    pthread_t thread;
    hold(&ann);
    hlk_mutex_lock(e->mu);
    hlk_entry_batch(e, true);
    hlk_mutex_unlock(e->mu);
    cr_assert_eq(pthread_create(&thread, NULL, end_by, &ends), 0);
    WAIT_FOR(atomic_load(&ender) && (test_sleeps(atomic_load(&ender)) || atomic_load(&yields) > 100));
    hlk_mutex_lock(e->mu);
    atomic_store(&written, true);
    hlk_entry_batch(e, false);
    hlk_mutex_unlock(e->mu);
    pthread_join(thread, NULL);
    cr_expect_eq(atomic_load(&yields), 0);
    return atomic_load(&saw) == 1 && e->state == HLK_ENTRY_NONE;
}

Test(entry, a_release_waits_for_a_renewal_being_written)
{
    cr_assert(waits_for_the_renewal(by_release));
}

Test(entry, a_failed_raise_waits_for_a_renewal_being_written)
{
    cr_assert(waits_for_the_renewal(by_lowering));
}

Test(entry, close_waits_for_a_renewal_that_is_being_written)
{
    cr_assert(waits_for_the_renewal(by_close));
}

/* --- all of a table --- */

static void count_it(struct hlk_entry *one, void *ctx)
{
    (void)one;
    ++*(unsigned *)ctx;
}

/* Such names can be chosen on purpose, or the map could not grow. */
Test(entry, of_a_bucket_with_many_is_walked_by_like_any_other)
{
    enum { MANY = 200 };
    struct hlk_entry *many[MANY];
    unsigned seen = 0;
    int found = 0;
    for (unsigned i = 0; found < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        if ((hlk_map_hash(name, strlen(name)) & 255) == 7)
            many[found++] = unit_entry(name);
    }
    hlk_entry_table_each(&unit.table, count_it, &seen);
    cr_assert_eq(seen, unit.node.entries.count);
    cr_assert_geq(seen, (unsigned)MANY);
    for (int i = 0; i < MANY; i++)
        hlk_entry_unref(many[i]);
}

/* --- without a reference --- */

Test(entry, unused_is_found_again_until_the_next_tick)
{
    struct hlk_entry *before = unit_entry("b");
    hlk_entry_unref(before);
    cr_assert_eq(unit_entry("b"), before);
    cr_assert(hlk_list_empty(&before->waiters));
    hlk_entry_unref(before);
    hlk_entry_unref(unit_entry("b"));
    cr_assert_eq(unit.node.entries.count, 2u);
    hlk_loop_tick(unit.peer.loop);
    cr_assert_eq(unit.node.entries.count, 1u);
}

Test(entry, that_nobody_uses_is_no_entry)
{
    unsigned seen = 0;
    struct hlk_entry *before = unit_entry("b");
    hlk_entry_unref(before);
    cr_assert_null(hlk_entry_find(&unit.node, unit.table.formats[0], "b", 1));
    cr_assert_not(hlk_entry_try_ref(before), "its alarm does nothing");
    hlk_entry_table_each(&unit.table, count_it, &seen);
    cr_assert_eq(seen, 1u);
}

Test(entry, that_is_used_again_stays)
{
    struct hlk_entry *before = unit_entry("b");
    hlk_entry_unref(before);
    cr_assert_eq(unit_entry("b"), before);
    hlk_loop_tick(unit.peer.loop);
    cr_assert_eq(hlk_entry_find(&unit.node, unit.table.formats[0], "b", 1), before);
    hlk_entry_unref(before);
    hlk_entry_unref(before);
}
