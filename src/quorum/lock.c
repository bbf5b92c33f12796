/* The calls of lock.h for a lock over several masters (api/handle.h). What one holder has of such a lock is a
 * struct hlk_quorum, which is found by kind, name and holder. It lives while that holder has the lock, has lost it, or
 * is in a call. */
#include "quorum/round.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

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
    const struct key_rest rest = { holder, format_of(lock) };
    size_t len = hlk_lock_text_len(lock) + 1;
    memcpy(out, lock->name, len);
    memcpy(out + len, &rest, sizeof rest);
    return len + sizeof rest;
}

static struct hlk_quorums *all_of(const hlk_lock *lock)
{
    return HLK_CONTAINER(lock->client->part, struct hlk_quorums, part);
}

/* all->mu held. NULL: nothing. */
static struct hlk_quorum *find(struct hlk_quorums *all, const char *key, size_t len)
{
    hlk_mutex_assert_held(&all->mu);
    struct hlk_map_node *node = hlk_map_get(&all->holders, key, len);
    return node ? HLK_CONTAINER(node, struct hlk_quorum, node) : NULL;
}

static struct hlk_quorum *make_of(const hlk_lock *lock, struct hlk_holder holder, const char *key, size_t len)
{
    struct hlk_quorum_opts opts = all_of(lock)->opts;
    opts.format = format_of(lock);
    struct hlk_quorum *quorum =
        hlk_quorum_make(lock->client, lock->name, hlk_lock_text_len(lock), sizeof(struct key_rest), &opts);
    if (!quorum)
        return NULL;
    memcpy(quorum->name, key, len);
    quorum->holder = holder;
    return quorum;
}

