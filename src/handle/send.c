#include "handle/send.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/holding.h"
#include "lease/raise.h"
#include "net/pipeline_link.h"
#include "net/pipeline_wait.h"
#include "node/topology.h"
#include "script/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct blocking_command { /* on the heap: its attempt may outlive the caller */
    struct hlk_command cmd;
    hlk_lock *lock;
    struct hlk_thread *self;
    struct hlk_cancel_wait cancel_wait;
    struct hlk_raise raise;
};

static void free_blocking_command(struct blocking_command *blocking)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(blocking->lock);
    hlk_raise_end(&blocking->raise, &blocking->cmd);
    hlk_command_drop_reply(&blocking->cmd);
    hlk_handle_release(&blocking->lock->handle);
    hlk_mem_free(blocking);
}

static void blocking_on_done(struct hlk_call *call)
{
    free_blocking_command(HLK_CONTAINER(call, struct blocking_command, cmd.call));
}

static void blocking_on_cancel(struct hlk_cancel_wait *wait)
{
    hlk_park_wake(&HLK_CONTAINER(wait, struct blocking_command, cancel_wait)->self->park, HLK_WAKE_CANCEL);
}

/* Until it is answered, or the cancel is triggered. The bits are only hints. */
static enum hlk_status send_and_wait(struct blocking_command *blocking, const struct hlk_send_limits *limits,
                                     bool *in_flight, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(blocking->self && limits->max_ms >= 0);
    hlk_client *client = blocking->lock->client;
    int64_t now = hlk_clock_ms(),
            max_at_ms = hlk_clock_after(hlk_clock_after(now, client->reconnect_timeout_ms), client->reply_timeout_ms);
    unsigned mask = limits->cancel ? HLK_WAKE_CANCEL : 0;
    blocking->cmd.limits =
        (struct hlk_limits){ .at_ms = limits->max_ms > 0 ? hlk_clock_after(now, limits->max_ms) : max_at_ms,
                             .began_ms = now,
                             .reconnect_timeout_ms = client->reconnect_timeout_ms,
                             .once = limits->once };
    enum hlk_status status;
    do {
        (void)hlk_park_take(&blocking->self->park, mask);
        if (limits->cancel && hlk_cancel_triggered(limits->cancel))
            return hlk_error_set(error, HLK_INTERRUPTED, "cancelled");
        status = hlk_command_run(&blocking->cmd, blocking->self, mask, in_flight, error);
    } while (status == HLK_INTERRUPTED);
    return status == HLK_OK ? status : hlk_command_give_up(&blocking->cmd, error);
}

