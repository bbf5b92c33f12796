/* A lease that is lost while the server answers: who is told, how often, and what calls and descriptors say then. */
#include "lease.h"

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

/* Each call compares the clock itself: nobody has to have run in time to say that the lease is over. */
Test(lease_lost, is_what_hold_id_and_acquire_say_from_its_moment_on)
{
    hlk_client *client = stage_open(NULL);
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

/* The release finds it out by itself, before any renewal. */
Test(lease_lost, is_found_out_by_the_release)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = held(client, "t");
    const char *id = hold_id(lock);
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t"); /* a guard's release has nobody to tell else */
    cr_assert_str_eq(lost.holder, id);
    cr_assert_leq(lost.held_until_at_ms, lost.told_at_ms);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 1u);
    cr_assert_eq(stage_counters(client).lost, 1u);
}

Test(lease_lost, is_found_out_by_a_release_that_nobody_waits_for)
{
    hlk_client *client = stage_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = stage_on_event; /* told beside the client's */
    hlk_lock *lock = stage_lock(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
    stage_wait_event(HLK_EVENT_LOST, "t");
    WAIT_FOR(stage_events(HLK_EVENT_LOST, "t") == 2);
    cr_assert_eq(stage_counters(client).lost, 1u);
}

/* Not at the next renewal, in 10 s: who waits in its own process makes the client listen. */
Test(lease_lost, by_force_is_told_at_once_while_others_of_the_process_wait)
{
    hlk_client *client = stage_open(NULL), *other = stage_open(NULL);
    hlk_lock *lock = held(client, "t");
    struct actor *waiter = actor_start_wait(stage_lock(client, "t", NULL), HLK_FOREVER);
    WAIT_FOR(strstr(raw(stage.redis, "PUBSUB CHANNELS hasplock_inbox:*"), "inbox"));
    int64_t broken_at = test_now_ms();
    cr_assert_eq(hlk_lock_break(stage_lock(other, "t", NULL)), HLK_OK);
    cr_assert_lt(stage_wait_event(HLK_EVENT_LOST, "t").told_at_ms - broken_at, 5000);
    assert_lost(lock);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Whoever held on sees no time left in what it is told. */
Test(lease_lost, by_force_is_told_with_the_moment_it_was_learnt)
{
    hlk_client *client = open_with_watchdog(600), *other = stage_open(NULL);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_break(stage_lock(other, "t", NULL)), HLK_OK);
    struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(lost.held_until_at_ms, lost.told_at_ms);
    assert_lost(lock);
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

/* --- the handle's hook, and a handle that is destroyed */

struct slow_hook {
    sem_t began, go_on;
    atomic_int told, ended;
};

static void slowly(const struct hlk_event *event, void *ctx)
{
    struct slow_hook *hook = ctx;
    (void)event;
    hook->told++;
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

Test(lease_lost, is_not_told_to_a_hook_whose_handle_was_destroyed_before)
{
    static struct slow_hook first, second;
    hlk_client *client = stage_open(NULL);
    hlk_lock *a = held_and_hooked(client, "t1", &first), *b = held_and_hooked(client, "t2", &second);
    raw(stage.redis, "DEL t1 t2");
    cr_assert_eq(hlk_lock_release(a), HLK_LOST);
    sem_wait(&first.began); /* the events thread is busy: b's event stays in its queue */
    cr_assert_eq(hlk_lock_release(b), HLK_LOST);
    hlk_lock_destroy(b);
    sem_post(&first.go_on);
    stage_wait_event(HLK_EVENT_LOST, "t2"); /* the client's hook is told */
    cr_assert_eq(second.told, 0);
    hlk_lock_destroy(a);
}

static void *destroy(void *lock)
{
    hlk_lock_destroy(lock);
    return NULL;
}

Test(lease_lost, of_a_hook_that_runs_is_waited_for_by_destroy)
{
    static struct slow_hook hook;
    hlk_lock *lock = held_and_hooked(stage_open(NULL), "t", &hook);
    pthread_t thread;
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    sem_wait(&hook.began);
    pthread_create(&thread, NULL, destroy, lock);
    test_sleep_ms(50); /* destroy has the time to be wrong */
    cr_assert_neq(pthread_tryjoin_np(thread, NULL), 0);
    sem_post(&hook.go_on);
    pthread_join(thread, NULL);
    cr_assert_eq(hook.ended, 1);
}

/* The client's hook may want a mutex that whoever destroys the handle has. */
Test(lease_lost, of_the_clients_hook_is_not_waited_for_by_destroy)
{
    static struct slow_hook clients, hook;
    struct hlk_client_opts opts = stage_opts();
    sem_init(&clients.began, 0, 0);
    sem_init(&clients.go_on, 0, 0);
    opts.on_event = slowly;
    opts.event_ctx = &clients;
    hlk_lock *lock = held_and_hooked(stage_open(&opts), "t", &hook);
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    sem_wait(&hook.began);
    sem_post(&hook.go_on);
    sem_wait(&clients.began);
    hlk_lock_destroy(lock);
    sem_post(&clients.go_on);
    WAIT_FOR(clients.ended == 1);
}
