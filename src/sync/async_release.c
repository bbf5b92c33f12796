/* Release without a blocked thread: the end goes into the stream, the completion comes with its outcome. */
#include "sync/handle.h"

#include "base/mem.h"

struct released {
    struct hlk_undo undo;
    struct hlk_job job;
    hlk_lock *lock;      /* its via is referenced */
    struct hlk_via *via; /* through which it was taken */
    hlk_done_fn *done;   /* NULL: nobody asks */
    void *ctx;
    enum hlk_status status;
    struct hlk_error told;
};

static void free_released(struct released *released)
{
    hlk_via_unref(released->via);
    hlk_via_unref(&released->lock->via);
    hlk_mem_free(released);
}

static void run_released(struct hlk_job *job)
{
    struct released *released = HLK_CONTAINER(job, struct released, job);
    if (released->status != HLK_OK)
        (void)hlk_last_set(released->status, "%s", released->told.text);
    released->done(released->lock, released->status, released->ctx);
    free_released(released);
}

static void complete(struct released *released, enum hlk_status status, const char *why)
{
    released->status = status;
    if (status != HLK_OK)
        (void)hlk_error_set(&released->told, status, "release \"%s\" at %s: %s", hlk_lock_text(released->lock),
                            released->lock->client->endpoint.url.shown, why);
    if (released->done) {
        released->job.run = run_released;
        hlk_client_complete(released->lock->client, &released->job);
        return;
    }
    if (status != HLK_OK)
        hlk_log(&released->lock->client->endpoint.log, HLK_LOG_WARN, "%s", released->told.text);
    free_released(released);
}

static void on_settled(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct released *released = HLK_CONTAINER(undo, struct released, undo);
    hlk_lock *lock = released->lock;
    struct hlk_error why = error ? *error : (struct hlk_error){ .status = HLK_OK };
    enum hlk_status status = hlk_lock_released(lock->client, undo, lock->session, released->via, outcome, &why);
    struct hlk_session *s = lock->session;
    hlk_client *client = lock->client;
    bool tells = released->done;
    hlk_client_ref(client); /* the completion may run at once, and destroy the handle; then nothing else keeps them */
    hlk_session_ref(s);
    complete(released, status, why.text);
    if (tells)
        hlk_session_end_told(s);
    hlk_session_unref(s);
    hlk_client_unref(client);
}

static void start_end(hlk_lock *lock, struct released *released, const struct hlk_parting *parting)
{
    hlk_table_fill_end(&released->undo, lock->session, parting);
    released->undo.settled = on_settled;
    bool eager = released->done != NULL;
    struct hlk_session *s = lock->session;
    hlk_session_ref(s); /* the completion may run before we are through, and destroy the handle */
    if (eager)
        hlk_session_end_untold(s);
    hlk_undo_start(&lock->client->undos, &released->undo, NULL, eager);
    hlk_session_ended(s);
    hlk_session_unref(s);
}

static enum hlk_status release(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    struct hlk_self *self = hlk_self_get();
    struct released *released = self ? hlk_mem_zalloc(sizeof *released) : NULL;
    if (!released)
        return hlk_lock_fails(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    released->lock = lock;
    released->done = done;
    released->ctx = ctx;
    struct hlk_parting parting;
    switch (hlk_session_let_go(lock->session, hlk_lock_holder(lock, self).id, &parting)) {
    case HLK_LET_LAST:
        hlk_via_ref(&lock->via);
        released->via = hlk_session_via(lock->session);
        start_end(lock, released, &parting);
        return HLK_OK;
    case HLK_LET_WRITE:
        hlk_lock_write_count(lock, parting.h, parting.count);
        break;
    case HLK_LET_PASSED:
        HLK_COUNT(&lock->client->table, released);
        break;
    case HLK_LET_NESTED:
        break;
    case HLK_LET_LOST:
        hlk_mem_free(released);
        return hlk_lock_fails(lock, "release", HLK_LOST, "the hold was lost (%s); it is off this holder's account now",
                              parting.why);
    case HLK_LET_OWED:
    case HLK_LET_NOT_HOLDER:
        hlk_mem_free(released);
        return hlk_lock_not_held(lock, "release");
    }
    hlk_via_ref(&lock->via);
    complete(released, HLK_OK, "");
    return HLK_OK;
}

static enum hlk_status release_seated(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    enum hlk_status status = hlk_lock_check(lock, "release"); /* from here on close waits for it, or has begun before */
    if (status != HLK_OK)
        return status;
    hlk_lock *seat = hlk_lock_seat(lock, "release");
    status = seat ? release(seat, done, ctx) : HLK_E_NOMEM;
    hlk_lock_unseat(lock, seat);
    return status;
}

enum hlk_status hlk_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    enum hlk_status status = hlk_lock_check(lock, "release");
    if (status != HLK_OK)
        return status;
    if (!lock->holder.id && done)
        return hlk_lock_fails(lock, "release", HLK_E_INVALID, "a completion needs a lock made with an owner");
    hlk_client *client = lock->client;
    hlk_client_ref(client); /* the completion may run before we are through, and destroy the handle */
    hlk_client_request_begins(client);
    status = release_seated(lock, done, ctx);
    hlk_client_request_ends(client);
    hlk_client_unref(client);
    return status;
}
