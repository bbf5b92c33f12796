#include "api/semaphore_call.h"

#include "base/clock.h"
#include "base/mem.h"
#include "node/cluster.h"

/* --- notes --- */

/* drop_notes: cmd->drop_notes, which lives until `done`. That runs once, perhaps before this returns. */
static void send_drop_notes(struct hlk_command *cmd, const hlk_lock *lock, const char *drop_notes,
                            void (*done)(struct hlk_call *call))
{
    struct hlk_error error;
    *cmd = (struct hlk_command){ .type = &hlk_semaphore_command,
                                 .change = HLK_SEMAPHORE_DROP_NOTES,
                                 .client_id = lock->client->id,
                                 .name = hlk_lock_text(lock),
                                 .name_len = hlk_lock_text_len(lock),
                                 .drop_notes = drop_notes };
    hlk_node_direct(hlk_lock_node(lock), cmd);
    cmd->call.done = done;
    cmd->call.lazy = true;
    if (hlk_command_send(cmd, &error) != HLK_COMMAND_IN_FLIGHT)
        done(&cmd->call);
}

struct notes_drop { /* nobody waits for it */
    struct hlk_command cmd;
    hlk_lock *lock;
    char drop_notes[HLK_NOTES_TEXT(HLK_NOTES_KEPT)];
};

static void on_notes_dropped(struct hlk_call *call)
{
    struct notes_drop *drop = HLK_CONTAINER(call, struct notes_drop, cmd.call);
    hlk_command_drop_reply(&drop->cmd);
    hlk_handle_release(&drop->lock->handle);
    hlk_mem_free(drop);
}

void hlk_semaphore_drop_notes(hlk_lock *lock, struct hlk_notes *notes)
{
    struct notes_drop *drop = hlk_mem_zalloc(sizeof *drop);
    if (!drop || hlk_notes_take(notes, drop->drop_notes, HLK_NOTES_KEPT) == 0) {
        hlk_mem_free(drop);
        return;
    }
    drop->lock = lock;
    hlk_handle_retain(&lock->handle);
    send_drop_notes(&drop->cmd, lock, drop->drop_notes, on_notes_dropped);
}

/* --- an acquire --- */

static struct hlk_semaphore_call *call_of(const struct hlk_acquire_op *op)
{
    return hlk_lock_semaphore_call(op->lock);
}

void hlk_semaphore_call_begin(struct hlk_acquire_op *op)
{
    struct hlk_semaphore_call *call = call_of(op);
    if (!call || !call->notes)
        return;
    (void)hlk_notes_take(call->notes, call->text, HLK_NOTES_SENT);
    op->cmd.drop_notes = call->text;
}

/* With an attempt in doubt it stays where its hold id is. */
bool hlk_semaphore_call_tries(const struct hlk_acquire_op *op)
{
    const struct hlk_semaphore_call *call = call_of(op);
    return call && call->line && op->lock->entry != call->line && !op->cmd.doubt;
}

enum hlk_enter hlk_semaphore_call_join(struct hlk_acquire_op *op)
{
    struct hlk_entry *own = op->lock->entry, *line = call_of(op)->line;
    (void)hlk_entry_leave(own, &op->waiter, false); /* it has no ticket, and its command is answered */
    hlk_entry_ref(line);
    op->lock->entry = line;
    op->cmd.name = hlk_entry_name(line);
    op->cmd.hold = 0;
    hlk_entry_unref(own);
    op->waiter.tried = true;
    return hlk_entry_enter(line, &op->waiter);
}

bool hlk_semaphore_call_may_repeat(struct hlk_acquire_op *op)
{
    const struct hlk_semaphore_call *call = call_of(op);
    if (!call || !call->notes || !hlk_command_note_may_be_gone(&op->cmd))
        return true;
    (void)hlk_error_set(&op->error, HLK_E_UNSURE,
                        "sent, and not answered for %d minutes: it is not sent again, because it could take twice; if "
                        "it has taken the permits, nobody has them",
                        HLK_REPEAT_MS / 60000);
    return false;
}

