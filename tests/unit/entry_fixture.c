#include "entry_fixture.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

struct hlk_entry *e;
struct hlk_release_record record;
struct fake_waiter ann, bob, cid, dan;

static struct hlk_park *count_wake(struct hlk_local_waiter *waiter, unsigned bit)
{
    struct fake_waiter *p = HLK_CONTAINER(waiter, struct fake_waiter, waiter);
    if (bit == HLK_WAKE_QUEUE)
        p->woken++;
    else
        p->asked++;
    return p->park ? hlk_park_signal(p->park, bit) : NULL;
}

void born(struct fake_waiter *p)
{
    memset(p, 0, sizeof *p);
    p->waiter.holder.id = hlk_thread_next_id();
    p->waiter.holder.holds = &p->holds;
    p->waiter.lease_ms = LEASE;
    p->waiter.wake = count_wake;
}

void waiters_begin(void)
{
    unit_open();
    e = unit_entry("a");
    born(&ann);
    born(&bob);
    born(&cid);
    born(&dan);
}

void waiters_end(void)
{
    hlk_mem_fail_after(-1);
    hlk_entry_unref(e);
    unit_close();
}

void same_owner(struct fake_waiter *p, struct fake_waiter *as)
{
    p->waiter.holder = as->waiter.holder;
}

enum hlk_enter enter(struct fake_waiter *p)
{
    p->waiter.got = false;
    return hlk_entry_enter(e, &p->waiter);
}

bool won_with(struct fake_waiter *p, int64_t lease_ms, bool fixed)
{
    p->waiter.lease_ms = lease_ms;
    p->waiter.fixed = fixed;
    bool won = hlk_entry_acquired(e, &p->waiter, unit_now_ms(), 0, false);
    hlk_entry_report_acquired(e, p->waiter.holder.id, NULL, NULL);
    return won;
}

void win(struct fake_waiter *p)
{
    cr_assert(won_with(p, LEASE, false));
}

void hold(struct fake_waiter *p)
{
    cr_assert_eq(enter(p), HLK_ENTER_HEAD);
    win(p);
}

void hold_fixed(struct fake_waiter *p, int64_t lease_ms)
{
    cr_assert_eq(enter(p), HLK_ENTER_HEAD);
    cr_assert(won_with(p, lease_ms, true));
}

enum hlk_release_verdict let_go(struct fake_waiter *p)
{
    return hlk_entry_release(e, p->waiter.holder.id, &record);
}

void release(struct fake_waiter *p)
{
    cr_assert_eq(let_go(p), HLK_VERDICT_LAST);
    hlk_entry_release_finish(e);
}

void lose(void)
{
    cr_assert(hlk_entry_lose_begin(e, e->hold.id, "broken", &record));
    hlk_entry_release_finish(e);
}

void lose_without_memory(void)
{
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_entry_lose_begin(e, e->hold.id, "broken", &record));
    hlk_mem_fail_after(-1);
}

unsigned count_of(struct fake_waiter *p)
{
    struct hlk_view view;
    hlk_entry_view(e, p->waiter.holder.id, &view);
    return view.lost ? 0 : view.count;
}

bool is_lost(struct fake_waiter *p)
{
    struct hlk_view view;
    hlk_entry_view(e, p->waiter.holder.id, &view);
    return view.lost;
}

void fall_asleep(struct fake_waiter *p, struct hlk_park *park)
{
    hlk_park_init(park);
    p->park = park;
    cr_assert(hlk_park_begin(park, HLK_WAKE_QUEUE));
}

int wakes_of(struct fake_waiter *p)
{
    int tokens = 0;
    cr_assert_eq(sem_getvalue(&p->park->sem, &tokens), 0);
    return tokens;
}

struct hlk_member queue(struct fake_waiter *p)
{
    struct hlk_member member;
    cr_assert_eq(hlk_entry_queue(e, &p->waiter, true, &member), HLK_ENTER_HEAD);
    return member;
}

uint64_t wait_in_queue(struct fake_waiter *p)
{
    cr_assert_eq(enter(p), HLK_ENTER_HEAD);
    (void)queue(p);
    cr_assert_not(hlk_entry_wait(e, &p->waiter, false));
    cr_assert_eq(e->state, HLK_ENTRY_WAITING);
    return p->waiter.h;
}

int64_t token_of(struct fake_waiter *p)
{
    struct hlk_view view;
    hlk_entry_view(e, p->waiter.holder.id, &view);
    return view.token;
}

uint64_t held_count(void)
{
    return atomic_load(&unit.table.counts.held);
}

enum hlk_enter nest_with(struct fake_waiter *p, int64_t lease_ms, unsigned *count)
{
    uint64_t h;
    return hlk_entry_nest(e, p->waiter.holder.id, lease_ms, count, &h);
}
