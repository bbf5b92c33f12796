/* burst.c - owners that ask for one lock at once, or for one each, by completions, and give it back in them: what a
 * server with an event loop does. */
#include "worker.h"

#include "support/wait.h"

static void on_got(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct member *member = ctx;
    struct process *process = member->process;
    struct soak *soak = process->soak;
    if (status == HLK_OK) {
        struct soak_hold *hold =
            soak_acquired(soak, member->asked, member->lock, process->number, THREADS + (int)(member - process->burst),
                          HOW_ASYNC | HOW_OWNER | HOW_END_ASYNC);
        bool counts = begin_hold(process, hold, lock, member->lock != LOCK_PERMITS);
        end_hold(process, hold);
        enum hlk_status released = hlk_lock_release_async(lock, NULL, NULL);
        if (counts && released != HLK_OK && released != HLK_LOST && !atomic_load(&process->closing))
            soak_wrong(soak, "release from a completion of %s: %s", soak_lock_name(member->lock), hlk_last_error());
        atomic_fetch_add(&soak->answers[released == HLK_OK ? 8 : 9], 1);
    } else if ((status == HLK_BUSY && !member->tries) || status == HLK_NOT_HOLDER || status == HLK_E_INVALID) {
        soak_wrong(soak, "a wait of the burst for %s: %s", soak_lock_name(member->lock), hlk_last_error());
    }
    atomic_fetch_add(&soak->answers[status == HLK_OK ? 0 : status == HLK_TIMEOUT ? 2 : 4], 1);
    atomic_fetch_sub(&process->burst_waits, 1);
}

/* All ask in one breath. */
static void gather(struct process *process, struct soak_rng *rng)
{
    int lock = (int)soak_draw(rng, LOCKS);
    bool spread = soak_chance(rng, 40), tries = spread && soak_chance(rng, 50);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = tries ? HLK_NOWAIT : soak_chance(rng, 60) ? HLK_FOREVER : 1 + (int64_t)soak_draw(rng, 300);
    atomic_store(&process->burst_waits, BURST);
    for (int i = 0; i < BURST; i++) {
        struct member *member = &process->burst[i];
        member->lock = spread ? (lock + i) % LOCKS : lock;
        member->tries = tries;
        member->asked = soak_now();
        if (hlk_lock_acquire_async(member->locks[member->lock], &opts, on_got, member) != HLK_OK) {
            if (!atomic_load(&process->closing))
                soak_wrong(process->soak, "the burst for %s: %s", soak_lock_name(member->lock), hlk_last_error());
            atomic_fetch_sub(&process->burst_waits, 1);
        }
    }
}

void *burst_main(void *arg)
{
    struct process *process = arg;
    struct soak_rng rng = soak_rng(process->soak, (uint64_t)process->number, (uint64_t)process->incarnation, 100);
    while (!atomic_load(&process->soak->stop)) {
        test_sleep_ms((int64_t)soak_draw(&rng, 40));
        gather(process, &rng);
        while (atomic_load(&process->burst_waits) > 0)
            test_sleep_ms(1);
    }
    atomic_fetch_sub(&process->working, 1);
    return NULL;
}
