/* demo_stats.h - what the records of a finished phase say. Pure: no clock, no file, no other process. */
#ifndef HLK_CLI_DEMO_STATS_H
#define HLK_CLI_DEMO_STATS_H

#include "demo_shared.h"

struct demo_tally {                     /* of one process, or of all */
    int holds, sold;
    int64_t held_ns, held_longest_ns;
    int64_t wait_p50_ns, wait_p99_ns, wait_longest_ns;      /* p50 and p99 of the waits that met no accident */
    int waits_met;                      /* those that did: they waited for a dead or stopped holder */
};

struct demo_check {                     /* did one hold begin while another was valid? */
    int holds;                          /* looked at */
    int overlaps;
    int late_writes;                    /* written when the holder's own lease was over */
    uint32_t first, second;             /* of the first overlap: indices of records */
};

/* The end of what the record claims: a lost hold is valid no longer than its lease. */
int64_t demo_hold_end_ns(const struct demo_hold *hold);

/* Looks at every hold in the order they began. False: no memory. Only after the phase. */
bool demo_check_holds(const struct demo_shared *shared, struct demo_check *check);

/* `process` -1: all. False: no memory. Only after the phase. */
bool demo_tally_process(const struct demo_shared *shared, int process, struct demo_tally *tally);

/* The first hold that began after `at_ns`; NULL: none so far. Also while the phase runs. */
const struct demo_hold *demo_next_hold(const struct demo_shared *shared, int64_t at_ns);

/* Marks what process `pid` left unfinished when it was killed at `at_ns`. After it was reaped. */
void demo_bury(struct demo_shared *shared, int pid, int64_t at_ns);

#endif
