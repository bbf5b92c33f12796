#include "acquire/acquire_op.h"

#include "acquire/acquire_listen.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_state.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "lease/shared_hold.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "node/topology.h"
#include "script/release_list.h"

#include <stdlib.h>
#include <string.h>

#define LATE_MOST 3

/* --- wake-ups: only wake --- */

static struct hlk_park *op_on_queue_wake(struct hlk_local_waiter *waiter, unsigned bit)
{
    struct hlk_acquire_op *op = HLK_CONTAINER(waiter, struct hlk_acquire_op, waiter);
    hlk_mutex_assert_held(op->entry->mu);
    if (op->waker->thread)
        return hlk_park_signal(&op->waker->thread->park, bit);
    op->waker->wake(op->waker, bit);
    return NULL;
}

static void op_on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_mutex_assert_held(&HLK_CONTAINER(wait, struct hlk_acquire_op, cancel_wait)->cancel->mu);
    hlk_waker_wake(HLK_CONTAINER(wait, struct hlk_acquire_op, cancel_wait)->waker, HLK_WAKE_CANCEL);
}

static void on_closing(struct hlk_wait_entry *entry)
{
    hlk_mutex_assert_held(&HLK_CONTAINER(entry, struct hlk_acquire_op, closing_wait)->lock->client->waits_mu);
    hlk_waker_wake(HLK_CONTAINER(entry, struct hlk_acquire_op, closing_wait)->waker, HLK_WAKE_CLOSED);
}

/* --- making --- */

static const struct hlk_acquire_hooks no_hooks;

/* For a wait without end while the server was never reached: the URL may be wrong. */
static int64_t first_timeout_ms(const hlk_client *client, int64_t deadline_ms)
{
    return client->reconnect_timeout_ms < 0 && deadline_ms == INT64_MAX ? HLK_RECONNECT_TIMEOUT_MS : 0;
}

static void init_machine(struct hlk_acquire_op *op, const hlk_lock *lock, int64_t wait_ms, int64_t now, unsigned seed)
{
    HLK_DEBUG_ASSERT(wait_ms >= 0);
    int64_t begun = now + 1; /* rounded up: no wait ends early by a part of a millisecond */
    hlk_acquire_machine_init(&op->machine,
                             wait_ms == 0 ? hlk_clock_after(now, lock->client->reply_timeout_ms)
                                          : hlk_clock_after(begun, wait_ms),
                             wait_ms == 0, seed);
    hlk_acquire_machine_pauses(&op->machine, lock->defaults->backoff_min_ms, lock->defaults->backoff_max_ms, seed);
    op->machine.polls = lock->kind->polls;
    op->machine.joined = op->listener.for_all = lock->kind->format->holds_nothing;
    if (lock->client->wait_replicas && !lock->kind->format->holds_nothing)
        op->machine.confirm_ms = lock->client->wait_replicas_timeout_ms;
}

/* The line of the waits for permits of this name and number (lease/line.c), with a reference. Its key has a
 * number that no holder has. NULL: nothing would be passed on; or there is no memory, and then nothing is. */
static struct hlk_entry *line_of(const hlk_lock *lock, const struct hlk_entry *e, bool fixed)
{
    return lock->kind->has_number && !fixed && e->node->table->local_passes > 0
               ? hlk_entry_get_own(e->node, lock->kind->format, hlk_entry_name(e), hlk_entry_len(e),
                                   UINT64_MAX - (uint64_t)lock->defaults->number, true)
               : NULL;
}

/* After lease_ms, fixed and machine are set. */
static void init_waiter(struct hlk_acquire_op *op, const struct hlk_acquire_terms *terms,
                        const struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(op->lease_ms > 0 && op->entry);
    hlk_lock *lock = terms->lock;
    op->waiter.holder = terms->holder;
    op->waiter.handle = &lock->handle;
    op->waiter.once = op->machine.once;
    op->waiter.lease_ms = op->lease_ms;
    op->waiter.fixed = op->fixed;
    op->waiter.max_hold_ms = lock->defaults->max_hold_ms;
    op->waiter.fenced = lock->kind->fenced;
    op->waiter.drops = lock->defaults->drops_number;
    op->waiter.no_nesting = lock->kind->non_reentrant;
    op->waiter.permits = terms->permits;
    op->waiter.shares = hlk_acquire_shares(terms, opts);
    op->waiter.floor = lock->kind->fenced ? lock->defaults->token_floor : 0;
    op->waiter.line = line_of(lock, op->entry, op->fixed);
    op->waiter.wake = op_on_queue_wake;
}

