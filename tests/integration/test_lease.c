/* Leases: kept alive by the watchdog, fixed, extended, at risk, lost, capped, orphaned; and who is told when.
 *
 * Time passes for real here. What is asserted is order (told before anybody else could have it) and lower bounds;
 * where a lease has to be kept, it is long against any pause of the machine. */
#include "support/stage.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { WATCHDOG_MS = 1500 };

static void start(void)
{
    stage_up(0);
    server_allow(stage.server, SERVER_VOID);
}

static void start_proxied(void)
{
    stage_up(STAGE_PROXY);
    server_allow(stage.server, SERVER_VOID);
}

TestSuite(lease, .init = start, .fini = stage_down, .timeout = 120);
TestSuite(lease_lost, .init = start, .fini = stage_down, .timeout = 120);
TestSuite(lease_wire, .init = start_proxied, .fini = stage_down, .timeout = 120);

static hlk_client *open_with_watchdog(int64_t watchdog_ms)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = watchdog_ms;
    return stage_open(&opts);
}

static hlk_client *open_directly(void)
{
    return stage_open_at(hlk_test_url(stage.server), NULL);
}

static hlk_lock *held(hlk_client *client, const char *name)
{
    hlk_lock *lock = stage_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    return lock;
}

static hlk_lock *held_for(hlk_client *client, const char *name, int64_t lease_ms)
{
    hlk_lock *lock = stage_lock(client, name, NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    return lock;
}

static bool readable(int fd)
{
    struct pollfd set = { fd, POLLIN, 0 };
    return poll(&set, 1, 0) == 1;
}

static const char *hold_id(const hlk_lock *lock)
{
    static _Thread_local char text[192];
    cr_assert_eq(hlk_lock_hold_id(lock, text, sizeof text), HLK_OK);
    return text;
}

/* After a loss: every question and call says so, until each hold is released. */
static void assert_lost(hlk_lock *lock)
{
    char buf[8];
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST, "never a fresh hold beneath a lost one");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_hold_id(lock, buf, sizeof buf), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

/* --- kept */

Test(lease, of_the_watchdog_is_kept_for_as_long_as_it_is_held)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    char first[192];
    snprintf(first, sizeof first, "%s", hold_id(lock));
    int64_t end = test_now_ms() + 3 * WATCHDOG_MS;
    while (test_now_ms() < end) {
        cr_assert_str_eq(raw_holder(stage.redis, "t"), first);
        cr_assert_gt(hlk_lock_left_ms(lock), 0);
        test_sleep_ms(10);
    }
    cr_assert_geq(stage_counters(client).renewals, 6u);
    cr_assert_eq(stage_events(0, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lease, of_many_locks_are_kept_by_few_commands)
{
    enum { LOCKS = 300 };
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = held(client, name);
    }
    struct hlk_counters before = stage_counters(client);
    WAIT_FOR(stage_counters(client).renewals >= before.renewals + 3 * LOCKS);
    struct hlk_counters after = stage_counters(client);
    cr_assert_leq((after.commands - before.commands) * 5, after.renewals - before.renewals,
                  "%d commands for %d renewals", (int)(after.commands - before.commands),
                  (int)(after.renewals - before.renewals));
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
}

/* asks A2 redisson 7272: after release no renewal of that hold is ever sent */
Test(lease_wire, is_never_renewed_after_its_release)
{
    hlk_client *client = open_with_watchdog(300);
    for (int i = 0; i < 10; i++) {
        hlk_lock *lock = held(client, "t");
        char id[192];
        snprintf(id, sizeof id, "%s", hold_id(lock));
        test_sleep_ms(30 * i); /* the release comes before, while and after a renewal is due */
        hlk_lock_release(lock);
        uint64_t sent = proxy_seen(stage.proxy, id);
        test_sleep_ms(250);
        cr_assert_eq(proxy_seen(stage.proxy, id), sent);
    }
}

/* asks A2 redisson 7272: one hold is renewed once per third, however often the lock was taken before */
Test(lease, is_renewed_no_faster_after_many_short_holds)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    uint64_t before = stage_counters(client).renewals;
    test_sleep_ms(2 * WATCHDOG_MS);
    cr_assert_leq(stage_counters(client).renewals - before, 8u, "6 are due");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A2 redisson 1626, 1966, 2515, 3194: after each outcome of a renewal: release, acquire again, renewed again */
static void assert_still_works(hlk_client *client, hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    uint64_t renewals = stage_counters(client).renewals;
    WAIT_FOR(stage_counters(client).renewals >= renewals + 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_pttl(stage.redis, "t"), -2);
}

Test(lease, goes_on_after_a_renewal_that_was_refused_by_an_error)
{
    const char *who = stage.server->acl ? "locks" : "default";
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    uint64_t renewals = stage_counters(client).renewals;
    raw(stage.redis, "ACL SETUSER %s -evalsha -eval", who);
    WAIT_FOR(stage_logged("NOPERM"));
    raw(stage.redis, "ACL SETUSER %s +evalsha +eval", who);
    WAIT_FOR(stage_counters(client).renewals > renewals);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    assert_still_works(client, lock);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
}

/* asks A2 bsm 83: an unknown outcome is asked again, until the local deadline only */
Test(lease_wire, goes_on_after_a_renewal_that_got_no_answer)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 4500;
    opts.reply_ms = 300;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = held(client, "t");
    for (int i = 0; i < 2; i++) {
        uint64_t renewals = stage_counters(client).renewals;
        proxy_arm(stage.proxy, i == 0 ? PROXY_SWALLOW : PROXY_CUT_BEFORE, PROXY_SCRIPTS, 1);
        proxy_wait_struck(stage.proxy);
        WAIT_FOR(stage_counters(client).renewals > renewals);
    }
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    assert_still_works(client, lock);
}

