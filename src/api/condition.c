/* The condition: a wait enrolls, releases the caller's lock, is an acquire that holds nothing until it is signalled
 * (src/kinds/format_condition.c), and acquires the lock again. Each wait is a waiter of a new number. */
#include "hasplock/condition.h"

#include "acquire/acquire_blocking.h"
#include "acquire/acquire_op.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/mem.h"
#include "handle/send.h"
#include "kinds/format_condition.h"
#include "kinds/kinds.h"
#include "lease/entry_table.h"

#include <pthread.h>
#include <stdio.h>

#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS 86400000LL /* lua/include_condition.lua */

struct hlk_condition {
    hlk_lock *own; /* its name, client and lease; it is never held */
};

struct waiter { /* one wait */
    hlk_condition *condition;
    hlk_lock *lock; /* the caller's */
    struct hlk_thread *self;
    struct hlk_view held; /* what the caller had of the lock */
    uint64_t number;      /* in Redis it is <client id>:<number> */
    bool enrolled;        /* Redis may have a record of it */
};

static enum hlk_status condition_check(const hlk_condition *condition, const char *operation)
{
    return condition ? hlk_lock_check(condition->own, operation) : hlk_last_null(operation, "condition");
}

/* --- handles --- */

hlk_condition *hlk_condition_create(hlk_client *client, const char *name, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = hlk_kind_of(&hlk_format_condition);
    opts.lease_ms = lease_ms;
    bool bad_lease = lease_ms && (lease_ms < LEASE_MIN_MS || lease_ms > LEASE_MAX_MS);
    hlk_lock *own =
        hlk_lock_create_as(client, "condition", name, &opts, bad_lease ? "lease_ms is not 0, or 1000 to a day" : NULL);
    hlk_condition *condition = own ? hlk_mem_zalloc(sizeof *condition) : NULL;
    if (condition) {
        condition->own = own;
        return condition;
    }
    if (own)
        (void)hlk_last_set(HLK_E_NOMEM, "create condition \"%.128s\": no memory", name);
    hlk_lock_destroy(own);
    return NULL;
}

void hlk_condition_destroy(hlk_condition *condition)
{
    if (condition)
        hlk_lock_destroy(condition->own);
    hlk_mem_free(condition);
}

const char *hlk_condition_name(const hlk_condition *condition)
{
    return condition ? hlk_lock_text(condition->own) : NULL;
}

/* --- the waiter in Redis --- */

/* The last command about it: done, or leave. */
static void condition_end(struct waiter *waiter, const struct hlk_command_type *type)
{
    static const char word[] = "left";
    HLK_DEBUG_ASSERT(!waiter->enrolled || waiter->number);
    const struct hlk_command cmd = {
        .type = type, .id = word, .id_len = sizeof word - 1, .seen = { .slot = waiter->number }
    };
    if (waiter->enrolled)
        hlk_lock_send_and_forget(waiter->condition->own, &cmd);
    waiter->enrolled = false;
}

/* A signal that it has got goes to the next one. Also in a thread that is cancelled. */
static void condition_leave(void *waiter)
{
    condition_end(waiter, &hlk_format_condition.leave);
}

static int64_t lease_of(const hlk_lock *own)
{
    return own->defaults->lease_ms ? own->defaults->lease_ms : own->client->table.watchdog_ms;
}

static enum hlk_status condition_enroll(struct waiter *waiter)
{
    HLK_DEBUG_ASSERT(waiter->held.count > 0 && !waiter->enrolled);
    hlk_lock *own = waiter->condition->own;
    waiter->number = atomic_fetch_add(&hlk_lock_node(own)->table->last_h, 1) + 1;
    const struct hlk_command cmd = { .type = &hlk_condition_enroll,
                                     .lease_ms = lease_of(own),
                                     .seen = { .slot = waiter->number } };
    int64_t enrolled = 0;
    waiter->enrolled = true;
    return hlk_lock_ask_number(own, "wait", &cmd, false, &enrolled);
}

/* --- the lock --- */

/* All holds are released, those too that were lost. HLK_OK: until now the lock was held. Else the first failure. */
static enum hlk_status give_up_lock(const struct waiter *waiter)
{
    enum hlk_status status = HLK_OK;
    for (unsigned i = 0; i < waiter->held.count && (status == HLK_OK || status == HLK_LOST); i++) {
        enum hlk_status one = hlk_lock_release(waiter->lock);
        if (one != HLK_OK && status == HLK_OK)
            status = one;
    }
    return status;
}

