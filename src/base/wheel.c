/* wheel.c - see wheel.h. A timer is in slot (tick mod SLOTS). A timer of a later turn is skipped. */
#include "base/wheel.h"

#include "base/debug.h"

static int64_t tick_of(int64_t ms)
{
    return ms < 0 ? -1 : ms / HLK_WHEEL_TICK_MS;
}

static size_t place_of(int64_t tick)
{
    return (uint64_t)tick & (HLK_WHEEL_SLOTS - 1);
}

static struct hlk_list *slot_of(struct hlk_wheel *wheel, int64_t tick)
{
    return &wheel->slots[place_of(tick)];
}

void hlk_wheel_init(struct hlk_wheel *wheel, int64_t now_ms)
{
    for (size_t i = 0; i < HLK_WHEEL_SLOTS; i++)
        hlk_list_init(&wheel->slots[i]);
    wheel->now_tick = tick_of(now_ms);
    wheel->armed = 0;
}

int64_t hlk_wheel_arm(struct hlk_wheel *wheel, struct hlk_timer *timer, int64_t due_ms)
{
    hlk_wheel_cancel(wheel, timer);
    int64_t tick = tick_of(due_ms);
    if (tick <= wheel->now_tick)
        tick = wheel->now_tick + 1;
    timer->due_ms = due_ms < 0 ? 0 : due_ms;
    hlk_list_push_back(slot_of(wheel, tick), &timer->link);
    wheel->armed++;
    return tick * HLK_WHEEL_TICK_MS;
}

void hlk_wheel_cancel(struct hlk_wheel *wheel, struct hlk_timer *timer)
{
    HLK_DEBUG_ASSERT(!hlk_timer_armed(timer) || wheel->armed > 0);
    if (hlk_timer_armed(timer))
        wheel->armed--;
    hlk_list_remove(&timer->link);
}

/* Moves the timers that are due at `tick` from one slot to `due`. */
static void empty_slot(struct hlk_wheel *wheel, struct hlk_list *slot, int64_t tick, struct hlk_list *due)
{
    HLK_DEBUG_ASSERT(wheel->armed > 0 && tick >= 0);
    struct hlk_list *next;
    for (struct hlk_list *node = slot->next; node != slot; node = next) {
        struct hlk_timer *timer = HLK_CONTAINER(node, struct hlk_timer, link);
        next = node->next;
        if (tick_of(timer->due_ms) > tick)
            continue;
        hlk_list_remove(node);
        timer->due_ms = HLK_TIMER_FIRED;
        hlk_list_push_back(due, node);
        wheel->armed--;
    }
}

void hlk_wheel_advance(struct hlk_wheel *wheel, int64_t now_ms, struct hlk_list *due)
{
    HLK_DEBUG_ASSERT(hlk_list_linked(due));
    int64_t last = tick_of(now_ms);
    int64_t first = wheel->now_tick + 1;
    if (last - first >= HLK_WHEEL_SLOTS)
        first = last - HLK_WHEEL_SLOTS + 1;
    for (int64_t tick = first; tick <= last && wheel->armed; tick++)
        empty_slot(wheel, slot_of(wheel, tick), last, due);
    if (last > wheel->now_tick)
        wheel->now_tick = last;
}

int64_t hlk_wheel_next_ms(const struct hlk_wheel *wheel)
{
    if (!wheel->armed)
        return INT64_MAX;
    int64_t tick = wheel->now_tick + 1;
    while (hlk_list_empty(&wheel->slots[place_of(tick)]))
        tick++;
    return tick * HLK_WHEEL_TICK_MS;
}