Test(lease, goes_on_after_a_loss)
{
    hlk_client *client = open_with_watchdog(WATCHDOG_MS);
    hlk_lock *lock = held(client, "t");
    raw(stage.redis, "DEL t");
    stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    assert_still_works(client, lock);
}

/* --- fixed */

Test(lease, that_is_fixed_is_not_renewed_and_ends_by_itself)
{
    hlk_client *client = stage_open(NULL), *other = stage_open(NULL);
    hlk_lock *lock = held_for(client, "t", 300);
    int64_t until = hlk_lock_held_until(lock);
    struct actor *next = actor_start(stage_lock(other, "t", NULL), NULL);
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_leq(lost.held_until_at_ms, until);
    cr_assert_leq(lost.told_at_ms, actor_answered_at_ms(next), "told after somebody else could have it");
    cr_assert_eq(stage_counters(client).renewals, 0u);
    assert_lost(lock);
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(lease, that_is_extended_lasts_longer)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = held_for(client, "t", 3000);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_extend(lock, 3000), HLK_OK);
        test_sleep_ms(100);
    }
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    test_sleep_ms(1200); /* more than the first lease has passed by now */
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A1 etcd 11456: reentry never shortens */
Test(lease, is_never_shortened_by_reentry)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = held_for(client, "t", 60000);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    int64_t until = hlk_lock_held_until(lock);
    opts.lease_ms = 200;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    cr_assert_gt(raw_pttl(stage.redis, "t"), 30000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_held_until(lock), until);
    opts.lease_ms = 120000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_gt(hlk_lock_held_until(lock), until);
    cr_assert_gt(raw_pttl(stage.redis, "t"), 90000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- validity */

/* asks A2 node-redlock 166: validity starts at the send of the attempt that was answered */
Test(lease_wire, counts_from_the_send_and_not_from_the_answer)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 10000;
    proxy_delay(stage.proxy, 0, 500);
    int64_t before = hlk_now_ms();
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    int64_t after = hlk_now_ms();
    proxy_delay(stage.proxy, 0, 0);
    cr_assert_geq(after - before, 500);
    cr_assert_leq(hlk_lock_held_until(lock), after - 500 + 10000 - 202);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* asks A4 etcd 11456, (c) Redis docs: an acquire whose answer comes after its lease is not an acquire */
Test(lease_wire, that_is_over_when_the_answer_comes_is_not_given)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 100;
    opts.wait_ms = 1500;
    proxy_delay(stage.proxy, 0, 300);
    enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
    proxy_delay(stage.proxy, 0, 0);
    cr_assert_neq(status, HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 0);
    WAIT_FOR(raw_pttl(stage.redis, "t") == -2);
}

