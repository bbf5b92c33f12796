/* Holds that are over and not fully reported: losses and the releases due for them, unsure releases. */
#include "lease/ended_hold.h"
#include "lease/entry.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "script/release_list.h"

#include "entry_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

static bool ending; /* of hlk_entry_close */

TestSuite(ended_hold, .init = waiters_begin, .fini = waiters_end, .timeout = 20);

/* --- losing --- */

Test(ended_hold, a_loss_is_told_once)
{
    hold(&ann);
    uint64_t h = e->hold.id;
    lose();
    cr_assert_not(hlk_entry_lose_begin(e, h, "again", &record));
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(held_count(), 0u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_str_eq(unit_tells(), "");
}

Test(ended_hold, a_loss_of_another_hold_is_none)
{
    hold(&ann);
    cr_assert_not(hlk_entry_lose_begin(e, e->hold.id - 1, "late answer", &record));
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(unit_tells(), "");
    release(&ann);
}

Test(ended_hold, a_loss_is_off_the_account_after_as_many_releases)
{
    hold(&ann);
    enter(&ann);
    enter(&ann);
    lose();
    for (int i = 0; i < 3; i++) {
        unsigned count;
        cr_assert(is_lost(&ann));
        cr_assert_eq(enter(&ann), HLK_ENTER_LOST);
        cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
        cr_assert_eq(atomic_load(&ann.holds), 1u);
        cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    }
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    hold(&ann);
    release(&ann);
}

/* Two threads of an owner: one nests, the other releases, the hold is lost, the nested one's round trip fails. */
Test(ended_hold, a_failed_raise_may_be_the_last_release_that_is_due)
{
    unsigned count;
    hold(&ann);
    uint64_t h = e->hold.id;
    nest_with(&ann, 5000, &count);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NESTED);
    lose();
    hlk_entry_raise_undo(e, ann.waiter.holder.id, h);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    hold(&ann);
    release(&ann);
}

Test(ended_hold, after_a_loss_the_next_in_queue_asks)
{
    hold(&ann);
    enter(&bob);
    lose();
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    win(&bob);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST); /* the late releaser changes nothing */
    cr_assert_eq(count_of(&bob), 1u);
    release(&bob);
}

Test(ended_hold, a_loss_is_of_one_holder_only)
{
    hold(&ann);
    lose();
    cr_assert_eq(enter(&bob), HLK_ENTER_HEAD);
    win(&bob);
    lose();
    cr_assert(is_lost(&ann));
    cr_assert(is_lost(&bob));
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
}

Test(ended_hold, what_is_over_is_lost_to_whoever_looks_first)
{
    unsigned count;
    hold_fixed(&ann, 5000);
    peer_passes(&unit.peer, 5000);
    cr_assert_eq(nest_with(&ann, 0, &count), HLK_ENTER_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 0u); /* not before the loss was reported */
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_eq(hlk_releases_count(&unit.node.releases), 1u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
}

Test(ended_hold, one_millisecond_before_it_is_a_release)
{
    hold_fixed(&ann, 5000);
    peer_passes(&unit.peer, e->hold.lease.until_ms - unit_now_ms() - 1);
    release(&ann);
    cr_assert_str_eq(unit_tells(), "");
}

Test(ended_hold, without_memory_a_loss_is_still_lost)
{
    hold(&ann);
    enter(&ann);
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_entry_lose_begin(e, e->hold.id, "broken", &record), "no release: its lease expires");
    hlk_mem_fail_after(-1);
    cr_assert_eq(atomic_load(&unit.table.unreported), 1u);
    cr_assert(is_lost(&ann));
    cr_assert_eq(enter(&ann), HLK_ENTER_LOST);
    cr_assert_eq(enter(&bob), HLK_ENTER_QUEUED);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    hlk_entry_leave(e, &bob.waiter, false);
}

Test(ended_hold, without_memory_an_orphans_loss_lets_the_next_ask)
{
    hold(&ann);
    enter(&ann);
    enter(&bob);
    lose_without_memory();
    hlk_entry_orphan(e, ann.waiter.holder.id);
    cr_assert_eq(hlk_entry_check(e, &bob.waiter), HLK_ENTER_HEAD);
    hlk_entry_leave(e, &bob.waiter, false);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
}

