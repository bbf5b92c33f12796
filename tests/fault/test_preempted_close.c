/* A call is stopped at the worst moment while its client is closed. */
#include "acquire/acquire_op.h"
#include "acquire/async_acquire.h"
#include "base/mem.h"
#include "halt.h"
#include "handle/handle.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "net/pipeline.h"
#include "net/pipeline_up.h"

#include <pthread.h>

enum {
    BEFORE_MAKE = 1,
    AFTER_MAKE,
    AFTER_START,
    BEFORE_WAIT_UP,
    BEFORE_ENDED,
    BEFORE_COMPLETE,
    BEFORE_CLOSE_RELEASES,
    BEFORE_KEEP,
    BEFORE_POST
};

WRAPPED(struct hlk_acquire_op *, hlk_acquire_op_make,
        (const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts))
{
    halt(BEFORE_MAKE);
    struct hlk_acquire_op *op = __real_hlk_acquire_op_make(terms, opts);
    halt(AFTER_MAKE);
    return op;
}

WRAPPED(enum hlk_status, hlk_acquire_async_on,
        (const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts, hlk_owner *owner,
         hlk_done_fn *done, void *ctx))
{
    enum hlk_status status = __real_hlk_acquire_async_on(terms, opts, owner, done, ctx);
    halt(AFTER_START);
    return status;
}

WRAPPED(enum hlk_status, hlk_pipeline_wait_since,
        (hlk_pipeline * pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask, unsigned reroutes,
         struct hlk_error *error))
{
    halt(BEFORE_WAIT_UP);
    return __real_hlk_pipeline_wait_since(pipeline, self, at_ms, mask, reroutes, error);
}

WRAPPED(void, hlk_entry_release_finish, (struct hlk_entry * s))
{
    halt(BEFORE_ENDED);
    __real_hlk_entry_release_finish(s);
}

WRAPPED(void, hlk_client_complete, (hlk_client * client, struct hlk_job *job))
{
    halt(BEFORE_COMPLETE);
    __real_hlk_client_complete(client, job);
}

static _Thread_local bool posts;
WRAPPED(bool, hlk_loop_try_post, (hlk_loop * loop, struct hlk_post *post))
{
    if (posts)
        halt(BEFORE_POST);
    return __real_hlk_loop_try_post(loop, post);
}

static atomic_int keeps, kept;
WRAPPED(void, hlk_entry_keep, (struct hlk_entry * s))
{
    halt(BEFORE_KEEP);
    __real_hlk_entry_keep(s);
    atomic_store(&kept, 1);
}

WRAPPED(bool, hlk_entry_close, (struct hlk_entry * s, struct hlk_release_record *out, bool *ending))
{
    halt(BEFORE_CLOSE_RELEASES);
    bool held = __real_hlk_entry_close(s, out, ending);
    if (atomic_exchange(&keeps, 0)) {
        go_on();
        WAIT_FOR(atomic_load(&kept));
    }
    return held;
}

/* Close waits for calls inside the library. */
static atomic_int close_waits;
WRAPPED(bool, hlk_park_until, (struct hlk_park * park, unsigned mask, int64_t at_ms, int event_fd, bool *eintr))
{
    if (mask == HLK_WAKE_SETTLED)
        atomic_store(&close_waits, 1);
    return __real_hlk_park_until(park, mask, at_ms, event_fd, eintr);
}

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(preempted_close, .init = start, .fini = fixture_end, .timeout = 60);

/* --- one call; its client, owner and lock are destroyed within the test */

static struct {
    int descriptors;
    hlk_client *client;
    hlk_owner *owner;
    struct call call;
    pthread_t thread;
} the;

static void begin(const struct hlk_client_opts *opts)
{
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    the.descriptors = open_descriptors();
    the.client = fixture_open(opts);
    lock_opts.owner = the.owner = hlk_owner_create(the.client, NULL);
    the.call.lock = hlk_lock_create(the.client, "t", &lock_opts);
}

static void hold(int count)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(hlk_lock_acquire(the.call.lock, HLK_NOWAIT), HLK_OK);
}

/* Runs a call in a thread of its own, up to the place. */
static void call_until(int place, void *(*calls)(void *))
{
    arm(place);
    pthread_create(&the.thread, NULL, calls, &the.call);
    WAIT_FOR(atomic_load(&standing));
}

