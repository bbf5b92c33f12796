/* A lease that is lost while the server answers: which callbacks run, how often, and what calls and descriptors return
 * then. */
#include "lease_fixture.h"

#include "support/raw.h"
#include "support/wait.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

static void start(void)
{
    lease_up(0);
}

TestSuite(lease_lost, .init = start, .fini = fixture_end, .timeout = 120);

Test(lease_lost, is_told_once_and_nothing_is_created_again)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    raw(fixture.redis, "DEL t");
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_str_not_empty(lost.holder);
    test_sleep_ms(1200);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1u);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2); /* asks A2 RedLock.net 48 */
    cr_assert_eq(fixture_counters(client).lost, 1u);
    assert_lost(lock);
}

Test(lease_lost, by_force_leaves_the_next_holder_alone)
{
    hlk_client *client = open_with_watchdog(600), *other = fixture_open(NULL);
    hlk_lock *lock = held(client, "t"), *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_break(theirs), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
    const char *id = hold_id(theirs);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    test_sleep_ms(300);
    cr_assert_str_eq(raw_holder(fixture.redis, "t"), id);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

static int drain(hlk_lock *lock)
{
    int n = 0;
    while (hlk_lock_holds(lock) > 0) {
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
        n++;
    }
    return n;
}

/* After as many releases as are due, the lock can be acquired again: for each kind, by thread and by owner, for a loss
 * that was reported or is known only by the clock. */
Test(lease_lost, is_cleared_by_as_many_releases_as_are_due)
{
    static const int kinds[] = { HLK_LOCK_PLAIN, HLK_LOCK_FENCED, HLK_LOCK_FAIR, HLK_LOCK_SPIN, HLK_LOCK_STRING };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    server_allow(fixture.server, "redisson_lock_token:*");
    for (int i = 0; i < 4 * KINDS; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kinds[i % KINDS];
        opts.owner = i < 2 * KINDS ? NULL : owner;
        opts.lease_ms = 300;
        int holds = opts.kind == HLK_LOCK_STRING ? 1 : 3; /* it does not nest */
        hlk_lock *lock = fixture_lock(client, "t", &opts);
        bool message = i / KINDS % 2;
        for (int k = 0; k < holds; k++)
            cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_holds(lock), holds);
        WAIT_FOR(message ? fixture_events(HLK_EVENT_LOST, "t") > (size_t)i : hlk_lock_left_ms(lock) == 0);
        cr_assert_eq(hlk_lock_holds(lock), holds);
        cr_assert_eq(hlk_lock_held_until(lock) > hlk_now_ms(), false);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
        cr_assert_eq(drain(lock), holds);
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_holds(lock), 0);
        WAIT_FOR(fixture_events(HLK_EVENT_LOST, "t") == (size_t)i + 1);
    }
    hlk_owner_destroy(owner);
}

/* asks A2 redis-plus-plus 659, A3 spring-integration 2894: release of a lost hold says LOST, for each hold once */
Test(lease_lost, with_nested_holds_is_told_at_each_release)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* Each call compares the clock itself, so the loop thread need not have run when the lease is over. */
Test(lease_lost, is_what_hold_id_and_acquire_say_from_its_moment_on)
{
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < 10; i++) {
        hlk_lock *lock = held_for(client, "t", 300);
        int64_t now, until = hlk_lock_held_until(lock);
        enum hlk_status status = HLK_OK;
        char id[192];
        do {
            now = hlk_now_ms();
            status = i % 2 && now >= until ? hlk_lock_acquire(lock, HLK_NOWAIT) : hlk_lock_hold_id(lock, id, sizeof id);
            cr_assert(status != HLK_OK || now < until, "held %lld ms too long", (long long)(now - until));
        } while (status == HLK_OK);
        cr_assert_eq(status, HLK_LOST);
        cr_assert_not_null(strstr(hlk_last_error(), "lease is over"), "%s", hlk_last_error());
        assert_lost(lock);
    }
}

