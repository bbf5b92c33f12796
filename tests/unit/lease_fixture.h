/* lease_fixture.h - one lease. SENT is the moment at which the command that began it was sent. */
#ifndef HLK_TEST_UNIT_LEASE_FIXTURE_H
#define HLK_TEST_UNIT_LEASE_FIXTURE_H

#include "lease/lease.h"

#include <criterion/criterion.h>

#define SENT 1000000
#define LEASE 30000

extern struct hlk_lease lease;
extern int64_t next;       /* when hlk_lease_due has to be called again; set by due */

void init(void);
void begin(int64_t lease_ms, bool fixed, int64_t cap_ms);
void held(void);
enum hlk_lease_act due(int64_t now_ms);

#endif
