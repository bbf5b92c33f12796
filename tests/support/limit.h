/* limit.h - what the tests of limits share: threads that acquire and release in rounds, of which at most so many may
 * hold at once, and a thread that cuts the proxy's connections in the middle of their work.
 *
 *     for (int i = 0; limit_goes_on(i, ROUNDS); i++) {        each thread
 *         ... acquire n
 *         limit_enter(n);
 *         limit_leave(n);
 *         ... release n
 *     }
 *     cr_assert_leq(limit_most(), LIMIT);                     after all of them
 *
 * The numbers are the process's. Each test is a process of its own. */
#ifndef HLK_TEST_LIMIT_H
#define HLK_TEST_LIMIT_H

#include <hasplock/inspect.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Any thread. */
bool limit_goes_on(int round, int rounds);      /* so many rounds, and until the last cut */
void limit_enter(int n);
void limit_leave(int n);
int limit_most(void);                           /* the most that were inside at once */
int limit_entered(void);                        /* how often one has entered */

/* 1 to 64 ms, drawn with the caller's seed. On a slow machine, too, some waits end by their time and some do not. */
int64_t limit_brief_wait_ms(unsigned *drawn);
/* For 4 ms, in one of 32 calls: longer than the shortest of those waits. */
void limit_hold(unsigned *drawn);

void limit_start_threads(pthread_t *threads, int count, void *(*run)(void *), void *arg);
void limit_end_threads(pthread_t *threads, int count);

/* More commands than the acquires that were not passed on can have needed fail the test. Such a one needs 2 to 4, its
 * release among them, and polls on a slow machine. */
void limit_no_command_for_passes(const struct hlk_counters *counters);

/* Cuts all connections of fixture.proxy so many times, each after some more have entered. */
void limit_start_cuts(int times);
void limit_end_cuts(void);                      /* waits for the last one */

#endif
