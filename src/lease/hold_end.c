#include "lease/hold_end.h"

#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_table.h"
#include "node/topology.h"

void hlk_hold_end_fill(struct hlk_release *pending, const struct hlk_entry *e, const struct hlk_release_record *record)
{
    HLK_DEBUG_ASSERT(pending && record->until_ms >= 0);
    pending->cmd.name = hlk_entry_name(e);
    pending->cmd.name_len = hlk_entry_len(e);
    hlk_node_direct(e->node, &pending->cmd);
    pending->cmd.type = &hlk_entry_format(e)->release;
    pending->cmd.hold = record->h;
    pending->cmd.fenced = record->fenced;
    pending->cmd.drops = record->drops;
    pending->cmd.member = record->member;
    pending->cmd.count = record->permits;
    pending->cmd.short_hold_ms = record->short_hold_ms;
    pending->doubt = record->doubt;
    pending->until_ms = record->until_ms;
    pending->known_ms = record->known_ms;
    pending->taken_ms = hlk_entry_format(e)->sends_only_open ? record->known_ms : 0;
}

void hlk_hold_end_check_note(const struct hlk_release *pending, const struct hlk_entry *e,
                             enum hlk_release_outcome outcome)
{
    bool answered =
        outcome == HLK_RELEASE_ABSENT || outcome == HLK_RELEASE_ABSENT_REPEATED || outcome == HLK_RELEASE_UNKNOWN;
    bool found = answered && hlk_command_sent_ms(&pending->cmd) < pending->taken_ms + HLK_REPEAT_MS;
    if (!pending->taken_ms || outcome == HLK_RELEASE_DONE || found)
        return;
    hlk_log(&e->node->endpoint.log, HLK_LOG_WARN,
            "semaphore \"%.128s\": an acquire of %lld permits was given up, and it is too late to find out whether it "
            "had taken them. If it had, nobody has them",
            hlk_entry_name(e), (long long)pending->cmd.count);
}

static void hold_end_on_settled(struct hlk_release *pending, enum hlk_release_outcome outcome,
                                const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_entry *e = pending->ctx;
    (void)error;
    hlk_hold_end_check_note(pending, e, outcome);
    atomic_fetch_sub(&e->node->table->handing_back, pending->handed_back);
    hlk_entry_unref(e);
    hlk_mem_free(pending);
}

static void end_hold(struct hlk_entry *e, const struct hlk_release_record *record, bool handed_back)
{
    hlk_mutex_assert_none();
    struct hlk_release *pending = hlk_mem_zalloc(sizeof *pending);
    if (!pending)
        return; /* its lease is almost over, and Redis expires it */
    hlk_hold_end_fill(pending, e, record);
    pending->handed_back = handed_back;
    atomic_fetch_add(&e->node->table->handing_back, handed_back);
    hlk_entry_ref(e);
    pending->settled = hold_end_on_settled;
    pending->ctx = e;
    hlk_release_start(&e->node->releases, pending, NULL, false);
}

void hlk_hold_end(struct hlk_entry *e, const struct hlk_release_record *record)
{
    end_hold(e, record, false);
}

void hlk_hold_hand_back(struct hlk_entry *e, const struct hlk_release_record *record)
{
    end_hold(e, record, true);
}

/* --- of a lost hold --- */

struct hlk_lost_end {
    struct hlk_release pending;
    struct hlk_job job; /* behind the callbacks of the loss */
    int64_t kept_until_ms;
    atomic_int refs; /* one until it is settled, one of the ended hold */
};

void hlk_lost_end_unref(struct hlk_lost_end *end)
{
    if (end && atomic_fetch_sub(&end->refs, 1) == 1)
        hlk_mem_free(end);
}

static void on_lost_end(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    (void)outcome, (void)error;
    hlk_entry_unref(pending->ctx);
    hlk_lost_end_unref(HLK_CONTAINER(pending, struct hlk_lost_end, pending));
}

static void run_lost_end(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct hlk_lost_end *end = HLK_CONTAINER(job, struct hlk_lost_end, job);
    struct hlk_entry *e = end->pending.ctx;
    hlk_release_start_at(&e->node->releases, &end->pending, end->kept_until_ms);
}

struct hlk_lost_end *hlk_lost_end_make(struct hlk_entry *e, const struct hlk_release_record *record)
{
    hlk_mutex_assert_none();
    struct hlk_lost_end *end = hlk_mem_zalloc(sizeof *end);
    if (!end)
        return NULL; /* the lease expires */
    hlk_entry_ref(e);
    hlk_hold_end_fill(&end->pending, e, record);
    end->pending.settled = on_lost_end;
    end->pending.ctx = e;
    end->job.run = run_lost_end;
    end->kept_until_ms = record->kept_until_ms;
    atomic_init(&end->refs, 2);
    hlk_release_announce(&e->node->releases, &end->pending);
    hlk_events_post(e->node->table->events, &end->job);
    return end;
}

void hlk_lost_end_start_now(struct hlk_entry *e, struct hlk_lost_end *end)
{
    hlk_mutex_assert_none();
    if (end)
        hlk_release_start_now(&e->node->releases, &end->pending);
    hlk_lost_end_unref(end);
}
