/* A cyclic barrier: hasplock's own. A wait at it is an acquire that is answered "busy" until all have arrived, and
 * holds nothing; while it waits it has a lease, which each of its questions renews. lua/barrier_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"

#include <stdlib.h>
#include <string.h>

#define POLL_MS 5000 /* a waiter without a message asks so often, or each third of its lease */

static size_t barrier_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_barrier(out, cmd->name, cmd->name_len);
}

static char *put_head(char *at, const struct hlk_command *cmd, enum hlk_script script, size_t args)
{
    at = hlk_put_key(hlk_put_script(at, script, cmd, 2 + args, 2), cmd, hlk_key_barrier);
    return hlk_put_key(at, cmd, hlk_key_arrived);
}

static char *put_party(char *at, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->seen.slot && cmd->hold);
    return hlk_wire_number(hlk_put_field(at, cmd->client_id, cmd->seen.slot), (int64_t)cmd->hold);
}

static char *barrier_put_arrive(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->count > 0);
    at = put_party(put_head(at, cmd, HLK_SCRIPT_BARRIER_ARRIVE, 7), cmd);
    at = hlk_wire_number(hlk_wire_number(at, cmd->count), cmd->lease_ms);
    at = hlk_wire_number(hlk_wire_number(at, (int64_t)cmd->seen.mark), (int64_t)cmd->seen.data);
    return hlk_put_key(at, cmd, hlk_key_barrier);
}

static char *barrier_put_leave(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->id && cmd->id_len > 0);
    at = put_party(put_head(at, cmd, HLK_SCRIPT_BARRIER_LEAVE, 5), cmd);
    at = hlk_wire_number(hlk_wire_word(at, cmd->id, cmd->id_len), (int64_t)cmd->seen.data);
    return hlk_put_key(at, cmd, hlk_key_barrier);
}

static char *barrier_put_reset(char *at, struct hlk_command *cmd)
{
    return hlk_put_key(put_head(at, cmd, HLK_SCRIPT_BARRIER_RESET, 1), cmd, hlk_key_barrier);
}

static char *barrier_put_query(char *at, struct hlk_command *cmd)
{
    return hlk_put_key(hlk_put_script(at, HLK_SCRIPT_BARRIER_QUERY, cmd, 1, 1), cmd, hlk_key_arrived);
}

/* --- answers --- */

static bool is_bulk(const redisReply *reply, size_t i)
{
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ARRAY);
    return i < reply->elements && reply->element[i]->type == REDIS_REPLY_STRING;
}

static bool is_number(const redisReply *reply, size_t i)
{
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ARRAY);
    return i < reply->elements && reply->element[i]->type == REDIS_REPLY_INTEGER;
}

/* {0}: it has left. {0, gen, index, waiting} */
static enum hlk_answer_kind read_waiting(const struct hlk_command *cmd, const redisReply *reply, struct hlk_answer *out)
{
    HLK_DEBUG_ASSERT(cmd->lease_ms > 0);
    if (reply->elements == 1) {
        out->status = HLK_NOT_HOLDER;
        out->holder = "";
        return HLK_ANSWER_FAILED;
    }
    if (!is_bulk(reply, 1) || !is_number(reply, 2) || !is_bulk(reply, 3))
        return HLK_ANSWER_NONE;
    int64_t third = cmd->lease_ms / 3;
    out->ttl_ms = third < POLL_MS ? third : POLL_MS;
    out->position = -1;
    out->foreign = true;
    out->holder = reply->element[3]->str;
    out->holder_len = reply->element[3]->len;
    return HLK_ANSWER_BUSY;
}

static enum hlk_answer_kind read_broken_reason(const redisReply *reply, struct hlk_answer *out)
{
    if (!is_bulk(reply, 2))
        return HLK_ANSWER_NONE;
    out->status = HLK_BROKEN;
    out->holder = reply->element[2]->str;
    out->holder_len = reply->element[2]->len;
    return HLK_ANSWER_FAILED;
}

