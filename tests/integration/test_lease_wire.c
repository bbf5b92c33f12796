/* Leases over a faulty connection: validity, renewals without reply, at risk, and the loss of a holder that is cut
 * off. */
#include "lease_fixture.h"
#include "script/table.h"
#include "support/pause.h"

#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    lease_up(STAGE_PROXY);
}

TestSuite(lease_wire, .init = start, .fini = fixture_end, .timeout = 120);

/* --- renewals */

/* asks A2 redisson 7272: after release no renewal of that hold is ever sent. A hold that is lost because the machine
 * stood still says nothing about that: the renewal that came too late may still be on its way. */
Test(lease_wire, is_never_renewed_after_its_release)
{
    enum { LEASE = 900, PERIOD = LEASE / 3, ROUNDS = 10 };
    hlk_client *client = open_with_watchdog(LEASE);
    int lost = 0;
    pause_watch();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t began = test_now_ms();
        hlk_lock *lock = held(client, "t");
        test_sleep_ms(PERIOD / 4 * i); /* the release comes before, during and after a renewal */
        enum hlk_status status = hlk_lock_release(lock);
        uint64_t sent = proxy_seen(fixture.proxy, hlk_script_table[HLK_SCRIPT_LOCK_RENEW].sha1);
        if (status == HLK_LOST && pause_longest_ms(began) > PERIOD / 2 && ++lost <= 5) {
            i--;
            continue;
        }
        cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        cr_assert(i < 5 || sent > 0, "this is not what a renewal looks like");
        test_sleep_ms(PERIOD + PERIOD / 4);
        cr_assert_eq(proxy_seen(fixture.proxy, hlk_script_table[HLK_SCRIPT_LOCK_RENEW].sha1), sent);
    }
}

/* asks A2 bsm 83: an unknown outcome is asked for again, until the local deadline only */
Test(lease_wire, goes_on_after_a_renewal_that_got_no_answer)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 4500;
    opts.reply_timeout_ms = 300;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = held(client, "t");
    for (int i = 0; i < 2; i++) {
        uint64_t renewals = fixture_counters(client).renewals;
        proxy_arm(fixture.proxy, i == 0 ? PROXY_SWALLOW : PROXY_CUT_BEFORE, PROXY_SCRIPTS, 1);
        proxy_wait_struck(fixture.proxy);
        WAIT_FOR(fixture_counters(client).renewals > renewals);
    }
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    assert_still_works(client, lock);
}

/* --- validity */

/* asks A2 node-redlock 166: validity starts when the answered attempt was sent */
Test(lease_wire, counts_from_the_send_and_not_from_the_answer)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 10000;
    proxy_delay(fixture.proxy, 0, 500);
    int64_t before = hlk_now_ms();
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    int64_t after = hlk_now_ms();
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_geq(after - before, 500);
    cr_assert_leq(hlk_lock_held_until(lock), after - 500 + 10000 - 202);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A2 node-redlock 166, 167, 273: per attempt. The reply to the first attempt is lost, which costs 500 ms and not
 * more */
