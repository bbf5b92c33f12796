/* A thread that stands still at the worst moment. The linker's --wrap puts a halt before a function of the library; all
 * else is as it is. */
#include "base/mem.h"
#include "lease/session.h"
#include "net/mux.h"
#include "sync/async.h"
#include "sync/handle.h"
#include "sync/request.h"
#include "trouble.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum halt {
    NOWHERE,
    BEFORE_LOOK,
    BEFORE_MAKE,
    BEFORE_REACQUIRE,
    BEFORE_WAIT_UP,
    BEFORE_ENDED,
    BEFORE_COMPLETE,
    BEFORE_CLOSE_RELEASES,
    BEFORE_KEEP,
    BEFORE_POST
};

static atomic_int armed, standing, going;

/* The first thread that comes by stands here until it may go on. */
static void halt(enum halt at)
{
    int expected = (int)at;
    if (!atomic_compare_exchange_strong(&armed, &expected, NOWHERE))
        return;
    atomic_store(&standing, 1);
    WAIT_FOR(atomic_load(&going));
}

static void arm(enum halt at)
{
    atomic_store(&armed, at);
}

static void go_on(void)
{
    atomic_store(&going, 1);
}

#define WRAPPED(type, name, parameters)                                                                                \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters

WRAPPED(enum hlk_enter, hlk_session_look, (struct hlk_session * s, struct hlk_turn *turn))
{
    if (turn->completes)
        halt(BEFORE_LOOK);
    return __real_hlk_session_look(s, turn);
}

WRAPPED(struct hlk_request *, hlk_request_make,
        (hlk_lock * lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder))
{
    halt(BEFORE_MAKE);
    return __real_hlk_request_make(lock, opts, holder);
}

