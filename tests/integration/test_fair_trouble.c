/* The fair lock in trouble: dead ones in the queue, broken connections, losses; leases as with the plain lock. */
#include "integration/fair.h"

TestSuite(fair, .init = fair_start, .fini = stage_down, .timeout = 90);
TestSuite(fair_wire, .init = fair_start_proxied, .fini = stage_down, .timeout = 90);

/* --- dead ones in the queue */

/* In a child: waits until it is killed. */
static pid_t fork_waiter(const char *url)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = HLK_LOCK_FAIR;
    hlk_client *client;
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (hlk_client_open(&client, url, &opts) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, "t", &lock_opts);
    _exit(hlk_lock_acquire(lock, HLK_FOREVER) == HLK_OK ? 0 : 2);
}

/* asks A1 redisson 1104, 2883, 3730, 3004, 4595, 6150: k of them cost no more than one, and nobody asks in a loop */
Test(fair, is_not_delayed_by_waiters_that_were_killed)
{
    if (STAGE_UNDER_TSAN)
        return;
    enum { DEAD = 15 };
    pid_t dead[DEAD];
    raw(stage.redis, "HSET t foreign:1 1");
    for (int i = 0; i < DEAD; i++) {
        dead[i] = fork_waiter(stage.url);
        WAIT_FOR(queued() == i + 1);
    }
    raw(stage.redis, "DEL t"); /* nobody says so */
    for (int i = 0; i < DEAD; i++) {
        kill(dead[i], SIGKILL);
        waitpid(dead[i], NULL, 0);
    }
    hlk_client *client = stage_open(NULL);
    int64_t began = test_now_ms(), calls = script_calls();
    struct actor *living = actor_start(fair_lock(client, "t", NULL), NULL);
    cr_assert_eq(actor_status(living), HLK_OK);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(took, DEAD * 1000, "one chance of 1 s for all of them, not one each; this took %lld", (long long)took);
    cr_assert_leq(script_calls() - calls, 20, "it asks when there is something to ask");
    cr_assert_eq(actor_end(living), HLK_OK);
    cr_assert(no_queue());
}

Test(fair, a_release_is_heard_behind_waiters_that_were_killed)
{
    if (STAGE_UNDER_TSAN)
        return;
    hlk_client *client = stage_open(NULL);
    hlk_lock *held = fair_lock(client, "t", NULL);
    struct actor *living;
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    pid_t dead = fork_waiter(stage.url);
    WAIT_FOR(queued() == 1);
    start_waiters(client, &living, 1);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    char channel[256];
    redisReply *first = redisCommand(stage.redis, "LINDEX " QUEUE " 0");
    snprintf(channel, sizeof channel, "redisson_lock__channel:{t}:%s", first->str);
    freeReplyObject(first);
    WAIT_FOR(strstr(raw(stage.redis, "PUBSUB NUMSUB %s", channel), ":0]") != NULL);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(living), HLK_OK, "long before the 30 s it would sleep without a call");
    cr_assert_eq(actor_end(living), HLK_OK);
    cr_assert(no_queue());
}

/* asks A1: a waiter older than any timeout still gets its turn */
Test(fair, a_living_waiter_is_never_too_old)
{
    hlk_client *client = stage_open(NULL), *elsewhere = stage_open(NULL);
    struct actor *waiters[3];
    hlk_lock *held = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    start_waiters(client, waiters, 2);
    redisReply *all = redisCommand(stage.redis, "ZRANGE " SCORES " 0 -1");
    for (size_t i = 0; i < all->elements; i++) /* as if they had waited for longer than all their patience */
        raw(stage.redis, "ZADD " SCORES " 1000 %s", all->element[i]->str);
    freeReplyObject(all);
    start_waiters(elsewhere, &waiters[2], 1);
    cr_assert_eq(queued(), 3, "nobody was dropped");
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
}

/* asks A1 etcd 19597: Redisson's host whose clock is off may drop it; it asks, and stands in line again */
Test(fair, a_waiter_that_was_dropped_has_a_place_again)
{
    hlk_client *client = stage_open(NULL);
    struct actor *waiter;
    raw(stage.redis, "HSET t foreign:1 1");
    raw(stage.redis, "PEXPIRE t 2000"); /* it asks when that is over */
    start_waiters(client, &waiter, 1);
    cr_assert_eq(raw_int(stage.redis, "PERSIST t"), 1, "in time");
    raw(stage.redis, "DEL " QUEUE " " SCORES);
    WAIT_FOR(queued() == 1);
    cr_assert_eq(raw_int(stage.redis, "ZCARD " SCORES), 1);
    actor_cancel(waiter);
    cr_assert(actor_join_cancelled(waiter));
    raw(stage.redis, "DEL t");
}

/* --- broken connections */

