#include "quorum/lock.h"

#include "quorum/round.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "quorum/acquire.h"
#include "quorum/hold.h"
#include "quorum/inspect.h"
#include "quorum/lock_async.h"
#include "quorum/release.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* --- what a holder has of a lock --- */

/* Behind the name and its NUL. */
struct key_rest {
    uint64_t holder;
    int64_t format;
};

static int format_of(const hlk_lock *lock)
{
    return lock->kind->format == &hlk_format_lock ? HLK_QUORUM_HASH : HLK_QUORUM_STRING;
}

static size_t write_key(char *out, const hlk_lock *lock, uint64_t holder)
{
    HLK_DEBUG_ASSERT(holder && !lock->entry);
    const struct key_rest rest = { holder, format_of(lock) };
    size_t len = hlk_lock_text_len(lock) + 1;
    memcpy(out, lock->name, len);
    memcpy(out + len, &rest, sizeof rest);
    return len + sizeof rest;
}

/* NULL: nothing. */
static struct hlk_quorum *find_quorum(struct hlk_quorums *all, const char *key, size_t len)
{
    hlk_mutex_assert_held(&all->mu);
    struct hlk_map_node *node = hlk_map_get(&all->holders, key, len);
    return node ? HLK_CONTAINER(node, struct hlk_quorum, node) : NULL;
}

static struct hlk_quorum *make_of(const hlk_lock *lock, struct hlk_holder holder, const char *key, size_t len)
{
    struct hlk_quorum_opts opts = hlk_quorums_of(lock->client)->opts;
    opts.format = format_of(lock);
    struct hlk_quorum *quorum =
        hlk_quorum_make(lock->client, lock->name, hlk_lock_text_len(lock), sizeof(struct key_rest), &opts);
    if (!quorum)
        return NULL;
    hlk_mutex_lock(&quorum->all->mu); /* it is among all of them already: a thread that ends looks at their holders */
    memcpy(quorum->name, key, len);
    quorum->holder = holder;
    hlk_mutex_unlock(&quorum->all->mu);
    return quorum;
}

struct hlk_quorum *hlk_quorum_enter(const hlk_lock *lock, struct hlk_holder holder, bool make)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(holder.id);
    char key[HLK_NAME_MAX + 1 + sizeof(struct key_rest)];
    size_t len = write_key(key, lock, holder.id);
    struct hlk_quorums *all = hlk_quorums_of(lock->client);
    hlk_mutex_lock(&all->mu);
    struct hlk_quorum *quorum = find_quorum(all, key, len), *made = NULL;
    if (!quorum && make) {
        hlk_mutex_unlock(&all->mu);
        made = make_of(lock, holder, key, len);
        hlk_mutex_lock(&all->mu);
        quorum = find_quorum(all, key, len); /* another thread of its owner may have made it meanwhile */
        if (!quorum && made && hlk_map_put(&all->holders, &made->node, made->name, len)) {
            quorum = made;
            made = NULL;
        }
    }
    if (quorum)
        quorum->users++;
    hlk_mutex_unlock(&all->mu);
    if (made)
        hlk_quorum_unref(made);
    return quorum;
}

void hlk_quorum_leave(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&quorum->all->mu);
    quorum->users--;
    hlk_quorum_unlock(quorum);
}

static void leave_on_cancel(void *quorum)
{
    hlk_quorum_leave(quorum);
}

/* --- which kinds there are --- */

static const char *quorum_refuse(const struct hlk_lock_opts *opts)
{
    switch (opts->kind) {
    case HLK_LOCK_PLAIN:
    case HLK_LOCK_NON_REENTRANT:
    case HLK_LOCK_STRING:
        return NULL;
    case HLK_LOCK_FENCED:
        return "a lock over several masters has no fencing tokens: each master counts for itself, and a later majority "
               "may consist of masters whose counters are behind";
    default:
        return "this kind has its waiters, or its state, on one server; over several masters there are HLK_LOCK_PLAIN, "
               "HLK_LOCK_NON_REENTRANT and HLK_LOCK_STRING";
    }
}

/* --- acquire --- */

struct hlk_quorum_terms hlk_quorum_lock_terms(hlk_lock *lock, const struct hlk_quorum *quorum,
                                              const struct hlk_acquire_opts *opts)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->defaults->lease_ms;
    return (struct hlk_quorum_terms){ .renewed = lease <= 0,
                                      .ttl_ms = lease > 0 ? lease : quorum->opts.ttl_ms,
                                      .max_hold_ms = lock->defaults->max_hold_ms,
                                      .handle = &lock->handle,
                                      .no_nesting = lock->kind->non_reentrant };
}

