/* The fair lock under faults: dead waiters in the queue, broken connections, losses; leases as with the plain lock. */
/* Shows: P23 */
#include "integration/fair_fixture.h"

TestSuite(fair, .init = fair_start, .fini = fixture_end, .timeout = 90);
TestSuite(fair_wire, .init = fair_start_proxied, .fini = fixture_end, .timeout = 90);

/* --- dead waiters in the queue */

/* In a child, which waits until it is killed. */
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

/* asks A1 redisson 1104, 2883, 3730, 3004, 4595, 6150: nobody waits for them, and nobody asks in a loop */
Test(fair, is_not_delayed_by_waiters_that_were_killed)
{
    if (STAGE_UNDER_TSAN)
        return;
    enum { DEAD = 15 };
    pid_t dead[DEAD];
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < DEAD; i++) {
        dead[i] = fork_waiter(fixture.url);
        WAIT_FOR(queued() == i + 1);
    }
    for (int i = 0; i < DEAD; i++) {
        kill(dead[i], SIGKILL);
        waitpid(dead[i], NULL, 0);
    }
    WAIT_FOR(raw_inboxes(fixture.redis) == 0);
    raw(fixture.redis, "DEL t"); /* free, without a message */
    hlk_client *client = fixture_open(NULL);
    int64_t began = test_now_ms(), calls = script_calls();
    struct actor *living = actor_start(fair_lock(client, "t", NULL), NULL);
    cr_assert_eq(actor_status(living), HLK_OK);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(running_ms(began), 1000, "they are passed over; this took %lld", (long long)took);
    cr_assert_leq(script_calls() - calls, 2, "one question; on a slow machine a renewal");
    cr_assert_eq(queued(), DEAD, "for 1 s, in case it was only their subscriptions that broke");
    cr_assert_eq(actor_end(living), HLK_OK);
    static const char over[] = "for _, member in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do "
                               "redis.call('zadd', KEYS[1], redis.call('time')[1] * 1000 - 1, member) end";
    raw(fixture.redis, "EVAL %s 1 hasplock_fair:{t}", over);
    cr_assert_eq(hlk_lock_acquire(fair_lock(client, "t", NULL), HLK_NOWAIT), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " QUEUE " " SCORES " hasplock_fair:{t}"), 0, "then they are given up");
    cr_assert_eq(hlk_lock_release(fair_lock(client, "t", NULL)), HLK_OK);
}

Test(fair, a_release_passes_over_waiters_that_were_killed)
{
    if (STAGE_UNDER_TSAN || STAGE_UNDER_ASAN)
        return;
    hlk_client *client = fixture_open(NULL);
    hlk_lock *held = fair_lock(client, "t", NULL);
    struct actor *living;
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    pid_t dead = fork_waiter(fixture.url);
    WAIT_FOR(queued() == 1 && raw_inboxes(fixture.redis) == 1);
    int64_t calls = script_calls();
    start_waiters(client, &living, 1);
    WAIT_FOR(raw_inboxes(fixture.redis) == 2 && script_calls() - calls >= 2); /* it has asked again, and sleeps */
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(living), HLK_OK);
    cr_assert_lt(running_ms(began), 1000);
    cr_assert_eq(fixture_counters(client).granted, 1u);
    cr_assert_eq(actor_end(living), HLK_OK);
    raw(fixture.redis, "DEL " QUEUE " " SCORES " hasplock_fair:{t}");
}

/* asks A1: a waiter older than any timeout still gets its turn */
Test(fair, a_living_waiter_is_never_too_old)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    struct actor *waiters[3];
    hlk_lock *held = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    start_waiters(client, waiters, 2);
    redisReply *all = redisCommand(fixture.redis, "ZRANGE " SCORES " 0 -1");
    for (size_t i = 0; i < all->elements; i++) /* as if they had waited for longer than their reconnect timeout */
        raw(fixture.redis, "ZADD " SCORES " 1000 %s", all->element[i]->str);
    freeReplyObject(all);
    start_waiters(elsewhere, &waiters[2], 1);
    cr_assert_eq(queued(), 3, "nobody was dropped");
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
}

/* asks A1 etcd 19597: a Redisson client with a wrong clock may remove it. It sends again and takes a new ticket */
Test(fair, a_waiter_that_was_dropped_has_a_ticket_again)
{
    hlk_client *client = fixture_open(NULL);
    struct actor *waiter;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 2000"); /* then it sends again */
    start_waiters(client, &waiter, 1);
    cr_assert_eq(raw_int(fixture.redis, "PERSIST t"), 1, "in time");
    raw(fixture.redis, "DEL " QUEUE " " SCORES);
    WAIT_FOR(queued() == 1);
    cr_assert_eq(raw_int(fixture.redis, "ZCARD " SCORES), 1);
    actor_cancel(waiter);
    cr_assert(actor_join_cancelled(waiter));
    raw(fixture.redis, "DEL t");
}

/* --- broken connections */

