/* wait_replicas: a wait whose hold is being confirmed hears no messages, so it must not be the one that gets them. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CHANNEL "redisson_lock__channel:{t}"

static struct server *replica;

static void start(void)
{
    static char port[8];
    static const char *extra[] = { "--replicaof", "127.0.0.1", port, NULL };
    fixture_begin(SERVER_TCP | SERVER_NOACL);
    raw(fixture.redis, "CONFIG SET repl-diskless-sync-delay 0");
    (void)snprintf(port, sizeof port, "%d", fixture.server->port);
    replica = server_start(SERVER_TCP | SERVER_NOACL, extra);
    raw(fixture.redis, "PUBLISH nobody x");
    WAIT_FOR(raw_int(fixture.redis, "WAIT 1 100") == 1);
}

static void stop(void)
{
    fixture_end();
    server_stop(replica);
}

TestSuite(replicas_listen, .init = start, .fini = stop, .timeout = 60);

/* One message of Redisson's wakes one wait of a process: the one that has subscribed first. */
Test(replicas_listen, not_while_a_hold_is_confirmed)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.wait_replicas = 1;
    opts.wait_replicas_timeout_ms = 20000;
    hlk_client *client = fixture_open(&opts);
    raw(fixture.redis, "HSET t 426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB " CHANNEL), ":1]") != NULL);
    server_pause(replica);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH " CHANNEL " 0");
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t") == 1);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB " CHANNEL), ":0]") != NULL);
    cr_assert_not(actor_answered(waiter));
    server_resume(replica);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}
