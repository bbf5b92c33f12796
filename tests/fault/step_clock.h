/* step_clock.h - a server's clock that the test sets. step_clock.c is preloaded into the server and adds to the
 * calendar clock what stands in the file that HLK_STEP_CLOCK names, which both have mapped: a step has happened when it
 * is written. CLOCK_MONOTONIC, which servers schedule by, goes on as it is.
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
