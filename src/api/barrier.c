/* The barrier: each wait is a party, which is an acquire that holds nothing (src/kinds/format_barrier.c), of a holder
 * and an entry of its own. A party's name in Redis is used again by later waits: Redis has a record for each name. */
#include "hasplock/barrier.h"

#include "acquire/acquire_blocking.h"
#include "acquire/async_acquire.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "handle/send.h"
#include "hasplock/async.h"
#include "kinds/kinds.h"
#include "lease/entry_table.h"

#include <pthread.h>

#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS 86400000LL

struct call { /* one wait, or idle */
    uint64_t slot;
    unsigned index;    /* after a wait that was HLK_OK */
    struct call *next; /* idle */
    hlk_barrier *barrier;
    struct hlk_holder holder;
    struct hlk_entry *entry; /* referenced */
    hlk_barrier_done_fn *done;
    void *ctx;
};

struct hlk_barrier {
    atomic_int refs; /* the user's, and those of async waits */
    hlk_lock *lock;  /* without an entry */
    unsigned parties;
    _Atomic uint64_t data; /* which data of the server its waits have seen */
    struct hlk_mutex mu;   /* guards: */
    struct call *idle;
};

static enum hlk_status barrier_check(const hlk_barrier *barrier, const char *operation)
{
    return barrier ? hlk_lock_check(barrier->lock, operation) : hlk_last_null(operation, "barrier");
}

/* --- handles --- */

hlk_barrier *hlk_barrier_create(hlk_client *client, const char *name, unsigned parties, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = hlk_kind_of(&hlk_format_barrier);
    opts.lease_ms = lease_ms;
    bool bad_lease = lease_ms && (lease_ms < LEASE_MIN_MS || lease_ms > LEASE_MAX_MS);
    hlk_lock *lock = hlk_lock_create_as(client, "barrier", name, &opts,
                                        parties < 1 || parties > HLK_BARRIER_MAX ? "parties is not 1 to 100000"
                                        : bad_lease                              ? "lease_ms is not 0, or 1000 to a day"
                                                                                 : NULL);
    hlk_barrier *barrier = lock ? hlk_mem_zalloc(sizeof *barrier) : NULL;
    if (!barrier) {
        if (lock)
            (void)hlk_last_set(HLK_E_NOMEM, "create barrier \"%.128s\": no memory", name);
        hlk_lock_destroy(lock);
        return NULL;
    }
    atomic_init(&barrier->refs, 1);
    barrier->lock = lock;
    barrier->parties = parties;
    hlk_mutex_init(&barrier->mu, HLK_RANK_LEAF);
    return barrier;
}

static void free_call(struct call *call)
{
    HLK_DEBUG_ASSERT(call->entry);
    hlk_entry_unref(call->entry);
    hlk_mem_free(call);
}

static void barrier_unref(hlk_barrier *barrier)
{
    if (atomic_fetch_sub(&barrier->refs, 1) > 1)
        return;
    while (barrier->idle) {
        struct call *call = barrier->idle;
        barrier->idle = call->next;
        free_call(call);
    }
    hlk_mutex_fini(&barrier->mu);
    hlk_lock_destroy(barrier->lock);
    hlk_mem_free(barrier);
}

void hlk_barrier_destroy(hlk_barrier *barrier)
{
    if (barrier && barrier->lock->client->process == hlk_thread_process())
        barrier_unref(barrier);
}

const char *hlk_barrier_name(const hlk_barrier *barrier)
{
    return barrier ? hlk_lock_text(barrier->lock) : NULL;
}

unsigned hlk_barrier_parties(const hlk_barrier *barrier)
{
    return barrier ? barrier->parties : 0;
}

/* --- parties --- */

