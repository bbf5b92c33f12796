/* spin.h - pure: poll with sched_yield, or block?
 *
 * Blocking costs a sleep and a wake-up (on halted virtual CPUs most of a loopback round trip); polling costs the CPU
 * that somebody else may need. So: poll (always yielding) for up to two recent round trips, and only while those are
 * short. Round trips are a moving average; when it exceeds HLK_SPIN_LIMIT_NS polling is off, but for one probe in
 * HLK_SPIN_PROBE calls, because a blocked round trip looks longer than a polled one: without probes it would never come
 * back. A probe that is answered in time switches polling on at once. Starts optimistic. One object per
 * connection; the leader's and followers' calls are all made under the mux. */
#ifndef HLK_NET_SPIN_H
#define HLK_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* A polled loopback round trip is 23 us, a blocked one 50 to 70; one to a server that is busy with the scripts of other
 * processes, as while a lock goes round among them, is above 60 (docs/decisions/polling.md). */
#define HLK_SPIN_LIMIT_NS 150000
#define HLK_SPIN_PROBE 64

struct hlk_spin {
    bool off;                       /* HLK_OPEN_NO_SPIN */
    int64_t average_ns;             /* moving average, 1/8 new; 0: none yet */
    unsigned since_probe;
};

void hlk_spin_init(struct hlk_spin *spin, bool off);

/* How long to poll before blocking now; 0: block at once. */
int64_t hlk_spin_budget_ns(struct hlk_spin *spin);

/* After each answered round trip, polled or blocked. */
void hlk_spin_saw(struct hlk_spin *spin, int64_t round_trip_ns);

#endif
