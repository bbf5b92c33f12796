#include "script/greeting.h"

#include "base/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SUBSCRIBE is tried by itself, and taken back at once, on a channel of another name than the probe's: the probe of
 * another connection of this client publishes meanwhile, and its message would be taken for a reply. */
enum { GREETING_PROBE, GREETING_SUBSCRIBE }; /* then UNSUBSCRIBE */

enum { PROBE, MISSING, RUN_ID, UPTIME, PROBED }; /* lua/probe.lua */

/* NULL: this is not the probe's answer. */
static const char *probed(unsigned i, const redisReply *reply, int what)
{
    HLK_DEBUG_ASSERT(what >= 0 && what < PROBED);
    bool probe = (i == GREETING_PROBE || i == HLK_GREETING_LATE) && reply->type == REDIS_REPLY_ARRAY;
    if (!probe || reply->elements != PROBED)
        return NULL;
    const redisReply *of = reply->element[PROBE], *word = reply->element[what];
    bool ours = of->type == REDIS_REPLY_STRING && strcmp(of->str, "probe") == 0;
    return ours && word->type == REDIS_REPLY_STRING ? word->str : NULL;
}

static uint64_t server_of(unsigned i, const redisReply *reply)
{
    const char *id = probed(i, reply, RUN_ID);
    char digits[17] = ""; /* random: the first 64 bits will do */
    if (id)
        (void)snprintf(digits, sizeof digits, "%.16s", id);
    return strspn(digits, "0123456789abcdef") == 16 ? strtoull(digits, NULL, 16) : 0;
}

/* Both of its moments are whole seconds. */
static int64_t uptime_of(unsigned i, const redisReply *reply)
{
    const char *uptime = probed(i, reply, UPTIME);
    long long seconds = uptime && *uptime ? strtoll(uptime, NULL, 10) : -1;
    if (seconds < 0 || seconds > INT64_MAX / 2000)
        return -1;
    return seconds > 0 ? (int64_t)(seconds - 1) * 1000 : 0;
}

static enum hlk_status check_subscribe(const redisReply *reply, struct hlk_error *error)
{
    bool barred =
        reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "subscribe'");
    return barred ? hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str) : HLK_OK;
}

/* Of a command's name. Another string is no answer of the probe's: the stream is out of step. */
#define LETTERS "abcdefghijklmnopqrstuvwxyz|"

static enum hlk_status check_greeting(unsigned i, const redisReply *reply, struct hlk_error *error)
{
    if (i != GREETING_PROBE && i != HLK_GREETING_LATE)
        return check_subscribe(reply, error);
    const char *missing = probed(i, reply, MISSING);
    if (missing && *missing && missing[strspn(missing, LETTERS)] == '\0')
        return hlk_error_set(error, HLK_E_AUTH, "this user may not run %s (docs/acl.md has the rights it needs)",
                             missing);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "'eval"))
        return hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str);
    enum hlk_reply_kind kind = hlk_reply_read(reply, NULL);
    if (kind == HLK_REPLY_NOSCRIPT && i == GREETING_PROBE)
        return HLK_BUSY;
    bool later = kind == HLK_REPLY_LATER || kind == HLK_REPLY_REPLICA;
    return later ? hlk_error_set(error, HLK_E_CONNECT, "%s", reply->str) : HLK_OK;
}

bool hlk_scripts_greeting(struct hlk_greeting *greeting, const char *client_id, bool pubsub, bool sharded)
{
    HLK_DEBUG_ASSERT(client_id && greeting->bytes.len == 0);
    const struct hlk_script_text *probe =
        sharded ? &hlk_script_sharded_table[HLK_SCRIPT_PROBE] : &hlk_script_table[HLK_SCRIPT_PROBE];
    char key[HLK_KEY_MAX], channel[HLK_KEY_MAX];
    (void)snprintf(key, sizeof key, "hasplock_probe:{%s}", client_id);
    (void)snprintf(channel, sizeof channel, "hasplock_probed:{%s}", client_id);
    const char *evalsha[] = { "EVALSHA", probe->sha1, "0", key, pubsub ? "1" : "0" };
    const char *eval[] = { "EVAL", probe->text, "0", key, pubsub ? "1" : "0" };
    const char *subscribe[] = { sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channel };
    const char *unsubscribe[] = { sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", channel };
    greeting->check = check_greeting;
    greeting->server = server_of;
    greeting->uptime_ms = uptime_of;
    greeting->replies = pubsub ? 3 : 1;
    return hlk_buffer_add_command(&greeting->bytes, 5, evalsha, NULL) &&
           hlk_buffer_add_command(&greeting->late, 5, eval, NULL) &&
           (!pubsub || (hlk_buffer_add_command(&greeting->bytes, 2, subscribe, NULL) &&
                        hlk_buffer_add_command(&greeting->bytes, 2, unsubscribe, NULL)));
}