/* Until it is held as often as before; it is held `has` times. *has: how often it is now. */
static enum hlk_status acquire_lock_again(const struct waiter *waiter, const struct hlk_acquire_opts *given,
                                          unsigned *has)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = waiter->held.lease_ms;
    opts.cancel = given->cancel;
    opts.flags = given->flags;
    enum hlk_status status = HLK_OK;
    for (; *has < waiter->held.count && status == HLK_OK; *has += status == HLK_OK)
        status = hlk_lock_acquire_with(waiter->lock, &opts);
    return status;
}

/* --- how a wait ends --- */

static const char not_held[] = "the lock is not held", held_as_before[] = "the lock is held as before";

/* With the thread's error, which it completes. */
static enum hlk_status end_failed(struct waiter *waiter, enum hlk_status status, const char *lock_is)
{
    condition_leave(waiter);
    return hlk_last_set(status, "%s; %s", hlk_last_error(), lock_is);
}

/* The thread's error, for after calls that may set another one. */
static void save_error(struct hlk_error *error, enum hlk_status status)
{
    error->status = status;
    (void)snprintf(error->text, sizeof error->text, "%s", hlk_last_error());
}

/* `signalled`: HLK_OK; HLK_TIMEOUT or HLK_BUSY, with the thread's error. */
static enum hlk_status end_with_lock(struct waiter *waiter, enum hlk_status signalled,
                                     const struct hlk_acquire_opts *opts)
{
    struct hlk_error error;
    unsigned has = 0;
    save_error(&error, signalled);
    enum hlk_status status = acquire_lock_again(waiter, opts, &has);
    if (status == HLK_OK) { /* its signal is used up; or it has left, or leaves now: there was no answer to that */
        condition_end(waiter, signalled == HLK_OK ? &hlk_condition_done : &hlk_format_condition.leave);
        return signalled == HLK_OK ? HLK_OK : hlk_last_set(signalled, "%s", error.text);
    }
    save_error(&error, end_failed(waiter, status, not_held));
    for (; has > 0; has--)
        (void)hlk_lock_release(waiter->lock);
    return hlk_last_set(status, "%s", error.text);
}

/* A release has failed. Without memory the lock is held, perhaps not so often. */
static enum hlk_status end_not_given_up(struct waiter *waiter, enum hlk_status status,
                                        const struct hlk_acquire_opts *opts)
{
    int holds = status == HLK_E_NOMEM ? hlk_lock_holds(waiter->lock) : 0;
    if (holds <= 0)
        return end_failed(waiter, status, not_held);
    unsigned has = (unsigned)holds;
    status = end_failed(waiter, status, held_as_before);
    enum hlk_status again = acquire_lock_again(waiter, opts, &has);
    return again == HLK_OK ? status : again;
}

/* --- a wait --- */

static void end_condition_terms(void *terms)
{
    hlk_acquire_terms_end(terms);
}

/* Its leave was answered: there is no record of it. */
static void on_condition_wait_over(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->with);
    struct waiter *waiter = op->with;
    if (op->machine.leaving && op->error.status == HLK_NOT_HOLDER)
        waiter->enrolled = false;
}

/* It is its caller's. */
static void keep_waiter(void *waiter)
{
    (void)waiter;
}

static const struct hlk_acquire_hooks waiter_hooks = { .over = on_condition_wait_over, .free = keep_waiter };

static enum hlk_status await_signal(struct waiter *waiter, const struct hlk_acquire_opts *opts)
{
    struct hlk_acquire_terms terms;
    if (!hlk_acquire_terms_of(waiter->condition->own, waiter->self, &terms))
        return HLK_E_NOMEM;
    terms.seen = (struct hlk_seen){ .mark = waiter->number, .slot = waiter->number };
    terms.hooks = &waiter_hooks;
    terms.with = waiter;
    enum hlk_status status;
    pthread_cleanup_push(end_condition_terms, &terms);
    status = hlk_acquire_on(&terms, opts, waiter->self);
    pthread_cleanup_pop(1);
    return status;
}

