/* Times and durations, with a played clock. */
#include "base/clock.h"

#include "hasplock/status.h"

#include <criterion/criterion.h>
#include <limits.h>

#define MS INT64_C(1000000)

static int64_t now_ns;

static int64_t played(void)
{
    return now_ns;
}

static void play(void)
{
    now_ns = 5000 * MS;
    hlk_clock_play(played);
}

static void stop(void)
{
    hlk_clock_play(NULL);
}

TestSuite(clock, .init = play, .fini = stop);

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

Test(clock, milliseconds_are_rounded_down)
{
    now_ns = 5000 * MS + MS - 1;
    cr_assert_eq(hlk_clock_ns(), now_ns);
    cr_assert_eq(hlk_clock_ms(), 5000);
    cr_assert_eq(hlk_now_ms(), 5000);
}

Test(clock, poll_waits_until_the_moment_and_not_less)
{
    cr_assert_eq(hlk_clock_poll_ms(5010), 10);
    now_ns += 1;
    cr_assert_eq(hlk_clock_poll_ms(5010), 10);
    now_ns = 5010 * MS - 1;
    cr_assert_eq(hlk_clock_poll_ms(5010), 1);
}

Test(clock, poll_does_not_wait_for_what_is_over)
{
    cr_assert_eq(hlk_clock_poll_ms(5000), 0);
    cr_assert_eq(hlk_clock_poll_ms(1), 0);
    cr_assert_eq(hlk_clock_poll_ms(INT64_MIN), 0);
}

Test(clock, poll_for_ever_is_minus_one)
{
    cr_assert_eq(hlk_clock_poll_ms(INT64_MAX), -1);
}

Test(clock, poll_is_capped)
{
    cr_assert_eq(hlk_clock_poll_ms(5000 + (int64_t)INT_MAX + 1), INT_MAX);
    cr_assert_eq(hlk_clock_poll_ms(INT64_MAX - 1), INT_MAX);
}

Test(clock, after_adds)
{
    cr_assert_eq(hlk_clock_after(5000, 0), 5000);
    cr_assert_eq(hlk_clock_after(5000, 30), 5030);
}

Test(clock, after_a_negative_length_is_never)
{
    cr_assert_eq(hlk_clock_after(5000, -1), INT64_MAX);
    cr_assert_eq(hlk_clock_after(5000, INT64_MIN), INT64_MAX);
}

Test(clock, after_does_not_overflow)
{
    cr_assert_eq(hlk_clock_after(5000, INT64_MAX), INT64_MAX);
    cr_assert_eq(hlk_clock_after(5000, INT64_MAX - 5000), INT64_MAX);
    cr_assert_eq(hlk_clock_after(5000, INT64_MAX - 5001), INT64_MAX);
    cr_assert_eq(hlk_clock_after(5000, INT64_MAX / 1000000), INT64_MAX, "such a moment is no number of ns");
}

/* Waits use the kernel's clock, also under a played one. The distance from now is the same on both. */
static void is_ahead_by(int64_t at_ms, int64_t ahead_ns)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t at = ns_of(hlk_clock_monotonic_at(at_ms));
    clock_gettime(CLOCK_MONOTONIC, &after);
    cr_assert_geq(at, ns_of(before) + ahead_ns);
    cr_assert_leq(at, ns_of(after) + ahead_ns);
}

Test(clock, monotonic_moment_is_as_far_ahead)
{
    is_ahead_by(7001, 2001 * MS);
    now_ns += 1;
    is_ahead_by(7001, 2001 * MS - 1);
}

Test(clock, monotonic_moment_that_is_over_is_now)
{
    is_ahead_by(3, 0);
}

Test(clock, monotonic_for_ever_is_decades_away_and_valid)
{
    struct timespec never = hlk_clock_monotonic_at(INT64_MAX);
    cr_assert_gt(never.tv_sec, 50L * 365 * 24 * 3600);
    cr_assert(never.tv_nsec >= 0 && never.tv_nsec < 1000 * MS);
}

/* The real clocks, bounded by readings before and after, so the test's own duration does not matter. */
Test(clock, real_monotonic_moment_is_never_early)
{
    struct timespec before, after;
    hlk_clock_play(NULL);
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t at = ns_of(hlk_clock_monotonic_at(hlk_clock_ms() + 1000));
    clock_gettime(CLOCK_MONOTONIC, &after);
    cr_assert_geq(at, ns_of(before) + 999 * MS);
    cr_assert_leq(at, ns_of(after) + 1000 * MS);
}

Test(clock, real_clock_counts_the_time_a_host_sleeps)
{
    struct timespec boot, later;
    hlk_clock_play(NULL);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    int64_t now = hlk_clock_ns();
    clock_gettime(CLOCK_BOOTTIME, &later);
    cr_assert(now >= ns_of(boot) && now <= ns_of(later));
}
