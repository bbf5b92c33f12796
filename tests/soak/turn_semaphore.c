/* turn_semaphore.c - a worker takes permits of the semaphore, and gives them back. */
#include "semaphores.h"
#include "turn.h"

static void on_semaphore(hlk_semaphore *semaphore, enum hlk_status status, void *ctx)
{
    (void)semaphore;
    worker_report(ctx, status);
}

static hlk_semaphore *current(struct worker *worker)
{
    int generation = atomic_load(&worker->process->soak->semaphore);
    if (worker->semaphore && worker->semaphore_generation == generation)
        return worker->semaphore;
    char name[SEMAPHORE_NAME];
    semaphore_name(name, worker->process->soak, generation);
    hlk_semaphore_destroy(worker->semaphore);
    worker->semaphore = hlk_semaphore_create(worker->process->client, name);
    worker->semaphore_generation = generation;
    if (!worker->semaphore && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "a semaphore is not made: %s", hlk_last_error());
    return worker->semaphore;
}

static enum hlk_status take(struct worker *worker, const struct turn *turn, int64_t permits)
{
    if (!(turn->how & HOW_ASYNC)) {
        int old;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        enum hlk_status got = hlk_semaphore_acquire_with(worker->semaphore, permits, &turn->opts);
        pthread_setcancelstate(old, &old);
        return got;
    }
    enum hlk_status status = hlk_semaphore_acquire_async(worker->semaphore, permits, &turn->opts, on_semaphore, worker);
    return status == HLK_OK ? worker_wait_done(worker) : status;
}

static enum hlk_status give_back_once(struct worker *worker, int64_t permits)
{
    uint64_t kind = soak_draw(&worker->rng, 100);
    if (kind < 50)
        return hlk_semaphore_release(worker->semaphore, permits);
    if (kind < 60)
        return hlk_semaphore_release_if_exists(worker->semaphore, permits);
    bool asked = kind < 80;
    enum hlk_status status =
        hlk_semaphore_release_async(worker->semaphore, permits, asked ? on_semaphore : NULL, worker);
    return asked && status == HLK_OK ? worker_wait_done(worker) : status;
}

/* It happens once, now or in the background, and is never called again: also not after HLK_E_SERVER, which here is a
 * refusal that passes (the server is a replica, or has none). */
static void give_back(struct worker *worker, int64_t permits)
{
    struct soak *soak = worker->process->soak;
    enum hlk_status status = give_back_once(worker, permits);
    bool goes_on = status == HLK_E_UNSURE || status == HLK_E_CONNECT || status == HLK_E_SERVER ||
                   status == HLK_NOT_HOLDER; /* of a generation that was lost */
    atomic_fetch_add(&soak->answers[status == HLK_OK ? 8 : 10], 1);
    if (status == HLK_OK)
        return;
    atomic_fetch_add(&soak->semaphore_kept, (uint64_t)permits);
    if ((soak->quiet || !goes_on) && !atomic_load(&worker->process->closing))
        soak_wrong(soak, "release of a semaphore: %s: %s", hlk_status_name(status), hlk_last_error());
}

void turn_with_semaphore(struct worker *worker, struct turn *turn)
{
    struct process *process = worker->process;
    int64_t permits = 1 + (soak_chance(&worker->rng, 30) ? (int64_t)soak_draw(&worker->rng, 3) : 0);
    if (!current(worker))
        return;
    soak_doing(worker->at, turn->how & HOW_ASYNC ? DOING_ACQUIRE_ASYNC : DOING_ACQUIRE, turn->lock, turn->opts.wait_ms);
    enum hlk_status status = take(worker, turn, permits);
    turn_note_answer(worker, turn, status);
    if (status != HLK_OK) {
        turn_judge_refusal(worker, turn, status);
        return;
    }
    struct soak_hold *hold =
        soak_acquired(process->soak, turn->asked, TURN_SEMAPHORE, process->number, worker->number, turn->how);
    hold->token = worker->semaphore_generation;
    hold->permits = (int16_t)permits;
    hold->until = INT64_MAX;
    atomic_store(&hold->ready, 1);
    soak_doing(worker->at, DOING_HOLD, turn->lock, 0);
    if (soak_chance(&worker->rng, 45))
        soak_rest((int64_t)soak_draw(&worker->rng, soak_chance(&worker->rng, 96) ? 1500 : 20000));
    soak_doing(worker->at, DOING_RELEASE, turn->lock, 0);
    atomic_store(&hold->end, soak_now());
    give_back(worker, permits);
}