/* NULL: no memory, the thread's error is set. */
static struct blocking_command *make_blocking_command(hlk_lock *lock, const char *operation,
                                                      const struct hlk_command *command)
{
    HLK_DEBUG_ASSERT(command->type && command->type->put);
    struct hlk_thread *self = hlk_thread_get();
    struct blocking_command *blocking = self ? hlk_mem_zalloc(sizeof *blocking) : NULL;
    if (!blocking) {
        (void)hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    blocking->cmd = *command;
    blocking->cmd.client_id = lock->client->id;
    blocking->cmd.name = hlk_lock_text(lock);
    blocking->cmd.name_len = hlk_lock_text_len(lock);
    if (!blocking->cmd.pipeline)
        hlk_node_direct(hlk_lock_node(lock), &blocking->cmd);
    blocking->lock = lock;
    blocking->self = self;
    blocking->cancel_wait.wake = blocking_on_cancel;
    hlk_handle_retain(&lock->handle);
    return blocking;
}

/* Sends, and frees `blocking`: at once, or when the attempt that is still in flight has ended. */
static enum hlk_status run_blocking_command(struct blocking_command *blocking, const char *operation,
                                            const struct hlk_send_limits *limits,
                                            void (*read)(const struct hlk_command *cmd, void *ctx), void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(read);
    static const struct hlk_send_limits usual;
    hlk_lock *lock = blocking->lock;
    struct hlk_error error;
    bool in_flight = false;
    int old = hlk_nocancel_begin(); /* a short command is no cancellation point */
    if (!limits)
        limits = &usual;
    if (limits->cancel)
        (void)hlk_cancel_join(limits->cancel, &blocking->cancel_wait);
    enum hlk_status status = send_and_wait(blocking, limits, &in_flight, &error);
    hlk_cancel_leave(limits->cancel, &blocking->cancel_wait);
    if (status == HLK_OK)
        read(&blocking->cmd, ctx);
    else if (limits->error)
        *limits->error = error;
    else
        status = hlk_lock_fail(lock, operation, status, "%s", error.text);
    if (!in_flight || !hlk_pipeline_leave(blocking->cmd.pipeline, &blocking->cmd.call, blocking_on_done))
        free_blocking_command(blocking);
    hlk_nocancel_end(old);
    return status;
}

enum hlk_status hlk_lock_send(hlk_lock *lock, const char *operation, const struct hlk_command *command,
                              const struct hlk_send_limits *limits,
                              void (*read)(const struct hlk_command *cmd, void *ctx), void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(command && read);
    struct blocking_command *blocking = make_blocking_command(lock, operation, command);
    if (blocking)
        return run_blocking_command(blocking, operation, limits, read, ctx);
    if (limits && limits->error)
        *limits->error = (struct hlk_error){ HLK_E_NOMEM, "no memory; nothing was sent" };
    return HLK_E_NOMEM;
}

struct number {
    int64_t value;
    bool understood;
};

static void read_number(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    struct number *number = ctx;
    const redisReply *reply = cmd->call.reply;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        reply = reply->element[0];
    bool is_text = reply->type == REDIS_REPLY_STRING;
    number->understood = is_text || reply->type == REDIS_REPLY_INTEGER;
    number->value = is_text ? strtoll(reply->str, NULL, 10) : reply->integer;
}

enum hlk_status hlk_lock_ask_number(hlk_lock *lock, const char *operation, const struct hlk_command *command,
                                    bool changes, int64_t *answer)
{
    HLK_DEBUG_ASSERT(answer);
    struct number number = { 0, false };
    const struct hlk_send_limits limits = { .once = changes };
    enum hlk_status status = hlk_lock_send(lock, operation, command, &limits, read_number, &number);
    if (status == HLK_OK && !number.understood)
        return hlk_lock_fail(lock, operation, HLK_E_SERVER, "unexpected reply of the server");
    if (status == HLK_OK)
        *answer = number.value;
    return status;
}

/* --- without a caller --- */

struct forgotten {
    struct hlk_command cmd;
    hlk_lock *lock; /* its handle is referenced */
    char text[];    /* cmd.drop_notes, or cmd.note */
};

static void end_forgotten(struct forgotten *forgotten)
{
    hlk_mutex_assert_none();
    hlk_command_drop_reply(&forgotten->cmd);
    hlk_handle_release(&forgotten->lock->handle);
    hlk_mem_free(forgotten);
}

static void send_forgotten(struct forgotten *forgotten)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    if (hlk_command_send(&forgotten->cmd, &error) != HLK_COMMAND_IN_FLIGHT)
        end_forgotten(forgotten);
}

/* The server may not know the script, or may have the slot no more: it is sent again. */
static void on_forgotten(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct forgotten *forgotten = HLK_CONTAINER(call, struct forgotten, cmd.call);
    struct hlk_error error = { .status = HLK_OK };
    enum hlk_progress progress = hlk_command_end(&forgotten->cmd, &error);
    if (progress == HLK_COMMAND_RESEND) {
        send_forgotten(forgotten);
        return;
    }
    if (progress == HLK_COMMAND_FAILED && error.status == HLK_E_AUTH)
        atomic_store(&forgotten->lock->forbidden, true);
    end_forgotten(forgotten);
}

void hlk_lock_send_and_forget(hlk_lock *lock, const struct hlk_command *command)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(command->type && command->type->put);
    HLK_DEBUG_ASSERT(!command->drop_notes || !command->note);
    const char *text = command->drop_notes ? command->drop_notes : command->note;
    size_t size = text ? strlen(text) + 1 : 0;
    struct forgotten *forgotten = hlk_mem_zalloc(sizeof *forgotten + size);
    if (!forgotten)
        return;
    forgotten->cmd = *command;
    forgotten->cmd.client_id = lock->client->id;
    forgotten->cmd.name = hlk_lock_text(lock);
    forgotten->cmd.name_len = hlk_lock_text_len(lock);
    if (text)
        memcpy(forgotten->text, text, size);
    forgotten->cmd.drop_notes = command->drop_notes ? forgotten->text : NULL;
    forgotten->cmd.note = command->note ? forgotten->text : NULL;
    forgotten->cmd.call.done = on_forgotten;
    forgotten->cmd.call.lazy = true;
    forgotten->lock = lock;
    hlk_handle_retain(&lock->handle);
    hlk_node_direct(hlk_lock_node(lock), &forgotten->cmd);
    send_forgotten(forgotten);
}

/* --- a lease that is raised --- */

static void read_raised(const struct hlk_command *cmd, void *raised)
{
    struct blocking_command *blocking = HLK_CONTAINER(cmd, struct blocking_command, cmd);
    *(bool *)raised = hlk_raise_answer(&blocking->raise, cmd);
}

