#include "quorum/lock_async.h"

#include "acquire/async_driver.h"
#include "quorum/acquire.h"

#include "base/debug.h"
#include "base/mem.h"
#include "quorum/acquire_op.h"
#include "quorum/acquire_step.h"
#include "quorum/hold.h"
#include "quorum/lock.h"
#include "quorum/release.h"
#include "quorum/report.h"
#include "quorum/round_release.h"

/* --- acquire --- */

struct acquiring {
    struct hlk_async async;
    struct hlk_quorum_op op;
    struct hlk_quorum_report report;
};

static struct hlk_wait_for quorum_acquiring_step(struct hlk_async *async, unsigned events)
{
    (void)events;
    return hlk_quorum_acquire_step(&HLK_CONTAINER(async, struct acquiring, async)->op);
}

static void quorum_acquiring_end(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    struct acquiring *acquiring = HLK_CONTAINER(async, struct acquiring, async);
    struct hlk_quorum *quorum = acquiring->op.quorum;
    async->status = hlk_quorum_acquire_finish(&acquiring->op);
    if (async->status != HLK_OK) {
        (void)hlk_quorum_fail(quorum, "acquire", async->status, "%s", acquiring->op.error.text);
        (void)hlk_error_set(&async->error, async->status, "%s", hlk_last_error());
    }
    hlk_client *client = quorum->client;
    hlk_quorum_ref(quorum); /* the completion may run at once, and free `acquiring` */
    hlk_quorum_report_complete(quorum, &acquiring->report);
    hlk_quorum_leave(quorum);
    hlk_client_op_end(client);
    hlk_quorum_unref(quorum);
}

static void quorum_acquiring_free(struct hlk_async *async)
{
    hlk_handle_release(&async->lock->handle);
    hlk_mem_free(HLK_CONTAINER(async, struct acquiring, async));
}

enum hlk_status hlk_quorum_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                              hlk_done_fn *done, void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(done);
    static const struct hlk_async_type type = { quorum_acquiring_step, quorum_acquiring_end, quorum_acquiring_free };
    struct acquiring *acquiring = hlk_mem_zalloc(sizeof *acquiring);
    struct hlk_quorum *quorum = acquiring ? hlk_quorum_enter(lock, lock->holder, true) : NULL;
    if (!quorum) {
        hlk_mem_free(acquiring);
        return hlk_quorum_lock_no_memory(lock, "acquire");
    }
    hlk_handle_retain(&lock->handle);
    hlk_async_init(&acquiring->async, &type, lock, owner);
    acquiring->async.done = done;
    acquiring->async.ctx = ctx;
    acquiring->async.touched = true; /* alarms, close and cancel have it from the first step on */
    acquiring->report.job = &acquiring->async.job;
    struct hlk_quorum_terms terms = hlk_quorum_lock_terms(lock, quorum, opts);
    terms.report = &acquiring->report;
    hlk_quorum_op_init(&acquiring->op, quorum, opts, &terms, &acquiring->async.waker);
    hlk_client_op_begin(lock->client);
    enum hlk_status status = hlk_lock_check(lock, "acquire"); /* close waits from here on, or has begun before */
    if (status != HLK_OK) {
        hlk_client_op_end(lock->client);
        hlk_quorum_leave(quorum);
        hlk_async_drop(&acquiring->async);
        return status;
    }
    hlk_quorum_expire(quorum);
    hlk_async_start(&acquiring->async, hlk_quorum_acquire_start(&acquiring->op));
    return HLK_OK;
}

/* --- release --- */

struct releasing {
    struct hlk_job job;
    struct hlk_quorum_report report;
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
    hlk_mutex_assert_none();
    struct releasing *releasing = HLK_CONTAINER(job, struct releasing, job);
    enum hlk_status status = releasing->error.status;
    if (status != HLK_OK)
        (void)hlk_lock_fail(releasing->lock, "release", status, "%s", releasing->error.text);
    releasing->done(releasing->lock, status, releasing->ctx);
    free_releasing(releasing);
}

/* The caller has a reference to the quorum. */
static void complete_quorum_release(struct hlk_quorum *quorum, struct releasing *releasing)
{
    hlk_mutex_assert_none();
    const hlk_lock *lock = releasing->lock;
    if (releasing->done) {
        hlk_quorum_report_complete(quorum, &releasing->report);
        return;
    }
    if (releasing->error.status != HLK_OK)
        hlk_log_write(&lock->client->log, HLK_LOG_WARN, "release \"%.128s\": %s", lock->name, releasing->error.text);
    free_releasing(releasing);
}

static void on_quorum_released(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    struct releasing *releasing = round->ctx;
    hlk_client *client = releasing->lock->client;
    releasing->error.status = hlk_round_released(round, &releasing->error);
    if (releasing->error.status == HLK_E_UNSURE && atomic_load(&client->closing))
        (void)hlk_error_set(&releasing->error, HLK_E_CLOSED, "the client was closed before a majority answered");
    hlk_quorum_count_released(client, releasing->error.status);
    complete_quorum_release(round->quorum, releasing);
}

/* HLK_OK: `releasing` is on its way to its completion. */
static enum hlk_status start_quorum_release(struct hlk_quorum *quorum, struct releasing *releasing)
{
    hlk_mutex_assert_none();
    bool outer;
    struct hlk_round *round = hlk_quorum_begin_release(quorum, &outer);
    if (!outer && !round)
        return hlk_quorum_not_held(quorum, "release", true);
    hlk_handle_retain(&releasing->lock->handle);
    if (releasing->done) {
        hlk_mutex_lock(&quorum->all->mu);
        hlk_quorum_report_add(quorum, &releasing->report);
        hlk_mutex_unlock(&quorum->all->mu);
    }
    if (outer) {
        complete_quorum_release(quorum, releasing);
        return HLK_OK;
    }
    round->ctx = releasing;
    round->on_released = on_quorum_released;
    hlk_round_release(round, releasing->done != NULL);
    hlk_quorum_release_sent(quorum);
    hlk_round_unref(round);
    return HLK_OK;
}

enum hlk_status hlk_quorum_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx)
{
    struct hlk_thread *self = hlk_thread_get();
    struct releasing *releasing = self ? hlk_mem_zalloc(sizeof *releasing) : NULL;
    if (!releasing)
        return hlk_quorum_lock_no_memory(lock, "release");
    *releasing = (struct releasing){ .job.run = run_releasing, .lock = lock, .done = done, .ctx = ctx };
    releasing->report.job = &releasing->job;
    struct hlk_quorum *quorum = hlk_quorum_enter(lock, hlk_lock_holder(lock, self), false);
    enum hlk_status status = quorum ? start_quorum_release(quorum, releasing) : hlk_lock_not_held(lock, "release");
    if (quorum)
        hlk_quorum_leave(quorum);
    if (status != HLK_OK)
        hlk_mem_free(releasing);
    return status;
}
