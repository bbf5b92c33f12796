#include "quorum/release.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/nocancel.h"
#include "lease/lease.h"
#include "quorum/hold.h"
#include "quorum/round.h"
#include "quorum/round_release.h"

static enum hlk_status not_held(struct hlk_quorum *quorum, bool forgets, struct hlk_error *error)
{
    hlk_mutex_lock(&quorum->all->mu);
    bool lost = quorum->state == HLK_QUORUM_LOST;
    const char *why = quorum->why;
    if (lost && forgets)
        (void)hlk_quorum_count_off(quorum);
    hlk_mutex_unlock(&quorum->all->mu);
    return lost ? hlk_error_set(error, HLK_LOST, "the hold was lost (%s)", why)
                : hlk_error_set(error, HLK_NOT_HOLDER, "not held by this handle; nothing was changed");
}

enum hlk_status hlk_quorum_not_held(struct hlk_quorum *quorum, const char *operation, bool forgets)
{
    struct hlk_error error;
    return hlk_quorum_fail(quorum, operation, not_held(quorum, forgets, &error), "%s", error.text);
}

void hlk_quorum_count_released(struct hlk_client *client, enum hlk_status status)
{
    if (status == HLK_OK)
        HLK_COUNT(&client->table, released);
    else if (status == HLK_LOST)
        HLK_COUNT(&client->table, lost);
    else if (status == HLK_E_UNSURE)
        HLK_COUNT(&client->table, release_unsure);
    else
        HLK_COUNT(&client->table, release_refused);
}

enum hlk_status hlk_quorum_release_as(struct hlk_quorum *quorum, struct hlk_thread *self)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    struct hlk_error error;
    bool outer;
    struct hlk_round *round = hlk_quorum_begin_release(quorum, &outer);
    if (outer)
        return HLK_OK;
    if (!round)
        return hlk_quorum_not_held(quorum, "release", true);
    struct hlk_waker waker = { .thread = self };
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    hlk_round_watch(round, &waker);
    hlk_round_release(round, false);
    hlk_quorum_release_sent(quorum);
    hlk_round_wait_released(round, self, hlk_clock_ms() + quorum->client->reply_timeout_ms);
    enum hlk_status status = hlk_round_released(round, &error);
    hlk_round_watch(round, NULL);
    hlk_quorum_count_released(quorum->client, status);
    hlk_round_unref(round);
    return status == HLK_OK ? status : hlk_quorum_fail(quorum, "release", status, "%s", error.text);
}

enum hlk_status hlk_quorum_release(hlk_quorum *quorum)
{
    enum hlk_status status = hlk_quorum_check(quorum, "release");
    if (status != HLK_OK)
        return status;
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_quorum_fail(quorum, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    int old = hlk_nocancel_begin();
    hlk_client_op_begin(quorum->client);
    status = hlk_quorum_release_as(quorum, self);
    hlk_client_op_end(quorum->client);
    hlk_nocancel_end(old);
    return status;
}

void hlk_quorum_release_nowait(struct hlk_quorum *quorum, bool all)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    bool outer = false;
    struct hlk_round *round = hlk_quorum_begin_release(quorum, all ? NULL : &outer);
    if (round) {
        hlk_round_release(round, false);
        hlk_quorum_release_sent(quorum);
        hlk_round_unref(round);
    } else if (!all && !outer) {
        (void)not_held(quorum, true, &error);
    }
}

/* --- extend --- */

