#include "permits_fixture.h"

#include <criterion/criterion.h>

hlk_client *client, *other;
hlk_permits *permits, *theirs;
hlk_lock *permit, *their_permit;

static void up(unsigned flags)
{
    fixture_begin(flags);
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = PERMITS_WATCHDOG_MS;
    client = fixture_open(&opts);
    other = fixture_open(NULL);
    permits = hlk_permits_create(client, "t", NULL);
    theirs = hlk_permits_create(other, "t", NULL);
    cr_assert(permits && theirs, "%s", hlk_last_error());
    permit = hlk_permits_permit(permits);
    their_permit = hlk_permits_permit(theirs);
}

void permits_start(void)
{
    up(0);
}

void permits_start_proxied(void)
{
    up(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

/* What is left is the number of permits. */
void permits_stop(void)
{
    hlk_permits_destroy(permits);
    hlk_permits_destroy(theirs);
    fixture_close_all(); /* a release may be on its way */
    raw(fixture.redis, "DEL t");
    fixture_end();
}

void permits_set(int64_t n)
{
    cr_assert_eq(hlk_permits_try_set(permits, n), HLK_OK, "%s", hlk_last_error());
}

int64_t permits_unused(void)
{
    return raw_int(fixture.redis, "GET t");
}

int64_t permits_used(void)
{
    return raw_int(fixture.redis, "ZCARD %s", PERMITS_LEASES);
}

int64_t permits_tickets(void)
{
    return raw_int(fixture.redis, "ZCOUNT %s 1 (1e15", PERMITS_QUEUE);
}

const char *permit_id(const hlk_lock *lock)
{
    static char id[192];
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK, "%s", hlk_last_error());
    return id;
}

hlk_lock *permit_with(hlk_client *of, hlk_owner *owner, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.owner = owner;
    opts.lease_ms = lease_ms;
    return fixture_lock(of, "t", &opts);
}

hlk_lock *permit_of(int64_t number, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_PERMIT;
    opts.owner = owner;
    opts.permits = number;
    return fixture_lock(client, "t", &opts);
}

struct actor *permit_waiter(hlk_lock *lock)
{
    int64_t before = permits_tickets();
    struct actor *actor = actor_start(lock, NULL);
    WAIT_FOR(permits_tickets() == before + 1);
    return actor;
}
