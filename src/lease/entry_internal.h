/* entry_internal.h - what the files of an entry share: entry_state.c, local_queue.c (waiting), pass_permits.c,
 * permit_line.c and pass_holds.c (permits), entry_lose.c (losing), entry.c (holding, releasing). The entry's mutex is
 * held in all of these. */
#ifndef HLK_LEASE_ENTRY_INTERNAL_H
#define HLK_LEASE_ENTRY_INTERNAL_H

#include "lease/entry.h"

#include <assert.h>

/* An entry of this line begins to ask Redis, or to be held; or does it no more: permit_line.c. */
void hlk_permit_line_count(struct hlk_entry *line, bool asks);
void hlk_permit_line_use(struct hlk_entry *line, bool holds);

static inline bool hlk_entry_asks(const struct hlk_entry *e)
{
    return e->state == HLK_ENTRY_ACQUIRING || e->state == HLK_ENTRY_WAITING;
}

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
    bool asked = hlk_entry_asks(e), held = e->state == HLK_ENTRY_HELD;
    e->state = (uint8_t)to & 7u;
    struct hlk_entry *line = hlk_entry_line(e);
    if (line && held != (to == HLK_ENTRY_HELD))
        hlk_permit_line_use(line, !held);
    if (line && hlk_entry_asks(e) != asked)
        hlk_permit_line_count(line, !asked);
}

/* The head waiter, or the one that becomes it when the state is NONE. NULL: nobody waits. */
struct hlk_local_waiter *hlk_entry_head(const struct hlk_entry *e);
/* Out of the local queue, and of a line. */
void hlk_entry_unlink(struct hlk_entry *e, struct hlk_local_waiter *waiter);

bool hlk_entry_is_held_by(const struct hlk_entry *e, uint64_t holder);

/* h was broken while it is not HELD. An "acquired" that is on its way is older than the break, and so is a noted
 * grant. */
void hlk_entry_note_break(struct hlk_entry *e);
/* Makes the first waiter the head waiter and lets it send, if the state is NONE and it does not wait for a pass. */
void hlk_entry_promote(struct hlk_entry *e);
/* This waiter is the head waiter, and has sent nothing yet. */
void hlk_entry_new_hold_id(struct hlk_entry *e, struct hlk_local_waiter *waiter);
/* Gives the lock to the first waiter after a release. False: there is none that may have it, or Redis' queue comes
 * first. *woken: for hlk_park_wake_signalled after the mutex is unlocked, because the woken thread needs it at once. */
bool hlk_entry_pass_on(struct hlk_entry *e, struct hlk_park **woken);
/* A part of that: the waiter has the hold of this entry. True: it ends at another time, so it has to be armed. */
bool hlk_entry_take_over(struct hlk_entry *e, struct hlk_local_waiter *next, int64_t now_ms);
/* It may still be passed on locally: for HLK_PASS_MS, and local_passes times. It has a ticket. */
bool hlk_entry_has_turn(const struct hlk_entry *e, int64_t now_ms);
/* Redis has said BUSY just now. */
bool hlk_passing_is_contended(const struct hlk_passing *passing, int64_t now_ms);
/* And this process has as many permits as its line waits for, and passes them on. */
bool hlk_passing_is_likely(const struct hlk_passing *passing, int64_t now_ms);
/* Sets the alarm for the first waiter. If it is set already, nothing changes, and it may be set again when it fires. */
void hlk_entry_ask_by(struct hlk_entry *e, int64_t at_ms);
/* The first waiter waits for permits that are passed on, and asks at the end of the turn. False: it asks now; so does
 * that of a lock. */
bool hlk_entry_postpone(struct hlk_entry *e);
/* False: no memory. */
bool hlk_entry_make_ticket(struct hlk_entry *e);
/* Wakes the waiters that may return without being the head waiter: same holder, or one try. */
void hlk_entry_wake_informed(struct hlk_entry *e);

/* --- leased permits: permit_line.c. Each is a no-op for other entries --- */

/* The waiter's line is the entry's, if that has none yet. */
void hlk_permit_line_begin(struct hlk_entry *e, const struct hlk_local_waiter *waiter);
/* The first waiter of an entry that is NONE. False: it need not wait in line, and asks. */
bool hlk_permit_line_join(struct hlk_entry *e, struct hlk_local_waiter *waiter);
void hlk_permit_line_leave(struct hlk_local_waiter *waiter);
/* Redis has answered BUSY; or has given the entry a hold, to this waiter. */
void hlk_permit_line_busy(struct hlk_entry *e);
void hlk_permit_line_got(struct hlk_entry *e, const struct hlk_local_waiter *waiter, int64_t now_ms);
struct hlk_local_waiter *hlk_permit_line_first(const struct hlk_entry *line);      /* NULL: nobody is in it */
/* The first one in it asks Redis if nobody does. at_once: now. Else it may wait for a hold that is passed on, and ask
 * by an alarm. */
void hlk_permit_line_ask(struct hlk_entry *line, bool at_once);
void hlk_permit_line_ask_all(const struct hlk_entry *line);                        /* who is in it asks Redis */
/* pass_holds.c: gives the hold of a holder that releases it to the first waiter in line. False: none may have it, or
 * Redis' queue comes first. True: the entry is NONE, and its reference as a held one is to be dropped. *woken: as
 * above. */
bool hlk_entry_pass_hold(struct hlk_entry *e, struct hlk_park **woken);

/* Drops the hold's own references, once. */
void hlk_entry_forget_hold(struct hlk_entry *e, bool holder_lives);
/* What the release of the hold needs to know. */
void hlk_entry_fill_record(const struct hlk_entry *e, struct hlk_release_record *out);
/* Sets the alarm after the lease has begun, or was renewed or extended. */
void hlk_entry_arm(struct hlk_entry *e);

#endif