/* {3, data}: it has not arrived, if no attempt that may have run could arrive in the data before. */
static enum hlk_answer_kind read_other_data(const struct hlk_command *cmd, const redisReply *reply,
                                            struct hlk_answer *out)
{
    if (!is_bulk(reply, 1))
        return HLK_ANSWER_NONE;
    if (cmd->seen.asked || (cmd->doubt && cmd->seen.data)) {
        out->status = HLK_BROKEN;
        out->holder = "lost -";
        return HLK_ANSWER_FAILED;
    }
    out->seen = cmd->seen;
    out->seen.data = strtoull(reply->element[1]->str, NULL, 10);
    return HLK_ANSWER_AGAIN;
}

static enum hlk_answer_kind barrier_read(const struct hlk_command *cmd, const redisReply *reply, struct hlk_answer *out)
{
    if (reply->type == REDIS_REPLY_INTEGER) { /* this wait has ended: no live one is answered so */
        out->status = HLK_BROKEN;
        out->holder = "lost -";
        return HLK_ANSWER_FAILED;
    }
    if (reply->type != REDIS_REPLY_ARRAY || !is_number(reply, 0))
        return HLK_ANSWER_NONE;
    if (reply->element[0]->integer == 3)
        return read_other_data(cmd, reply, out);
    out->seen = cmd->seen;
    out->seen.asked = true;
    if (is_bulk(reply, 1))
        out->seen.mark = strtoull(reply->element[1]->str, NULL, 10);
    if (is_number(reply, 2))
        out->seen.index = (unsigned)reply->element[2]->integer;
    switch (reply->element[0]->integer) {
    case 0:
        return read_waiting(cmd, reply, out);
    case 1:
        return is_number(reply, 2) ? HLK_ANSWER_ACQUIRED : HLK_ANSWER_NONE;
    default:
        return read_broken_reason(reply, out);
    }
}

/* --- for people --- */

static void barrier_describe(struct hlk_text *text, const char *counts)
{
    hlk_text_add(text, "%s had arrived", counts);
}

/* "<word> <party>" */
static void barrier_explain(struct hlk_text *text, const char *why)
{
    HLK_DEBUG_ASSERT(why);
    static const struct {
        const char *word, *says;
    } words[] = { { "timeout", "its wait was over" },
                  { "cancelled", "its wait was cancelled" },
                  { "left", "its client was closed" },
                  { "died", "it has not been heard of for its lease" } };
    const char *party = strchr(why, ' ');
    size_t len = party ? (size_t)(party - why) : strlen(why);
    if (strncmp(why, "reset", len) == 0) {
        hlk_text_add(text, "broken: the barrier was reset");
        return;
    }
    for (size_t i = 0; party && i < sizeof words / sizeof *words; i++)
        if (strncmp(why, words[i].word, len) == 0) {
            hlk_text_add(text, "broken by ");
            hlk_field_describe(text, party + 1, strlen(party + 1));
            hlk_text_add(text, ": %s", words[i].says);
            return;
        }
    hlk_text_add(text, "broken: the server has lost the barrier's data");
}

static hlk_key_fn *const barrier_keys[] = { hlk_key_barrier, hlk_key_arrived, NULL };
#define BARRIER_RIGHTS "barriers also need its section Barriers"

const struct hlk_format hlk_format_barrier = {
    .acquire = { HLK_SCRIPT_BARRIER_ARRIVE, barrier_put_arrive, barrier_keys, BARRIER_RIGHTS },
    .leave = { HLK_SCRIPT_BARRIER_LEAVE, barrier_put_leave, barrier_keys, BARRIER_RIGHTS },
    .break_it = { HLK_SCRIPT_BARRIER_RESET, barrier_put_reset, barrier_keys, BARRIER_RIGHTS },
    .query = { HLK_SCRIPT_BARRIER_QUERY, barrier_put_query, barrier_keys, BARRIER_RIGHTS },
    .read_acquire = barrier_read,
    .foreign_channel = barrier_channel,
    .letter = 'a',
    .per_holder = true,
    .holds_nothing = true,
    .verb = "await",
    .describe = barrier_describe,
    .explain = barrier_explain,
};
