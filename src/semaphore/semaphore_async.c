/* Acquires and releases of a semaphore without a blocked thread. */
#include "semaphore/semaphore_call.h"

#include "acquire/async_acquire.h"
#include "base/debug.h"
#include "base/mem.h"

/* --- acquire --- */

static void on_permits_acquired(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    hlk_mutex_assert_none();
    const struct hlk_semaphore_call *call = ctx;
    (void)lock;
    call->done(call->semaphore, status, call->ctx);
}

enum hlk_status hlk_semaphore_acquire_async(hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, hlk_semaphore_done_fn *done,
                                            void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_semaphore_check_acquire(semaphore, permits, given, &opts);
    if (status == HLK_OK && !done)
        status = hlk_lock_fail(semaphore->lock, "acquire", HLK_E_INVALID, "an async acquire needs a completion");
    if (status != HLK_OK)
        return status;
    struct hlk_acquire_terms terms;
    if (!hlk_semaphore_terms(semaphore, permits, opts.wait_ms == 0, &terms))
        return HLK_E_NOMEM;
    struct hlk_semaphore_call *call = terms.with;
    call->done = done;
    call->ctx = ctx;
    struct hlk_entry *ref = hlk_lock_entry_ref(terms.lock, terms.entry);
    status = hlk_acquire_async_on(&terms, &opts, NULL, on_permits_acquired, call);
    if (ref)
        hlk_entry_unref(ref);
    return status;
}

/* --- release --- */

struct returned {
    struct hlk_release pending;
    struct hlk_job job;
    hlk_semaphore *semaphore; /* referenced */
    hlk_semaphore_done_fn *done;
    void *ctx;
    enum hlk_status status;
    struct hlk_error error;
    char drop_notes[HLK_NOTES_TEXT(HLK_NOTES_SENT)];
};

static void free_returned(struct returned *returned)
{
    hlk_semaphore_unref(returned->semaphore);
    hlk_mem_free(returned);
}

static void run_returned(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct returned *returned = HLK_CONTAINER(job, struct returned, job);
    if (returned->status != HLK_OK)
        (void)hlk_last_set(returned->status, "%s", returned->error.text);
    returned->done(returned->semaphore, returned->status, returned->ctx);
    free_returned(returned);
}

/* The completion may run at once, and destroy the handle. */
static void complete_permits_release(struct returned *returned, enum hlk_status status)
{
    hlk_mutex_assert_none();
    hlk_client *client = returned->semaphore->lock->client;
    returned->status = status;
    if (status != HLK_OK)
        (void)hlk_error_set(&returned->error, status, "%s", hlk_last_error());
    if (!returned->done) {
        if (status != HLK_OK)
            hlk_log(&hlk_lock_node(returned->semaphore->lock)->endpoint.log, HLK_LOG_WARN, "%s", returned->error.text);
        free_returned(returned);
        return;
    }
    returned->job.run = run_returned;
    hlk_client_ref(client);
    hlk_client_complete(client, &returned->job);
    hlk_client_unref(client);
}

static void on_returned(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct returned *returned = HLK_CONTAINER(pending, struct returned, pending);
    complete_permits_release(returned, hlk_semaphore_released(returned->semaphore, pending, outcome, error));
}

static void start_permits_release(hlk_semaphore *semaphore, struct returned *returned, int64_t permits)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(permits > 0);
    hlk_lock *lock = semaphore->lock;
    returned->semaphore = semaphore;
    hlk_semaphore_ref(semaphore);
    if (hlk_semaphore_passes(semaphore, permits)) {
        complete_permits_release(returned, HLK_OK);
        return;
    }
    (void)hlk_notes_take(semaphore->notes, returned->drop_notes, HLK_NOTES_SENT);
    hlk_semaphore_fill_release(&returned->pending, lock, permits, HLK_SEMAPHORE_RELEASE, returned->drop_notes);
    returned->pending.settled = on_returned;
    hlk_release_start(&hlk_lock_node(lock)->releases, &returned->pending, NULL, returned->done != NULL);
}

enum hlk_status hlk_semaphore_release_async(hlk_semaphore *semaphore, int64_t permits, hlk_semaphore_done_fn *done,
                                            void *ctx)
{
    enum hlk_status status = hlk_semaphore_check(semaphore, "release", permits, 1);
    if (status != HLK_OK)
        return status;
    hlk_client *client = semaphore->lock->client;
    struct returned *returned = hlk_thread_get() ? hlk_mem_zalloc(sizeof *returned) : NULL;
    if (!returned)
        return hlk_lock_fail(semaphore->lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    returned->done = done;
    returned->ctx = ctx;
    hlk_client_ref(client); /* the completion may run before this function ends, and destroy the handle */
    hlk_client_op_begin(client);
    status = hlk_semaphore_check(semaphore, "release", permits, 1); /* close waits for this call, or has begun before */
    if (status == HLK_OK)
        start_permits_release(semaphore, returned, permits);
    else
        hlk_mem_free(returned);
    hlk_client_op_end(client);
    hlk_client_unref(client);
    return status;
}
