#include "quorum/hold.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/ended_hold.h"
#include "quorum/queue.h"
#include "quorum/report.h"
#include "quorum/round.h"
#include "quorum/round_release.h"
#include "quorum/round_retake.h"

static const char why_absent[] = "a majority of the masters does not know the hold any more";

/* --- events --- */

static void hold_notify(struct hlk_quorum *quorum, int kind, int64_t until_ms, const char *why)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    HLK_DEBUG_ASSERT(quorum->round && why);
    struct hlk_entry_table *table = &quorum->client->table;
    char holder[HLK_FIELD_MAX];
    const struct hlk_handle *handle = quorum->handle;
    const struct hlk_callback own = { quorum->opts.on_event, quorum->opts.event_ctx };
    const struct hlk_callback callbacks[2] = { handle ? handle->callback : own, table->callback };
    const void *of = handle ? (const void *)hlk_handle_root(handle) : (const void *)quorum;
    (void)hlk_field(holder, quorum->client->id, quorum->round->hold);
    if (!hlk_events_notify(table->events, kind, quorum->name, holder, until_ms, why, callbacks, of))
        atomic_fetch_add(&table->unreported, 1);
}

/* --- its end --- */

/* Nothing is due any more. */
static void hold_end(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    struct hlk_handle *handle = quorum->handle;
    if (quorum->state == HLK_QUORUM_LOST)
        hlk_handle_count_lost(handle, false);
    quorum->state = HLK_QUORUM_FREE;
    quorum->count = 0;
    quorum->handle = NULL;
    if (quorum->holder.holds)
        atomic_fetch_sub(quorum->holder.holds, 1);
    hlk_handle_release(handle); /* frees a lock at most: the client is referenced */
}

bool hlk_quorum_count_off(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    HLK_DEBUG_ASSERT(quorum->state == HLK_QUORUM_LOST && quorum->count > 0);
    bool last = --quorum->count == 0;
    if (last)
        hold_end(quorum);
    return last;
}

/* A hold that is lost by the clock is released when the drift is over too: another client can have it then, and not
 * before. 0: the masters have said that it is lost, and it is released at once. */
static int64_t kept_until_ms(const struct hlk_validity *v, int64_t now_ms)
{
    return now_ms >= v->until_ms ? v->until_ms + hlk_validity_drift_ms(v->ttl_ms, v->drift_factor) : 0;
}

/* The queue goes on; what is left of the hold is the caller's to release, after it has unlocked. */
static struct hlk_round *hold_lose(struct hlk_quorum *quorum, const char *why, int64_t now_ms)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    HLK_DEBUG_ASSERT(quorum->state == HLK_QUORUM_HELD && quorum->round && why);
    int64_t until = quorum->validity.until_ms;
    struct hlk_round *round = quorum->round;
    round->release_at_ms = kept_until_ms(&quorum->validity, now_ms);
    HLK_UNCOUNT(&quorum->client->table, held);
    hlk_loop_cancel(quorum->client->loop, &quorum->alarm);
    if (quorum->orphaned) {
        hold_end(quorum); /* its holder has ended */
    } else {
        hold_notify(quorum, HLK_EVENT_LOST, until < now_ms ? until : now_ms, why);
        HLK_COUNT(&quorum->client->table, lost);
        quorum->state = HLK_QUORUM_LOST;
        quorum->why = why;
        hlk_handle_count_lost(quorum->handle, true);
    }
    quorum->round = NULL;
    return round;
}

static void queue_leave(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    struct hlk_quorum_queue *queue = quorum->queue;
    quorum->queue = NULL;
    if (queue)
        hlk_quorum_queue_pass(quorum->all, queue, hlk_clock_ms());
}

/* The release before the next acquire of this process. */
static void end_lost(struct hlk_quorum *quorum, struct hlk_round *round)
{
    hlk_mutex_assert_none();
    if (!round)
        return;
    hlk_round_release(round, false);
    hlk_mutex_lock(&quorum->all->mu);
    queue_leave(quorum);
    hlk_quorum_unlock(quorum); /* an orphan's; the round references it */
    hlk_round_unref(round);
}

void hlk_quorum_lose(struct hlk_quorum *quorum, const struct hlk_round *round, const char *why)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(why);
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD && quorum->round->hold == round->hold;
    struct hlk_round *lost = held ? hold_lose(quorum, why, hlk_clock_ms()) : NULL;
    hlk_mutex_unlock(&quorum->all->mu);
    end_lost(quorum, lost);
}

