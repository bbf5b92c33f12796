/* judge_latch.c - no wait for the latch ends with HLK_OK while the count was certainly not 0 in all of its time.
 *
 * The count that a set began is certainly not 0 from the answer to the set until so many could have counted down: from
 * the calls of those that were not answered before the set was called, the earliest first. A count down without an
 * answer may run some seconds later. A delete, and what an operator does, may end it at once. HLK_LOST is an answer to
 * what an operator did, and to nothing else. */
#include "judge.h"

#include "support/wait.h"

#include <stdlib.h>

struct span {
    int64_t from, until; /* not 0 between them, for certain */
};

struct latch {
    const struct soak_event **events[LATCH_AWAIT + 1]; /* of each kind, in the order of their calls */
    size_t n[LATCH_AWAIT + 1];
    struct span *spans;
    size_t n_spans;
};

static int in_order(const void *left, const void *right)
{
    const struct soak_event *a = *(const struct soak_event *const *)left, *b = *(const struct soak_event *const *)right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* When it has run at the latest. */
static int64_t ran_by(const struct soak_event *event)
{
    bool answered =
        event->end && event->status != HLK_E_UNSURE && event->status != HLK_E_CLOSED && event->status != EVENT_DIED;
    return answered ? event->end : event->begin + 2 * LATE_NS;
}

/* Certainly has not run, and never will. */
static bool is_void(const struct soak_event *event)
{
    return event->end && (event->status == HLK_E_CONNECT || event->status == HLK_E_SERVER);
}

static int64_t deed_after(const struct soak_deed *deeds, size_t n, int64_t from, int64_t until)
{
    for (size_t i = 0; i < n; i++)
        if ((deeds[i].lock == ALL_LOCKS || deeds[i].lock == TURN_LATCH) && deeds[i].end >= from &&
            deeds[i].begin < until)
            until = deeds[i].begin;
    return until;
}

static int64_t could_be_0_at(const struct latch *latch, const struct soak_event *set)
{
    int64_t left = set->n;
    for (size_t i = 0; i < latch->n[LATCH_DOWN]; i++) {
        const struct soak_event *down = latch->events[LATCH_DOWN][i];
        if (is_void(down) || ran_by(down) < set->begin)
            continue;
        left -= down->n;
        if (left <= 0)
            return down->begin;
    }
    return INT64_MAX;
}

static void find_spans(struct latch *latch, const struct soak_deed *deeds, size_t n_deeds)
{
    for (size_t i = 0; i < latch->n[LATCH_SET]; i++) {
        const struct soak_event *set = latch->events[LATCH_SET][i];
        if (!set->end || set->status != HLK_OK)
            continue;
        struct span span = { set->end, could_be_0_at(latch, set) };
        for (size_t j = 0; j < latch->n[LATCH_DELETE]; j++) {
            const struct soak_event *other = latch->events[LATCH_DELETE][j];
            if (ran_by(other) >= set->begin && other->begin < span.until)
                span.until = other->begin;
        }
        span.until = deed_after(deeds, n_deeds, set->begin, span.until);
        if (span.until > span.from)
            latch->spans[latch->n_spans++] = span;
    }
}

static void judge_wait(struct soak *soak, const struct latch *latch, const struct soak_event *wait,
                       const struct soak_deed *deeds, size_t n_deeds)
{
    if (wait->status == HLK_LOST && deed_after(deeds, n_deeds, wait->begin, wait->end) == wait->end)
        soak_wrong(soak, "a wait for the latch is lost, and nobody had removed it: pid %d, from %.3f to %.3f ms",
                   wait->pid, (double)(wait->begin - soak_zero) / 1e6, (double)(wait->end - soak_zero) / 1e6);
    for (size_t i = 0; wait->status == HLK_OK && i < latch->n_spans; i++)
        if (latch->spans[i].from < wait->begin && wait->end < latch->spans[i].until)
            soak_wrong(soak, "the latch let pid %d pass, from %.3f to %.3f ms, and was not 0 from %.3f to %.3f ms",
                       wait->pid, (double)(wait->begin - soak_zero) / 1e6, (double)(wait->end - soak_zero) / 1e6,
                       (double)(latch->spans[i].from - soak_zero) / 1e6,
                       (double)(latch->spans[i].until - soak_zero) / 1e6);
}

void judge_latch(struct soak *soak, const struct soak_deed *deeds, size_t n_deeds, struct judge_sums *sums)
{
    struct latch latch = { .n_spans = 0 };
    size_t n = soak->claimed_events < EVENTS ? soak->claimed_events : EVENTS;
    for (int what = 0; what <= LATCH_AWAIT; what++)
        if (!(latch.events[what] = calloc(n + 1, sizeof *latch.events[what])))
            test_give_up("no memory");
    if (!(latch.spans = calloc(n + 1, sizeof *latch.spans)))
        test_give_up("no memory");
    for (size_t i = 0; i < n; i++) {
        const struct soak_event *event = &soak->events[i];
        if (event->ready && event->what <= LATCH_AWAIT)
            latch.events[event->what][latch.n[event->what]++] = event;
    }
    for (int what = 0; what <= LATCH_AWAIT; what++)
        qsort(latch.events[what], latch.n[what], sizeof *latch.events[what], in_order);
    find_spans(&latch, deeds, n_deeds);
    for (size_t i = 0; i < latch.n[LATCH_AWAIT]; i++) {
        const struct soak_event *wait = latch.events[LATCH_AWAIT][i];
        if (!wait->end || wait->status == EVENT_DIED)
            continue;
        sums->holds[TURN_LATCH] += wait->status == HLK_OK;
        judge_wait(soak, &latch, wait, deeds, n_deeds);
    }
    for (int what = 0; what <= LATCH_AWAIT; what++)
        free(latch.events[what]);
    free(latch.spans);
}
