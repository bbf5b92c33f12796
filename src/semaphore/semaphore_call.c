#include "semaphore/semaphore_call.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/local_queue.h"
#include "lease/pass_permits.h"
#include "node/topology.h"

/* --- an acquire --- */

enum hlk_status hlk_semaphore_check_acquire(const hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts)
{
    enum hlk_status status = hlk_semaphore_check(semaphore, "acquire", permits, 1);
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(semaphore->lock, "acquire", given, opts);
    if (status == HLK_OK && opts->lease_ms != 0)
        return hlk_lock_fail(semaphore->lock, "acquire", HLK_E_INVALID,
                             "lease_ms is not 0: permits of a semaphore have no lease");
    return status;
}

static void semaphore_begin(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->with);
    struct hlk_semaphore_call *call = op->with;
    (void)hlk_notes_take(call->semaphore->notes, call->text, HLK_NOTES_SENT);
    op->cmd.drop_notes = call->text;
}

/* An acquire with an attempt in doubt stays in the entry of its hold id. */
static bool semaphore_tries(const struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->with);
    const struct hlk_semaphore_call *call = op->with;
    return call->waits && op->entry != call->semaphore->line && !op->cmd.doubt;
}

static enum hlk_enter semaphore_join(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->in_flight);
    struct hlk_semaphore_call *call = op->with;
    struct hlk_entry *own = op->entry, *line = call->semaphore->line;
    (void)hlk_entry_leave(own, &op->waiter, false); /* it has no ticket, and its command is answered */
    hlk_entry_ref(line);
    op->entry = line;
    op->cmd.name = hlk_entry_name(line);
    op->cmd.hold = 0;
    hlk_entry_unref(own);
    op->waiter.tried = true;
    return hlk_entry_enter(line, &op->waiter);
}

static bool semaphore_may_repeat(struct hlk_acquire_op *op)
{
    if (!hlk_command_note_may_be_gone(&op->cmd))
        return true;
    (void)hlk_error_set(&op->error, HLK_E_UNSURE,
                        "sent, and not answered for %d minutes: it is not sent again, because it could take twice; if "
                        "it has taken the permits, nobody has them",
                        HLK_REPEAT_MS / 60000);
    return false;
}

/* An attempt that is in flight was not sent earlier than that: its connection would have been given up. */
static int64_t semaphore_taken_ms(const struct hlk_acquire_op *op)
{
    return op->cmd.doubt_ms ? op->cmd.doubt_ms
           : op->in_flight  ? hlk_clock_ms() - op->lock->client->reply_timeout_ms
                            : 0;
}

/* The permits are the caller's, and have no holder: the entry lets go of its hold, and nothing is sent. In doubt the
 * note stays: a late attempt may come. */
static enum hlk_status semaphore_keep(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->with);
    const struct hlk_semaphore_call *call = op->with;
    struct hlk_release_record record;
    if (op->waiter.passed)
        return HLK_OK;
    if (call->waits)
        hlk_entry_note_permits(call->semaphore->line, call->count);
    if (hlk_entry_release(op->entry, op->waiter.holder.id, &record) != HLK_VERDICT_LAST)
        return hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed"); /* which has given them back */
    hlk_entry_release_finish(op->entry);
    if (!record.doubt && hlk_notes_add(call->semaphore->notes, record.h))
        hlk_semaphore_drop_notes(call->semaphore);
    return HLK_OK;
}

/* --- a release --- */

/* Not if replicas have to confirm what is taken. */
bool hlk_semaphore_passes(const hlk_semaphore *semaphore, int64_t permits)
{
    HLK_DEBUG_ASSERT(permits > 0);
    hlk_client *client = semaphore->lock->client;
    if (client->wait_replicas || !hlk_entry_pass_permits(semaphore->line, permits))
        return false;
    HLK_COUNT(&client->table, released);
    return true;
}

void hlk_semaphore_fill_release(struct hlk_release *pending, const hlk_lock *lock, int64_t permits, int change,
                                const char *drop_notes)
{
    HLK_DEBUG_ASSERT(permits > 0 && (change == HLK_SEMAPHORE_RELEASE || change == HLK_SEMAPHORE_RELEASE_IF));
    struct hlk_node *node = hlk_lock_node(lock);
    pending->cmd = (struct hlk_command){ .type = &hlk_semaphore_command,
                                         .change = change,
                                         .name = hlk_lock_text(lock),
                                         .name_len = hlk_lock_text_len(lock),
                                         .hold = atomic_fetch_add(&node->table->last_h, 1) + 1,
                                         .count = permits,
                                         .drop_notes = drop_notes };
    hlk_node_direct(node, &pending->cmd);
    pending->until_ms = hlk_clock_after(hlk_clock_ms(), HLK_LEASE_MAX_MS);
    pending->noted = true;
}

