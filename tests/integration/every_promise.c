#include "every_promise.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 15000,
    LEASE_MS = 1000, /* fixed: of a hold that is to be over */
    LONG_MS = 60000
};

static void acquired(struct every_handle handle)
{
    cr_assert_eq(every_acquire(handle, PATIENCE_MS), HLK_OK, "%s", hlk_last_error());
}

static void released(struct every_handle handle)
{
    cr_assert_eq(every_release(handle), HLK_OK, "%s", hlk_last_error());
}

static void is_held(struct every_handle other)
{
    enum hlk_status status = every_try(other);
    cr_assert_eq(status, HLK_BUSY, "%s", hlk_status_name(status));
}

static void is_free(struct every_handle other)
{
    acquired(other);
    released(other);
}

static void call_acquired(struct every_call *call)
{
    cr_assert_eq(call_status(call), HLK_OK, "%s", call->error);
    cr_assert_eq(call_end(call), HLK_OK);
}

static hlk_client *open_with_watchdog(void)
{
    struct hlk_client_opts opts = every_opts();
    opts.watchdog_ms = every_place->watchdog_ms;
    return every_open(&opts);
}

/* --- acquire, release --- */

void is_acquired_and_released(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    is_held(other);
    if (own.lock)
        cr_assert_eq(hlk_lock_token(own.lock) > 0, kind->fenced);
    released(own);
    if (own.lock)
        cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    is_free(other);
}

void nests_or_is_a_deadlock(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    acquired(own);
    cr_assert_eq(every_acquire(own, HLK_FOREVER), kind->nests ? HLK_OK : HLK_DEADLOCK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(own.lock), kind->nests ? 2 : 1);
    if (kind->nests)
        released(own);
    is_held(other);
    released(own);
    cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    is_free(other);
}

void knows_owners(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    hlk_owner *ann = hlk_owner_create(client, "ann"), *bob = hlk_owner_create(client, "bob");
    struct every_handle anns = every_handle(kind, client, ann), bobs = every_handle(kind, client, bob);
    struct every_call call;
    acquired(anns);
    cr_assert_eq(every_try(bobs), kind->shared ? HLK_OK : HLK_BUSY, "%s", hlk_last_error());
    if (kind->nests) {
        cr_assert_eq(every_try(anns), HLK_OK, "another thread of the same owner: %s", hlk_last_error());
    }
    call_start_wait(&call, bobs, PATIENCE_MS);
    released(anns);
    call_acquired(&call);
    hlk_owner_destroy(ann);
    hlk_owner_destroy(bob);
}

/* --- leases --- */

/* The next one has it no sooner than its holder knows of the loss. */
void ends_by_its_lease(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct every_call call;
    opts.lease_ms = LEASE_MS;
    cr_assert_eq(every_acquire_with(own, &opts), HLK_OK, "%s", hlk_last_error());
    int64_t until = hlk_lock_held_until(own.lock);
    cr_assert_leq(until, hlk_now_ms() + LEASE_MS);
    call_start_wait(&call, other, PATIENCE_MS);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(call_status(&call), HLK_OK, "%s", call.error);
    cr_assert_geq(call.answered_ms, until);
    cr_assert_leq(lost.reported_at_ms, call.answered_ms);
    cr_assert_eq(hlk_lock_left_ms(own.lock), 0);
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_LOST);
    call_acquired(&call);
    is_free(own);
}

void is_renewed(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, open_with_watchdog(), NULL);
    struct every_handle other = every_other(kind, every_open(NULL));
    acquired(own);
    int64_t first = hlk_lock_held_until(own.lock);
    WAIT_FOR(hlk_lock_held_until(own.lock) > first + every_place->watchdog_ms);
    is_held(other);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    released(own);
    is_free(other);
}

void is_extended(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = PATIENCE_MS;
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_NOT_HOLDER);
    cr_assert_eq(every_acquire_with(own, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_OK, "%s", hlk_last_error());
    int64_t left = hlk_lock_left_ms(own.lock);
    cr_assert_gt(left, PATIENCE_MS);
    cr_assert_eq(hlk_lock_extend(own.lock, LEASE_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(own.lock), PATIENCE_MS, "it is never shortened");
    is_held(other);
    released(own);
    is_free(other);
}

static void forget(redisContext *redis)
{
    raw(redis, "FLUSHALL");
}

void is_lost_when_redis_forgets_it(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, open_with_watchdog(), NULL);
    acquired(own);
    every_place->each_server(forget);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_left_ms(own.lock), 0);
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    is_free(own);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1);
}

/* --- without a blocked thread --- */