static void init_command(struct hlk_acquire_op *op, const struct hlk_acquire_terms *terms, int64_t now)
{
    HLK_DEBUG_ASSERT(op->lease_ms > 0 && op->entry && op->node);
    const hlk_lock *lock = op->lock;
    op->cmd.type = &lock->kind->format->acquire;
    op->cmd.limits = (struct hlk_limits){ .at_ms = op->machine.deadline_ms,
                                          .began_ms = now,
                                          .reconnect_timeout_ms = lock->client->reconnect_timeout_ms,
                                          .first_timeout_ms = first_timeout_ms(lock->client, op->machine.deadline_ms),
                                          .waits_out_writes = !op->machine.once };
    op->cmd.client_id = lock->client->id;
    op->cmd.name = hlk_entry_name(op->entry);
    op->cmd.name_len = hlk_entry_len(op->entry);
    hlk_node_direct(op->node, &op->cmd);
    op->server = hlk_node_of(op->node, op->cmd.name, op->cmd.name_len);
    op->cmd.lease_ms = op->lease_ms;
    op->cmd.fenced = lock->kind->fenced;
    op->cmd.count = lock->kind->has_number ? lock->defaults->number : terms->count ? terms->count : terms->permits;
    op->cmd.seen = terms->seen;
}

struct hlk_acquire_op *hlk_acquire_op_make(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(terms->lock && terms->entry && terms->holder.id);
    HLK_DEBUG_ASSERT(!terms->with || terms->hooks->free);
    hlk_lock *lock = terms->lock;
    struct hlk_acquire_op *op = hlk_mem_zalloc(sizeof *op);
    if (!op) {
        hlk_acquire_terms_drop(terms);
        return NULL;
    }
    int64_t now_ns = hlk_clock_ns(), now = now_ns / 1000000;
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->defaults->lease_ms;
    init_machine(op, lock, opts->wait_ms, now, (unsigned)((uint64_t)now ^ terms->holder.id * 2654435761u));
    atomic_init(&op->users, 1);
    op->acknowledged = -1;
    op->lock = lock;
    op->entry = terms->entry;
    hlk_entry_ref(op->entry);
    op->hooks = terms->hooks ? terms->hooks : &no_hooks;
    op->with = terms->with;
    op->node = op->entry->node;
    hlk_handle_retain(&lock->handle);
    hlk_client_op_begin(lock->client);
    op->cancel = opts->cancel;
    op->eintr = opts->flags & HLK_ACQUIRE_EINTR;
    op->started_ns = now_ns;
    op->fixed = lease > 0;
    op->lease_ms = op->fixed ? lease : lock->client->table.watchdog_ms;
    init_waiter(op, terms, opts);
    op->cancel_wait.wake = op_on_cancel;
    op->closing_wait.wake = on_closing;
    init_command(op, terms, now);
    return op;
}

enum hlk_status hlk_acquire_op_wait(struct hlk_acquire_op *op)
{
    hlk_client *client = op->lock->client;
    if (op->waits)
        return HLK_OK;
    op->waits = op->shared = true;
    HLK_COUNT(&client->table, waiting);
    hlk_acquire_listen_eager(op, true);
    hlk_client_wait_add(client, &op->closing_wait);
    if (atomic_load(&client->closing))
        return hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    if (op->cancel && !hlk_cancel_join(op->cancel, &op->cancel_wait))
        return hlk_error_set(&op->error, HLK_INTERRUPTED, "cancelled");
    return HLK_OK;
}

enum hlk_status hlk_acquire_op_queue(struct hlk_acquire_op *op)
{
    if (!op->machine.once && !op->inbox_retained && !op->lock->kind->polls)
        hlk_acquire_listen_retain(op);
    return hlk_acquire_op_wait(op);
}

