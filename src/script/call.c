#include "script/call.h"

#include "base/clock.h"
#include "base/mem.h"
#include "script/many.h"
#include "script/wire.h"

#include <stdio.h>
#include <string.h>

/* --- formatting --- */

/* The most that a question needs: five names, a field, a place, five numbers, and a head for each and the command. */
#define WORDS_MOST (5 * HLK_KEY_MAX + HLK_FIELD_MAX + HLK_MEMBER_MAX + 5 * 24 + 17 * HLK_WIRE_HEAD)

static char *put_script(char *at, enum hlk_script script, bool whole, size_t words, size_t keys)
{
    const struct hlk_script_text *text = &hlk_script_table[script];
    at = hlk_wire_count(at, '*', words + 3);
    if (whole) {
        at = hlk_wire_word(at, "EVAL", 4);
        at = hlk_wire_word(at, text->text, text->len);
    } else {
        at = hlk_wire_word(at, "EVALSHA", 7);
        at = hlk_wire_word(at, text->sha1, 40);
    }
    return hlk_wire_number(at, (int64_t)keys);
}

/* Lock, queue, and the counter of tokens if it is wanted. */
static char *put_keys(char *at, const struct hlk_question *q, bool token)
{
    char key[HLK_KEY_MAX];
    at = hlk_wire_word(at, q->name, q->name_len);
    size_t len = hlk_key_queue(key, q->name, q->name_len);
    at = hlk_wire_word(at, key, len);
    if (!token)
        return at;
    len = hlk_key_token(key, q->name, q->name_len);
    return hlk_wire_word(at, key, len);
}

static char *put_member(char *at, const struct hlk_question *q)
{
    char member[HLK_MEMBER_MAX];
    size_t len = q->place.since_ms ? hlk_member(member, q->client_id, q->hold, &q->place) : 0;
    return hlk_wire_word(at, member, len);
}

static char *put_channel(char *at, const struct hlk_question *q)
{
    char channel[HLK_KEY_MAX];
    size_t len = hlk_key_channel(channel, q->name, q->name_len);
    return hlk_wire_word(at, channel, len);
}

static char *put_field(char *at, const char *client_id, uint64_t hold)
{
    char field[HLK_FIELD_MAX];
    size_t len = hlk_field(field, client_id, hold);
    return hlk_wire_word(at, field, len);
}

/* It may be one of many (script/many.h). */
static void set_part(struct hlk_question *q, char part, const char *start, const char *keys, const char *args,
                     const char *end)
{
    if (q->whole || q->alone || q->fenced || q->place.since_ms)
        return;
    q->call.part = part;
    q->call.keys_at = (unsigned)(keys - start);
    q->call.args_at = (unsigned)(args - start);
    q->call.args_end = (unsigned)(end - start);
}

/* What is not needed is not sent: mostly nobody waits. */
static char *put_acquire(char *at, struct hlk_question *q)
{
    size_t n = q->fenced ? 3 : 2, args = q->fenced ? 5 : q->place.since_ms ? 3 : 2;
    char *start = at, *keys = put_script(at, q->script, q->whole, n + args, n), *first = put_keys(keys, q, q->fenced);
    at = put_field(hlk_wire_number(first, q->lease_ms), q->client_id, q->hold);
    set_part(q, HLK_PART_ACQUIRE, start, keys, first, at);
    if (args > 2)
        at = put_member(at, q);
    return q->fenced ? hlk_wire_number(hlk_wire_number(at, q->place.tokens), q->place.floor) : at;
}

static char *put_end(char *at, struct hlk_question *q)
{
    size_t n = q->fenced ? 3 : 2, args = q->place.since_ms ? 5 : q->open_ms ? 4 : q->voiding ? 3 : 2;
    char *start = at, *keys = put_script(at, q->script, q->whole, n + args, n), *first = put_keys(keys, q, q->fenced);
    at = put_channel(put_field(first, q->client_id, q->hold), q);
    if (!q->voiding)
        set_part(q, q->open_ms ? HLK_PART_OPEN_END : HLK_PART_END, start, keys, first, at);
    if (args > 2)
        at = hlk_wire_number(at, q->voiding ? HLK_VOID_MS : 0);
    if (args > 3)
        at = hlk_wire_number(at, q->open_ms);
    return args > 4 ? put_member(at, q) : at;
}

/* The keys of a fair lock: all four, or lock and queue. */
static char *put_fair(char *at, const struct hlk_question *q, size_t words, bool all)
{
    char key[HLK_KEY_MAX];
    at = put_script(at, q->script, q->whole, words, all ? 4 : 2);
    at = hlk_wire_word(at, q->name, q->name_len);
    size_t len = hlk_key_fair_queue(key, q->name, q->name_len);
    at = hlk_wire_word(at, key, len);
    if (!all)
        return at;
    len = hlk_key_fair_scores(key, q->name, q->name_len);
    at = hlk_wire_word(at, key, len);
    len = hlk_key_fair(key, q->name, q->name_len);
    return hlk_wire_word(at, key, len);
}

