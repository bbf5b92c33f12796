/* wait.h - how tests wait: for a condition, with one long deadline, never for a fixed time.
 *
 *     WAIT_FOR(server_clients(server) == 2); */
#ifndef HLK_TEST_WAIT_H
#define HLK_TEST_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { WAIT_MS = 20000 }; /* a condition that fails for so long is considered never to hold */

/* Evaluates the condition about once in a millisecond until it holds. After WAIT_MS it aborts the test's process and
 * prints the condition. Any thread. */
#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        int64_t wait_started_ = test_now_ns();                                                                         \
        while (!(condition))                                                                                           \
            test_wait_on(wait_started_, __FILE__, __LINE__, #condition);                                               \
    } while (0)

void test_wait_on(int64_t started_ns, const char *file, int line, const char *what);

/* Runs when a wait was in vain, before the process aborts: prints what may tell why. NULL: nothing more is known. */
extern void (*test_on_vain_wait)(void);

/* For a failure of the test's own tools, which is no result of the test: prints a line and aborts. */
_Noreturn void test_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For the `fini` of a suite: Criterion prints an assertion that fails there, and still counts the test as passed. */
#define TEARDOWN_ASSERT(condition)                                                                                     \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_give_up("%s:%d: not so after the test: %s", __FILE__, __LINE__, #condition);                          \
    } while (0)

int64_t test_now_ns(void);      /* CLOCK_BOOTTIME, as the library */
int64_t test_now_ms(void);
void    test_sleep_ms(int64_t ms);  /* only if time itself is the subject ("is still held after two leases"), never to
                                     * wait for another thread or process */

/* State of a thread of this process: 'S' sleeps, 'R' runs or waits for a CPU; '?': no such thread. */
char    test_thread_state(pid_t thread);
static inline bool test_sleeps(pid_t thread) { return test_thread_state(thread) == 'S'; }

#endif
