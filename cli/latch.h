/* latch.h - hasplock latch: a count that commands on many hosts wait for. */
#ifndef HLK_CLI_LATCH_H
#define HLK_CLI_LATCH_H

#include "options.h"

int latch(const struct options *options);       /* the exit code */

#endif
