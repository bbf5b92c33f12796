/* lease_fixture.h - what the tests of leases share: a client with a short watchdog, a lock that it holds, and the
 * assertions after a loss.
 *
 * These tests run on real time. They assert order (reported before another client could hold the lock) and lower
 * bounds. A lease that must not run out is long compared with any pause of the machine. */
#ifndef HLK_TEST_INTEGRATION_LEASE_FIXTURE_H
#define HLK_TEST_INTEGRATION_LEASE_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <poll.h>

enum { WATCHDOG_MS = 3000 };

void lease_up(unsigned flags);
hlk_client *open_with_watchdog(int64_t watchdog_ms);
hlk_client *open_directly(void);
hlk_lock *held(hlk_client *client, const char *name);
hlk_lock *held_for(hlk_client *client, const char *name, int64_t lease_ms);
bool readable(int fd);
const char *hold_id(const hlk_lock *lock);

/* After a loss every call answers HLK_LOST until each hold is released. */
void assert_lost(hlk_lock *lock);

/* asks A2 redisson 1626, 1966, 2515, 3194: after each outcome of a renewal the lock can be released, acquired again and
 * renewed again. */
void assert_still_works(hlk_client *client, hlk_lock *lock);

#endif
