/* The same lock without a blocked thread: who steps a request, and how long it lives. What a step does:
 * async_step.c. */
#include "sync/async.h"

#include "base/clock.h"
#include "base/mem.h"

static void step_all(struct hlk_async *async);

/* --- wake-ups --- */

void hlk_async_wake(struct hlk_async *async, unsigned bit)
{
    atomic_fetch_or(&async->bits, bit);
    hlk_loop_post(async->r->lock->client->loop, &async->post);
}

static void free_async(struct hlk_async *async)
{
    hlk_owner *owner = async->owner;
    hlk_request_free(async->r);
    hlk_mem_free(async);
    hlk_owner_destroy(owner);
}

static void on_end(struct hlk_post *post)
{
    free_async(HLK_CONTAINER(post, struct hlk_async, end));
}

/* What the loop may still have in its hands is freed on the loop. */
static void unref(struct hlk_async *async)
{
    if (atomic_fetch_sub(&async->refs, 1) != 1)
        return;
    hlk_loop *loop = async->r->lock->client->loop;
    if (!async->touched || !hlk_loop_try_post(loop, &async->end))
        free_async(async);
}

static void on_post(struct hlk_post *post)
{
    struct hlk_async *async = HLK_CONTAINER(post, struct hlk_async, post);
    if (atomic_load(&async->refs) > 0)
        step_all(async); /* else its end is posted */
}

static void on_alarm(struct hlk_alarm *alarm)
{
    struct hlk_async *async = HLK_CONTAINER(alarm, struct hlk_async, alarm);
    if (atomic_load(&async->refs) == 0)
        return; /* its last post is queued */
    atomic_fetch_or(&async->bits, HLK_WAKE_TIME);
    step_all(async);
}

static void on_up(struct hlk_up *up)
{
    struct hlk_async *async = HLK_CONTAINER(up, struct hlk_async, up);
    if (atomic_load(&async->refs) == 0)
        return;
    atomic_fetch_or(&async->bits, HLK_WAKE_UP);
    step_all(async);
}

void hlk_async_on_answer(struct hlk_call *call)
{
    struct hlk_request *r = HLK_CONTAINER(call, struct hlk_request, q.call);
    struct hlk_async *async = r->async;
    atomic_fetch_or(&async->bits, HLK_WAKE_REPLY);
    step_all(async);
    unref(async); /* the flight's */
}

/* --- the end --- */

static void run_done(struct hlk_job *job)
{
    struct hlk_async *async = HLK_CONTAINER(job, struct hlk_async, job);
    if (async->status != HLK_OK)
        (void)hlk_last_set(async->status, "%s", async->told.text);
    async->done(async->r->lock, async->status, async->ctx);
    unref(async);
}

void hlk_async_finish(struct hlk_async *async)
{
    struct hlk_request *r = async->r;
    hlk_client *client = r->lock->client;
    async->over = true;
    if (async->touched) {
        hlk_loop_cancel(client->loop, &async->alarm);
        (void)hlk_mux_forget_up(client->mux, &async->up);
    }
    if (r->machine.status == HLK_OK && !async->raising && atomic_load(&client->closing)) {
        hlk_table_give_back(r->lock->session, r->turn.holder.id); /* as in sync/lock.c */
        r->machine.status = hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    }
    if (async->raising && r->machine.status != HLK_OK) {
        hlk_session_may_last(r->lock->session, r->q.hold, hlk_clock_ms() + client->reply_ms + r->lease_ms);
        hlk_session_lower(r->lock->session, r->turn.holder.id, r->q.hold);
    }
    hlk_request_leave(r);
    async->status = hlk_request_report(r, r->machine.status);
    if (async->status != HLK_OK)
        (void)hlk_error_set(&async->told, async->status, "%s", hlk_last_error());
}

static void complete(void *ctx)
{
    struct hlk_async *async = ctx;
    hlk_client_complete(async->r->lock->client, &async->job);
}

/* The last that this thread does with it. Others of the same owner complete after it. */
static void conclude(struct hlk_async *async)
{
    struct hlk_session *s = async->r->lock->session;
    hlk_client *client = async->r->lock->client;
    hlk_client_ref(client); /* the completion may run at once, and destroy the handle; then nothing else keeps them */
    hlk_session_ref(s);
    if (async->r->won && !async->raising) /* a nested hold is no win: who holds now may be another, and not told yet */
        hlk_session_tell_line(s, async->r->turn.holder.id, complete, async);
    else
        complete(async);
    hlk_session_unref(s);
    hlk_client_request_ends(client);
    hlk_client_unref(client);
}

/* Steps until no event is left; the caller is the one that runs it. When it is over it stays "running" for ever. */
static void run(struct hlk_async *async)
{
    for (;;) {
        unsigned bits = atomic_fetch_and(&async->bits, HLK_ASYNC_RUNNING) & ~HLK_ASYNC_RUNNING;
        if (bits && !async->over)
            hlk_async_step(async, bits);
        if (async->over) {
            conclude(async);
            return;
        }
        unsigned running = HLK_ASYNC_RUNNING;
        if (!bits && atomic_compare_exchange_strong(&async->bits, &running, 0))
            return;
    }
}

static void step_all(struct hlk_async *async)
{
    if (!(atomic_fetch_or(&async->bits, HLK_ASYNC_RUNNING) & HLK_ASYNC_RUNNING))
        run(async);
}

/* --- acquire --- */

enum hlk_status hlk_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *given, hlk_done_fn *done,
                                       void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_request_read_opts(lock, "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    hlk_owner *owner = atomic_load(&lock->owner); /* none of a destroyed handle, in a completion */
    if (!owner || !done)
        return hlk_lock_fails(lock, "acquire", HLK_E_INVALID,
                              done ? "an async acquire needs a lock made with an owner"
                                   : "an async acquire needs a completion");
    struct hlk_async *async = hlk_mem_zalloc(sizeof *async);
    struct hlk_request *r = async ? hlk_request_make(lock, &opts, lock->holder) : NULL;
    if (!r) {
        hlk_mem_free(async);
        return hlk_lock_fails(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    }
    status = hlk_lock_check(lock, "acquire"); /* from here on close waits for it, or has begun before */
    if (status != HLK_OK) {
        hlk_request_leave(r);
        hlk_request_free(r);
        hlk_mem_free(async);
        return status;
    }
    r->async = async;
    r->turn.completes = true;
    r->eintr = false;
    async->r = r;
    async->done = done;
    async->ctx = ctx;
    async->patience_at_ms = INT64_MAX;
    async->post.run = on_post;
    async->end.run = on_end;
    async->owner = owner;
    atomic_fetch_add(&owner->refs, 1);
    async->alarm.fire = on_alarm;
    async->up.run = on_up;
    async->job.run = run_done;
    atomic_init(&async->refs, 1);
    atomic_init(&async->bits, HLK_ASYNC_RUNNING);
    hlk_async_start(async);
    run(async);
    return HLK_OK;
}
