/* What a connection says first: the scripts, the rights that they need, and who the server is. */
#include "script/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tries each command that our scripts use, where it changes nothing, and names the first that this user may not run.
 * A key or channel that is refused says nothing: the user's may have another pattern, so the key is no declared one,
 * which would keep the probe from running at all. ARGV[2]: also those for pub/sub; "shards": sharded, where
 * the key's slot may be another server's, which says nothing either. SUBSCRIBE is tried by itself, and taken back at
 * once, on a channel of another name: the probe of another connection of this client publishes meanwhile, and its
 * message would be taken for a reply. */
enum { GREETING_PROBE = HLK_SCRIPT_COUNT, GREETING_INFO, GREETING_SUBSCRIBE }; /* then UNSUBSCRIBE */

static const char probe[] =
    "local key = ARGV[1]\n"
    "local tries = { {'exists', key}, {'hexists', key, 'x'}, {'hkeys', key}, {'hgetall', key}, {'pttl', key},\n"
    "  {'pexpire', key, 1}, {'zscore', key, 'x'}, {'hdel', key, 'x'}, {'del', key}, {'zremrangebyscore', key, 0, 0},\n"
    "  {'zadd', key, 'xx', 0, 'x'}, {'zrem', key, 'x'}, {'zrangebyscore', key, 1, 2}, {'zcount', key, 1, 2},\n"
    "  {'zrevrangebyscore', key, 2, 1}, {'zrank', key, 'x'}, {'zrange', key, 0, 0}, {'zrevrank', key, 'x'},\n"
    "  {'zmscore', key, 'x'}, {'zpopmin', key},\n"
    "  {'time'}, {'hset', key, 'x', 1}, {'del', key} }\n"
    "if ARGV[2] then\n"
    "  local shards = ARGV[2] == 'shards'\n"
    "  tries[#tries + 1] = {'pubsub', shards and 'shardnumsub' or 'numsub'}\n"
    "  tries[#tries + 1] = {shards and 'spublish' or 'publish', key, ''}\n"
    "end\n"
    "for _, try in ipairs(tries) do\n"
    "  local answer = redis.pcall(unpack(try))\n"
    "  if type(answer) == 'table' and answer.err and (string.find(answer.err, 'run this command', 1, true)\n"
    "      or string.find(answer.err, 'permissions to run the', 1, true)) then\n"
    "    return try[1] == 'pubsub' and 'pubsub|' .. try[2] or try[1]\n"
    "  end\n"
    "end\n"
    "return nil\n";

/* Of INFO: "run_id:<40 hex digits>", new for each process. A user may have no right to it. */
static uint64_t server_of(unsigned i, const redisReply *reply)
{
    static const char word[] = "\nrun_id:";
    if (i != GREETING_INFO || reply->type != REDIS_REPLY_STRING)
        return 0;
    const char *at = strstr(reply->str, word);
    char digits[17] = ""; /* random: the first 64 bits will do */
    if (at)
        (void)snprintf(digits, sizeof digits, "%.16s", at + strlen(word));
    return strspn(digits, "0123456789abcdef") == 16 ? strtoull(digits, NULL, 16) : 0;
}

/* Both of its moments are whole seconds. */
static int64_t uptime_of(unsigned i, const redisReply *reply)
{
    static const char word[] = "\nuptime_in_seconds:";
    const char *at = i == GREETING_INFO && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, word) : NULL;
    long long seconds = at ? strtoll(at + strlen(word), NULL, 10) : 0;
    return seconds > 0 && seconds < INT64_MAX / 2000 ? (int64_t)(seconds - 1) * 1000 : -1;
}

/* Of a command's name. Another string is no answer of the probe's: the stream is out of step. */
#define LETTERS "abcdefghijklmnopqrstuvwxyz|"

static enum hlk_status check_greeting(unsigned i, const redisReply *reply, struct hlk_error *error)
{
    if (i < GREETING_PROBE)
        return HLK_OK; /* SCRIPT LOAD: without that right the first use of each script sends its text */
    if (i == GREETING_INFO)
        return HLK_OK;
    if (i >= GREETING_SUBSCRIBE) {
        bool barred = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 &&
                      strstr(reply->str, "subscribe'");
        return barred ? hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str)
                      : HLK_OK;
    }
    if (reply->type == REDIS_REPLY_STRING && reply->str[strspn(reply->str, LETTERS)] == '\0')
        return hlk_error_set(error, HLK_E_AUTH, "this user may not run %s (docs/acl.md has the rights it needs)",
                             reply->str);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0 && strstr(reply->str, "'eval"))
        return hlk_error_set(error, HLK_E_AUTH, "%s (docs/acl.md has the rights it needs)", reply->str);
    enum hlk_reply_kind kind = hlk_reply_read(reply, NULL);
    bool later = kind == HLK_REPLY_LATER || kind == HLK_REPLY_REPLICA;
    return later ? hlk_error_set(error, HLK_E_CONNECT, "%s", reply->str) : HLK_OK;
}

bool hlk_scripts_greeting(struct hlk_greeting *greeting, const char *client_id, bool pubsub, bool sharded)
{
    char key[HLK_KEY_MAX], channel[HLK_KEY_MAX];
    greeting->check = check_greeting;
    greeting->server = server_of;
    greeting->uptime_ms = uptime_of;
    greeting->replies = 0;
    for (unsigned i = 0; i < HLK_SCRIPT_COUNT; i++, greeting->replies++) {
        const struct hlk_script_text *script = sharded ? &hlk_script_sharded_table[i] : &hlk_script_table[i];
        const char *argv[] = { "SCRIPT", "LOAD", script->text };
        size_t lens[] = { 6, 4, script->len };
        if (!hlk_buffer_add_command(&greeting->bytes, 3, argv, lens))
            return false;
    }
    (void)snprintf(key, sizeof key, "hasplock_probe:{%s}", client_id);
    (void)snprintf(channel, sizeof channel, "hasplock_probed:{%s}", client_id);
    const char *eval[] = { "EVAL", probe, "0", key, sharded ? "shards" : "pubsub" };
    const char *subscribe = sharded ? "SSUBSCRIBE" : "SUBSCRIBE",
               *unsubscribe = sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE";
    greeting->replies += pubsub ? 4 : 2;
    return hlk_buffer_add_command(&greeting->bytes, pubsub ? 5 : 4, eval, NULL) &&
           hlk_buffer_add_command(&greeting->bytes, 2, (const char *[]){ "INFO", "server" }, NULL) &&
           (!pubsub || (hlk_buffer_add_command(&greeting->bytes, 2, (const char *[]){ subscribe, channel }, NULL) &&
                        hlk_buffer_add_command(&greeting->bytes, 2, (const char *[]){ unsubscribe, channel }, NULL)));
}