/* The hold that was to be raised is over. */
static enum hlk_status raised_nothing(hlk_lock *lock, struct hlk_entry *e, const char *operation, uint64_t h)
{
    HLK_DEBUG_ASSERT(e && h);
    struct hlk_view view;
    hlk_entry_view(e, hlk_lock_holder(lock, hlk_thread_get()).id, &view);
    if (view.h != h || (view.count == 0 && !view.lost)) /* released by its owner's other threads, or a new hold */
        return hlk_lock_not_held(lock, operation);
    return hlk_lock_fail(lock, operation, HLK_LOST, "the hold was lost (%s)",
                         view.lost ? view.why : hlk_lease_why_unknown);
}

enum hlk_status hlk_lock_reacquire(hlk_lock *lock, struct hlk_entry *e, const char *operation, uint64_t h,
                                   int64_t count, int64_t lease_ms, const struct hlk_send_limits *limits)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(h && count > 0 && lease_ms >= 0);
    struct hlk_command cmd = { .type = lock->kind->format->reacquire, .hold = h, .count = count, .lease_ms = lease_ms };
    struct blocking_command *blocking = make_blocking_command(lock, operation, &cmd);
    if (!blocking)
        return HLK_E_NOMEM;
    bool raised = false;
    enum hlk_status status = HLK_OK;
    if (hlk_raise_begin(&blocking->raise, e, &blocking->cmd, false))
        status = run_blocking_command(blocking, operation, limits, read_raised, &raised);
    else
        free_blocking_command(blocking);
    return status == HLK_OK && !raised ? raised_nothing(lock, e, operation, h) : status;
}

/* --- a count for display --- */

struct recount {
    struct hlk_command cmd;
    hlk_lock *lock; /* its handle is referenced, and so is: */
    struct hlk_entry *e;
};

static void on_recounted(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct recount *recount = HLK_CONTAINER(call, struct recount, cmd.call);
    enum hlk_raised raised = hlk_answer_read_raised(&recount->cmd);
    if (raised == HLK_RAISED_GONE)
        hlk_entry_lose(recount->e, recount->cmd.hold, hlk_lease_why_unknown);
    else if (raised == HLK_RAISED_NONE)
        hlk_pipeline_distrust(recount->cmd.pipeline, call->epoch);
    hlk_command_drop_reply(&recount->cmd);
    hlk_entry_unref(recount->e);
    hlk_handle_release(&recount->lock->handle);
    hlk_mem_free(recount);
}

void hlk_lock_write_count(hlk_lock *lock, struct hlk_entry *e, uint64_t h, int64_t count)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(h && count > 0);
    struct recount *recount = hlk_mem_zalloc(sizeof *recount);
    if (!recount)
        return;
    recount->lock = lock;
    recount->e = e;
    hlk_handle_retain(&lock->handle);
    hlk_entry_ref(e);
    recount->cmd = (struct hlk_command){ .type = lock->kind->format->reacquire,
                                         .client_id = lock->client->id,
                                         .name = hlk_entry_name(e),
                                         .name_len = hlk_entry_len(e),
                                         .hold = h,
                                         .count = count };
    hlk_node_direct(e->node, &recount->cmd);
    recount->cmd.call.done = on_recounted;
    recount->cmd.call.lazy = true;
    struct hlk_error error;
    if (hlk_command_send(&recount->cmd, &error) != HLK_COMMAND_IN_FLIGHT)
        on_recounted(&recount->cmd.call);
}

static enum hlk_status extend(hlk_lock *lock, struct hlk_entry *e, uint64_t holder, int64_t lease_ms)
{
    HLK_DEBUG_ASSERT(holder && lease_ms >= HLK_LEASE_MIN_MS);
    struct hlk_view view;
    hlk_entry_view(e, holder, &view);
    if (view.lost)
        return hlk_lock_fail(lock, "extend", HLK_LOST, "the hold was lost (%s)", view.why);
    if (view.count == 0)
        return hlk_lock_not_held(lock, "extend");
    int64_t now = hlk_clock_ms();
    if (now >= view.until_ms) { /* the loop has not reported it yet; the lease is not revived */
        hlk_entry_lose(e, view.h, "the lease is over");
        return hlk_lock_fail(lock, "extend", HLK_LOST, "the lease is over");
    }
    if (hlk_clock_after(now, lease_ms) > view.cap_ms)
        return hlk_lock_fail(lock, "extend", HLK_E_INVALID,
                             "lease_ms %lld is more than the %lld ms that max_hold_ms leaves", (long long)lease_ms,
                             (long long)(view.cap_ms > now ? view.cap_ms - now : 0));
    return hlk_lock_reacquire(lock, e, "extend", view.h, view.count, lease_ms, NULL);
}

