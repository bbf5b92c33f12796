/* child.h - COMMAND: its process, its process group, its use of the terminal.
 *
 * Signals go to the whole group: /bin/sh -c 'a | b' is three processes, and all of them work under the lock. Nothing
 * here blocks. Main thread only, because the parent-death signal is tied to the thread that forks. */
#ifndef HLK_CLI_CHILD_H
#define HLK_CLI_CHILD_H

#include "terminal.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;                  /* and the id of its group */
    struct terminal terminal;
    int exec_fd;                /* readable when exec has succeeded or failed; then -1 */
    int exec_errno;             /* why exec failed; 0: it has not failed */
    bool foreground;            /* it was given the terminal, and has it except while it is stopped */
    bool stopped;
    bool ended;                 /* and reaped; then: */
    int status;                 /*   as waitpid gives it */
};

/* Forks and executes argv with `env`. signals_block and signals_open were called before. Returns 0, or errno: nothing
 * was started. (A failure of exec is reported later, through exec_fd.) When this process dies, COMMAND is killed. */
int child_start(struct child *child, char *const argv[], char *const env[]);
void child_read_exec(struct child *child);      /* exec_fd was readable */

void child_signal(const struct child *child, int signal);       /* the whole group; no-op after its end */
void child_stop(const struct child *child, int signal);         /* the same, to end the group: from now on its orphaned
                                                                 * processes are reaped here, not by init */
bool child_group_is_gone(const struct child *child);            /* call when `ended`; reaps */

/* After SIGCHLD: updates the state. Returns the signal that has just stopped COMMAND, else 0. */
int child_look(struct child *child);

/* COMMAND was stopped by `signal`. If it needed the terminal, and we have it: hands the terminal over and continues
 * COMMAND. If ^Z or the like has stopped it: takes the terminal back, and stops the whole group and this process, as
 * the shell expects; returns after SIGCONT. Meanwhile the lease runs on, and at its end the helper kills COMMAND.
 * Without a terminal, or after SIGSTOP: does nothing, and COMMAND keeps the lock. */
void child_was_stopped(struct child *child, int signal);
void child_continue(struct child *child);       /* after our own SIGCONT, if the lock is still held */

void child_close(struct child *child);          /* after its end, or if it was never started: takes the terminal back */

#endif