/* A release that was not answered does not say that the lock was held until now. Another holder may have signalled
 * before this waiter came: it counts as woken, and its caller looks. */
static enum hlk_status wait_without_lock(struct waiter *waiter, const struct hlk_acquire_opts *opts)
{
    enum hlk_status status = give_up_lock(waiter);
    if (status == HLK_E_UNSURE || status == HLK_E_CONNECT) {
        condition_leave(waiter);
        return end_with_lock(waiter, HLK_OK, opts);
    }
    if (status != HLK_OK)
        return end_not_given_up(waiter, status, opts);
    status = await_signal(waiter, opts);
    if (status == HLK_OK || status == HLK_TIMEOUT || status == HLK_BUSY)
        return end_with_lock(waiter, status, opts);
    return end_failed(waiter, status, not_held);
}

static enum hlk_status check_condition_wait(hlk_condition *condition, hlk_lock *lock,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts)
{
    enum hlk_status status = condition_check(condition, "wait");
    if (status == HLK_OK)
        status = hlk_lock_check(lock, "wait");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(condition->own, "wait", given, opts);
    if (status == HLK_OK && opts->lease_ms != 0)
        status = hlk_lock_fail(condition->own, "wait", HLK_E_INVALID,
                               "the lock keeps the lease that it has: lease_ms is not 0");
    return status;
}

/* HLK_OK: it is in Redis, and the lock is held. */
static enum hlk_status begin_condition_wait(struct waiter *waiter)
{
    waiter->self = hlk_thread_get();
    if (!waiter->self)
        return hlk_lock_fail(waiter->condition->own, "wait", HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_lock_view(waiter->lock, waiter->self, &waiter->held);
    if (waiter->held.count == 0)
        return hlk_lock_not_held(waiter->lock, "wait");
    if (waiter->held.lost) {
        enum hlk_status status = give_up_lock(waiter);
        return end_failed(waiter, status == HLK_OK ? HLK_LOST : status, not_held);
    }
    enum hlk_status status = condition_enroll(waiter);
    return status == HLK_OK ? status : end_failed(waiter, status, held_as_before);
}

enum hlk_status hlk_condition_wait_with(hlk_condition *condition, hlk_lock *lock, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    struct waiter waiter = { .condition = condition, .lock = lock };
    enum hlk_status status = check_condition_wait(condition, lock, given, &opts);
    if (status == HLK_OK)
        status = begin_condition_wait(&waiter);
    if (status != HLK_OK)
        return status;
    pthread_cleanup_push(condition_leave, &waiter);
    status = wait_without_lock(&waiter, &opts);
    pthread_cleanup_pop(0);
    return status;
}

enum hlk_status hlk_condition_wait(hlk_condition *condition, hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_condition_wait_with(condition, lock, &opts);
}

/* --- signals --- */

/* One that may have been done is sent again: a waiter that is woken in vain looks. */
static enum hlk_status ask_condition(const hlk_condition *condition, const char *operation,
                                     const struct hlk_command_type *type, int64_t *number)
{
    HLK_DEBUG_ASSERT(type->put);
    const struct hlk_command cmd = { .type = type };
    return hlk_lock_ask_number(condition->own, operation, &cmd, false, number);
}

enum hlk_status hlk_condition_signal(hlk_condition *condition)
{
    int64_t woken = 0;
    enum hlk_status status = condition_check(condition, "signal");
    return status == HLK_OK ? ask_condition(condition, "signal", &hlk_condition_wake_one, &woken) : status;
}

enum hlk_status hlk_condition_broadcast(hlk_condition *condition)
{
    int64_t woken = 0;
    enum hlk_status status = condition_check(condition, "broadcast");
    return status == HLK_OK ? ask_condition(condition, "broadcast", &hlk_condition_wake_all, &woken) : status;
}

enum hlk_status hlk_condition_waiting(hlk_condition *condition, unsigned *waiting)
{
    int64_t now = 0;
    enum hlk_status status = condition_check(condition, "count waiters");
    if (status == HLK_OK && !waiting)
        return hlk_lock_fail(condition->own, "count waiters", HLK_E_INVALID, "no room for the count");
    if (status == HLK_OK)
        status = ask_condition(condition, "count waiters", &hlk_format_condition.query, &now);
    if (status == HLK_OK)
        *waiting = (unsigned)now;
    return status;
}
