/* spin.c - see spin.h. */
#include "net/spin.h"

#include "base/debug.h"

void hlk_spin_init(struct hlk_spin *spin, bool off)
{
    *spin = (struct hlk_spin){ .off = off };
}

static bool is_slow(const struct hlk_spin *spin)
{
    return spin->average_ns > HLK_SPIN_LIMIT_NS;
}

/* While polling is off, since_probe counts the blocking calls; 0: the last call was a probe. */
int64_t hlk_spin_budget_ns(struct hlk_spin *spin)
{
    HLK_DEBUG_ASSERT(spin->average_ns >= 0);
    if (spin->off)
        return 0;
    if (!spin->average_ns)
        return 2 * HLK_SPIN_LIMIT_NS;
    if (!is_slow(spin))
        return 2 * spin->average_ns;
    if (++spin->since_probe < HLK_SPIN_PROBE)
        return 0;
    spin->since_probe = 0;
    return HLK_SPIN_LIMIT_NS;
}

void hlk_spin_saw(struct hlk_spin *spin, int64_t round_trip_ns)
{
    HLK_DEBUG_ASSERT(spin->average_ns >= 0);
    if (round_trip_ns > 2 * HLK_SPIN_LIMIT_NS) /* one stall of the machine must not count tenfold */
        round_trip_ns = 2 * HLK_SPIN_LIMIT_NS;
    bool was_slow = is_slow(spin);
    if (round_trip_ns < 1)
        round_trip_ns = 1;

    /* The average would hardly move: one polled trip among 63 blocked ones counts an eighth. So a fast probe replaces
     * it. */
    bool probe_was_fast = was_slow && !spin->since_probe && round_trip_ns <= HLK_SPIN_LIMIT_NS;
    if (!spin->average_ns || probe_was_fast)
        spin->average_ns = round_trip_ns;
    else
        spin->average_ns += (round_trip_ns - spin->average_ns) / 8;

    if (!was_slow && is_slow(spin))
        spin->since_probe = 1;
}
