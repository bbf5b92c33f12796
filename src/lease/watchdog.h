/* watchdog.h - when to renew, in which batches, and what a refused renewal means.
 *
 * Each held entry has an alarm in the loop's wheel. The renewals that are due in one tick are sent in a few batched
 * scripts. After a reconnect every hold is renewed before anything else is sent, which verifies them all. */
#ifndef HLK_LEASE_WATCHDOG_H
#define HLK_LEASE_WATCHDOG_H

#include "lease/entry.h"

#define HLK_RENEWALS_A_SCRIPT 100       /* about 0.15 ms of the server's time */

struct hlk_entry_table;

void hlk_watchdog_start(struct hlk_entry_table *table);     /* before the loop runs; after the table was initialised */

/* Loop thread: */
void hlk_watchdog_flush(struct hlk_node *node);             /* sends the renewals that fell due in this tick */
/* In a cluster: renews the holds whose slots have moved. */
void hlk_watchdog_verify_moved(struct hlk_node *home);
void hlk_watchdog_verify_all(struct hlk_node *node);        /* renews every hold: a new connection begins */

/* An entry's alarm: loop thread. */
void hlk_watchdog_fire(struct hlk_alarm *alarm);

#endif