/* The release finds out the loss, before any renewal. */
Test(lease_lost, is_found_out_by_the_release)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held(client, "t");
    const char *id = hold_id(lock);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t"); /* a guard's release returns no status */
    cr_assert_str_eq(lost.holder, id);
    cr_assert_leq(lost.held_until_at_ms, lost.reported_at_ms);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1u);
    cr_assert_eq(fixture_counters(client).lost, 1u);
}

Test(lease_lost, is_found_out_by_a_release_that_nobody_waits_for)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = fixture_on_event; /* called besides the client's */
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    WAIT_FOR(fixture_events(HLK_EVENT_LOST, "t") == 2);
    cr_assert_eq(fixture_counters(client).lost, 1u);
}

/* Not at the next renewal, in 10 s: a wait of the same process keeps the inbox subscribed. */
Test(lease_lost, by_force_is_told_at_once_if_another_thread_waits)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = held(client, "t");
    struct actor *waiter = actor_start_wait(fixture_lock(client, "t", NULL), HLK_FOREVER);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB CHANNELS hasplock_inbox:*"), "inbox"));
    int64_t broken_at = test_now_ms();
    cr_assert_eq(hlk_lock_break(fixture_lock(other, "t", NULL)), HLK_OK);
    cr_assert_lt(fixture_wait_event(HLK_EVENT_LOST, "t").reported_at_ms - broken_at, 5000);
    assert_lost(lock);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* The event's held_until leaves the former holder no time. */
Test(lease_lost, by_force_is_told_with_the_moment_it_was_learnt)
{
    hlk_client *client = open_with_watchdog(600), *other = fixture_open(NULL);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_break(fixture_lock(other, "t", NULL)), HLK_OK);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(lost.held_until_at_ms, lost.reported_at_ms);
    assert_lost(lock);
}

Test(lease_lost, is_found_out_by_an_extend)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = held(client, "t");
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    assert_lost(lock);
}

/* A call has returned that nothing is left, and that is final. Redis would still extend, because its ttl is longer. */
Test(lease_lost, is_not_undone_by_an_extend_at_the_last_moment)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = 120;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        while (hlk_lock_left_ms(lock) > 0)
            sched_yield();
        cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST, "%s", hlk_last_error());
    }
}

/* asks A9 node-redlock 309: a known loss needs no I/O: the server is stopped meanwhile */
Test(lease_lost, once_known_is_released_without_asking_the_server)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 600;
    opts.reply_timeout_ms = 60000;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = held(client, "t");
    server_pause(fixture.server);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    server_resume(fixture.server);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

/* Shows: S5 */
Test(lease_lost, at_a_restart_of_the_server_without_its_data)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_lock *lock = held(client, "t");
    redisFree(fixture.redis);
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    assert_lost(lock);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

static int seen_by_lock_first;
static void on_lock_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind == HLK_EVENT_LOST) /* on a slow machine AT_RISK came before */
        seen_by_lock_first += fixture_events(event->kind, event->lock) == 0;
    cr_assert_eq(event->size, sizeof *event);
}

/* Both callbacks run on the events thread, one after the other; the lock's own first. */
Test(lease_lost, is_told_to_the_locks_handler_before_the_clients)
{
    hlk_client *client = open_with_watchdog(600);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_lock_event;
    hlk_lock *lock = fixture_lock(client, "t", &opts), *plain = held(client, "t2");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t t2");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    fixture_wait_event(HLK_EVENT_LOST, "t2");
    cr_assert_eq(seen_by_lock_first, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(plain), HLK_LOST);
}

/* --- descriptors */

Test(lease_lost, makes_only_its_own_handles_descriptor_readable)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_lock *gone = held(client, "t1"), *kept = held(client, "t2"), *never = fixture_lock(client, "t3", NULL);
    int fds[3] = { hlk_lock_lost_fd(gone), hlk_lock_lost_fd(kept), hlk_lock_lost_fd(never) };
    cr_assert(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0);
    cr_assert_eq(hlk_lock_lost_fd(gone), fds[0], "the same one each time");
    raw(fixture.redis, "DEL t1");
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

