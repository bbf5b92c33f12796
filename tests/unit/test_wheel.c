/* The timer wheel: which timers fire when. */
#include "base/wheel.h"

#include <criterion/criterion.h>
#include <stdint.h>

#define TICK HLK_WHEEL_TICK_MS
#define TURN ((int64_t)HLK_WHEEL_SLOTS * TICK)

static struct hlk_wheel wheel;
static struct hlk_list due;

static void init(void)
{
    hlk_wheel_init(&wheel, 100000);
    hlk_list_init(&due);
}

TestSuite(wheel, .init = init);

static struct hlk_timer *pop(void)
{
    struct hlk_list *node = hlk_list_pop(&due);
    return node ? HLK_CONTAINER(node, struct hlk_timer, link) : NULL;
}

static int fired_at(int64_t now_ms)
{
    int n = 0;
    hlk_wheel_advance(&wheel, now_ms, &due);
    while (pop())
        n++;
    return n;
}

Test(wheel, fires_in_the_tick_before_the_due_time)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100509);
    cr_assert_eq(fired_at(100499), 0);
    cr_assert_eq(fired_at(100500), 1);
}

Test(wheel, fires_at_a_due_time_that_is_a_tick)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100510);
    cr_assert_eq(fired_at(100509), 0);
    cr_assert_eq(fired_at(100510), 1);
}

Test(wheel, fires_once)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100100);
    cr_assert_eq(fired_at(100100), 1);
    cr_assert_not(hlk_timer_armed(&timer));
    cr_assert_eq(fired_at(100100 + TURN), 0);
    cr_assert_eq(fired_at(100100 + 2 * TURN), 0);
}

Test(wheel, what_is_past_fires_in_the_next_tick)
{
    struct hlk_timer ended_hold = { 0 }, now = { 0 }, negative = { 0 };
    hlk_wheel_arm(&wheel, &ended_hold, 5);
    hlk_wheel_arm(&wheel, &now, 100000);
    hlk_wheel_arm(&wheel, &negative, INT64_MIN);
    cr_assert_eq(fired_at(100009), 0);
    cr_assert_eq(fired_at(100010), 3);
}

Test(wheel, what_is_turns_away_waits_for_its_turn)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100000 + 3 * TURN + 50);
    for (int64_t now = 100000; now < 100000 + 3 * TURN + 50; now += TICK)
        cr_assert_eq(fired_at(now), 0);
    cr_assert_eq(fired_at(100000 + 3 * TURN + 50), 1);
}

Test(wheel, what_is_never_due_never_fires)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, INT64_MAX);
    cr_assert_eq(fired_at(100000 + 10 * TURN), 0);
    cr_assert_eq(fired_at(INT64_MAX / 2), 0);
    cr_assert(hlk_timer_armed(&timer));
}

Test(wheel, a_long_pause_fires_all_that_is_due)
{
    struct hlk_timer timers[300] = { 0 };
    for (int i = 0; i < 300; i++)
        hlk_wheel_arm(&wheel, &timers[i], 100000 + i * (TURN / 100));
    cr_assert_eq(fired_at(100000 + 4 * TURN), 300);
    cr_assert_eq(wheel.armed, 0u);
}

Test(wheel, a_long_pause_fires_nothing_that_is_not_due)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100000 + 2 * TURN + TICK);
    cr_assert_eq(fired_at(100000 + 2 * TURN + TICK - 1), 0);
    cr_assert_eq(fired_at(100000 + 2 * TURN + TICK), 1);
}

Test(wheel, a_pause_of_one_turn_less_a_tick_misses_no_slot)
{
    for (int64_t pause = TURN - 2 * TICK; pause <= TURN + 2 * TICK; pause += TICK) {
        struct hlk_timer first = { 0 }, last = { 0 };
        hlk_wheel_init(&wheel, 100000);
        hlk_wheel_arm(&wheel, &first, 100010);
        hlk_wheel_arm(&wheel, &last, 100000 + pause);
        cr_assert_eq(fired_at(100000 + pause), 2);
    }
}

Test(wheel, due_is_ordered_by_tick)
{
    struct hlk_timer late = { 0 }, early = { 0 }, middle = { 0 };
    hlk_wheel_arm(&wheel, &late, 100900);
    hlk_wheel_arm(&wheel, &early, 100100);
    hlk_wheel_arm(&wheel, &middle, 100500);
    hlk_wheel_advance(&wheel, 101000, &due);
    cr_assert_eq(pop(), &early);
    cr_assert_eq(pop(), &middle);
    cr_assert_eq(pop(), &late);
    cr_assert_null(pop());
}

Test(wheel, due_is_appended_to)
{
    struct hlk_timer first = { 0 }, second = { 0 };
    hlk_wheel_arm(&wheel, &first, 100100);
    hlk_wheel_arm(&wheel, &second, 100200);
    hlk_wheel_advance(&wheel, 100100, &due);
    hlk_wheel_advance(&wheel, 100200, &due);
    cr_assert_eq(pop(), &first);
    cr_assert_eq(pop(), &second);
}

Test(wheel, time_that_goes_back_changes_nothing)
{
    struct hlk_timer timer = { 0 };
    cr_assert_eq(fired_at(100500), 0);
    cr_assert_eq(fired_at(100100), 0);
    hlk_wheel_arm(&wheel, &timer, 100200);
    cr_assert_eq(fired_at(100300), 0);
    cr_assert_eq(fired_at(100510), 1);
}