/* --- at risk and safe again */

/* asks A2 redisson 5697: every renewal gap of more than half a lease is counted and logged; the holder is told early */
Test(lease_wire, at_risk_is_told_before_the_loss_and_safe_when_it_is_over)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 9000;
    opts.at_risk_ms = 3000; /* so more than half a lease has passed by then */
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = held(client, "t");
    proxy_refuse(stage.proxy, true);
    proxy_cut_all(stage.proxy);
    struct stage_event risk = stage_wait_event(HLK_EVENT_AT_RISK, "t");
    proxy_refuse(stage.proxy, false);
    cr_assert_str_eq(risk.holder, hold_id(lock));
    cr_assert_str_not_empty(risk.why);
    cr_assert_geq(risk.told_at_ms, risk.held_until_at_ms - 3000 - 20);
    cr_assert_lt(risk.told_at_ms, risk.held_until_at_ms);
    struct stage_event safe = stage_wait_event(HLK_EVENT_SAFE, "t");
    cr_assert_gt(safe.held_until_at_ms, risk.held_until_at_ms);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(stage_counters(client).renewals_late, 1u);
    cr_assert(stage_logged("is at risk"));
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* The connection lives and only the answer is late: the same. */
Test(lease_wire, at_risk_is_told_when_only_the_answer_is_late)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 9000;
    opts.at_risk_ms = 4000;
    opts.reply_ms = 60000;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = held(client, "t");
    proxy_freeze(stage.proxy, true);
    stage_wait_event(HLK_EVENT_AT_RISK, "t");
    proxy_freeze(stage.proxy, false);
    stage_wait_event(HLK_EVENT_SAFE, "t");
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- lost */

/* asks A3 redisson 4698, 3636; RedLock.net 92: callback, descriptor, left_ms: each no later than somebody else can
 * have it */
Test(lease_wire, of_a_holder_that_is_cut_off_is_told_lost_before_anybody_can_have_it)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 900;
    hlk_client *client = stage_open(&opts), *other = open_directly();
    hlk_lock *lock = held(client, "t");
    int fd = hlk_lock_lost_fd(lock);
    cr_assert_geq(fd, 0);
    cr_assert_not(readable(fd));
    proxy_freeze(stage.proxy, true);
    struct actor *next = actor_start(stage_lock(other, "t", NULL), NULL);
    while (!actor_answered(next))
        test_sleep_ms(1);
    cr_assert(readable(fd), "somebody else has it and the descriptor is silent");
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(stage_events(HLK_EVENT_AT_RISK, "t"), 1u);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, "t"), 1u);
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(lost.told_at_ms, lost.held_until_at_ms + 90, "the notice is the margin of the thread that tells");
    cr_assert_lt(lost.told_at_ms, actor_answered_at_ms(next));
    cr_assert_str_not_empty(lost.why);
    assert_lost(lock);
    cr_assert_not(readable(fd), "released: nothing is lost any more");
    const char *theirs = raw_holder(stage.redis, "t");
    proxy_freeze(stage.proxy, false);
    hlk_lock *again = stage_lock(client, "t2", NULL); /* the client is well again */
    cr_assert_eq(hlk_lock_acquire(again, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(again), HLK_OK);
    cr_assert_str_eq(raw_holder(stage.redis, "t"), theirs, "late renewals and ends do not touch the next holder");
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(lease_lost, is_told_once_and_nothing_is_created_again)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    raw(stage.redis, "DEL t");
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_str_not_empty(lost.holder);
    test_sleep_ms(1200);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 1u);
    cr_assert_eq(raw_pttl(stage.redis, "t"), -2); /* asks A2 RedLock.net 48 */
    cr_assert_eq(stage_counters(client).lost, 1u);
    assert_lost(lock);
}

