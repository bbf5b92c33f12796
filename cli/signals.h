/* signals.h - which signals hasplock handles, and how, in its two phases.
 *
 *     waiting    signals that end a process end the wait: handlers, which trigger a cancel. The others keep their
 *                default action
 *     running    all are blocked, read from a descriptor, and passed on to COMMAND. When that has ended, some of them
 *                end --min-hold (keep.h)
 *
 * In between they are blocked, so none is lost and each is handled in exactly one phase. "All" is every signal that can
 * be caught, except faults (SEGV, ...), PIPE, the stop signals of job control (terminal.h), and those that were ignored
 * when hasplock started (nohup, background jobs of sh), which COMMAND inherits. */
#ifndef HLK_CLI_SIGNALS_H
#define HLK_CLI_SIGNALS_H

#include <hasplock/cancel.h>

#include <stdbool.h>

void signals_block(void);                       /* called first; saves what is restored for COMMAND */

void signals_wait_begin(hlk_cancel *cancel);    /* borrowed until signals_wait_end */
int signals_wait_end(void);                     /* returns the signal that ended the wait; 0: none */

/* A non-blocking descriptor with all of them, CHLD and TSTP; -1 and errno. */
int signals_open(void);
int signals_next(int fd);                       /* the next one; 0: none now */

bool signals_ask_for_an_end(int signal);        /* TERM, INT, QUIT */

/* In the forked child, before exec: restores the mask with which hasplock was started. Async-signal-safe. */
void signals_restore(void);

/* Stops this process group as the default action of `stop_signal` (TSTP, TTIN, TTOU) would. Returns after SIGCONT. */
void signals_stop_self(int stop_signal);

/* Ends this process by the default action of `signal`, so that its parent sees that signal. */
_Noreturn void signals_die_of(int signal);

const char *signals_name(int signal, char buf[16]);    /* "SIGTERM" */

#endif
