/* trouble.h - what the fault tests share: a client with short deadlines, somebody beside it who is never disturbed, and
 * the two questions that every fault ends with: do Redis and the caller agree, and is the lock free in the end?
 *
 * Under `trouble_opts` a server that says nothing is given up after REPLY_MS, and a hold that nobody renews is over
 * after LEASE_MS. FREE_MS is what "nothing stays held" means: two leases.
 */
#ifndef HLK_FAULT_TROUBLE_H
#define HLK_FAULT_TROUBLE_H

#include "support/stage.h"

#include <criterion/criterion.h>

enum { LEASE_MS = 900, REPLY_MS = 150, PATIENCE_MS = 4000, FREE_MS = 2 * LEASE_MS };

/* stage_up, and void sets may be left. */
void trouble_up(unsigned flags);

struct hlk_client_opts trouble_opts(void);

/* Speaks to the server directly, with the default deadlines: whom no fault hits. */
hlk_client *bystander(void);
/* The bystander's hold on `name`: acquires NOWAIT, must be OK. lease_ms 0: renewed. */
hlk_lock *held_by_bystander(hlk_client *client, const char *name, int64_t lease_ms);

/* Asserts that the condition holds within so many ms. */
#define WITHIN(ms, condition)                                                                                          \
    do {                                                                                                               \
        int64_t within_until_ = test_now_ms() + (ms);                                                                  \
        bool within_ = (condition);                                                                                    \
        while (!within_ && test_now_ms() < within_until_) {                                                            \
            test_sleep_ms(1);                                                                                          \
            within_ = (condition);                                                                                     \
        }                                                                                                              \
        cr_assert(within_, "not within %d ms: %s", (int)(ms), #condition);                                             \
    } while (0)

/* Whether status is in the list: ONE_OF(status, HLK_OK, HLK_LOST). */
#define ONE_OF(status, ...)                                                                                            \
    one_of((status), (const enum hlk_status[]){ __VA_ARGS__ }, sizeof((enum hlk_status[]){ __VA_ARGS__ }) / sizeof(int))
bool one_of(enum hlk_status status, const enum hlk_status *list, size_t n);

#define UNKNOWN(status) ONE_OF(status, HLK_E_UNSURE, HLK_E_CONNECT)     /* no outcome was told */

/* The hold of the lock's holder as written in Redis; "" when it holds nothing (any more). Valid until the 4th next
 * call. */
const char *hold_of(const hlk_lock *lock);

/* NULL: Redis says what the caller was told, `count` holds of this id and of nobody else; or it was told meanwhile that
 * the hold is over. Else what Redis has. */
const char *disagreement(hlk_lock *lock, const char *name, int count);

/* What a release must end with, however many times it has to be asked: then nobody holds by `hold` any more. OK or
 * LOST. */
enum hlk_status release_for_good(hlk_lock *lock, const char *name);

bool is_free(const char *name);
bool is_held(const char *name, const char *hold);       /* by this one, once */

int open_descriptors(void);                             /* of this process */

#endif
