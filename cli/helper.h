/* helper.h - the second process of `hasplock run`, for tasks that must not depend on the first one:
 *
 *     writes stderr      a full pipe, a stopped terminal or a frozen file system blocks only the helper
 *     starts COMMAND     and is its parent. It is a subreaper (prctl(2)): whatever COMMAND starts stays a descendant of
 *                        the helper, in another session too, and the helper knows when none of them is left
 *     kills all of them  at the end of the lease as hasplock last knew it, even while hasplock is stopped; and when
 *                        hasplock has died
 *
 * hasplock is a subreaper too: if the helper dies, it has all of them as its own descendants, and ends them.
 *
 * The helper has a process group of its own, so stopping hasplock's does not stop it, and blocks all signals. It stays
 * in hasplock's session, so that COMMAND can use the terminal. It ends when hasplock has ended and everything is
 * written. */
#ifndef HLK_CLI_HELPER_H
#define HLK_CLI_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* For main: where to put the helper's process title. Else ps and pgrep -f would show a second run of COMMAND. */
void helper_argv(int argc, char **argv);

/* `command` is COMMAND's argv. Returns 0 or errno. It forks, so it is called before any thread exists and before
 * anything is held. */
int helper_start(char *const command[]);

/* Writes `line` to stderr, after earlier lines. Any thread, never blocks: a line for which there is no room is dropped.
 * Half of the room is reserved for urgent lines. False: there is no helper. */
bool helper_write(const char *line, size_t len, bool urgent);

/* Waits until earlier lines are written, at most 200 ms, so that COMMAND's output follows them. Main thread. */
void helper_flush(void);

/* Waits until everything is written, at most 250 ms. After that the helper is left behind with the rest. Processes that
 * COMMAND has left running are not killed. */
void helper_finish(void);

/* --- COMMAND. Main thread, after helper_start. */

/* Memory that the helper shares: for COMMAND's environment, which is not known yet when the helper starts. */
void *helper_memory(size_t *size);

/* Starts COMMAND; waits for the helper's answer. `env` and its strings are in helper_memory, or were there when
 * helper_start was called. Returns 0, or errno: nothing was started. (A failure of exec is reported later.) */
int helper_run(char *const env[], bool foreground, pid_t *pid);

struct helper_report {
    bool died;          /* the helper; then COMMAND has got SIGKILL, and this process is the parent of what is left */
    bool ended;         /* COMMAND; then: */
    bool gone;          /*   and all that it has started */
    int status;         /*   as waitpid gives it */
    int exec_errno;     /*   why exec failed; 0: it has not failed */
    bool stopped;       /* COMMAND is stopped now; and has been since the last call by: */
    int stopped_by;     /*   this signal; 0: by none */
};

/* Readable when there may be news for helper_look, as is SIGCHLD; -1: no longer. */
int helper_fd(void);
void helper_look(struct helper_report *report);
pid_t helper_root(void);        /* the process that COMMAND, and what it has started, descends from */

/* When to kill, on the clock of hlk_now_ms; INT64_MAX: never. A later time must be set well before the earlier one. */
void helper_kill_at(int64_t at_ms);
bool helper_has_killed(void);

#endif
