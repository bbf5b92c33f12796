#include "quorum/acquire_step.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/min.h"
#include "quorum/acquire_op.h"
#include "quorum/hold.h"
#include "quorum/release.h"
#include "quorum/round_release.h"

#define LATE_MOST 3                   /* rounds that took longer than the ttl */
#define LOOK_MS 10                    /* between two looks whether enough masters are connected */
#define COMPLETE_MS HLK_DIAL_BRIEF_MS /* for masters that are about to connect */
#define BLAMED_MS 50                  /* a master that has not answered in less is none that does not answer */
#define SPLIT_MOST 5                  /* doublings of the pause after a split vote */
#define SPLIT_FEW 2                   /* more of them in a row, and it waits for messages besides */

/* --- what to wait for --- */

static void quorum_wait_as(struct hlk_quorum_op *op, enum hlk_wait_what what, int64_t at_ms)
{
    HLK_DEBUG_ASSERT(what != HLK_WAIT_DONE && at_ms > 0);
    op->at_ms = at_ms;
    op->wait_for = (struct hlk_wait_for){ what, hlk_min_ms(at_ms, op->deadline_ms) };
    if (op->waits || what == HLK_WAIT_REPLY)
        return;
    op->waits = true;
    HLK_COUNT(&op->client->table, waiting);
}

static void end_as(struct hlk_quorum_op *op, enum hlk_status status)
{
    op->status = op->error.status = status;
    op->wait_for = (struct hlk_wait_for){ HLK_WAIT_DONE, INT64_MAX };
}

static bool is_over(const struct hlk_quorum_op *op)
{
    return hlk_clock_ms() >= op->deadline_ms;
}

/* op->error says what it waited for. */
static void end_by_time(struct hlk_quorum_op *op)
{
    HLK_DEBUG_ASSERT(!op->once && op->deadline_ms != INT64_MAX);
    (void)hlk_error_set(&op->error, HLK_TIMEOUT, "not acquired in %lld ms%s%s",
                        (long long)(op->deadline_ms - op->began_ms), op->error.text[0] ? "; " : "", op->error.text);
    end_as(op, op->failure ? op->failure : HLK_TIMEOUT);
}

static void pause_for(struct hlk_quorum_op *op, int64_t ms, bool listens)
{
    HLK_DEBUG_ASSERT(ms >= 0);
    op->listens = listens;
    quorum_wait_as(op, HLK_WAIT_PAUSE, hlk_clock_after(hlk_clock_ms(), ms));
}

/* --- a round --- */

static void send_votes(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->round);
    hlk_round_watch(op->round, op->waker);
    op->round->eager = !op->waker->thread;
    hlk_round_send(op->round);
    quorum_wait_as(op, HLK_WAIT_REPLY, op->round->sent_ms + op->quorum->opts.node_timeout_ms);
}

static void start_round(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->round && op->queue);
    uint64_t hold = atomic_fetch_add(&op->client->table.last_h, 1) + 1;
    op->round = hlk_round_make(op->quorum, true, hold, op->terms.ttl_ms);
    atomic_store(&op->messaged, 0);
    if (op->round)
        send_votes(op);
    else
        end_as(op, hlk_error_set(&op->error, HLK_E_NOMEM, "no memory"));
}

static void look_at_masters(struct hlk_quorum_op *op)
{
    enum hlk_status failure, status = hlk_quorum_op_look_at_masters(op, &failure);
    if (status == HLK_OK)
        start_round(op);
    else if (status != HLK_BUSY || is_over(op))
        end_as(op, failure);
    else
        quorum_wait_as(op, HLK_WAIT_CONNECTION, hlk_clock_ms() + LOOK_MS);
}

/* Waits until messages have come from enough masters for a majority, or until delay_ms is over. Messages since the
 * beginning of the round count. */
static void listen_for_messages(struct hlk_quorum_op *op)
{
    hlk_quorum_op_join_channels(op);
    if (hlk_quorum_op_enough_are_free(op))
        look_at_masters(op);
    else
        quorum_wait_as(op, HLK_WAIT_MESSAGES, hlk_clock_after(hlk_clock_ms(), op->delay_ms));
}

/* --- after a round without a majority --- */

/* No client has a majority, as far as is known: the first one that sends in a moment gets it. A holder that has another
 * name on each master looks the same: one of Redisson's. */
static void pause_after_split(struct hlk_quorum_op *op)
{
    op->splits += op->splits < SPLIT_MOST;
    int64_t max_ms = hlk_min_ms((int64_t)1 << op->splits, op->delay_ms);
    pause_for(op, 1 + hlk_quorum_op_jitter(op, max_ms), op->splits > SPLIT_FEW);
}

