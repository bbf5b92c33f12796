#include "multilock_fixture.h"

struct multilock_fixture multi;

static void up(unsigned flags)
{
    static const char *const names[MEMBERS] = { "tc", "ta", "tb" };
    fixture_begin(flags);
    multi.client = fixture_open(NULL);
    for (int i = 0; i < MEMBERS; i++)
        multi.members[i] = fixture_lock(multi.client, names[i], NULL);
    multi.multilock = hlk_lock_create_multilock(multi.members, MEMBERS, NULL);
    cr_assert_not_null(multi.multilock, "%s", hlk_last_error());
}

void multilock_start(void)
{
    up(0);
}

void multilock_start_proxied(void)
{
    up(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

void multilock_stop(void)
{
    hlk_lock_destroy(multi.multilock);
    fixture_end();
}

hlk_lock *multilock_of(hlk_lock *first, hlk_lock *second)
{
    hlk_lock *both[] = { first, second };
    hlk_lock *made = hlk_lock_create_multilock(both, 2, NULL);
    cr_assert_not_null(made, "%s", hlk_last_error());
    return made;
}

static void take_and_give(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* A script that was sent as a part of another one is not known by itself. */
void multilock_warm(hlk_lock *multilock)
{
    take_and_give(multi.members[0]);
    WAIT_FOR((take_and_give(multilock), raw_stat(fixture.redis, "number_of_cached_scripts") >= 3));
}

void multilock_deliver(void)
{
    proxy_wait_struck(fixture.proxy);
    proxy_deliver(fixture.proxy, false);
}

int64_t multilock_keys(void)
{
    return raw_int(fixture.redis, "EXISTS ta tb tc");
}

void multilock_nothing_is_held(void)
{
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(hlk_lock_holds(multi.members[i]), 0);
    WAIT_FOR(multilock_keys() == 0);
    cr_assert_eq(hlk_lock_holds(multi.multilock), 0);
    cr_assert_eq(hlk_lock_held_until(multi.multilock), 0);
    cr_assert_eq(hlk_lock_left_ms(multi.multilock), 0);
}