/* The holder's live hold by another format of this name. 0: none. */
static uint64_t hold_by(const struct hlk_acquire_op *op, const struct hlk_format *format)
{
    struct hlk_view view = { 0 };
    struct hlk_entry *e =
        format ? hlk_entry_get_own(op->node, format, op->cmd.name, op->cmd.name_len, op->waiter.holder.id, false)
               : NULL;
    if (!e)
        return 0;
    hlk_entry_view(e, op->waiter.holder.id, &view);
    hlk_entry_unref(e);
    return view.count > 0 && !view.lost ? view.h : 0;
}

enum hlk_status hlk_acquire_op_begin(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    const struct hlk_format *format = op->lock->kind->format;
    if (atomic_load(&op->lock->client->closing)) /* made before this look, or close has seen it */
        return hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    if (hold_by(op, format->excludes) && !hold_by(op, format))
        return hlk_error_set(&op->error, HLK_DEADLOCK, "the caller holds this lock to read, and would wait for itself");
    if (format->excludes) /* a hold that its readers share, and none of them uses, goes before this acquire */
        hlk_shared_close(op->node, format->excludes, op->cmd.name, op->cmd.name_len);
    return op->cancel ? hlk_acquire_op_wait(op) : HLK_OK;
}

enum hlk_acquire_event hlk_acquire_op_become_head(struct hlk_acquire_op *op)
{
    op->cmd.hold = op->waiter.h;
    op->cmd.member.since_ms = 0;
    if (op->hooks->begin)
        op->hooks->begin(op);
    return HLK_ACQUIRE_ON_HEAD;
}

enum hlk_acquire_event hlk_acquire_op_acquired(struct hlk_acquire_op *op)
{
    op->won = true;
    if (op->wait_for.what != HLK_WAIT_START) /* else it did not wait */
        op->machine.cause = HLK_CAUSE_MESSAGE;
    return HLK_ACQUIRE_ON_ACQUIRED;
}

/* Before an attempt of a wait that holds nothing. */
static void look(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->lock->kind->format->holds_nothing);
    struct hlk_seen *seen = &op->cmd.seen;
    seen->listening = op->listener.channel && hlk_channel_confirmed(&op->server->channels, &op->listener);
    seen->heard |= atomic_exchange(&op->listener.said, false);
}

enum hlk_acquire_event hlk_acquire_op_prepare(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->in_flight);
    struct hlk_entry *e = op->entry;
    if (op->shared) /* else the operation listens nowhere yet */
        hlk_acquire_listen_follow(op);
    if ((op->machine.answered || op->machine.queued_locally) && !hlk_entry_resend(e, &op->waiter))
        return hlk_acquire_op_acquired(op);
    if (op->lock->kind->format->holds_nothing)
        look(op);
    op->cmd.beside = hold_by(op, op->lock->kind->format->beside);
    op->cmd.shares = !op->cmd.beside && hlk_shared_is_wanted(e, &op->waiter, &op->closings);
    op->cmd.checks_other_kinds = op->lock->kind->format->checks_other_kinds && op->machine.cause == HLK_CAUSE_TIME;
    if (op->cmd.member.since_ms)
        return HLK_ACQUIRE_ON_HEAD; /* the ticket is in the queue, as far as is known: sent again */
    if (op->machine.once && op->lock->kind->format->per_holder && hlk_releases_count(&op->node->releases) == 0)
        op->retried = true; /* no release is pending: what it finds is another holder of this client */
    bool joins = !op->machine.once && !op->lock->kind->polls && !op->lock->kind->format->holds_nothing &&
                 !(op->hooks->tries && op->hooks->tries(op));
    bool live = joins && hlk_channels_in_use(&op->server->channels) && hlk_acquire_listen_live(op);
    bool queues = live || (joins && op->lock->kind->format->queues_first);
    if (!queues && !op->cmd.fenced && !op->waiter.permits)
        return HLK_ACQUIRE_ON_HEAD;
    if (hlk_entry_queue(e, &op->waiter, queues, &op->cmd.member) == HLK_ENTER_NOMEM) {
        (void)hlk_error_set(&op->error, HLK_E_NOMEM, "no memory for a ticket");
        return HLK_ACQUIRE_ON_ABORT;
    }
    if (!queues)
        op->cmd.member.since_ms = 0;
    return HLK_ACQUIRE_ON_HEAD;
}

