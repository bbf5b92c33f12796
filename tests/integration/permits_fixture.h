/* permits_fixture.h - what the tests of permits share: permits "t", seen by two clients. */
#ifndef HLK_TEST_INTEGRATION_PERMITS_FIXTURE_H
#define HLK_TEST_INTEGRATION_PERMITS_FIXTURE_H

#include "support/fixture.h"

enum { PERMITS_WATCHDOG_MS = 3000 }; /* of `client` */

#define PERMITS_QUEUE   "hasplock_queue:{t}"
#define PERMITS_LEASES  "{t}:timeout"
#define PERMITS_CHANNEL "redisson_sc:{t}"

extern hlk_client *client, *other;
extern hlk_permits *permits, *theirs;       /* of each */
extern hlk_lock *permit, *their_permit;

void permits_start(void);
void permits_start_proxied(void);
void permits_stop(void);

void permits_set(int64_t n);
int64_t permits_unused(void);
int64_t permits_used(void);
int64_t permits_tickets(void);

const char *permit_id(const hlk_lock *lock);    /* valid until the next call */
hlk_lock *permit_with(hlk_client *of, hlk_owner *owner, int64_t lease_ms);
hlk_lock *permit_of(int64_t number, hlk_owner *owner);      /* of `client`, whose acquires say how many there are */
/* It has a ticket, behind those that were there before. */
struct actor *permit_waiter(hlk_lock *lock);

#endif
