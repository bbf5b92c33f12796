/* cancel_fixture.h - what the tests of cancelled waits share. A cancelled waiter leaves nothing behind: no hold, no
 * ticket, no renewal. Other waiters are not disturbed. */
#ifndef HLK_TEST_INTEGRATION_CANCEL_FIXTURE_H
#define HLK_TEST_INTEGRATION_CANCEL_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <time.h>

void cancel_start(void);
void cancel_start_proxied(void);
void assert_nothing_left(hlk_client *client);
void pause_us(int us);

#endif
