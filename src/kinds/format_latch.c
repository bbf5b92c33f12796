/* A count-down latch, Redisson's RCountDownLatch: a string with a number. A wait for it is an acquire that is answered
 * "busy" until the number is gone, and holds nothing. lua/latch_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"

#include <stdlib.h>
#include <string.h>

/* A waiter without a message asks so often: the message was lost, or the key was deleted or ran out by itself. */
#define POLL_MS 5000
#define AGAIN_MS 1000 /* the count is gone: in this time the message would come that says why */

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

static char *put_latch_keys(char *at, const struct hlk_command *cmd, enum hlk_script script, size_t args)
{
    return hlk_put_key(hlk_put_name(hlk_put_script(at, script, cmd, 2 + args, 2), cmd), cmd, hlk_key_queue);
}

static char *latch_put_await(char *at, struct hlk_command *cmd)
{
    at = put_latch_keys(at, cmd, HLK_SCRIPT_LATCH_AWAIT, 1);
    return cmd->seen.asked ? hlk_wire_number(at, (int64_t)cmd->seen.mark) : hlk_wire_word(at, "", 0);
}

static char *put_set(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->count > 0);
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LATCH_SET, cmd, 3, 1), cmd);
    return put_channel(hlk_wire_number(at, cmd->count), cmd);
}

static char *put_down(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->count > 0);
    return put_channel(hlk_wire_number(put_latch_keys(at, cmd, HLK_SCRIPT_LATCH_DOWN, 2), cmd->count), cmd);
}

static char *latch_put_delete(char *at, struct hlk_command *cmd)
{
    return put_channel(put_latch_keys(at, cmd, HLK_SCRIPT_LATCH_DELETE, 1), cmd);
}

/* There was a count, and there is none. Redisson notes no opening, so a wait has to hear of it, and could not before it
 * listened. The message may still be on its way. */
static enum hlk_answer_kind read_missing(const struct hlk_command *cmd, struct hlk_answer *out)
{
    static const char why[] =
        "its count is gone, and nothing says that it was counted down: the server has lost it, or "
        "the key was removed, or Redisson opened it while no message could be heard";
    const struct hlk_seen *before = &cmd->seen;
    int64_t sent_ms = hlk_command_sent_ms(cmd);
    if (!before->sure || before->heard || before->heard_since)
        return HLK_ANSWER_ACQUIRED;
    if (before->missing_ms && sent_ms - before->missing_ms >= AGAIN_MS) {
        out->status = HLK_LOST;
        out->holder = why;
        out->holder_len = sizeof why - 1;
        return HLK_ANSWER_FAILED;
    }
    out->seen.missing_ms = before->missing_ms ? before->missing_ms : sent_ms;
    out->ttl_ms = AGAIN_MS;
    return HLK_ANSWER_BUSY;
}

static enum hlk_answer_kind latch_read_await(const struct hlk_command *cmd, const redisReply *reply,
                                             struct hlk_answer *out)
{
    HLK_DEBUG_ASSERT(reply);
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "0") == 0)
        return HLK_ANSWER_ACQUIRED;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return HLK_ANSWER_NONE;
    const redisReply *count = reply->element[0];
    *out = (struct hlk_answer){
        .ttl_ms = POLL_MS, .position = -1, .holder = count->str, .holder_len = count->len, .foreign = true
    };
    out->seen = (struct hlk_seen){ .asked = true, .sure = cmd->seen.sure };
    out->seen.mark = cmd->seen.asked ? cmd->seen.mark : strtoull(reply->element[1]->str, NULL, 10);
    if (strcmp(count->str, "0") == 0)
        return read_missing(cmd, out);
    out->seen.sure |= cmd->seen.listening;
    return HLK_ANSWER_BUSY;
}

static void latch_describe(struct hlk_text *text, const char *holder)
{
    hlk_text_add(text, "its count is %s", holder);
}

static hlk_key_fn *const latch_keys[] = { hlk_key_queue, NULL };
#define LATCH_RIGHTS "latches also need its section Latches"

const struct hlk_command_type hlk_latch_set = { HLK_SCRIPT_LATCH_SET, put_set, latch_keys, LATCH_RIGHTS };
const struct hlk_command_type hlk_latch_down = { HLK_SCRIPT_LATCH_DOWN, put_down, latch_keys, LATCH_RIGHTS };

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
