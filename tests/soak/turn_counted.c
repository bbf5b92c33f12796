/* turn_counted.c - a worker waits for the latch, or is a party of the barrier. Both hold nothing. */
#include "turn.h"

static void on_latch(hlk_latch *latch, enum hlk_status status, void *ctx)
{
    (void)latch;
    worker_report(ctx, status);
}

static void on_barrier(hlk_barrier *barrier, enum hlk_status status, unsigned index, void *ctx)
{
    (void)barrier;
    struct worker *worker = ctx;
    worker->index = index; /* seen by who sees the report */
    worker_report(worker, status);
}

static enum hlk_status await(struct worker *worker, const struct turn *turn, unsigned *index)
{
    struct process *process = worker->process;
    bool is_latch = turn->lock == TURN_LATCH;
    if (!(turn->how & HOW_ASYNC)) {
        int old;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        enum hlk_status got = is_latch ? hlk_latch_await_with(process->latch, &turn->opts)
                                       : hlk_barrier_await_with(process->barrier, &turn->opts, index);
        pthread_setcancelstate(old, &old);
        return got;
    }
    enum hlk_status status = is_latch ? hlk_latch_await_async(process->latch, &turn->opts, on_latch, worker)
                                      : hlk_barrier_await_async(process->barrier, &turn->opts, on_barrier, worker);
    if (status == HLK_OK)
        status = worker_wait_done(worker);
    *index = worker->index;
    return status;
}

static void wait_for(struct worker *worker, struct turn *turn, int what)
{
    unsigned index = PARTIES;
    soak_doing(worker->at, turn->how & HOW_ASYNC ? DOING_ACQUIRE_ASYNC : DOING_ACQUIRE, turn->lock, turn->opts.wait_ms);
    worker->event = soak_event_begin(worker->process->soak, what, 0);
    enum hlk_status status = await(worker, turn, &index);
    soak_event_end(worker->event, status, (int64_t)index);
    worker->event = NULL;
    turn_note_answer(worker, turn, status);
    bool judged = status == HLK_OK || status == (what == LATCH_AWAIT ? HLK_LOST : HLK_BROKEN); /* by the judge */
    if (!judged)
        turn_judge_refusal(worker, turn, status);
}

void turn_with_latch(struct worker *worker, struct turn *turn)
{
    wait_for(worker, turn, LATCH_AWAIT);
}

/* None waits without a limit: a party may be the last one that comes, in the end. Most wait for long and are not
 * cancelled: each that leaves breaks a generation, and may stand for a party that is missing (judge_barrier.c). */
void turn_with_barrier(struct worker *worker, struct turn *turn)
{
    if (turn->opts.wait_ms < 0 || soak_chance(&worker->rng, 85)) {
        turn->opts.wait_ms = 2000 + (int64_t)soak_draw(&worker->rng, 2000);
        turn->opts.cancel = NULL;
        turn->opts.flags = 0;
    }
    wait_for(worker, turn, BARRIER_AWAIT);
}