struct hlk_round *hlk_quorum_extension(struct hlk_quorum *quorum, int64_t ttl_ms, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(ttl_ms > 0);
    int64_t now = hlk_clock_ms();
    hlk_quorum_expire(quorum);
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD, fits = hlk_clock_after(now, ttl_ms) <= quorum->validity.cap_ms;
    uint64_t hold = held ? quorum->round->hold : 0;
    if (held && fits && ttl_ms > quorum->round->keep_ms)
        quorum->round->keep_ms = ttl_ms;
    hlk_mutex_unlock(&quorum->all->mu);
    if (!held) {
        (void)not_held(quorum, false, error);
        return NULL;
    }
    if (!fits) {
        (void)hlk_error_set(error, HLK_E_INVALID, "ttl_ms %lld is more than what max_hold_ms leaves",
                            (long long)ttl_ms);
        return NULL;
    }
    struct hlk_round *round = hlk_round_make(quorum, false, hold, ttl_ms);
    if (round)
        round->on_no = hlk_quorum_on_no;
    else
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory; nothing was sent");
    return round;
}

enum hlk_status hlk_quorum_extended(struct hlk_quorum *quorum, struct hlk_round *round, bool for_good,
                                    struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!round->acquires);
    bool safe;
    if (!hlk_round_won(round)) {
        if (!hlk_round_absent(round))
            return hlk_error_set(error, HLK_E_UNSURE, "too few masters answered in time (node_timeout_ms is %lld)",
                                 (long long)quorum->opts.node_timeout_ms);
        hlk_quorum_lose(quorum, round, "a majority of the masters does not know the hold any more");
        return not_held(quorum, false, error);
    }
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD && quorum->round->hold == round->hold &&
                hlk_validity_extend(&quorum->validity, round->sent_ms, round->ttl_ms, quorum->client->table.at_risk_ms,
                                    hlk_clock_ms(), &safe);
    if (held)
        quorum->missed = false;
    if (held && for_good) {
        quorum->renewed = true;
        quorum->validity.ttl_ms = round->ttl_ms;
        quorum->validity.renewals_left = hlk_quorum_renewals(quorum);
    }
    if (held)
        hlk_loop_arm(quorum->client->loop, &quorum->alarm, hlk_clock_ms());
    hlk_mutex_unlock(&quorum->all->mu);
    if (held)
        hlk_quorum_retake(quorum);
    hlk_quorum_expire(quorum);
    return held ? HLK_OK : not_held(quorum, false, error);
}

enum hlk_status hlk_quorum_extend_as(struct hlk_quorum *quorum, struct hlk_thread *self, int64_t ttl_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self && ttl_ms > 0);
    struct hlk_waker waker = { .thread = self };
    struct hlk_error error;
    struct hlk_round *round = hlk_quorum_extension(quorum, ttl_ms, &error);
    if (!round)
        return hlk_quorum_fail(quorum, "extend", error.status, "%s", error.text);
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    hlk_round_watch(round, &waker);
    hlk_round_send(round);
    hlk_round_wait(round, self, 0, round->sent_ms + quorum->opts.node_timeout_ms);
    hlk_round_watch(round, NULL);
    enum hlk_status status = hlk_quorum_extended(quorum, round, false, &error);
    hlk_round_unref(round);
    return status == HLK_OK ? status : hlk_quorum_fail(quorum, "extend", status, "%s", error.text);
}

enum hlk_status hlk_quorum_extend(hlk_quorum *quorum, int64_t ttl_ms)
{
    enum hlk_status status = hlk_quorum_check(quorum, "extend");
    if (status != HLK_OK)
        return status;
    if (ttl_ms < HLK_LEASE_MIN_MS || ttl_ms > HLK_LEASE_MAX_MS)
        return hlk_quorum_fail(quorum, "extend", HLK_E_INVALID, "ttl_ms %lld is not between %d and a year",
                               (long long)ttl_ms, HLK_LEASE_MIN_MS);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_quorum_fail(quorum, "extend", HLK_E_NOMEM, "no memory; nothing was sent");
    int old = hlk_nocancel_begin();
    hlk_client_op_begin(quorum->client);
    status = hlk_quorum_extend_as(quorum, self, ttl_ms);
    hlk_client_op_end(quorum->client);
    hlk_nocancel_end(old);
    return status;
}
