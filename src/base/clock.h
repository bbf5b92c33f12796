/* clock.h - the library's one clock: CLOCK_BOOTTIME (leases run out while a host sleeps), replaceable in unit tests. */
#ifndef HLK_BASE_CLOCK_H
#define HLK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t hlk_clock_ns(void);
int64_t hlk_clock_ms(void);         /* what hlk_now_ms returns */
int64_t hlk_clock_wall_ms(void);    /* the time of day, for people */

/* The CLOCK_MONOTONIC time of `at_ms` (our clock), for sem_clockwait and pthread waits. */
struct timespec hlk_clock_monotonic_at(int64_t at_ms);

/* Milliseconds from now to at_ms, for poll(2): rounded up, 0 when at_ms is past, at most INT_MAX. at_ms INT64_MAX:
 * -1. */
int hlk_clock_poll_ms(int64_t at_ms);

/* now + length. A negative length, or one of 73 years and more, means for ever: INT64_MAX. Every other result also fits
 * as a number of nanoseconds. */
int64_t hlk_clock_after(int64_t now_ms, int64_t length_ms);

/* Tests: all of the above read this clock instead (NULL: the real one again). Not while a client runs. */
void hlk_clock_play(int64_t (*now_ns)(void));

#endif