enum hlk_status hlk_quorum_lock_no_memory(const hlk_lock *lock, const char *operation)
{
    return hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
}

static enum hlk_status quorum_lock_acquire(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_quorum *quorum = self ? hlk_quorum_enter(lock, hlk_lock_holder(lock, self), true) : NULL;
    if (!quorum)
        return hlk_quorum_lock_no_memory(lock, "acquire");
    const struct hlk_quorum_terms terms = hlk_quorum_lock_terms(lock, quorum, opts);
    enum hlk_status status;
    int old = hlk_nocancel_begin();
    self->cancellable = old == PTHREAD_CANCEL_ENABLE; /* in its sleeps */
    hlk_quorum_expire(quorum);
    pthread_cleanup_push(leave_on_cancel, quorum);
    status = hlk_quorum_acquire_as(quorum, opts, &terms, self);
    pthread_cleanup_pop(0);
    self->cancellable = false;
    hlk_quorum_leave(quorum);
    hlk_nocancel_end(old);
    return status;
}

/* --- release, extend --- */

/* Runs it for what the caller holds of the lock. */
static enum hlk_status with_hold(hlk_lock *lock, const char *operation, int64_t lease_ms,
                                 enum hlk_status (*run)(struct hlk_quorum *quorum, struct hlk_thread *self,
                                                        int64_t lease_ms))
{
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_quorum_lock_no_memory(lock, operation);
    struct hlk_quorum *quorum = hlk_quorum_enter(lock, hlk_lock_holder(lock, self), false);
    if (!quorum)
        return hlk_lock_not_held(lock, operation);
    int old = hlk_nocancel_begin();
    hlk_client_op_begin(lock->client);
    enum hlk_status status = run(quorum, self, lease_ms);
    hlk_client_op_end(lock->client);
    hlk_quorum_leave(quorum);
    hlk_nocancel_end(old);
    return status;
}

static enum hlk_status run_release(struct hlk_quorum *quorum, struct hlk_thread *self, int64_t lease_ms)
{
    (void)lease_ms;
    return hlk_quorum_release_as(quorum, self);
}

static enum hlk_status run_extend(struct hlk_quorum *quorum, struct hlk_thread *self, int64_t lease_ms)
{
    return hlk_quorum_extend_as(quorum, self, lease_ms);
}

static enum hlk_status quorum_lock_release(hlk_lock *lock)
{
    return with_hold(lock, "release", 0, run_release);
}

static enum hlk_status quorum_lock_extend(hlk_lock *lock, int64_t lease_ms)
{
    return with_hold(lock, "extend", lease_ms, run_extend);
}

/* --- what is held --- */

static void quorum_lock_view(const hlk_lock *lock, struct hlk_holder holder, struct hlk_view *view)
{
    char key[HLK_NAME_MAX + 1 + sizeof(struct key_rest)];
    size_t len = write_key(key, lock, holder.id);
    struct hlk_quorums *all = hlk_quorums_of(lock->client);
    hlk_mutex_lock(&all->mu);
    const struct hlk_quorum *quorum = find_quorum(all, key, len);
    if (quorum && quorum->state == HLK_QUORUM_HELD) {
        view->count = quorum->count;
        view->h = quorum->round->hold;
        view->until_ms = quorum->validity.until_ms;
        view->cap_ms = quorum->validity.cap_ms;
        view->lease_ms = quorum->renewed ? HLK_RENEWED : quorum->validity.ttl_ms;
    } else if (quorum && quorum->state == HLK_QUORUM_LOST) {
        view->count = quorum->count;
        view->lost = true;
        view->why = quorum->why;
    }
    hlk_mutex_unlock(&all->mu);
}

const struct hlk_lock_group hlk_quorum_locks = {
    .refuse = quorum_refuse,
    .acquire = quorum_lock_acquire,
    .acquire_async = hlk_quorum_lock_acquire_async,
    .release = quorum_lock_release,
    .release_async = hlk_quorum_lock_release_async,
    .extend = quorum_lock_extend,
    .query = hlk_quorum_lock_query,
    .break_it = hlk_quorum_lock_break,
    .list = hlk_quorum_lock_list,
    .find = hlk_quorum_lock_find,
    .view = quorum_lock_view,
};
