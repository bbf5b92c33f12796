/* demo_options.h - the options of the demo. */
#ifndef HLK_DEMO_OPTIONS_H
#define HLK_DEMO_OPTIONS_H

#include "demo_view.h"

struct demo_options {
    int processes, threads, items, seconds, worker; /* seconds 0: the defaults; worker -1: not one */
    uint64_t seed;
    const char *svg, *url;
    enum demo_mode mode;
    bool redlock, help;
};

extern const char DEMO_HELP[];

/* False: the reason is printed. */
bool demo_options_read(struct demo_options *options, int argc, char **argv);

#endif
