/* fixture.h - what the fault tests share: a client with short deadlines, a bystander that no fault hits, and the two
 * checks at the end of each fault: Redis and the caller agree, and the lock is free.
 *
 * Under `fault_opts` a silent server is given up after REPLY_MS, and a hold without renewal is over after LEASE_MS.
 * FREE_MS is the limit for "nothing stays held": two leases. */
#ifndef HLK_FAULT_FIXTURE_H
#define HLK_FAULT_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>

enum { LEASE_MS = 900, REPLY_MS = 150, RECONNECT_MS = 4000, FREE_MS = 2 * LEASE_MS };

/* fixture_begin; queues with only tombstones may be left. */
void fault_up(unsigned flags);

struct hlk_client_opts fault_opts(void);

/* A client that connects to the server directly, with the default deadlines, so that no fault hits it. */
hlk_client *bystander(void);
/* The bystander's hold on `name`: acquires NOWAIT, must be OK. lease_ms 0: renewed. */
hlk_lock *held_by_bystander(hlk_client *client, const char *name, int64_t lease_ms);

/* Asserts that the condition holds within so many ms, without the machine's pauses (support/pause.h). */
#define WITHIN(ms, condition)                                                                                          \
    do {                                                                                                               \
        int64_t within_began_ = test_now_ms();                                                                         \
        bool within_ = (condition);                                                                                    \
        while (!within_ && running_ms(within_began_) < (ms)) {                                                         \
            test_sleep_ms(1);                                                                                          \
            within_ = (condition);                                                                                     \
        }                                                                                                              \
        cr_assert(within_, "not within %d ms: %s", (int)(ms), #condition);                                             \
    } while (0)

/* Whether status is in the list: ONE_OF(status, HLK_OK, HLK_LOST). */
#define ONE_OF(status, ...)                                                                                            \
    one_of((status), (const enum hlk_status[]){ __VA_ARGS__ }, sizeof((enum hlk_status[]){ __VA_ARGS__ }) / sizeof(int))
bool one_of(enum hlk_status status, const enum hlk_status *list, size_t n);

#define UNKNOWN(status) ONE_OF(status, HLK_E_UNSURE, HLK_E_CONNECT)     /* a release: the outcome is unknown */
/* An acquire without a reply in time. It is rolled back, so its status is never HLK_E_UNSURE. */
#define NOT_GOT(status) ONE_OF(status, HLK_BUSY, HLK_TIMEOUT, HLK_E_CONNECT)

/* The hold of the lock's holder as written in Redis; "" if it holds nothing. Valid until the 4th call after it. */
const char *hold_of(const hlk_lock *lock);

/* NULL: Redis agrees with the caller: `count` holds of this id and no other holder, or the end of the hold was
 * reported meanwhile. Else what Redis has. */
const char *disagreement(hlk_lock *lock, const char *name, int count);

/* Releases, again if necessary, until no hold `hold` is left in Redis. Returns OK or LOST. */
enum hlk_status release_for_good(hlk_lock *lock, const char *name);

bool is_free(const char *name);
bool is_held(const char *name, const char *hold);       /* by this hold, with count 1 */

int open_descriptors(void);                             /* of this process */

#endif
