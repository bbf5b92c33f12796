/* list.h - `hasplock list`: what is held on the server. */
#ifndef HLK_CLI_LIST_H
#define HLK_CLI_LIST_H

#include "options.h"

int list(const struct options *options);    /* 0, also if nothing is held, or a fault's code. --watch: until a signal */

#endif
