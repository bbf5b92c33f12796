/* failing_calls.h - makes the n-th call fail that needs a descriptor, a thread or room in an epoll set, or all such
 * calls from the n-th on. Calls of the library and of libev count. failing_calls.c defines functions of the C library,
 * so a test program that uses it names it in CMakeLists.txt.
 *
 *     for (int n = 1; failing_calls_begin(n, false), opens(), failing_calls_end(); n++)
 *         ... */
#ifndef HLK_TEST_SUPPORT_FAILING_CALLS_H
#define HLK_TEST_SUPPORT_FAILING_CALLS_H

#include <stdbool.h>

enum { FAILING_CALLS_NEVER = 1 << 30 };

void failing_calls_begin(int n, bool lasting);
bool failing_calls_end(void);       /* false: fewer than n calls were made, so none failed */

#endif
