/* cancel.h - what the tests of ending a wait from outside share. Whoever leaves leaves nothing behind: not held, not
 * queued, not renewed; and the others notice nothing. */
#ifndef HLK_TEST_CANCEL_H
#define HLK_TEST_CANCEL_H

#include "support/stage.h"

#include <criterion/criterion.h>
#include <time.h>

static inline void cancel_start(void)
{
    stage_up(0);
    server_allow(stage.server, SERVER_VOID);
}

static inline void cancel_start_proxied(void)
{
    stage_up(STAGE_PROXY);
    server_allow(stage.server, SERVER_VOID);
}

static inline void assert_nothing_left(hlk_client *client)
{
    WAIT_FOR(raw_listeners(stage.redis, "t") == 0);
    cr_assert_eq(stage_counters(client).waiting, 0u);
    cr_assert_eq(stage_counters(client).held, 0u);
}

static inline void pause_us(int us)
{
    nanosleep(&(struct timespec){ 0, us * 1000L }, NULL);
}

#endif