static struct hlk_round *end_expired(struct hlk_quorum *quorum, int64_t now_ms)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    bool over = quorum->state == HLK_QUORUM_HELD && now_ms >= quorum->validity.until_ms;
    return over ? hold_lose(quorum, hlk_validity_why_over(&quorum->validity), now_ms) : NULL;
}

void hlk_quorum_expire(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&quorum->all->mu);
    struct hlk_round *lost = end_expired(quorum, hlk_clock_ms());
    hlk_mutex_unlock(&quorum->all->mu);
    end_lost(quorum, lost);
}

struct hlk_round *hlk_quorum_begin_release(struct hlk_quorum *quorum, bool *outer)
{
    hlk_mutex_assert_none();
    struct hlk_round *round = NULL;
    hlk_mutex_lock(&quorum->all->mu);
    struct hlk_round *lost = end_expired(quorum, hlk_clock_ms());
    bool nested = outer && quorum->state == HLK_QUORUM_HELD && quorum->count > 1;
    if (outer)
        *outer = nested;
    if (nested) {
        quorum->count--;
    } else if (quorum->state == HLK_QUORUM_HELD) {
        quorum->state = HLK_QUORUM_RELEASING;
        HLK_UNCOUNT(&quorum->client->table, held);
        hlk_loop_cancel(quorum->client->loop, &quorum->alarm);
        round = quorum->round;
        quorum->round = NULL;
    }
    hlk_mutex_unlock(&quorum->all->mu);
    end_lost(quorum, lost);
    return round;
}

void hlk_quorum_release_sent(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&quorum->all->mu);
    hold_end(quorum);
    queue_leave(quorum);
    hlk_quorum_unlock(quorum);
}

/* --- masters that have not granted it, or have lost it --- */

/* Safe while the hold is valid: a majority has it until then, and any other majority has a master in common with that
 * one. But if a master has lost it, and no majority has renewed it since, another client may have held it meanwhile,
 * with that master and those that are free now. The renewals report such a loss, unless these masters are taken
 * before. */
void hlk_quorum_retake(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    struct hlk_round *round = NULL;
    hlk_mutex_lock(&quorum->all->mu);
    bool may = quorum->state == HLK_QUORUM_HELD && !quorum->orphaned && !quorum->missed;
    int64_t lease_ms = may ? hlk_validity_lease_ms(&quorum->validity, hlk_clock_ms()) : 0;
    if (lease_ms > 0) {
        round = quorum->round;
        hlk_round_ref(round);
    }
    hlk_mutex_unlock(&quorum->all->mu);
    if (!round)
        return;
    hlk_round_retake(round, lease_ms);
    hlk_round_unref(round);
}

void hlk_quorum_on_no(struct hlk_round *renewal, unsigned i)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!renewal->acquires && i < renewal->n);
    struct hlk_quorum *quorum = renewal->quorum;
    hlk_mutex_lock(&quorum->all->mu);
    if (quorum->state == HLK_QUORUM_HELD && quorum->round->hold == renewal->hold && hlk_round_miss(quorum->round, i))
        quorum->missed |= !hlk_round_won(renewal);
    hlk_mutex_unlock(&quorum->all->mu);
    if (hlk_round_absent(renewal)) /* maybe after it was decided that no majority has renewed it */
        hlk_quorum_lose(quorum, renewal, why_absent);
}

/* Any thread. The validity of the hold stays as it is. */
static void on_confirmed(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!round->acquires);
    struct hlk_quorum *quorum = round->quorum;
    if (!hlk_round_won(round))
        return; /* the next renewal tells */
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD && quorum->round->hold == round->hold;
    hlk_mutex_unlock(&quorum->all->mu);
    if (held)
        hlk_quorum_retake(quorum);
}

/* By a renewal for no longer than the hold is valid anyway: that shortens nothing. */
void hlk_quorum_retake_if_held(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD && !quorum->orphaned;
    int64_t lease_ms = held ? hlk_validity_lease_ms(&quorum->validity, hlk_clock_ms()) : 0;
    uint64_t hold = held ? quorum->round->hold : 0;
    hlk_mutex_unlock(&quorum->all->mu);
    struct hlk_round *round = lease_ms > 0 ? hlk_round_make(quorum, false, hold, lease_ms) : NULL;
    if (!round)
        return;
    round->on_decided = on_confirmed;
    round->on_no = hlk_quorum_on_no;
    hlk_round_send(round);
    hlk_round_unref(round);
}

