/* A call that stands still at the worst moment while its client is closed. */
#include "base/mem.h"
#include "halt.h"
#include "net/mux.h"
#include "sync/handle.h"
#include "sync/request.h"

#include <pthread.h>

enum {
    BEFORE_MAKE = 1,
    BEFORE_WAIT_UP,
    BEFORE_ENDED,
    BEFORE_COMPLETE,
    BEFORE_CLOSE_RELEASES,
    BEFORE_KEEP,
    BEFORE_POST
};

WRAPPED(struct hlk_request *, hlk_request_make,
        (hlk_lock * lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder))
{
    halt(BEFORE_MAKE);
    return __real_hlk_request_make(lock, opts, holder);
}

WRAPPED(enum hlk_status, hlk_mux_wait_up,
        (hlk_mux * mux, struct hlk_self *self, int64_t at_ms, unsigned mask, struct hlk_error *error))
{
    halt(BEFORE_WAIT_UP);
    return __real_hlk_mux_wait_up(mux, self, at_ms, mask, error);
}

WRAPPED(void, hlk_session_ended, (struct hlk_session * s))
{
    halt(BEFORE_ENDED);
    __real_hlk_session_ended(s);
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
WRAPPED(void, hlk_session_keep, (struct hlk_session * s))
{
    halt(BEFORE_KEEP);
    __real_hlk_session_keep(s);
    atomic_store(&kept, 1);
}

WRAPPED(bool, hlk_session_close, (struct hlk_session * s, struct hlk_parting *out, bool *ending))
{
    halt(BEFORE_CLOSE_RELEASES);
    bool held = __real_hlk_session_close(s, out, ending);
    if (atomic_exchange(&keeps, 0)) {
        go_on();
        WAIT_FOR(atomic_load(&kept));
    }
    return held;
}

/* Close waits for those who are inside. */
static atomic_int close_waits;
WRAPPED(bool, hlk_park_until, (struct hlk_park * park, unsigned mask, int64_t at_ms, int event_fd, bool *eintr))
{
    if (mask == HLK_WAKE_SETTLED)
        atomic_store(&close_waits, 1);
    return __real_hlk_park_until(park, mask, at_ms, event_fd, eintr);
}

static void start(void)
{
    trouble_up(STAGE_PROXY);
}

TestSuite(preempted_close, .init = start, .fini = stage_down, .timeout = 60);

/* --- one call, of a client, an owner and a lock that end within the test */

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
    the.client = stage_open(opts);
    lock_opts.owner = the.owner = hlk_owner_create(the.client, NULL);
    the.call.lock = hlk_lock_create(the.client, "t", &lock_opts);
}

static void hold(int count)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(hlk_lock_acquire(the.call.lock, HLK_NOWAIT), HLK_OK);
}

/* Called by a thread of its own, up to the place. */
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
    (void)hlk_self_get(); /* the thread's own is there */
    hlk_mem_fail_once(1);
    call->status = hlk_lock_release(call->lock);
    return NULL;
}

/* What is accepted completes; what close has not seen is not accepted. */
Test(preempted_close, async_call_is_refused_or_completed)
{
    begin(NULL);
    call_until(BEFORE_MAKE, acquires_async);
    stage_close(the.client);
    if (finish_call() == HLK_OK)
        WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    else
        cr_assert_eq(the.call.status, HLK_E_CLOSED);
    destroy_handles();
    expect_nothing_left();
}

/* It waits for a connection while the client is closed, and finds that out last of all. */
Test(preempted_close, release_that_ends_later_leaves_no_client_behind)
{
    begin(NULL);
    hold(1);
    proxy_refuse(stage.proxy, true);
    proxy_cut_all(stage.proxy);
    call_until(BEFORE_WAIT_UP, releases);
    stage_close(the.client);
    cr_assert_eq(finish_call(), HLK_E_CLOSED, "%s", hlk_status_name(the.call.status));
    destroy_handles();
    expect_nothing_left();
    raw(stage.redis, "DEL t");
    proxy_refuse(stage.proxy, false);
}

struct closing {
    hlk_client *client;
    pthread_t thread;
    atomic_int closed;
};

static void *closes(void *arg)
{
    struct closing *closing = arg;
    stage_close(closing->client);
    atomic_store(&closing->closed, 1);
    return NULL;
}

/* Its completion has run before the call that began it is through, and whoever heard it destroyed all there was: under
 * AddressSanitizer that tells whether the call's own references last. */
Test(preempted_close, async_release_outlives_its_handle_and_its_client)
{
    struct hlk_client_opts opts = trouble_opts(); /* close does not wait long for the call */
    begin(&opts);
    hold(1);
    call_until(BEFORE_ENDED, releases_async);
    WAIT_FOR(atomic_load(&the.call.done.runs) == 1);
    cr_assert_eq(the.call.done.status, HLK_OK);
    destroy_handles();
    stage_close(the.client);
    cr_assert_eq(finish_call(), HLK_OK);
    expect_nothing_left();
}

/* A nested hold's release is decided here, and its completion is not on its way yet. */
static void expect_completion_before_close_returns(unsigned flags)
{
    struct hlk_client_opts opts = stage_opts();
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

Test(preempted_close, async_release_of_a_dispatching_client_completes_before_close_returns)
{
    expect_completion_before_close_returns(HLK_OPEN_DISPATCH);
}

/* A thread that holds ends while its client is being closed, and what the library keeps for threads is the next one's,
 * who holds another client's lock: that it ends is told. */
Test(preempted_close, thread_that_ends_takes_no_hold_from_the_next)
{
    static struct closing closing;
    struct hlk_client_opts opts = trouble_opts();
    closing.client = stage_open(&opts);
    hlk_client *other = stage_open(&opts);
    struct actor *first = actor_start(stage_lock(closing.client, "t", NULL), NULL);
    cr_assert_eq(actor_status(first), HLK_OK);
    arm(BEFORE_CLOSE_RELEASES);
    pthread_create(&closing.thread, NULL, closes, &closing);
    WAIT_FOR(atomic_load(&standing));
    actor_leave(first);
    struct actor *next = actor_start(stage_lock(other, "t2", NULL), NULL);
    cr_assert_eq(actor_status(next), HLK_OK);
    go_on();
    pthread_join(closing.thread, NULL);
    actor_leave(next);
    (void)stage_wait_event(HLK_EVENT_ORPHANED, "t2");
    WITHIN(FREE_MS, is_free("t") && is_free("t2"));
}

/* A release finds no memory, and what it holds is still held: as of the moment when close has looked at it. */
Test(preempted_close, release_without_memory_is_made_by_close)
{
    begin(NULL);
    hold(1);
    call_until(BEFORE_KEEP, releases_without_memory);
    atomic_store(&keeps, 1);
    stage_close(the.client);
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

/* It is to be freed by the loop, which has ended by the time it is told so. */
Test(preempted_close, cancel_that_is_destroyed_leaves_no_client_behind)
{
    int before = open_descriptors();
    hlk_client *client = stage_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    pthread_t thread;
    arm(BEFORE_POST);
    pthread_create(&thread, NULL, destroys_cancel, cancel);
    WAIT_FOR(atomic_load(&standing));
    stage_close(client);
    go_on();
    pthread_join(thread, NULL);
    WAIT_FOR(open_descriptors() <= before);
}
