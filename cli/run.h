/* run.h - `hasplock run`: COMMAND under the lock. */
#ifndef HLK_CLI_RUN_H
#define HLK_CLI_RUN_H

#include "options.h"

int run(const struct options *options);     /* the exit code. May die of a signal instead. Main thread, once */

#endif
