#include "every_promise.h"

#include <signal.h>
#include <string.h>

/* --- who waits in Redis --- */

static int64_t tickets;

static void add_tickets(redisContext *redis)
{
    static const char count[] = "local n = 0 "
                                "for _, key in ipairs(redis.call('keys', '*')) do "
                                "if redis.call('type', key).ok == 'list' then n = n + redis.call('llen', key) end "
                                "if string.find(key, '^hasplock_') and not string.find(key, '^hasplock_fair') then "
                                "n = n + redis.call('zcount', key, 1, 2e15 - 1) end "
                                "end return n";
    tickets += raw_int(redis, "EVAL %s 0", count);
}

static int64_t tickets_in_redis(void)
{
    tickets = 0;
    every_place->each_server(add_tickets);
    return tickets;
}

/* --- acquire, release --- */

void is_acquired_and_released(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    every_is_held(other);
    cr_assert_eq(every_try(own), kind->shared ? HLK_OK : HLK_BUSY, "another thread of its client");
    cr_assert_eq(tickets_in_redis(), 0, "a try takes none");
    if (own.lock)
        cr_assert_eq(hlk_lock_token(own.lock) > 0, kind->fenced);
    every_released(own);
    if (own.lock)
        cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    every_is_free(other);
}

void is_tried_once_when_its_deadline_has_passed(const struct every_kind *kind)
{
    const int64_t passed[] = { -1, -52, INT64_MIN };
    hlk_client *client = every_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct every_handle own = every_handle(kind, client, NULL), other = every_other(kind, every_open(NULL));
    struct every_handle owned = every_handle(kind, client, owner);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    static struct every_done done;
    every_acquired(other);
    for (int i = 0; i < 3; i++) {
        opts.wait_ms = passed[i];
        cr_assert_eq(every_acquire_with(own, &opts), HLK_BUSY, "%s", hlk_last_error());
        cr_assert(own.semaphore || hlk_lock_acquire(own.lock, passed[i]) == HLK_BUSY, "%s", hlk_last_error());
        memset(&done, 0, sizeof done);
        every_acquire_async(owned, &opts, &done);
        cr_assert_eq(every_result(client, &done), HLK_BUSY, "%s", done.error);
    }
    every_released(other);
    cr_assert_eq(every_acquire(own, -52), HLK_OK, "%s", hlk_last_error());
    every_released(own);
    hlk_owner_destroy(owner);
}

void nests_or_is_a_deadlock(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    every_acquired(own);
    cr_assert_eq(every_acquire(own, HLK_FOREVER), kind->nests ? HLK_OK : HLK_DEADLOCK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(own.lock), kind->nests ? 2 : 1);
    if (kind->nests)
        every_released(own);
    every_is_held(other);
    every_released(own);
    cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    every_is_free(other);
}

/* While another holder of its client has the lock. */
static void is_a_holder_of_its_own(const struct every_kind *kind, struct every_handle handle)
{
    cr_assert_eq(every_acquire(handle, HLK_NOWAIT), kind->shared ? HLK_OK : HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(handle.lock), kind->shared ? 1 : 0);
    if (kind->shared)
        every_released(handle);
    cr_assert_eq(every_release(handle), HLK_NOT_HOLDER);
    WAIT_FOR(tickets_in_redis() == 0); /* a try takes none; that of a wait that was passed the lock goes */
}

/* Two owners and this thread are three holders: asks A6 redis-py 656, dogpile 171. */
void knows_owners(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    hlk_owner *ann = hlk_owner_create(client, "ann"), *bob = hlk_owner_create(client, "bob");
    struct every_handle anns = every_handle(kind, client, ann), bobs = every_handle(kind, client, bob);
    struct every_handle own = every_handle(kind, client, NULL);
    struct every_call call;
    every_acquired(anns);
    cr_assert_eq(every_try(bobs), kind->shared ? HLK_OK : HLK_BUSY, "%s", hlk_last_error());
    is_a_holder_of_its_own(kind, bobs);
    is_a_holder_of_its_own(kind, own);
    cr_assert_eq(hlk_lock_holds(anns.lock), 1);
    if (kind->nests) {
        cr_assert_eq(every_try(anns), HLK_OK, "another thread of the same owner: %s", hlk_last_error());
    }
    call_start_wait(&call, bobs, RECONNECT_MS);
    if (!kind->shared)
        every_wait_for_waiters(client, 1);
    every_released(anns);
    cr_assert_eq(call_status(&call), HLK_OK, "%s", call.error);
    cr_assert_eq(hlk_lock_holds(bobs.lock), 1);
    call_acquired(&call);
    every_acquired(own);
    is_a_holder_of_its_own(kind, anns);
    every_released(own);
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
    int64_t began = test_now_ms();
    cr_assert_eq(every_acquire_with(own, &opts), HLK_OK, "%s", hlk_last_error());
    int64_t until = hlk_lock_held_until(own.lock);
    cr_assert_leq(until, hlk_now_ms() + LEASE_MS);
    call_start_wait(&call, other, RECONNECT_MS);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(call_status(&call), HLK_OK, "%s", call.error);
    cr_assert_geq(call.answered_ms, until + (every_place->has_margin ? LEASE_MS / 10 : 0));
    /* Three threads pass it on, and each may be late by a pause: together by the margin of a tenth of the lease. */
    if (pause_longest_ms(began) < LEASE_MS / 50)
        cr_assert_leq(lost.reported_at_ms, call.answered_ms);
    cr_assert_eq(hlk_lock_left_ms(own.lock), 0);
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_LOST);
    call_acquired(&call);
    every_is_free(own);
}

