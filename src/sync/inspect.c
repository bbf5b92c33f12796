/* What the server says of a lock, and what the client has counted. */
#include "sync/handle.h"

#include <string.h>

static void read_state(const struct hlk_question *q, void *ctx)
{
    const redisReply *reply = q->call.reply;
    struct hlk_lock_state *out = ctx;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 6 || reply->element[2]->type != REDIS_REPLY_STRING)
        return;
    int64_t ttl = reply->element[0]->integer, listen = reply->element[1]->integer, queued = reply->element[4]->integer;
    out->waiting = listen > queued ? listen : queued;
    if (reply->element[2]->len == 0)
        return;
    out->held = 1;
    out->ttl_ms = ttl;
    out->count = reply->element[3]->integer;
    size_t len = reply->element[2]->len < sizeof out->holder - 1 ? reply->element[2]->len : sizeof out->holder - 1;
    memcpy(out->holder, reply->element[2]->str, len);
    out->holder[len] = '\0';
}

static bool mine(hlk_lock *lock, const char *holder)
{
    char field[HLK_FIELD_MAX];
    struct hlk_view view;
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return false;
    hlk_session_view(lock->session, hlk_lock_holder(lock, self).id, &view);
    if (view.lost || view.count == 0)
        return false;
    (void)hlk_field(field, lock->client->id, view.h);
    return strcmp(field, holder) == 0;
}

enum hlk_status hlk_lock_query(hlk_lock *lock, struct hlk_lock_state *out)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    enum hlk_status status = hlk_lock_check(lock, "query");
    if (status != HLK_OK)
        return status;
    if (!out || out->size < sizeof out->size)
        return hlk_lock_fails(lock, "query", HLK_E_INVALID, "set out->size before the call");
    struct hlk_question q = { .script = HLK_SCRIPT_LOCK_QUERY };
    status = hlk_lock_ask(lock, "query", &q, 0, false, read_state, &state);
    if (status != HLK_OK)
        return status;
    state.mine = state.held && mine(lock, state.holder);
    state.size = out->size;
    memcpy(out, &state, out->size < sizeof state ? out->size : sizeof state);
    return HLK_OK;
}

enum hlk_status hlk_client_counters(const hlk_client *client, struct hlk_counters *out)
{
    if (!client || !out || out->size < sizeof out->size)
        return hlk_last_set(HLK_E_INVALID, "counters: %s", client ? "set out->size before the call" : "client is NULL");
    if (client->process != hlk_self_process())
        return hlk_last_set(HLK_E_FORKED, "counters: %s", hlk_status_text(HLK_E_FORKED));
    const struct hlk_lease_counts *from = &client->table.counts;
    struct hlk_mux_counts wire;
    hlk_mux_counts(client->mux, &wire);
    struct hlk_counters all = {
        .size = out->size,
        .held = from->held,
        .waiting = from->waiting,
        .acquired = from->acquired,
        .reentered = from->reentered,
        .busy = from->busy,
        .timeouts = from->timeouts,
        .interrupted = from->interrupted,
        .lost = from->lost,
        .released = from->released,
        .release_unsure = from->release_unsure,
        .orphaned = from->orphaned,
        .renewals = from->renewals,
        .renewals_late = from->renewals_late,
        .woken = from->woken,
        .woken_by_ttl = from->woken_by_ttl,
        .granted = from->granted,
        .passed = from->passed,
        .handed_back = from->handed_back,
        .commands = wire.commands,
        .writes = wire.writes,
        .reconnects = wire.reconnects,
    };
    for (int i = 0; i < 32; i++)
        all.wait_us[i] = from->wait_us[i];
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
    return HLK_OK;
}
