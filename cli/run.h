/* run.h - `hasplock run`: COMMAND under the lock. */
#ifndef HLK_CLI_RUN_H
#define HLK_CLI_RUN_H

#include "options.h"

int run(const struct options *options);     /* Returns the exit code, or dies of a signal. Main thread, once */

#endif
