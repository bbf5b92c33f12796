#include "script/format.h"

#include "base/debug.h"
#include "script/wire.h"

char *hlk_put_script(char *at, enum hlk_script script, const struct hlk_command *cmd, size_t words, size_t keys)
{
    HLK_DEBUG_ASSERT(words >= keys && script < HLK_SCRIPT_COUNT);
    const struct hlk_script_text *text = hlk_command_script(cmd, script);
    at = hlk_wire_count(at, '*', words + 3);
    if (cmd->whole) {
        at = hlk_wire_word(at, "EVAL", 4);
        at = hlk_wire_word(at, text->text, text->len);
    } else {
        at = hlk_wire_word(at, "EVALSHA", 7);
        at = hlk_wire_word(at, text->sha1, 40);
    }
    return hlk_wire_number(at, (int64_t)keys);
}

bool hlk_answer_names(const redisReply *reply, const char *client_id, uint64_t hold)
{
    char field[HLK_FIELD_MAX];
    size_t len = hlk_field(field, client_id, hold);
    return reply->type == REDIS_REPLY_STRING && reply->len >= len && memcmp(reply->str, field, len) == 0 &&
           (reply->len == len || reply->str[len] == ':');
}

enum hlk_raised hlk_answer_read_raised(const struct hlk_command *cmd)
{
    const redisReply *reply = cmd->call.reply;
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        return HLK_RAISED_REFUSED;
    if (reply->type == REDIS_REPLY_INTEGER)
        return HLK_RAISED_GONE;
    bool names = cmd->id ? reply->type == REDIS_REPLY_STRING && reply->len == cmd->id_len &&
                               memcmp(reply->str, cmd->id, cmd->id_len) == 0
                         : hlk_answer_names(reply, cmd->client_id, cmd->hold);
    return names ? HLK_RAISED_YES : HLK_RAISED_NONE;
}

bool hlk_answer_read_busy(const redisReply *reply, struct hlk_answer *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || reply->element[0]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->type != REDIS_REPLY_STRING || reply->element[2]->type != REDIS_REPLY_INTEGER)
        return false;
    *out = (struct hlk_answer){ .ttl_ms = reply->element[0]->integer,
                                .holder = reply->element[1]->str,
                                .holder_len = reply->element[1]->len,
                                .position = reply->element[2]->integer };
    return true;
}

static bool ends_with(const redisReply *reply, const char *ending)
{
    size_t len = strlen(ending);
    return reply->len >= len && memcmp(reply->str + reply->len - len, ending, len) == 0;
}

enum hlk_answer_kind hlk_answer_read_foreign(const struct hlk_command *cmd, const redisReply *reply,
                                             struct hlk_answer *out)
{
    out->token = 0;
    if (hlk_answer_names(reply, cmd->client_id, cmd->hold)) {
        out->shared = cmd->shares && ends_with(reply, ":shared");
        return HLK_ANSWER_ACQUIRED;
    }
    if (hlk_answer_read_busy(reply, out) && reply->elements == 4 && reply->element[3]->type == REDIS_REPLY_INTEGER) {
        out->foreign = reply->element[3]->integer != 0;
        return HLK_ANSWER_BUSY;
    }
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == -1 ? HLK_ANSWER_TOMBSTONE : HLK_ANSWER_NONE;
}