static void complete(const struct every_kind *kind, unsigned flags)
{
    static struct every_done done, end;
    struct hlk_client_opts opts = every_opts();
    opts.flags = flags;
    hlk_client *client = every_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, owner), other = every_other(kind, every_open(NULL));
    acquired(other);
    every_acquire_async(own, NULL, &done);
    every_wait_for_waiters(client, 1);
    cr_assert_eq(atomic_load(&done.runs), 0);
    released(other);
    cr_assert_eq(every_result(client, &done), HLK_OK, "%s", done.error);
    is_held(other);
    every_release_async(own, &end);
    cr_assert_eq(every_result(client, &end), HLK_OK, "%s", end.error);
    is_free(other);
    hlk_owner_destroy(owner);
}

void completes(const struct every_kind *kind)
{
    complete(kind, 0);
}

void completes_in_dispatch(const struct every_kind *kind)
{
    complete(kind, HLK_OPEN_DISPATCH);
}

/* --- ends of waits --- */

void is_cancelled(const struct every_kind *kind)
{
    static struct every_done done;
    hlk_client *client = every_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, NULL), owned = every_handle(kind, client, owner);
    struct every_handle other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct every_call call;
    opts.cancel = hlk_cancel_create(client);
    acquired(other);
    call_start(&call, own, &opts);
    every_acquire_async(owned, &opts, &done);
    every_wait_for_waiters(client, 2);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(call_end(&call), HLK_INTERRUPTED, "%s", call.error);
    cr_assert_eq(every_result(client, &done), HLK_INTERRUPTED, "%s", done.error);
    released(other);
    is_free(own);
    hlk_cancel_destroy(opts.cancel);
    hlk_owner_destroy(owner);
}

static void do_nothing(int signal)
{
    (void)signal;
}

static bool interrupted(struct every_call *call)
{
    (void)pthread_kill(call->thread, SIGUSR1);
    return atomic_load(&call->answered);
}

void ends_by_a_signal(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, client, NULL), other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct sigaction action = { .sa_handler = do_nothing };
    struct every_call call;
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    opts.flags = HLK_ACQUIRE_EINTR;
    acquired(other);
    call_start(&call, own, &opts);
    every_wait_for_waiters(client, 1);
    WAIT_FOR(interrupted(&call));
    cr_assert_eq(call_end(&call), HLK_INTERRUPTED, "%s", call.error);
    released(other);
    is_free(own);
}

void ends_with_its_client(const struct every_kind *kind)
{
    static struct every_done done;
    hlk_client *client = every_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, NULL), owned = every_handle(kind, client, owner);
    struct every_handle other = every_other(kind, every_open(NULL));
    struct every_call call;
    acquired(other);
    call_start_wait(&call, own, HLK_FOREVER);
    every_acquire_async(owned, NULL, &done);
    every_wait_for_waiters(client, 2);
    every_place->close(client);
    cr_assert_eq(call_end(&call), HLK_E_CLOSED, "%s", call.error);
    cr_assert_eq(atomic_load(&done.runs), 1);
    cr_assert_eq(done.status, HLK_E_CLOSED, "%s", done.error);
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_E_CLOSED);
    released(other);
    is_free(other);
    hlk_owner_destroy(owner);
}

void is_free_when_its_client_closes(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL), *next = every_open(NULL);
    struct every_handle own = every_handle(kind, client, NULL);
    struct every_call call;
    acquired(own);
    call_start_wait(&call, every_other(kind, next), PATIENCE_MS);
    every_wait_for_waiters(next, 1);
    every_place->close(client);
    call_acquired(&call);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* --- handles that are made for one call --- */

enum { THREADS = 4, ROUNDS = 100 };

struct visitor {
    const struct every_kind *kind;
    hlk_client *client;
    pthread_t thread;
    enum hlk_status status;
    char error[512];
};

static void visit(struct visitor *visitor)
{
    struct every_handle own = every_make(visitor->kind, visitor->client, NULL);
    visitor->status = every_acquire(own, PATIENCE_MS);
    if (visitor->status == HLK_OK)
        visitor->status = every_release(own);
    if (visitor->status != HLK_OK)
        (void)snprintf(visitor->error, sizeof visitor->error, "%s", hlk_last_error());
    every_destroy(own);
}

static void *visit_often(void *arg)
{
    struct visitor *visitor = arg;
    for (int i = 0; i < ROUNDS && visitor->status == HLK_OK; i++)
        visit(visitor);
    return NULL;
}

