/* acquire_machine_fixture.h - an acquire state machine `a`. The test gives it events and moments. Its replies carry
 * `position`, `foreign`, `mixed` and `silent`. */
#ifndef HLK_TEST_UNIT_ACQUIRE_MACHINE_FIXTURE_H
#define HLK_TEST_UNIT_ACQUIRE_MACHINE_FIXTURE_H

#include "wait/acquire_machine.h"

#include <criterion/criterion.h>

#define NOW 1000000
#define DEADLINE (NOW + 5000)
#define TTL 2000

extern struct hlk_acquire_machine a;
extern int64_t position; /* of the replies to come; -1: not in the queue */
extern bool foreign, mixed, silent;

void init(void);
enum hlk_acquire_action at(int64_t now_ms, enum hlk_acquire_event what);
enum hlk_acquire_action happens(enum hlk_acquire_event what);
enum hlk_acquire_action busy(int64_t now_ms, int64_t ttl_ms);

/* Sent, replied "busy", subscribed, confirmed, sent again, replied "busy": parked. */
void park(int64_t ttl_ms);

#endif