Test(lease_lost, by_force_leaves_the_next_holder_alone)
{
    hlk_client *client = open_with_watchdog(600), *other = stage_open(NULL);
    hlk_lock *lock = held(client, "t"), *theirs = stage_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_break(theirs), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
    const char *id = hold_id(theirs);
    stage_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    test_sleep_ms(300);
    cr_assert_str_eq(raw_holder(stage.redis, "t"), id);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

/* asks A2 redis-plus-plus 659, A3 spring-integration 2894: release of a lost hold says LOST, for each hold once */
Test(lease_lost, with_nested_holds_is_told_at_each_release)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "DEL t");
    stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* The release finds it out by itself, before any renewal. */
Test(lease_lost, is_found_out_by_the_release)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = held(client, "t");
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

Test(lease_lost, is_found_out_by_an_extend)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = held(client, "t");
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    assert_lost(lock);
}

/* asks A9 node-redlock 309: a known loss needs no I/O: the server stands still all the while */
Test(lease_lost, once_known_is_released_without_asking_the_server)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 600;
    opts.reply_ms = 60000;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = held(client, "t");
    server_pause(stage.server);
    stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    server_resume(stage.server);
    WAIT_FOR(raw_pttl(stage.redis, "t") == -2);
}

Test(lease_lost, at_a_restart_of_the_server_without_its_data)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_lock *lock = held(client, "t");
    redisFree(stage.redis);
    server_restart(stage.server, false);
    stage.redis = raw_open(stage.server);
    stage_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* protocol 8.5: after a reconnect all holds are verified before anything else, not at the next renewal (in 200 s
 * here) */
Test(lease_wire, is_verified_at_once_after_a_reconnect)
{
    hlk_client *client = open_with_watchdog(600000);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2"), *next = stage_lock(client, "t3", NULL);
    proxy_refuse(stage.proxy, true);
    proxy_cut_all(stage.proxy);
    raw(stage.redis, "DEL t1");
    proxy_refuse(stage.proxy, false);
    cr_assert_eq(hlk_lock_acquire(next, HLK_FOREVER), HLK_OK);
    stage_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
    cr_assert_eq(hlk_lock_release(next), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, "t2"), 0u);
}

static int seen_by_lock_first;
static void on_lock_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    seen_by_lock_first += stage_events(event->kind, event->lock) == 0;
    cr_assert_eq(event->size, sizeof *event);
}

/* Both handlers run on the events thread, one after the other; the lock's own first. */
Test(lease_lost, is_told_to_the_locks_handler_before_the_clients)
{
    hlk_client *client = open_with_watchdog(600);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_lock_event;
    hlk_lock *lock = stage_lock(client, "t", &opts), *plain = held(client, "t2");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "DEL t t2");
    stage_wait_event(HLK_EVENT_LOST, "t");
    stage_wait_event(HLK_EVENT_LOST, "t2");
    cr_assert_eq(seen_by_lock_first, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(plain), HLK_LOST);
}

static void on_event_that_calls(const struct hlk_event *event, void *ctx)
{
    hlk_client *client = *(hlk_client **)ctx;
    hlk_lock *lock = hlk_lock_create(client, "t-from-the-handler", NULL);
    if (hlk_lock_acquire(lock, 5000) == HLK_OK)
        hlk_lock_release(lock);
    hlk_lock_destroy(lock);
    stage_on_event(event, NULL);
}

/* A handler may call anything but close, and blocks no renewal meanwhile. */
Test(lease, events_may_call_the_library)
{
    static hlk_client *client;
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    opts.on_event = on_event_that_calls;
    opts.event_ctx = &client;
    client = stage_open(&opts);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2");
    raw(stage.redis, "DEL t1");
    stage_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
}

static void on_event_that_is_slow(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    test_sleep_ms(2 * WATCHDOG_MS);
    stage_on_event(event, NULL);
}

Test(lease, is_renewed_while_a_handler_blocks)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    opts.on_event = on_event_that_is_slow;
    hlk_client *client = stage_open(&opts);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2");
    raw(stage.redis, "DEL t1");
    stage_wait_event(HLK_EVENT_LOST, "t1");
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
}