Test(ended_hold, without_memory_a_loss_ends_as_its_client_closes)
{
    hold(&ann);
    lose_without_memory();
    cr_assert_not(hlk_entry_close(e, &record, &ending));
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

/* --- its release in Redis --- */

static size_t sent(void)
{
    return strlen(peer_hears(&unit.peer));
}

static void lose_in_redis(struct fake_waiter *p)
{
    peer_up(&unit.peer);
    hold(p);
    enter(p);
    peer_passes(&unit.peer, e->hold.lease.until_ms - unit_now_ms());
    (void)hlk_entry_lock_held(e, e->hold.id);
}

static void wait_for(int64_t ms)
{
    peer_passes(&unit.peer, ms);
    hlk_loop_tick(unit.peer.loop);
}

/* The holder has not released, and may still be at work. */
Test(ended_hold, is_released_when_its_margin_is_over)
{
    lose_in_redis(&ann);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    wait_for(LEASE / 10 - 1);
    cr_assert_eq(sent(), 0u);
    wait_for(1);
    cr_assert_gt(sent(), 0u);
    let_go(&ann);
    let_go(&ann);
    cr_assert_eq(sent(), 0u);
}

Test(ended_hold, is_released_with_the_last_release_of_its_holder)
{
    lose_in_redis(&ann);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    let_go(&ann);
    cr_assert_eq(sent(), 0u);
    let_go(&ann);
    cr_assert_gt(sent(), 0u);
    peer_answers(&unit.peer, ":1\r\n");
    wait_for(LEASE / 10);
    cr_assert_eq(sent(), 0u);
}

Test(ended_hold, is_not_released_before_it_was_told)
{
    lose_in_redis(&ann);
    let_go(&ann);
    let_go(&ann);
    wait_for(LEASE / 10);
    cr_assert_eq(sent(), 0u);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    cr_assert_gt(sent(), 0u);
}

Test(ended_hold, of_an_orphan_is_released_when_its_margin_is_over)
{
    peer_up(&unit.peer);
    hold(&ann);
    hlk_entry_orphan(e, ann.waiter.holder.id);
    peer_passes(&unit.peer, e->hold.lease.until_ms - unit_now_ms());
    hlk_entry_lose(e, e->hold.id, "over");
    cr_assert_str_eq(unit_tells(), "ORPHANED a;");
    wait_for(LEASE / 10 - 1);
    cr_assert_eq(sent(), 0u);
    wait_for(1);
    cr_assert_gt(sent(), 0u);
}

Test(ended_hold, is_released_at_once_when_the_client_closes)
{
    lose_in_redis(&ann);
    cr_assert_str_eq(unit_tells(), "LOST a;");
    hlk_releases_start_all(&unit.node.releases);
    cr_assert_gt(sent(), 0u);
    let_go(&ann);
    let_go(&ann);
}

/* --- the handle through which it was acquired --- */

static int vias_freed;

static void via_free(struct hlk_handle *handle)
{
    (void)handle;
    vias_freed++;
}

static struct hlk_handle handle;

static void through_handle(struct fake_waiter *p)
{
    vias_freed = 0;
    handle = (struct hlk_handle){ .refs = 1,
                                  .callback = { unit_on_event, "handle:" },
                                  .mu = &unit.table.handles_mu,
                                  .lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .free = via_free };
    p->waiter.handle = &handle;
}

static bool readable(void)
{
    eventfd_t n;
    bool set = eventfd_read(handle.lost_fd, &n) == 0;
    if (set)
        (void)eventfd_write(handle.lost_fd, n);
    return set;
}

Test(ended_hold, the_descriptor_of_a_handle_with_a_loss_is_readable)
{
    through_handle(&ann);
    through_handle(&bob);
    hold(&ann);
    cr_assert_not(readable());
    lose();
    cr_assert(readable());
    hold(&bob);
    lose();
    cr_assert_eq(let_go(&ann), HLK_VERDICT_LOST);
    cr_assert(readable());
    cr_assert_eq(let_go(&bob), HLK_VERDICT_LOST);
    cr_assert_not(readable());
    close(handle.lost_fd);
}

Test(ended_hold, the_handle_is_told_before_the_client)
{
    through_handle(&ann);
    hold(&ann);
    lose();
    cr_assert_str_eq(unit_tells(), "handle:LOST a;LOST a;");
    let_go(&ann);
    close(handle.lost_fd);
}

Test(ended_hold, a_hold_keeps_its_handle)
{
    through_handle(&ann);
    hold(&ann);
    hlk_handle_release(&handle); /* destroyed by the application */
    cr_assert_eq(vias_freed, 0);
    release(&ann);
    cr_assert_eq(vias_freed, 1);
    close(handle.lost_fd);
}

Test(ended_hold, a_lost_hold_keeps_its_handle_until_it_is_released)
{
    through_handle(&ann);
    hold(&ann);
    lose();
    hlk_handle_release(&handle);
    cr_assert_eq(vias_freed, 0);
    let_go(&ann);
    cr_assert_eq(vias_freed, 1);
    close(handle.lost_fd);
}

/* --- releases that were not answered --- */

static void owe(struct fake_waiter *p)
{
    hold(p);
    let_go(p);
    hlk_entry_release_finish(e);
    cr_assert(hlk_entry_note_unsure(e, p->waiter.holder, record.h));
}

static enum hlk_status wait_owed(struct fake_waiter *p, int64_t at_ms)
{
    uint64_t h;
    return hlk_entry_wait_unsure(e, p->waiter.holder.id, hlk_thread_get(), at_ms, &h);
}

Test(ended_hold, an_unsure_release_is_asked_about_by_the_next)
{
    owe(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_UNSURE);
    cr_assert_eq(wait_owed(&ann, 0), HLK_E_UNSURE);
    hlk_entry_settle_unsure(e, record.h, HLK_OK);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_UNSURE);
    cr_assert_eq(wait_owed(&ann, 0), HLK_OK);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    cr_assert_eq(wait_owed(&ann, 0), HLK_NOT_HOLDER);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
}

