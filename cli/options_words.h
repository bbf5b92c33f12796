/* options_words.h - which options each command has, for getopt_long. */
#ifndef HLK_CLI_OPTIONS_WORDS_H
#define HLK_CLI_OPTIONS_WORDS_H

#include "options.h"

#include <getopt.h>

#define OPTIONS_MOST 48
#define WORD 1      /* what getopt answers for a word that is no option */

enum {
    OPT_JSON = 256,
    OPT_FAIR,
    OPT_LEASE,
    OPT_MAX_HOLD,
    OPT_MIN_HOLD,
    OPT_SERVER_WAIT,
    OPT_GRACE,
    OPT_ON_LOST,
    OPT_FENCED,
    OPT_URL_FILE,
    OPT_WATCH,
    OPT_LIMIT,
    OPT_SPIN,
    OPT_SEMAPHORE,
    OPT_STRING,
    OPT_WAIT_REPLICAS,
    OPT_HOLDER,
    OPT_DROP,
    OPT_DELETE,
    OPT_ALL,
    OPT_NUMBERS,
    OPT_NOW,
    OPT_NOTE,
    OPT_ACCESS /* and a word of access.h */
};

/* Does it run a COMMAND? */
#define OPTIONS_RUNS(command) ((command) == COMMAND_RUN || (command) == COMMAND_SEMAPHORE)
#define ALL_COMMANDS ((1u << COMMANDS) - 1)

struct options_words {
    struct option longs[OPTIONS_MOST + 1];
    char shorts[3 + 2 * OPTIONS_MOST + 1];
};

/* The options that all of these commands have; of: 1 << COMMAND_RUN, ... mode: "-" or "+" of getopt_long. */
void options_choose(struct options_words *words, const char *mode, unsigned of);

#endif
