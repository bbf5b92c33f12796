#include "permit_fixture.h"

#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/local_queue.h"
#include "support/wait.h"

struct hlk_entry *entries[4], *line;

static struct fake_waiter *const all[] = { &ann, &bob, &cid, &dan };

struct fake_waiter *of(struct fake_waiter *p)
{
    for (int i = 0; i < 4; i++)
        if (all[i] == p)
            e = entries[i];
    return p;
}

struct hlk_entry *entry_of_holder(uint64_t holder)
{
    return hlk_entry_get_own(&unit.node, &hlk_format_permit, "a", 1, holder, true);
}

void permits_open(void)
{
    line = entry_of_holder(UINT64_MAX - PERMIT_NUMBER);
    for (int i = 0; i < 4; i++) {
        born(all[i]);
        entries[i] = entry_of_holder(all[i]->waiter.holder.id);
        all[i]->waiter.line = line;
    }
}

void permits_begin(void)
{
    unit_open();
    unit.table.local_passes = PERMIT_PASSES;
    permits_open();
    peer_up(&unit.peer);
    hold(of(&dan)); /* holds are brief */
    release(&dan);
}

void leaves(struct fake_waiter *p)
{
    of(p);
    if (hlk_entry_leave(e, &p->waiter, false))
        hlk_entry_leave_finish(e);
}

void permits_end(void)
{
    for (int i = 0; i < 4; i++)
        leaves(all[i]);
    for (int i = 0; i < 4; i++) {
        of(all[i]);
        if (e->state == HLK_ENTRY_HELD)
            release(all[i]);
    }
    TEARDOWN_ASSERT(line->count == 0);
    TEARDOWN_ASSERT(hlk_list_empty(&line->waiters));
    TEARDOWN_ASSERT(!line->hold.ticket || line->hold.ticket->passing.in_use == 0);
    TEARDOWN_ASSERT(!line->hold.ticket || line->hold.ticket->passing.waits == 0);
    for (int i = 0; i < 4; i++)
        hlk_entry_unref(entries[i]);
    hlk_entry_unref(line);
    unit_close();
}

uint64_t stand(void)
{
    hold(of(&dan));
    uint64_t h = e->hold.id;
    (void)wait_in_queue(of(&ann));
    cr_assert_eq(enter(of(&bob)), HLK_ENTER_QUEUED);
    cr_assert_eq(enter(of(&cid)), HLK_ENTER_QUEUED);
    return h;
}

bool passed(struct fake_waiter *p)
{
    enum hlk_release_verdict verdict = let_go(of(p));
    if (verdict != HLK_VERDICT_PASSED) {
        cr_assert_eq(verdict, HLK_VERDICT_LAST);
        hlk_entry_release_finish(e);
    }
    cr_assert_eq(p->holds, 0);
    cr_assert_eq(e->state, HLK_ENTRY_NONE);
    return verdict == HLK_VERDICT_PASSED;
}