Test(wheel, cancelled_does_not_fire)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100100);
    hlk_wheel_cancel(&wheel, &timer);
    cr_assert_not(hlk_timer_armed(&timer));
    cr_assert_eq(wheel.armed, 0u);
    cr_assert_eq(fired_at(100200), 0);
}

Test(wheel, cancel_of_what_is_not_armed_is_nothing)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_cancel(&wheel, &timer);
    hlk_wheel_arm(&wheel, &timer, 100100);
    cr_assert_eq(fired_at(100100), 1);
    hlk_wheel_cancel(&wheel, &timer);
    cr_assert_eq(wheel.armed, 0u);
}

Test(wheel, armed_again_fires_at_the_new_time_only)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100100);
    hlk_wheel_arm(&wheel, &timer, 100300);
    cr_assert_eq(wheel.armed, 1u);
    cr_assert_eq(fired_at(100290), 0);
    cr_assert_eq(fired_at(100300), 1);
}

Test(wheel, one_in_the_due_list_can_still_be_cancelled)
{
    struct hlk_timer first = { 0 }, second = { 0 }, waiting = { 0 };
    hlk_wheel_arm(&wheel, &first, 100100);
    hlk_wheel_arm(&wheel, &second, 100100);
    hlk_wheel_arm(&wheel, &waiting, 100900);
    hlk_wheel_advance(&wheel, 100100, &due);
    hlk_wheel_cancel(&wheel, &first);
    cr_assert_eq(wheel.armed, 1u);
    cr_assert_eq(pop(), &second);
    cr_assert_null(pop());
}

Test(wheel, one_in_the_due_list_can_be_armed_again)
{
    struct hlk_timer timer = { 0 };
    hlk_wheel_arm(&wheel, &timer, 100100);
    hlk_wheel_advance(&wheel, 100100, &due);
    hlk_wheel_arm(&wheel, &timer, 100300);
    cr_assert(hlk_list_empty(&due));
    cr_assert_eq(wheel.armed, 1u);
    cr_assert_eq(fired_at(100300), 1);
}

Test(wheel, a_timer_has_24_bytes)
{
    cr_assert_eq(sizeof(struct hlk_timer), 8 + 2 * sizeof(void *));
}

static uint64_t random_state = 1;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

enum { MANY = 500, STEPS = 20000 };

static struct {
    struct hlk_timer timer;
    int64_t due_ms; /* 0: not armed */
} some[MANY];

/* The head of wheel.h as one rule: after advance(now) no armed timer is due, and none has fired more than a tick
 * early. */
Test(wheel, random_arms_and_cancels_fire_exactly_when_due)
{
    int64_t now = 100000;
    size_t armed = 0, fired = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = next_random() % MANY;
        armed -= some[i].due_ms != 0;
        if (next_random() % 4) {
            some[i].due_ms = now + 1 + (int64_t)(next_random() % (uint64_t)(2 * TURN));
            hlk_wheel_arm(&wheel, &some[i].timer, some[i].due_ms);
            armed++;
        } else {
            some[i].due_ms = 0;
            hlk_wheel_cancel(&wheel, &some[i].timer);
        }
        now += (int64_t)(next_random() % (step % 1000 == 0 ? (uint64_t)(3 * TURN) : 40));
        hlk_wheel_advance(&wheel, now, &due);
        for (struct hlk_timer *timer; (timer = pop()) != NULL; armed--, fired++) {
            size_t k = (size_t)((char *)timer - (char *)some) / sizeof some[0];
            cr_assert_neq(some[k].due_ms, 0);
            cr_assert_lt(some[k].due_ms, now + TICK);
            some[k].due_ms = 0;
        }
        for (size_t k = 0; step % 50 == 0 && k < MANY; k++)
            cr_assert(some[k].due_ms == 0 || some[k].due_ms > now - TICK);
        cr_assert_eq(wheel.armed, armed);
    }
    cr_assert_gt(fired, 1000u);
}

/* --- the next wake-up --- */

Test(wheel, tells_when_a_timer_is_to_be_looked_for)
{
    struct hlk_timer timer = { .due_ms = 0 };
    cr_assert_eq(hlk_wheel_next_ms(&wheel), INT64_MAX);
    cr_assert_eq(hlk_wheel_arm(&wheel, &timer, 100509), 100500);
    cr_assert_eq(hlk_wheel_next_ms(&wheel), 100500);
    cr_assert_eq(hlk_wheel_arm(&wheel, &timer, 5), 100000 + TICK);
    cr_assert_eq(hlk_wheel_next_ms(&wheel), 100000 + TICK);
    hlk_wheel_cancel(&wheel, &timer);
    cr_assert_eq(hlk_wheel_next_ms(&wheel), INT64_MAX);
}

Test(wheel, looks_into_the_slot_of_a_far_timer_in_each_turn)
{
    struct hlk_timer far = { .due_ms = 0 };
    cr_assert_eq(hlk_wheel_arm(&wheel, &far, 100000 + 3 * TURN + 50), 100000 + 3 * TURN + 50);
    cr_assert_eq(hlk_wheel_next_ms(&wheel), 100050);
}
