/* measure.h - round trips, and the server's clock over some time. */
#ifndef HLK_DIAGNOSE_MEASURE_H
#define HLK_DIAGNOSE_MEASURE_H

#include "diagnose/clocks.h"
#include "diagnose/exchange.h"

int64_t hlk_measure_now_us(void);       /* on a clock that is never set */

/* Reads the server's clock, sends PINGs, and reads the clock again when clock_ms are over. clocks->over_us stays 0 if
 * the server does not answer TIME. Faults as hlk_exchange_ask. */
enum hlk_status hlk_measure(struct hlk_exchange *exchange, int64_t clock_ms, struct hlk_round_trips *pings,
                            struct hlk_clocks *clocks);

#endif
