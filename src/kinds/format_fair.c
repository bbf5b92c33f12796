/* The fair lock: the same hash, and Redisson's queue (RFairLock), where each waiting thread and owner has a position.
 * lua/fair_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"
#include "script/shared_commands.h"

/* The first n keys: lock, queue, scores, notes, and the queue of a plain lock of that name. */
static char *fair_put_keys(char *at, const struct hlk_command *cmd, size_t args, size_t n)
{
    HLK_DEBUG_ASSERT(n >= 2 && n <= 5);
    static hlk_key_fn *const keys[] = { hlk_key_fair_queue, hlk_key_fair_scores, hlk_key_fair, hlk_key_queue };
    at = hlk_put_name(hlk_put_script(at, cmd->type->script, cmd, n + args, n), cmd);
    for (size_t i = 0; i < n - 1; i++)
        at = hlk_put_key(at, cmd, keys[i]);
    return at;
}

static char *fair_put_acquire(char *at, struct hlk_command *cmd)
{
    at = fair_put_keys(at, cmd, cmd->member.since_ms ? 4 : 3, cmd->checks_other_kinds ? 5 : 4);
    at = hlk_put_field(hlk_wire_number(at, cmd->lease_ms), cmd->client_id, cmd->hold);
    at = hlk_put_key(at, cmd, hlk_key_channel);
    return cmd->member.since_ms ? hlk_wire_number(at, cmd->member.ttl_ms) : at;
}

static char *fair_put_release(char *at, struct hlk_command *cmd)
{
    size_t args = cmd->member.since_ms ? 4 : cmd->tombstone ? 3 : 2;
    at = hlk_put_field(fair_put_keys(at, cmd, args, 5), cmd->client_id, cmd->hold);
    at = hlk_put_key(at, cmd, hlk_key_channel);
    if (args > 2)
        at = hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0);
    return args > 3 ? hlk_wire_number(at, 1) : at;
}

static char *fair_put_break(char *at, struct hlk_command *cmd)
{
    return hlk_put_only(hlk_put_key(fair_put_keys(at, cmd, cmd->only ? 2 : 1, 4), cmd, hlk_key_channel), cmd);
}

static char *fair_put_query(char *at, struct hlk_command *cmd)
{
    return hlk_wire_number(fair_put_keys(at, cmd, 1, 2), cmd->count);
}

static enum hlk_answer_kind fair_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                              struct hlk_answer *out)
{
    out->token = 0;
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold))
        return HLK_ANSWER_ACQUIRED;
    if (hlk_answer_read_busy(reply, out) && reply->elements >= 4 && reply->elements <= 4u + cmd->checks_other_kinds &&
        reply->element[3]->type == REDIS_REPLY_INTEGER) {
        out->foreign = reply->element[3]->integer != 0;
        out->mixed = reply->elements > 4;
        return HLK_ANSWER_BUSY;
    }
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == -1 ? HLK_ANSWER_TOMBSTONE : HLK_ANSWER_NONE;
}

/* Redisson's clients call the first in their queue, each on a channel of its own. */
static size_t own_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_waiter(out, cmd->name, cmd->name_len, cmd->client_id, cmd->hold);
}

static hlk_key_fn *const fair_keys[] = { hlk_key_fair_queue, hlk_key_fair_scores, hlk_key_fair, NULL };
#define FAIR_RIGHTS "fair locks also need its section Fair locks"

const struct hlk_format hlk_format_fair = {
    .acquire = { HLK_SCRIPT_FAIR_ACQUIRE, fair_put_acquire, fair_keys, FAIR_RIGHTS },
    .release = { HLK_SCRIPT_FAIR_RELEASE, fair_put_release, fair_keys, FAIR_RIGHTS },
    .break_it = { HLK_SCRIPT_FAIR_BREAK, fair_put_break, fair_keys, FAIR_RIGHTS },
    .query = { HLK_SCRIPT_FAIR_QUERY, fair_put_query, fair_keys, FAIR_RIGHTS },
    .reacquire = &hlk_command_reacquire,
    .renew = &hlk_command_renew,
    .read_acquire = fair_read_acquire,
    .foreign_channel = own_channel,
    .letter = 'f',
    .per_holder = true,
    .queues_first = true,
    .checks_other_kinds = true,
};
