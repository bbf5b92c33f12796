/* spin.h - pure: poll with sched_yield, or block?
 *
 * Blocking costs a sleep and a wake-up, which on halted virtual CPUs is most of a loopback round trip. Polling costs
 * CPU time that other threads may need. So a call polls, yielding each time, for up to two recent round trips, and only
 * while those are short. Their moving average decides: above HLK_SPIN_LIMIT_NS polling is off, except for one probe in
 * HLK_SPIN_PROBE calls. Without probes it would stay off, because a blocked round trip looks longer than a polled one.
 * A probe that is answered in time turns polling on at once. It starts turned on. One object for each connection; all
 * calls are made under the pipeline's mutex. */
#ifndef HLK_NET_SPIN_H
#define HLK_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* A polled loopback round trip takes 23 us, a blocked one 50 to 70. One to a server that runs scripts of other
 * processes takes more than 60, for example when several processes take turns with a lock
 * (docs/decisions/small.md, Polling). */
#define HLK_SPIN_LIMIT_NS 150000
#define HLK_SPIN_PROBE 64

struct hlk_spin {
    bool off;                       /* HLK_OPEN_NO_SPIN */
    int64_t average_ns;             /* moving average, 1/8 new; 0: none yet */
    unsigned since_probe;
};

void hlk_spin_init(struct hlk_spin *spin, bool off);

/* How long to poll before blocking; 0: block at once. */
int64_t hlk_spin_budget_ns(struct hlk_spin *spin);

/* After each answered round trip, polled or blocked. */
void hlk_spin_saw(struct hlk_spin *spin, int64_t round_trip_ns);

#endif
