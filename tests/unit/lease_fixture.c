#include "lease_fixture.h"

struct hlk_lease lease;
int64_t next;

void init(void)
{
    lease = (struct hlk_lease){ 0 };
    next = 0;
}

void begin(int64_t lease_ms, bool fixed, int64_t cap_ms)
{
    cr_assert(hlk_lease_begin(&lease, SENT, lease_ms, fixed, cap_ms, SENT));
}

void held(void)
{
    begin(LEASE, false, INT64_MAX);
}

enum hlk_lease_act due(int64_t now_ms)
{
    return hlk_lease_due(&lease, now_ms, 0, &next);
}