static enum hlk_status finish_call(void)
{
    go_on();
    pthread_join(the.thread, NULL);
    return the.call.status;
}

static void destroy_handles(void)
{
    hlk_lock_destroy(the.call.lock);
    hlk_owner_destroy(the.owner);
}

static void expect_nothing_left(void)
{
    WAIT_FOR(open_descriptors() <= the.descriptors);
}

static void *acquires_async(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_acquire_async(call->lock, NULL, remember, &call->done);
    return NULL;
}

static void *releases_async(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_release_async(call->lock, remember, &call->done);
    return NULL;
}

static void *releases_without_memory(void *arg)
{
    struct call *call = arg;
    (void)hlk_thread_get(); /* makes the thread's context */
    hlk_mem_fail_once(1);
    call->status = hlk_lock_release(call->lock);
    return NULL;
}

/* An accepted call completes. A call that close does not wait for is refused. */
Test(preempted_close, async_call_is_refused_or_completed)
{
    begin(NULL);
    call_until(BEFORE_MAKE, acquires_async);
    fixture_close(the.client);
    if (finish_call() == HLK_OK)
        WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    else
        cr_assert_eq(the.call.status, HLK_E_CLOSED);
    destroy_handles();
    expect_nothing_left();
}

/* It waits for a connection while the client is closed, and notices that last of all. */
Test(preempted_close, release_that_ends_later_leaves_no_client_behind)
{
    begin(NULL);
    hold(1);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    call_until(BEFORE_WAIT_UP, releases);
    fixture_close(the.client);
    cr_assert_eq(finish_call(), HLK_E_CLOSED, "%s", hlk_status_name(the.call.status));
    destroy_handles();
    expect_nothing_left();
    raw(fixture.redis, "DEL t");
    proxy_refuse(fixture.proxy, false);
}

struct closing {
    hlk_client *client;
    pthread_t thread;
    atomic_int closed;
};

static void *closes(void *arg)
{
    struct closing *closing = arg;
    fixture_close(closing->client);
    atomic_store(&closing->closed, 1);
    return NULL;
}

/* Its completion runs before the call that began it has returned, and destroys everything. AddressSanitizer shows
 * whether the call's own references suffice. */
Test(preempted_close, async_release_outlives_its_handle_and_its_client)
{
    struct hlk_client_opts opts = fault_opts(); /* close does not wait long for the call */
    begin(&opts);
    hold(1);
    call_until(BEFORE_ENDED, releases_async);
    WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    cr_assert_eq(the.call.done.status, HLK_OK);
    destroy_handles();
    fixture_close(the.client);
    cr_assert_eq(finish_call(), HLK_OK);
    expect_nothing_left();
}

static hlk_latch *latch;
static hlk_semaphore *semaphore;

static void on_latch(hlk_latch *done, enum hlk_status status, void *ctx)
{
    (void)done;
    remember(NULL, status, ctx);
}

static void on_semaphore(hlk_semaphore *done, enum hlk_status status, void *ctx)
{
    (void)done;
    remember(NULL, status, ctx);
}

static void *awaits_latch(void *arg)
{
    struct call *call = arg;
    call->status = hlk_latch_await_async(latch, NULL, on_latch, &call->done);
    return NULL;
}

static void *acquires_permit(void *arg)
{
    struct call *call = arg;
    call->status = hlk_semaphore_acquire_async(semaphore, 1, NULL, on_semaphore, &call->done);
    return NULL;
}

/* A latch that is not set is open. */
Test(preempted_close, async_wait_outlives_its_latch)
{
    begin(NULL);
    latch = hlk_latch_create(the.client, "l");
    call_until(AFTER_START, awaits_latch);
    WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    hlk_latch_destroy(latch);
    cr_assert_eq(finish_call(), HLK_OK);
    destroy_handles();
    fixture_close(the.client);
    expect_nothing_left();
}

Test(preempted_close, async_acquire_outlives_its_semaphore)
{
    begin(NULL);
    semaphore = hlk_semaphore_create(the.client, "s");
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 1, 0), HLK_OK);
    call_until(AFTER_START, acquires_permit);
    WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    cr_assert_eq(the.call.done.status, HLK_OK);
    cr_assert_eq(hlk_semaphore_release(semaphore, 1), HLK_OK);
    hlk_semaphore_destroy(semaphore);
    cr_assert_eq(finish_call(), HLK_OK);
    destroy_handles();
    fixture_close(the.client);
    expect_nothing_left();
    raw(fixture.redis, "DEL s");
}

