#include "turn.h"

#include "support/wait.h"

void worker_report(struct worker *worker, enum hlk_status status)
{
    pthread_mutex_lock(&worker->mu);
    worker->is_done = true;
    worker->status = status;
    worker->done_at = soak_now();
    pthread_cond_signal(&worker->done);
    pthread_mutex_unlock(&worker->mu);
}

void worker_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    worker_report(ctx, status);
}

enum hlk_status worker_wait_done(struct worker *worker)
{
    pthread_mutex_lock(&worker->mu);
    while (!worker->is_done)
        pthread_cond_wait(&worker->done, &worker->mu);
    worker->is_done = false;
    enum hlk_status status = worker->status;
    pthread_mutex_unlock(&worker->mu);
    return status;
}

static struct turn draw(struct worker *worker)
{
    struct soak_rng *rng = &worker->rng;
    struct turn turn = { .opts = HLK_ACQUIRE_OPTS_INIT };
    int lock = soak_draw_lock(rng);
    if (soak_chance(rng, (unsigned)soak_locks[lock].fixed)) {
        turn.opts.lease_ms = turn_draw_lease(rng);
        turn.how |= HOW_FIXED;
    }
    switch (soak_draw(rng, 8)) {
    case 0:
        turn.opts.wait_ms = 0;
        break;
    case 1:
    case 2:
        turn.opts.wait_ms = 1 + (int64_t)soak_draw(rng, soak_chance(rng, 50) ? 20 : 800);
        break;
    default:
        turn.opts.wait_ms = HLK_FOREVER;
    }
    if (soak_chance(rng, 30)) {
        if (hlk_cancel_triggered(worker->cancel))
            hlk_cancel_reset(worker->cancel);
        turn.opts.cancel = worker->cancel;
    }
    if (soak_chance(rng, 20))
        turn.opts.flags |= HLK_ACQUIRE_EINTR;
    if (soak_chance(rng, 60))
        turn.how |= HOW_OWNER;
    if (turn.how & HOW_OWNER && soak_chance(rng, 50)) {
        turn.how |= HOW_ASYNC;
        turn.opts.flags &= ~HLK_ACQUIRE_EINTR;
    }
    turn.lock = lock;
    if (lock == LOCK_MULTI)
        turn_of_many(worker, &turn);
    else if (lock < LOCKS)
        turn_of_one(worker, &turn, lock);
    return turn;
}

static enum hlk_status acquire(struct worker *worker, struct turn *turn)
{
    soak_doing(worker->at, turn->how & HOW_ASYNC ? DOING_ACQUIRE_ASYNC : DOING_ACQUIRE, turn->lock, turn->opts.wait_ms);
    if (!(turn->how & HOW_ASYNC)) {
        int old; /* a cancellation is seen while it waits only: what it got it returns */
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        enum hlk_status got = hlk_lock_acquire_with(turn->handle, &turn->opts);
        pthread_setcancelstate(old, &old);
        return got;
    }
    enum hlk_status status = hlk_lock_acquire_async(turn->handle, &turn->opts, worker_done, worker);
    return status == HLK_OK ? worker_wait_done(worker) : status;
}

void turn_judge_refusal(struct worker *worker, const struct turn *turn, enum hlk_status status)
{
    struct soak *soak = worker->process->soak;
    int64_t took_ms = (soak_now() - turn->asked) / 1000000;
    bool may = false;
    switch (status) {
    case HLK_BUSY:
        may = turn->opts.wait_ms == 0;
        break;
    case HLK_TIMEOUT:
        may = turn->opts.wait_ms > 0 && took_ms + 1 >= turn->opts.wait_ms;
        break;
    case HLK_INTERRUPTED:
        may = turn->opts.cancel || turn->opts.flags & HLK_ACQUIRE_EINTR;
        break;
    case HLK_E_CONNECT:
    case HLK_E_SERVER:
        may = !soak->quiet;
        break;
    case HLK_E_UNSURE:
        may = !soak->quiet && turn->lock == TURN_SEMAPHORE;
        break;
    default:
        break;
    }
    if (!may && !atomic_load(&worker->process->closing))
        soak_wrong(soak, "slot %d thread %d: acquire %s, wait %lld, how %d, after %lld ms: %s: %s",
                   worker->process->number, worker->number, soak_lock_name(turn->lock), (long long)turn->opts.wait_ms,
                   turn->how, (long long)took_ms, hlk_status_name(status), hlk_last_error());
}