/* For one call, which ends with leave. NULL: there is none; with `make`: no memory. */
static struct hlk_quorum *enter(const hlk_lock *lock, struct hlk_holder holder, bool make)
{
    char key[HLK_NAME_MAX + 1 + sizeof(struct key_rest)];
    size_t len = write_key(key, lock, holder.id);
    struct hlk_quorums *all = all_of(lock);
    hlk_mutex_lock(&all->mu);
    struct hlk_quorum *quorum = find(all, key, len), *made = NULL;
    if (!quorum && make) {
        hlk_mutex_unlock(&all->mu);
        made = make_of(lock, holder, key, len);
        hlk_mutex_lock(&all->mu);
        quorum = find(all, key, len); /* another thread of its owner may have made it meanwhile */
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

static void leave(struct hlk_quorum *quorum)
{
    hlk_mutex_lock(&quorum->all->mu);
    quorum->users--;
    hlk_mutex_unlock(&quorum->all->mu);
    hlk_quorum_drop_idle(quorum);
}

static void leave_on_cancel(void *quorum)
{
    leave(quorum);
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

/* The lease of a nested hold: raises it, or starts renewals. If that fails the nested hold is released again. */
static enum hlk_status raise_lease(hlk_lock *lock, struct hlk_quorum *quorum, struct hlk_thread *self,
                                   const struct hlk_quorum_terms *terms, bool once)
{
    char why[HLK_ERROR_TEXT];
    hlk_mutex_lock(&quorum->all->mu);
    bool renewed = quorum->renewed;
    hlk_mutex_unlock(&quorum->all->mu);
    if (terms->renewed && renewed)
        return HLK_OK;
    enum hlk_status status = hlk_quorum_extend_as(quorum, "acquire", self, terms->ttl_ms, terms->renewed);
    if (status == HLK_OK)
        return status;
    (void)snprintf(why, sizeof why, "%s", hlk_last_error());
    (void)hlk_quorum_release_as(quorum, self);
    if (status != HLK_E_UNSURE)
        return hlk_last_set(status, "%s", why);
    return hlk_lock_fail(lock, "acquire", once ? HLK_BUSY : HLK_TIMEOUT,
                         "held already, and its lease could not be raised: %s", why);
}

static enum hlk_status acquire_by(hlk_lock *lock, struct hlk_quorum *quorum, struct hlk_thread *self,
                                  const struct hlk_acquire_opts *opts, const struct hlk_quorum_terms *terms)
{
    bool nested;
    enum hlk_status status;
    hlk_quorum_look(quorum);
    pthread_cleanup_push(leave_on_cancel, quorum);
    status = hlk_quorum_acquire_as(quorum, opts, terms, self, &nested);
    pthread_cleanup_pop(0);
    return status == HLK_OK && nested ? raise_lease(lock, quorum, self, terms, opts->wait_ms == 0) : status;
}

static enum hlk_status no_memory(const hlk_lock *lock, const char *operation)
{
    return hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
}

static enum hlk_status quorum_lock_acquire(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_quorum *quorum = self ? enter(lock, hlk_lock_holder(lock, self), true) : NULL;
    if (!quorum)
        return no_memory(lock, "acquire");
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    const struct hlk_quorum_terms terms = { .renewed = lease <= 0,
                                            .ttl_ms = lease > 0 ? lease : quorum->opts.ttl_ms,
                                            .max_hold_ms = lock->max_hold_ms,
                                            .handle = &lock->handle,
                                            .no_nesting = lock->kind->non_reentrant };
    int old = hlk_nocancel_begin();
    self->cancellable = old == PTHREAD_CANCEL_ENABLE; /* in its sleeps */
    enum hlk_status status = acquire_by(lock, quorum, self, opts, &terms);
    self->cancellable = false;
    leave(quorum);
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
        return no_memory(lock, operation);
    struct hlk_quorum *quorum = enter(lock, hlk_lock_holder(lock, self), false);
    if (!quorum)
        return hlk_lock_not_held(lock, operation);
    int old = hlk_nocancel_begin();
    hlk_client_op_begin(lock->client);
    enum hlk_status status = run(quorum, self, lease_ms);
    hlk_client_op_end(lock->client);
    leave(quorum);
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
    return hlk_quorum_extend_as(quorum, "extend", self, lease_ms, false);
}

static enum hlk_status quorum_lock_release(hlk_lock *lock)
{
    return with_hold(lock, "release", 0, run_release);
}

static enum hlk_status quorum_lock_extend(hlk_lock *lock, int64_t lease_ms)
{
    return with_hold(lock, "extend", lease_ms, run_extend);
}

/* --- a release without a wait --- */

struct releasing {
    struct hlk_job job;
    hlk_lock *lock;    /* its handle is referenced */
    hlk_done_fn *done; /* NULL: no completion */
    void *ctx;
    struct hlk_error error;
};

static void free_releasing(struct releasing *releasing)
{
    hlk_handle_release(&releasing->lock->handle);
    hlk_mem_free(releasing);
}

static void run_releasing(struct hlk_job *job)
{
    struct releasing *releasing = HLK_CONTAINER(job, struct releasing, job);
    enum hlk_status status = releasing->error.status;
    if (status != HLK_OK)
        (void)hlk_lock_fail(releasing->lock, "release", status, "%s", releasing->error.text);
    releasing->done(releasing->lock, status, releasing->ctx);
    free_releasing(releasing);
}

static void complete_release(struct releasing *releasing)
{
    const hlk_lock *lock = releasing->lock;
    if (releasing->done) {
        releasing->job.run = run_releasing;
        hlk_client_complete(lock->client, &releasing->job);
        return;
    }
    if (releasing->error.status != HLK_OK)
        hlk_log_write(&lock->client->log, HLK_LOG_WARN, "release \"%.128s\": %s", lock->name, releasing->error.text);
    free_releasing(releasing);
}

static void on_released(struct hlk_round *round)
{
    struct releasing *releasing = round->ctx;
    hlk_client *client = releasing->lock->client;
    releasing->error.status = hlk_round_released(round, &releasing->error);
    if (releasing->error.status == HLK_E_UNSURE && atomic_load(&client->closing))
        (void)hlk_error_set(&releasing->error, HLK_E_CLOSED, "the client was closed before a majority answered");
    hlk_quorum_count_released(client, releasing->error.status);
    complete_release(releasing);
}

/* HLK_OK: `releasing` is on its way to its completion. */
static enum hlk_status start_release(struct hlk_quorum *quorum, struct releasing *releasing)
{
    bool outer;
    struct hlk_round *round = hlk_quorum_take(quorum, &outer);
    if (!outer && !round)
        return hlk_quorum_not_held(quorum, "release", true);
    hlk_handle_retain(&releasing->lock->handle);
    if (outer) {
        complete_release(releasing);
        return HLK_OK;
    }
    round->ctx = releasing;
    round->on_released = on_released;
    hlk_round_release(round);
    hlk_quorum_taken(quorum);
    hlk_round_unref(round);
    return HLK_OK;
}

static enum hlk_status quorum_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    struct hlk_thread *self = hlk_thread_get();
    struct releasing *releasing = self ? hlk_mem_zalloc(sizeof *releasing) : NULL;
    if (!releasing)
        return no_memory(lock, "release");
    *releasing = (struct releasing){ .lock = lock, .done = done, .ctx = ctx };
    struct hlk_quorum *quorum = enter(lock, hlk_lock_holder(lock, self), false);
    enum hlk_status status = quorum ? start_release(quorum, releasing) : hlk_lock_not_held(lock, "release");
    if (quorum)
        leave(quorum);
    if (status != HLK_OK)
        hlk_mem_free(releasing);
    return status;
}

/* --- what is held --- */

static void quorum_lock_view(const hlk_lock *lock, struct hlk_holder holder, struct hlk_view *view)
{
    char key[HLK_NAME_MAX + 1 + sizeof(struct key_rest)];
    size_t len = write_key(key, lock, holder.id);
    struct hlk_quorums *all = all_of(lock);
    hlk_mutex_lock(&all->mu);
    const struct hlk_quorum *quorum = find(all, key, len);
    if (quorum && quorum->state == HLK_QUORUM_HELD) {
        view->count = quorum->count;
        view->h = quorum->round->hold;
        view->until_ms = quorum->validity.until_ms;
        view->cap_ms = quorum->validity.cap_ms;
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
    .release = quorum_lock_release,
    .release_async = quorum_lock_release_async,
    .extend = quorum_lock_extend,
    .view = quorum_lock_view,
};
