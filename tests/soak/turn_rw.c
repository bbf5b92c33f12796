/* turn_rw.c - a holder of one half of a read/write lock asks for the other one. */
#include "turn.h"

/* Beside its write hold it has the read half at once. Then either ends first: the writer goes on reading. */
static void read_too(struct worker *worker, struct turn *turn)
{
    struct soak *soak = worker->process->soak;
    struct turn read = { .how = turn->how & HOW_OWNER, .asked = soak_now() };
    turn_of_one(worker, &read, LOCK_READ);
    enum hlk_status status = hlk_lock_acquire(read.handle, soak_chance(&worker->rng, 50) ? HLK_FOREVER : HLK_NOWAIT);
    if (status != HLK_OK) {
        if (soak->quiet && !atomic_load(&worker->process->closing) && turn_is_ours(turn))
            soak_wrong(soak, "a writer may not read: %s: %s", hlk_status_name(status), hlk_last_error());
        return;
    }
    turn_begin(worker, &read);
    if (soak_chance(&worker->rng, 50)) {
        turn_release(worker, turn);
        turn->depth = 0;
        soak_rest((int64_t)soak_draw(&worker->rng, 1500));
        (void)turn_is_ours(&read);
    }
    turn_release(worker, &read);
}

static void write_too(struct worker *worker, struct turn *turn)
{
    hlk_lock *write = turn->how & HOW_OWNER ? worker->owned[LOCK_WRITE] : worker->process->locks[LOCK_WRITE];
    enum hlk_status status = hlk_lock_acquire(write, HLK_NOWAIT);
    bool ours = turn_is_ours(turn);
    if (status == HLK_OK)
        (void)hlk_lock_release(write);
    if (ours && status != HLK_DEADLOCK && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "a reader wants to write: %s: %s", hlk_status_name(status), hlk_last_error());
}

void turn_other_half(struct worker *worker, struct turn *turn)
{
    if (turn->lock == LOCK_WRITE)
        read_too(worker, turn);
    else if (turn->lock == LOCK_READ)
        write_too(worker, turn);
}