/* --- its beginning --- */

int hlk_quorum_renewals(const struct hlk_quorum *quorum)
{
    int max = quorum->opts.max_renewals;
    return max < 0 ? 0 : max == 0 ? -1 : max;
}

static void hold_arm(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    int64_t next;
    (void)hlk_validity_due(&quorum->validity, hlk_clock_ms(), quorum->client->table.at_risk_ms, &next);
    hlk_loop_arm(quorum->client->loop, &quorum->alarm, next);
}

/* Other waits of its holder are over. */
static void wake_nested(const struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    HLK_DEBUG_ASSERT(quorum->queue);
    struct hlk_list *waiters = &quorum->queue->waiters;
    for (struct hlk_list *node = waiters->next; node != waiters; node = node->next) {
        struct hlk_quorum_waiter *waiter = HLK_CONTAINER(node, struct hlk_quorum_waiter, link);
        if (waiter->quorum == quorum)
            hlk_waker_wake(waiter->waker, HLK_WAKE_QUEUE);
    }
}

/* A master that has connected while the others were asked: a master that connects after this gets what is HELD. */
static void retake_missed(struct hlk_quorum *quorum, struct hlk_round *round)
{
    hlk_mutex_assert_none();
    if (hlk_round_may_grow(round))
        hlk_quorum_retake(quorum);
}

bool hlk_quorum_begin(struct hlk_quorum *quorum, struct hlk_round *round, struct hlk_quorum_queue *queue,
                      const struct hlk_quorum_terms *terms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(queue && round->acquires && terms->ttl_ms > 0);
    struct hlk_validity v = { .ttl_ms = round->ttl_ms,
                              .drift_factor = quorum->opts.clock_drift_factor,
                              .cap_ms =
                                  terms->max_hold_ms ? hlk_clock_after(round->sent_ms, terms->max_hold_ms) : INT64_MAX,
                              .renewals = quorum->client->table.renewals,
                              .renewals_left = terms->renewed ? hlk_quorum_renewals(quorum) : 0 };
    hlk_mutex_lock(&quorum->all->mu);
    bool held = hlk_validity_begin(&v, round->sent_ms, hlk_clock_ms()) && !atomic_load(&quorum->client->closing);
    if (held) {
        quorum->state = HLK_QUORUM_HELD;
        quorum->validity = v;
        quorum->round = round;
        quorum->queue = queue;
        queue->contended |= terms->contended;
        quorum->count = 1;
        quorum->renewed = terms->renewed;
        quorum->missed = false;
        quorum->handle = terms->handle;
        hlk_handle_retain(terms->handle);
        if (quorum->holder.holds)
            atomic_fetch_add(quorum->holder.holds, 1);
        HLK_COUNT(&quorum->client->table, held);
        if (terms->report)
            hlk_quorum_report_add(quorum, terms->report);
        hold_arm(quorum);
        wake_nested(quorum);
        hlk_round_ref(round); /* another thread may release it at once */
    }
    hlk_mutex_unlock(&quorum->all->mu);
    if (held) {
        retake_missed(quorum, round);
        hlk_round_unref(round);
    }
    return held;
}

/* --- renewals --- */

/* Any thread. */
static void on_renewed(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!round->acquires);
    struct hlk_quorum *quorum = round->quorum;
    if (!hlk_round_won(round))
        return; /* the alarm asks again */
    hlk_mutex_lock(&quorum->all->mu);
    bool safe, held = quorum->state == HLK_QUORUM_HELD && quorum->round->hold == round->hold &&
                      hlk_validity_extend(&quorum->validity, round->sent_ms, round->ttl_ms,
                                          quorum->client->table.at_risk_ms, hlk_clock_ms(), &safe);
    if (held) {
        HLK_COUNT(&quorum->client->table, renewals);
        quorum->missed = false;
        if (safe)
            hold_notify(quorum, HLK_EVENT_SAFE, quorum->validity.until_ms, "renewed");
        hold_arm(quorum);
    }
    hlk_mutex_unlock(&quorum->all->mu);
    if (held)
        hlk_quorum_retake(quorum);
}