/* Close has begun, and waits for a call that then notices it. */
Test(preempted_close, is_not_delayed_by_an_async_call_that_it_refuses)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = WAIT_MS; /* close waits so long for calls */
    begin(&opts);
    call_until(AFTER_MAKE, acquires_async);
    struct closing closing = { .client = the.client };
    pthread_create(&closing.thread, NULL, closes, &closing);
    WAIT_FOR(atomic_load(&close_waits));
    int64_t began = test_now_ms();
    cr_assert_eq(finish_call(), HLK_E_CLOSED, "%s", hlk_status_name(the.call.status));
    pthread_join(closing.thread, NULL);
    cr_assert_lt(running_ms(began), WAIT_MS / 2);
    destroy_handles();
    expect_nothing_left();
}

/* A nested hold's release is decided locally, and its completion is not queued yet. */
static void expect_completion_before_close_returns(unsigned flags)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = flags;
    begin(&opts);
    hold(2);
    call_until(BEFORE_COMPLETE, releases_async);
    struct closing closing = { .client = the.client };
    pthread_create(&closing.thread, NULL, closes, &closing);
    WAIT_FOR(atomic_load(&close_waits) || atomic_load(&closing.closed));
    cr_assert_eq(finish_call(), HLK_OK, "%s", hlk_status_name(the.call.status));
    pthread_join(closing.thread, NULL);
    cr_assert_eq(atomic_load(&the.call.done.runs), 1);
    destroy_handles();
    expect_nothing_left();
}

Test(preempted_close, async_release_completes_before_close_returns)
{
    expect_completion_before_close_returns(0);
}

Test(preempted_close, dispatched_release_completes_before_close_returns)
{
    expect_completion_before_close_returns(HLK_OPEN_DISPATCH);
}

/* A thread that holds ends while its client is being closed. Its context is used by a new thread, which holds another
 * client's lock. The end of that thread must be reported. */
Test(preempted_close, thread_that_ends_takes_no_hold_from_the_next)
{
    static struct closing closing;
    struct hlk_client_opts opts = fault_opts();
    closing.client = fixture_open(&opts);
    hlk_client *other = fixture_open(&opts);
    struct actor *first = actor_start(fixture_lock(closing.client, "t", NULL), NULL);
    cr_assert_eq(actor_status(first), HLK_OK);
    arm(BEFORE_CLOSE_RELEASES);
    pthread_create(&closing.thread, NULL, closes, &closing);
    WAIT_FOR(atomic_load(&standing));
    actor_leave(first);
    struct actor *next = actor_start(fixture_lock(other, "t2", NULL), NULL);
    cr_assert_eq(actor_status(next), HLK_OK);
    go_on();
    pthread_join(closing.thread, NULL);
    actor_leave(next);
    (void)fixture_wait_event(HLK_EVENT_ORPHANED, "t2");
    WITHIN(FREE_MS, is_free("t") && is_free("t2"));
}

/* A release has no memory, and its hold stays, also when close looks at it. */
Test(preempted_close, release_without_memory_is_made_by_close)
{
    begin(NULL);
    hold(1);
    call_until(BEFORE_KEEP, releases_without_memory);
    atomic_store(&keeps, 1);
    fixture_close(the.client);
    cr_assert_eq(finish_call(), HLK_E_NOMEM, "%s", hlk_status_name(the.call.status));
    cr_assert(is_free("t"));
    destroy_handles();
    expect_nothing_left();
}

static void *destroys_cancel(void *cancel)
{
    posts = true;
    hlk_cancel_destroy(cancel);
    return NULL;
}

/* The loop must free it, but has ended before it could. */
Test(preempted_close, cancel_that_is_destroyed_leaves_no_client_behind)
{
    int before = open_descriptors();
    hlk_client *client = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    pthread_t thread;
    arm(BEFORE_POST);
    pthread_create(&thread, NULL, destroys_cancel, cancel);
    WAIT_FOR(atomic_load(&standing));
    fixture_close(client);
    go_on();
    pthread_join(thread, NULL);
    WAIT_FOR(open_descriptors() <= before);
}