Test(ended_hold, an_unsure_release_may_turn_out_lost)
{
    owe(&ann);
    hlk_entry_settle_unsure(e, record.h, HLK_LOST);
    cr_assert_eq(wait_owed(&ann, 0), HLK_LOST);
}

Test(ended_hold, an_unsure_release_is_its_holders_alone)
{
    owe(&ann);
    cr_assert_eq(let_go(&bob), HLK_VERDICT_NOT_HOLDER);
    hlk_entry_settle_unsure(e, record.h + 1, HLK_LOST); /* of another hold */
    cr_assert_eq(wait_owed(&ann, 0), HLK_E_UNSURE);
    hlk_entry_settle_unsure(e, record.h, HLK_OK);
    cr_assert_eq(wait_owed(&ann, 0), HLK_OK);
}

Test(ended_hold, acquiring_again_settles_an_unsure_release)
{
    owe(&ann);
    cr_assert_eq(enter(&ann), HLK_ENTER_HEAD);
    win(&ann);
    cr_assert_eq(atomic_load(&ann.holds), 1u);
    release(&ann);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
    hlk_entry_settle_unsure(e, record.h, HLK_OK); /* no call reads it any more */
}

Test(ended_hold, an_unsure_release_is_no_loss)
{
    owe(&ann);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(count_of(&ann), 0u);
    hlk_entry_settle_unsure(e, record.h, HLK_OK);
    wait_owed(&ann, 0);
}

Test(ended_hold, without_memory_nothing_is_owed)
{
    hold(&ann);
    let_go(&ann);
    hlk_entry_release_finish(e);
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_entry_note_unsure(e, ann.waiter.holder, record.h));
    hlk_mem_fail_after(-1);
    cr_assert_eq(atomic_load(&ann.holds), 0u);
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
}

static struct hlk_thread *waiting_self;
static atomic_bool waiting;

static void *wait_for_outcome(void *arg)
{
    waiting_self = hlk_thread_get();
    hlk_park_wake(&waiting_self->park, HLK_WAKE_CLOSED); /* by another client's earlier call: no effect */
    atomic_store(&waiting, true);
    uint64_t h;
    *(enum hlk_status *)arg = hlk_entry_wait_unsure(e, ann.waiter.holder.id, waiting_self, INT64_MAX, &h);
    return NULL;
}

static enum hlk_status outcome_after(bool settle)
{
    pthread_t thread;
    enum hlk_status status = HLK_OK;
    owe(&ann);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_outcome, &status), 0);
    while (!atomic_load(&waiting) || !(atomic_load(&waiting_self->park.bits) & HLK_PARK_ASLEEP))
        sched_yield();
    if (settle)
        hlk_entry_settle_unsure(e, record.h, HLK_LOST);
    else
        hlk_park_wake(&waiting_self->park, HLK_WAKE_CLOSED);
    pthread_join(thread, NULL);
    return status;
}

Test(ended_hold, who_waits_for_an_outcome_is_woken_by_it)
{
    cr_assert_eq(outcome_after(true), HLK_LOST);
}

Test(ended_hold, who_waits_for_an_outcome_is_woken_by_close)
{
    cr_assert_eq(outcome_after(false), HLK_E_UNSURE);
    hlk_entry_forget(e);
}

Test(ended_hold, forgets_every_debt)
{
    owe(&bob);
    hold(&ann);
    lose();
    hlk_entry_forget(e);
    cr_assert_not(is_lost(&ann));
    cr_assert_eq(let_go(&bob), HLK_VERDICT_NOT_HOLDER);
    cr_assert_null(e->ended_hold);
}

/* The server was restarted meanwhile, so the outcome stays unknown. */
Test(ended_hold, an_unsure_release_may_stay_unsure)
{
    uint64_t h = 1;
    owe(&ann);
    hlk_entry_settle_unsure(e, record.h, HLK_E_UNSURE);
    cr_assert_eq(hlk_entry_wait_unsure(e, ann.waiter.holder.id, hlk_thread_get(), INT64_MAX, &h), HLK_E_UNSURE);
    cr_assert_eq(h, 0u, "settled");
    cr_assert_eq(let_go(&ann), HLK_VERDICT_NOT_HOLDER);
}
