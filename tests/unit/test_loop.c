/* Calls that belong to the loop thread are refused on every other thread; and when the loop wakes up by itself. */
#include "net/loop.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <signal.h>

static hlk_loop *loop;

static void init(void)
{
    struct hlk_error error;
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
}

static void fini(void)
{
    hlk_loop_stop(loop);
    hlk_loop_destroy(loop);
}

TestSuite(loop, .init = init, .fini = fini, .timeout = 20);

static void start(void)
{
    struct hlk_error error;
    cr_assert_eq(hlk_loop_start(loop, &error), HLK_OK);
}

static bool was_here;

static void assert_here(struct hlk_post *post)
{
    (void)post;
    hlk_loop_assert_here(loop);
    was_here = hlk_loop_here(loop);
}

Test(loop, is_its_own_threads)
{
    struct hlk_post post = { .run = assert_here };
    hlk_loop_assert_here(loop); /* it belongs to no thread yet */
    start();
    cr_assert_not(hlk_loop_here(loop));
    hlk_loop_post(loop, &post);
    hlk_loop_stop(loop);
    cr_assert(was_here);
}

#ifdef HLK_DEBUG /* a release does not check it */
/* asks A10 hiredis 124, 383, 424, 530, 676, 1258, 452 */
Test(loop, aborts_who_takes_it_for_theirs, .signal = SIGABRT)
{
    start();
    hlk_loop_assert_here(loop);
}
#endif

/* --- when it wakes up by itself: a played clock, no thread */

enum { START_MS = 1000000, TICK = HLK_WHEEL_TICK_MS };

static int64_t played_ms;
static int turns;

static int64_t played_ns(void)
{
    return played_ms * 1000000;
}

static void play(void)
{
    played_ms = START_MS;
    hlk_clock_play(played_ns);
    init();
}

static void stop_playing(void)
{
    fini();
    hlk_clock_play(NULL);
}

TestSuite(loop_sleep, .init = play, .fini = stop_playing, .timeout = 20);

/* Time passes, and the loop wakes up at its own times, which are counted. */
static void pass(int64_t ms)
{
    int64_t until = played_ms + ms;
    while (hlk_loop_wakes_ms(loop) <= until) {
        int64_t wakes_ms = hlk_loop_wakes_ms(loop);
        played_ms = wakes_ms > played_ms ? wakes_ms : played_ms;
        hlk_loop_tick(loop);
        cr_assert_gt(hlk_loop_wakes_ms(loop), played_ms, "it would turn without end");
        turns++;
    }
    played_ms = until;
}

struct counted {
    struct hlk_alarm alarm;
    int fired;
    int64_t again_ms, at_ms;
};

static void count(struct hlk_alarm *alarm)
{
    struct counted *c = HLK_CONTAINER(alarm, struct counted, alarm);
    c->fired++;
    c->at_ms = played_ms;
    if (c->again_ms)
        hlk_loop_arm(loop, alarm, played_ms + c->again_ms);
}

static void arm(struct counted *c, int64_t ms)
{
    c->alarm.fire = count;
    hlk_loop_arm(loop, &c->alarm, played_ms + ms);
}

Test(loop_sleep, with_nothing_to_do_lasts)
{
    pass(3600000);
    cr_assert_eq(turns, 0);
}

Test(loop_sleep, ends_for_an_alarm_once)
{
    static struct counted c;
    arm(&c, 10000);
    pass(9900);
    cr_assert_eq(turns, 0);
    pass(100);
    cr_assert_eq(c.fired, 1);
    cr_assert_eq(c.at_ms, START_MS + 10000);
    pass(3600000);
    cr_assert_eq(turns, 1);
}

Test(loop_sleep, ends_sooner_for_an_alarm_that_is_sooner)
{
    static struct counted late, soon;
    arm(&late, 10000);
    arm(&soon, 500);
    pass(10000);
    cr_assert_eq(soon.at_ms, START_MS + 500);
    cr_assert_eq(late.at_ms, START_MS + 10000);
    cr_assert_eq(turns, 2);
}