enum hlk_acquire_event hlk_acquire_op_queue_timeout(struct hlk_acquire_op *op)
{
    struct hlk_local_holder near;
    hlk_entry_local_holder(op->entry, &near);
    hlk_handle_release(near.handle);
    return near.held || near.busy || hlk_pipeline_health(op->cmd.pipeline, &op->error) == HLK_OK ? HLK_ACQUIRE_ON_TIME
                                                                                                 : HLK_ACQUIRE_ON_ABORT;
}

enum hlk_acquire_event hlk_acquire_op_timeout(struct hlk_acquire_op *op)
{
    if (op->machine.answered)
        return HLK_ACQUIRE_ON_TIME;
    op->unanswered = op->cmd.attempts > 0;
    if (!op->unanswered && hlk_pipeline_health(op->cmd.pipeline, &op->error) == HLK_OK)
        (void)hlk_error_set(&op->error, HLK_E_CONNECT, "no connection"); /* the connection is back this moment */
    return op->unanswered ? HLK_ACQUIRE_ON_TIME : HLK_ACQUIRE_ON_ABORT;
}

static int64_t refused_since(const struct hlk_acquire_op *op)
{
    return atomic_load_explicit(hlk_entry_table_refused(op->entry), memory_order_relaxed);
}

void hlk_acquire_op_get_refused(struct hlk_acquire_op *op)
{
    op->cmd.limits.refused_ms = refused_since(op);
}

void hlk_acquire_op_set_refused(const struct hlk_acquire_op *op)
{
    if (op->cmd.limits.refused_ms != refused_since(op))
        atomic_store_explicit(hlk_entry_table_refused(op->entry), op->cmd.limits.refused_ms, memory_order_relaxed);
}

/* --- answers --- */

/* Held by another client: its holder, and how long to wait. */
static void note_busy(struct hlk_acquire_op *op, const struct hlk_answer *answer)
{
    size_t len = answer->holder_len < sizeof op->holder - 1 ? answer->holder_len : sizeof op->holder - 1;
    memcpy(op->holder, answer->holder, len);
    op->holder[len] = '\0';
    op->holder_ms = hlk_command_sent_ms(&op->cmd);
    op->cmd.seen = answer->seen;
    op->busy = (struct hlk_busy){
        .ttl_ms = answer->ttl_ms,
        .position = answer->position,
        .mixed = answer->mixed,
        .foreign = answer->foreign,
        .silent = answer->silent,
    };
    if (answer->mixed)
        hlk_client_warn_kinds(op->lock->client, hlk_lock_text(op->lock));
}

static bool held_by_own_process(const struct hlk_acquire_op *op)
{
    return hlk_field_is_of(op->holder, strlen(op->holder), op->lock->client->id);
}

/* The answer names a hold of this process, and no release will wake the operation: it has one try, or polls. The
 * release of that hold may be on its way to Redis, before the next command. If the release has been answered meanwhile,
 * one more command is enough. Else HLK_ACQUIRE_ON_BUSY. */
static enum hlk_acquire_event behind_own_release(struct hlk_acquire_op *op)
{
    bool polls = op->lock->kind->polls;
    if (!(op->machine.once || polls))
        return HLK_ACQUIRE_ON_BUSY;
    if (!held_by_own_process(op)) {
        op->retried = false;
        return HLK_ACQUIRE_ON_BUSY;
    }
    uint64_t hold = strtoull(strrchr(op->holder, ':') + 1, NULL, 10);
    if (polls ? hlk_releases_has(&op->node->releases, hold) : hlk_releases_has_started(&op->node->releases, hold))
        return HLK_ACQUIRE_ON_RELEASING;
    bool again = !op->retried; /* the release may have been answered after this reply was written */
    op->retried = true;
    return again ? HLK_ACQUIRE_ON_STALE : HLK_ACQUIRE_ON_BUSY;
}

static enum hlk_acquire_event join_line(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->hooks->join);
    switch (op->hooks->join(op)) {
    case HLK_ENTER_HEAD:
        return hlk_acquire_op_become_head(op);
    case HLK_ENTER_QUEUED:
        return HLK_ACQUIRE_ON_QUEUED;
    default:
        (void)hlk_error_set(&op->error, HLK_E_NOMEM, "no memory for a ticket");
        return HLK_ACQUIRE_ON_ABORT;
    }
}

