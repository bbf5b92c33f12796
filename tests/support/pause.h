/* pause.h - for how long this machine stood still, for tests that measure real time.
 *
 * A bound of a second says "by a message, not by the next poll". A machine that does not run the process for longer
 * than that breaks it, and nothing is wrong with the library. So a thread sleeps a few milliseconds at a time and
 * records how late it woke up. Bounds are compared with the time that is left when these pauses are taken away:
 *
 *     cr_assert_lt(running_ms(began), 900);
 *
 * Where a moment is the very promise ("LOST before another client can hold", with a margin of a tenth of a lease), a
 * round in which the machine stood still shows nothing and is repeated. Everything else that fails is a failure:
 *
 *     static const char *round(void) { ...; return lost_at < other_at ? NULL : "reported too late"; }
 *     const char *late = pause_repeat(MARGIN_MS, round); */
#ifndef HLK_TEST_PAUSE_H
#define HLK_TEST_PAUSE_H

#include <stdint.h>

/* Starts the thread, once in a process. Pauses before that are not known. fixture_begin does it. */
void pause_watch(void);

/* The time from then to now, or between two moments of test_now_ms, without the pauses. */
int64_t running_ms(int64_t since_ms);
int64_t running_between_ms(int64_t from_ms, int64_t to_ms);

/* The longest pause since then, the present one included. */
int64_t pause_longest_ms(int64_t since_ms);

/* Runs `round`. While it returns a text and the machine stood still for more than `margin_ms` meanwhile, runs it again,
 * 5 times in all, and prints a line for each. Returns what the last round returned. NULL: it passed. */
const char *pause_repeat(int64_t margin_ms, const char *(*round)(void));

#endif
