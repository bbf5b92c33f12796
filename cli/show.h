/* show.h - `hasplock show`: who holds a lock. */
#ifndef HLK_CLI_SHOW_H
#define HLK_CLI_SHOW_H

#include "options.h"

int show(const struct options *options);    /* 0 held, 1 free, or a fault's code. With --watch: until a signal */

#endif
