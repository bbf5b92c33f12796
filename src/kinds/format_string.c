/* A lock that is a string, the holder's token: that of redis-py's Lock, of bsm/redislock and of the Redis page. Its
 * waiters stand in the queue of a plain lock; foreign ones stand in none, and foreign holders do not say that they
 * release. lua/string_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"
#include "script/command.h"
#include "script/shared_commands.h"

static char *string_put_keys(char *at, const struct hlk_command *cmd, size_t args)
{
    at = hlk_put_name(hlk_put_script(at, cmd->type->script, cmd, 2 + args, 2), cmd);
    return hlk_put_key(at, cmd, hlk_key_queue);
}

static char *string_put_member(char *at, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->member.since_ms);
    char member[HLK_MEMBER_MAX];
    size_t len = hlk_member(member, cmd->client_id, cmd->hold, &cmd->member);
    return hlk_wire_word(at, member, len);
}

static char *string_put_acquire(char *at, struct hlk_command *cmd)
{
    at = string_put_keys(at, cmd, cmd->member.since_ms ? 3 : 2);
    at = hlk_put_field(hlk_wire_number(at, cmd->lease_ms), cmd->client_id, cmd->hold);
    return cmd->member.since_ms ? string_put_member(at, cmd) : at;
}

static char *string_put_release(char *at, struct hlk_command *cmd)
{
    size_t args = cmd->member.since_ms ? 3 : cmd->tombstone ? 2 : 1;
    at = hlk_put_field(string_put_keys(at, cmd, args), cmd->client_id, cmd->hold);
    if (args > 1)
        at = hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0);
    return args > 2 ? string_put_member(at, cmd) : at;
}

static char *string_put_break(char *at, struct hlk_command *cmd)
{
    return hlk_put_only(string_put_keys(at, cmd, cmd->only ? 1 : 0), cmd);
}

static char *string_put_query(char *at, struct hlk_command *cmd)
{
    return hlk_wire_number(string_put_keys(at, cmd, 1), cmd->count);
}

static enum hlk_answer_kind string_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                                struct hlk_answer *out)
{
    out->token = 0;
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold))
        return HLK_ANSWER_ACQUIRED;
    if (hlk_answer_read_busy(reply, out) && reply->elements == 3) {
        out->silent = out->holder_len > 0 && !hlk_field_is_ours(out->holder);
        return HLK_ANSWER_BUSY;
    }
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == -1 ? HLK_ANSWER_TOMBSTONE : HLK_ANSWER_NONE;
}

static hlk_key_fn *const string_keys[] = { hlk_key_queue, NULL };
static hlk_key_fn *const no_keys[] = { NULL };
#define STRING_RIGHTS "string locks also need its section String locks"

static const struct hlk_command_type string_extend = { HLK_SCRIPT_STRING_EXTEND, hlk_put_reacquire, no_keys,
                                                       STRING_RIGHTS },
                                     string_renew = { HLK_SCRIPT_STRING_RENEW, hlk_put_renew, NULL, STRING_RIGHTS };

const struct hlk_format hlk_format_string = {
    .acquire = { HLK_SCRIPT_STRING_ACQUIRE, string_put_acquire, string_keys, STRING_RIGHTS },
    .release = { HLK_SCRIPT_STRING_RELEASE, string_put_release, string_keys, STRING_RIGHTS },
    .break_it = { HLK_SCRIPT_STRING_BREAK, string_put_break, string_keys, STRING_RIGHTS },
    .query = { HLK_SCRIPT_STRING_QUERY, string_put_query, string_keys, STRING_RIGHTS },
    .reacquire = &string_extend,
    .renew = &string_renew,
    .read_acquire = string_read_acquire,
    .letter = 's',
};
