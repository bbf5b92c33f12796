/* Two formats: the Redis page's string, and Redisson's hash: that of a plain lock (src/kinds/format_lock.c). */
#include "quorum/format.h"

#include "base/debug.h"
#include "hasplock/quorum.h"
#include "kinds/kind.h"
#include "script/shared_commands.h"

static char *quorum_string_put_acquire(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->hold && cmd->lease_ms > 0);
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_QUORUM_ACQUIRE, cmd, 3, 1), cmd);
    return hlk_put_field(hlk_wire_number(at, cmd->lease_ms), cmd->client_id, cmd->hold);
}

static char *string_put_renew(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->hold && cmd->renewals);
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_QUORUM_RENEW, cmd, 3, 1), cmd);
    return hlk_wire_number(hlk_put_field(at, cmd->client_id, cmd->hold), cmd->renewals->lease_ms);
}

static char *quorum_string_put_release(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->hold);
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_QUORUM_RELEASE, cmd, 3, 1), cmd);
    return hlk_put_key(hlk_put_field(at, cmd->client_id, cmd->hold), cmd, hlk_key_channel);
}

/* A token of others may be any bytes. */
static enum hlk_answer_kind quorum_string_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                                       struct hlk_answer *out)
{
    HLK_DEBUG_ASSERT(reply);
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold))
        return HLK_ANSWER_ACQUIRED;
    return hlk_answer_read_busy(reply, out) ? HLK_ANSWER_BUSY : HLK_ANSWER_NONE;
}

static hlk_key_fn *const no_keys[] = { NULL };

static const struct hlk_command_type
    acquire = { .script = HLK_SCRIPT_QUORUM_ACQUIRE, .put = quorum_string_put_acquire, .keys = no_keys },
    release = { .script = HLK_SCRIPT_QUORUM_RELEASE, .put = quorum_string_put_release, .keys = no_keys },
    renew = { .script = HLK_SCRIPT_QUORUM_RENEW, .put = string_put_renew, .keys = no_keys };

static const struct hlk_quorum_layout string = { &acquire, &release, &renew, quorum_string_read_acquire };

static enum hlk_answer_kind hash_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                              struct hlk_answer *out)
{
    return hlk_format_lock.read_acquire(cmd, reply, out);
}

static const struct hlk_quorum_layout hash = { &hlk_format_lock.acquire, &hlk_format_lock.release, &hlk_command_renew,
                                               hash_read_acquire };

const struct hlk_quorum_layout *hlk_quorum_layout_get(int number)
{
    return number == HLK_QUORUM_STRING ? &string : number == HLK_QUORUM_HASH ? &hash : NULL;
}

int hlk_quorum_read_renew(const struct hlk_command *cmd, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(reply);
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_INTEGER &&
        hlk_answer_names(reply->element[1], cmd->client_id, cmd->hold)) /* of one lock by lua/lock_renew.lua */
        return reply->element[0]->integer == 1;
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold))
        return 1;
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == 0 ? 0 : -1;
}
