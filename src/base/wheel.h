/* wheel.h - hashed timer wheel, pure: no clock, no thread, no memory but the slots.
 *
 * arm and cancel are O(1). Due times are rounded DOWN to the tick, because a loss must be reported before the lease
 * ends. So a timer fires at most one tick early, and at the latest in the hlk_wheel_advance for its time. A timer that
 * is more than one turn away stays in its slot and is skipped until then. */
#ifndef HLK_BASE_WHEEL_H
#define HLK_BASE_WHEEL_H

#include "base/list.h"
#include <stdint.h>

#define HLK_WHEEL_SLOTS 4096            /* power of two; a turn is 41 s, more than a third of the usual lease */
#define HLK_WHEEL_TICK_MS 10

struct hlk_timer {                      /* embedded; zeroed = not armed. 24 bytes */
    struct hlk_list link;
    int64_t due_ms;                     /* HLK_TIMER_FIRED after advance has moved it to a due list */
};

#define HLK_TIMER_FIRED INT64_MIN

struct hlk_wheel {
    struct hlk_list slots[HLK_WHEEL_SLOTS];
    int64_t now_tick;                   /* the last tick that was processed */
    size_t armed;
};

void hlk_wheel_init(struct hlk_wheel *wheel, int64_t now_ms);
/* Moves the timer if it is armed already. A time in the past is due in the next tick. Returns when to call advance for
 * it. */
int64_t hlk_wheel_arm(struct hlk_wheel *wheel, struct hlk_timer *timer, int64_t due_ms);
void hlk_wheel_cancel(struct hlk_wheel *wheel, struct hlk_timer *timer);    /* no-op when not armed */

static inline bool hlk_timer_armed(const struct hlk_timer *timer)   /* false once it is in a due list */
{
    return hlk_list_linked(&timer->link) && timer->due_ms != HLK_TIMER_FIRED;
}

/* Moves all timers that are due at now_ms to the end of `due` (an initialised list; its nodes are timer->link). They no
 * longer count as armed. Until a timer is popped from `due`, cancel removes it from there and arm moves it back to the
 * wheel. At most one turn of slots is examined, however long ago the last call was. `due` is in the order of ticks if
 * the last call was less than a turn ago. */
void hlk_wheel_advance(struct hlk_wheel *wheel, int64_t now_ms, struct hlk_list *due);

/* When advance must examine the next used slot; INT64_MAX: no timer is armed. A slot is used in each turn until its
 * last timer has fired. */
int64_t hlk_wheel_next_ms(const struct hlk_wheel *wheel);

#endif
