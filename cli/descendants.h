/* descendants.h - signals to every process that descends from `root`, whatever group, session or user it has by now.
 *
 * `root` is a subreaper (prctl(2)), so an orphan among them becomes its child: nothing leaves the tree. The tree is
 * read from /proc/PID/task/TID/children, which costs some files for each of its processes, however many others the host
 * has. It changes while it is read: a look may miss a process that is forked, or becomes an orphan, meanwhile. Only
 * waitpid(2) can say that nobody is left.
 *
 * A server of a `local:` URL (named hasplock-local) counts as no descendant, and neither do its own: it serves all of
 * this user's processes, of any parent. */
#ifndef HLK_CLI_DESCENDANTS_H
#define HLK_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct descendants_refused {    /* the processes that may not be signalled */
    int count;
    pid_t pid;                  /* the first of them, */
    char name[20];              /*   its name, */
    int why;                    /*   and errno */
};

/* Each gets it once; looks again until it finds nobody new. Returns how many got it. `refused` is set. */
int descendants_signal(pid_t root, int signal, struct descendants_refused *refused);

/* The ids of those that have not ended: "12, 13, 14 ...". Returns how many they are. */
int descendants_shown(pid_t root, char *buf, size_t size);

/* For the parent, when waitpid(2) has found nobody more who has ended. */
bool descendants_are_gone(void);

#endif
