/* rwlock_fixture.h - what the tests of read/write locks share. The lock is "t". */
#ifndef HLK_TEST_INTEGRATION_RWLOCK_FIXTURE_H
#define HLK_TEST_INTEGRATION_RWLOCK_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define RW_QUEUE "hasplock_rwlock:{t}"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"

void rw_start(void);
void rw_start_proxied(void);
/* One half; destroyed by fixture_end. */
hlk_lock *rw_half(hlk_client *client, int kind, hlk_owner *owner);
hlk_lock *rw_reader(hlk_client *client);
hlk_lock *rw_writer(hlk_client *client);
/* Tickets in the queue. */
int64_t rw_queued(void);
/* Starts an actor and waits until it is the queue's last: `before` others are in it. */
struct actor *rw_waiter(hlk_lock *half, int64_t before);
/* As Redisson's clients write them: an own hold of JAVA, to read or to write. */
void rw_java_reads(int64_t lease_ms);
void rw_java_writes(int64_t lease_ms);
/* The lease of a reader, by its hold id: the ttl of its key. */
int64_t rw_lease(const char *hold);
/* "read", "write", or "" when it is free. */
const char *rw_mode(void);

#endif
