/* watch.h - what the server was asked, in order: a MONITOR connection, read as a transcript.
 *
 * Each line is "<side><kind> <command> <arguments>", the command in small messages:
 *
 *     C> evalsha 5c0f... 2 t hasplock_queue:{t} 30000 hlk-...:1        a request by Unix socket: hasplock, or the test
 *     C. hset t hlk-...:1 1                                           what that request's script did
 *     J> subscribe redisson_lock__channel:{t}                         a request by TCP: Java
 *
 * Patterns are fnmatch's. Bytes outside of ASCII, quotes and backslashes stand as MONITOR escapes them.
 */
#ifndef HLK_TEST_WATCH_H
#define HLK_TEST_WATCH_H

#include "support/server.h"

#include <stddef.h>

struct watch;

struct watch *watch_start(const struct server *server);
void watch_stop(struct watch *watch);       /* NULL is fine */

/* Waits for the next line that matches; what comes before it counts as seen. In vain for WAIT_MS: prints the transcript
 * and ends the test. */
const char *watch_for(struct watch *watch, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads all that the server did up to now, which then counts as seen; the number of lines. The last is the mark. */
size_t watch_mark(struct watch *watch);
const char *watch_line(const struct watch *watch, size_t i);

/* How many of lines from .. to - 1 match. */
size_t watch_count(const struct watch *watch, size_t from, size_t to, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void watch_print(const struct watch *watch);

#endif