/* A thread that acquires and releases must not set the clock each time. */
Test(loop_sleep, ends_in_vain_at_most_once_for_cancelled_alarms)
{
    static struct counted c;
    for (int i = 0; i < 1000; i++) {
        arm(&c, 10000);
        hlk_loop_cancel(loop, &c.alarm);
        pass(1);
    }
    pass(3600000);
    cr_assert_eq(c.fired, 0);
    cr_assert_leq(turns, 1);
}

/* A client that only holds: its wake-ups are as many as there are slots with renewals. */
Test(loop_sleep, ends_no_more_often_than_slots_are_in_use)
{
    static struct counted holds[300];
    for (int i = 0; i < 300; i++) {
        holds[i].again_ms = 10000;
        arm(&holds[i], 10000 + i % 3 * 40);
    }
    pass(60000);
    cr_assert_eq(holds[0].fired, 6);
    cr_assert_leq(turns, 3 * 6);
}

Test(loop_sleep, ends_once_a_turn_of_the_wheel_for_an_alarm_beyond)
{
    static struct counted c;
    arm(&c, 24 * 3600000);
    pass(3600000);
    cr_assert_eq(turns, 0);
    static struct counted other; /* only then the wheel is examined */
    arm(&other, 1000);
    pass(3600000);
    cr_assert_leq(turns, 2 + 3600000 / (HLK_WHEEL_SLOTS * TICK));
    pass(24 * 3600000);
    cr_assert_eq(c.fired, 1);
}

Test(loop_sleep, ends_at_once_after_a_suspended_host_came_back)
{
    static struct counted c;
    arm(&c, 10000);
    played_ms += 3600000;
    pass(0);
    cr_assert_eq(c.fired, 1);
    cr_assert_eq(turns, 1);
}

static int64_t due_ms;

static int64_t tick_due_ms(struct hlk_tick *tick)
{
    (void)tick;
    return due_ms;
}

static int runs;

static void tick_run(struct hlk_tick *tick, int64_t now_ms)
{
    (void)tick;
    runs++;
    if (now_ms >= due_ms)
        due_ms = INT64_MAX;
}

static struct hlk_tick a_tick = { .run = tick_run, .due_ms = tick_due_ms };

Test(loop_sleep, lasts_a_tick_while_needed_and_for_a_second_after)
{
    due_ms = INT64_MAX;
    hlk_loop_add_tick(loop, &a_tick);
    hlk_loop_need_ticks(loop);
    pass(500);
    cr_assert_eq(runs, 50);
    hlk_loop_need_ticks(loop); /* it ticks already */
    pass(3600000);
    cr_assert_leq(runs, 101);
}

Test(loop_sleep, ends_when_a_tick_is_due)
{
    due_ms = played_ms + 2000;
    hlk_loop_add_tick(loop, &a_tick);
    hlk_loop_wake_by(loop, due_ms);
    pass(3600000);
    cr_assert_eq(runs, 1);
    cr_assert_eq(turns, 1);
}

/* Another thread arms while the loop computes its next wake-up: after it has read the wheel, before it sets the
 * clock. */
static int64_t late_due_ms(struct hlk_tick *tick)
{
    (void)tick;
    if (runs == 1)
        hlk_loop_wake_by(loop, played_ms + 70);
    return INT64_MAX;
}

Test(loop_sleep, misses_nobody_who_asks_while_it_looks)
{
    static struct counted c;
    a_tick.due_ms = late_due_ms;
    hlk_loop_add_tick(loop, &a_tick);
    arm(&c, 10);
    pass(10);
    cr_assert_eq(runs, 1);
    pass(3600000);
    cr_assert_eq(runs, 2);
}

static void ask(struct hlk_alarm *alarm)
{
    (void)alarm;
    hlk_loop_need_ticks(loop);
}

Test(loop_sleep, misses_nobody_who_needs_ticks_while_it_looks)
{
    static struct hlk_alarm alarm = { .fire = ask };
    due_ms = INT64_MAX;
    hlk_loop_add_tick(loop, &a_tick);
    hlk_loop_arm(loop, &alarm, played_ms + 10);
    pass(30);
    cr_assert_eq(runs, 3);
}
