/* hlk_condition: who is woken, in which order, what the caller holds afterwards, and how a wait ends without a
 * signal. */
/* Shows: P54 */
#include "condition_fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEMS = 200, CONSUMERS = 4 };

TestSuite(condition, .init = condition_start, .fini = fixture_end, .timeout = 60);

static void acquired(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
}

static void released(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

static void signalled(hlk_condition *condition)
{
    cr_assert_eq(hlk_condition_signal(condition), HLK_OK, "%s", hlk_last_error());
}

/* --- who is woken */

Test(condition, gives_its_lock_up_and_has_it_again)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *here = condition_make(one, 0), *there = condition_make(two, 0);
    hlk_lock *lock = fixture_lock(two, "t", NULL);
    struct waiting waits = { 0 };
    unsigned count = 77;
    cr_assert_str_eq(hlk_condition_name(here), "t");
    waiting_start_as(&waits, here, fixture_lock(one, "t", NULL), 0);
    acquired(lock); /* it was given up */
    cr_assert_eq(hlk_condition_waiting(there, &count), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(count, 1u);
    cr_assert_gt(raw_pttl(fixture.redis, WAITERS), 0);
    cr_assert_gt(raw_pttl(fixture.redis, LEASES), 0);
    signalled(there);
    WAIT_FOR(condition_waiting() == 0);
    cr_assert_eq(condition_signalled(), 1, "until it holds its lock again");
    cr_assert_not(atomic_load(&waits.answered));
    released(lock);
    waiting_is_woken(&waits);
    cr_assert_lt(waits.took_ms, POLL_MS, "by the message");
    WAIT_FOR(condition_signalled() == 0);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

Test(condition, a_signal_wakes_the_first_one_alone)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *here = condition_make(one, 0), *there = condition_make(two, 0);
    hlk_lock *lock = fixture_lock(one, "t", NULL), *other = fixture_lock(two, "t", NULL);
    struct waiting waits[4] = { 0 };
    for (int i = 0; i < 4; i++)
        waiting_start_as(&waits[i], i % 2 ? here : there, i % 2 ? lock : other, i);
    for (int i = 0; i < 4; i++) {
        signalled(here);
        waiting_is_woken(&waits[i]);
        cr_assert_eq(condition_waiting(), 3 - i);
        for (int k = i + 1; k < 4; k++)
            cr_assert_not(atomic_load(&waits[k].answered));
    }
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

Test(condition, a_broadcast_wakes_all)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *here = condition_make(one, 0), *there = condition_make(two, 0);
    hlk_lock *lock = fixture_lock(one, "t", NULL), *other = fixture_lock(two, "t", NULL);
    struct waiting waits[6] = { 0 };
    for (int i = 0; i < 6; i++)
        waiting_start_as(&waits[i], i % 2 ? here : there, i % 2 ? lock : other, i);
    cr_assert_eq(hlk_condition_broadcast(here), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < 6; i++)
        waiting_is_woken(&waits[i]);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " WAITERS " " LEASES), 0);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

Test(condition, a_signal_while_nobody_waits_does_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    signalled(condition);
    cr_assert_eq(hlk_condition_broadcast(condition), HLK_OK, "%s", hlk_last_error());
    acquired(lock);
    cr_assert_eq(hlk_condition_wait(condition, lock, 100), HLK_TIMEOUT, "%s", hlk_last_error());
    released(lock);
    hlk_condition_destroy(condition);
}

/* --- a queue */

struct queue { /* guarded by the lock "t". Atomic, because a sanitizer does not see that lock */
    atomic_int items, taken;
    atomic_bool closed;
};

/* Until it is closed and empty. False: a call failed. */
static bool consume(struct queue *queue, hlk_condition *filled, hlk_lock *lock)
{
    for (;;) {
        if (hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK)
            return false;
        while (queue->items == 0 && !queue->closed)
            if (hlk_condition_wait(filled, lock, HLK_FOREVER) != HLK_OK)
                return false;
        bool more = queue->items > 0;
        if (more) {
            queue->items--;
            queue->taken++;
        }
        if (hlk_lock_release(lock) != HLK_OK)
            return false;
        if (!more)
            return true;
    }
}

static void produce(struct queue *queue, hlk_condition *filled, hlk_lock *lock)
{
    for (int i = 0; i < ITEMS; i++) {
        acquired(lock);
        queue->items++;
        if (i % 2)
            signalled(filled);
        released(lock);
        if (i % 2 == 0)
            signalled(filled);
    }
    acquired(lock);
    queue->closed = true;
    released(lock);
    cr_assert_eq(hlk_condition_broadcast(filled), HLK_OK, "%s", hlk_last_error());
}

struct consumer {
    struct queue *queue;
    hlk_condition *filled;
    hlk_lock *lock;
    bool ok;
};

static void *consumes(void *arg)
{
    struct consumer *consumer = arg;
    consumer->ok = consume(consumer->queue, consumer->filled, consumer->lock);
    return NULL;
}

Test(condition, feeds_threads_that_consume)
{
    hlk_client *clients[2] = { fixture_open(NULL), fixture_open(NULL) };
    hlk_condition *filled[2] = { condition_make(clients[0], 0), condition_make(clients[1], 0) };
    static struct queue queue;
    struct consumer consumers[CONSUMERS];
    pthread_t threads[CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++) {
        consumers[i] = (struct consumer){ &queue, filled[i % 2], fixture_lock(clients[i % 2], "t", NULL), .ok = false };
        cr_assert_eq(pthread_create(&threads[i], NULL, consumes, &consumers[i]), 0);
    }
    produce(&queue, filled[0], fixture_lock(clients[0], "t", NULL));
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(consumers[i].ok);
    }
    cr_assert_eq(queue.taken, ITEMS);
    for (int i = 0; i < 2; i++)
        hlk_condition_destroy(filled[i]);
}

static void consume_in_a_child(struct queue *queue)
{
    hlk_client *client;
    if (hlk_client_open(&client, fixture.url, NULL) != HLK_OK)
        _exit(1);
    hlk_condition *filled = hlk_condition_create(client, "t", 0);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    bool ok = consume(queue, filled, lock);
    hlk_condition_destroy(filled);
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    _exit(ok ? 0 : 2);
}

Test(condition, feeds_processes_that_consume)
{
    if (STAGE_UNDER_TSAN)
        return;
    struct queue *queue = mmap(NULL, sizeof *queue, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(queue, MAP_FAILED);
    pid_t pids[CONSUMERS];
    fflush(NULL);
    for (int i = 0; i < CONSUMERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            consume_in_a_child(queue);
    }
    hlk_client *client = fixture_open(NULL);
    hlk_condition *filled = condition_make(client, 0);
    produce(queue, filled, fixture_lock(client, "t", NULL));
    for (int i = 0; i < CONSUMERS; i++) {
        int how = 0;
        cr_assert_eq(waitpid(pids[i], &how, 0), pids[i]);
        cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%d", how);
    }
    cr_assert_eq(queue->taken, ITEMS);
    hlk_condition_destroy(filled);
}

/* --- without a signal */

Test(condition, a_wait_that_is_over_has_its_lock_again)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    acquired(lock);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_condition_wait(condition, lock, 200), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 200);
    cr_assert(strstr(hlk_last_error(), "nobody has signalled; 1 waiting"), "%s", hlk_last_error());
    cr_assert_eq(hlk_last_status(), HLK_TIMEOUT);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 1);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " WAITERS " " LEASES), 0);
    cr_assert_eq(hlk_condition_wait(condition, lock, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_wait(condition, lock, -52), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    released(lock);
    hlk_condition_destroy(condition);
}

/* The time is for the signal, not for the lock. */
Test(condition, a_wait_that_is_over_waits_on_for_its_lock)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct waiting waits = { .opts = HLK_ACQUIRE_OPTS_INIT };
    waits.opts.wait_ms = 1000;
    waiting_start(&waits, condition, lock);
    WAIT_FOR(condition_waiting() == 1);
    acquired(lock);
    WAIT_FOR(condition_waiting() == 0);
    test_sleep_ms(100);
    cr_assert_not(atomic_load(&waits.answered));
    released(lock);
    cr_assert_eq(waiting_ended(&waits), HLK_TIMEOUT, "%s", waits.error);
    cr_assert_eq(waits.holds, 1);
    hlk_condition_destroy(condition);
}

