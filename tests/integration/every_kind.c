#include "every_kind.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ROW(is, number, ...) [EVERY_##is] = { .name = #is, .kind = (number), .other = EVERY_##is, __VA_ARGS__ }

const struct every_kind every_kinds[EVERY_KINDS] = {
    ROW(plain, HLK_LOCK_PLAIN, .nests = true),
    ROW(fenced, HLK_LOCK_FENCED, .nests = true, .fenced = true),
    ROW(fair, HLK_LOCK_FAIR, .nests = true),
    ROW(spin, HLK_LOCK_SPIN, .nests = true),
    ROW(non_reentrant, HLK_LOCK_NON_REENTRANT, .nests = false),
    ROW(non_reentrant_fair, HLK_LOCK_NON_REENTRANT_FAIR, .nests = false),
    ROW(string, HLK_LOCK_STRING, .nests = false),
    [EVERY_read] = { .name = "read", .kind = HLK_LOCK_READ, .other = EVERY_write, .nests = true, .shared = true },
    ROW(write, HLK_LOCK_WRITE, .nests = true),
    ROW(permit, HLK_LOCK_PERMIT, .has_number = true),
    ROW(semaphore, EVERY_SEMAPHORE_KIND, .has_number = true),
};

const struct every_place *every_place;

enum { MOST = 16 };

static struct {
    const struct every_kind *kind; /* NULL: not begun */
    struct every_handle handles[MOST];
    int count;
} own;

/* --- one server --- */

static void one_each_server(void (*fn)(redisContext *redis))
{
    fn(fixture.redis);
}

static void one_allow(const char *glob)
{
    server_allow(fixture.server, glob);
}

static void one_arm(enum proxy_fault fault)
{
    proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, 1);
}

static void one_wait_struck(void)
{
    proxy_wait_struck(fixture.proxy);
}

static void one_restart(bool keep_data)
{
    server_restart(fixture.server, keep_data);
    redisFree(fixture.redis);
    fixture.redis = raw_open(fixture.server);
}

const struct every_place every_one_server = { .begin = fixture_begin,
                                              .end = fixture_end,
                                              .open = fixture_open,
                                              .close = fixture_close,
                                              .each_server = one_each_server,
                                              .allow = one_allow,
                                              .arm = one_arm,
                                              .wait_struck = one_wait_struck,
                                              .restart = one_restart,
                                              .watchdog_ms = 1500,
                                              .counts_waits = true,
                                              .has_margin = true };

/* --- begin, end --- */

static void set_number(redisContext *redis)
{
    raw(redis, "SET t 1");
}

static void forget_number(redisContext *redis)
{
    raw(redis, "DEL t");
}

void every_begin(const struct every_kind *kind, unsigned flags)
{
    every_place->begin(flags);
    own.kind = kind;
    if (kind->fenced)
        every_allow("redisson_lock_token:*");
    if (kind->kind == EVERY_SEMAPHORE_KIND)
        every_place->each_server(set_number);
}

void every_allow(const char *glob)
{
    every_place->allow(glob);
}

void every_allow_tombstones(const struct every_kind *kind)
{
    every_allow(kind->has_number ? SERVER_QUEUE : SERVER_TOMBSTONES);
    every_allow("tombstones:hasplock_rwlock:*");
    every_allow("hasplock_fair:*");
}

void every_end(void)
{
    if (!own.kind)
        return;
    while (own.count > 0)
        every_destroy(own.handles[--own.count]);
    if (own.kind->has_number) {
        fixture_close_all(); /* a command may be on its way */
        every_place->each_server(forget_number);
    }
    own.kind = NULL;
    every_place->end();
}

/* --- clients --- */

struct hlk_client_opts every_opts(void)
{
    return fixture_opts();
}

hlk_client *every_open(const struct hlk_client_opts *opts)
{
    struct hlk_client_opts usual = every_opts();
    return every_place->open(opts ? opts : &usual);
}

void every_wait_for_waiters(hlk_client *client, unsigned n)
{
    if (every_place->counts_waits)
        WAIT_FOR_WAITERS(client, n);
}

/* --- handles --- */

struct every_handle every_make(const struct every_kind *kind, hlk_client *client, hlk_owner *owner)
{
    struct every_handle handle = { NULL, NULL };
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind->kind;
    opts.owner = owner;
    opts.permits = kind->has_number ? 1 : 0;
    if (kind->kind == EVERY_SEMAPHORE_KIND)
        handle.semaphore = hlk_semaphore_create(client, "t");
    else
        handle.lock = hlk_lock_create(client, "t", &opts);
    cr_assert(handle.lock || handle.semaphore, "%s: %s", kind->name, hlk_last_error());
    return handle;
}

void every_destroy(struct every_handle handle)
{
    hlk_lock_destroy(handle.lock);
    hlk_semaphore_destroy(handle.semaphore);
}

