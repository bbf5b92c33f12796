/* watchdog_fixture.h - the watchdog driven by the test: its alarm, its tick, and the commands that it sends. */
#ifndef HLK_TEST_UNIT_WATCHDOG_FIXTURE_H
#define HLK_TEST_UNIT_WATCHDOG_FIXTURE_H

#include "lease/watchdog.h"
#include "entry_fixture.h"

void fire(void);
void flush(void);
void pass(int64_t ms);
int64_t alarm_in(void);

/* Read by `hear`: how many commands were sent, how many holds they name, and what follows the last of these. */
extern int commands, holds;
extern const char *leases;
extern bool by_text;       /* EVAL, not EVALSHA */

int hear(void);
void renew(void);

/* The answer to a renewal of which `first` is the first hold. numbers: one for each hold, as in ":1\r\n:0\r\n". Valid
 * until the next call. The second one is for the renewal that was heard last, and the third one sends it. */
const char *renewal_answer(const char *numbers, const char *first);
const char *renewal_answer_heard(const char *numbers);
void answer_renewal(const char *numbers);

#endif
