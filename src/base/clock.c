/* clock.c - see clock.h. Times are on CLOCK_BOOTTIME, but pthread waits use CLOCK_MONOTONIC. So a time is converted to
 * its distance from now. If the host sleeps during a wait, the wait ends late by at most that sleep. */
#include "base/clock.h"

#include "hasplock/status.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define NS_A_MS 1000000
#define NS_A_S 1000000000
#define LONGEST_NS (INT64_MAX / 4) /* 73 years: counts as for ever, and sums do not overflow */

typedef int64_t now_fn(void);
static _Atomic(now_fn *) played;

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0)
        return -1;
    return (int64_t)now.tv_sec * NS_A_S + now.tv_nsec;
}

int64_t hlk_clock_ns(void)
{
    now_fn *play = atomic_load_explicit(&played, memory_order_acquire);
    if (play)
        return play();
#ifdef CLOCK_BOOTTIME
    int64_t now = read_ns(CLOCK_BOOTTIME);
    if (now >= 0)
        return now;
#endif
    return read_ns(CLOCK_MONOTONIC);
}

int64_t hlk_clock_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / NS_A_MS;
}

int64_t hlk_clock_ms(void)
{
    return hlk_clock_ns() / NS_A_MS;
}

int64_t hlk_now_ms(void)
{
    return hlk_clock_ms();
}

/* From now to at_ms; 0 when it is past. */
static int64_t left_ns(int64_t at_ms)
{
    if (at_ms > LONGEST_NS / NS_A_MS)
        return LONGEST_NS;
    int64_t now = hlk_clock_ns();
    if (at_ms <= now / NS_A_MS)
        return 0;
    return at_ms * NS_A_MS - now;
}

struct timespec hlk_clock_monotonic_at(int64_t at_ms)
{
    /* Our clock is read first. The time between the two readings then makes a wait longer, never shorter. */
    int64_t left = left_ns(at_ms);
    int64_t then = read_ns(CLOCK_MONOTONIC) + left;
    return (struct timespec){ .tv_sec = (time_t)(then / NS_A_S), .tv_nsec = (long)(then % NS_A_S) };
}

int hlk_clock_poll_ms(int64_t at_ms)
{
    if (at_ms == INT64_MAX)
        return -1;
    int64_t ms = (left_ns(at_ms) + NS_A_MS - 1) / NS_A_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int64_t hlk_clock_after(int64_t now_ms, int64_t length_ms)
{
    bool never = length_ms < 0 || length_ms > LONGEST_NS / NS_A_MS || now_ms > LONGEST_NS / NS_A_MS - length_ms;
    return never ? INT64_MAX : now_ms + length_ms;
}

void hlk_clock_play(int64_t (*now_ns)(void))
{
    atomic_store_explicit(&played, now_ns, memory_order_release);
}