static void wait_after(struct hlk_quorum_op *op, const struct hlk_tally *t)
{
    HLK_DEBUG_ASSERT(!op->once && !op->round);
    const struct hlk_quorum_opts *opts = &op->quorum->opts;
    unsigned n = op->client->node_count, need = n / 2 + 1;
    op->delay_ms = opts->retry_delay_ms + hlk_quorum_op_jitter(op, opts->retry_jitter_ms);
    op->tries_left -= op->tries_left > 0;
    if (op->failure) {
        op->splits = 0;
        hlk_quorum_op_join_channels(op);
        pause_for(op, op->delay_ms, false);
        return;
    }
    op->terms.contended = true;
    if (t->largest < need && t->failed + t->largest <= n - need) {
        pause_after_split(op);
    } else {
        op->splits = 0;
        listen_for_messages(op);
    }
}

/* Once: with the masters that are about to connect it may be a majority. */
static bool awaits_masters(const struct hlk_quorum_op *op, const struct hlk_tally *t)
{
    unsigned n = op->client->node_count, need = n / 2 + 1, may = n - t->no - t->failed;
    return !op->complete_ms && may < need && may + op->untried >= need && !is_over(op);
}

/* cut: the round ended before node_timeout_ms was over. Then masters that have not answered are late, not away. */
static void end_quorum_round(struct hlk_quorum_op *op, const struct hlk_tally *t, bool cut)
{
    HLK_DEBUG_ASSERT(!op->round);
    unsigned n = op->client->node_count, need = n / 2 + 1, away = t->failed + (cut ? 0 : t->silent);
    bool few = n - away < need && t->failure != HLK_OK;
    bool few_later = few && n - away + t->young < need; /* when those count that have started just now */
    op->failure = few ? t->failure : HLK_OK;
    if (!few_later)
        op->unreachable_ms = 0;
    if (n - t->for_good < need) {
        end_as(op, t->failure);
    } else if (awaits_masters(op, t)) {
        op->complete_ms = hlk_clock_after(hlk_clock_ms(), COMPLETE_MS);
        look_at_masters(op);
    } else if ((few_later || (few && op->once)) && hlk_quorum_op_unreachable(op, t->failure, !op->once) != HLK_OK) {
        end_as(op, t->failure);
    } else if (op->once) {
        end_as(op, HLK_BUSY);
    } else if (!few && is_over(op)) {
        end_by_time(op);
    } else if (op->tries_left == 0 || is_over(op)) {
        end_as(op, few ? t->failure : HLK_TIMEOUT);
    } else {
        wait_after(op, t);
    }
}

/* --- a round's answers --- */

/* The time that its masters had for their answers, or 0: too short a one. */
static int64_t answer_ms(const struct hlk_quorum_op *op, int64_t now_ms)
{
    HLK_DEBUG_ASSERT(op->round);
    int64_t ms = hlk_min_ms(now_ms, op->deadline_ms) - op->round->sent_ms,
            timeout_ms = op->quorum->opts.node_timeout_ms;
    return ms >= timeout_ms ? timeout_ms : ms >= BLAMED_MS ? ms : 0;
}

/* Not held: `won`, but too late; or not won. */
static void give_back(struct hlk_quorum_op *op, bool won)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->round && !op->raising);
    struct hlk_round *round = op->round;
    int64_t now = hlk_clock_ms();
    int64_t had_ms = answer_ms(op, now);
    bool cut = now - round->sent_ms < op->quorum->opts.node_timeout_ms;
    char found[sizeof op->error.text];
    struct hlk_tally t = hlk_tally_count(round, op->client->nodes, had_ms, found, sizeof found);
    /* The deadline cut this round short: the round before found more. */
    bool undecided = t.silent > 0 && !had_ms && round->n - t.no - t.failed >= round->need;
    if (!undecided || !op->blocked)
        memcpy(op->error.text, found, sizeof found);
    op->blocked = t.blocked;
    op->round = NULL;
    hlk_round_watch(round, NULL);
    hlk_round_release(round, false);
    hlk_round_unref(round);
    if (hlk_quorum_op_must_leave(op))
        end_as(op, op->error.status);
    else if (won && ++op->late >= LATE_MOST)
        end_as(op, hlk_error_set(&op->error, HLK_E_CONNECT,
                                 "each of %d majorities came when the ttl of %lld ms was over; given back", LATE_MOST,
                                 (long long)op->terms.ttl_ms));
    else
        end_quorum_round(op, &t, cut);
}

static void check_round(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->round && op->queue && !op->raising);
    struct hlk_round *round = op->round;
    bool won = hlk_round_won(round);
    op->round = NULL; /* the hold's, if it is one: another thread may release it at once */
    hlk_round_watch(round, NULL);
    if (won && hlk_quorum_begin(op->quorum, round, op->queue, &op->terms)) {
        end_as(op, HLK_OK);
        return;
    }
    op->round = round;
    give_back(op, won);
}

/* --- a hold that its holder has already --- */

/* Not raised: it is held as often as before. */
static void end_nested(struct hlk_quorum_op *op, enum hlk_status status)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->nested && status != HLK_OK);
    hlk_quorum_release_nowait(op->quorum, false);
    if (status != HLK_E_UNSURE) {
        end_as(op, status);
        return;
    }
    char why[HLK_ERROR_TEXT];
    memcpy(why, op->error.text, sizeof why);
    status = op->once ? HLK_BUSY : HLK_TIMEOUT;
    end_as(op, hlk_error_set(&op->error, status, "held already, and its lease could not be raised: %s", why));
}