/* NULL: no memory; the thread's error is set. */
static struct call *make_call(hlk_barrier *barrier)
{
    HLK_DEBUG_ASSERT(!barrier->lock->entry);
    hlk_lock *lock = barrier->lock;
    struct call *call = hlk_mem_zalloc(sizeof *call);
    if (!call) {
        (void)hlk_lock_fail(lock, "await", HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    call->barrier = barrier;
    call->slot = atomic_fetch_add(&hlk_lock_node(lock)->table->last_h, 1) + 1;
    call->holder = hlk_lock_call_holder(lock);
    call->entry = hlk_lock_entry(lock, "await", call->holder.id);
    if (call->entry)
        return call;
    hlk_mem_free(call);
    return NULL;
}

/* NULL: no memory; the thread's error is set. */
static struct call *take_call(hlk_barrier *barrier)
{
    hlk_mutex_lock(&barrier->mu);
    struct call *call = barrier->idle;
    if (call)
        barrier->idle = call->next;
    hlk_mutex_unlock(&barrier->mu);
    return call ? call : make_call(barrier);
}

/* Also if the call's last attempt may still run: a later wait of the party has a larger number. */
static void give_call(void *arg)
{
    struct call *call = arg;
    hlk_barrier *barrier = call->barrier;
    hlk_mutex_lock(&barrier->mu);
    call->next = barrier->idle;
    barrier->idle = call;
    hlk_mutex_unlock(&barrier->mu);
}

/* --- waits --- */

static void on_wait_over(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->with);
    struct call *call = op->with;
    call->index = op->cmd.seen.index;
    atomic_store(&call->barrier->data, op->cmd.seen.data);
}

/* The call is the barrier's again when its wait is over (give_call). */
static void keep_call(void *call)
{
    (void)call;
}

static const struct hlk_acquire_hooks party_hooks = { .over = on_wait_over, .free = keep_call };

static struct hlk_acquire_terms terms_of(const struct call *call)
{
    HLK_DEBUG_ASSERT(call->entry && call->holder.id && call->slot);
    hlk_barrier *barrier = call->barrier;
    return (struct hlk_acquire_terms){ .lock = barrier->lock,
                                       .entry = call->entry,
                                       .holder = call->holder,
                                       .count = barrier->parties,
                                       .seen = { .slot = call->slot, .data = atomic_load(&barrier->data) },
                                       .hooks = &party_hooks,
                                       .with = (void *)(uintptr_t)call };
}

static enum hlk_status check_barrier_wait(hlk_barrier *barrier, const struct hlk_acquire_opts *given,
                                          struct hlk_acquire_opts *opts)
{
    enum hlk_status status = barrier_check(barrier, "await");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(barrier->lock, "await", given, opts);
    if (status == HLK_OK && opts->lease_ms != 0)
        status = hlk_lock_fail(barrier->lock, "await", HLK_E_INVALID, "the lease is the barrier's: lease_ms is not 0");
    return status;
}

enum hlk_status hlk_barrier_await_with(hlk_barrier *barrier, const struct hlk_acquire_opts *given, unsigned *index)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = check_barrier_wait(barrier, given, &opts);
    if (status != HLK_OK)
        return status;
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(barrier->lock, "await", HLK_E_NOMEM, "no memory; nothing was sent");
    struct call *call = take_call(barrier);
    if (!call)
        return HLK_E_NOMEM;
    pthread_cleanup_push(give_call, call);
    const struct hlk_acquire_terms terms = terms_of(call);
    status = hlk_acquire_on(&terms, &opts, self);
    if (status == HLK_OK && index)
        *index = call->index;
    pthread_cleanup_pop(1);
    return status;
}

enum hlk_status hlk_barrier_await(hlk_barrier *barrier, int64_t wait_ms, unsigned *index)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_barrier_await_with(barrier, &opts, index);
}

static void on_barrier_awaited(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    hlk_mutex_assert_none();
    struct call *call = ctx;
    hlk_barrier *barrier = call->barrier;
    hlk_barrier_done_fn *done = call->done;
    void *done_ctx = call->ctx;
    unsigned index = call->index;
    (void)lock;
    done(barrier, status, index, done_ctx);
    give_call(call);
    barrier_unref(barrier);
}

enum hlk_status hlk_barrier_await_async(hlk_barrier *barrier, const struct hlk_acquire_opts *given,
                                        hlk_barrier_done_fn *done, void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = check_barrier_wait(barrier, given, &opts);
    if (status == HLK_OK && !done)
        status = hlk_lock_fail(barrier->lock, "await", HLK_E_INVALID, "an async wait needs a completion");
    struct call *call = status == HLK_OK ? take_call(barrier) : NULL;
    if (!call)
        return status == HLK_OK ? HLK_E_NOMEM : status;
    call->done = done;
    call->ctx = ctx;
    atomic_fetch_add(&barrier->refs, 1);
    const struct hlk_acquire_terms terms = terms_of(call);
    status = hlk_acquire_async_on(&terms, &opts, NULL, on_barrier_awaited, call);
    if (status != HLK_OK) {
        give_call(call);
        barrier_unref(barrier);
    }
    return status;
}

/* --- all of them --- */

static enum hlk_status ask_barrier(const hlk_barrier *barrier, const char *operation,
                                   const struct hlk_command_type *type, bool changes, int64_t *parties)
{
    HLK_DEBUG_ASSERT(type->put);
    const struct hlk_command cmd = { .type = type };
    return hlk_lock_ask_number(barrier->lock, operation, &cmd, changes, parties);
}

enum hlk_status hlk_barrier_waiting(hlk_barrier *barrier, unsigned *waiting)
{
    int64_t now = 0;
    enum hlk_status status = barrier_check(barrier, "count parties");
    if (status == HLK_OK && !waiting)
        return hlk_lock_fail(barrier->lock, "count parties", HLK_E_INVALID, "no room for the count");
    if (status == HLK_OK)
        status = ask_barrier(barrier, "count parties", &hlk_format_barrier.query, false, &now);
    if (status == HLK_OK)
        *waiting = (unsigned)now;
    return status;
}

enum hlk_status hlk_barrier_reset(hlk_barrier *barrier)
{
    int64_t waiting = 0;
    enum hlk_status status = barrier_check(barrier, "reset");
    if (status == HLK_OK)
        status = ask_barrier(barrier, "reset", &hlk_format_barrier.break_it, true, &waiting);
    if (status == HLK_OK && !waiting)
        return hlk_lock_fail(barrier->lock, "reset", HLK_NOT_HOLDER, "nobody waits; nothing was changed");
    return status;
}
