/* A condition: hasplock's own. A wait at it is an acquire that is answered "busy" until it is signalled, and holds
 * nothing; while it waits it has a lease, which each of its questions renews. lua/condition_*.lua */
#include "kinds/format_condition.h"

#include "base/debug.h"

#include <string.h>

#define POLL_MS 5000 /* a waiter without a message asks so often, or each third of its lease */

/* --- names --- */

static size_t key_waiters(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_condition", name, len);
}

static size_t key_waiters_leases(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_condition_leases", name, len);
}

/* The waiter's own. */
static size_t condition_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->seen.slot);
    size_t n = key_waiters(out, cmd->name, cmd->name_len);
    out[n++] = ':';
    return n + hlk_field(out + n, cmd->client_id, cmd->seen.slot);
}

/* --- commands --- */

static char *put_condition(char *at, const struct hlk_command *cmd, size_t args)
{
    at = hlk_put_key(hlk_put_script(at, cmd->type->script, cmd, 2 + args, 2), cmd, key_waiters);
    return hlk_put_key(at, cmd, key_waiters_leases);
}

static char *put_waiter(char *at, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->seen.slot);
    return hlk_put_field(at, cmd->client_id, cmd->seen.slot);
}

/* enroll and ask */
static char *condition_put_lease(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->lease_ms > 0);
    return hlk_wire_number(put_waiter(put_condition(at, cmd, 2), cmd), cmd->lease_ms);
}

static char *condition_put_leave(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->id && cmd->id_len > 0);
    return hlk_wire_word(put_waiter(put_condition(at, cmd, 2), cmd), cmd->id, cmd->id_len);
}

static char *condition_put_done(char *at, struct hlk_command *cmd)
{
    at = hlk_put_key(hlk_put_script(at, HLK_SCRIPT_CONDITION_DONE, cmd, 2, 1), cmd, key_waiters_leases);
    return put_waiter(at, cmd);
}

/* signal, broadcast, query */
static char *condition_put_keys(char *at, struct hlk_command *cmd)
{
    return put_condition(at, cmd, 0);
}

/* --- answers --- */

/* {0, waiting}: it waits. {0}: it has left. {1}: it was signalled. {2}: it is awake. Others are no answers of a live
 * waiter. */
static enum hlk_answer_kind condition_read(const struct hlk_command *cmd, const redisReply *reply,
                                           struct hlk_answer *out)
{
    HLK_DEBUG_ASSERT(cmd->lease_ms > 0);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return HLK_ANSWER_NONE;
    out->seen = cmd->seen;
    out->seen.asked = true;
    if (reply->element[0]->integer != 0)
        return HLK_ANSWER_ACQUIRED;
    if (reply->elements == 1) {
        out->status = HLK_NOT_HOLDER;
        out->holder = "";
        return HLK_ANSWER_FAILED;
    }
    if (reply->element[1]->type != REDIS_REPLY_STRING)
        return HLK_ANSWER_NONE;
    int64_t third = cmd->lease_ms / 3;
    out->ttl_ms = third < POLL_MS ? third : POLL_MS;
    out->position = -1;
    out->foreign = true;
    out->holder = reply->element[1]->str;
    out->holder_len = reply->element[1]->len;
    return HLK_ANSWER_BUSY;
}

static void condition_describe(struct hlk_text *text, const char *waiting)
{
    hlk_text_add(text, "nobody has signalled; %s", waiting);
}

static hlk_key_fn *const condition_keys[] = { key_waiters, key_waiters_leases, NULL };
#define CONDITION_RIGHTS "conditions also need its section Conditions"

const struct hlk_command_type hlk_condition_enroll = { HLK_SCRIPT_CONDITION_ENROLL, condition_put_lease, condition_keys,
                                                       CONDITION_RIGHTS };
const struct hlk_command_type hlk_condition_done = { HLK_SCRIPT_CONDITION_DONE, condition_put_done, condition_keys,
                                                     CONDITION_RIGHTS };
const struct hlk_command_type hlk_condition_wake_one = { HLK_SCRIPT_CONDITION_SIGNAL, condition_put_keys,
                                                         condition_keys, CONDITION_RIGHTS };
const struct hlk_command_type hlk_condition_wake_all = { HLK_SCRIPT_CONDITION_BROADCAST, condition_put_keys,
                                                         condition_keys, CONDITION_RIGHTS };

const struct hlk_format hlk_format_condition = {
    .acquire = { HLK_SCRIPT_CONDITION_ASK, condition_put_lease, condition_keys, CONDITION_RIGHTS },
    .leave = { HLK_SCRIPT_CONDITION_LEAVE, condition_put_leave, condition_keys, CONDITION_RIGHTS },
    .query = { HLK_SCRIPT_CONDITION_QUERY, condition_put_keys, condition_keys, CONDITION_RIGHTS },
    .read_acquire = condition_read,
    .foreign_channel = condition_channel,
    .letter = 'd',
    .per_holder = true,
    .holds_nothing = true,
    .verb = "wait",
    .describe = condition_describe,
};