Test(condition, a_wait_that_is_cancelled_has_no_lock)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct waiting waits = { .opts = HLK_ACQUIRE_OPTS_INIT };
    waits.opts.cancel = cancel;
    waiting_start_as(&waits, condition, lock, 0);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(waiting_ended(&waits), HLK_INTERRUPTED, "%s", waits.error);
    cr_assert(strstr(waits.error, "the lock is not held"), "%s", waits.error);
    cr_assert_eq(waits.holds, 0);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t " WAITERS " " LEASES) == 0);
    acquired(lock); /* the cancel is there before the wait */
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    cr_assert_eq(hlk_condition_wait_with(condition, lock, &opts), HLK_INTERRUPTED, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 0);
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t " WAITERS " " LEASES) == 0);
    hlk_cancel_destroy(cancel);
    hlk_condition_destroy(condition);
}

/* It was signalled, and does not get its lock. */
Test(condition, a_signal_that_is_of_no_use_goes_on)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct waiting first = { .opts = HLK_ACQUIRE_OPTS_INIT }, second = { 0 };
    first.opts.cancel = cancel;
    waiting_start_as(&first, condition, lock, 0);
    waiting_start_as(&second, condition, lock, 1);
    acquired(lock);
    signalled(condition);
    WAIT_FOR(condition_waiting() == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(waiting_ended(&first), HLK_INTERRUPTED, "%s", first.error);
    cr_assert_eq(first.holds, 0);
    WAIT_FOR(condition_waiting() == 0);
    cr_assert_eq(condition_signalled(), 1);
    released(lock);
    waiting_is_woken(&second);
    cr_assert_lt(second.took_ms, POLL_MS, "by a message");
    hlk_cancel_destroy(cancel);
    hlk_condition_destroy(condition);
}

