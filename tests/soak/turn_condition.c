/* turn_condition.c - the holder of a lock waits at the condition beside it, or wakes those who do. A wait gives the
 * lock up and has it again: two holds, and the judge looks at both. */
#include "turn.h"

static void wait_is_judged(struct worker *worker, const struct hlk_acquire_opts *opts, enum hlk_status status)
{
    bool may = false;
    switch (status) {
    case HLK_BUSY:
        may = opts->wait_ms == 0;
        break;
    case HLK_TIMEOUT:
        may = opts->wait_ms > 0;
        break;
    case HLK_INTERRUPTED:
        may = opts->cancel || opts->flags & HLK_ACQUIRE_EINTR;
        break;
    case HLK_E_CONNECT:
    case HLK_E_SERVER:
    case HLK_E_UNSURE:
        may = !worker->process->soak->quiet;
        break;
    case HLK_OK:
    case HLK_LOST:
        may = true;
        break;
    default:
        break;
    }
    if (!may && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "a wait at the condition, for %lld ms: %s: %s", (long long)opts->wait_ms,
                   hlk_status_name(status), hlk_last_error());
}

/* Never without a limit: the signals may all have been there before. */
static void draw_wait(struct worker *worker, const struct turn *turn, struct hlk_acquire_opts *opts)
{
    *opts = turn->opts;
    opts->lease_ms = 0;
    if (opts->wait_ms != 0)
        opts->wait_ms = 20 + (int64_t)soak_draw(&worker->rng, 400);
}

static void wait_at_condition(struct worker *worker, struct turn *turn)
{
    struct hlk_acquire_opts opts;
    draw_wait(worker, turn, &opts);
    turn_forget(worker, turn);
    soak_doing(worker->at, DOING_ACQUIRE, turn->lock, opts.wait_ms);
    worker->event = soak_event_begin(worker->process->soak, CONDITION_WAIT, opts.wait_ms);
    int64_t asked = worker->event->begin;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    enum hlk_status status = hlk_condition_wait_with(worker->process->condition, turn->handle, &opts);
    pthread_setcancelstate(old, &old);
    soak_event_end(worker->event, status, opts.wait_ms);
    worker->event = NULL;
    wait_is_judged(worker, &opts, status);
    soak_doing(worker->at, DOING_HOLD, turn->lock, 0);
    int holds = hlk_lock_holds(turn->handle);
    if (status == HLK_OK || status == HLK_TIMEOUT || status == HLK_BUSY)
        turn->asked = asked; /* else it is the hold of before */
    if (holds > 0)
        turn_begin(worker, turn);
    turn->depth = holds > 0 ? holds : 0;
}

/* Its holder may have lost the lock before. So it says afterwards whether it had it all the time. */
static void wake(struct worker *worker, struct turn *turn)
{
    hlk_condition *condition = worker->process->condition;
    bool all = soak_chance(&worker->rng, 40);
    struct soak_event *event = soak_event_begin(worker->process->soak, all ? CONDITION_BROADCAST : CONDITION_SIGNAL, 0);
    enum hlk_status status = all ? hlk_condition_broadcast(condition) : hlk_condition_signal(condition);
    soak_event_end(event, status, turn_is_ours(turn));
    bool fault = status == HLK_E_UNSURE || status == HLK_E_CONNECT || status == HLK_E_SERVER;
    if (status != HLK_OK && !(fault && !worker->process->soak->quiet) && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "a signal to the condition: %s: %s", hlk_status_name(status),
                   hlk_last_error());
}

void turn_at_condition(struct worker *worker, struct turn *turn)
{
    if (!turn_is_ours(turn))
        return;
    if (soak_chance(&worker->rng, 40))
        wait_at_condition(worker, turn);
    else if (soak_chance(&worker->rng, 60))
        wake(worker, turn);
}