static int answer_of(enum hlk_status status)
{
    switch (status) {
    case HLK_OK:
        return 0;
    case HLK_BUSY:
        return 1;
    case HLK_TIMEOUT:
        return 2;
    case HLK_INTERRUPTED:
        return 3;
    default:
        return 4;
    }
}

void turn_note_answer(struct worker *worker, const struct turn *turn, enum hlk_status status)
{
    atomic_fetch_add(&worker->process->soak->answers[answer_of(status)], 1);
    soak_longest(&worker->process->soak->longest_wait_ns[turn->lock], soak_now() - turn->asked);
}

/* The thread ends, by a cancellation or with the lock in its hands: another one takes its place. */
static void leave(void *arg)
{
    struct worker *worker = arg;
    if (worker->event)
        soak_event_end(worker->event, EVENT_DIED, 0);
    worker->event = NULL;
    if (!atomic_load(&worker->process->soak->stop))
        begin_work(worker);
    atomic_fetch_sub(&worker->process->working, 1);
}

/* Now and then a thread forgets what it holds: ORPHANED, and the lease runs out. Never what an owner holds. */
static bool forgets(struct worker *worker, const struct turn *turn)
{
    return !(turn->how & HOW_OWNER) && !worker->process->soak->quiet && soak_draw(&worker->rng, 600) == 0;
}

static void look(struct worker *worker, const struct turn *turn)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    enum hlk_status status = hlk_lock_query(turn->handle, &state);
    if (status == HLK_OK && state.held && !state.holder[0])
        soak_wrong(worker->process->soak, "%s is held by nobody", soak_lock_name(turn->lock));
    if (status != HLK_OK && worker->process->soak->quiet && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "query of %s: %s", soak_lock_name(turn->lock), hlk_last_error());
}

/* False: the thread is to end. */
static bool turn_with_lock(struct worker *worker, struct turn *turn)
{
    enum hlk_status status = acquire(worker, turn);
    turn_note_answer(worker, turn, status);
    if (status != HLK_OK) {
        turn_judge_refusal(worker, turn, status);
        return true;
    }
    turn_hold(worker, turn);
    if (turn->lock == LOCK_CONDITION && turn->depth)
        turn_at_condition(worker, turn);
    if (turn->depth && forgets(worker, turn)) {
        turn_forget(worker, turn);
        return false;
    }
    if (turn->depth)
        turn_release(worker, turn);
    if (turn->lock != LOCK_MULTI && soak_draw(&worker->rng, 200) == 0)
        look(worker, turn);
    return true;
}

static bool one_turn(struct worker *worker)
{
    struct soak *soak = worker->process->soak;
    struct turn turn = draw(worker);
    turn.asked = soak_now();
    if (turn.lock == TURN_SEMAPHORE)
        turn_with_semaphore(worker, &turn);
    else if (turn.lock == TURN_LATCH)
        turn_with_latch(worker, &turn);
    else if (turn.lock == TURN_BARRIER)
        turn_with_barrier(worker, &turn);
    else if (!turn_with_lock(worker, &turn))
        return false;
    soak_doing(worker->at, DOING_NOTHING, turn.lock, 0);
    if (soak_chance(&worker->rng, 50))
        soak_rest((int64_t)soak_draw(&worker->rng, soak->hurry ? UINT64_C(1000) << soak->hurry : 200));
    return true;
}

void *work(void *arg)
{
    struct worker *worker = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_cleanup_push(leave, worker);
    while (!atomic_load(&worker->process->soak->stop) && one_turn(worker))
        ;
    pthread_cleanup_pop(1);
    return NULL;
}

void begin_work(struct worker *worker)
{
    pthread_mutex_lock(&worker->mu);
    atomic_fetch_add(&worker->process->working, 1);
    soak_doing(worker->at, DOING_NOTHING, 0, 0);
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        test_give_up("no thread");
    pthread_detach(worker->thread);
    pthread_mutex_unlock(&worker->mu);
}