static void on_signal(int signal)
{
    (void)signal;
}

Test(condition, a_wait_may_be_ended_by_a_signal_handler)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    struct sigaction action = { .sa_handler = on_signal };
    struct waiting waits = { .opts = HLK_ACQUIRE_OPTS_INIT };
    sigaction(SIGUSR1, &action, NULL);
    waits.opts.flags = HLK_ACQUIRE_EINTR;
    waiting_start_as(&waits, condition, fixture_lock(client, "t", NULL), 0);
    while (!atomic_load(&waits.answered)) { /* one that runs just before the sleep does not count */
        pthread_kill(waits.thread, SIGUSR1);
        sched_yield();
    }
    cr_assert_eq(waiting_ended(&waits), HLK_INTERRUPTED, "%s", waits.error);
    cr_assert_eq(waits.holds, 0);
    hlk_condition_destroy(condition);
}

Test(condition, a_thread_that_is_cancelled_leaves)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct waiting waits = { 0 }, next = { 0 };
    void *result;
    waiting_start_as(&waits, condition, lock, 0);
    waiting_start_as(&next, condition, lock, 1);
    acquired(lock);
    signalled(condition); /* it waits for its lock now */
    WAIT_FOR(condition_waiting() == 1);
    cr_assert_eq(pthread_cancel(waits.thread), 0);
    cr_assert_eq(pthread_join(waits.thread, &result), 0);
    cr_assert_eq(result, PTHREAD_CANCELED);
    released(lock);
    waiting_is_woken(&next);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    hlk_condition_destroy(condition);
}

Test(condition, a_client_that_is_closed_ends_its_waits)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *here = condition_make(one, 0), *there = condition_make(two, 0);
    hlk_lock *lock = fixture_lock(two, "t", NULL);
    struct waiting waits = { 0 }, next = { 0 };
    waiting_start_as(&waits, here, fixture_lock(one, "t", NULL), 0);
    waiting_start_as(&next, there, lock, 1);
    fixture_close(one);
    cr_assert_eq(waiting_ended(&waits), HLK_E_CLOSED, "%s", waits.error);
    cr_assert_eq(waits.holds, 0);
    cr_assert_eq(condition_waiting(), 1);
    signalled(there);
    waiting_is_woken(&next);
    cr_assert_eq(hlk_condition_signal(here), HLK_E_CLOSED);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

/* --- what is held */