/* --- descriptors */

Test(lease_lost, makes_the_descriptor_of_its_own_handle_readable_and_no_others)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2"), *never = stage_lock(client, "t3", NULL);
    int fds[3] = { hlk_lock_lost_fd(gone), hlk_lock_lost_fd(kept), hlk_lock_lost_fd(never) };
    cr_assert(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0);
    cr_assert_eq(hlk_lock_lost_fd(gone), fds[0], "the same one each time");
    raw(stage.redis, "DEL t1");
    WAIT_FOR(readable(fds[0]));
    cr_assert_not(readable(fds[1]));
    cr_assert_not(readable(fds[2]));
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_not(readable(fds[0]));
    cr_assert_eq(hlk_lock_acquire(gone, HLK_NOWAIT), HLK_OK);
    cr_assert_not(readable(fds[0]));
    cr_assert_eq(hlk_lock_release(gone), HLK_OK);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK);
}

Test(lease_lost, makes_a_descriptor_readable_that_was_asked_for_afterwards)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    raw(stage.redis, "DEL t");
    stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert(readable(hlk_lock_lost_fd(lock)));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* --- caps */

/* asks A2 RedLock.net 68, A9 DistributedLock 169, (c) Redis docs: renewals have a cap */
Test(lease, with_max_hold_ends_at_its_cap)
{
    hlk_client *client = open_with_watchdog(900), *other = stage_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 1200;
    hlk_lock *lock = stage_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    int64_t acquired = hlk_now_ms();
    struct actor *next = actor_start(stage_lock(other, "t", NULL), NULL);
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_not_null(strstr(lost.why, "max_hold"), "%s", lost.why);
    cr_assert_leq(lost.held_until_at_ms, acquired + 1200, "the last renewal ends with the cap");
    cr_assert_geq(stage_counters(client).renewals, 1u);
    cr_assert_eq(actor_status(next), HLK_OK);
    cr_assert_leq(lost.told_at_ms, actor_answered_at_ms(next));
    assert_lost(lock);
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(lease, with_max_hold_shorter_than_its_lease_is_over_by_then)
{
    hlk_client *client = stage_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 400;
    hlk_lock *lock = stage_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_leq(hlk_lock_held_until(lock), hlk_now_ms() + 400);
    stage_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    WAIT_FOR(raw_pttl(stage.redis, "t") == -2);
}

Test(lease, with_max_hold_released_in_time_is_just_released)
{
    hlk_client *client = stage_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 60000;
    hlk_lock *lock = stage_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(stage_events(0, NULL), 0u);
}

/* --- orphaned */

/* design 2: a thread that ends while it holds: renewal stops, ORPHANED tells, the lease runs out */
Test(lease, of_a_thread_that_ended_is_orphaned_and_runs_out)
{
    hlk_client *client = open_with_watchdog(900), *other = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct actor *actor = actor_start(lock, NULL);
    cr_assert_eq(actor_status(actor), HLK_OK);
    actor_leave(actor);
    struct stage_event orphaned = stage_wait_event(HLK_EVENT_ORPHANED, "t");
    cr_assert_str_not_empty(orphaned.holder);
    cr_assert_eq(stage_counters(client).orphaned, 1u);
    hlk_lock *theirs = stage_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER, "this thread never held it");
    cr_assert_eq(stage_counters(client).held, 0u);
}

/* A thread id may come again; a hold of a thread that ended is nobody's. */
Test(lease, of_a_thread_that_ended_is_not_the_next_threads)
{
    hlk_client *client = open_with_watchdog(30000);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct actor *actor = actor_start(lock, NULL);
    cr_assert_eq(actor_status(actor), HLK_OK);
    actor_leave(actor);
    for (int i = 0; i < 20; i++) {
        struct actor *next = actor_start_wait(lock, HLK_NOWAIT);
        cr_assert_eq(actor_status(next), HLK_BUSY);
        actor_end(next);
    }
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
}