Test(fair, keeps_its_place_when_its_subscriber_was_killed)
{
    hlk_client *client = stage_open(NULL);
    struct actor *waiters[2];
    raw(stage.redis, "HSET t foreign:1 1");
    start_waiters(client, waiters, 2);
    redisReply *first = redisCommand(stage.redis, "LRANGE " QUEUE " 0 -1");
    for (int round = 0; round < 3; round++) {
        raw(stage.redis, "CLIENT KILL TYPE pubsub");
        for (int i = 0; i < 2; i++)
            WAIT_FOR(strstr(raw(stage.redis, "PUBSUB NUMSUB redisson_lock__channel:{t}:%s", first->element[i]->str),
                            ":1]") != NULL);
    }
    cr_assert_eq(queued(), 2);
    raw(stage.redis, "DEL t");
    raw(stage.redis, "PUBLISH redisson_lock__channel:{t}:%s 0", first->element[0]->str);
    cr_assert_eq(actor_end(waiters[0]), HLK_OK);
    cr_assert_eq(actor_end(waiters[1]), HLK_OK);
    cr_assert_eq(stage_counters(client).woken_by_ttl, 0u);
    freeReplyObject(first);
}

Test(fair_wire, with_all_messages_dropped_ends_by_the_ttl_it_was_told)
{
    enum { THREADS = 3 };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 300; /* so each is the next one's bound */
    hlk_client *client = stage_open(NULL);
    struct actor *waiters[THREADS];
    proxy_drop_messages(stage.proxy, true);
    raw(stage.redis, "HSET t foreign:1 1");
    raw(stage.redis, "PEXPIRE t 300");
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(fair_lock(client, "t", NULL), &opts);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_status(waiters[i]), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        actor_end(waiters[i]); /* LOST if this thread was slow */
    cr_assert_eq(stage_counters(client).woken, 0u);
    WAIT_FOR(no_queue());
}

/* Every reply of a whole contended acquire and release is lost once: no hold or place stays with nobody. */
Test(fair_wire, a_lost_reply_leaves_nothing)
{
    struct hlk_client_opts opts = stage_opts();
    opts.reply_ms = 200;
    for (uint64_t k = 1; k <= 5; k++) {
        hlk_client *client = stage_open(&opts);
        hlk_lock *lock = fair_lock(client, "t", NULL);
        raw(stage.redis, "HSET t foreign:1 1");
        raw(stage.redis, "PEXPIRE t 500");
        proxy_arm(stage.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        enum hlk_status status = hlk_lock_acquire(lock, k % 2 ? HLK_FOREVER : 20000);
        cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_holds(lock), 1);
        status = hlk_lock_release(lock);
        cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
        WAIT_FOR(raw_pttl(stage.redis, "t") == -2);
        WAIT_FOR(no_queue());
        proxy_arm(stage.proxy, PROXY_NONE, PROXY_ALL, 0);
        stage_close(client);
    }
}

Test(fair_wire, a_wait_given_up_with_its_reply_lost_leaves_nothing_held_or_queued)
{
    struct hlk_client_opts opts = stage_opts();
    opts.reply_ms = 200;
    for (uint64_t k = 1; k <= 2; k++) {
        hlk_client *client = stage_open(&opts);
        hlk_lock *lock = fair_lock(client, "t", NULL);
        raw(stage.redis, "HSET t foreign:1 1");
        proxy_arm(stage.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        enum hlk_status status = hlk_lock_acquire(lock, 100);
        cr_assert(status == HLK_TIMEOUT || status == HLK_E_UNSURE, "%s", hlk_last_error());
        raw(stage.redis, "DEL t");
        stage_close(client);
        cr_assert(no_queue());
        cr_assert_eq(raw_pttl(stage.redis, "t"), -2);
        proxy_arm(stage.proxy, PROXY_NONE, PROXY_ALL, 0);
    }
}

/* --- losing */

Test(fair, a_loss_is_told_and_never_silent)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 600;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    int fd = hlk_lock_lost_fd(lock);
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(poll(&poller, 1, 0), 0);
    raw(stage.redis, "DEL t");
    struct stage_event event = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_str_eq(event.lock, "t");
    cr_assert_eq(poll(&poller, 1, WAIT_MS), 1, "the handle's descriptor, though the hold is a seat's");
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST, "Redisson's unlock says nothing");
    cr_assert_eq(poll(&poller, 1, 0), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(fair, a_loss_is_found_out_by_the_release)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

Test(fair, broken_goes_to_the_first_who_waits_and_its_holder_is_told)
{
    hlk_client *client = stage_open(NULL), *elsewhere = stage_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    struct actor *waiter;
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    start_waiters(elsewhere, &waiter, 1);
    cr_assert_eq(hlk_lock_break(fair_lock(client, "t", NULL)), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    (void)stage_wait_event(HLK_EVENT_LOST, "t"); /* the same process need not wait for a renewal */
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(fair, of_a_thread_that_ended_is_orphaned_and_runs_out)
{
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 600;
    hlk_client *client = stage_open(&opts);
    struct actor *gone = actor_start(fair_lock(client, "t", NULL), NULL);
    cr_assert_eq(actor_status(gone), HLK_OK);
    actor_leave(gone);
    (void)stage_wait_event(HLK_EVENT_ORPHANED, "t");
    hlk_lock *lock = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}
