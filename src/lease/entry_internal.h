/* entry_internal.h - the state of an entry, for its files: entry_state.c, local_queue.c (waiting), pass_permits.c,
 * line.c and pass_holds.c (permits), entry_lose.c (losing), holding.c (holding, releasing). The entry's mutex is
 * held in all of these. */
#ifndef HLK_LEASE_ENTRY_INTERNAL_H
#define HLK_LEASE_ENTRY_INTERNAL_H

#include "lease/entry.h"

#include <assert.h>

static inline bool hlk_entry_asks(const struct hlk_entry *e)
{
    return e->state == HLK_ENTRY_ACQUIRING || e->state == HLK_ENTRY_WAITING;
}

/* The only function that writes the state. It counts in the entry's line, if it has one, how many ask and how many
 * hold. When it is not asking any more, and when it begins or ceases to be held, hlk_line_moved must follow. */
static inline void hlk_entry_move(struct hlk_entry *e, enum hlk_entry_state to)
{
    static const unsigned next[] = {
        [HLK_ENTRY_NONE] = 1u << HLK_ENTRY_ACQUIRING,
        [HLK_ENTRY_ACQUIRING] =
            1u << HLK_ENTRY_HELD | 1u << HLK_ENTRY_WAITING | 1u << HLK_ENTRY_RELEASING | 1u << HLK_ENTRY_NONE,
        [HLK_ENTRY_WAITING] =
            1u << HLK_ENTRY_HELD | 1u << HLK_ENTRY_ACQUIRING | 1u << HLK_ENTRY_RELEASING | 1u << HLK_ENTRY_NONE,
        [HLK_ENTRY_HELD] = 1u << HLK_ENTRY_RELEASING,
        [HLK_ENTRY_RELEASING] = 1u << HLK_ENTRY_NONE | 1u << HLK_ENTRY_HELD,
    };
    hlk_mutex_assert_held(e->mu);
    assert(next[e->state] & 1u << to);
    (void)next;
    int asked = hlk_entry_asks(e), held = e->state == HLK_ENTRY_HELD;
    e->state = (uint8_t)to & 7u;
    struct hlk_entry *line = hlk_entry_line(e);
    if (line) {
        line->hold.ticket->passing.in_use += (e->state == HLK_ENTRY_HELD) - held;
        line->count += (unsigned)(hlk_entry_asks(e) - asked);
    }
}

#endif