/* No memory: the next alarm tries again. */
static void renew(struct hlk_quorum *quorum, uint64_t hold, int64_t ttl_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(hold && ttl_ms > 0);
    struct hlk_round *round = hlk_round_make(quorum, false, hold, ttl_ms);
    if (!round)
        return;
    round->on_decided = on_renewed;
    round->on_no = hlk_quorum_on_no;
    hlk_round_send(round);
    hlk_round_unref(round);
}

void hlk_quorum_on_alarm(struct hlk_alarm *alarm)
{
    hlk_loop_assert_here(HLK_CONTAINER(alarm, struct hlk_quorum, alarm)->client->loop);
    hlk_mutex_assert_none();
    struct hlk_quorum *quorum = HLK_CONTAINER(alarm, struct hlk_quorum, alarm);
    struct hlk_validity *v = &quorum->validity;
    int64_t now = hlk_clock_ms(), next;
    uint64_t hold = 0;
    bool retakes = false;
    hlk_mutex_lock(&quorum->all->mu);
    struct hlk_round *lost = end_expired(quorum, now);
    if (quorum->state == HLK_QUORUM_HELD) {
        switch (hlk_validity_due(v, now, quorum->client->table.at_risk_ms, &next)) {
        case HLK_VALIDITY_RENEW:
            retakes = hlk_validity_is_unanswered(v); /* before the renewal, in the same stream: that one counts it */
            hlk_validity_ask(v, now);
            hold = quorum->round->hold;
            break;
        case HLK_VALIDITY_REPORT_RISK:
            v->at_risk = true;
            hold_notify(quorum, HLK_EVENT_AT_RISK, v->until_ms,
                        v->renewals_left == 0 ? "no renewal is left" : "no majority answered its renewals");
            break;
        default:
            break;
        }
        hold_arm(quorum);
    }
    int64_t ttl_ms = v->ttl_ms;
    hlk_mutex_unlock(&quorum->all->mu);
    end_lost(quorum, lost);
    if (retakes)
        hlk_quorum_retake(quorum);
    if (hold)
        renew(quorum, hold, ttl_ms);
}

/* --- a holder that ended --- */

static void orphan(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    quorum->orphaned = true;
    quorum->holder.holds = NULL; /* its memory may be another holder's soon */
    if (quorum->state == HLK_QUORUM_LOST)
        hold_end(quorum);
    if (quorum->state != HLK_QUORUM_HELD)
        return;
    hold_notify(quorum, HLK_EVENT_ORPHANED, quorum->validity.until_ms,
                "its holder ended without releasing it: renewal has stopped");
    HLK_COUNT(&quorum->client->table, orphaned);
    quorum->validity.renewals_left = 0;
    quorum->validity.at_risk = true; /* which is reported already */
    hold_arm(quorum);
}

/* Without a key it is not all->holders' any more: it is free, and the loop may be about to free its memory. */
static struct hlk_quorum *find_of(struct hlk_quorums *all, uint64_t holder)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(holder);
    for (struct hlk_list *node = all->all.next; node != &all->all; node = node->next) {
        struct hlk_quorum *quorum = HLK_CONTAINER(node, struct hlk_quorum, link);
        if (quorum->node.key && quorum->holder.id == holder && !quorum->orphaned)
            return quorum;
    }
    return NULL;
}

/* With a reference. */
static struct hlk_quorum *orphan_next(struct hlk_quorums *all, uint64_t holder)
{
    hlk_mutex_lock(&all->mu);
    struct hlk_quorum *quorum = find_of(all, holder);
    if (quorum) {
        orphan(quorum);
        hlk_quorum_ref(quorum);
    }
    hlk_mutex_unlock(&all->mu);
    return quorum;
}

void hlk_quorum_orphan(struct hlk_quorums *all, uint64_t holder)
{
    HLK_DEBUG_ASSERT(holder);
    struct hlk_quorum *quorum;
    while ((quorum = orphan_next(all, holder))) {
        hlk_mutex_lock(&all->mu);
        hlk_quorum_unlock(quorum);
        hlk_quorum_unref(quorum);
    }
}

void hlk_quorum_drop_loss(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&quorum->all->mu);
    if (quorum->state == HLK_QUORUM_LOST)
        hold_end(quorum);
    hlk_quorum_unlock(quorum);
}
