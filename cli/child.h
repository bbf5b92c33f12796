/* child.h - COMMAND: its process, its process group, all that descends from it, and its use of the terminal.
 *
 * A signal that is passed on goes to the whole group: /bin/sh -c 'a | b' is three processes, and all of them work under
 * the lock. A signal that ends COMMAND because of the lock goes to all descendants, wherever they went (descendants.h).
 * The helper is the parent of COMMAND (helper.h). Nothing here blocks. Main thread only. */
#ifndef HLK_CLI_CHILD_H
#define HLK_CLI_CHILD_H

#include "descendants.h"
#include "terminal.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;                  /* and the id of its group */
    struct terminal terminal;
    int exec_errno;             /* when ended: why exec failed; 0: it has not failed */
    bool foreground;            /* it was given the terminal, and has it except while it is stopped */
    bool stopped;
    bool all_stopped;           /* by child_was_stopped: each descendant */
    bool ended;                 /* then: */
    int status;                 /*   as waitpid gives it */
    bool gone;                  /*   and no descendant is left */
    bool helper_died;           /* then COMMAND has got SIGKILL */
};

/* Has the helper start COMMAND with `env` (see helper_run). signals_block and helper_start were called before. Returns
 * 0, or errno: nothing was started. (A failure of exec is reported when it has ended.) */
int child_start(struct child *child, char *const env[]);

/* After SIGCHLD, or when helper_fd is readable: updates the state. Returns the signal that has just stopped COMMAND,
 * else 0. */
int child_look(struct child *child);

/* The whole group; nothing after COMMAND's end. False, and errno: it may not be signalled. */
bool child_signal(const struct child *child, int signal);

/* All descendants. Returns how many got the signal; `refused` is set. */
int child_signal_all(const struct child *child, int signal, struct descendants_refused *refused);

/* COMMAND was stopped by `signal`. If it needed the terminal, and we have it: hands the terminal over and continues
 * COMMAND. If ^Z or the like has stopped it: takes the terminal back, and stops all descendants and this process, as
 * the shell expects; returns after SIGCONT. Meanwhile the lease runs on, and at its end the helper kills them.
 * Without a terminal, or after SIGSTOP: does nothing, and COMMAND keeps the lock. */
void child_was_stopped(struct child *child, int signal);
void child_continue(struct child *child);       /* after our own SIGCONT, if the lock is still held */

void child_close(struct child *child);          /* after its end, or if it was never started: takes the terminal back */

#endif
