/* signals.h - which signals hasplock takes, and how, in its two phases.
 *
 *     waiting    those that end a process end the wait: handlers, which trigger a cancel. The rest has its default
 *     running    all are blocked and read from a descriptor, to be passed on to COMMAND
 *
 * In between they are blocked, so none is lost and each is seen by exactly one phase. "All" is every signal that can be
 * caught, but faults of our own (SEGV, ...), PIPE, those of job control that stop (terminal.h), and those that were
 * ignored when hasplock began (nohup, background jobs of sh): COMMAND inherits that as it is. */
#ifndef HLK_CLI_SIGNALS_H
#define HLK_CLI_SIGNALS_H

#include <hasplock/cancel.h>

void signals_block(void);                       /* first of all; keeps what to restore for COMMAND */

void signals_wait_begin(hlk_cancel *cancel);    /* borrowed until signals_wait_end */
int signals_wait_end(void);                     /* the signal that ended the wait; 0: none came */

/* A descriptor for poll, non-blocking, with all of them and CHLD and TSTP; -1 and errno. */
int signals_open(void);
int signals_next(int fd);                       /* the next one; 0: no more at present */

/* In the forked child, before exec: the mask hasplock was started with. Async-signal-safe. */
void signals_restore(void);

/* Stops this process group as `stop_signal` (TSTP, TTIN, TTOU) by default would; returns when it is continued. */
void signals_stop_self(int stop_signal);

/* Ends this process by `signal` and its default action, so that whoever waits for us sees that. */
_Noreturn void signals_die_of(int signal);

const char *signals_name(int signal, char buf[16]);    /* "SIGTERM" */

#endif