void is_renewed(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open_with_watchdog(), NULL);
    struct every_handle other = every_other(kind, every_open(NULL));
    every_acquired(own);
    int64_t first = hlk_lock_held_until(own.lock);
    WAIT_FOR(hlk_lock_held_until(own.lock) > first + every_place->watchdog_ms);
    every_is_held(other);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    every_released(own);
    every_is_free(other);
}

static int64_t ttl_in_redis(struct every_handle handle)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(handle.lock, &state), HLK_OK, "%s", hlk_last_error());
    return state.ttl_ms;
}

void is_extended(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = RECONNECT_MS;
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_NOT_HOLDER);
    cr_assert_eq(every_acquire_with(own, &opts), HLK_OK, "%s", hlk_last_error());
    int64_t first = hlk_lock_held_until(own.lock);
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_OK, "%s", hlk_last_error());
    int64_t until = hlk_lock_held_until(own.lock);
    cr_assert_gt(until, first + RECONNECT_MS);
    cr_assert_gt(ttl_in_redis(own), LONG_MS - RECONNECT_MS);
    cr_assert_eq(hlk_lock_extend(own.lock, LEASE_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_held_until(own.lock), until, "it is never shortened");
    cr_assert_gt(ttl_in_redis(own), LONG_MS - RECONNECT_MS);
    every_is_held(other);
    every_released(own);
    every_is_free(other);
}

static void forget(redisContext *redis)
{
    raw(redis, "FLUSHALL");
}

void is_lost_when_redis_forgets_it(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open_with_watchdog(), NULL);
    every_acquired(own);
    every_place->each_server(forget);
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_left_ms(own.lock), 0);
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_LOST);
    cr_assert_eq(every_release(own), HLK_NOT_HOLDER);
    every_is_free(own);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1);
}

/* --- without a blocked thread --- */

static void complete(const struct every_kind *kind, unsigned flags)
{
    static struct every_done done, end;
    struct hlk_client_opts opts = every_opts();
    memset(&done, 0, sizeof done);
    memset(&end, 0, sizeof end);
    opts.flags = flags;
    hlk_client *client = every_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, owner), other = every_other(kind, every_open(NULL));
    every_acquired(other);
    every_acquire_async(own, NULL, &done);
    every_wait_for_waiters(client, 1);
    cr_assert_eq(atomic_load(&done.runs), 0);
    every_released(other);
    cr_assert_eq(every_result(client, &done), HLK_OK, "%s", done.error);
    every_is_held(other);
    every_release_async(own, &end);
    cr_assert_eq(every_result(client, &end), HLK_OK, "%s", end.error);
    every_is_free(other);
    cr_assert(atomic_load(&done.runs) == 1 && atomic_load(&end.runs) == 1);
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

/* A blocked wait of a thread, and one of an owner without a thread. They are in the queue, if the kind has one. */
struct two_waits {
    hlk_client *client;
    hlk_owner *owner;
    struct every_handle own, owned, other; /* other: holds it meanwhile */
    struct every_call call;
    struct every_done done;
};

