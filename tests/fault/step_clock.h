/* step_clock.h - a server's clock that the test sets. step_clock.c is preloaded into the server. It adds the value in
 * the file HLK_STEP_CLOCK, which both processes have mapped, to the calendar clock. So a step takes effect when it is
 * written. CLOCK_MONOTONIC, by which servers schedule, is unchanged.
 *
 * Not libfaketime: Debian's redis-server, which has an allocator of its own, hangs under it. */
#ifndef HLK_FAULT_STEP_CLOCK_H
#define HLK_FAULT_STEP_CLOCK_H

#include <stdint.h>

#define STEP_CLOCK_FILE "HLK_STEP_CLOCK"

struct step_clock {
    _Atomic int64_t ahead_ns;
    _Atomic int64_t since_ns;   /* on CLOCK_MONOTONIC: from then on it also runs faster */
    _Atomic int64_t faster_ppm; /* by so much; set after since_ns, once */
};

#endif
