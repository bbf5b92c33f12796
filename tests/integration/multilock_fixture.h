/* multilock_fixture.h - what the tests of multilocks share: one of "ta", "tb" and "tc", given in another order. */
#ifndef HLK_TEST_INTEGRATION_MULTILOCK_FIXTURE_H
#define HLK_TEST_INTEGRATION_MULTILOCK_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MEMBERS = 3, RECONNECT_MS = 20000 };

struct multilock_fixture {
    hlk_client *client;
    hlk_lock *members[MEMBERS]; /* tc, ta, tb; held by threads */
    hlk_lock *multilock;        /* of them */
};
extern struct multilock_fixture multi;

void multilock_start(void);
void multilock_start_proxied(void);
void multilock_stop(void);

/* One of two. The caller destroys it. */
hlk_lock *multilock_of(hlk_lock *first, hlk_lock *second);

/* From now on the server has the scripts of one lock and of several at once: no command is answered by NOSCRIPT, and
 * sent again. */
void multilock_warm(hlk_lock *multilock);

/* proxy_deliver, when the reply is there that was to be held. */
void multilock_deliver(void);

/* The members that somebody holds. */
int64_t multilock_keys(void);
void multilock_nothing_is_held(void);

#endif