static void begin_waits_of(hlk_client *client, struct two_waits *w, const struct every_kind *kind, bool with_cancel,
                           struct hlk_acquire_opts *opts)
{
    memset(w, 0, sizeof *w);
    w->client = client;
    w->owner = hlk_owner_create(w->client, "o");
    w->own = every_handle(kind, w->client, NULL);
    w->owned = every_handle(kind, w->client, w->owner);
    w->other = every_other(kind, every_open(NULL));
    opts->cancel = with_cancel ? hlk_cancel_create(w->client) : NULL;
    every_acquired(w->other);
    call_start(&w->call, w->own, opts);
    every_acquire_async(w->owned, opts, &w->done);
    every_wait_for_waiters(w->client, 2);
    if (every_place->counts_waits && kind->kind != HLK_LOCK_SPIN)
        WAIT_FOR(tickets_in_redis() > 0);
}

static void begin_waits(struct two_waits *w, const struct every_kind *kind, bool with_cancel,
                        struct hlk_acquire_opts *opts)
{
    begin_waits_of(every_open(NULL), w, kind, with_cancel, opts);
}

void is_cancelled(const struct every_kind *kind)
{
    static struct two_waits w;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    begin_waits(&w, kind, true, &opts);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(call_end(&w.call), HLK_INTERRUPTED, "%s", w.call.error);
    cr_assert_eq(every_result(w.client, &w.done), HLK_INTERRUPTED, "%s", w.done.error);
    WAIT_FOR(tickets_in_redis() == 0);
    every_released(w.other);
    every_is_free(w.own);
    every_is_free(w.other);
    hlk_cancel_destroy(opts.cancel);
    hlk_owner_destroy(w.owner);
}

static void refuse_writes(redisContext *redis)
{
    raw(redis, "CONFIG SET min-replicas-to-write 9");
}

static void allow_writes(redisContext *redis)
{
    raw(redis, "CONFIG SET min-replicas-to-write 0");
}

/* The ticket of a wait that has ended is removed once the server writes again, and close waits for that. */
void leaves_although_writes_are_refused(const struct every_kind *kind)
{
    static struct two_waits w;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    begin_waits(&w, kind, true, &opts);
    every_place->each_server(refuse_writes);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(call_end(&w.call), HLK_INTERRUPTED, "%s", w.call.error);
    cr_assert_eq(every_result(w.client, &w.done), HLK_INTERRUPTED, "%s", w.done.error);
    every_place->each_server(allow_writes);
    every_place->close(w.client);
    cr_assert_eq(tickets_in_redis(), 0);
    every_released(w.other);
    every_is_free(w.other);
    hlk_cancel_destroy(opts.cancel);
    hlk_owner_destroy(w.owner);
}

/* Writes are refused for longer than close waits. Close then logs that tickets are left, and others pass over them. */
void leaves_no_ticket_unsaid(const struct every_kind *kind)
{
    static struct two_waits w;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct hlk_client_opts brief = every_opts();
    brief.reply_timeout_ms = 300;
    begin_waits_of(every_open(&brief), &w, kind, false, &opts);
    every_place->each_server(refuse_writes);
    every_place->close(w.client);
    cr_assert_eq(call_end(&w.call), HLK_E_CLOSED, "%s", w.call.error);
    cr_assert(tickets_in_redis() == 0 || fixture_logged("close: releases that are not answered"));
    every_place->each_server(allow_writes);
    every_allow("hasplock_*");
    every_allow("redisson_*");
    every_released(w.other);
    every_is_free(w.other);
    hlk_owner_destroy(w.owner);
}

static int64_t refusals;

/* Redis 6.2 counts an error within a script as ERR. */
static void add_refusals(redisContext *redis)
{
    refusals += raw_errors(redis, "NOREPLICAS") + raw_errors(redis, "ERR");
}

static int64_t refusals_in_redis(void)
{
    refusals = 0;
    every_place->each_server(add_refusals);
    return refusals;
}

/* It lasts as long as it was given: somebody mends the server meanwhile. */
void outlasts_a_refusal_of_writes(const struct every_kind *kind)
{
    enum { TWICE = 6 }; /* more than one attempt, also at three masters */
    hlk_client *client = every_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, NULL), owned = every_handle(kind, client, owner);
    struct every_handle other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct every_call call;
    static struct every_done done;
    memset(&done, 0, sizeof done);
    every_place->each_server(refuse_writes);
    cr_assert_eq(every_try(own), HLK_E_SERVER, "one try: %s", hlk_last_error());
    int64_t before = refusals_in_redis();
    call_start(&call, own, &opts);
    WAIT_FOR(refusals_in_redis() > before + TWICE);
    every_place->each_server(allow_writes);
    call_acquired(&call);
    every_place->each_server(refuse_writes);
    before = refusals_in_redis();
    every_acquire_async(owned, &opts, &done);
    WAIT_FOR(refusals_in_redis() > before + TWICE);
    every_place->each_server(allow_writes);
    cr_assert_eq(every_result(client, &done), HLK_OK, "%s", done.error);
    memset(&done, 0, sizeof done);
    every_release_async(owned, &done);
    cr_assert_eq(every_result(client, &done), HLK_OK, "%s", done.error);
    every_is_free(other);
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
    every_acquired(other);
    call_start(&call, own, &opts);
    every_wait_for_waiters(client, 1);
    WAIT_FOR(interrupted(&call));
    cr_assert_eq(call_end(&call), HLK_INTERRUPTED, "%s", call.error);
    every_released(other);
    every_is_free(own);
}

