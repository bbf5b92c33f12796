/* demo_report.h - what was sold and what was lost. The figures come from the SQLite file, not from the workers'
 * records. */
#ifndef HLK_DEMO_REPORT_H
#define HLK_DEMO_REPORT_H

#include "demo_run.h"

struct demo_result {                    /* of one phase */
    int items, sales, left;             /* items before; rows of `sale`; value of `stock` afterwards */
    int lost_updates;                   /* sales that are missing in the stock */
    int oversold;                       /* sales beyond the stock */
    int64_t took_ns;
};

/* False: the file could not be read; the error is printed. */
bool demo_result_read(const struct demo_run *run, struct demo_result *result);

void demo_report_phase(struct demo_view *view, const struct demo_run *run, const struct demo_result *result);

/* Prints holders, waits, checks and the verdict. `wrongs`: number of errors that are printed already. Returns the exit
 * code: 0, or 1 after printing the reasons. */
int demo_report_end(struct demo_view *view, const struct demo_run *run, const struct demo_result *without,
                    const struct demo_result *with, const char *picture, int wrongs);

#endif
