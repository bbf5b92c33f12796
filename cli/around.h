/* around.h - the runs around this process: those in whose COMMAND it is.
 *
 * HASPLOCK_OWNERS names their holders. If it is not set, as behind sudo(8) and `env -i`, they are read from the helpers
 * among the ancestors of this process: a helper has its run's client as the name of an open memfd. If it is set and
 * empty, there is none: a process that COMMAND has left behind may wait for the end of its run. */
#ifndef HLK_CLI_AROUND_H
#define HLK_CLI_AROUND_H

#include <stdbool.h>

bool around_any(void);

/* `holder` as written in Redis. */
bool around_has(const char *holder);

/* In the helper. The holders of a run, separated by blanks: all are of one client. Returns a descriptor, which stays
 * open for COMMAND's descendants; -1: none. */
int around_mark(const char *holders);

#endif
