/* watchdog.h - when to renew, in which batches, what a refused renewal means.
 *
 * Each held session has an alarm in the loop's wheel. What falls due in a tick is collected and leaves as few batched
 * scripts. After a reconnect every hold is renewed before anything else is sent: that verifies them all. */
#ifndef HLK_LEASE_WATCHDOG_H
#define HLK_LEASE_WATCHDOG_H

#include "lease/session.h"
#include "net/mux.h"

#define HLK_RENEWALS_A_SCRIPT 100       /* about 0.15 ms of the server's time */

struct hlk_watchdog {
    struct hlk_table *table;
    hlk_mux *mux;
    struct hlk_tick tick;
    struct hlk_list due;                /* loop thread only: sessions to renew in this tick */
};

void hlk_watchdog_init(struct hlk_watchdog *dog, struct hlk_table *table);
void hlk_watchdog_verify_all(struct hlk_watchdog *dog);     /* loop thread, a new stream begins */

/* A session has begun, was renewed, extended: its alarm is set. The session's mutex is held. */
void hlk_watchdog_arm(struct hlk_session *s);

/* A session's alarm: loop thread. */
void hlk_watchdog_fire(struct hlk_alarm *alarm);

#endif