WRAPPED(enum hlk_status, hlk_lock_reacquire,
        (hlk_lock * lock, const char *operation, uint64_t h, int64_t count, int64_t lease_ms, bool watchdog,
         const struct hlk_patience *patience))
{
    halt(BEFORE_REACQUIRE);
    return __real_hlk_lock_reacquire(lock, operation, h, count, lease_ms, watchdog, patience);
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

/* A nested hold's lease could not be raised: its call ends. */
static atomic_int leaves, leaving, left;
WRAPPED(void, hlk_request_leave, (struct hlk_request * r))
{
    if (r->async && r->async->raising && atomic_exchange(&leaves, 0)) {
        atomic_store(&leaving, 1);
        WAIT_FOR(atomic_load(&left));
    }
    __real_hlk_request_leave(r);
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

/* In its caller's thread: the answer of a blocking acquire is on its way, and the line has been told. */
static atomic_int lines_told;
WRAPPED(void, hlk_session_tell_line, (struct hlk_session * s, uint64_t winner, void (*tell)(void *), void *ctx))
{
    if (!tell && atomic_load(&armed) == BEFORE_LOOK)
        WAIT_FOR(atomic_load(&standing));
    __real_hlk_session_tell_line(s, winner, tell, ctx);
    atomic_fetch_add(&lines_told, 1);
}

static void start(void)
{
    trouble_up(STAGE_PROXY);
}

TestSuite(preempted, .init = start, .fini = stage_down, .timeout = 60);

struct done {
    atomic_int runs;
    enum hlk_status status;
};

static void remember(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct done *done = ctx;
    (void)lock;
    done->status = status;
    atomic_fetch_add(&done->runs, 1);
}

static struct hlk_acquire_opts fixed(int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    return opts;
}

/* Its owner's other thread gets the lock by a grant: the line is woken by that, and by its return. */
Test(preempted, async_call_that_nests_is_woken_twice_and_nests_once)
{
    static struct done done;
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = stage_owned(client, "t", owner), *elsewhere = stage_held_elsewhere("t", 0);
    struct actor *first = actor_start(lock, NULL);
    WAIT_FOR(raw_int(stage.redis, "ZCARD hasplock_queue:{t}") == 1);
    struct hlk_acquire_opts opts = fixed(60000);
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, &done), HLK_OK);
    WAIT_FOR_WAITERS(client, 2);
    int told = atomic_load(&lines_told);
    arm(BEFORE_LOOK);
    cr_assert_eq(hlk_lock_release(elsewhere), HLK_OK);
    cr_assert_eq(actor_status(first), HLK_OK);
    WAIT_FOR(atomic_load(&lines_told) > told);
    go_on();
    WAIT_FOR(atomic_load(&done.runs) == 1);
    cr_assert_eq(done.status, HLK_OK);
    cr_assert_eq(hlk_lock_holds(lock), 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(actor_end(first), HLK_OK);
    hlk_owner_destroy(owner);
}

struct call { /* made by a thread of its own */
    hlk_lock *lock;
    hlk_cancel *cancel;
    enum hlk_status status;
    struct done done;
};

static void *acquires_async(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_acquire_async(call->lock, NULL, remember, &call->done);
    return NULL;
}

static void *releases(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_release(call->lock);
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
Test(preempted, async_call_beside_a_close_is_refused_or_completed)
{
    static struct call call;
    int before = open_descriptors();
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    pthread_t thread;
    opts.owner = owner;
    call.lock = hlk_lock_create(client, "t", &opts);
    arm(BEFORE_MAKE);
    pthread_create(&thread, NULL, acquires_async, &call);
    WAIT_FOR(atomic_load(&standing));
    stage_close(client);
    go_on();
    pthread_join(thread, NULL);
    if (call.status == HLK_OK)
        WAIT_FOR(atomic_load(&call.done.runs) == 1);
    else
        cr_assert_eq(call.status, HLK_E_CLOSED);
    hlk_lock_destroy(call.lock);
    hlk_owner_destroy(owner);
    WAIT_FOR(open_descriptors() <= before);
}

/* Two threads of an owner: the inner release is about to write its count when the other one releases for the last time,
 * and acquires anew. */
Test(preempted, inner_release_loses_nothing_when_its_owner_holds_anew)
{
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct call call = { .lock = stage_owned(client, "t", owner) };
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

/* It waits for a connection while the client is closed, and finds that out last of all. */
Test(preempted, release_that_ends_after_close_leaves_no_client_behind)
{
    int before = open_descriptors();
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    struct call call = { .lock = hlk_lock_create(client, "t", &opts) };
    pthread_t thread;
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    proxy_refuse(stage.proxy, true);
    proxy_cut_all(stage.proxy);
    arm(BEFORE_WAIT_UP);
    pthread_create(&thread, NULL, releases, &call);
    WAIT_FOR(atomic_load(&standing));
    stage_close(client);
    go_on();
    pthread_join(thread, NULL);
    cr_assert_eq(call.status, HLK_E_CLOSED, "%s", hlk_status_name(call.status));
    hlk_lock_destroy(call.lock);
    hlk_owner_destroy(owner);
    WAIT_FOR(open_descriptors() <= before);
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

static void *releases_async(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_release_async(call->lock, remember, &call->done);
    return NULL;
}

/* Its completion has run before the call that began it is through, and whoever heard it destroyed all there was: under
 * AddressSanitizer that tells whether the call's own references last. */
Test(preempted, async_release_outlives_its_handle_and_its_client)
{
    static struct call call;
    int before = open_descriptors();
    struct hlk_client_opts client_opts = trouble_opts(); /* close does not wait long for the call */
    hlk_client *client = stage_open(&client_opts);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    pthread_t thread;
    opts.owner = owner;
    call.lock = hlk_lock_create(client, "t", &opts);
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    arm(BEFORE_ENDED);
    pthread_create(&thread, NULL, releases_async, &call);
    WAIT_FOR(atomic_load(&standing));
    WAIT_FOR(atomic_load(&call.done.runs) == 1);
    cr_assert_eq(call.done.status, HLK_OK);
    hlk_lock_destroy(call.lock);
    hlk_owner_destroy(owner);
    stage_close(client);
    go_on();
    pthread_join(thread, NULL);
    cr_assert_eq(call.status, HLK_OK);
    WAIT_FOR(open_descriptors() <= before);
}

/* A nested hold's release is decided here, and its completion is not on its way yet. */
static void release_async_beside_a_close(unsigned flags)
{
    static struct call call;
    static struct closing closing;
    int before = open_descriptors();
    struct hlk_client_opts opts = stage_opts();
    opts.flags = flags;
    closing.client = stage_open(&opts);
    hlk_owner *owner = hlk_owner_create(closing.client, NULL);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    pthread_t thread;
    lock_opts.owner = owner;
    call.lock = hlk_lock_create(closing.client, "t", &lock_opts);
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    arm(BEFORE_COMPLETE);
    pthread_create(&thread, NULL, releases_async, &call);
    WAIT_FOR(atomic_load(&standing));
    pthread_create(&closing.thread, NULL, closes, &closing);
    WAIT_FOR(atomic_load(&close_waits) || atomic_load(&closing.closed));
    go_on();
    pthread_join(thread, NULL);
    pthread_join(closing.thread, NULL);
    cr_assert_eq(call.status, HLK_OK, "%s", hlk_status_name(call.status));
    cr_assert_eq(atomic_load(&call.done.runs), 1);
    hlk_lock_destroy(call.lock);
    hlk_owner_destroy(owner);
    WAIT_FOR(open_descriptors() <= before);
}

Test(preempted, async_release_beside_a_close_completes_before_close_returns)
{
    release_async_beside_a_close(0);
}

Test(preempted, async_release_of_a_dispatching_client_completes_before_close_returns)
{
    release_async_beside_a_close(HLK_OPEN_DISPATCH);
}

/* A thread that holds ends while its client is being closed, and what the library keeps for threads is the next one's,
 * who holds another client's lock: that it ends is told. */
Test(preempted, thread_that_ends_beside_a_close_takes_no_hold_from_the_next)
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
Test(preempted, release_without_memory_beside_a_close_is_made_by_close)
{
    int before = open_descriptors();
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    struct call call = { .lock = hlk_lock_create(client, "t", &opts) };
    pthread_t thread;
    cr_assert_eq(hlk_lock_acquire(call.lock, HLK_NOWAIT), HLK_OK);
    arm(BEFORE_KEEP);
    pthread_create(&thread, NULL, releases_without_memory, &call);
    WAIT_FOR(atomic_load(&standing));
    atomic_store(&keeps, 1);
    stage_close(client);
    pthread_join(thread, NULL);
    cr_assert_eq(call.status, HLK_E_NOMEM, "%s", hlk_status_name(call.status));
    cr_assert(is_free("t"));
    hlk_lock_destroy(call.lock);
    hlk_owner_destroy(owner);
    WAIT_FOR(open_descriptors() <= before);
}

static void *destroys_cancel(void *cancel)
{
    posts = true;
    hlk_cancel_destroy(cancel);
    return NULL;
}

/* It is to be freed by the loop, which has ended by the time it is told so. */
Test(preempted, cancel_that_is_destroyed_beside_a_close_leaves_no_client_behind)
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

/* A nested call of one owner ends while another owner has got the lock and is not told yet: that one's next call
 * nests, and completes after its first. (Passed on within 5 ms; else this shows nothing.) */
Test(preempted, async_call_that_fails_to_nest_lets_nobody_complete_before_its_turn)
{
    static struct call failing;
    static atomic_int first, second;
    hlk_client *client = stage_open(NULL);
    hlk_owner *one = hlk_owner_create(client, NULL), *other = hlk_owner_create(client, NULL);
    hlk_lock *next = stage_owned(client, "t", other);
    pthread_t thread;
    failing.lock = stage_owned(client, "t", one);
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
