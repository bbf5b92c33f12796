/* entry_internal.h - what the files of an entry share: entry_state.c, local_queue.c (waiting), pass_permits.c (of
 * semaphores), entry_lose.c (losing), entry.c (holding, releasing). The entry's mutex is held in all of these. */
#ifndef HLK_LEASE_ENTRY_INTERNAL_H
#define HLK_LEASE_ENTRY_INTERNAL_H

#include "lease/entry.h"

#include <assert.h>

/* The only function that writes the state. */
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
    e->state = (uint8_t)to & 7u;
}

/* The head waiter, or the one that becomes it when the state is NONE. NULL: nobody waits. */
struct hlk_local_waiter *hlk_entry_head(const struct hlk_entry *e);
/* Out of the local queue. */
void hlk_entry_unlink(struct hlk_local_waiter *waiter);

bool hlk_entry_is_held_by(const struct hlk_entry *e, uint64_t holder);

/* h was broken while it is not HELD. An "acquired" that is on its way is older than the break, and so is a noted
 * grant. */
void hlk_entry_note_break(struct hlk_entry *e);
/* Makes the first waiter the head waiter and lets it send, if the state is NONE. */
void hlk_entry_promote(struct hlk_entry *e);
/* Gives the lock to the first waiter after a release. False: there is none that may have it, or Redis' queue comes
 * first. *woken: for hlk_park_wake_signalled after the mutex is unlocked, because the woken thread needs it at once. */
bool hlk_entry_pass_on(struct hlk_entry *e, struct hlk_park **woken);
/* Wakes the waiters that may return without being the head waiter: same holder, or one try. */
void hlk_entry_wake_informed(struct hlk_entry *e);

/* Drops the hold's own references, once. */
void hlk_entry_forget_hold(struct hlk_entry *e, bool holder_lives);
/* What the release of the hold needs to know. */
void hlk_entry_fill_record(const struct hlk_entry *e, struct hlk_release_record *out);
/* Sets the alarm after the lease has begun, or was renewed or extended. */
void hlk_entry_arm(struct hlk_entry *e);

#endif