Test(lease_lost, makes_a_descriptor_requested_later_readable)
{
    hlk_client *client = open_with_watchdog(600);
    hlk_lock *lock = held(client, "t");
    raw(fixture.redis, "DEL t");
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert(readable(hlk_lock_lost_fd(lock)));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* --- the handle's callback, and a handle that is destroyed */

struct slow_hook {
    sem_t began, go_on;
    atomic_int message, ended;
};

static void slowly(const struct hlk_event *event, void *ctx)
{
    struct slow_hook *hook = ctx;
    (void)event;
    hook->message++;
    sem_post(&hook->began);
    sem_wait(&hook->go_on);
    sched_yield();
    hook->ended++;
}

static hlk_lock *held_and_hooked(hlk_client *client, const char *name, struct slow_hook *hook)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    hlk_lock *lock;
    sem_init(&hook->began, 0, 0);
    sem_init(&hook->go_on, 0, 0);
    opts.on_event = slowly;
    opts.event_ctx = hook;
    lock = hlk_lock_create(client, name, &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    return lock;
}

Test(lease_lost, is_not_told_to_the_hook_of_a_destroyed_handle)
{
    static struct slow_hook first, second;
    hlk_client *client = fixture_open(NULL);
    hlk_lock *a = held_and_hooked(client, "t1", &first), *b = held_and_hooked(client, "t2", &second);
    raw(fixture.redis, "DEL t1 t2");
    cr_assert_eq(hlk_lock_release(a), HLK_LOST);
    sem_wait(&first.began); /* the events thread is busy, so b's event stays in its queue */
    cr_assert_eq(hlk_lock_release(b), HLK_LOST);
    hlk_lock_destroy(b);
    sem_post(&first.go_on);
    fixture_wait_event(HLK_EVENT_LOST, "t2"); /* the client's callback has run */
    cr_assert_eq(second.message, 0);
    hlk_lock_destroy(a);
}

Test(lease_lost, of_a_hold_outliving_its_handle_is_told_to_its_hook)
{
    static struct slow_hook hook;
    hlk_lock *lock = held_and_hooked(open_with_watchdog(WATCHDOG_MS), "t", &hook);
    hlk_lock_destroy(lock);
    raw(fixture.redis, "DEL t");
    sem_post(&hook.go_on);
    sem_wait(&hook.began);
    WAIT_FOR(hook.ended == 1);
}

static void *destroy(void *lock)
{
    hlk_lock_destroy(lock);
    return NULL;
}

Test(lease_lost, of_a_hook_that_runs_is_waited_for_by_destroy)
{
    static struct slow_hook hook;
    hlk_lock *lock = held_and_hooked(fixture_open(NULL), "t", &hook);
    pthread_t thread;
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    sem_wait(&hook.began);
    pthread_create(&thread, NULL, destroy, lock);
    test_sleep_ms(50); /* time for destroy to fail */
    cr_assert_neq(pthread_tryjoin_np(thread, NULL), 0);
    sem_post(&hook.go_on);
    pthread_join(thread, NULL);
    cr_assert_eq(hook.ended, 1);
}

/* The client's callback may need a mutex that the thread in destroy holds. */
Test(lease_lost, of_the_clients_hook_is_not_waited_for_by_destroy)
{
    static struct slow_hook clients, hook;
    struct hlk_client_opts opts = fixture_opts();
    sem_init(&clients.began, 0, 0);
    sem_init(&clients.go_on, 0, 0);
    opts.on_event = slowly;
    opts.event_ctx = &clients;
    hlk_lock *lock = held_and_hooked(fixture_open(&opts), "t", &hook);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    sem_wait(&hook.began);
    sem_post(&hook.go_on);
    sem_wait(&clients.began);
    hlk_lock_destroy(lock);
    sem_post(&clients.go_on);
    WAIT_FOR(clients.ended == 1);
}
