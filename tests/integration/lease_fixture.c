#include "lease_fixture.h"

void lease_up(unsigned flags)
{
    fixture_begin(flags);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

hlk_client *open_with_watchdog(int64_t watchdog_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = watchdog_ms;
    return fixture_open(&opts);
}

hlk_client *open_directly(void)
{
    return fixture_open_at(hlk_test_url(fixture.server), NULL);
}

hlk_lock *held(hlk_client *client, const char *name)
{
    hlk_lock *lock = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return lock;
}

hlk_lock *held_for(hlk_client *client, const char *name, int64_t lease_ms)
{
    hlk_lock *lock = fixture_lock(client, name, NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    return lock;
}

bool readable(int fd)
{
    struct pollfd set = { fd, POLLIN, 0 };
    return poll(&set, 1, 0) == 1;
}

const char *hold_id(const hlk_lock *lock)
{
    static _Thread_local char text[192];
    cr_assert_eq(hlk_lock_hold_id(lock, text, sizeof text), HLK_OK);
    return text;
}

void assert_lost(hlk_lock *lock)
{
    char buf[8];
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_holds(lock), 1, "a release is due");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST, "never a fresh hold beneath a lost one");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_hold_id(lock, buf, sizeof buf), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

void assert_still_works(hlk_client *client, hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
}