void ends_with_its_client(const struct every_kind *kind)
{
    static struct two_waits w;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    begin_waits(&w, kind, false, &opts);
    every_place->close(w.client);
    cr_assert_eq(call_end(&w.call), HLK_E_CLOSED, "%s", w.call.error);
    cr_assert_eq(atomic_load(&w.done.runs), 1);
    cr_assert_eq(w.done.status, HLK_E_CLOSED, "%s", w.done.error);
    cr_assert_eq(every_acquire(w.own, HLK_NOWAIT), HLK_E_CLOSED);
    WAIT_FOR(tickets_in_redis() == 0);
    every_released(w.other);
    every_is_free(w.other);
    hlk_owner_destroy(w.owner);
}

void is_free_when_its_client_closes(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL), *next = every_open(NULL);
    struct every_handle own = every_handle(kind, client, NULL);
    struct every_call call;
    every_acquired(own);
    call_start_wait(&call, every_other(kind, next), RECONNECT_MS);
    every_wait_for_waiters(next, 1);
    every_place->close(client);
    call_acquired(&call);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* --- handles that are made for one call --- */

enum { THREADS = EVERY_VISITORS };

static void visit(struct every_visitor *visitor)
{
    struct every_handle own = every_make(visitor->kind, visitor->client, NULL);
    visitor->status = every_acquire(own, RECONNECT_MS);
    if (visitor->status == HLK_OK)
        visitor->status = every_release(own);
    if (visitor->status != HLK_OK)
        (void)snprintf(visitor->error, sizeof visitor->error, "%s", hlk_last_error());
    every_destroy(own);
}

static void *visit_often(void *arg)
{
    struct every_visitor *visitor = arg;
    for (int i = 0; i < EVERY_ROUNDS && visitor->status == HLK_OK; i++)
        visit(visitor);
    return NULL;
}

void visitors_start(struct every_visitor *visitors, const struct every_kind *kind)
{
    hlk_client *clients[] = { every_open(NULL), every_open(NULL) };
    for (int i = 0; i < EVERY_VISITORS; i++) {
        visitors[i] = (struct every_visitor){ .kind = kind, .client = clients[i % 2] };
        cr_assert_eq(pthread_create(&visitors[i].thread, NULL, visit_often, &visitors[i]), 0);
    }
}

void visitors_end(struct every_visitor *visitors)
{
    for (int i = 0; i < EVERY_VISITORS; i++)
        cr_assert_eq(pthread_join(visitors[i].thread, NULL), 0);
    for (int i = 0; i < EVERY_VISITORS; i++)
        cr_assert_eq(visitors[i].status, HLK_OK, "%s", visitors[i].error);
    every_is_free(every_handle(visitors->kind, visitors->client, NULL));
}

void has_handles_that_come_and_go(const struct every_kind *kind)
{
    struct every_visitor visitors[EVERY_VISITORS];
    visitors_start(visitors, kind);
    visitors_end(visitors);
}

/* Each is destroyed while it waits. */
void has_async_handles_that_come_and_go(const struct every_kind *kind)
{
    static struct every_done done[THREADS], ends[THREADS];
    hlk_client *client = every_open(NULL);
    hlk_owner *owners[THREADS];
    struct every_handle other = every_other(kind, every_open(NULL)), own = { NULL, NULL };
    memset(done, 0, sizeof done);
    memset(ends, 0, sizeof ends);
    every_acquired(other);
    for (int i = 0; i < THREADS; i++) {
        owners[i] = hlk_owner_create(client, NULL);
        own = every_make(kind, client, owners[i]);
        every_acquire_async(own, NULL, &done[i]);
        every_destroy(own);
    }
    every_wait_for_waiters(client, THREADS);
    every_released(other);
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
    every_is_free(other);
}
