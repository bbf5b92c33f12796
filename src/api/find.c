/* Which kind of lock a name is: lua/lock_find.lua. */
#include "api/find.h"

#include "base/debug.h"
#include "handle/send.h"
#include "script/shared_commands.h"

#include <string.h>

#define NUMBERS 4 /* of the answer: kind, number, parties, waiters */

struct finding {
    struct hlk_lock_found found;
    bool understood;
};

static void read_found(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    struct finding *finding = ctx;
    int64_t numbers[NUMBERS] = { 0 };
    finding->understood = reply->type == REDIS_REPLY_ARRAY && reply->elements == NUMBERS;
    for (size_t i = 0; finding->understood && i < NUMBERS; i++) {
        finding->understood = reply->element[i]->type == REDIS_REPLY_INTEGER;
        numbers[i] = reply->element[i]->integer;
    }
    finding->found.kind = (int)numbers[0];
    finding->found.number = numbers[1];
    finding->found.parties = numbers[2];
    finding->found.waiters = numbers[3];
}

enum hlk_status hlk_lock_find_at(hlk_lock *handle, hlk_pipeline *at, int64_t max_ms, struct hlk_lock_found *out,
                                 struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(out && (at != NULL) == (error != NULL));
    static const char what[] = "unexpected reply of the server";
    const struct hlk_command cmd = { .type = &hlk_command_find, .pipeline = at };
    const struct hlk_send_limits limits = { .max_ms = max_ms, .error = error };
    struct finding finding = { HLK_LOCK_FOUND_INIT, false };
    enum hlk_status status = hlk_lock_send(handle, "find", &cmd, &limits, read_found, &finding);
    if (status == HLK_OK && !finding.understood)
        return error ? hlk_error_set(error, HLK_E_SERVER, what) : hlk_lock_fail(handle, "find", HLK_E_SERVER, what);
    if (status == HLK_OK)
        *out = finding.found;
    return status;
}

/* The handle is a fair lock's, which is cheap because it has no entry. */
enum hlk_status hlk_lock_find(hlk_client *client, const char *name, struct hlk_lock_found *out)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_lock_found found = HLK_LOCK_FOUND_INIT;
    enum hlk_status status = hlk_client_check(client, "find", name);
    if (status != HLK_OK)
        return status;
    if (!out || out->size < sizeof out->size)
        return hlk_last_set(HLK_E_INVALID, "find: set out->size before the call");
    size_t len = hlk_lock_check_name(client, "find", name);
    if (len == 0)
        return HLK_E_INVALID;
    opts.kind = HLK_LOCK_FAIR;
    hlk_lock *handle = hlk_lock_make(client, name, len, &opts);
    if (!handle)
        return hlk_last_set(HLK_E_NOMEM, "find \"%.128s\": no memory", name);
    status = client->topology ? client->topology->locks->find(handle, &found)
                              : hlk_lock_find_at(handle, NULL, 0, &found, NULL);
    hlk_lock_destroy(handle);
    if (status != HLK_OK)
        return status;
    found.size = out->size;
    memcpy(out, &found, out->size < sizeof found ? out->size : sizeof found);
    return HLK_OK;
}