Test(condition, gives_back_each_hold_with_its_lease)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_condition *here = condition_make(one, 0), *there = condition_make(two, 0);
    hlk_lock *other = fixture_lock(two, "t", NULL);
    struct waiting waits = { .times = 3, .lease_ms = 60000 };
    waiting_start_as(&waits, here, fixture_lock(one, "t", NULL), 0);
    acquired(other); /* none of the three holds is left */
    released(other);
    signalled(there);
    cr_assert_eq(waiting_ended(&waits), HLK_OK, "%s", waits.error);
    cr_assert_eq(waits.holds, 3);
    cr_assert_gt(waits.left_ms, 40000, "the watchdog's lease is 30 s");
    struct waiting renewed = { .times = 2 };
    waiting_start_as(&renewed, here, fixture_lock(one, "t", NULL), 0);
    signalled(there);
    cr_assert_eq(waiting_ended(&renewed), HLK_OK, "%s", renewed.error);
    cr_assert_eq(renewed.holds, 2);
    cr_assert_leq(renewed.left_ms, 30000);
    hlk_condition_destroy(here);
    hlk_condition_destroy(there);
}

/* The handle's default is a fixed lease, the hold is renewed. */
Test(condition, keeps_a_lease_that_is_not_the_handles)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    lock_opts.lease_ms = 90000;
    opts.lease_ms = HLK_RENEWED;
    hlk_lock *lock = fixture_lock(client, "t", &lock_opts);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_wait(condition, lock, 50), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_leq(hlk_lock_left_ms(lock), 30000);
    released(lock);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_condition_wait(condition, lock, 50), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(lock), 60000);
    released(lock);
    hlk_condition_destroy(condition);
}

Test(condition, works_for_an_owner_in_any_thread)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_owner *owner = hlk_owner_create(client, "moving");
    hlk_lock *lock = fixture_owned(client, "t", owner), *other = fixture_lock(client, "t", NULL);
    struct actor *elsewhere = actor_start_wait(lock, HLK_NOWAIT); /* another thread has acquired it */
    cr_assert_eq(actor_status(elsewhere), HLK_OK);
    actor_leave(elsewhere);
    cr_assert_eq(hlk_condition_wait(condition, other, HLK_FOREVER), HLK_NOT_HOLDER, "the thread does not hold it");
    cr_assert_eq(hlk_condition_wait(condition, lock, 100), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 1);
    cr_assert_eq(hlk_lock_holds(other), 0);
    released(lock);
    hlk_owner_destroy(owner);
    hlk_condition_destroy(condition);
}

Test(condition, needs_a_lock_that_is_held)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_condition_wait(condition, lock, HLK_FOREVER), HLK_NOT_HOLDER, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_condition_destroy(condition);
}

/* It was lost before. The wait ends, and no release is due. */
Test(condition, tells_that_its_lock_was_lost)
{
    hlk_client *client = fixture_open(NULL);
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int known = 0; known < 2; known++) {
        acquired(lock);
        acquired(lock);
        if (known)
            cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
        else
            raw(fixture.redis, "DEL t");
        cr_assert_eq(hlk_condition_wait(condition, lock, HLK_FOREVER), HLK_LOST, "%s", hlk_last_error());
        cr_assert(strstr(hlk_last_error(), "the lock is not held"), "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_holds(lock), 0);
        cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
        WAIT_FOR(raw_int(fixture.redis, "EXISTS " WAITERS " " LEASES) == 0);
    }
    hlk_condition_destroy(condition);
}

/* --- what is refused */

Test(condition, refuses_what_it_cannot_be_made_with)
{
    hlk_client *client = fixture_open(NULL);
    static const struct {
        const char *name;
        int64_t lease_ms;
    } wrong[] = { { "", 0 }, { NULL, 0 }, { "t", 999 }, { "t", -1 }, { "t", 86400001 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_null(hlk_condition_create(client, wrong[i].name, wrong[i].lease_ms), "%zu", i);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID, "%zu", i);
    }
    struct hlk_client_opts without = fixture_opts();
    without.flags = HLK_OPEN_NO_PUBSUB;
    cr_assert_null(hlk_condition_create(fixture_open(&without), "t", 0));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    hlk_condition *condition = condition_make(client, 0);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    acquired(lock);
    opts.lease_ms = 1000;
    cr_assert_eq(hlk_condition_wait_with(condition, lock, &opts), HLK_E_INVALID);
    cr_assert_eq(hlk_condition_wait(NULL, lock, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_condition_wait(condition, NULL, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_holds(lock), 1);
    released(lock);
    cr_assert_eq(hlk_condition_signal(NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_condition_broadcast(NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_condition_waiting(condition, NULL), HLK_E_INVALID);
    cr_assert_null(hlk_condition_name(NULL));
    hlk_condition_destroy(NULL);
    hlk_condition_destroy(condition);
}
