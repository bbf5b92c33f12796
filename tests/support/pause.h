/* pause.h - how long this machine stood still, for tests whose subject is a moment of real time.
 *
 * "LOST is reported before another client can hold" has a margin of a tenth of a lease. When the machine does not run
 * the process for longer than that, the round shows nothing about the library. So a thread sleeps a millisecond at a
 * time and notes how late it woke up, and such a round is repeated. Everything else that fails is a failure.
 *
 *     static const char *round(void) { ...; return lost_at < other_at ? NULL : "reported too late"; }
 *     cr_assert_null(pause_repeat(MARGIN_MS, round)); */
#ifndef HLK_TEST_PAUSE_H
#define HLK_TEST_PAUSE_H

#include <stdint.h>

/* Starts the thread, once a process. */
void pause_watch(void);

/* The longest pause since then; at least that of the thread's present sleep. After pause_watch. */
int64_t pause_longest_ms(int64_t since_ms);

/* Runs `round` until it returns NULL, 5 times at most, and only as long as each round had a pause of more than
 * `margin_ms`; a line tells of each. Returns what the last round did. */
const char *pause_repeat(int64_t margin_ms, const char *(*round)(void));

#endif
