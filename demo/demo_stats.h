/* demo_stats.h - figures from the records of a finished phase. Pure: no clock, no file, no other process. */
#ifndef HLK_DEMO_STATS_H
#define HLK_DEMO_STATS_H

#include "demo_shared.h"

struct demo_tally {                     /* of one process, or of all */
    int holds, sold;
    int64_t held_ns, held_longest_ns;
    int64_t wait_p50_ns, wait_p99_ns, wait_longest_ns;      /* p50 and p99 without the waits of waits_met */
    int waits_met;                      /* waits for a killed or stopped holder */
};

struct demo_check {                     /* did a hold begin while another one was valid? */
    int holds;                          /* checked */
    int overlaps;
    int late_writes;                    /* written after the holder's own lease was over */
    uint32_t first, second;             /* of the first overlap: indices of records */
};

/* The end of a record's hold. A lost hold is valid only until the end of its lease. */
int64_t demo_hold_end_ns(const struct demo_hold *hold);

/* Checks every hold in the order of their beginnings. False: no memory. Only after the phase. */
bool demo_check_holds(const struct demo_shared *shared, struct demo_check *check);

/* `process` -1: all. False: no memory. Only after the phase. */
bool demo_tally_process(const struct demo_shared *shared, int process, struct demo_tally *tally);

/* The first hold that began after `at_ns`; NULL: none. Also during the phase. */
const struct demo_hold *demo_next_hold(const struct demo_shared *shared, int64_t at_ns);

/* Marks the open records of process `pid`, which was killed at `at_ns`. After it was reaped. */
void demo_bury(struct demo_shared *shared, int pid, int64_t at_ns);

#endif
