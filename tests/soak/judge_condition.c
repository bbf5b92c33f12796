/* judge_condition.c - in a round without faults no wait at the condition misses a broadcast.
 *
 * Who waits had the lock when its wait began. Who broadcasts later and has the lock all the time got it after the wait
 * gave it up. So the wait was in Redis by then, and if the broadcast was answered before the wait's time was over, the
 * wait does not end with HLK_TIMEOUT. Rounds with faults are judged by the holds before and after a wait. */
#include "judge.h"

/* HLK_OK, and its caller had the lock all the time. */
static bool counts(const struct soak_event *event)
{
    return event->what == CONDITION_BROADCAST && event->ready && event->end && event->status == HLK_OK && event->n;
}

static void judge_wait(struct soak *soak, const struct soak_event *wait, size_t n)
{
    int64_t over = wait->begin + wait->n * INT64_C(1000000);
    for (size_t i = 0; i < n; i++) {
        const struct soak_event *other = &soak->events[i];
        if (counts(other) && other->begin > wait->begin && other->end < over)
            soak_wrong(soak, "pid %d waited at the condition for %lld ms, from %.3f ms, and missed a broadcast at %.3f",
                       wait->pid, (long long)wait->n, (double)(wait->begin - soak_zero) / 1e6,
                       (double)(other->begin - soak_zero) / 1e6);
    }
}

void judge_condition(struct soak *soak, struct judge_sums *sums)
{
    size_t n = soak->claimed_events < EVENTS ? soak->claimed_events : EVENTS;
    for (size_t i = 0; i < n; i++) {
        const struct soak_event *event = &soak->events[i];
        if (event->what != CONDITION_WAIT || !event->end || event->status == EVENT_DIED)
            continue;
        sums->woken += event->status == HLK_OK;
        if (soak->quiet && event->status == HLK_TIMEOUT)
            judge_wait(soak, event, n);
    }
}
