/* The delay before an attempt. */
#include "net/backoff.h"

#include <criterion/criterion.h>

static struct hlk_backoff b;

Test(backoff, doubles_up_to_the_cap_within_half_and_whole)
{
    static const int64_t whole[] = { 10, 20, 40, 80, 160, 300, 300, 300 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        hlk_backoff_init(&b, 10, 300, seed);
        for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
            int64_t ms = hlk_backoff_next(&b);
            cr_assert_geq(ms, whole[i] / 2);
            cr_assert_leq(ms, whole[i]);
        }
    }
}

Test(backoff, reaches_both_ends_of_its_spread)
{
    int low = 0, high = 0;
    hlk_backoff_init(&b, 8, 8, 1);
    for (int i = 0; i < 500; i++) {
        int64_t ms = hlk_backoff_next(&b);
        low += ms == 4;
        high += ms == 8;
    }
    cr_assert_gt(low, 50);
    cr_assert_gt(high, 50);
}

Test(backoff, differs_by_seed)
{
    struct hlk_backoff other;
    int same = 0;
    hlk_backoff_init(&b, 1000, 100000, 1);
    hlk_backoff_init(&other, 1000, 100000, 2);
    for (int i = 0; i < 20; i++)
        same += hlk_backoff_next(&b) == hlk_backoff_next(&other);
    cr_assert_lt(same, 3);
}

Test(backoff, is_the_same_for_the_same_seed)
{
    struct hlk_backoff other;
    hlk_backoff_init(&b, 10, 300, 42);
    hlk_backoff_init(&other, 10, 300, 42);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(hlk_backoff_next(&b), hlk_backoff_next(&other));
}

Test(backoff, begins_again_after_a_reset)
{
    hlk_backoff_init(&b, 10, 300, 3);
    for (int i = 0; i < 6; i++)
        hlk_backoff_next(&b);
    cr_assert_eq(b.attempt, 6u);
    hlk_backoff_reset(&b);
    cr_assert_leq(hlk_backoff_next(&b), 10);
}

Test(backoff, stays_at_the_cap_for_ever)
{
    hlk_backoff_init(&b, 10, 300, 3);
    b.attempt = UINT32_MAX;
    cr_assert_geq(hlk_backoff_next(&b), 150);
    cr_assert_eq(b.attempt, UINT32_MAX);
}

Test(backoff, does_not_overflow)
{
    hlk_backoff_init(&b, INT64_MAX / 3, INT64_MAX, 3);
    for (int i = 0; i < 70; i++)
        cr_assert_gt(hlk_backoff_next(&b), 0);
}

Test(backoff, a_base_above_the_cap_is_the_cap)
{
    hlk_backoff_init(&b, 1000, 10, 3);
    cr_assert_leq(hlk_backoff_next(&b), 10);
}
