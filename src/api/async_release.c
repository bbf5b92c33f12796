/* Release without a blocked thread: the release is written to the stream, and a completion reports its outcome. */
#include "handle/handle.h"

#include "api/release.h"
#include "base/debug.h"
#include "base/mem.h"
#include "handle/send.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/holding.h"
#include "lease/local_queue.h"

struct released {
    struct hlk_release pending;
    struct hlk_job job;
    hlk_lock *lock; /* its handle is referenced, and so is: */
    struct hlk_entry *e;
    struct hlk_handle *handle; /* through which the lock was acquired */
    hlk_done_fn *done;         /* NULL: no completion */
    void *ctx;
    enum hlk_status status;
    struct hlk_error error;
};

static void free_released(struct released *released)
{
    HLK_DEBUG_ASSERT(released->e);
    hlk_handle_release(released->handle);
    hlk_entry_unref(released->e);
    hlk_handle_release(&released->lock->handle);
    hlk_mem_free(released);
}

static void run_released(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct released *released = HLK_CONTAINER(job, struct released, job);
    if (released->status != HLK_OK)
        (void)hlk_last_set(released->status, "%s", released->error.text);
    released->done(released->lock, released->status, released->ctx);
    free_released(released);
}

static void async_release_complete(struct released *released, enum hlk_status status, const char *why)
{
    hlk_mutex_assert_none();
    const struct hlk_endpoint *endpoint = &released->e->node->endpoint;
    released->status = status;
    if (status != HLK_OK)
        (void)hlk_error_set(&released->error, status, "release \"%s\" at %s: %s", hlk_lock_text(released->lock),
                            endpoint->url.shown, why);
    if (released->done) {
        released->job.run = run_released;
        hlk_client_complete(released->lock->client, &released->job);
        return;
    }
    if (status != HLK_OK)
        hlk_log(&endpoint->log, HLK_LOG_WARN, "%s", released->error.text);
    free_released(released);
}

static void async_release_on_settled(struct hlk_release *pending, enum hlk_release_outcome outcome,
                                     const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct released *released = HLK_CONTAINER(pending, struct released, pending);
    struct hlk_entry *e = released->e;
    hlk_client *client = released->lock->client;
    struct hlk_error why = error ? *error : (struct hlk_error){ .status = HLK_OK };
    enum hlk_status status = hlk_lock_released(client, pending, e, released->handle, outcome, &why);
    bool tells = released->done;
    hlk_client_ref(client); /* the completion may run at once and destroy the handle; then these references keep them */
    hlk_entry_ref(e);
    async_release_complete(released, status, why.text);
    if (tells)
        hlk_entry_release_reported(e);
    hlk_entry_unref(e);
    hlk_client_unref(client);
}

static void start_release(struct released *released, const struct hlk_release_record *record)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(record->h);
    struct hlk_entry *e = released->e;
    hlk_hold_end_fill(&released->pending, e, record);
    released->pending.settled = async_release_on_settled;
    bool eager = released->done != NULL;
    hlk_entry_ref(e); /* the completion may run before this function ends, and destroy the handle */
    if (eager)
        hlk_entry_release_unreported(e);
    hlk_release_start(&e->node->releases, &released->pending, NULL, eager);
    hlk_entry_release_finish(e);
    hlk_entry_unref(e);
}

static enum hlk_status async_release_release(hlk_lock *lock, struct hlk_entry *e, uint64_t holder, hlk_done_fn *done,
                                             void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(holder);
    struct released *released = hlk_mem_zalloc(sizeof *released);
    if (!released)
        return hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    released->lock = lock;
    released->e = e;
    released->done = done;
    released->ctx = ctx;
    struct hlk_release_record record;
    switch (hlk_entry_release(e, holder, &record)) {
    case HLK_VERDICT_LAST:
        hlk_handle_retain(&lock->handle);
        hlk_entry_ref(e);
        released->handle = hlk_entry_handle(e);
        start_release(released, &record);
        return HLK_OK;
    case HLK_VERDICT_WRITE:
        hlk_lock_write_count(lock, e, record.h, record.count);
        break;
    case HLK_VERDICT_PASSED:
        HLK_COUNT(&lock->client->table, released);
        break;
    case HLK_VERDICT_NESTED:
        break;
    case HLK_VERDICT_LOST:
        hlk_mem_free(released);
        return hlk_lock_fail(lock, "release", HLK_LOST, "the hold was lost (%s); this release was counted", record.why);
    case HLK_VERDICT_UNSURE:
    case HLK_VERDICT_NOT_HOLDER:
        hlk_mem_free(released);
        return hlk_lock_not_held(lock, "release");
    }
    hlk_handle_retain(&lock->handle);
    hlk_entry_ref(e);
    async_release_complete(released, HLK_OK, "");
    return HLK_OK;
}

static enum hlk_status release_of_entry(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    enum hlk_status status = hlk_lock_check(lock, "release"); /* close now waits for this call, or has begun before */
    if (status != HLK_OK)
        return status;
    if (hlk_lock_group(lock))
        return hlk_lock_group(lock)->release_async(lock, done, ctx);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    uint64_t holder = hlk_lock_holder(lock, self).id;
    struct hlk_entry *e = hlk_lock_entry(lock, "release", holder);
    if (!e)
        return HLK_E_NOMEM;
    struct hlk_entry *ref = hlk_lock_entry_ref(lock, e);
    status = async_release_release(lock, e, holder, done, ctx);
    if (ref)
        hlk_entry_unref(ref);
    return status;
}

enum hlk_status hlk_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    enum hlk_status status = hlk_lock_check(lock, "release");
    if (status != HLK_OK)
        return status;
    if (!lock->holder.id && done)
        return hlk_lock_fail(lock, "release", HLK_E_INVALID, "a completion needs a lock made with an owner");
    hlk_client *client = lock->client;
    hlk_client_ref(client); /* the completion may run before this function ends, and destroy the handle */
    hlk_client_op_begin(client);
    status = release_of_entry(lock, done, ctx);
    hlk_client_op_end(client);
    hlk_client_unref(client);
    return status;
}