static char *put_question(char *at, struct hlk_question *q)
{
    switch (q->script) {
    case HLK_SCRIPT_LOCK_ACQUIRE:
        return put_acquire(at, q);
    case HLK_SCRIPT_LOCK_END:
        return put_end(at, q);
    case HLK_SCRIPT_LOCK_REACQUIRE:
        at = put_script(at, q->script, q->whole, 4, 1);
        at = hlk_wire_word(at, q->name, q->name_len);
        at = put_field(at, q->client_id, q->hold);
        return hlk_wire_number(hlk_wire_number(at, q->count), q->lease_ms);
    case HLK_SCRIPT_LOCK_QUERY:
        at = put_keys(put_script(at, q->script, q->whole, 4, 2), q, false);
        return hlk_wire_number(put_channel(at, q), q->count);
    case HLK_SCRIPT_FAIR_ACQUIRE:
        at = hlk_wire_number(put_fair(at, q, 9, true), q->lease_ms);
        at = put_channel(put_field(at, q->client_id, q->hold), q);
        return hlk_wire_number(hlk_wire_number(at, HLK_FAIR_PATIENCE_MS), q->join);
    case HLK_SCRIPT_FAIR_END:
        at = put_channel(put_field(put_fair(at, q, 8, true), q->client_id, q->hold), q);
        return hlk_wire_number(hlk_wire_number(at, HLK_FAIR_PATIENCE_MS), q->voiding ? HLK_VOID_MS : 0);
    case HLK_SCRIPT_FAIR_BREAK:
        return put_channel(put_fair(at, q, 3, false), q);
    case HLK_SCRIPT_FAIR_QUERY:
        return hlk_wire_number(put_fair(at, q, 3, false), q->count);
    default: /* break */
        at = put_keys(put_script(at, q->script, q->whole, 4, 3), q, true);
        return put_channel(at, q);
    }
}

static enum hlk_status send_whole(struct hlk_question *q, hlk_mux *mux)
{
    char *bytes = hlk_mem_zalloc(WORDS_MOST + hlk_script_table[q->script].len);
    if (!bytes)
        return HLK_E_NOMEM;
    enum hlk_status status = hlk_mux_send(mux, &q->call, bytes, (size_t)(put_question(bytes, q) - bytes));
    hlk_mem_free(bytes);
    return status;
}

enum hlk_status hlk_question_send(struct hlk_question *q, hlk_mux *mux)
{
    char bytes[WORDS_MOST];
    q->call.part = 0;
    q->copies++; /* before: once sent, a call with `done` may be gone */
    enum hlk_status status =
        q->whole ? send_whole(q, mux) : hlk_mux_send(mux, &q->call, bytes, (size_t)(put_question(bytes, q) - bytes));
    if (status != HLK_OK)
        q->copies--;
    return status;
}

enum hlk_status hlk_renewals_send(hlk_mux *mux, struct hlk_call *call, const char *client_id,
                                  const struct hlk_renewal *renewals, unsigned n, bool whole)
{
    size_t most = WORDS_MOST + (whole ? hlk_script_table[HLK_SCRIPT_LOCK_RENEW].len : 0);
    for (unsigned i = 0; i < n; i++)
        most += renewals[i].name_len + HLK_FIELD_MAX + 24 + 3 * HLK_WIRE_HEAD;
    char *bytes = hlk_mem_zalloc(most);
    if (!bytes)
        return HLK_E_NOMEM;
    unsigned leases = n; /* the last one stands for all behind it: mostly all are the same */
    while (leases > 1 && renewals[leases - 1].lease_ms == renewals[leases - 2].lease_ms)
        leases--;
    char *at = put_script(bytes, HLK_SCRIPT_LOCK_RENEW, whole, 2 * n + leases, n);
    for (unsigned i = 0; i < n; i++)
        at = hlk_wire_word(at, renewals[i].name, renewals[i].name_len);
    for (unsigned i = 0; i < n; i++)
        at = put_field(at, client_id, renewals[i].hold);
    for (unsigned i = 0; i < leases; i++)
        at = hlk_wire_number(at, renewals[i].lease_ms);
    enum hlk_status status = hlk_mux_send(mux, call, bytes, (size_t)(at - bytes));
    hlk_mem_free(bytes);
    return status;
}

/* --- what the end of a copy means --- */

