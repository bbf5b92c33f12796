/* barrier.h - hasplock barrier: commands on many hosts wait for each other. */
#ifndef HLK_CLI_BARRIER_H
#define HLK_CLI_BARRIER_H

#include "options.h"

int barrier(const struct options *options);     /* the exit code */

#endif