void has_handles_that_come_and_go(const struct every_kind *kind)
{
    struct visitor visitors[THREADS];
    hlk_client *clients[] = { every_open(NULL), every_open(NULL) };
    every_allow("hasplock_fair:*"); /* a note that a client's inbox was not subscribed yet, for a minute */
    for (int i = 0; i < THREADS; i++) {
        visitors[i] = (struct visitor){ .kind = kind, .client = clients[i % 2] };
        cr_assert_eq(pthread_create(&visitors[i].thread, NULL, visit_often, &visitors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(visitors[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(visitors[i].status, HLK_OK, "%s", visitors[i].error);
    is_free(every_handle(kind, clients[0], NULL));
}

/* Each is destroyed while it waits. */
void has_async_handles_that_come_and_go(const struct every_kind *kind)
{
    static struct every_done done[THREADS], ends[THREADS];
    hlk_client *client = every_open(NULL);
    hlk_owner *owners[THREADS];
    struct every_handle other = every_other(kind, every_open(NULL)), own = { NULL, NULL };
    acquired(other);
    for (int i = 0; i < THREADS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        own = every_make(kind, client, owners[i]);
        every_acquire_async(own, NULL, &done[i]);
        every_destroy(own);
    }
    every_wait_for_waiters(client, THREADS);
    released(other);
    for (int left = THREADS; left > 0; left--) { /* in any order */
        int i = 0;
        WAIT_FOR((i = (i + 1) % THREADS, atomic_load(&done[i].runs) == 1 && atomic_load(&ends[i].runs) == 0));
        cr_assert_eq(done[i].status, HLK_OK, "%s", done[i].error);
        own = every_make(kind, client, owners[i]);
        every_release_async(own, &ends[i]);
        every_destroy(own);
        cr_assert_eq(every_result(client, &ends[i]), HLK_OK, "%s", ends[i].error);
        hlk_owner_destroy(owners[i]);
    }
    is_free(other);
}

/* --- faults --- */

/* A hold in doubt leaves a tombstone, and a semaphore's call a note. */
static void allow_tombstones(const struct every_kind *kind)
{
    every_allow(kind->has_number ? SERVER_QUEUE : SERVER_VOID);
    every_allow("void:hasplock_rwlock:*");
    every_allow("hasplock_fair:*");
}

/* The fault hits the acquire, then the release. */
static void survive(const struct every_kind *kind, enum proxy_fault fault)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL);
    struct every_handle other = every_other(kind, every_open_beside());
    allow_tombstones(kind);
    is_free(own); /* the scripts are loaded */
    proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, 1);
    acquired(own);
    cr_assert(proxy_struck(fixture.proxy));
    is_held(other);
    proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, 1);
    enum hlk_status status = every_release(own);
    cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
    is_free(other);
    is_free(own);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

void survives_a_cut_before_its_command(const struct every_kind *kind)
{
    survive(kind, PROXY_CUT_BEFORE);
}

void survives_a_cut_before_its_answer(const struct every_kind *kind)
{
    survive(kind, PROXY_CUT_AFTER);
}

void survives_an_answer_that_never_comes(const struct every_kind *kind)
{
    survive(kind, PROXY_SWALLOW);
}

void stays_when_the_server_restarts_with_data(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, client, NULL), other = every_other(kind, every_open(NULL));
    acquired(own);
    uint64_t before = fixture_counters(client).reconnects;
    server_restart(fixture.server, true);
    redisFree(fixture.redis);
    fixture.redis = raw_open(fixture.server);
    WAIT_FOR(fixture_counters(client).reconnects > before);
    is_held(other);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    released(own);
    is_free(other);
}

/* Who waits has it then. A semaphore is gone with its number: somebody makes it again. */
void is_gone_when_the_server_restarts_without(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, open_with_watchdog(), NULL), other = every_other(kind, client);
    struct every_call call;
    allow_tombstones(kind);
    acquired(own);
    call_start_wait(&call, other, PATIENCE_MS);
    every_wait_for_waiters(client, 1);
    server_restart(fixture.server, false);
    redisFree(fixture.redis);
    fixture.redis = raw_open(fixture.server);
    if (own.semaphore)
        cr_assert_eq(hlk_semaphore_try_set(own.semaphore, 1, 0), HLK_OK, "%s", hlk_last_error());
    else
        fixture_wait_event(HLK_EVENT_LOST, "t");
    call_acquired(&call);
    if (own.lock)
        cr_assert_eq(every_release(own), HLK_LOST);
    is_free(own);
}

static _Noreturn void hold_until_killed(const struct every_kind *kind, int to)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.watchdog_ms = every_place->watchdog_ms;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    if (every_acquire(every_make(kind, client, NULL), HLK_NOWAIT) != HLK_OK || write(to, "h", 1) != 1)
        _exit(2);
    for (;;)
        pause();
}

/* Forked before this process has clients. */
void is_free_when_its_holder_is_killed(const struct every_kind *kind)
{
    int ends[2];
    char held;
    struct every_call call;
    if (STAGE_UNDER_TSAN || STAGE_UNDER_ASAN) /* the child of a process with threads allocates */
        return;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        hold_until_killed(kind, ends[1]);
    close(ends[1]);
    cr_assert_eq(read(ends[0], &held, 1), 1);
    close(ends[0]);
    hlk_client *client = every_open(NULL);
    call_start_wait(&call, every_other(kind, client), PATIENCE_MS);
    every_wait_for_waiters(client, 1);
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    call_acquired(&call);
}
