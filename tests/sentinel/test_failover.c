/* A failover while 8 holders hold and 8 waiters wait, planned and by kill -9: each waiter is served, and a holder is
 * told LOST exactly when the new master does not know its hold. */
#include "support/history.h"
#include "support/sentinels.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

enum { LOCKS = 8 };

struct waiter {
    pthread_t thread;
    hlk_lock *lock;
    int i;
    enum hlk_status acquired, released;
    char error[512];
};

static struct {
    struct history *history;
    hlk_client *holders, *waiters;
    char names[LOCKS][8], ids[LOCKS][192];
    hlk_lock *held[LOCKS];
    struct hold *holds[LOCKS];
    struct waiter waiting[LOCKS];
    bool known[LOCKS]; /* to the new master */
    int known_count;
} at;

static void start(void)
{
    memset(&at, 0, sizeof at);
    at.history = history_create(4 * LOCKS);
    sentinels_begin(1);
}

static void stop(void)
{
    sentinels_end();
    history_destroy(at.history);
}

TestSuite(failover, .init = start, .fini = stop, .timeout = 150);

static hlk_client *open_patient(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 60000; /* of how long a failover takes here the sentinels know */
    return fixture_open_at(sentinels.url, &opts);
}

static void hold(int i)
{
    snprintf(at.names[i], sizeof at.names[i], "t%d", i);
    at.held[i] = fixture_lock(at.holders, at.names[i], NULL);
    cr_assert_eq(hlk_lock_acquire(at.held[i], HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    at.holds[i] = history_acquired(at.history, 0, i, hlk_lock_held_until(at.held[i]));
    cr_assert_eq(hlk_lock_hold_id(at.held[i], at.ids[i], sizeof at.ids[i]), HLK_OK);
}

static void *wait_and_pass(void *arg)
{
    struct waiter *w = arg;
    w->acquired = hlk_lock_acquire(w->lock, HLK_FOREVER);
    snprintf(w->error, sizeof w->error, "%s", w->acquired == HLK_OK ? "" : hlk_last_error());
    if (w->acquired != HLK_OK)
        return NULL;
    struct hold *mine = history_acquired(at.history, 1, w->i, hlk_lock_held_until(w->lock));
    history_released(mine);
    w->released = hlk_lock_release(w->lock);
    return NULL;
}

static void wait_behind(int i)
{
    at.waiting[i].i = i;
    at.waiting[i].lock = fixture_lock(at.waiters, at.names[i], NULL);
    cr_assert_eq(pthread_create(&at.waiting[i].thread, NULL, wait_and_pass, &at.waiting[i]), 0);
}

static void hold_and_wait(void)
{
    at.holders = open_patient();
    at.waiters = open_patient();
    for (int i = 0; i < LOCKS; i++)
        hold(i);
    for (int i = 0; i < LOCKS; i++)
        sentinels_await_copy(at.names[i]);
    for (int i = 0; i < LOCKS; i++)
        wait_behind(i);
    WAIT_FOR_WAITERS(at.waiters, LOCKS);
}

static void look_what_is_known(void)
{
    redisContext *view = sentinels_view();
    for (int i = 0; i < LOCKS; i++) {
        at.known[i] = raw_int(view, "HEXISTS %s %s", at.names[i], at.ids[i]) == 1;
        at.known_count += at.known[i];
    }
}

/* A hold counts for the history as long as its holder may believe in it. */
static void expect_what_is_known(void)
{
    look_what_is_known();
    WAIT_FOR(fixture_counters(at.holders).reconnects >= 1);
    for (int i = 0; i < LOCKS; i++) {
        if (at.known[i])
            continue;
        (void)fixture_wait_event(HLK_EVENT_LOST, at.names[i]);
        at.holds[i]->released_at = at.holds[i]->acquired_at; /* the new master never promised it */
    }
    WAIT_FOR(fixture_counters(at.holders).renewals >= (uint64_t)at.known_count);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), (size_t)(LOCKS - at.known_count));
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(hlk_lock_left_ms(at.held[i]) > 0, at.known[i], "%s", at.names[i]);
}

