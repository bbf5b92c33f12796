/* lease.h - what the tests of leases share: a client with a short watchdog, a lock that it holds, and what is asked
 * after a loss.
 *
 * Time passes for real in them. What is asserted is order (told before anybody else could have it) and lower bounds;
 * where a lease has to be kept, it is long against any pause of the machine. */
#ifndef HLK_TEST_LEASE_H
#define HLK_TEST_LEASE_H

#include "support/stage.h"

#include <criterion/criterion.h>
#include <poll.h>

enum { WATCHDOG_MS = 1500 };

static inline void lease_up(unsigned flags)
{
    stage_up(flags);
    server_allow(stage.server, SERVER_VOID);
}

static inline hlk_client *open_with_watchdog(int64_t watchdog_ms)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = watchdog_ms;
    return stage_open(&opts);
}

static inline hlk_client *open_directly(void)
{
    return stage_open_at(hlk_test_url(stage.server), NULL);
}

static inline hlk_lock *held(hlk_client *client, const char *name)
{
    hlk_lock *lock = stage_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    return lock;
}

static inline hlk_lock *held_for(hlk_client *client, const char *name, int64_t lease_ms)
{
    hlk_lock *lock = stage_lock(client, name, NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    return lock;
}

static inline bool readable(int fd)
{
    struct pollfd set = { fd, POLLIN, 0 };
    return poll(&set, 1, 0) == 1;
}

static inline const char *hold_id(const hlk_lock *lock)
{
    static _Thread_local char text[192];
    cr_assert_eq(hlk_lock_hold_id(lock, text, sizeof text), HLK_OK);
    return text;
}

/* After a loss: every question and call says so, until each hold is released. */
static inline void assert_lost(hlk_lock *lock)
{
    char buf[8];
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST, "never a fresh hold beneath a lost one");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_hold_id(lock, buf, sizeof buf), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

/* asks A2 redisson 1626, 1966, 2515, 3194: after each outcome of a renewal: release, acquire again, renewed again */
static inline void assert_still_works(hlk_client *client, hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    uint64_t renewals = stage_counters(client).renewals;
    WAIT_FOR(stage_counters(client).renewals >= renewals + 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_pttl(stage.redis, "t"), -2);
}

#endif
