/* helper.h - the second process of `hasplock run`, for tasks that must not depend on the first one:
 *
 *     writes stderr     a full pipe, a stopped terminal or a frozen file system blocks only the helper
 *     kills COMMAND     at the end of the lease as hasplock last knew it, even while hasplock is stopped; and when
 *                       hasplock has died
 *
 * It has a session of its own, so stopping hasplock's process group does not stop it, and blocks all signals. It ends
 * when hasplock has ended and everything is written. */
#ifndef HLK_CLI_HELPER_H
#define HLK_CLI_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For main: where to put the helper's process title. Else ps and pgrep -f would show a second run of COMMAND. */
void helper_argv(int argc, char **argv);

/* Returns 0 or errno. It forks, so it is called before any thread exists and before anything is held. */
int helper_start(void);

/* Writes `line` to stderr, after earlier lines. Any thread, never blocks: a line for which there is no room is dropped.
 * Half of the room is reserved for urgent lines. False: there is no helper. */
bool helper_write(const char *line, size_t len, bool urgent);

/* Waits until earlier lines are written, at most 200 ms, so that COMMAND's output follows them. Main thread. */
void helper_flush(void);

/* Waits until everything is written, at most 250 ms. After that the helper is left behind with the rest. */
void helper_finish(void);

/* --- killing COMMAND. Main thread; without a helper these do nothing. */

/* On the clock of hlk_now_ms; INT64_MAX: never. A later time must be set well before the earlier one. */
void helper_kill_at(int64_t at_ms);
/* Called in COMMAND's process before exec: from now on its group is killed. Async-signal-safe. */
void helper_arm(void);
void helper_disarm(void);               /* COMMAND has ended; processes that it left running are not killed */
bool helper_has_killed(void);

#endif