static void end_all(void)
{
    for (int i = 0; i < LOCKS; i++) {
        if (at.known[i])
            history_released(at.holds[i]);
        enum hlk_status status = hlk_lock_release(at.held[i]);
        cr_assert_eq(status, at.known[i] ? HLK_OK : HLK_LOST, "%s: %s", at.names[i], hlk_last_error());
    }
    for (int i = 0; i < LOCKS; i++) {
        struct waiter *w = &at.waiting[i];
        pthread_join(w->thread, NULL);
        cr_assert_eq(w->acquired, HLK_OK, "%s: %s", at.names[i], w->error);
        cr_assert_eq(w->released, HLK_OK, "%s", at.names[i]);
    }
    cr_assert(history_check(at.history));
    cr_assert_eq(history_count(at.history), 2 * LOCKS);
}

Test(failover, that_is_planned_keeps_holders_and_serves_waiters)
{
    hold_and_wait();
    sentinels_fail_over();
    expect_what_is_known();
    cr_assert_eq(at.known_count, LOCKS);
    end_all();
}

Test(failover, by_kill_keeps_the_holders_and_serves_the_waiters)
{
    hold_and_wait();
    int before = sentinels_master();
    sentinels_kill(before);
    (void)sentinels_await_switch(before);
    expect_what_is_known();
    cr_assert_eq(at.known_count, LOCKS);
    end_all();
}

/* What the replica had not got when its master went is lost, and its holders learn that; the others keep theirs. */
static void hold_half_of_it_unreplicated(void)
{
    at.holders = open_patient();
    at.waiters = open_patient();
    for (int i = 0; i < LOCKS / 2; i++) {
        hold(i);
        sentinels_await_copy(at.names[i]);
    }
    sentinels_cut_off(1);
    for (int i = LOCKS / 2; i < LOCKS; i++)
        hold(i);
    for (int i = 0; i < LOCKS; i++)
        wait_behind(i);
    WAIT_FOR_WAITERS(at.waiters, LOCKS);
}

/* Shows: S8 */
Test(failover, planned_to_a_lagging_replica_tells_what_it_loses)
{
    hold_half_of_it_unreplicated();
    sentinels_fail_over();
    expect_what_is_known();
    cr_assert_eq(at.known_count, LOCKS / 2);
    end_all();
}

/* Shows: S8 */
Test(failover, by_kill_to_a_lagging_replica_tells_what_it_loses)
{
    hold_half_of_it_unreplicated();
    int before = sentinels_master();
    sentinels_kill(before);
    (void)sentinels_await_switch(before);
    expect_what_is_known();
    cr_assert_eq(at.known_count, LOCKS / 2);
    end_all();
}

/* The old master comes back as a replica, and is the master again after the next failover. */
Test(failover, and_back_again)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    int first = sentinels_master();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    sentinels_await_copy("t");
    sentinels_kill(first);
    (void)sentinels_await_switch(first);
    sentinels_restart(first);
    sentinels_await_copy("t");
    sentinels_await_replica(first);
    sentinels_fail_over();
    cr_assert_eq(sentinels_master(), first);
    WAIT_FOR(fixture_counters(client).reconnects >= 2); /* sentinels close connections, too */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* --- wait_replicas --- */

static hlk_lock *confirmed_lock(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 60000;
    opts.wait_replicas = 1;
    opts.wait_replicas_timeout_ms = 60000;
    return fixture_lock(fixture_open_at(sentinels.url, &opts), "t", NULL);
}

/* The test need not wait for the copy before it kills the master. */
/* Shows: S12 */
Test(failover, by_kill_after_a_replicated_acquire_keeps_the_hold)
{
    hlk_lock *lock = confirmed_lock();
    int first = sentinels_master();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    sentinels_kill(first);
    (void)sentinels_await_switch(first);
    cr_assert_eq(raw_int(sentinels_view(), "EXISTS t"), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* The old master is alive, and its WAIT would be answered. */
Test(failover, that_is_planned_moves_the_wait_for_replicas)
{
    hlk_lock *lock = confirmed_lock();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    sentinels_fail_over();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(sentinels_view(), "EXISTS t"), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}
