/* semaphore.h - hasplock semaphore: as run (run.h), with a permit; or --delete, which deletes the number of permits. */
#ifndef HLK_CLI_SEMAPHORE_H
#define HLK_CLI_SEMAPHORE_H

#include "options.h"

/* Returns the exit code. --delete: 0 deleted, 1 there was none, or permits are held. */
int semaphore(const struct options *options);

#endif
