/* A count-down latch, Redisson's RCountDownLatch: a string with a number. A wait for it is an acquire that is answered
 * "busy" until the number is gone, and holds nothing. lua/latch_*.lua */
#include "kinds/kind.h"

#include <string.h>

/* A waiter without a message asks so often: the message was lost, or the key was deleted or ran out by itself. */
#define POLL_MS 5000

/* Redisson puts a name that has braces into braces again. With sharded pub/sub that would be another slot than the
 * key's, where Redisson's own latches do not work at all. */
static size_t latch_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    bool sharded = cmd->router && atomic_load(&cmd->router->sharded);
    return (sharded ? hlk_key_latch_in_slot : hlk_key_latch)(out, cmd->name, cmd->name_len);
}

static char *put_channel(char *at, const struct hlk_command *cmd)
{
    char channel[HLK_KEY_MAX + HLK_FIELD_MAX];
    size_t len = latch_channel(channel, cmd);
    return hlk_wire_word(at, channel, len);
}

static char *latch_put_await(char *at, struct hlk_command *cmd)
{
    return hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LATCH_AWAIT, cmd, 1, 1), cmd);
}

static char *put_count(char *at, struct hlk_command *cmd)
{
    at = hlk_put_name(hlk_put_script(at, cmd->type->script, cmd, 3, 1), cmd);
    return put_channel(hlk_wire_number(at, cmd->count), cmd);
}

static char *latch_put_delete(char *at, struct hlk_command *cmd)
{
    return put_channel(hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LATCH_DELETE, cmd, 2, 1), cmd), cmd);
}

static enum hlk_answer_kind latch_read_await(const struct hlk_command *cmd, const redisReply *reply,
                                             struct hlk_answer *out)
{
    (void)cmd;
    if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
        return HLK_ANSWER_NONE;
    *out = (struct hlk_answer){
        .ttl_ms = POLL_MS, .position = -1, .holder = reply->str, .holder_len = reply->len, .foreign = true
    };
    return strcmp(reply->str, "0") == 0 ? HLK_ANSWER_ACQUIRED : HLK_ANSWER_BUSY;
}

static void latch_describe(struct hlk_text *text, const char *holder)
{
    hlk_text_add(text, "its count is %s", holder);
}

static hlk_key_fn *const latch_keys[] = { NULL };
#define LATCH_RIGHTS "latches need the line for them there, too"

const struct hlk_command_type hlk_latch_set = { HLK_SCRIPT_LATCH_SET, put_count, latch_keys, LATCH_RIGHTS };
const struct hlk_command_type hlk_latch_down = { HLK_SCRIPT_LATCH_DOWN, put_count, latch_keys, LATCH_RIGHTS };

/* Nothing is held: there is no release, reacquire or renew. */
const struct hlk_format hlk_format_latch = {
    .acquire = { HLK_SCRIPT_LATCH_AWAIT, latch_put_await, latch_keys, LATCH_RIGHTS },
    .break_it = { HLK_SCRIPT_LATCH_DELETE, latch_put_delete, latch_keys, LATCH_RIGHTS },
    .query = { HLK_SCRIPT_LATCH_AWAIT, latch_put_await, latch_keys, LATCH_RIGHTS },
    .read_acquire = latch_read_await,
    .foreign_channel = latch_channel,
    .letter = 'c',
    .per_holder = true,
    .holds_nothing = true,
    .verb = "await",
    .describe = latch_describe,
};

const struct hlk_kind hlk_kind_latch = { .format = &hlk_format_latch, .no_lock = true };
