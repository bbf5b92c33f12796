#include "multilock/try_all.h"

#include "acquire/outcome.h"
#include "base/debug.h"
#include "net/pipeline_lead.h"

#include <string.h>

/* --- the start --- */

static void try_complete(void *ctx)
{
    struct hlk_async *async = ctx;
    struct hlk_try_all *tries = async->ctx;
    struct hlk_thread *self = tries->wait.self; /* which outlives the tries */
    if (atomic_fetch_sub(&tries->pending, 1) == 1)
        hlk_park_wake(&self->park, HLK_WAKE_SETTLED);
}

static void on_tries_closing(struct hlk_wait_entry *entry)
{
    hlk_mutex_assert_held(&HLK_CONTAINER(entry, struct hlk_try_all_client, closing)->client->waits_mu);
    hlk_park_wake(&HLK_CONTAINER(entry, struct hlk_try_all_client, closing)->self->park, HLK_WAKE_CLOSED);
}

static void add_client(struct hlk_try_all *tries, hlk_client *client)
{
    HLK_DEBUG_ASSERT(client && tries->client_count <= tries->count);
    for (unsigned i = 0; i < tries->client_count; i++)
        if (tries->clients[i].client == client)
            return;
    struct hlk_try_all_client *own = &tries->clients[tries->client_count++];
    own->client = client;
    own->closing.wake = on_tries_closing;
    own->self = tries->wait.self;
}

/* NULL: no memory; the thread's error is set. */
static struct hlk_acquiring *make_try(struct hlk_try_all *tries, hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(!hlk_lock_group(lock));
    struct hlk_acquire_terms terms;
    if (!hlk_acquire_terms_of(lock, tries->wait.self, &terms))
        return NULL;
    struct hlk_acquiring *acquiring = hlk_acquiring_make(&terms, opts, hlk_lock_owner(lock), try_complete);
    hlk_acquire_terms_end(&terms);
    if (!acquiring) {
        (void)hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    acquiring->async.ctx = tries;
    hlk_acquiring_limit(acquiring, tries->at_ms);
    return acquiring;
}

static void note_try(struct hlk_try_all *tries, unsigned i, enum hlk_status status, const char *text)
{
    HLK_DEBUG_ASSERT(i < tries->count);
    tries->status[i] = status;
    if (hlk_acquire_rank(status) > hlk_acquire_rank(tries->error.status))
        (void)hlk_error_set(&tries->error, status, "%s", text);
}

static void start_try(struct hlk_try_all *tries, unsigned i, hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(i < tries->count && !tries->tries[i]);
    struct hlk_acquiring *acquiring = make_try(tries, lock, opts);
    if (acquiring) {
        add_client(tries, lock->client);
        if (hlk_multi_wait_add(&tries->wait, acquiring->op->server->pipeline))
            hlk_pipeline_hold_back(acquiring->op->server->pipeline, true);
        atomic_fetch_add(&tries->pending, 1);
        acquiring->lazy = true;
        if (hlk_acquiring_start(acquiring, opts) == HLK_OK) {
            tries->tries[i] = acquiring;
            return;
        }
        atomic_fetch_sub(&tries->pending, 1);
    }
    note_try(tries, i, hlk_last_status(), hlk_last_error());
}

static bool all_over(void *ctx)
{
    const struct hlk_try_all *tries = ctx;
    return atomic_load(&tries->pending) == 0;
}

void hlk_try_all_start(struct hlk_try_all *tries, struct hlk_thread *self, hlk_lock *const *locks, unsigned count,
                       const struct hlk_acquire_opts *opts, int64_t at_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(count > 0 && count <= HLK_MULTI_WAIT_MAX && opts->wait_ms == 0);
    memset(tries, 0, sizeof *tries);
    tries->wait.self = self;
    tries->wait.over = all_over;
    tries->wait.ctx = tries;
    tries->wait.mask = HLK_WAKE_CLOSED;
    tries->wait.cancellable = true;
    tries->at_ms = at_ms;
    tries->count = count;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    for (unsigned i = 0; i < count; i++)
        start_try(tries, i, locks[i], opts);
    hlk_multi_wait_hold_back(&tries->wait, false); /* all leave in one write */
}

/* --- the wait --- */

static void step_each(struct hlk_try_all *tries, unsigned event)
{
    hlk_mutex_assert_none();
    for (unsigned i = 0; i < tries->count; i++)
        if (tries->tries[i])
            hlk_async_step(&tries->tries[i]->async, event);
}

static bool one_is_closing(const struct hlk_try_all *tries)
{
    for (unsigned i = 0; i < tries->client_count; i++)
        if (atomic_load(&tries->clients[i].client->closing))
            return true;
    return false;
}

static void watch_for_close(struct hlk_try_all *tries)
{
    for (unsigned i = 0; i < tries->client_count && !tries->asleep; i++)
        hlk_client_wait_add(tries->clients[i].client, &tries->clients[i].closing);
    tries->asleep = true;
}

/* Those of a client that is being closed end at once. */
static void sleep_until(struct hlk_try_all *tries, int64_t at_ms)
{
    hlk_mutex_assert_none();
    watch_for_close(tries);
    do {
        (void)hlk_park_take(&tries->wait.self->park, HLK_WAKE_CLOSED);
        if (one_is_closing(tries))
            step_each(tries, HLK_WAKE_CLOSED);
    } while (!all_over(tries) && hlk_multi_wait_sleep(&tries->wait, at_ms));
}

static void wake_up(struct hlk_try_all *tries)
{
    hlk_multi_wait_end(&tries->wait);
    for (unsigned i = 0; i < tries->client_count && tries->asleep; i++)
        hlk_client_wait_remove(tries->clients[i].client, &tries->clients[i].closing);
    tries->asleep = false;
}

void hlk_try_all_wait(struct hlk_try_all *tries)
{
    hlk_mutex_assert_none();
    if (hlk_multi_wait_poll(&tries->wait, hlk_multi_wait_spin_ns(&tries->wait)))
        return;
    sleep_until(tries, tries->at_ms);
    if (!all_over(tries))
        step_each(tries, HLK_WAKE_TIME);
    sleep_until(tries, INT64_MAX); /* some may be confirmed by replicas still */
    wake_up(tries);
}

/* --- the end --- */

static void stop_each(struct hlk_try_all *tries)
{
    hlk_mutex_assert_none();
    for (unsigned i = 0; i < tries->count; i++)
        if (tries->tries[i])
            hlk_acquiring_stop(tries->tries[i]);
}

void hlk_try_all_end(struct hlk_try_all *tries)
{
    hlk_mutex_assert_none();
    tries->wait.self->cancellable = false; /* it may have been cancelled in its sleep */
    if (!all_over(tries)) {
        stop_each(tries);
        sleep_until(tries, INT64_MAX);
    }
    wake_up(tries);
    for (unsigned i = 0; i < tries->count; i++) {
        struct hlk_async *async = tries->tries[i] ? &tries->tries[i]->async : NULL;
        if (!async)
            continue;
        note_try(tries, i, async->status, async->error.text);
        hlk_async_unref(async);
        tries->tries[i] = NULL;
    }
}
