/* Poll or block. */
#include "net/spin.h"

#include <criterion/criterion.h>

#define FAST 20000 /* ns */
#define SLOW 400000
#define BLOCKED (HLK_SPIN_LIMIT_NS * 4 / 3) /* slightly above the limit */

static struct hlk_spin spin;

static void init(void)
{
    hlk_spin_init(&spin, false);
}

TestSuite(spin, .init = init);

static void see(int64_t ns, int times)
{
    while (times-- > 0)
        hlk_spin_saw(&spin, ns);
}

Test(spin, starts_optimistic)
{
    cr_assert_eq(hlk_spin_budget_ns(&spin), 2 * HLK_SPIN_LIMIT_NS);
}

Test(spin, polls_for_two_recent_round_trips)
{
    see(FAST, 1);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 2 * FAST);
}

Test(spin, the_average_moves_by_an_eighth)
{
    see(16000, 1);
    see(24000, 1);
    cr_assert_eq(spin.average_ns, 17000);
    see(9000, 1);
    cr_assert_eq(spin.average_ns, 16000);
}

Test(spin, blocks_when_round_trips_are_long)
{
    see(SLOW, 1);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 0);
}

Test(spin, becomes_slow_by_average_not_by_one_small_outlier)
{
    see(FAST, 1);
    see(SLOW, 1);
    cr_assert_gt(hlk_spin_budget_ns(&spin), 0);
    see(SLOW, 20);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 0);
}

Test(spin, probes_once_in_so_many_calls)
{
    int probes = 0;
    see(SLOW, 1);
    for (int i = 0; i < 10 * HLK_SPIN_PROBE; i++) {
        int64_t budget = hlk_spin_budget_ns(&spin);
        probes += budget != 0;
        cr_assert(budget == 0 || budget == HLK_SPIN_LIMIT_NS);
        see(SLOW, 1);
    }
    cr_assert_eq(probes, 10);
}

static int calls_until_probe(void)
{
    int calls = 1;
    while (!hlk_spin_budget_ns(&spin))
        calls++;
    return calls;
}

Test(spin, a_fast_probe_switches_it_on_again)
{
    see(SLOW, 1);
    cr_assert_leq(calls_until_probe(), HLK_SPIN_PROBE);
    see(FAST, 1);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 2 * FAST);
}

Test(spin, a_slow_probe_leaves_it_off_for_another_turn)
{
    see(SLOW, 1);
    (void)calls_until_probe();
    see(SLOW, 1);
    cr_assert_eq(calls_until_probe(), HLK_SPIN_PROBE);
}

/* Blocked round trips are above the limit and polled ones are not: by the average alone polling would stay off. */
Test(spin, comes_back_where_blocking_is_what_makes_it_slow)
{
    see(BLOCKED, 1);
    for (int i = 0; i < HLK_SPIN_PROBE; i++)
        see(hlk_spin_budget_ns(&spin) ? FAST : BLOCKED, 1);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 2 * FAST);
}

Test(spin, a_short_answer_without_a_probe_counts_an_eighth)
{
    see(BLOCKED, 1);
    cr_assert_eq(hlk_spin_budget_ns(&spin), 0);
    see(FAST, 1);
    cr_assert_eq(spin.average_ns, BLOCKED - (BLOCKED - FAST) / 8);
}

Test(spin, a_stall_is_one_vote_not_ten)
{
    see(FAST, 1);
    see(100 * 1000 * 1000, 1);
    cr_assert_gt(hlk_spin_budget_ns(&spin), 0);
}

Test(spin, comes_back_by_average_too)
{
    see(SLOW, 1);
    (void)hlk_spin_budget_ns(&spin);
    see(FAST, 30);
    cr_assert_gt(hlk_spin_budget_ns(&spin), 0);
}

Test(spin, off_never_polls)
{
    hlk_spin_init(&spin, true);
    for (int i = 0; i < 3 * HLK_SPIN_PROBE; i++) {
        cr_assert_eq(hlk_spin_budget_ns(&spin), 0);
        see(FAST, 1);
    }
}

Test(spin, survives_a_clock_that_stands)
{
    see(0, 3);
    cr_assert_gt(hlk_spin_budget_ns(&spin), 0);
    see(-5, 3);
    cr_assert_gt(hlk_spin_budget_ns(&spin), 0);
}
