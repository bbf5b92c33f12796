#include "script/call.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define RENEWALS_MOST 128

/* --- formatting --- */

struct words {
    const char *argv[3 + 3 * RENEWALS_MOST];
    size_t lens[3 + 3 * RENEWALS_MOST];
    int argc;
};

static void add(struct words *w, const char *bytes, size_t len)
{
    w->argv[w->argc] = bytes;
    w->lens[w->argc++] = len;
}

static void add_script(struct words *w, enum hlk_script script, bool whole, const char *keys)
{
    const struct hlk_script_text *text = &hlk_script_table[script];
    w->argc = 0;
    if (whole) {
        add(w, "EVAL", 4);
        add(w, text->text, text->len);
    } else {
        add(w, "EVALSHA", 7);
        add(w, text->sha1, 40);
    }
    add(w, keys, strlen(keys));
}

static enum hlk_status send_words(hlk_mux *mux, struct hlk_call *call, struct words *w)
{
    char *text = NULL;
    long long len = redisFormatCommandArgv(&text, w->argc, w->argv, w->lens);
    if (len < 0)
        return HLK_E_NOMEM;
    enum hlk_status status = hlk_mux_send(mux, call, text, (size_t)len);
    redisFreeCommand(text);
    return status;
}

enum hlk_status hlk_question_send(struct hlk_question *q, hlk_mux *mux)
{
    struct words w;
    char field[HLK_FIELD_MAX], key[HLK_KEY_MAX], channel[HLK_KEY_MAX], lease[24], count[24], void_ms[24];
    size_t field_len = hlk_field(field, q->client_id, q->hold);
    bool has_void = q->script == HLK_SCRIPT_LOCK_ACQUIRE || q->script == HLK_SCRIPT_LOCK_END;
    add_script(&w, q->script, q->whole, has_void ? "2" : "1");
    add(&w, q->name, q->name_len);
    if (has_void)
        add(&w, key, hlk_key_void(key, q->name, q->name_len));
    switch (q->script) {
    case HLK_SCRIPT_LOCK_ACQUIRE:
        add(&w, lease, hlk_text_number(lease, q->lease_ms));
        add(&w, field, field_len);
        break;
    case HLK_SCRIPT_LOCK_END:
        add(&w, field, field_len);
        add(&w, channel, hlk_key_channel(channel, q->name, q->name_len));
        add(&w, void_ms, hlk_text_number(void_ms, q->voiding ? HLK_VOID_MS : 0));
        break;
    case HLK_SCRIPT_LOCK_REACQUIRE:
        add(&w, field, field_len);
        add(&w, count, hlk_text_number(count, q->count));
        add(&w, lease, hlk_text_number(lease, q->lease_ms));
        break;
    default:        /* break, query */
        add(&w, channel, hlk_key_channel(channel, q->name, q->name_len));
        break;
    }
    q->copies++;                        /* before: once sent, a call with `done` may be gone */
    enum hlk_status status = send_words(mux, &q->call, &w);
    if (status != HLK_OK)
        q->copies--;
    return status;
}

enum hlk_status hlk_renewals_send(hlk_mux *mux, struct hlk_call *call, const char *client_id,
                                  const struct hlk_renewal *renewals, unsigned n, bool whole)
{
    struct words w;
    char fields[RENEWALS_MOST][HLK_FIELD_MAX], leases[RENEWALS_MOST][24], keys[24];
    keys[hlk_text_number(keys, n)] = '\0';
    add_script(&w, HLK_SCRIPT_LOCK_RENEW, whole, keys);
    for (unsigned i = 0; i < n; i++)
        add(&w, renewals[i].name, renewals[i].name_len);
    for (unsigned i = 0; i < n; i++) {
        add(&w, leases[i], hlk_text_number(leases[i], renewals[i].lease_ms));
        add(&w, fields[i], hlk_field(fields[i], client_id, renewals[i].hold));
    }
    return send_words(mux, call, &w);
}

/* --- what the end of a copy means --- */

void hlk_question_drop_reply(struct hlk_question *q)
{
    if (q->call.reply)
        freeReplyObject(q->call.reply);
    q->call.reply = NULL;
}

