/* counter.c - those who do not wait for the latch and the barrier: a thread of each process sets the latch again and
 * again and counts it down, deletes it rarely, and resets the barrier rarely. Workers only wait (turn_counted.c), so
 * that somebody is always there who counts. */
#include "worker.h"

#include "support/wait.h"

#include <stdio.h>

enum { COUNT_MAX = 8 };

void make_counted(struct process *process)
{
    char latch[64], barrier[64];
    unsigned long long round = process->soak->round;
    snprintf(latch, sizeof latch, "t-latch-%llu", round);
    snprintf(barrier, sizeof barrier, "t-barrier-%llu", round);
    int64_t lease = soak_chance(&process->rng, 50) ? 0 : 1000 + (int64_t)soak_draw(&process->rng, 500);
    process->latch = hlk_latch_create(process->client, latch);
    process->barrier = hlk_barrier_create(process->client, barrier, PARTIES, lease);
    process->condition = hlk_condition_create(process->client, "t-condition", lease);
    if (!process->latch || !process->barrier || !process->condition)
        test_give_up("latch, barrier or condition: %s", hlk_last_error());
}

void destroy_counted(struct process *process)
{
    hlk_latch_destroy(process->latch);
    hlk_barrier_destroy(process->barrier);
    hlk_condition_destroy(process->condition);
}

static void judge_answer(struct process *process, const char *what, enum hlk_status status)
{
    bool fault = status == HLK_E_UNSURE || status == HLK_E_CONNECT || status == HLK_E_SERVER;
    bool may = status == HLK_OK || status == HLK_BUSY || status == HLK_NOT_HOLDER || (fault && !process->soak->quiet);
    if (!may && !atomic_load(&process->closing))
        soak_wrong(process->soak, "%s: %s: %s", what, hlk_status_name(status), hlk_last_error());
}

static void one_call(struct process *process, struct soak_rng *rng)
{
    struct soak *soak = process->soak;
    uint64_t kind = soak_draw(rng, 1000);
    int64_t n = kind < 300 ? 1 + (int64_t)soak_draw(rng, COUNT_MAX) : 1 + (int64_t)soak_draw(rng, 2);
    if (kind < 300) {
        struct soak_event *event = soak_event_begin(soak, LATCH_SET, n);
        soak_event_end(event, hlk_latch_try_set(process->latch, n), n);
        judge_answer(process, "set of a latch", (enum hlk_status)event->status);
    } else if (kind < 996) {
        struct soak_event *event = soak_event_begin(soak, LATCH_DOWN, n);
        soak_event_end(event, hlk_latch_count_down(process->latch, n, NULL), n);
        judge_answer(process, "count down of a latch", (enum hlk_status)event->status);
    } else if (kind < 998) {
        struct soak_event *event = soak_event_begin(soak, LATCH_DELETE, 0);
        soak_event_end(event, hlk_latch_delete(process->latch), 0);
        judge_answer(process, "delete of a latch", (enum hlk_status)event->status);
    } else {
        struct soak_event *event = soak_event_begin(soak, BARRIER_RESET, 0);
        soak_event_end(event, hlk_barrier_reset(process->barrier), 0);
        judge_answer(process, "reset of a barrier", (enum hlk_status)event->status);
    }
}

/* It ends last: workers may wait for the latch. */
void *counter_main(void *arg)
{
    struct process *process = arg;
    struct soak_rng rng = soak_rng(process->soak, (uint64_t)process->number, (uint64_t)process->incarnation, 200);
    while (!atomic_load(&process->soak->stop) ||
           (atomic_load(&process->working) > 1 && !atomic_load(&process->closing))) {
        soak_rest((int64_t)soak_draw(&rng, 6000));
        one_call(process, &rng);
    }
    atomic_fetch_sub(&process->working, 1);
    return NULL;
}
