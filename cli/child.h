/* child.h - COMMAND: its process, its process group, its place at the terminal.
 *
 * The group is what is signalled: /bin/sh -c 'a | b' is three processes, and all of them work under the lock. Nothing
 * here blocks. Main thread only: the parent-death signal is tied to the thread that forks. */
#ifndef HLK_CLI_CHILD_H
#define HLK_CLI_CHILD_H

#include "terminal.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;                  /* and the id of its group */
    struct terminal terminal;
    int exec_fd;                /* readable when exec has happened or failed; -1 once that is known */
    int exec_errno;             /* why COMMAND could not be executed; 0: it runs, or is about to */
    bool foreground;            /* we have given it the terminal, but for times when it is stopped */
    bool stopped;
    bool ended;                 /* and reaped; then: */
    int status;                 /*   as waitpid gives it */
};

/* Forks and executes argv with `env`; signals_block and signals_open have been called. 0, or errno: nothing was started
 * (exec's own failure comes later, by exec_fd). When this process dies, so does COMMAND. */
int child_start(struct child *child, char *const argv[], char *const env[]);
void child_read_exec(struct child *child);      /* exec_fd was readable */

void child_signal(const struct child *child, int signal);       /* the whole group; nothing once it is gone */
void child_stop(const struct child *child, int signal);         /* the same when the group is to end: from now on what
                                                                 * loses its parent is reaped by us, not by init */
bool child_group_is_gone(const struct child *child);            /* asked when `ended`; reaps */

/* After SIGCHLD: takes what there is to know. Returns the signal that has stopped COMMAND just now, else 0. */
int child_look(struct child *child);

/* COMMAND was stopped by `signal`. For lack of the terminal, and we have it: hands it over and continues COMMAND. By ^Z
 * or the like: takes the terminal back and stops ourselves, for the shell to see; the lease runs on meanwhile. Returns
 * when we are continued. Without a terminal, or by SIGSTOP: nothing, the lock stays COMMAND's. */
void child_was_stopped(struct child *child, int signal);
void child_continue(struct child *child);       /* after our own SIGCONT, when the lock still is ours */

void child_close(struct child *child);          /* ended, or never started: takes the terminal back */

#endif
