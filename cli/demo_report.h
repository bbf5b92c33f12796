/* demo_report.h - what was sold and what was lost: the truth is asked from the SQLite file, not from those who wrote
 * it. */
#ifndef HLK_CLI_DEMO_REPORT_H
#define HLK_CLI_DEMO_REPORT_H

#include "demo_run.h"

struct demo_result {                    /* of one phase */
    int items, sales, left;             /* before; rows of `sale`; what `stock` says now */
    int lost_updates;                   /* sales that the stock does not know of */
    int oversold;                       /* sales of more than there was */
    int64_t took_ns;
};

/* Reads the result. False: the file could not be read, and that was said. */
bool demo_result_read(const struct demo_run *run, struct demo_result *result);

void demo_report_phase(struct demo_view *view, const struct demo_run *run, const struct demo_result *result);

/* Who held it, the waits, what was checked, and the verdict. `wrongs`: already found and said. Returns the exit code:
 * 0, or 1 with the reason said. */
int demo_report_end(struct demo_view *view, const struct demo_run *run, const struct demo_result *without,
                    const struct demo_result *with, const char *picture, int wrongs);

#endif
