/* wait.h - how tests wait: for conditions, with one generous deadline, never for a length of time.
 *
 *     WAIT_FOR(server_clients(server) == 2);
 */
#ifndef HLK_TEST_WAIT_H
#define HLK_TEST_WAIT_H

#include <stdint.h>

enum { WAIT_MS = 20000 }; /* a condition that has not come by then never will */

/* Evaluates the condition about each millisecond until it holds; after WAIT_MS the test's process aborts and names it.
 * Any thread. */
#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        int64_t wait_started_ = test_now_ns();                                                                         \
        while (!(condition))                                                                                           \
            test_wait_on(wait_started_, __FILE__, __LINE__, #condition);                                               \
    } while (0)

void test_wait_on(int64_t started_ns, const char *file, int line, const char *what);

/* For trouble with the test's own tools, where an assertion of the test would be a lie: prints a line and aborts. */
_Noreturn void test_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t test_now_ns(void);      /* CLOCK_BOOTTIME, as the library */
int64_t test_now_ms(void);
void    test_sleep_ms(int64_t ms);  /* time that has to pass for a statement about it ("is still held after two
                                     * leases"), never in the hope that somebody else is done by then */

#endif