/* The status for an outcome other than HLK_RELEASE_DONE. */
static enum hlk_status semaphore_not_released(hlk_lock *lock, const struct hlk_release *pending,
                                              enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(outcome != HLK_RELEASE_DONE && outcome != HLK_RELEASE_PENDING);
    switch (outcome) {
    case HLK_RELEASE_REFUSED:
        HLK_COUNT(&lock->client->table, release_refused);
        return hlk_lock_fail(lock, "release", error->status, "%s", error->text);
    case HLK_RELEASE_UNSURE:
        return hlk_lock_fail(lock, "release", HLK_E_UNSURE,
                             "sent, and not answered for %d minutes: it is not sent again, because it could be done "
                             "twice; %lld permits are given back, or missing",
                             HLK_REPEAT_MS / 60000, (long long)pending->cmd.count);
    case HLK_RELEASE_GIVEN_UP:
        return hlk_lock_fail(lock, "release", HLK_E_CLOSED, "the client was closed before an answer came");
    default:
        return hlk_lock_fail(lock, "release", HLK_NOT_HOLDER, "there is no such semaphore; nothing was changed");
    }
}

enum hlk_status hlk_semaphore_released(hlk_semaphore *semaphore, const struct hlk_release *pending,
                                       enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    if (outcome != HLK_RELEASE_DONE)
        return semaphore_not_released(semaphore->lock, pending, outcome, error);
    HLK_COUNT(&semaphore->lock->client->table, released);
    if (!pending->cmd.doubt && hlk_notes_add(semaphore->notes, pending->cmd.hold))
        hlk_semaphore_drop_notes(semaphore);
    return HLK_OK;
}

/* Its note goes at once: the semaphore's handle may not be there any more. */
static void on_given_back(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_acquire_op *op = HLK_CONTAINER(pending, struct hlk_acquire_op, take_back);
    struct hlk_semaphore_call *call = pending->ctx;
    hlk_lock *lock = call->semaphore->lock;
    if (outcome != HLK_RELEASE_DONE && semaphore_not_released(lock, pending, outcome, error) != HLK_NOT_HOLDER)
        hlk_log(&hlk_lock_node(lock)->endpoint.log, HLK_LOG_WARN, "%s", hlk_last_error());
    if (outcome == HLK_RELEASE_DONE && !pending->cmd.doubt) {
        call->text[hlk_text_number(call->text, (int64_t)pending->cmd.hold)] = '\0';
        hlk_semaphore_send_drop_notes(lock, call->text);
    }
    hlk_acquire_op_drop_user(op);
}

/* The call, and with it the semaphore, is there until the operation's last user is gone. */
static void semaphore_give_back(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->waiter.passed && !op->won);
    struct hlk_semaphore_call *call = op->with;
    struct hlk_release *pending = &op->take_back;
    hlk_entry_note_given_back(call->semaphore->line, call->count);
    hlk_semaphore_fill_release(pending, call->semaphore->lock, call->count, HLK_SEMAPHORE_RELEASE_IF, NULL);
    pending->settled = on_given_back;
    pending->ctx = call;
    atomic_fetch_add(&op->users, 1);
    hlk_release_start(&hlk_lock_node(call->semaphore->lock)->releases, pending, NULL, false);
}

/* --- the terms --- */

static void free_semaphore_call(void *with)
{
    struct hlk_semaphore_call *call = with;
    hlk_semaphore_unref(call->semaphore);
    hlk_mem_free(call);
}

static const struct hlk_acquire_hooks semaphore_hooks = {
    .begin = semaphore_begin,
    .tries = semaphore_tries,
    .join = semaphore_join,
    .may_repeat = semaphore_may_repeat,
    .taken_ms = semaphore_taken_ms,
    .keep = semaphore_keep,
    .give_back = semaphore_give_back,
    .free = free_semaphore_call,
};

/* An acquire waits in the line, whose first call asks for all calls of the line. But while the first call asks, it is
 * not known whether permits are free. Other calls need not wait for its answer: they try themselves, each in an entry
 * of its own. */
bool hlk_semaphore_terms(hlk_semaphore *semaphore, int64_t permits, bool once, struct hlk_acquire_terms *out)
{
    HLK_DEBUG_ASSERT(permits > 0 && out);
    hlk_lock *lock = semaphore->lock;
    struct hlk_semaphore_call *call = hlk_mem_zalloc(sizeof *call);
    if (!call) {
        (void)hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
        return false;
    }
    *out = (struct hlk_acquire_terms){
        .lock = lock, .holder = hlk_lock_call_holder(lock), .permits = permits, .hooks = &semaphore_hooks, .with = call
    };
    bool tries = once || hlk_entry_may_try_permits(semaphore->line);
    out->entry = tries ? hlk_lock_entry(lock, "acquire", out->holder.id) : semaphore->line;
    if (!out->entry) {
        hlk_mem_free(call);
        return false;
    }
    if (!tries)
        hlk_entry_ref(out->entry);
    call->semaphore = semaphore;
    hlk_semaphore_ref(semaphore);
    call->count = permits;
    call->waits = !once;
    return true;
}
