/* break.h - `hasplock break`: asks the holder for its lock; with --now takes it. */
#ifndef HLK_CLI_BREAK_H
#define HLK_CLI_BREAK_H

#include "options.h"

int break_lock(const struct options *options);      /* 0 broken, 1 not held, or a fault's code */

#endif