static enum hlk_acquire_event busy(struct hlk_acquire_op *op, const struct hlk_answer *answer)
{
    note_busy(op, answer);
    if (op->hooks->tries && op->hooks->tries(op))
        return join_line(op);
    if (!op->busy.foreign)
        hlk_channel_leave(&op->server->channels, &op->listener);
    enum hlk_acquire_event what = behind_own_release(op);
    if (what == HLK_ACQUIRE_ON_BUSY && hlk_entry_wait(op->entry, &op->waiter, op->cmd.doubt))
        return hlk_acquire_op_acquired(op);
    return what;
}

/* The reply says that the lock is held. When the reply was read, the lease was over. The next attempt may be in time.
 * But attempts whose lease is shorter than the way there and back would keep the lock from all clients. */
static enum hlk_acquire_event too_late(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->late < LATE_MOST);
    if (++op->late < LATE_MOST)
        return HLK_ACQUIRE_ON_STALE;
    (void)hlk_error_set(&op->error, HLK_E_CONNECT,
                        "got, but each of %d answers came when its lease of %lld ms was over; given back", LATE_MOST,
                        (long long)op->lease_ms);
    return HLK_ACQUIRE_ON_ABORT;
}

static enum hlk_acquire_event acquired(struct hlk_acquire_op *op, const struct hlk_answer *answer)
{
    if (op->lock->kind->format->holds_nothing)
        return HLK_ACQUIRE_ON_ACQUIRED;
    op->won = hlk_entry_acquired(op->entry, &op->waiter, hlk_command_sent_ms(&op->cmd), answer->token, op->cmd.doubt);
    if (op->won && answer->shared)
        hlk_shared_begin(op->entry, op->cmd.hold, op->closings);
    return op->won ? HLK_ACQUIRE_ON_ACQUIRED : too_late(op);
}

static enum hlk_acquire_event tombstone(struct hlk_acquire_op *op)
{
    hlk_entry_renumber(op->entry, &op->waiter);
    (void)hlk_acquire_op_become_head(op);
    hlk_channel_leave(&op->server->channels, &op->listener); /* the channel may be that of the old id */
    op->machine.subscribes = false;
    return HLK_ACQUIRE_ON_TOMBSTONE;
}

/* It is not known whether the attempt ran: it is sent again with the same hold id, on a new connection. */
static enum hlk_acquire_event no_answer(struct hlk_acquire_op *op)
{
    hlk_pipeline_distrust(op->cmd.pipeline, op->cmd.call.epoch);
    hlk_command_note_doubt(&op->cmd);
    return HLK_ACQUIRE_ON_STALE;
}

static void failed(struct hlk_acquire_op *op, const struct hlk_answer *answer)
{
    HLK_DEBUG_ASSERT(answer->status != HLK_OK && answer->holder);
    char why[HLK_ERROR_TEXT];
    struct hlk_text text;
    hlk_text_init(&text, why, sizeof why);
    if (op->lock->kind->format->explain)
        op->lock->kind->format->explain(&text, answer->holder);
    else
        hlk_text_add(&text, "%s", answer->holder);
    (void)hlk_error_set(&op->error, answer->status, "%s", why);
}

enum hlk_acquire_event hlk_acquire_op_answer(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->cmd.call.reply && !op->in_flight && !op->raising);
    struct hlk_answer answer = { 0 };
    enum hlk_acquire_event what = HLK_ACQUIRE_ON_ABORT;
    op->cmd.seen.heard_since = atomic_load(&op->listener.said);
    enum hlk_answer_kind kind = op->lock->kind->format->read_acquire(&op->cmd, op->cmd.call.reply, &answer);
    if (kind != HLK_ANSWER_NONE)
        op->cmd.doubt_ms = 0; /* no earlier attempt has taken what this answer does not say */
    switch (kind) {
    case HLK_ANSWER_ACQUIRED:
        op->cmd.seen = answer.seen;
        what = acquired(op, &answer);
        break;
    case HLK_ANSWER_BUSY:
        what = busy(op, &answer);
        break;
    case HLK_ANSWER_TOMBSTONE:
        what = tombstone(op);
        break;
    case HLK_ANSWER_AGAIN:
        op->cmd.seen = answer.seen;
        what = HLK_ACQUIRE_ON_STALE;
        break;
    case HLK_ANSWER_FAILED:
        failed(op, &answer);
        break;
    case HLK_ANSWER_NONE:
        what = no_answer(op);
        break;
    }
    hlk_command_drop_reply(&op->cmd);
    return what;
}

