/* The semaphore: Redisson's RSemaphore, a number of free permits. Its waiters stand in a queue of ours, which Redisson
 * does not know. lua/semaphore_*.lua
 *
 * Each call is a holder. A permit has none: a hold is only as old as the call, and its end gives back what a call took
 * that did not learn of it. */
#include "base/debug.h"
#include "kinds/kind.h"

/* Permits, and the queue. */
static char *semaphore_head(char *at, const struct hlk_command *cmd, size_t args)
{
    at = hlk_put_script(at, cmd->type->script, cmd, 2 + args, 2);
    return hlk_put_key(hlk_put_name(at, cmd), cmd, hlk_key_queue);
}

static char *put_text(char *at, const char *text)
{
    return hlk_wire_word(at, text ? text : "", text ? strlen(text) : 0);
}

static char *put_permits_ticket(char *at, const struct hlk_command *cmd)
{
    char member[HLK_MEMBER_MAX];
    size_t len = cmd->member.since_ms ? hlk_member(member, cmd->client_id, cmd->hold, &cmd->member) : 0;
    return hlk_wire_word(at, member, len);
}

static char *semaphore_put_acquire(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->count > 0);
    at = hlk_wire_number(semaphore_head(at, cmd, 4), cmd->count);
    at = put_text(hlk_put_field(at, cmd->client_id, cmd->hold), cmd->drop_notes);
    return put_permits_ticket(at, cmd);
}

static char *semaphore_put_end(char *at, struct hlk_command *cmd)
{
    at = hlk_wire_number(semaphore_head(at, cmd, 5), cmd->count);
    at = hlk_put_key(hlk_put_field(at, cmd->client_id, cmd->hold), cmd, hlk_key_semaphore_channel);
    return put_permits_ticket(hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0), cmd);
}

static char *semaphore_put_confirm(char *at, struct hlk_command *cmd)
{
    return hlk_put_field(semaphore_head(at, cmd, 1), cmd->client_id, cmd->hold);
}

static char *put_change(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->change >= 0 && cmd->change <= HLK_SEMAPHORE_DELETE);
    static const char *const names[] = {
        "release", "release_if", "settle", "try_set", "add", "drain", "get", "delete"
    };
    at = put_text(semaphore_head(at, cmd, cmd->yield_ms ? 7 : 6), names[cmd->change]);
    at = hlk_put_field(hlk_wire_number(at, cmd->count), cmd->client_id, cmd->hold);
    at = put_text(hlk_put_key(at, cmd, hlk_key_semaphore_channel), cmd->drop_notes);
    at = hlk_wire_number(at, cmd->lease_ms);
    return cmd->yield_ms ? hlk_wire_number(at, cmd->yield_ms) : at;
}

static enum hlk_answer_kind semaphore_read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                                   struct hlk_answer *out)
{
    out->token = 0;
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold))
        return HLK_ANSWER_ACQUIRED;
    if (hlk_answer_read_busy(reply, out) && reply->elements == 3) {
        out->foreign = out->position == 0 || out->position == 1; /* one of Redisson's clients may release */
        return HLK_ANSWER_BUSY;
    }
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == -1 ? HLK_ANSWER_TOMBSTONE : HLK_ANSWER_NONE;
}

/* `why` is not "": its number was never set. */
static void semaphore_describe(struct hlk_text *text, const char *why)
{
    (void)why;
    hlk_text_add(text, HLK_NO_PERMITS);
}

static size_t semaphore_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_semaphore_channel(out, cmd->name, cmd->name_len);
}

static hlk_key_fn *const semaphore_keys[] = { hlk_key_queue, NULL };
#define SEMAPHORE_RIGHTS "semaphores also need its section Semaphores"

static const struct hlk_command_type confirm = { HLK_SCRIPT_SEMAPHORE_CONFIRM, semaphore_put_confirm, semaphore_keys,
                                                 SEMAPHORE_RIGHTS };
const struct hlk_command_type hlk_semaphore_command = { HLK_SCRIPT_SEMAPHORE_CHANGE, put_change, semaphore_keys,
                                                        SEMAPHORE_RIGHTS };

const struct hlk_format hlk_format_semaphore = {
    .acquire = { HLK_SCRIPT_SEMAPHORE_ACQUIRE, semaphore_put_acquire, semaphore_keys, SEMAPHORE_RIGHTS },
    .release = { HLK_SCRIPT_SEMAPHORE_END, semaphore_put_end, semaphore_keys, SEMAPHORE_RIGHTS },
    .reacquire = &confirm,
    .read_acquire = semaphore_read_acquire,
    .foreign_channel = semaphore_channel,
    .letter = 'p',
    .per_holder = true,
    .sends_only_open = true,
    .describe = semaphore_describe,
};
