/* Calls of one owner, or of two, on one lock: one of them is stopped at the worst moment. */
#include "acquire/acquire_op.h"
#include "halt.h"
#include "handle/handle.h"
#include "handle/send.h"
#include "lease/local_queue.h"

#include <pthread.h>

enum { BEFORE_LOOK = 1, BEFORE_REACQUIRE };

WRAPPED(enum hlk_enter, hlk_entry_check, (struct hlk_entry * s, struct hlk_local_waiter *turn))
{
    if (turn->completes)
        halt(BEFORE_LOOK);
    return __real_hlk_entry_check(s, turn);
}

WRAPPED(enum hlk_status, hlk_lock_reacquire,
        (hlk_lock * lock, struct hlk_entry *e, const char *operation, uint64_t h, int64_t count, int64_t lease_ms,
         const struct hlk_send_limits *limits))
{
    halt(BEFORE_REACQUIRE);
    return __real_hlk_lock_reacquire(lock, e, operation, h, count, lease_ms, limits);
}

/* A nested hold's lease could not be raised: stops at the end of its call. */
static atomic_int leaves, leaving, left;
WRAPPED(void, hlk_acquire_op_leave, (struct hlk_acquire_op * r))
{
    if (r->raising && atomic_exchange(&leaves, 0)) {
        atomic_store(&leaving, 1);
        WAIT_FOR(atomic_load(&left));
    }
    __real_hlk_acquire_op_leave(r);
}

/* In the caller's thread: a blocking acquire is about to return, and the local queue was woken. */
static atomic_int lines_seen;
WRAPPED(void, hlk_entry_report_acquired, (struct hlk_entry * s, uint64_t winner, void (*complete)(void *), void *ctx))
{
    if (!complete && atomic_load(&armed) == BEFORE_LOOK)
        WAIT_FOR(atomic_load(&standing));
    __real_hlk_entry_report_acquired(s, winner, complete, ctx);
    atomic_fetch_add(&lines_seen, 1);
}

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(preempted, .init = start, .fini = fixture_end, .timeout = 60);

static struct hlk_acquire_opts fixed(int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    return opts;
}

/* Its owner's other thread acquires by a grant. The local queue is woken by the grant and by that call's return. */
Test(preempted, nesting_async_call_woken_twice_nests_once)
{
    static struct done done;
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = fixture_owned(client, "t", owner), *elsewhere = fixture_held_elsewhere("t", 0);
    struct actor *first = actor_start(lock, NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    struct hlk_acquire_opts opts = fixed(60000);
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &done), HLK_OK);
    WAIT_FOR_WAITERS(client, 2);
    int reported = atomic_load(&lines_seen);
    arm(BEFORE_LOOK);
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
    cr_assert_eq(actor_status(first), HLK_OK);
    WAIT_FOR(atomic_load(&lines_seen) > reported);
    go_on();
    WAIT_FOR(atomic_load(&done.runs) == 1);
    cr_assert_eq(done.status, HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_end(first), HLK_OK);
    hlk_owner_destroy(owner);
}

/* Two threads of an owner: the inner release is about to write its count when the other thread makes the last release
 * and acquires again. */
Test(preempted, inner_release_loses_nothing_of_its_owners_new_hold)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct call call = { .lock = fixture_owned(client, "t", owner) };
    struct hlk_acquire_opts opts = fixed(60000);
    pthread_t thread;
    cr_assert_eq(hlk_lock_acquire_with(call.lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_with(call.lock, &opts), HLK_OK);
    arm(BEFORE_REACQUIRE);
    pthread_create(&thread, NULL, releases, &call);
    WAIT_FOR(atomic_load(&standing));
    cr_assert_eq(hlk_lock_release(call.lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    go_on();
    pthread_join(thread, NULL);
    cr_assert_eq(call.status, HLK_OK, "%s", hlk_status_name(call.status));
    cr_assert_eq(hlk_lock_release(call.lock), HLK_OK);
    hlk_owner_destroy(owner);
}

static atomic_int order;

static void note_order(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    cr_expect_eq(status, HLK_OK);
    atomic_store((atomic_int *)ctx, atomic_fetch_add(&order, 1) + 1);
}

static void *nests_cancelled(void *arg)
{
    struct call *call = arg;
    struct hlk_acquire_opts opts = fixed(60000);
    opts.cancel = call->cancel;
    call->status = hlk_lock_acquire_async(call->lock, &opts, remember, &call->done);
    return NULL;
}

/* A nested call of one owner fails while another owner has acquired and its completion is pending. That owner's next
 * call nests, and must complete after its first. (The lock must be passed on within 5 ms; otherwise this shows
 * nothing.) */
Test(preempted, failing_nested_call_keeps_the_order_of_completions)
{
    static struct call failing;
    static atomic_int first, second;
    hlk_client *client = fixture_open(NULL);
    hlk_owner *one = hlk_owner_create(client, NULL), *other = hlk_owner_create(client, NULL);
    hlk_lock *next = fixture_owned(client, "t", other);
    pthread_t thread;
    failing.lock = fixture_owned(client, "t", one);
    failing.cancel = hlk_cancel_create(client);
    hlk_cancel_trigger(failing.cancel);
    cr_assert_eq(hlk_lock_acquire(failing.lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_async(next, NULL, note_order, &first), HLK_OK);
    atomic_store(&leaves, 1);
    pthread_create(&thread, NULL, nests_cancelled, &failing);
    WAIT_FOR(atomic_load(&leaving));
    arm(BEFORE_LOOK);
    cr_assert_eq(hlk_lock_release(failing.lock), HLK_OK);
    WAIT_FOR(atomic_load(&standing));
    atomic_store(&left, 1);
    pthread_join(thread, NULL);
    cr_assert_eq(failing.status, HLK_OK);
    cr_assert_eq(hlk_lock_acquire_async(next, NULL, note_order, &second), HLK_OK);
    go_on();
    WAIT_FOR(atomic_load(&order) == 2 && atomic_load(&failing.done.runs) == 1);
    cr_assert_eq(failing.done.status, HLK_INTERRUPTED, "%s", hlk_status_name(failing.done.status));
    cr_assert_eq(atomic_load(&first), 1);
    cr_assert_eq(atomic_load(&second), 2);
    cr_assert_eq(hlk_lock_release(next), HLK_OK);
    cr_assert_eq(hlk_lock_release(next), HLK_OK);
    hlk_cancel_destroy(failing.cancel);
    hlk_owner_destroy(one);
    hlk_owner_destroy(other);
}