/* --- leaving --- */

static void on_taken_back(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_acquire_op *op = HLK_CONTAINER(pending, struct hlk_acquire_op, take_back);
    (void)error;
    hlk_hold_end_check_note(pending, pending->ctx, outcome);
    hlk_entry_unref(pending->ctx);
    if (op->gives_back) {
        hlk_lock *lock = op->lock;
        if (outcome != HLK_RELEASE_GIVEN_UP)
            op->hooks->give_back(op);
        hlk_handle_release(&lock->handle);
    }
    hlk_acquire_op_drop_user(op);
}

/* The hold may exist, or may come to exist: it is released in the background. */
static void take_back_acquire(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->take_back.settled);
    struct hlk_release *pending = &op->take_back;
    struct hlk_entry *e = op->entry;
    struct hlk_release_record record;
    hlk_entry_release_record(e, &record);
    bool placed = record.member.since_ms && op->lease_ms < HLK_TICKET_MS;
    record.until_ms = hlk_clock_ms() + (placed ? HLK_TICKET_MS : op->lease_ms);
    record.fenced = op->cmd.fenced;
    record.doubt = op->cmd.doubt;
    hlk_hold_end_fill(pending, e, &record);
    pending->taken_ms = op->hooks->taken_ms ? op->hooks->taken_ms(op) : 0;
    pending->acquire_epoch = op->in_flight ? op->cmd.call.epoch : 0;
    pending->acquire_pipeline = op->cmd.pipeline;
    pending->settled = on_taken_back;
    pending->ctx = e;
    hlk_entry_ref(e);
    if (op->gives_back)
        hlk_handle_retain(&op->lock->handle);
    atomic_fetch_add(&op->users, 1);
    hlk_release_start(&e->node->releases, pending, NULL, false);
}

/* What was not confirmed is given back. */
static void leave_confirm(struct hlk_acquire_op *op)
{
    if (op->confirmation) {
        hlk_replicas_end(op->confirmation);
        op->confirmation = NULL;
    }
    if (op->unconfirmed && !op->raising)
        hlk_entry_give_back(op->entry, op->waiter.holder.id);
    op->unconfirmed = false;
}

void hlk_acquire_op_leave(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    hlk_client *client = op->lock->client;
    hlk_acquire_listen_end(op);
    leave_confirm(op);
    bool may_run = (op->in_flight || op->cmd.doubt || op->late) && !op->lock->kind->format->holds_nothing;
    bool owes = !op->won && hlk_entry_leave(op->entry, &op->waiter, may_run);
    owes |= op->waiter.owes; /* another call passes it permits until it has left */
    if (owes) {
        op->gives_back = op->waiter.passed && !op->won;
        take_back_acquire(op);
        hlk_entry_leave_finish(op->entry);
    } else if (op->waiter.passed && !op->won) {
        op->hooks->give_back(op);
    } else if (op->waiter.got && !op->won) {
        hlk_entry_give_back(op->entry, op->waiter.holder.id);
    }
    if (op->waits) {
        hlk_cancel_leave(op->cancel, &op->cancel_wait);
        hlk_client_wait_remove(client, &op->closing_wait);
        HLK_UNCOUNT(&client->table, waiting);
        hlk_acquire_listen_eager(op, false);
        op->waits = false;
    }
    if (op->waker->thread) /* else the call ends when its completion is on its way */
        hlk_client_op_end(client);
}

void hlk_acquire_op_free(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->waits && !hlk_list_linked(&op->waiter.link));
    hlk_raise_end(&op->raise, &op->cmd);
    hlk_command_drop_reply(&op->cmd);
    if (op->waiter.line)
        hlk_entry_unref(op->waiter.line);
    hlk_entry_unref(op->entry);
    hlk_handle_release(&op->lock->handle);
    hlk_acquire_op_drop_user(op);
}