struct every_handle every_handle(const struct every_kind *kind, hlk_client *client, hlk_owner *owner)
{
    cr_assert_lt(own.count, MOST);
    return own.handles[own.count++] = every_make(kind, client, owner);
}

struct every_handle every_other(const struct every_kind *kind, hlk_client *client)
{
    return every_handle(&every_kinds[kind->other], client, NULL);
}

enum hlk_status every_acquire_with(struct every_handle handle, const struct hlk_acquire_opts *opts)
{
    return handle.lock ? hlk_lock_acquire_with(handle.lock, opts)
                       : hlk_semaphore_acquire_with(handle.semaphore, 1, opts);
}

enum hlk_status every_acquire(struct every_handle handle, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return every_acquire_with(handle, &opts);
}

enum hlk_status every_release(struct every_handle handle)
{
    return handle.lock ? hlk_lock_release(handle.lock) : hlk_semaphore_release(handle.semaphore, 1);
}

/* --- threads --- */

static void *run_call(void *arg)
{
    struct every_call *call = arg;
    call->status = every_acquire_with(call->handle, &call->opts);
    call->answered_ms = test_now_ms();
    if (call->status != HLK_OK)
        (void)snprintf(call->error, sizeof call->error, "%s", hlk_last_error());
    atomic_store(&call->answered, true);
    WAIT_FOR(atomic_load(&call->ends));
    call->released = call->status == HLK_OK ? every_release(call->handle) : call->status;
    return NULL;
}

void call_start(struct every_call *call, struct every_handle handle, const struct hlk_acquire_opts *opts)
{
    memset(call, 0, sizeof *call);
    call->handle = handle;
    call->opts = *opts;
    cr_assert_eq(pthread_create(&call->thread, NULL, run_call, call), 0);
}

void call_start_wait(struct every_call *call, struct every_handle handle, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    call_start(call, handle, &opts);
}

enum hlk_status call_status(struct every_call *call)
{
    WAIT_FOR(atomic_load(&call->answered));
    return call->status;
}

enum hlk_status call_end(struct every_call *call)
{
    (void)call_status(call);
    atomic_store(&call->ends, true);
    cr_assert_eq(pthread_join(call->thread, NULL), 0);
    return call->released;
}

enum hlk_status every_try(struct every_handle handle)
{
    struct every_call call;
    call_start_wait(&call, handle, HLK_NOWAIT);
    return call_end(&call);
}

/* --- completions --- */

static void remember(struct every_done *done, enum hlk_status status)
{
    done->status = status;
    (void)snprintf(done->error, sizeof done->error, "%s", status == HLK_OK ? "" : hlk_last_error());
    atomic_fetch_add(&done->runs, 1);
}

static void on_lock(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    remember(ctx, status);
}

static void on_semaphore(hlk_semaphore *semaphore, enum hlk_status status, void *ctx)
{
    (void)semaphore;
    remember(ctx, status);
}

void every_acquire_async(struct every_handle handle, const struct hlk_acquire_opts *opts, struct every_done *done)
{
    enum hlk_status status = handle.lock ? hlk_lock_acquire_async(handle.lock, opts, on_lock, done)
                                         : hlk_semaphore_acquire_async(handle.semaphore, 1, opts, on_semaphore, done);
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
}

void every_release_async(struct every_handle handle, struct every_done *done)
{
    enum hlk_status status = handle.lock ? hlk_lock_release_async(handle.lock, on_lock, done)
                                         : hlk_semaphore_release_async(handle.semaphore, 1, on_semaphore, done);
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
}

static bool has_run(hlk_client *client, struct every_done *done)
{
    struct pollfd set = { hlk_client_fd(client), POLLIN, 0 };
    if (set.fd >= 0 && poll(&set, 1, 1) > 0)
        (void)hlk_client_dispatch(client, 0);
    return atomic_load(&done->runs) > 0;
}

enum hlk_status every_result(hlk_client *client, struct every_done *done)
{
    WAIT_FOR(has_run(client, done));
    return done->status;
}

/* --- what most promises begin and end with --- */

void every_acquired(struct every_handle handle)
{
    cr_assert_eq(every_acquire(handle, RECONNECT_MS), HLK_OK, "%s", hlk_last_error());
}

void every_released(struct every_handle handle)
{
    cr_assert_eq(every_release(handle), HLK_OK, "%s", hlk_last_error());
}

void every_is_held(struct every_handle other)
{
    enum hlk_status status = every_try(other);
    cr_assert_eq(status, HLK_BUSY, "%s", hlk_status_name(status));
}

void every_is_free(struct every_handle other)
{
    every_acquired(other);
    every_released(other);
}

void call_acquired(struct every_call *call)
{
    cr_assert_eq(call_status(call), HLK_OK, "%s", call->error);
    cr_assert_eq(call_end(call), HLK_OK);
}

hlk_client *every_open_with_watchdog(void)
{
    struct hlk_client_opts opts = every_opts();
    opts.watchdog_ms = every_place->watchdog_ms;
    return every_open(&opts);
}
