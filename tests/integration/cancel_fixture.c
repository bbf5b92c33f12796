#include "cancel_fixture.h"

void cancel_start(void)
{
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

void cancel_start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

void assert_nothing_left(hlk_client *client)
{
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0);
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    cr_assert_eq(fixture_counters(client).held, 0u);
}

void pause_us(int us)
{
    nanosleep(&(struct timespec){ 0, us * 1000L }, NULL);
}