/* An attempt that is in flight was not sent earlier than that: its connection would have been given up. */
int64_t hlk_semaphore_call_taken_ms(const struct hlk_acquire_op *op)
{
    const struct hlk_semaphore_call *call = call_of(op);
    if (!call || !call->notes)
        return 0;
    return op->cmd.doubt_ms ? op->cmd.doubt_ms
           : op->in_flight  ? hlk_clock_ms() - op->lock->client->reply_timeout_ms
                            : 0;
}

/* In doubt the note stays: a late attempt may come. */
enum hlk_status hlk_semaphore_call_keep(struct hlk_acquire_op *op)
{
    const struct hlk_semaphore_call *call = call_of(op);
    struct hlk_release_record record;
    if (!call || !call->notes || op->waiter.passed)
        return HLK_OK;
    if (call->line)
        hlk_entry_note_permits(call->line, call->count);
    if (hlk_entry_release(op->lock->entry, op->waiter.holder.id, &record) != HLK_VERDICT_LAST)
        return hlk_error_set(&op->error, HLK_E_CLOSED, "the client is being closed");
    hlk_entry_release_finish(op->lock->entry);
    if (!record.doubt && hlk_notes_add(call->notes, record.h))
        hlk_semaphore_drop_notes(op->lock, call->notes);
    return HLK_OK;
}

/* --- a release --- */

void hlk_semaphore_fill_release(struct hlk_release *pending, const hlk_lock *lock, int64_t permits, int change,
                                const char *drop_notes)
{
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

enum hlk_status hlk_semaphore_not_released(hlk_lock *lock, const struct hlk_release *pending,
                                           enum hlk_release_outcome outcome, const struct hlk_error *error)
{
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

enum hlk_status hlk_semaphore_released(hlk_lock *lock, const struct hlk_release *pending,
                                       enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    if (outcome != HLK_RELEASE_DONE)
        return hlk_semaphore_not_released(lock, pending, outcome, error);
    HLK_COUNT(&lock->client->table, released);
    if (!pending->cmd.doubt && hlk_notes_add(lock->notes, pending->cmd.hold))
        hlk_semaphore_drop_notes(lock, lock->notes);
    return HLK_OK;
}

static void end_give_back(struct hlk_call *call)
{
    struct hlk_acquire_op *op = HLK_CONTAINER(call, struct hlk_acquire_op, take_back.cmd.call);
    hlk_lock *own = op->take_back.ctx;
    hlk_command_drop_reply(&op->take_back.cmd);
    hlk_acquire_op_drop_user(op);
    hlk_handle_release(&own->handle);
}

/* Its note goes at once: the semaphore's handle may not be there any more. */
static void on_given_back(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_lock *own = pending->ctx;
    struct hlk_semaphore_call *call = hlk_lock_semaphore_call(own);
    if (outcome != HLK_RELEASE_DONE && hlk_semaphore_not_released(own, pending, outcome, error) != HLK_NOT_HOLDER)
        hlk_log(&hlk_lock_node(own)->endpoint.log, HLK_LOG_WARN, "%s", hlk_last_error());
    if (outcome != HLK_RELEASE_DONE || pending->cmd.doubt) {
        end_give_back(&pending->cmd.call);
        return;
    }
    call->text[hlk_text_number(call->text, (int64_t)pending->cmd.hold)] = '\0';
    send_drop_notes(&pending->cmd, own, call->text, end_give_back);
}

void hlk_semaphore_call_give_back(struct hlk_acquire_op *op)
{
    hlk_lock *own = op->lock;
    struct hlk_release *pending = &op->take_back;
    hlk_entry_note_given_back(call_of(op)->line, call_of(op)->count);
    hlk_semaphore_fill_release(pending, own, call_of(op)->count, HLK_SEMAPHORE_RELEASE_IF, NULL);
    pending->settled = on_given_back;
    pending->ctx = own;
    hlk_handle_retain(&own->handle);
    atomic_fetch_add(&op->users, 1);
    hlk_release_start(&hlk_lock_node(own)->releases, pending, NULL, false);
}
