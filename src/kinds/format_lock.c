/* A lock that is a hash with one field: Redisson's RLock and RFencedLock. Its waiters stand in a queue of ours, which
 * Redisson does not know. lua/lock_*.lua */
#include "kinds/kind.h"

#include "base/debug.h"
#include "script/batch.h"
#include "script/shared_commands.h"

/* Lock, queue, and the counter of tokens if it is needed. */
static char *put_keys(char *at, const struct hlk_command *cmd, bool token)
{
    at = hlk_put_key(hlk_put_name(at, cmd), cmd, hlk_key_queue);
    return token ? hlk_put_key(at, cmd, hlk_key_token) : at;
}

static char *put_member(char *at, const struct hlk_command *cmd)
{
    char member[HLK_MEMBER_MAX];
    size_t len = cmd->member.since_ms ? hlk_member(member, cmd->client_id, cmd->hold, &cmd->member) : 0;
    return hlk_wire_word(at, member, len);
}

/* It may be one of many (script/batch.h). */
static void set_batch_letter(struct hlk_command *cmd, char letter, const char *start, const char *keys,
                             const char *args, const char *end)
{
    HLK_DEBUG_ASSERT(letter && start < keys && keys < args && args < end);
    if (cmd->whole || cmd->unbatched || cmd->fenced || cmd->member.since_ms)
        return;
    cmd->call.batch_letter = letter;
    cmd->call.keys_at = (unsigned)(keys - start);
    cmd->call.args_at = (unsigned)(args - start);
    cmd->call.args_end = (unsigned)(end - start);
}

/* What is not needed is not sent: mostly no client waits. */
static char *lock_put_acquire(char *at, struct hlk_command *cmd)
{
    size_t n = cmd->fenced ? 3 : 2, args = cmd->fenced ? 5 : cmd->member.since_ms ? 3 : 2;
    char *start = at, *keys = hlk_put_script(at, HLK_SCRIPT_LOCK_ACQUIRE, cmd, n + args, n),
         *first = put_keys(keys, cmd, cmd->fenced);
    at = hlk_put_field(hlk_wire_number(first, cmd->lease_ms), cmd->client_id, cmd->hold);
    set_batch_letter(cmd, HLK_BATCH_ACQUIRE, start, keys, first, at);
    if (args > 2)
        at = put_member(at, cmd);
    return cmd->fenced ? hlk_wire_number(hlk_wire_number(at, cmd->member.tokens), cmd->member.floor) : at;
}

static char *lock_put_release(char *at, struct hlk_command *cmd)
{
    size_t n = cmd->fenced ? 3 : 2;
    size_t args = cmd->member.since_ms ? 6 : cmd->tombstone ? 5 : cmd->yield_ms ? 4 : cmd->short_hold_ms ? 3 : 2;
    char *start = at, *keys = hlk_put_script(at, HLK_SCRIPT_LOCK_RELEASE, cmd, n + args, n),
         *first = put_keys(keys, cmd, cmd->fenced);
    at = hlk_put_key(hlk_put_field(first, cmd->client_id, cmd->hold), cmd, hlk_key_channel);
    if (!cmd->tombstone)
        set_batch_letter(cmd, cmd->yield_ms ? HLK_BATCH_YIELD_RELEASE : HLK_BATCH_RELEASE, start, keys, first, at);
    if (args > 2)
        at = hlk_wire_number(at, cmd->short_hold_ms);
    if (args > 3)
        at = hlk_wire_number(at, cmd->yield_ms);
    if (args > 4)
        at = hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0);
    return args > 5 ? put_member(at, cmd) : at;
}

static char *lock_put_break(char *at, struct hlk_command *cmd)
{
    at = put_keys(hlk_put_script(at, HLK_SCRIPT_LOCK_BREAK, cmd, cmd->only ? 5 : 4, 3), cmd, true);
    return hlk_put_only(hlk_put_key(at, cmd, hlk_key_channel), cmd);
}

static char *lock_put_query(char *at, struct hlk_command *cmd)
{
    at = put_keys(hlk_put_script(at, HLK_SCRIPT_LOCK_QUERY, cmd, 4, 2), cmd, false);
    return hlk_wire_number(hlk_put_key(at, cmd, hlk_key_channel), cmd->count);
}

static bool is_acquired(const struct hlk_command *cmd, const redisReply *reply, struct hlk_answer *out)
{
    if (!cmd->fenced)
        return hlk_answer_names(reply, cmd->client_id, cmd->hold);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_INTEGER ||
        !hlk_answer_names(reply->element[1], cmd->client_id, cmd->hold))
        return false;
    out->token = reply->element[0]->integer;
    return true;
}

static enum hlk_answer_kind lock_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                              struct hlk_answer *out)
{
    HLK_DEBUG_ASSERT(reply);
    out->token = 0;
    if (is_acquired(cmd, reply, out))
        return HLK_ANSWER_ACQUIRED;
    if (hlk_answer_read_busy(reply, out) && reply->elements == 3) {
        /* In a yield window there is no holder. A waiter of ours that listened on the channel then would be taken for
         * one of Redisson's, and the next release would open a window for it. */
        out->foreign = out->holder_len > 0 && !hlk_field_is_ours(out->holder);
        return HLK_ANSWER_BUSY;
    }
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == -1 ? HLK_ANSWER_TOMBSTONE : HLK_ANSWER_NONE;
}

static size_t lock_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_channel(out, cmd->name, cmd->name_len);
}

static hlk_key_fn *const lock_keys[] = { hlk_key_queue, NULL };
static hlk_key_fn *const break_keys[] = { hlk_key_queue, hlk_key_token, NULL };

const struct hlk_format hlk_format_lock = {
    .acquire = { .script = HLK_SCRIPT_LOCK_ACQUIRE, .put = lock_put_acquire, .keys = lock_keys },
    .release = { .script = HLK_SCRIPT_LOCK_RELEASE, .put = lock_put_release, .keys = lock_keys },
    .break_it = { .script = HLK_SCRIPT_LOCK_BREAK, .put = lock_put_break, .keys = break_keys },
    .query = { .script = HLK_SCRIPT_LOCK_QUERY, .put = lock_put_query, .keys = lock_keys },
    .reacquire = &hlk_command_reacquire,
    .renew = &hlk_command_renew,
    .read_acquire = lock_read_acquire,
    .foreign_channel = lock_channel,
};