Test(lease_wire, counts_from_the_answered_attempt_and_not_the_first)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reply_timeout_ms = 500;
    hlk_client *client = fixture_open(&client_opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 10000;
    proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    int64_t before = hlk_now_ms();
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert(proxy_struck(fixture.proxy));
    cr_assert_geq(hlk_lock_held_until(lock), before + 499 + 10000 - 202 - 1000); /* drift and margin */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A4 etcd 11456, (c) Redis docs: an acquire whose answer comes after its lease is not an acquire */
Test(lease_wire, that_is_over_when_the_answer_comes_is_not_given)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 100;
    opts.wait_ms = 1500;
    proxy_delay(fixture.proxy, 0, 300);
    enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_neq(status, HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

/* --- at risk and safe again */

/* asks A2 redisson 5697: every renewal gap of more than half a lease is counted and logged; the holder is told early */
Test(lease_wire, at_risk_is_told_before_a_loss_and_safe_afterwards)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 9000;
    opts.at_risk_ms = 3000; /* so more than half a lease passes before it */
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = held(client, "t");
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, "t");
    proxy_refuse(fixture.proxy, false);
    cr_assert_str_eq(risk.holder, hold_id(lock));
    cr_assert_str_not_empty(risk.why);
    cr_assert_geq(risk.reported_at_ms, risk.held_until_at_ms - 3000 - 20);
    cr_assert_lt(risk.reported_at_ms, risk.held_until_at_ms);
    struct fixture_event safe = fixture_wait_event(HLK_EVENT_SAFE, "t");
    cr_assert_gt(safe.held_until_at_ms, risk.held_until_at_ms);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(fixture_counters(client).renewals_late, 1u);
    cr_assert(fixture_logged("is at risk"));
    WAIT_FOR(fixture_logged("1 of 1 locks renewed later than half of their lease, \"t\""));
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* The connection works and only the reply is late: the same. */
Test(lease_wire, at_risk_is_told_when_only_the_answer_is_late)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 9000;
    opts.at_risk_ms = 4000;
    opts.reply_timeout_ms = 60000;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = held(client, "t");
    proxy_freeze(fixture.proxy, true);
    fixture_wait_event(HLK_EVENT_AT_RISK, "t");
    proxy_freeze(fixture.proxy, false);
    fixture_wait_event(HLK_EVENT_SAFE, "t");
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- lost */

enum { CUT_OFF_MS = 3000, MARGIN_MS = CUT_OFF_MS / 10 };

static const char *cut_off_a_holder(void)
{
    static int rounds;
    static char name[16], what[128];
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = CUT_OFF_MS;
    hlk_client *client = fixture_open(&opts), *other = open_directly();
    snprintf(name, sizeof name, "t:%d", ++rounds);
    hlk_lock *lock = held(client, name);
    int fd = hlk_lock_lost_fd(lock);
    cr_assert_geq(fd, 0);
    cr_assert_not(readable(fd));
    proxy_freeze(fixture.proxy, true);
    struct actor *next = actor_start(fixture_lock(other, name, NULL), NULL);
    while (!actor_answered(next))
        test_sleep_ms(1);
    bool silent = !readable(fd);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, name);
    cr_assert_eq(fixture_events(HLK_EVENT_AT_RISK, name), 1u);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, name), 1u);
    cr_assert_str_not_empty(lost.why);
    assert_lost(lock);
    cr_assert_not(readable(fd), "released: nothing is lost any more");
    char theirs[192];
    (void)snprintf(theirs, sizeof theirs, "%s", raw_holder(fixture.redis, name));
    proxy_freeze(fixture.proxy, false);
    hlk_lock *again = fixture_lock(client, "t2", NULL); /* the client works again */
    cr_assert_eq(hlk_lock_acquire(again, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(again), HLK_OK);
    cr_assert_str_eq(raw_holder(fixture.redis, name), theirs, "late renewals and releases leave the next holder alone");
    int64_t taken_at_ms = actor_answered_at_ms(next);
    cr_assert_eq(actor_end(next), HLK_OK);
    (void)snprintf(what, sizeof what, "LOST %lld ms after the end, %lld ms before another client had it%s",
                   (long long)(lost.reported_at_ms - lost.held_until_at_ms),
                   (long long)(taken_at_ms - lost.reported_at_ms), silent ? "; the descriptor was silent" : "");
    bool in_time =
        !silent && lost.reported_at_ms < taken_at_ms && lost.reported_at_ms < lost.held_until_at_ms + MARGIN_MS;
    return in_time ? NULL : what;
}

/* asks A3 redisson 4698, 3636; RedLock.net 92: callback, descriptor, left_ms: each before somebody else can have it */
/* Shows: S15 */
Test(lease_wire, of_a_cut_off_holder_is_told_lost_before_it_is_free)
{
    const char *late = pause_repeat(MARGIN_MS / 2, cut_off_a_holder);
    cr_assert_null(late, "%s", late);
}

static struct {
    atomic_bool armed, stands, goes_on;
} logger;

static void stand_still(int level, const char *line, void *ctx)
{
    (void)level, (void)ctx;
    if (!strstr(line, "subscriber connection") || !atomic_exchange(&logger.armed, false))
        return;
    atomic_store(&logger.stands, true);
    WAIT_FOR(atomic_load(&logger.goes_on));
}

/* The loop thread is blocked, so the holder's calls find out that the lease is over. A caller then reads the renewal's
 * reply, which does not revive it. */
Test(lease_wire, found_over_is_not_revived_by_a_late_answer)
{
    enum { LEASE = 3000 };
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = LEASE;
    opts.reply_timeout_ms = 2 * LEASE;
    opts.log = stand_still;
    opts.log_level = HLK_LOG_INFO;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *other = fixture_lock(client, "t2", NULL), *elsewhere = fixture_held_elsewhere("t3", 0);
    fixture_wait_in_vain(fixture_lock(client, "t3", NULL), client);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK); /* makes the script known */
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    hlk_lock *lock = held(client, "t");
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1); /* the renewal */
    proxy_wait_struck(fixture.proxy);
    atomic_store(&logger.armed, true);
    raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    WAIT_FOR(atomic_load(&logger.stands));
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    proxy_deliver(fixture.proxy, false);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST, "LOST is final");
    atomic_store(&logger.goes_on, true);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
}