Test(fair, keeps_its_ticket_when_its_subscriber_was_killed)
{
    hlk_client *client = fixture_open(NULL);
    struct actor *waiters[2];
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    start_waiters(client, waiters, 2);
    struct waiter first = first_waiter();
    for (int round = 0; round < 3; round++) {
        WAIT_FOR(listens(first.name) && hears_grants(client));
        raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    }
    WAIT_FOR(listens(first.name) && hears_grants(client));
    cr_assert_eq(queued(), 2);
    cr_assert_str_eq(first_waiter().name, first.name);
    raw(fixture.redis, "DEL t");
    call(first.name);
    cr_assert_eq(actor_end(waiters[0]), HLK_OK);
    cr_assert_eq(actor_end(waiters[1]), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

/* So waits are queued in the order of their calls, however long a subscription takes. Messages that were missed
 * meanwhile are made up for by a command. */
Test(fair_wire, takes_its_ticket_before_its_inbox_is_confirmed)
{
    hlk_client *client = fixture_open(NULL), *elsewhere;
    cr_assert_eq(hlk_client_open(&elsewhere, hlk_test_url(fixture.server), NULL), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    proxy_hold_confirmations(fixture.proxy, true);
    struct actor *first = actor_start(fair_lock(client, "t", NULL), NULL), *second;
    WAIT_FOR(queued() == 1);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1); /* a waiter that is not subscribed is passed over */
    start_waiters(elsewhere, &second, 1);
    raw(fixture.redis, "DEL t");
    proxy_hold_confirmations(fixture.proxy, false);
    cr_assert_eq(actor_status(first), HLK_OK);
    cr_assert_not(actor_answered(second));
    cr_assert_eq(actor_end(first), HLK_OK);
    cr_assert_eq(actor_end(second), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
    fixture_close(elsewhere);
}

Test(fair_wire, with_messages_dropped_ends_by_the_ttl_it_was_told)
{
    enum { THREADS = 3 };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 300; /* so its lease limits the next one's wait */
    hlk_client *client = fixture_open(NULL);
    struct actor *waiters[THREADS];
    proxy_drop_messages(fixture.proxy, true);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 300");
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(fair_lock(client, "t", NULL), &opts);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_status(waiters[i]), HLK_OK);
    for (int i = 0; i < THREADS; i++)
        actor_end(waiters[i]); /* LOST if this thread was slow */
    cr_assert_eq(fixture_counters(client).woken, 0u);
    WAIT_FOR(no_queue());
}

/* Every reply of a whole contended acquire and release is lost once: no hold and no ticket is left. */
Test(fair_wire, a_lost_reply_leaves_nothing)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 200;
    for (uint64_t k = 1; k <= 5; k++) {
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = fair_lock(client, "t", NULL);
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        raw(fixture.redis, "PEXPIRE t 500");
        proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        enum hlk_status status = hlk_lock_acquire(lock, k % 2 ? HLK_FOREVER : 20000);
        cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_holds(lock), 1);
        status = hlk_lock_release(lock);
        cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
        WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
        WAIT_FOR(no_queue());
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
        fixture_close(client);
    }
}

Test(fair_wire, a_wait_given_up_unanswered_leaves_nothing_behind)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 200;
    for (uint64_t k = 1; k <= 2; k++) {
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = fair_lock(client, "t", NULL);
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        proxy_arm(fixture.proxy, PROXY_SWALLOW, PROXY_SCRIPTS, k);
        enum hlk_status status = hlk_lock_acquire(lock, 100);
        cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_last_error());
        raw(fixture.redis, "DEL t");
        fixture_close(client);
        cr_assert(no_queue());
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    }
}

/* --- losses */

Test(fair, a_loss_is_told_and_never_silent)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 600;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    int fd = hlk_lock_lost_fd(lock);
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(poll(&poller, 1, 0), 0);
    raw(fixture.redis, "DEL t");
    struct fixture_event event = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_str_eq(event.lock, "t");
    cr_assert_eq(poll(&poller, 1, WAIT_MS), 1, "the handle's descriptor, though the thread has an entry of its own");
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_holds(lock), 1, "a release is due");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST, "Redisson's unlock says nothing");
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(poll(&poller, 1, 0), 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(fair, a_loss_is_found_out_by_the_release)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
}

Test(fair, when_broken_goes_to_the_next_and_tells_its_holder)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    struct actor *waiter;
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    start_waiters(elsewhere, &waiter, 1);
    cr_assert_eq(hlk_lock_break(fair_lock(client, "t", NULL)), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t"); /* the same process learns it before its next renewal */
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Shows: S14 */
Test(fair, a_break_is_told_at_once_to_a_listening_holder)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *lock = fair_lock(client, "t", NULL);
    raw(fixture.redis, "HSET t2 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fair_lock(client, "t2", NULL), NULL); /* a wait for any lock */
    WAIT_FOR(hears_grants(client));
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_break(fair_lock(elsewhere, "t", NULL)), HLK_OK);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(running_ms(began), 9000, "its renewal would find it out after 10 s");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    actor_cancel(waiter);
    cr_assert(actor_join_cancelled(waiter));
    raw(fixture.redis, "DEL t2");
}

Test(fair, of_a_thread_that_ended_is_orphaned_and_runs_out)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 600;
    hlk_client *client = fixture_open(&opts);
    struct actor *gone = actor_start(fair_lock(client, "t", NULL), NULL);
    cr_assert_eq(actor_status(gone), HLK_OK);
    actor_leave(gone);
    (void)fixture_wait_event(HLK_EVENT_ORPHANED, "t");
    hlk_lock *lock = fair_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}
