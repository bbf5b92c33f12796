/* Notes for people, beside a lock: who holds it, and why. A note is a key of its own for each hold, with a ttl. Nothing
 * depends on it. */
#include "hasplock/inspect.h"

#include "base/debug.h"
#include "handle/send.h"
#include "script/shared_commands.h"

#include <string.h>

_Static_assert(HLK_NOTE_MAX + 2 * HLK_KEY_MAX + HLK_FIELD_MAX <= HLK_COMMAND_MAX, "a command has room for a note");

static enum hlk_status check_lock_of_note(const hlk_lock *lock, const char *operation)
{
    enum hlk_status status = hlk_lock_check(lock, operation);
    if (status == HLK_OK && lock->members)
        return hlk_lock_not_of_multilock(lock, operation);
    if (status == HLK_OK && hlk_lock_group(lock))
        return hlk_lock_fail(lock, operation, HLK_E_INVALID, "over several masters there are no notes");
    return status;
}

enum hlk_status hlk_lock_write_note(hlk_lock *lock, const char *note, int64_t ttl_ms)
{
    static const char what[] = "write note";
    struct hlk_view view;
    enum hlk_status status = check_lock_of_note(lock, what);
    if (status != HLK_OK)
        return status;
    if (note && (!*note || strlen(note) > HLK_NOTE_MAX))
        return hlk_lock_fail(lock, what, HLK_E_INVALID, "a note has 1 to %d bytes", HLK_NOTE_MAX);
    if (note && (ttl_ms < HLK_LEASE_MIN_MS || ttl_ms > HLK_LEASE_MAX_MS))
        return hlk_lock_fail(lock, what, HLK_E_INVALID, "ttl_ms %lld is not between %d and a year", (long long)ttl_ms,
                             HLK_LEASE_MIN_MS);
    if (atomic_load(&lock->forbidden))
        return hlk_lock_fail(lock, what, HLK_E_AUTH,
                             "this user may not write notes: docs/acl.md, section Notes; nothing was sent");
    hlk_lock_view_exposing_id(lock, &view);
    if (view.count == 0)
        return hlk_lock_not_held(lock, what);
    if (note && view.lost)
        return hlk_lock_fail(lock, what, HLK_LOST, "the hold was lost (%s)", view.why);
    const struct hlk_command cmd = { .type = note ? &hlk_command_write_note : &hlk_command_remove_note,
                                     .hold = view.h,
                                     .note = note,
                                     .lease_ms = ttl_ms };
    hlk_lock_send_and_forget(lock, &cmd);
    return HLK_OK;
}

struct note_found {
    char *buf;
    size_t size;
    int64_t left_ms;
    bool understood;
};

static void read_note(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    struct note_found *found = ctx;
    bool is_note = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_INTEGER;
    found->understood = is_note || reply->type == REDIS_REPLY_NIL;
    if (!is_note)
        return;
    size_t len = strnlen(reply->element[0]->str, found->size - 1);
    memcpy(found->buf, reply->element[0]->str, len);
    found->buf[len] = '\0';
    found->left_ms = reply->element[1]->integer;
}

enum hlk_status hlk_lock_read_note(hlk_lock *lock, const char *holder, char *buf, size_t size, int64_t *left_ms)
{
    static const char what[] = "read note";
    if (buf && size > 0)
        buf[0] = '\0';
    enum hlk_status status = check_lock_of_note(lock, what);
    if (status != HLK_OK)
        return status;
    if (!buf || size == 0)
        return hlk_lock_fail(lock, what, HLK_E_INVALID, "no buffer");
    if (!holder || !*holder || strlen(holder) >= HLK_FIELD_MAX)
        return hlk_lock_fail(lock, what, HLK_E_INVALID, "a holder has 1 to %d bytes", HLK_FIELD_MAX - 1);
    const struct hlk_command cmd = { .type = &hlk_command_read_note, .only = holder };
    struct note_found found = { .buf = buf, .size = size };
    status = hlk_lock_send(lock, what, &cmd, NULL, read_note, &found);
    if (status == HLK_OK && !found.understood)
        return hlk_lock_fail(lock, what, HLK_E_SERVER, "unexpected reply of the server");
    if (status == HLK_OK && left_ms)
        *left_ms = found.left_ms;
    return status;
}