/* docs/protocol.md, section 7, 4: after a reconnect all holds are verified before anything else, not at the next
 * renewal (here in 200 s) */
/* Shows: S5 */
Test(lease_wire, is_verified_at_once_after_a_reconnect)
{
    hlk_client *client = open_with_watchdog(600000);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2"), *next = fixture_lock(client, "t3", NULL);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    raw(fixture.redis, "DEL t1");
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(hlk_lock_acquire(next, HLK_FOREVER), HLK_OK);
    fixture_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
    cr_assert_eq(hlk_lock_release(next), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t2"), 0u);
}

/* Near max_hold a renewal is shorter: four holds of one batch, two of them with a cap. */
Test(lease_wire, of_a_hold_in_a_batch_is_renewed_to_its_own_length)
{
    enum { WATCHDOG = 600000, CAP = 120000, ENDS = CAP + WATCHDOG / 10 + WATCHDOG / 50 + 2, SOON = 60000 };
    const int64_t max_hold[] = { CAP, 0, CAP, 0 };
    const char *const names[] = { "t1", "t2", "t3", "t4" };
    hlk_client *client = open_with_watchdog(WATCHDOG);
    hlk_lock *locks[4];
    for (int i = 0; i < 4; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.max_hold_ms = max_hold[i];
        locks[i] = fixture_lock(client, names[i], &opts);
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK);
        raw(fixture.redis, "PEXPIRE %s %d", names[i], SOON);
    }
    uint64_t renewals = fixture_counters(client).renewals;
    proxy_cut_all(fixture.proxy);
    WAIT_FOR(fixture_counters(client).renewals == renewals + 4);
    for (int i = 0; i < 4; i++) {
        int64_t ttl = raw_pttl(fixture.redis, names[i]), most = max_hold[i] ? ENDS : WATCHDOG;
        cr_assert_leq(ttl, most, "%s", names[i]);
        cr_assert_gt(ttl, most - WAIT_MS, "%s", names[i]);
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    }
}

/* After a reconnect each hold is verified, also those without renewal. */
Test(lease_wire, of_fixed_length_is_no_longer_after_a_reconnect)
{
    hlk_client *client = open_with_watchdog(600000);
    hlk_lock *lock = held_for(client, "t", 20000);
    int64_t until = hlk_lock_held_until(lock);
    uint64_t renewals = fixture_counters(client).renewals;
    proxy_cut_all(fixture.proxy);
    WAIT_FOR(fixture_counters(client).renewals == renewals + 1);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 20000);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* An operator's PERSIST is undone, as by every renewal, and the holder keeps the lock. */
Test(lease_wire, made_endless_by_others_is_fixed_again_on_reconnect)
{
    hlk_client *client = open_with_watchdog(600000);
    hlk_lock *lock = held_for(client, "t", 20000);
    raw(fixture.redis, "PERSIST t");
    uint64_t renewals = fixture_counters(client).renewals;
    proxy_cut_all(fixture.proxy);
    WAIT_FOR(fixture_counters(client).renewals == renewals + 1);
    int64_t ttl = raw_pttl(fixture.redis, "t");
    cr_assert(ttl > 0 && ttl <= 20000, "%d ms", (int)ttl);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- shorter than a round trip */

/* Otherwise no client could hold it: each reply comes too late, and each attempt keeps the lock from all others. */
Test(lease_wire, that_ends_before_each_answer_comes_ends_the_try)
{
    hlk_client *client = fixture_open(NULL), *other = open_directly();
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 100;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK); /* makes the script known */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    proxy_delay(fixture.proxy, 0, 150);
    for (int i = 0; i < 2; i++) {
        opts.wait_ms = i ? HLK_FOREVER : HLK_NOWAIT;
        const char *acquires = hlk_script_table[HLK_SCRIPT_LOCK_ACQUIRE].sha1;
        uint64_t sent = proxy_seen(fixture.proxy, acquires);
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_E_CONNECT);
        cr_assert_not_null(strstr(hlk_last_error(), "over"), "%s", hlk_last_error());
        cr_assert_eq(proxy_seen(fixture.proxy, acquires) - sent, 3u);
        cr_assert_eq(hlk_lock_acquire(theirs, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    }
    proxy_delay(fixture.proxy, 0, 0);
}