static void hold_nested(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->nested && !op->round);
    if (!hlk_quorum_op_must_raise(op)) {
        end_as(op, HLK_OK);
        return;
    }
    op->raising = true;
    op->round = hlk_quorum_extension(op->quorum, op->terms.ttl_ms, &op->error);
    if (op->round)
        send_votes(op);
    else
        end_nested(op, op->error.status);
}

static void check_raise(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->round && op->raising);
    struct hlk_round *round = op->round;
    enum hlk_status status = hlk_quorum_extended(op->quorum, round, op->terms.renewed, &op->error);
    op->round = NULL;
    hlk_round_watch(round, NULL);
    hlk_round_unref(round);
    if (status == HLK_OK)
        end_as(op, status);
    else
        end_nested(op, status);
}

/* --- the steps --- */

static void take_turn(struct hlk_quorum_op *op, enum hlk_status status)
{
    if (status == HLK_BUSY && !op->once && is_over(op))
        end_by_time(op);
    else if (status == HLK_BUSY && !op->once)
        quorum_wait_as(op, HLK_WAIT_QUEUE, INT64_MAX);
    else if (status != HLK_OK)
        end_as(op, status);
    else if (op->nested)
        hold_nested(op);
    else if (op->waiter.yields_ms)
        pause_for(op, op->waiter.yields_ms + hlk_quorum_op_jitter(op, op->waiter.yields_ms), false);
    else
        look_at_masters(op);
}

static void step_on_round(struct hlk_quorum_op *op)
{
    HLK_DEBUG_ASSERT(op->round);
    if (atomic_load(&op->round->wants_resend))
        hlk_round_resend(op->round);
    if (!atomic_load(&op->round->decided) && hlk_clock_ms() < op->wait_for.until_ms)
        return;
    if (op->raising)
        check_raise(op);
    else
        check_round(op);
}

static void step_on_pause(struct hlk_quorum_op *op)
{
    if (is_over(op))
        end_by_time(op);
    else if (hlk_clock_ms() < op->at_ms)
        return;
    else if (op->listens)
        listen_for_messages(op);
    else
        look_at_masters(op);
}

static void quorum_step_on_message(struct hlk_quorum_op *op)
{
    if (is_over(op))
        end_by_time(op);
    else if (hlk_clock_ms() >= op->at_ms || hlk_quorum_op_enough_are_free(op))
        look_at_masters(op);
}

/* For op->error. A round in flight is given back at the end. */
static void leave_op(struct hlk_quorum_op *op)
{
    HLK_DEBUG_ASSERT(op->error.status != HLK_OK);
    if (op->nested)
        end_nested(op, op->error.status);
    else
        end_as(op, op->error.status);
}

struct hlk_wait_for hlk_quorum_acquire_step(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    if (op->wait_for.what != HLK_WAIT_DONE && hlk_quorum_op_must_leave(op)) {
        leave_op(op);
        return op->wait_for;
    }
    switch (op->wait_for.what) {
    case HLK_WAIT_QUEUE:
        take_turn(op, hlk_quorum_op_look_at_queue(op));
        break;
    case HLK_WAIT_CONNECTION:
        look_at_masters(op);
        break;
    case HLK_WAIT_REPLY:
        step_on_round(op);
        break;
    case HLK_WAIT_PAUSE:
        step_on_pause(op);
        break;
    case HLK_WAIT_MESSAGES:
        quorum_step_on_message(op);
        break;
    default:
        break;
    }
    return op->wait_for;
}

struct hlk_wait_for hlk_quorum_acquire_start(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->wait_for.what == HLK_WAIT_START);
    enum hlk_status status = hlk_quorum_op_begin(op);
    if (status == HLK_OK)
        take_turn(op, hlk_quorum_op_enter_queue(op));
    else
        end_as(op, status);
    return op->wait_for;
}

struct hlk_wait_for hlk_quorum_acquire_abort(struct hlk_quorum_op *op, enum hlk_status status, const char *why)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(status != HLK_OK);
    (void)hlk_error_set(&op->error, status, "%s", why);
    leave_op(op);
    return op->wait_for;
}

static void count_acquired(const struct hlk_quorum_op *op)
{
    struct hlk_entry_table *table = &op->client->table;
    if (op->status == HLK_OK && op->nested)
        HLK_COUNT(table, reentered);
    else if (op->status == HLK_OK)
        HLK_COUNT(table, acquired);
    else if (op->status == HLK_BUSY)
        HLK_COUNT(table, busy);
    else if (op->status == HLK_TIMEOUT)
        HLK_COUNT(table, timeouts);
    else if (op->status == HLK_INTERRUPTED)
        HLK_COUNT(table, interrupted);
}

enum hlk_status hlk_quorum_acquire_finish(struct hlk_quorum_op *op)
{
    hlk_mutex_assert_none();
    hlk_quorum_op_end(op);
    count_acquired(op);
    return op->status;
}
