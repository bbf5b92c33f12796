/* A lease that is lost while the server answers: who is told, how often, and what calls and descriptors say then. */
#include "lease.h"

#include <sched.h>

static void start(void)
{
    lease_up(0);
}

TestSuite(lease_lost, .init = start, .fini = stage_down, .timeout = 120);

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

/* Who was told that nothing is left is not given it back: Redis would, as its ttl has a while to go. */
Test(lease_lost, is_not_undone_by_an_extend_at_the_last_moment)
{
    hlk_client *client = stage_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = 120;
    hlk_lock *lock = stage_lock(client, "t", &opts);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        while (hlk_lock_left_ms(lock) > 0)
            sched_yield();
        cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST, "%s", hlk_last_error());
    }
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

static int seen_by_lock_first;
static void on_lock_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind == HLK_EVENT_LOST) /* on a slow machine AT_RISK came before */
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
