/* one_lease.h - one lease, and moments counted from the sending of what began it. */
#ifndef HLK_TEST_ONE_LEASE_H
#define HLK_TEST_ONE_LEASE_H

#include "lease/lease.h"

#include <criterion/criterion.h>

#define SENT 1000000
#define LEASE 30000

static struct hlk_lease lease;
static int64_t next;

static inline void init(void)
{
    lease = (struct hlk_lease){ 0 };
    next = 0;
}

static inline void begin(int64_t lease_ms, bool fixed, int64_t cap_ms)
{
    cr_assert(hlk_lease_begin(&lease, SENT, lease_ms, fixed, cap_ms, SENT));
}

static inline void held(void)
{
    begin(LEASE, false, INT64_MAX);
}

static inline enum hlk_lease_act due(int64_t now_ms)
{
    return hlk_lease_due(&lease, now_ms, 0, &next);
}

#endif