void hlk_question_drop_reply(struct hlk_question *q)
{
    if (q->call.reply)
        freeReplyObject(q->call.reply);
    q->call.reply = NULL;
}

enum hlk_reply_kind hlk_call_read(const struct hlk_call *call, hlk_mux *mux, struct hlk_error *error)
{
    enum hlk_reply_kind kind = hlk_reply_read(call->reply, error);
    if (kind == HLK_REPLY_REPLICA)
        hlk_mux_look_again(mux, call->epoch);
    return kind;
}

enum hlk_question_step hlk_question_end(struct hlk_question *q, hlk_mux *mux, bool refusals_pass,
                                        struct hlk_error *error)
{
    if (atomic_load(&q->call.end) != HLK_CALL_ANSWERED) {
        q->doubt |= atomic_load(&q->call.end) == HLK_CALL_BROKEN;
        return HLK_STEP_AGAIN;
    }
    q->alone = !q->call.reply;
    if (q->alone)
        return HLK_STEP_AGAIN;
    enum hlk_reply_kind kind = hlk_call_read(&q->call, mux, error);
    if (kind == HLK_REPLY_ANSWER)
        return HLK_STEP_ANSWER;
    hlk_question_drop_reply(q);
    q->whole = kind == HLK_REPLY_NOSCRIPT;
    if (kind == HLK_REPLY_NOSCRIPT)
        return HLK_STEP_AGAIN;
    switch (kind) {
    case HLK_REPLY_REPLICA:
    case HLK_REPLY_LATER:
        return HLK_STEP_PAUSE;
    case HLK_REPLY_NO_WRITES:
        return refusals_pass ? HLK_STEP_PAUSE : HLK_STEP_FAULT;
    default:
        return HLK_STEP_FAULT;
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool hlk_question_pauses(int64_t now_ms, int64_t limit_ms, int64_t *until_ms)
{
    bool again = now_ms < limit_ms - 2 * HLK_PAUSE_MS;
    *until_ms = again ? now_ms + HLK_PAUSE_MS : limit_ms;
    return again;
}

enum hlk_status hlk_question_gives_up(const struct hlk_question *q, struct hlk_error *error)
{
    switch (error->status) {
    case HLK_E_NOMEM:
    case HLK_E_OS:
    case HLK_E_CONNECT:
    case HLK_E_AUTH:
    case HLK_E_SERVER:
        if (q->doubt)
            (void)hlk_error_set(error, HLK_E_UNSURE, "sent, and the connection broke before an answer came; then: %s",
                                error->text);
        return error->status;
    default:
        return error->status;
    }
}

/* --- blocking --- */

/* Sleeps a pause. False: no time is left for another copy. */
static bool pause_until_later(struct hlk_self *self, const struct hlk_limits *limits)
{
    int64_t until;
    bool again = hlk_question_pauses(hlk_clock_ms(), sooner(limits->at_ms, limits->up_by_ms), &until);
    hlk_self_allow_cancel(self);
    bool woken = hlk_park_until(&self->park, limits->mask, until, -1, NULL);
    hlk_self_forbid_cancel(self);
    return again || woken;
}

/* Sends one copy and waits for its end. HLK_OK: it has ended. */
static enum hlk_status one_copy(struct hlk_question *q, hlk_mux *mux, struct hlk_self *self,
                                const struct hlk_limits *limits, bool *left, struct hlk_error *error)
{
    enum hlk_status status = HLK_OK;
    if (!*left) { /* else it flies already: wait on for it */
        q->call.waiter = self;
        status = hlk_question_send(q, mux);
    }
    while (status == HLK_E_CONNECT) {
        status = hlk_mux_wait_up(mux, self, sooner(limits->at_ms, limits->up_by_ms), limits->mask, error);
        if (status != HLK_OK)
            return status;
        status = hlk_question_send(q, mux);
    }
    if (status == HLK_E_CLOSED)
        return hlk_error_set(error, status, "the client is being closed");
    if (status != HLK_OK)
        return hlk_error_set(error, status, "no memory for the command");
    *left = true;
    if (hlk_mux_wait(mux, &q->call, limits->at_ms, limits->mask)) {
        *left = false;
        return HLK_OK;
    }
    if (hlk_park_peek(&self->park, limits->mask))
        return hlk_error_set(error, HLK_INTERRUPTED, "interrupted");
    return hlk_error_set(error, HLK_E_UNSURE, "sent, but not answered in time");
}

enum hlk_status hlk_question_ask(struct hlk_question *q, hlk_mux *mux, struct hlk_self *self,
                                 const struct hlk_limits *limits, bool *left, struct hlk_error *error)
{
    for (;;) {
        enum hlk_status status = one_copy(q, mux, self, limits, left, error);
        if (status == HLK_INTERRUPTED)
            return status;
        if (status != HLK_OK)
            return hlk_question_gives_up(q, error);
        enum hlk_question_step step = hlk_question_end(q, mux, limits->refusals_pass, error);
        if (step == HLK_STEP_ANSWER)
            return HLK_OK;
        if (step == HLK_STEP_FAULT)
            return hlk_question_gives_up(q, error);
        if (step == HLK_STEP_AGAIN && limits->once && q->doubt)
            return hlk_error_set(error, HLK_E_UNSURE, "sent, and the connection broke before an answer came");
        if (step == HLK_STEP_PAUSE && !pause_until_later(self, limits))
            return hlk_question_gives_up(q, error);
        if (limits->mask && hlk_park_peek(&self->park, limits->mask))
            return hlk_error_set(error, HLK_INTERRUPTED, "interrupted");
    }
}

/* --- the greeting --- */

/* Tries each command that our scripts use, where it changes nothing, and names the first that this user may not run.
 * A key or channel that is refused says nothing: the user's may have another pattern, so the key is no declared one,
 * which would keep the probe from running at all. SUBSCRIBE is tried by itself, and taken back at once. */
static const char probe[] =
    "local key = ARGV[1]\n"
    "local tries = { {'exists', key}, {'hexists', key, 'x'}, {'hkeys', key}, {'hgetall', key}, {'pttl', key},\n"
    "  {'pexpire', key, 1}, {'zscore', key, 'x'}, {'hdel', key, 'x'}, {'del', key}, {'zremrangebyscore', key, 0, 0},\n"
    "  {'zadd', key, 'xx', 0, 'x'}, {'zrem', key, 'x'}, {'zrangebyscore', key, 1, 2}, {'zcount', key, 1, 2},\n"
    "  {'zrevrangebyscore', key, 2, 1}, {'zrank', key, 'x'}, {'zrange', key, 0, 0}, {'zrevrange', key, 0, 0},\n"
    "  {'zmscore', key, 'x'}, {'zpopmin', key},\n"
    "  {'time'}, {'pubsub', 'numsub'}, {'publish', key, ''}, {'hset', key, 'x', 1}, {'del', key} }\n"
    "for _, try in ipairs(tries) do\n"
    "  local answer = redis.pcall(unpack(try))\n"
    "  if type(answer) == 'table' and answer.err and (string.find(answer.err, 'run this command', 1, true)\n"
    "      or string.find(answer.err, 'permissions to run the', 1, true)) then\n"
    "    return try[1] == 'pubsub' and 'pubsub|numsub' or try[1]\n"
    "  end\n"
    "end\n"
    "return nil\n";

static enum hlk_status check_greeting(unsigned i, const redisReply *reply, struct hlk_error *error)
{
    if (i < HLK_SCRIPT_COUNT)
        return HLK_OK; /* SCRIPT LOAD: without that right the first use of each script sends its text */
    if (i > HLK_SCRIPT_COUNT) {
        bool barred = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 &&
                      strstr(reply->str, "subscribe'");
        return barred ? hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str)
                      : HLK_OK;
    }
    if (reply->type == REDIS_REPLY_STRING)
        return hlk_error_set(error, HLK_E_AUTH, "this user may not run %s (docs/acl.md has the rights it needs)",
                             reply->str);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "'eval"))
        return hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str);
    enum hlk_reply_kind kind = hlk_reply_read(reply, NULL);
    bool later = kind == HLK_REPLY_LATER || kind == HLK_REPLY_REPLICA;
    return later ? hlk_error_set(error, HLK_E_CONNECT, "%s", reply->str) : HLK_OK;
}

bool hlk_scripts_greeting(struct hlk_greeting *greeting, const char *client_id)
{
    char key[HLK_KEY_MAX];
    greeting->check = check_greeting;
    greeting->replies = 0;
    for (unsigned i = 0; i < HLK_SCRIPT_COUNT; i++, greeting->replies++) {
        const char *argv[] = { "SCRIPT", "LOAD", hlk_script_table[i].text };
        size_t lens[] = { 6, 4, hlk_script_table[i].len };
        if (!hlk_command_add(&greeting->bytes, 3, argv, lens))
            return false;
    }
    (void)snprintf(key, sizeof key, "hasplock_probe:{%s}", client_id);
    greeting->replies += 3;
    return hlk_command_add(&greeting->bytes, 4, (const char *[]){ "EVAL", probe, "0", key }, NULL) &&
           hlk_command_add(&greeting->bytes, 2, (const char *[]){ "SUBSCRIBE", key }, NULL) &&
           hlk_command_add(&greeting->bytes, 2, (const char *[]){ "UNSUBSCRIBE", key }, NULL);
}