enum hlk_question_step hlk_question_end(struct hlk_question *q, bool refusals_pass, struct hlk_error *error)
{
    if (atomic_load(&q->call.end) != HLK_CALL_ANSWERED) {
        q->doubt |= atomic_load(&q->call.end) == HLK_CALL_BROKEN;
        return HLK_STEP_AGAIN;
    }
    enum hlk_reply_kind kind = hlk_reply_read(q->call.reply, error);
    if (kind == HLK_REPLY_ANSWER)
        return HLK_STEP_ANSWER;
    hlk_question_drop_reply(q);
    q->whole = kind == HLK_REPLY_NOSCRIPT;
    if (kind == HLK_REPLY_NOSCRIPT)
        return HLK_STEP_AGAIN;
    if (kind == HLK_REPLY_LATER || (kind == HLK_REPLY_NO_WRITES && refusals_pass))
        return HLK_STEP_PAUSE;
    return HLK_STEP_FAULT;
}

/* --- blocking --- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sleeps a pause. False: no time is left for it. */
static bool pause_until_later(struct hlk_self *self, const struct hlk_limits *limits)
{
    int64_t now = hlk_clock_ms();
    if (now >= limits->at_ms || now >= limits->up_by_ms)
        return false;
    hlk_self_allow_cancel(self);
    (void)hlk_park_until(&self->park, limits->mask, sooner(now + HLK_PAUSE_MS, limits->at_ms), -1, NULL);
    hlk_self_forbid_cancel(self);
    return true;
}

/* Sends one copy and waits for its end. HLK_OK: it has ended. */
static enum hlk_status one_copy(struct hlk_question *q, hlk_mux *mux, struct hlk_self *self,
                                const struct hlk_limits *limits, bool *left, struct hlk_error *error)
{
    enum hlk_status status = HLK_OK;
    if (!*left) {                       /* else it flies already: wait on for it */
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
        if (status != HLK_OK)
            return status;
        enum hlk_question_step step = hlk_question_end(q, limits->refusals_pass, error);
        if (step == HLK_STEP_ANSWER)
            return HLK_OK;
        if (step == HLK_STEP_FAULT)
            return error->status;
        if (step == HLK_STEP_AGAIN && limits->once && q->doubt)
            return hlk_error_set(error, HLK_E_UNSURE, "sent, and the connection broke before an answer came");
        if (step == HLK_STEP_PAUSE && !pause_until_later(self, limits))
            return error->status;
        if (limits->mask && hlk_park_peek(&self->park, limits->mask))
            return hlk_error_set(error, HLK_INTERRUPTED, "interrupted");
    }
}

/* --- the greeting --- */

/* Tries each command that our scripts use, where it changes nothing, and names the first that this user may not run. A key
 * or channel that is refused says nothing: the user's may have another pattern, so the key is no declared one, which would
 * keep the probe from running at all. SUBSCRIBE is tried by itself, and taken back at once. */
static const char probe[] =
    "local key = ARGV[1]\n"
    "local tries = { {'exists', key}, {'hexists', key, 'x'}, {'hkeys', key}, {'hgetall', key}, {'pttl', key}, {'pexpire', key, 1},\n"
    "  {'zscore', key, 'x'}, {'hdel', key, 'x'}, {'del', key}, {'zremrangebyscore', key, 0, 0}, {'zadd', key, 'xx', 0, 'x'},\n"
    "  {'time'}, {'pubsub', 'numsub'}, {'publish', key, ''}, {'hset', key, 'x', 1}, {'del', key} }\n"
    "for _, try in ipairs(tries) do\n"
    "  local answer = redis.pcall(unpack(try))\n"
    "  if type(answer) == 'table' and answer.err and string.find(answer.err, 'run this command', 1, true) then\n"
    "    return try[1] == 'pubsub' and 'pubsub|numsub' or try[1]\n"
    "  end\n"
    "end\n"
    "return nil\n";

static enum hlk_status check_greeting(unsigned i, const redisReply *reply, struct hlk_error *error)
{
    if (i < HLK_SCRIPT_COUNT)
        return HLK_OK;          /* SCRIPT LOAD: without that right the first use of each script sends its text */
    if (i > HLK_SCRIPT_COUNT) {
        bool barred = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "subscribe'");
        return barred ? hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str) : HLK_OK;
    }
    if (reply->type == REDIS_REPLY_STRING)
        return hlk_error_set(error, HLK_E_AUTH, "this user may not run %s (docs/acl.md has the rights it needs)", reply->str);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "'eval"))
        return hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str);
    if (reply->type == REDIS_REPLY_ERROR && hlk_reply_read(reply, NULL) == HLK_REPLY_LATER)
        return hlk_error_set(error, HLK_E_CONNECT, "%s", reply->str);
    return HLK_OK;
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
