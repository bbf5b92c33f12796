/* logger.h - writes log lines to stderr, which may be a pipe that is not read. One thread of the process writes them,
 * in order. It is started by a line and ends when no line is left. A caller never waits for it: a line for which there
 * is no room is dropped. After the next line that succeeds the thread writes how many were dropped or failed.
 *
 * All signals are blocked in the thread, so a closed pipe raises no SIGPIPE. The thread is detached: the library is
 * never unloaded (src/CMakeLists.txt). A forked child starts with an empty buffer and no thread. */
#ifndef HLK_BASE_LOGGER_H
#define HLK_BASE_LOGGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HLK_LOGGER_BYTES (32 * 1024)    /* for waiting lines; as many again for lines that are being written */
#define HLK_LOGGER_EXIT_MS 200          /* exit() waits at most so long for the last lines */

void hlk_logger_add(const char *line, size_t len);      /* the line includes its newline. Any thread, never blocks */
bool hlk_logger_flush(int64_t ms);      /* true: every line was written or lost; false: not within ms */

#endif
