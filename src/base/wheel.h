/* wheel.h - hashed timer wheel, pure: no clock, no thread, no memory of its own but the slots.
 *
 * arm and cancel are O(1). A timer never fires late by more than a tick after hlk_wheel_advance was called for its
 * time, and never early by more than one tick: due times are rounded DOWN to the tick, because a loss must be told
 * before the lease ends, not after. Timers further away than one turn stay in their slot and are skipped until then. */
#ifndef HLK_BASE_WHEEL_H
#define HLK_BASE_WHEEL_H

#include "base/list.h"
#include <stdint.h>

#define HLK_WHEEL_SLOTS 4096            /* power of two; a turn is 41 s, longer than the usual third of a lease */
#define HLK_WHEEL_TICK_MS 10

struct hlk_timer {                      /* embedded in what it is for; zeroed = not armed. 24 bytes */
    struct hlk_list link;
    int64_t due_ms;                     /* HLK_TIMER_FIRED once advance has moved it to a due list */
};

#define HLK_TIMER_FIRED INT64_MIN

struct hlk_wheel {
    struct hlk_list slots[HLK_WHEEL_SLOTS];
    int64_t now_tick;                   /* the last tick that was advanced over */
    size_t armed;
};

void hlk_wheel_init(struct hlk_wheel *wheel, int64_t now_ms);
/* Armed already: moved. In the past: due in the next tick. */
void hlk_wheel_arm(struct hlk_wheel *wheel, struct hlk_timer *timer, int64_t due_ms);
void hlk_wheel_cancel(struct hlk_wheel *wheel, struct hlk_timer *timer);    /* no-op when not armed */

static inline bool hlk_timer_armed(const struct hlk_timer *timer)   /* false once it is in a due list */
{
    return hlk_list_linked(&timer->link) && timer->due_ms != HLK_TIMER_FIRED;
}

/* Moves all timers due at or before now_ms to the end of `due` (initialised list; nodes are timer->link), unarmed from
 * the wheel's point of view (wheel->armed counts them no more). Until one is popped from `due`, cancel takes it out of
 * there and arm moves it back to the wheel. At most one turn of slots is looked at, however long ago the last call was.
 * Order inside `due`: by tick, if the last call was less than a turn ago. */
void hlk_wheel_advance(struct hlk_wheel *wheel, int64_t now_ms, struct hlk_list *due);

#endif
