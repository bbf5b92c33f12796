/* options_check.h - do the words of a command line go together? */
#ifndef HLK_CLI_OPTIONS_CHECK_H
#define HLK_CLI_OPTIONS_CHECK_H

#include "options_reader.h"

/* After all words were read: complains about what is missing or does not go together, and completes what was not given
 * (COMMAND of -c, the URL, the lease of a URL, the grace). */
void options_check(struct reader *r);

#endif