enum hlk_status hlk_lock_extend(hlk_lock *lock, int64_t lease_ms)
{
    enum hlk_status status = hlk_lock_check(lock, "extend");
    if (status != HLK_OK)
        return status;
    if (lease_ms < HLK_LEASE_MIN_MS || lease_ms > HLK_LEASE_MAX_MS)
        return hlk_lock_fail(lock, "extend", HLK_E_INVALID, "lease_ms %lld is not between %d and a year",
                             (long long)lease_ms, HLK_LEASE_MIN_MS);
    if (hlk_lock_group(lock))
        return hlk_lock_group(lock)->extend(lock, lease_ms);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(lock, "extend", HLK_E_NOMEM, "no memory; nothing was sent");
    uint64_t holder = hlk_lock_holder(lock, self).id;
    struct hlk_entry *e = hlk_lock_entry(lock, "extend", holder);
    if (!e)
        return HLK_E_NOMEM;
    status = extend(lock, e, holder, lease_ms);
    hlk_lock_drop_entry(lock, e);
    return status;
}

/* A text: the holder from which it was taken; {text}: another one, which keeps it; nil: no holder. */
static void read_broken(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    struct hlk_broken *out = ctx;
    out->taken = reply->type == REDIS_REPLY_STRING;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1)
        reply = reply->element[0];
    if (reply->type == REDIS_REPLY_STRING && reply->len < sizeof out->holder)
        memcpy(out->holder, reply->str, reply->len + 1);
}

/* If the broken hold belongs to this client, the loss is reported now, not at its next renewal. */
static void report_if_ours(hlk_lock *lock, const char *holder)
{
    if (!hlk_field_is_of(holder, strlen(holder), lock->client->id))
        return;
    uint64_t h = strtoull(strrchr(holder, ':') + 1, NULL, 10);
    if (lock->kind->format->per_holder)
        hlk_entry_lose_own(hlk_lock_node(lock), h, hlk_lease_why_broken);
    else
        hlk_entry_lose(lock->entry, h, hlk_lease_why_broken);
}

enum hlk_status hlk_lock_break_at(hlk_lock *lock, hlk_pipeline *at, int64_t max_ms, const char *only,
                                  struct hlk_broken *out, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(out && (at != NULL) == (error != NULL));
    struct hlk_command cmd = { .type = &lock->kind->format->break_it, .pipeline = at, .only = only };
    const struct hlk_send_limits limits = { .max_ms = max_ms, .once = true, .error = error };
    *out = (struct hlk_broken){ false, "" };
    return hlk_lock_send(lock, "break", &cmd, &limits, read_broken, out);
}

enum hlk_status hlk_lock_not_broken(const hlk_lock *lock, const char *only, const char *holder)
{
    HLK_DEBUG_ASSERT(holder);
    if (!*holder || !only)
        return hlk_lock_fail(lock, "break", HLK_NOT_HOLDER, "nobody held it; nothing was changed");
    return hlk_lock_fail(lock, "break", HLK_NOT_HOLDER, "%s holds it, and not %s; nothing was changed", holder, only);
}

static enum hlk_status break_on_one(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX])
{
    HLK_DEBUG_ASSERT(!hlk_lock_group(lock));
    struct hlk_broken broken;
    enum hlk_status status = hlk_lock_break_at(lock, NULL, 0, only, &broken, NULL);
    if (status != HLK_OK)
        return status;
    memcpy(holder, broken.holder, sizeof broken.holder);
    if (!broken.taken)
        return hlk_lock_not_broken(lock, only, holder);
    report_if_ours(lock, holder);
    return HLK_OK;
}

static enum hlk_status break_it(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX])
{
    enum hlk_status status = hlk_lock_check(lock, "break");
    if (status != HLK_OK)
        return status;
    if (!lock->kind->format->break_it.put)
        return hlk_lock_fail(lock, "break", HLK_E_INVALID, "a lock of this kind cannot be broken");
    if (only && (!*only || strlen(only) >= HLK_FIELD_MAX))
        return hlk_lock_fail(lock, "break", HLK_E_INVALID, "a holder has 1 to %d bytes, not %zu", HLK_FIELD_MAX - 1,
                             strlen(only));
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (!group)
        return break_on_one(lock, only, holder);
    return group->break_it ? group->break_it(lock, only, holder) : hlk_lock_not_of_multilock(lock, "break");
}

enum hlk_status hlk_lock_break(hlk_lock *lock)
{
    char holder[HLK_FIELD_MAX];
    return break_it(lock, NULL, holder);
}

enum hlk_status hlk_lock_break_holder(hlk_lock *lock, const char *holder, char *buf, size_t size)
{
    char found[HLK_FIELD_MAX] = "";
    enum hlk_status status = break_it(lock, holder, found);
    if (buf && size > 0)
        (void)snprintf(buf, size, "%s", found);
    return status;
}
